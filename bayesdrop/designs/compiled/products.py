"""Products of a sparse matrix in one pass over its entries, compiled by Numba (the extra ``fast``).

The same as :class:`.._scipy.ScipyProducts`, about twice as fast: ``X w`` and ``X² w_sq`` share one pass, 0/1 data are
not read at all, the square is never stored, float32 data stay float32 with float64 sums. Indices are unsigned, which
spares Numba the check for negative ones. The first use compiles for a few seconds and keeps the result on disk.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..._typing import Float, Int, Num
from .jit import compiled
from .parts import gather_in_parts, scatter_in_parts
from .wide import gather_many, is_narrow, scatter_many, worthwhile

__all__ = ["BINARY", "REAL", "CompiledProducts", "sampled"]

Pointers: TypeAlias = Int[np.ndarray, " pointers"]
"""Where each row begins among the stored entries, and where the last one ends."""

Indices: TypeAlias = Int[np.ndarray, " m"]
"""Column of each stored entry."""

Values: TypeAlias = Float[np.ndarray, " m"]
"""Each stored entry."""


class _Kernels(NamedTuple):
    gather_one: Any
    gather: Any
    scatter_one: Any
    scatter: Any


@cache
def _kernels(binary: bool) -> _Kernels:
    """Kernels over (pointers, indices, data, block, number of columns that meet X rather than X², result)."""
    return _Kernels(*(compiled(loop) for loop in (BINARY if binary else REAL)))


class CompiledProducts:
    """Products by compiled kernels; see :class:`.._scipy.Products`.

    Parameters
    ----------
    csr : scipy.sparse.csr_array (n, p)
        Canonical, float64 or float32.
    binary : bool
        Every entry is 1.
    """

    def __init__(self, csr: Any, binary: bool) -> None:
        self.shape, self.compressed = csr.shape, csr
        self._data = csr.data
        self._indices = csr.indices.view(np.uint32 if csr.indices.dtype.itemsize == 4 else np.uint64)
        self._pointers = csr.indptr.astype(np.uint64)
        self._kernels, self._binary = _kernels(binary), binary

    def forward(
        self, w: Num[np.ndarray, "p K"], w_sq: Num[np.ndarray, "p L"]
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]:
        """See :class:`.._scipy.Products`."""
        lines = self._pointers, self._indices, self._data
        if worthwhile(w.shape[1], w_sq.shape[1], len(self._indices)):
            return gather_many(lines, self._binary, w, w_sq, self.shape[0])
        columns = w.shape[1] + w_sq.shape[1]
        if columns == 2:
            from .lines import gather_two

            return gather_in_parts(gather_two, (*lines, self._binary), w, w_sq)
        return gather_in_parts(self._kernels.gather_one if columns == 1 else self._kernels.gather, lines, w, w_sq)

    def backward(
        self, r: Num[np.ndarray, "n K"], r_sq: Num[np.ndarray, "n L"]
    ) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """See :class:`.._scipy.Products`."""
        lines, p = (self._pointers, self._indices, self._data), self.shape[1]
        if worthwhile(r.shape[1], r_sq.shape[1], len(self._indices)):
            if is_narrow(p):
                return scatter_many(lines, self._binary, r, r_sq, p)
            return gather_many(self._columns, self._binary, r, r_sq, p)
        columns = r.shape[1] + r_sq.shape[1]
        if columns == 2:
            from .lines import scatter_two

            return scatter_in_parts(scatter_two, (*lines, self._binary), r, r_sq, p)
        return scatter_in_parts(self._kernels.scatter_one if columns == 1 else self._kernels.scatter, lines, r, r_sq, p)

    def sampled(
        self,
        left: Num[np.ndarray, "n K"],
        right: Num[np.ndarray, "p K"],
        square: Num[np.ndarray, " p"],
        linear: Num[np.ndarray, " p"],
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]:
        """See :class:`.._scipy.Products`."""
        left, right, square, linear = (np.ascontiguousarray(part, np.float64) for part in (left, right, square, linear))
        forward, back = np.zeros(left.shape), np.zeros(right.shape)
        compiled(sampled, "reassoc", "contract")(*self._columns, left, right, square, linear, forward, back)
        return forward, back

    @cached_property
    def _columns(self) -> tuple[Pointers, Indices, Values]:
        """Compressed columns, made when first used."""
        csc = self.compressed.tocsc()
        rows = csc.indices.view(np.uint32 if csc.indices.dtype.itemsize == 4 else np.uint64)
        return csc.indptr.astype(np.uint64), rows, csc.data


# The loops, in the subset of Python that Numba compiles. Every one takes (pointers, indices, data, block, linear,
# result): a matrix in compressed rows, a block whose first ``linear`` columns meet X and whose others meet X², and
# where to write. Gather is X @ block, scatter Xᵀ @ block. Two columns, the usual case, go by :mod:`.lines`.


def _gather_one_binary(
    pointers: Pointers,
    indices: Indices,
    data: Values,
    vector: Float[np.ndarray, " inside"],
    linear: int,
    result: Float[np.ndarray, " outside"],
) -> None:
    """One column, every entry 1."""
    for i in range(result.shape[0]):
        total = 0.0
        for j in range(pointers[i], pointers[i + 1]):
            total += vector[indices[j]]
        result[i] = total


def _gather_one_real(
    pointers: Pointers,
    indices: Indices,
    data: Values,
    vector: Float[np.ndarray, " inside"],
    linear: int,
    result: Float[np.ndarray, " outside"],
) -> None:
    """One column."""
    for i in range(result.shape[0]):
        total = 0.0
        if linear == 1:
            for j in range(pointers[i], pointers[i + 1]):
                total += np.float64(data[j]) * vector[indices[j]]
        else:
            for j in range(pointers[i], pointers[i + 1]):
                x = np.float64(data[j])
                total += x * x * vector[indices[j]]
        result[i] = total


def _gather_binary(
    pointers: Pointers,
    indices: Indices,
    data: Values,
    block: Float[np.ndarray, "inside K"],
    linear: int,
    result: Float[np.ndarray, "outside K"],
) -> None:
    """Several columns, every entry 1."""
    columns = block.shape[1]
    result[:] = 0.0
    for i in range(result.shape[0]):
        for j in range(pointers[i], pointers[i + 1]):
            d = indices[j]
            for k in range(columns):
                result[i, k] += block[d, np.uint32(k)]


def _gather_real(
    pointers: Pointers,
    indices: Indices,
    data: Values,
    block: Float[np.ndarray, "inside K"],
    linear: int,
    result: Float[np.ndarray, "outside K"],
) -> None:
    """Several columns."""
    columns = block.shape[1]
    result[:] = 0.0
    for i in range(result.shape[0]):
        for j in range(pointers[i], pointers[i + 1]):
            d = indices[j]
            x = np.float64(data[j])
            for k in range(linear):
                result[i, k] += x * block[d, np.uint32(k)]
            for k in range(linear, columns):
                result[i, k] += x * x * block[d, np.uint32(k)]


def _scatter_one_binary(
    pointers: Pointers,
    indices: Indices,
    data: Values,
    vector: Float[np.ndarray, " inside"],
    linear: int,
    result: Float[np.ndarray, " outside"],
) -> None:
    """One column, every entry 1."""
    result[:] = 0.0
    for i in range(vector.shape[0]):
        value = vector[i]
        for j in range(pointers[i], pointers[i + 1]):
            result[indices[j]] += value


def _scatter_one_real(
    pointers: Pointers,
    indices: Indices,
    data: Values,
    vector: Float[np.ndarray, " inside"],
    linear: int,
    result: Float[np.ndarray, " outside"],
) -> None:
    """One column."""
    result[:] = 0.0
    for i in range(vector.shape[0]):
        value = vector[i]
        if linear == 1:
            for j in range(pointers[i], pointers[i + 1]):
                result[indices[j]] += np.float64(data[j]) * value
        else:
            for j in range(pointers[i], pointers[i + 1]):
                x = np.float64(data[j])
                result[indices[j]] += x * x * value


def _scatter_binary(
    pointers: Pointers,
    indices: Indices,
    data: Values,
    block: Float[np.ndarray, "inside K"],
    linear: int,
    result: Float[np.ndarray, "outside K"],
) -> None:
    """Several columns, every entry 1."""
    columns = block.shape[1]
    result[:] = 0.0
    for i in range(block.shape[0]):
        for j in range(pointers[i], pointers[i + 1]):
            d = indices[j]
            for k in range(columns):
                result[d, np.uint32(k)] += block[i, k]


def _scatter_real(
    pointers: Pointers,
    indices: Indices,
    data: Values,
    block: Float[np.ndarray, "inside K"],
    linear: int,
    result: Float[np.ndarray, "outside K"],
) -> None:
    """Several columns."""
    columns = block.shape[1]
    result[:] = 0.0
    for i in range(block.shape[0]):
        for j in range(pointers[i], pointers[i + 1]):
            d = indices[j]
            x = np.float64(data[j])
            for k in range(linear):
                result[d, np.uint32(k)] += x * block[i, k]
            for k in range(linear, columns):
                result[d, np.uint32(k)] += x * x * block[i, k]


def sampled(
    pointers: Pointers,
    indices: Indices,
    data: Values,
    left: Float[np.ndarray, "n K"],
    right: Float[np.ndarray, "p K"],
    square: Float[np.ndarray, " p"],
    linear: Float[np.ndarray, " p"],
    forward: Float[np.ndarray, "n K"],
    back: Float[np.ndarray, "p K"],
) -> None:
    """Add ``E R`` and ``Eᵀ L`` to results; see :meth:`bayesdrop.designs.Design.sampled_products`.

    The matrix is in compressed columns: what belongs to a column stays in a core's cache while its entries go by.
    """
    classes = left.shape[1]
    for d in range(right.shape[0]):
        for j in range(pointers[d], pointers[d + 1]):
            i = indices[j]
            x = np.float64(data[j])
            inner = 0.0
            for k in range(classes):
                inner += left[i, np.uint32(k)] * right[d, k]
            inner *= x * (square[d] * x + linear[d])
            for k in range(classes):
                forward[i, np.uint32(k)] += inner * right[d, k]
            for k in range(classes):
                back[d, k] += inner * left[i, np.uint32(k)]


BINARY = _Kernels(_gather_one_binary, _gather_binary, _scatter_one_binary, _scatter_binary)
"""Loops over entries that are all 1."""

REAL = _Kernels(_gather_one_real, _gather_real, _scatter_one_real, _scatter_real)
"""Loops over any entries."""
