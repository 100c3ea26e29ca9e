r"""Compute as many leading singular values and right vectors as the shrinkage rule of :mod:`.shrinkage` needs.

The rule stops at the first singular value that is not above its threshold, so a guess of the rank is extended until
that value has been computed. There are two algorithms; neither makes a sparse matrix dense or forms an ``n × n`` matrix
unless ``n`` is the smaller side:

- if the smaller side is at most 2,000, or more than a third of the singular values are needed: the Gram matrix of that
  side, in double precision, and its leading eigenvectors, refined by the singular values of ``X`` times them.
- otherwise Lanczos iteration (ARPACK, through ``scipy.sparse.linalg.svds``) to round-off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.utils import gen_batches

from .._typing import Float
from .entries import Complete
from .shrinkage import count_kept

__all__ = ["Rules", "leading"]


@dataclass(frozen=True)
class Rules:
    """Sizes that choose the algorithm.

    Attributes
    ----------
    rows : int
        Rows converted to double precision at a time.
    gram_side : int
        Largest side for which the Gram matrix is always used; the eigenvectors of 2,000 take seconds.
    guess : int
        First guess of the rank.
    """

    rows: int = 4096
    gram_side: int = 2000
    guess: int = 24


RULES = Rules()


def leading(
    entries: Complete,
    weight: float,
    most: int | None = None,
    generator: np.random.RandomState | None = None,
    rules: Rules = RULES,
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "p k"]]:
    """Singular values and right vectors of ``X`` that the shrinkage of weight ``γ`` needs.

    Parameters
    ----------
    entries : Complete
        The data.
    weight : float
        ``γ``, above 0.
    most : int, optional
        Maximum number of values.
    generator : numpy.random.RandomState, optional
        Source of the start vector of Lanczos iteration; by default one of seed 0.
    rules : Rules
        Sizes that choose the algorithm.

    Returns
    -------
    values : array (k,)
        Leading singular values, descending: those that the rule keeps, the next one if there is one, and a few more.
    right : array (p, k)
        Right singular vectors.

    Examples
    --------
    >>> values, right = leading(Complete(np.diag([3.0, 2.0, 0.1])), 0.2)
    >>> np.round(values[:3], 6)
    array([3. , 2. , 0.1])
    """
    side = min(entries.shape)
    cap = side if most is None else min(most, side)
    generator = np.random.RandomState(0) if generator is None else generator
    guess = rules.guess
    if side <= rules.gram_side:
        return _from_gram(entries, weight, cap, rules)
    while True:
        # ARPACK is faster only for a small share of the spectrum.
        if min(guess, cap) > side // 3:
            return _from_gram(entries, weight, cap, replace(rules, guess=guess))
        k = min(guess, cap)
        start = generator.uniform(-1, 1, size=side).astype(entries.dtype)
        _, values, rows = svds(_operator(entries), k=k, v0=start)
        values, right = values[::-1].astype(np.float64), rows[::-1].T.astype(np.float64)
        if k == cap or count_kept(values, weight) < k:
            return values, right
        guess *= 2


def _operator(entries: Complete) -> Any:
    return LinearOperator(
        entries.shape,
        matvec=lambda v: entries.times(v.reshape(-1, 1))[:, 0],
        rmatvec=lambda u: entries.transposed_times(u.reshape(-1, 1))[:, 0],
        matmat=entries.times,
        rmatmat=entries.transposed_times,
        dtype=entries.dtype,
    )


def _from_gram(
    entries: Complete, weight: float, cap: int, rules: Rules
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "p k"]]:
    n, p = entries.shape
    gram, k = _gram(entries, rules.rows), min(rules.guess, cap)
    while True:
        squares, vectors = linalg.eigh(gram, subset_by_index=(len(gram) - k, len(gram) - 1), check_finite=False)
        if k == cap or count_kept(np.sqrt(np.maximum(squares[::-1], 0.0)), weight) < k:
            break
        k = min(4 * k, cap)
    # Singular values of the image have the accuracy of X; square roots of the Gram eigenvalues lose half of the digits.
    vectors = vectors[:, ::-1].astype(entries.dtype)
    image = (entries.times(vectors) if p <= n else entries.transposed_times(vectors)).astype(np.float64)
    left, values, rotation = np.linalg.svd(image, full_matrices=False)
    return values, vectors.astype(np.float64) @ rotation.T if p <= n else left


def _gram(entries: Complete, size: int) -> Float[np.ndarray, "side side"]:
    """Gram matrix of the smaller side of ``X − 1mᵀ``, in double precision; ``size`` dense rows at a time."""
    narrow, mean = entries.shape[1] <= entries.shape[0], entries.mean
    X = entries.X if narrow else entries.X.T
    if not issparse(X):

        def part(rows: slice) -> Float[np.ndarray, "rows side"]:
            block = X[rows].astype(np.float64)
            if mean is not None:
                block -= mean if narrow else mean[rows, None]
            return block

        return sum(block.T @ block for block in map(part, gen_batches(len(X), size)))
    wide = X.astype(np.float64)
    gram = np.asarray((wide.T @ wide).toarray())
    if mean is None:
        return gram
    mean = mean.astype(np.float64)
    if narrow:
        cross = np.outer(np.asarray(wide.sum(axis=0)).ravel(), mean)
        return gram - cross - cross.T + entries.shape[0] * np.outer(mean, mean)
    image = np.asarray(wide.T @ mean)
    return gram - image[:, None] - image[None, :] + mean @ mean
