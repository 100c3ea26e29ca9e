"""Pairs of a row and a draw of many classes: what their masks add to the scores, and what is left for points.

What is left when ``J`` entries have their masks enumerated is normal, with the covariance

    Σ_{j > J} p_j(1 − p_j) c_j c_jᵀ.

Of fewer entries than classes the ``√(p_j(1 − p_j)) c_j`` themselves are a factor of it: a point has a coordinate for
each entry, and ``K`` classes cost ``K``. Of more the factor is Cholesky's, of the contrasts with the last class.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..._typing import Float, Int
from ...losses.softmax import JITTER, normal_points
from .enumeration import log_chances, log_sum

__all__ = ["SIZES", "Pairs", "has_factor", "log_totals"]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the averages.

    Attributes
    ----------
    first, step, most : int
        Entries that have their masks enumerated at first, by how many more at a time, and at most.
    points, halved : int
        Points of few enumerated entries, unless coordinates ask for more, and entries up to which there are so many.
    shared : int
        Of fewer entries than classes rows with as many, rounded up to these, share their points, whatever the others.
    least : float
        Sums of products of exponentials below this may have lost digits, and are had from the sums of scores.
    """

    first: int = 3
    step: int = 2
    most: int = 11
    points: int = 128
    halved: int = 5
    shared: int = 16
    least: float = 1e-250


SIZES = Sizes()


@dataclass(frozen=True)
class Pairs:
    """Some rows with some draws: moments of the scores and the entries that may be dropped, the largest first.

    Attributes
    ----------
    mean, cov : array (N, K), (N, K, K)
        Moments of the scores; there is no ``cov`` of more classes than entries.
    entries : array (N, J, K)
        What the largest entries add to the scores if they are kept, times nothing.
    keep : array (N, J)
        Probability that they are.
    count : int array (N,)
        Number of entries that may be dropped: with so many enumerated nothing is left.
    spread : array (N, q, K), optional
        Standard deviations of what all entries add, in the order of ``entries``, instead of ``cov``.
    """

    mean: Float[np.ndarray, "N K"]
    cov: Float[np.ndarray, "N K K"] | None
    entries: Float[np.ndarray, "N J K"]
    keep: Float[np.ndarray, "N J"]
    count: Int[np.ndarray, " N"]
    spread: Float[np.ndarray, "N q K"] | None = None

    def take(self, chosen: Int[np.ndarray, " some"]) -> Pairs:
        """Some of the pairs."""
        parts: dict[str, Any] = {name: None if part is None else part[chosen] for name, part in vars(self).items()}
        return Pairs(**parts)

    def factors(
        self, J: int
    ) -> tuple[Float[np.ndarray, "N A"], Float[np.ndarray, "N A K"], Float[np.ndarray, "N K M"]]:
        """Log chance of each mask of the first ``J`` entries, and scores at masks and points less the largest class's.

        The score of a class is the sum of that of a mask and that of a point.
        """
        (N, K), J = self.mean.shape, min(J, self.entries.shape[1])
        chosen, keep = self.entries[:, :J], self.keep[:, :J]
        masks = np.array(list(itertools.product((0.0, 1.0), repeat=J))).reshape(2**J, J)
        log_chance = np.zeros((N, 2**J))
        for kept, log_keep, log_drop in zip(masks.T, *(part.T for part in log_chances(1 - keep)), strict=True):
            log_chance += np.where(kept == 1, log_keep[:, None], log_drop[:, None])
        base = self.mean - np.einsum("nj,njk->nk", keep, chosen)
        scores = base[:, None, :] + masks @ chosen
        if np.all(self.count <= J):
            points = np.zeros((N, K, 1))
        elif self.cov is None:
            left = np.swapaxes(np.asarray(self.spread)[:, J:], 1, 2)
            points = left @ few_points(left.shape[2], J, left.shape[2]).T
        else:
            rest = self.cov - np.einsum("nj,njk,njl->nkl", keep * (1 - keep), chosen, chosen)
            points = _root(rest) @ few_points(K - 1, J, 2 * (K - 1)).T
        return log_chance, scores - scores.max(axis=2, keepdims=True), points - points.max(axis=1, keepdims=True)


def log_totals(at_mask: Float[np.ndarray, "N A K"], at_point: Float[np.ndarray, "N K M"]) -> Float[np.ndarray, "N A M"]:
    """Logarithms of the sums over classes of the exponentials of their scores, at each mask and point.

    Examples
    --------
    >>> far = np.array([0.0, -2000.0, -1000.0])
    >>> log_totals(far.reshape(1, 1, 3), far[::-1].reshape(1, 3, 1)).round(3).tolist()
    [[[-999.307]]]
    """
    total = np.exp(at_mask) @ np.exp(at_point)
    poor = np.nonzero(total < SIZES.least)
    with np.errstate(divide="ignore"):
        logs = np.asarray(np.log(total))
    if len(poor[0]):
        n, a, m = poor
        logs[poor] = log_sum(at_mask[n, a] + at_point[n, :, m])
    return logs


@cache
def few_points(dimension: int, J: int, least: int) -> Float[np.ndarray, "M k"]:
    """Normal points with mean 0 and covariance 1, at ``least`` so many pairs; the fewer, the less is left to them."""
    points = normal_points(dimension)
    half = points[: len(points) // 2]
    few = half[: max((SIZES.points // 2) >> max(J - SIZES.halved, 0), least)]
    few = np.linalg.solve(np.linalg.cholesky(few.T @ few / len(few)), few.T).T
    return np.concatenate([few, -few])


def _root(cov: Float[np.ndarray, "N K K"]) -> Float[np.ndarray, "N K k"]:
    """Factor of the covariances of the contrasts with the last class, with a row of zeros for it."""
    contrast = cov[:, :-1, :-1] - cov[:, :-1, -1:] - cov[:, -1:, :-1] + cov[:, -1:, -1:]
    size = contrast.shape[1]
    scale = np.maximum(np.einsum("nkk->n", contrast) / size, 0.0)
    # What is subtracted may leave −1e-16 of what was there.
    ridge = (max(JITTER, 1e-12) * scale + 1e-12)[:, None, None] * np.eye(size)
    return np.concatenate([_factor(contrast, ridge), np.zeros((len(contrast), 1, size))], axis=1)


def _factor(cov: Float[np.ndarray, "N k k"], ridge: Float[np.ndarray, "N k k"]) -> Float[np.ndarray, "N k k"]:
    """Cholesky's factor of each covariance with its ridge where there is one, else that of its eigenvectors.

    The two differ, and so do results at few points: which of them a row has depends on the row alone. All are tried at
    once, and where one has none, the halves, so that rows without one cost the others little.
    """
    try:
        return np.linalg.cholesky(cov + ridge)
    except np.linalg.LinAlgError:
        if len(cov) == 1:
            value, vector = np.linalg.eigh(cov)
            return np.asarray(vector * np.sqrt(np.maximum(value, 0.0))[:, None, :])
    half = len(cov) // 2
    return np.concatenate([_factor(cov[part], ridge[part]) for part in (slice(half), slice(half, None))])


def has_factor(entries: Any, K: int) -> Any:
    """Whether so many entries, a number or an array, are fewer than the contrasts of the classes.

    Examples
    --------
    >>> has_factor(3, 5), has_factor(4, 5)
    (True, False)
    """
    return entries < K - 1
