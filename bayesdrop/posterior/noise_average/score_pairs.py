"""Pairs of a row and a draw for many classes: effects of masks on the scores, and normal points for other entries.

The masks of the first ``J`` entries are enumerated. The sum of the others counts as normal, with the covariance

    Σ_{j > J} p_j(1 − p_j) c_j c_jᵀ.

Its factor is the triangle of the QR decomposition of the rows ``√(p_j(1 − p_j)) c_j``, contrasts with the last class.
The triangle has as many rows as there are entries or contrasts, whichever are fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ..._typing import Float, Int
from ...losses.softmax import normal_points
from .enumeration import all_masks, log_sum

__all__ = ["RULES", "Pairs", "log_totals"]


@dataclass(frozen=True)
class Rules:
    """Sizes of the averages.

    Attributes
    ----------
    first, step, max_enumerated : int
        Number of enumerated entries: first, increment, and maximum.
    points, halved : int
        Number of points for at most ``halved`` enumerated entries, unless the dimension needs more.
    shared : int
        Rows with fewer entries than classes share points, for numbers of entries rounded up to multiples of this.
    smallest_total : float
        Sums of products of exponentials below this may be inaccurate, and are computed from logarithms.
    error : float
        Maximum change of a result in the last step.
    """

    first: int = 3
    step: int = 2
    max_enumerated: int = 11
    points: int = 128
    halved: int = 5
    shared: int = 16
    smallest_total: float = 1e-250
    error: float = 2e-3


RULES = Rules()


@dataclass(frozen=True)
class Pairs:
    """Rows with draws: moments of the scores and the entries that may be dropped, the largest first.

    Attributes
    ----------
    mean : array (N, K)
        Means of the scores.
    spread : array (N, q, K)
        Signed standard deviations of the effect of each entry on the scores.
    entries : array (N, J, K)
        Effects of the largest entries on the scores if they are kept.
    keep : array (N, J)
        Probabilities that these entries are kept.
    count : int array (N,)
        Number of entries that may be dropped; if all are enumerated no points are needed.
    """

    mean: Float[np.ndarray, "N K"]
    spread: Float[np.ndarray, "N q K"]
    entries: Float[np.ndarray, "N J K"]
    keep: Float[np.ndarray, "N J"]
    count: Int[np.ndarray, " N"]

    def take(self, chosen: slice | Int[np.ndarray, " some"]) -> Pairs:
        """Some of the pairs."""
        return Pairs(**{name: part[chosen] for name, part in vars(self).items()})

    def factors(
        self, J: int
    ) -> tuple[Float[np.ndarray, "N A"], Float[np.ndarray, "N A K"], Float[np.ndarray, "N K M"]]:
        """Log probability of each mask of the first ``J`` entries, and parts of the scores at masks and at points.

        The score of a class, relative to the largest class, is the sum of its parts at a mask and at a point.
        """
        (N, K), J = self.mean.shape, min(J, self.entries.shape[1])
        chosen, keep = self.entries[:, :J], self.keep[:, :J]
        masks = (np.arange(2**J)[:, None] >> np.arange(J) & 1).astype(np.float64)
        _, log_chance = all_masks(keep, 1 - keep)
        base = self.mean - np.einsum("nj,njk->nk", keep, chosen)
        scores = base[:, None, :] + masks @ chosen
        points = np.zeros((N, K, 1))
        if np.any(self.count > J):
            contrast = self.spread[:, :, :-1] - self.spread[:, :, -1:]
            contrast[:, :J] = 0.0
            root = np.linalg.qr(contrast, mode="r")
            # With a positive diagonal the factor, and so the average, is a smooth function of the row.
            sign = np.where(np.diagonal(root, axis1=1, axis2=2) < 0, -1.0, 1.0)
            factor = np.swapaxes(root * sign[:, :, None], 1, 2)
            points = np.pad(factor @ few_points(factor.shape[2], J).T, ((0, 0), (0, 1), (0, 0)))
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
    poor = np.nonzero(total < RULES.smallest_total)
    with np.errstate(divide="ignore"):
        logs = np.asarray(np.log(total))
    if len(poor[0]):
        n, a, m = poor
        logs[poor] = log_sum(at_mask[n, a] + at_point[n, :, m])
    return logs


@cache
def few_points(dimension: int, J: int) -> Float[np.ndarray, "M k"]:
    """Normal points with mean 0 and covariance 1, at least two pairs per dimension; fewer where ``J`` is large."""
    points = normal_points(dimension)
    half = points[: len(points) // 2]
    few = half[: max((RULES.points // 2) >> max(J - RULES.halved, 0), 2 * dimension)]
    few = np.linalg.solve(np.linalg.cholesky(few.T @ few / len(few)), few.T).T
    return np.concatenate([few, -few])
