"""Multiply sparse matrices by blocks, for the designs.

``forward(w, w_sq)`` is ``(X w, X² w_sq)`` and ``backward(r, r_sq)`` is ``(Xᵀ r, (X²)ᵀ r_sq)``, for blocks of any width,
zero included; the square is elementwise, and is stored unless all entries are 1. Rows minus a centre, ``X − c``, are
dense rows, sparse rows with filled columns, or products of the original rows with a correction.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from .._memory import BLOCK
from .._typing import AnyArray, Float, Int, Num
from .base import ByColumn, ColumnProducts, PerColumn, RowProducts, SquaredByColumn
from .kernels import ROUNDING
from .threads import LIMITS, Limits, side_by_side

__all__ = ["ShiftedProducts", "SparseProducts", "shift", "shift_columns"]

ByRow: TypeAlias = Num[np.ndarray, "n K"]
SquaredByRow: TypeAlias = Num[np.ndarray, "n L"]
SampledProducts: TypeAlias = tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]


class SparseProducts:
    """Products of compressed rows by SciPy, which releases the interpreter lock; a large matrix is cut for threads.

    The number of parts depends on sizes only, so that results do not depend on the number of threads.

    Examples
    --------
    >>> products = SparseProducts(sparse.csr_array([[2.0, 0.0], [0.0, 3.0]]), False)
    >>> [part.tolist() for part in products.forward(np.ones((2, 1)), np.ones((2, 1)))]
    [[[2.0], [3.0]], [[4.0], [9.0]]]
    """

    def __init__(self, csr: Any, binary: bool, limits: Limits = LIMITS) -> None:
        self._x = csr
        square = csr if binary else sparse.csr_array((csr.data**2, csr.indices, csr.indptr), shape=csr.shape)
        self._parts = [
            (rows, _rows(csr, rows), _rows(square, rows))
            for rows in _shares(csr.indptr, limits.parts if csr.nnz >= limits.products else 1)
        ]

    def forward(self, w: ByColumn, w_sq: SquaredByColumn) -> RowProducts:
        """See :class:`bayesdrop.designs.Design`."""
        products = side_by_side([partial(_products, x, x_sq, w, w_sq) for _, x, x_sq in self._parts])
        first, second = (np.concatenate(parts) for parts in zip(*products, strict=True))
        return first, second

    def backward(self, r: ByRow, r_sq: SquaredByRow) -> ColumnProducts:
        """See :class:`bayesdrop.designs.Design`."""
        # Transposes are views in compressed columns: nothing is copied.
        products = side_by_side([partial(_products, x.T, x_sq.T, r[rows], r_sq[rows]) for rows, x, x_sq in self._parts])
        first, second = (np.sum(parts, axis=0) for parts in zip(*products, strict=True))
        return first, second

    def sampled(self, left: ByRow, right: ByColumn, square: PerColumn, linear: PerColumn) -> SampledProducts:
        """See :class:`bayesdrop.designs.Design`."""
        x, columns = self._x.data, self._x.indices
        rows = np.repeat(np.arange(self._x.shape[0]), np.diff(self._x.indptr))
        inner = np.empty(len(x))
        step = max(1, LIMITS.cached // max(left.shape[1], 1))
        for start in range(0, len(x), step):
            entries = slice(start, start + step)
            both = np.take(left, rows[entries], axis=0), np.take(right, columns[entries], axis=0)
            np.einsum("mk,mk->m", *both, out=inner[entries])
        inner *= x * (square[columns] * x + linear[columns])
        tilted = sparse.csr_array((inner, columns, self._x.indptr), shape=self._x.shape)
        return tilted @ right, tilted.T @ left

    def gram(self, omega: Num[np.ndarray, " n"]) -> Float[np.ndarray, "p p"]:
        """See :class:`bayesdrop.designs.Design`."""
        data = self._x.data * np.repeat(np.sqrt(omega), np.diff(self._x.indptr))
        scaled = sparse.csr_array((data, self._x.indices, self._x.indptr), shape=self._x.shape)
        return (scaled.T @ scaled).toarray()


def _shares(pointers: Int[np.ndarray, " pointers"], count: int) -> list[slice]:
    """Slices that cut compressed rows into at most ``count`` parts with similar numbers of entries.

    Examples
    --------
    >>> _shares(np.array([0, 5, 6, 7, 10]), 2)
    [slice(0, 1, None), slice(1, 4, None)]
    """
    n, entries = len(pointers) - 1, int(pointers[-1])
    ends = np.searchsorted(pointers, np.arange(1, count) * (entries / count))
    return [slice(a, b) for a, b in pairwise([0, *ends.tolist(), n]) if b > a] or [slice(0, 0)]


def _rows(csr: Any, rows: slice) -> Any:
    """Slice of compressed rows, without a copy of their entries."""
    pointers = csr.indptr[rows.start : rows.stop + 1]
    entries = slice(pointers[0], pointers[-1])
    part = sparse.csr_array((len(pointers) - 1, csr.shape[1]), dtype=csr.dtype)
    # The constructor would copy indices of 64 bits.
    part.data, part.indices, part.indptr = csr.data[entries], csr.indices[entries], pointers - pointers[0]
    return part


def _products(matrix: Any, square: Any, block: Num[np.ndarray, "rows K"], other: Num[np.ndarray, "rows L"]) -> Any:
    return _product(matrix, block), _product(square, other)


def _product(matrix: Any, block: Num[np.ndarray, "rows K"]) -> Float[AnyArray, "size K"]:
    """Product with a block; for one column as a vector, which is faster."""
    if block.shape[1] == 1:
        return (matrix @ block[:, 0])[:, None]
    return matrix @ block if block.shape[1] else np.zeros((matrix.shape[0], 0))


def shift(X: Float[np.ndarray, "n p"], centre: Float[np.ndarray, " p"], dtype: Any) -> Float[np.ndarray, "n p"]:
    """``X − c``; entries equal to ``c`` up to rounding become 0, which noise does not change.

    Examples
    --------
    >>> shift(np.array([[1.0, 0.0], [3.0, 5.0]]), np.array([1.0, 0.0]), np.float64).tolist()
    [[0.0, 0.0], [2.0, 5.0]]
    """
    result = np.empty(X.shape, dtype=dtype)
    columns = slice(None) if np.all(centre) else np.flatnonzero(centre)
    about = centre[columns]

    def some(rows: slice) -> None:
        if len(about) < len(centre):
            result[rows] = X[rows]
        part = X[rows, columns] - about
        part[np.abs(part) <= ROUNDING * np.abs(about)] = 0.0
        result[rows, columns] = part

    # Half of the time is the first write to new memory, which threads do in parallel.
    step = max(1, BLOCK // max(X.shape[1], 1))
    side_by_side([partial(some, slice(start, start + step)) for start in range(0, len(X), step)])
    return result


def shift_columns(X: Any, centre: Float[np.ndarray, " p"]) -> Any:
    """``X − 1cᵀ`` for canonical compressed rows; columns with ``c ≠ 0`` are filled.

    Examples
    --------
    >>> shift_columns(sparse.csr_array([[0.0, 2.0], [0.0, 3.0]]), np.array([0.0, 2.0])).toarray().tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    columns = np.flatnonzero(centre)
    if not len(columns):
        return X
    filled = sparse.csr_array(shift(X[:, columns].toarray(), centre[columns], np.float64))
    filled = sparse.csr_array((filled.data, columns[filled.indices], filled.indptr), shape=X.shape)
    others = X.copy()
    others.data[centre[X.indices] != 0] = 0
    others.eliminate_zeros()
    return sparse.csr_array(others + filled)


