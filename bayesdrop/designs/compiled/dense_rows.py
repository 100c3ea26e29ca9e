"""Products of dense rows with a few vectors, compiled by Numba (the extra ``fast``).

They read entries in single precision as they are and sum in double precision, where BLAS would need a copy of the rows,
and take half its time with four vectors. Vectors lie one after another, and their number is made a multiple of four, so
that the sums of four of them stay in registers. Products with ``X`` and with its square, which is not stored, are
one pass.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..._typing import Float, Num
from ..block_threads import side_by_side
from .jit import compiled

__all__ = ["backward", "forward", "pair_backward", "pair_forward"]

_WIDTH = 4
# Entries of a part for a thread, and the most parts.
_PART, _PARTS = 1 << 19, 4


# Sums may be ordered as the processor likes, and several taken at once.
_FAST = ("reassoc", "contract")


def forward(X: Float[np.ndarray, "n p"], w: Num[np.ndarray, "p K"]) -> Float[np.ndarray, "n K"]:
    """``X w``, column after column."""
    result = np.empty((_padded(w.shape[1]), X.shape[0]))
    compiled(forward_rows, *_FAST)(X, _rows(w), result)
    return result[: w.shape[1]].T


def backward(X: Float[np.ndarray, "n p"], r: Num[np.ndarray, "n K"]) -> Float[np.ndarray, "p K"]:
    """``Xᵀ r``."""
    result = np.zeros((r.shape[1], X.shape[1]))
    compiled(backward_rows, *_FAST)(X, _lying(r), result)
    return result.T


def pair_forward(
    X: Float[np.ndarray, "n p"], w: Num[np.ndarray, "p K"], w_sq: Num[np.ndarray, "p K"]
) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n K"]]:
    """``(X w, X² w_sq)``, column after column."""
    both = np.empty((2, w.shape[1], X.shape[0]))
    loop, weights = compiled(pair_forward_rows, *_FAST), (_lying(w), _lying(w_sq))
    side_by_side([partial(loop, X[rows], *weights, *both[:, :, rows]) for rows in _parts(X)])
    return both[0].T, both[1].T


def pair_backward(
    X: Float[np.ndarray, "n p"], r: Num[np.ndarray, "n K"], r_sq: Num[np.ndarray, "n K"]
) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p K"]]:
    """``(Xᵀ r, (X²)ᵀ r_sq)``."""
    parts, slopes, squares = _parts(X), _lying(r), _lying(r_sq)
    sums = np.zeros((len(parts), 2, r.shape[1], X.shape[1]))
    loop = compiled(pair_backward_rows, *_FAST)
    side_by_side(
        [
            partial(loop, X[rows], slopes[:, rows], squares[:, rows], *total)
            for rows, total in zip(parts, sums, strict=True)
        ]
    )
    first, second = sums.sum(axis=0)
    return first.T, second.T


def _parts(X: Float[np.ndarray, "n p"]) -> list[slice]:
    """Rows in parts for threads; how many there are is for the sizes to say, so that no bit depends on the threads."""
    count = min(max(X.size // _PART, 1), _PARTS)
    return [slice(len(X) * k // count, len(X) * (k + 1) // count) for k in range(count)]


def _lying(block: Num[np.ndarray, "rows K"]) -> Float[np.ndarray, "K rows"]:
    return np.ascontiguousarray(block.T, dtype=np.float64)


def _padded(count: int) -> int:
    return -(-count // _WIDTH) * _WIDTH


def _rows(w: Num[np.ndarray, "p K"]) -> Float[np.ndarray, "padded p"]:
    """Columns as rows, with rows of zeros to a multiple of four."""
    rows = np.zeros((_padded(w.shape[1]), w.shape[0]))
    rows[: w.shape[1]] = w.T
    return rows


def forward_rows(
    X: Float[np.ndarray, "n p"], weights: Float[np.ndarray, "K p"], result: Float[np.ndarray, "K n"]
) -> None:
    """Write the products of every row with the weights, whose number is a multiple of four."""
    for k in range(0, weights.shape[0], 4):
        for i in range(X.shape[0]):
            one, two, three, four = 0.0, 0.0, 0.0, 0.0
            for d in range(X.shape[1]):
                x = np.float64(X[i, d])
                one += x * weights[k, d]
                two += x * weights[k + 1, d]
                three += x * weights[k + 2, d]
                four += x * weights[k + 3, d]
            result[k, i] = one
            result[k + 1, i] = two
            result[k + 2, i] = three
            result[k + 3, i] = four


def backward_rows(
    X: Float[np.ndarray, "n p"], slopes: Float[np.ndarray, "K n"], result: Float[np.ndarray, "K p"]
) -> None:
    """Add rows times their slopes, four rows at a time, so that a sum is read and written once for them."""
    whole = X.shape[0] - X.shape[0] % 4
    for i in range(0, whole, 4):
        for k in range(slopes.shape[0]):
            one, two, three, four = slopes[k, i], slopes[k, i + 1], slopes[k, i + 2], slopes[k, i + 3]
            for d in range(X.shape[1]):
                result[k, d] += (
                    np.float64(X[i, d]) * one
                    + np.float64(X[i + 1, d]) * two
                    + np.float64(X[i + 2, d]) * three
                    + np.float64(X[i + 3, d]) * four
                )
    for i in range(whole, X.shape[0]):
        for k in range(slopes.shape[0]):
            slope = slopes[k, i]
            for d in range(X.shape[1]):
                result[k, d] += np.float64(X[i, d]) * slope


def pair_forward_rows(
    X: Float[np.ndarray, "n p"],
    weights: Float[np.ndarray, "K p"],
    squares: Float[np.ndarray, "K p"],
    first: Float[np.ndarray, "K n"],
    second: Float[np.ndarray, "K n"],
) -> None:
    """Write the products of every row with weights, and of its square with others."""
    for i in range(X.shape[0]):
        for k in range(weights.shape[0]):
            one, two = 0.0, 0.0
            for d in range(X.shape[1]):
                x = np.float64(X[i, d])
                one += x * weights[k, d]
                two += x * x * squares[k, d]
            first[k, i] = one
            second[k, i] = two


def pair_backward_rows(
    X: Float[np.ndarray, "n p"],
    slopes: Float[np.ndarray, "K n"],
    squares: Float[np.ndarray, "K n"],
    first: Float[np.ndarray, "K p"],
    second: Float[np.ndarray, "K p"],
) -> None:
    """Add rows times their slopes and squares of rows times others, two rows at a time."""
    whole = X.shape[0] - X.shape[0] % 2
    for i in range(0, whole, 2):
        for k in range(slopes.shape[0]):
            one, two = slopes[k, i], slopes[k, i + 1]
            one_sq, two_sq = squares[k, i], squares[k, i + 1]
            for d in range(X.shape[1]):
                x, z = np.float64(X[i, d]), np.float64(X[i + 1, d])
                first[k, d] += x * one + z * two
                second[k, d] += x * x * one_sq + z * z * two_sq
    for i in range(whole, X.shape[0]):
        for k in range(slopes.shape[0]):
            for d in range(X.shape[1]):
                x = np.float64(X[i, d])
                first[k, d] += x * slopes[k, i]
                second[k, d] += x * x * squares[k, i]
