"""Multiply sparse matrices by blocks, for the designs: by SciPy, or by loops that Numba compiles (:mod:`.kernels`).

``forward(w, w_sq)`` is ``(X w, X² w_sq)`` and ``backward(r, r_sq)`` is ``(Xᵀ r, (X²)ᵀ r_sq)``, for blocks of any width,
zero included; the square is elementwise. SciPy stores the square, unless all entries are 1. The loops compute both
products in one pass, also in single precision. Rows minus a centre, ``X − c``, are dense rows, sparse rows with filled
columns, or products of the original rows with a correction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from .._memory import BLOCK
from .._typing import AnyArray, Float, Int, Num
from . import kernels
from .base import ByColumn, ColumnProducts, PerColumn, RowProducts, SquaredByColumn
from .kernels import ROUNDING, compiled
from .threads import LIMITS, Limits, cores, side_by_side

__all__ = ["CompiledProducts", "ScipyProducts", "ShiftedProducts", "compress", "shift", "shift_columns"]

ByRow: TypeAlias = Num[np.ndarray, "n K"]
SquaredByRow: TypeAlias = Num[np.ndarray, "n L"]
SampledProducts: TypeAlias = tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]


class ScipyProducts:
    """Products by scipy, float64.

    Examples
    --------
    >>> products = ScipyProducts(sparse.csr_array([[2.0, 0.0], [0.0, 3.0]]), False)
    >>> [part.tolist() for part in products.forward(np.ones((2, 1)), np.ones((2, 1)))]
    [[[2.0], [3.0]], [[4.0], [9.0]]]
    """

    def __init__(self, csr: Any, binary: bool) -> None:
        self._x = csr.astype(np.float64, copy=False)
        self._binary = binary
        self._sq = self._x
        if not binary:
            self._sq = sparse.csr_array((self._x.data**2, csr.indices, csr.indptr), shape=csr.shape)
        # Transposes are views in compressed columns: nothing is copied.
        self._xt, self._sqt = self._x.T, self._sq.T

    def forward(self, w: ByColumn, w_sq: SquaredByColumn) -> RowProducts:
        """See :class:`bayesdrop.designs.Design`."""
        return _product(self._x, w), _product(self._sq, w_sq)

    def backward(self, r: ByRow, r_sq: SquaredByRow) -> ColumnProducts:
        """See :class:`bayesdrop.designs.Design`."""
        K = r.shape[1]
        if self._binary and K and r_sq.shape[1]:  # one matrix: scatter both in one pass
            both = self._xt @ np.concatenate([r, r_sq], axis=1)
            return both[:, :K], both[:, K:]
        return _product(self._xt, r), _product(self._sqt, r_sq)

    def sampled(self, left: ByRow, right: ByColumn, square: PerColumn, linear: PerColumn) -> SampledProducts:
        """See :class:`bayesdrop.designs.Design`."""
        x, columns = self._x.data, self._x.indices
        rows = np.repeat(np.arange(self._x.shape[0]), np.diff(self._x.indptr))
        inner = np.empty(len(x))
        step = max(1, BLOCK // max(left.shape[1], 1))
        for start in range(0, len(x), step):
            some = slice(start, start + step)
            np.einsum("mk,mk->m", left[rows[some]], right[columns[some]], out=inner[some])
        inner *= x * (square[columns] * x + linear[columns])
        tilted = sparse.csr_array((inner, columns, self._x.indptr), shape=self._x.shape)
        return tilted @ right, tilted.T @ left

    def gram(self, omega: Num[np.ndarray, " n"]) -> Float[np.ndarray, "p p"]:
        """See :class:`bayesdrop.designs.Design`."""
        data = self._x.data * np.repeat(np.sqrt(omega), np.diff(self._x.indptr))
        scaled = sparse.csr_array((data, self._x.indices, self._x.indptr), shape=self._x.shape)
        return (scaled.T @ scaled).toarray()


class CompiledProducts:
    """Products by loops over canonical compressed rows, float64 or float32; needs Numba.

    Sums over the rows are made in parts, whose number depends on sizes only, so that results do not depend on threads.
    If all entries are 1, a byte per entry is read instead of eight, which saves a third of the time of a product.
    """

    def __init__(self, csr: Any, binary: bool, limits: Limits = LIMITS) -> None:
        self.shape, self.compressed, self._limits = csr.shape, csr, limits
        data = np.ones(csr.nnz, dtype=np.int8) if binary else csr.data
        self._pointers, self._entries = csr.indptr.astype(np.uint64), (_unsigned(csr.indices), data)

    def _rows(self, part: slice) -> tuple[Any, ...]:
        return self._pointers[part.start : part.stop + 1], *self._entries

    def _summed(
        self, shape: tuple[int, ...], products: int, add: Callable[[slice, Float[np.ndarray, "p _"]], None]
    ) -> Float[np.ndarray, "p _"]:
        """Return a sum to which ``add(rows, total)`` adds, in parts if ``products`` is large."""
        count = products // (self._limits.worth * int(np.prod(shape)) + 1) if products >= self._limits.products else 1
        parts = _shares(self._pointers, int(np.clip(count, 1, LIMITS.parts)))
        sums = np.zeros((max(len(parts), 1), *shape))
        side_by_side([partial(add, *part) for part in zip(parts, sums, strict=False)])
        return sums.sum(axis=0) if len(sums) > 1 else sums[0]

    def forward(self, w: ByColumn, w_sq: SquaredByColumn) -> RowProducts:
        """See :class:`bayesdrop.designs.Design`."""
        if w.shape[1] == w_sq.shape[1] == 1:
            both = self._gathered(kernels.gather_two, np.concatenate([w, w_sq], axis=1), (False, True))
            return both[:, :1], both[:, 1:]
        return self._gather(w, False), self._gather(w_sq, True)

    def backward(self, r: ByRow, r_sq: SquaredByRow) -> ColumnProducts:
        """See :class:`bayesdrop.designs.Design`."""
        if r.shape[1] == r_sq.shape[1] == 1:
            both = self._scattered(kernels.scatter_two, np.concatenate([r, r_sq], axis=1), (False, True))
            return both[:, :1], both[:, 1:]
        return self._scatter(r, False), self._scatter(r_sq, True)

    def _gather(self, block: ByColumn, squared: bool) -> Float[np.ndarray, "n K"]:
        K = block.shape[1]
        if K == 2:
            return self._gathered(kernels.gather_two, block, (squared, squared))
        return self._gathered(kernels.gather_one if K == 1 else kernels.gather, block, squared)

    def _scatter(self, block: ByRow, squared: bool) -> Float[np.ndarray, "p K"]:
        K = block.shape[1]
        if K == 2:
            return self._scattered(kernels.scatter_two, block, (squared, squared))
        return self._scattered(kernels.scatter_one if K == 1 else kernels.scatter, block, squared)

    def _gathered(self, loop: Any, block: ByColumn, squared: Any) -> Float[np.ndarray, "n K"]:
        block, result = np.ascontiguousarray(block, np.float64), np.empty((self.shape[0], block.shape[1]))
        if not block.shape[1]:
            return result
        run, products = compiled(loop, "reassoc", "contract"), len(self._entries[0]) * block.shape[1]
        parts = _shares(self._pointers, cores() if products >= self._limits.products else 1)
        side_by_side([partial(run, *self._rows(part), block, squared, result[part]) for part in parts])
        return result

    def _scattered(self, loop: Any, block: ByRow, squared: Any) -> Float[np.ndarray, "p K"]:
        block, run = np.ascontiguousarray(block, np.float64), compiled(loop, "contract")
        if not block.shape[1]:
            return np.empty((self.shape[1], 0))

        def add(part: slice, total: Float[np.ndarray, "p K"]) -> None:
            run(*self._rows(part), block[part], squared, total)

        K = block.shape[1]
        return self._summed((self.shape[1], K), len(self._entries[0]) * K, add)

    def sampled(self, left: ByRow, right: ByColumn, square: PerColumn, linear: PerColumn) -> SampledProducts:
        """See :class:`bayesdrop.designs.Design`."""
        given = [np.ascontiguousarray(part, np.float64) for part in (left, right, square, linear)]
        forward, back = np.zeros(left.shape), np.zeros(right.shape)
        compiled(kernels.sampled, "reassoc", "contract")(*self._columns, *given, forward, back)
        return forward, back

    @cached_property
    def _columns(self) -> tuple[Any, ...]:
        """Compressed columns, made at the first use: the numbers of a column stay in a core's cache."""
        csc = self.compressed.tocsc()
        return csc.indptr.astype(np.uint64), _unsigned(csc.indices), csc.data

    def gram(self, omega: Num[np.ndarray, " n"]) -> Float[np.ndarray, "p p"]:
        """See :class:`bayesdrop.designs.Design`.

        A row adds the products of its pairs of entries, so that no sparse matrix is formed.
        """
        p, weight, loop = self.shape[1], np.ascontiguousarray(omega, dtype=np.float64), compiled(kernels.add_gram)

        def add(part: slice, total: Float[np.ndarray, "p p"]) -> None:
            loop(*self._rows(part), weight[part], total)

        entries = len(self._entries[0])
        lower = self._summed((p, p), entries * (entries // max(2 * self.shape[0], 1)), add)
        return lower + np.tril(lower, -1).T


def _shares(pointers: Int[np.ndarray, " pointers"], count: int) -> list[slice]:
    """Cut compressed rows into at most ``count`` parts of similar numbers of entries.

    Examples
    --------
    >>> _shares(np.array([0, 5, 6, 7, 10]), 2)
    [slice(0, 1, None), slice(1, 4, None)]
    """
    lines, entries = len(pointers) - 1, int(pointers[-1])
    ends = np.searchsorted(pointers, np.arange(1, count) * (entries / count))
    return [slice(a, b) for a, b in pairwise([0, *ends.tolist(), lines]) if b > a]


def _unsigned(indices: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    return indices.view(np.uint32 if indices.dtype.itemsize == 4 else np.uint64)


def compress(X: Float[np.ndarray, "n p"], most: float = np.inf) -> Any:
    """Compress dense rows in their precision; needs Numba.

    None if there are more than ``most`` entries.
    """
    step = max(1, BLOCK // max(X.shape[1], 1))
    parts = [slice(start, start + step) for start in range(0, len(X), step)]
    counts: Int[np.ndarray, " n"] = np.empty(len(X), dtype=np.int64)
    count, write = compiled(kernels.count_entries, "contract"), compiled(kernels.write_entries, "contract")
    side_by_side([partial(count, X[part], counts[part]) for part in parts])
    pointers = np.append(0, np.cumsum(counts))
    if pointers[-1] > most:
        return None
    index = np.int32 if max(int(pointers[-1]), *X.shape) < np.iinfo(np.int32).max else np.int64
    indices, data = np.empty(pointers[-1], dtype=index), np.empty(pointers[-1], dtype=X.dtype)
    side_by_side([partial(write, X[part], pointers[part.start : part.stop + 1], indices, data) for part in parts])
    return sparse.csr_array((data, indices, pointers.astype(index)), shape=X.shape)


def _product(matrix: Any, block: Num[np.ndarray, "rows K"]) -> Float[AnyArray, "size K"]:
    """Product with a block; one column uses the vector path, which is faster."""
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

    # Half of the time is the first write to new memory, which threads share.
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
    rest = X.copy()
    rest.data[centre[X.indices] != 0] = 0
    rest.eliminate_zeros()
    return sparse.csr_array(rest + filled)


class ShiftedProducts:
    """Products of ``X − 1cᵀ``, from the products of ``X``; see :class:`bayesdrop.designs.Design`.

        (X − 1cᵀ)w = Xw − cᵀw,        (X − 1cᵀ)²w = X²w − 2X(c∘w) + (c²)ᵀw

    Examples
    --------
    >>> from .products import ScipyProducts
    >>> products = ShiftedProducts(ScipyProducts(sparse.csr_array([[2.0, 0.0]]), False), np.array([0.0, 1.0]))
    >>> [part.tolist() for part in products.forward(np.ones((2, 1)), np.ones((2, 1)))]
    [[[1.0]], [[5.0]]]
    """

    def __init__(self, products: ScipyProducts | CompiledProducts, centre: Float[np.ndarray, " p"]) -> None:
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