class ShiftedProducts:
    """Products of ``X − 1cᵀ``, from the products of ``X``; see :class:`bayesdrop.designs.Design`.

        (X − 1cᵀ)w = Xw − cᵀw,        (X − 1cᵀ)²w = X²w − 2X(c∘w) + (c²)ᵀw

    Examples
    --------
    >>> products = ShiftedProducts(SparseProducts(sparse.csr_array([[2.0, 0.0]]), False), np.array([0.0, 1.0]))
    >>> [part.tolist() for part in products.forward(np.ones((2, 1)), np.ones((2, 1)))]
    [[[1.0]], [[5.0]]]
    """

    def __init__(self, products: SparseProducts, centre: Float[np.ndarray, " p"]) -> None:
        self._products, self._centre = products, centre[:, None]

    def forward(self, w: ByColumn, w_sq: SquaredByColumn) -> RowProducts:
        """See :class:`bayesdrop.designs.Design`."""
        K, c = w.shape[1], self._centre
        first, second = self._products.forward(np.concatenate([w, c * w_sq], axis=1), w_sq)
        second = second - 2 * first[:, K:] + (c * c * w_sq).sum(axis=0)
        if not np.any(w_sq < 0):
            second = np.maximum(second, 0.0)  # it is non-negative up to rounding
        return first[:, :K] - (c * w).sum(axis=0), second

    def backward(self, r: ByRow, r_sq: SquaredByRow) -> ColumnProducts:
        """See :class:`bayesdrop.designs.Design`."""
        K, c = r.shape[1], self._centre
        first, second = self._products.backward(np.concatenate([r, r_sq], axis=1), r_sq)
        return first[:, :K] - c * r.sum(axis=0), second - 2 * c * first[:, K:] + c * c * r_sq.sum(axis=0)

    def sampled(self, left: ByRow, right: ByColumn, square: PerColumn, linear: PerColumn) -> SampledProducts:
        """See :class:`bayesdrop.designs.Design`."""
        c = self._centre[:, 0]
        forward, back = self._products.sampled(left, right, square, linear - 2 * square * c)
        level = ((square * c - linear) * c)[:, None]
        return forward + left @ (right.T @ (level * right)), back + level * (right @ (left.T @ left))

    def gram(self, omega: Num[np.ndarray, " n"]) -> Float[np.ndarray, "p p"]:
        """See :class:`bayesdrop.designs.Design`."""
        c = self._centre[:, 0]
        side = np.outer(self._products.backward(omega[:, None], omega[:, None][:, :0])[0], c)
        return self._products.gram(omega) - side - side.T + omega.sum() * np.outer(c, c)
