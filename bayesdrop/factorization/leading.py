r"""Leading singular values and right vectors, as many as the shrinkage rule needs.

The rule stops at the first singular value that is not above its threshold, so a guess of the rank is extended until
that value is among those computed. Two ways, neither of which makes a sparse matrix dense or holds an ``n × n`` matrix
unless ``n`` is the smaller side:

- the smaller side has at most 2,000 columns (or rows): the Gram matrix of that side, in double precision, and its
  leading eigenvectors. An eigenvalue ``σ_i²`` has an error of ``ε σ_1²``, so that ``σ_i`` has the relative error
  ``ε (σ_1/σ_i)²/2``. What survives is above ``μ ≥ σ_1 γ/(1 + d̄γ)``, hence this is at most ``ε (1/γ + d̄)²``; where it
  is above 1e-10 the values are taken anew from ``X`` times the vectors (Rayleigh-Ritz), and where even the vectors
  are in doubt a dense ``X`` is decomposed directly.
- else Lanczos iteration (ARPACK, through ``scipy.sparse.linalg.svds``) to round-off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, svds

from .._typing import Float
from .entries import Complete
from .shrinkage import count_kept

__all__ = ["leading"]

# Relative error of a value from the Gram matrix above which it is computed again, and above which its vector is.
_REFINE, _DISTRUST = 1e-10, 1e-6
# Rows that are turned into double precision at a time.
_ROWS = 4096


def leading(
    entries: Complete,
    weight: float,
    most: int | None = None,
    generator: np.random.RandomState | None = None,
    gram_side: int = 2000,
    guess: int = 24,
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "p k"]]:
    """Singular values and right vectors of ``X`` that the shrinkage of weight ``γ`` needs.

    Parameters
    ----------
    entries : Complete
        The data.
    weight : float
        ``γ``, above 0.
    most : int, optional
        No more values than this are wanted.
    generator : numpy.random.RandomState, optional
        Of the start vector of Lanczos iteration; zero by default.
    gram_side : int
        Largest side whose Gram matrix is formed; the eigenvectors of 2,000 take seconds.
    guess : int
        First guess of the rank.

    Returns
    -------
    values : array (k,)
        Leading singular values, descending: those that are kept and the next one, if there is one, and a few more.
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
    if side <= gram_side:
        return _from_gram(entries, weight, cap, guess)
    while True:
        # ARPACK pays off for a small share of the spectrum only.
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
    gram = _gram(entries) if narrow else _gram(_transposed(entries))
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
    if error > _DISTRUST and not issparse(entries.X) and entries.mean is None:
        _, values, rows = np.linalg.svd(entries.X.astype(np.float64), full_matrices=False)
        return values[:cap], rows[:cap].T
    if narrow and error > _REFINE:
        _, values, rotation = np.linalg.svd(entries.times(vectors.astype(entries.dtype)), full_matrices=False)
        return values.astype(np.float64), vectors @ rotation.T
    if not narrow:
        # Its own singular values are the Rayleigh-Ritz ones, whatever the error was.
        image = entries.transposed_times(vectors.astype(entries.dtype)).astype(np.float64)
        right, values, _ = np.linalg.svd(image, full_matrices=False)
        return values, right
    return values, vectors


def _transposed(entries: Complete) -> Any:
    return Complete(entries.X.T)


def _gram(entries: Complete) -> Float[np.ndarray, "p p"]:
    """``XᵀX`` (p, p) in double precision, without the mean."""
    X = entries.X
    if issparse(X):
        wide = X.astype(np.float64)
        return np.asarray((wide.T @ wide).toarray())
    if X.dtype == np.float64:
        return np.asarray(X.T @ X)
    gram = np.zeros((X.shape[1], X.shape[1]))
    for begin in range(0, X.shape[0], _ROWS):
        part = X[begin : begin + _ROWS].astype(np.float64)
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
