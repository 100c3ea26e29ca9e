r"""LKJ prior of a correlation matrix, in coordinates without bounds.

    p(R) ∝ |R|^{η−1}

The partial correlations ``r_ij = tanh y_ij``, ``j < i``, of row i of the Cholesky factor are independent,
``(r_ij + 1)/2 ~ Beta(b_j, b_j)`` with ``b_j = η + (k − 2 − j)/2`` for j from 0, so that

    log p(y) = −2 Σ b_j log cosh y_ij + constant

(Lewandowski, Kurowicka & Joe 2009, Generating random correlation matrices based on vines and extended onion method,
Journal of Multivariate Analysis 100, section 2.4). Coordinates are in the order of the rows.

Shapes: ``k`` effects, ``c = k(k − 1)/2`` pairs.
"""

from __future__ import annotations

import numpy as np

from .._typing import AnyArray, Float

__all__ = ["correlation_root", "log_lkj", "pairs_of", "sample_lkj", "symmetric"]


def correlation_root(y: Float[AnyArray, "*batch c"], k: int) -> Float[AnyArray, "*batch k k"]:
    """Cholesky factor of the correlation matrix at coordinates ``y``.

    Examples
    --------
    >>> correlation_root(np.arctanh(np.array([0.6])), 2).round(6).tolist()
    [[1.0, 0.0], [0.6, 0.8]]
    """
    xp, rows, at = y.__array_namespace__(), [], 0
    zero = xp.zeros(y.shape[:-1], dtype=y.dtype)
    for i in range(k):
        row, left = [], zero + 1
        for _ in range(i):
            row.append(left * xp.tanh(y[..., at]))
            left, at = left / xp.cosh(y[..., at]), at + 1
        rows.append(xp.stack([*row, left, *[zero] * (k - 1 - i)], axis=-1))
    found: Float[AnyArray, "*batch k k"] = xp.stack(rows, axis=-2)
    return found


def log_lkj(y: Float[AnyArray, "*batch c"], k: int, eta: float | AnyArray) -> Float[AnyArray, "*batch"]:
    """Log density of the coordinates up to a constant."""
    xp = y.__array_namespace__()
    column = xp.asarray(np.tril_indices(k, -1)[1], dtype=y.dtype)
    exponent = xp.broadcast_to(2 * eta + k - 2 - column, y.shape)
    density: Float[AnyArray, "*batch"] = xp.sum(exponent * -xp.logaddexp(y, -y), axis=-1)
    return density


def sample_lkj(generator: np.random.Generator, draws: int, k: int, eta: float) -> Float[np.ndarray, "draws k k"]:
    """Cholesky factors of independent correlation matrices."""
    shape = eta + (k - 2 - np.tril_indices(k, -1)[1]) / 2
    return correlation_root(np.arctanh(2 * generator.beta(shape, shape, (draws, len(shape))) - 1), k)


def pairs_of(matrix: Float[AnyArray, "*batch k k"]) -> Float[AnyArray, "*batch c"]:
    """Entries above the diagonal, row by row."""
    first, second = np.triu_indices(matrix.shape[-1], 1)
    found: Float[AnyArray, "*batch c"] = matrix[..., first, second]
    return found


def symmetric(pairs: Float[np.ndarray, "*batch c"], k: int) -> Float[np.ndarray, "*batch k k"]:
    """Correlation matrices with these entries above the diagonal.

    Examples
    --------
    >>> symmetric(np.array([0.5]), 2).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    first, second = np.triu_indices(k, 1)
    found = np.broadcast_to(np.eye(k), (*pairs.shape[:-1], k, k)).copy()
    found[..., first, second] = found[..., second, first] = pairs
    return found
