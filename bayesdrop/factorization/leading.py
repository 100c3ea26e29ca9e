r"""Compute as many leading singular values and right vectors as the shrinkage rule of :mod:`.shrinkage` needs.

The rule stops at the first singular value that is not above its threshold, so a guess of the rank is extended until
that value has been computed. There are two algorithms, neither of which makes a sparse matrix dense or holds an
``n × n`` matrix unless ``n`` is the smaller side:

- the smaller side has at most 2,000 columns (or rows): the Gram matrix of that side, in double precision, and its
  leading eigenvectors. An eigenvalue ``σ_i²`` has an error of ``ε σ_1²``, so that ``σ_i`` has the relative error
  ``ε (σ_1/σ_i)²/2``. The values that the rule keeps are above ``μ ≥ σ_1 γ/(1 + d̄γ)``, so that their error is at most
  ``ε (1/γ + d̄)²``. If it is above ``Rules.refine``, the values are computed again from ``X`` times the vectors
  (Rayleigh-Ritz); if the vectors are inaccurate too, a dense ``X`` is decomposed directly.
- otherwise Lanczos iteration (ARPACK, through ``scipy.sparse.linalg.svds``) to round-off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, svds

from .._typing import Float
from .entries import Complete
from .shrinkage import count_kept

__all__ = ["Rules", "leading"]


@dataclass(frozen=True)
class Rules:
    """Accuracies and sizes.

    Attributes
    ----------
    refine, distrust : float
        Relative error of a value from the Gram matrix above which the value, or its vector too, is computed again.
    rows : int
        Rows converted to double precision at a time.
    gram_side : int
        Largest side whose Gram matrix is formed by choice; the eigenvectors of 2,000 take seconds.
    guess : int
        First guess of the rank.
    """

    refine: float = 1e-10
    distrust: float = 1e-6
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
        Source of the start vector of Lanczos iteration; of seed 0 by default.
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
        return _from_gram(entries, weight, cap, guess)
    while True:
        # ARPACK is faster for a small share of the spectrum only.
        if min(guess, cap) > side // 3:
            return _from_gram(entries, weight, cap, guess)
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
    entries: Complete, weight: float, cap: int, guess: int
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "p k"]]:
    narrow = entries.shape[1] <= entries.shape[0]
    gram = _gram(entries.X if narrow else entries.X.T)
    if entries.mean is not None:
        gram = _centre(gram, entries, narrow)
    side = len(gram)
    k = min(guess, cap)
    while True:
        squares, vectors = linalg.eigh(gram, subset_by_index=(side - k, side - 1), check_finite=False)
        values = np.sqrt(np.maximum(squares[::-1], 0.0))
        if k == cap or count_kept(values, weight) < k:
            break
        k = min(4 * k, cap)
    vectors = vectors[:, ::-1]
    kept = max(count_kept(values, weight), 1)
    smallest = values[kept - 1]
    error = np.inf if smallest == 0 else np.finfo(np.float64).eps * (values[0] / smallest) ** 2
    if values[0] == 0:
        return values, vectors if narrow else np.eye(entries.shape[1], k)
    if error > RULES.distrust and not issparse(entries.X) and entries.mean is None:
        _, values, rows = np.linalg.svd(entries.X.astype(np.float64), full_matrices=False)
        return values[:cap], rows[:cap].T
    if narrow and error > RULES.refine:
        _, values, rotation = np.linalg.svd(entries.times(vectors.astype(entries.dtype)), full_matrices=False)
        return values.astype(np.float64), vectors @ rotation.T
    if not narrow:
        # The singular values of the image are the Rayleigh-Ritz values.
        image = entries.transposed_times(vectors.astype(entries.dtype)).astype(np.float64)
        right, values, _ = np.linalg.svd(image, full_matrices=False)
        return values, right
    return values, vectors


def _gram(X: Any) -> Float[np.ndarray, "p p"]:
    """``XᵀX`` (p, p) in double precision."""
    if issparse(X):
        wide = X.astype(np.float64)
        return np.asarray((wide.T @ wide).toarray())
    if X.dtype == np.float64:
        return np.asarray(X.T @ X)
    gram = np.zeros((X.shape[1], X.shape[1]))
    for begin in range(0, X.shape[0], RULES.rows):
        part = X[begin : begin + RULES.rows].astype(np.float64)
        gram += part.T @ part
    return gram


def _centre(gram: Float[np.ndarray, "side side"], entries: Complete, narrow: bool) -> Float[np.ndarray, "side side"]:
    """Gram matrix of ``X − 1mᵀ`` from that of ``X``."""
    mean = np.asarray(entries.mean, dtype=np.float64)
    if narrow:
        sums = np.asarray(entries.X.sum(axis=0, dtype=np.float64)).ravel()
        cross = np.outer(sums, mean)
        return gram - cross - cross.T + entries.shape[0] * np.outer(mean, mean)
    image = np.asarray(entries.X @ mean, dtype=np.float64)
    return gram - image[:, None] - image[None, :] + mean @ mean
