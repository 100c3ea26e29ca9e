"""Store a design matrix as compressed rows, which are never made dense."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .._typing import AnyArray, Float, Int, Num, PerRow
from .base import ByColumn, ColumnProducts, Design, EntryBlocks, PerColumn, RowProducts, SignSums, SquaredByColumn
from .columns import ColumnSummary, merge_summaries, summarise
from .dense import DenseDesign
from .kernels import ROUNDING
from .products import ShiftedProducts, SparseProducts, shift_columns
from .rows import RowsInMemory
from .threads import LIMITS

__all__ = ["ShiftedSparseDesign", "SparseDesign", "of_matrix", "stacked"]


class SparseDesign(RowsInMemory):
    """Compressed sparse rows; see :class:`bayesdrop.designs.Design` for the methods.

    Accepts every scipy format, arrays and matrices, with int32 or int64 indices; stored zeros are ignored.
    For 0/1 data the square is the matrix itself and is not stored.

    Parameters
    ----------
    X : scipy sparse (n, p)
        Finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> SparseDesign(sparse.eye_array(2) * 3).sq_matvec(np.array([1.0, 2.0])).tolist()
    [9.0, 18.0]
    """

    is_sparse = True
    gram_columns = 1000

    def __init__(self, X: Any) -> None:
        self._given = sparse.csr_array(X)
        self.shape: tuple[int, int] = self._given.shape
        n, p = self.shape
        # A dense Gram matrix only if it needs no more memory than the entries.
        self.prefers_gram = p * p <= self._given.nnz and p <= self.gram_columns
        self.prefers_outer_gram = not self.prefers_gram and n * n <= self._given.nnz and n <= self.gram_columns

    @cached_property
    def _x(self) -> Any:
        """Canonical rows in double precision, without explicit zeros."""
        csr = self._given
        if csr.indices.dtype == np.int64 and max(csr.nnz, *csr.shape) < np.iinfo(np.int32).max:
            # Indices of half the size take half the time to read.
            csr = sparse.csr_array(
                (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32)), shape=csr.shape
            )
        csr = csr.astype(np.float64, copy=False)
        if not csr.has_canonical_format or not np.all(csr.data):
            csr = csr.copy()  # the caller's matrix is unchanged
            csr.sum_duplicates()
            csr.eliminate_zeros()
        return csr

    @cached_property
    def is_binary(self) -> bool:
        """Whether every stored entry is 1."""
        return bool(np.all(self._x.data == 1))

    @cached_property
    def _products(self) -> Any:
        """Products, made at the first use, because samplers need none."""
        return SparseProducts(self._x, self.is_binary)

    def __getitem__(self, rows: Any) -> SparseDesign:
        """Rows that a mask, numbers or a slice selects."""
        return SparseDesign(self._given[rows])

    def select_columns(self, index: Int[np.ndarray, " q"]) -> SparseDesign | None:
        """See :class:`bayesdrop.designs.Design`."""
        return SparseDesign(self._x[:, index])

    def __sizeof__(self) -> int:
        """Bytes of the matrix, by which a scheduler estimates the cost of moving it."""
        return object.__sizeof__(self) + int(self._x.data.nbytes + self._x.indices.nbytes + self._x.indptr.nbytes)

    def _with_data(self, data: Num[np.ndarray, " m"]) -> Any:
        return sparse.csr_array((data, self._x.indices, self._x.indptr), shape=self.shape)

    def pair_matvec(self, w: ByColumn, w_sq: SquaredByColumn) -> RowProducts:
        """``(X w, X² w_sq)``."""
        return self._products.forward(w, w_sq)

    def pair_rmatvec(self, r: Num[AnyArray, "n K"], r_sq: Num[AnyArray, "n L"]) -> ColumnProducts:
        """``(Xᵀ r, (X²)ᵀ r_sq)``."""
        return self._products.backward(r, r_sq)

    def sampled_products(
        self, left: PerRow, right: ByColumn, square: PerColumn, linear: PerColumn
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)``; see :class:`bayesdrop.designs.Design`."""
        return self._products.sampled(left, right, square, linear)

    def gram(self, omega: Num[AnyArray, " n"]) -> Float[np.ndarray, "p p"]:
        """``Xᵀ diag(ω) X``, dense (p, p)."""
        return self._products.gram(omega)

    def outer_gram(self, scale: PerColumn) -> Float[np.ndarray, "n n"]:
        """``X diag(s) Xᵀ``, dense (n, n)."""
        scaled = self._with_data(self._x.data * np.sqrt(scale)[self._x.indices])
        return (scaled @ scaled.T).toarray()

    def sign_sums(self, r: Num[AnyArray, "n K"]) -> SignSums:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)``."""
        if self.is_binary:
            return self.rmatvec(r), np.zeros((self.shape[1], r.shape[1]))
        above = self._with_data((self._x.data > 0).astype(np.float64)).T @ r
        if self.minimum() >= 0:
            return above, np.zeros_like(above)
        return above, self._with_data((self._x.data < 0).astype(np.float64)).T @ r

    def minimum(self) -> float:
        """Smallest entry, absent zeros included."""
        return min(0.0, float(self._x.data.min())) if self._x.nnz else 0.0

    def entries(self) -> EntryBlocks:
        """Non-zero entries as ``(rows, columns, values)`` in blocks of rows."""
        ends = self._x.indptr
        start, n = 0, self.shape[0]
        while start < n:
            # As many rows as fit, and at least one.
            stop = max(int(np.searchsorted(ends, ends[start] + LIMITS.cached, side="right")) - 1, start + 1)
            part = slice(ends[start], ends[stop])
            if ends[stop] > ends[start]:
                rows = np.repeat(np.arange(start, stop), np.diff(ends[start : stop + 1]))
                yield rows, self._x.indices[part], self._x.data[part]
            start = stop

    def matrix(self) -> Any:
        """Compressed rows as the user gave them."""
        return self._given

    def compressed(self) -> Any:
        """Compressed rows in double precision."""
        return self._x

    def transposed(self, dtype: Any) -> Any:
        """Raise TypeError: sparse rows are never made dense."""
        raise TypeError("X: expected dense rows, got sparse ones, which are never made dense; use X.toarray().")

    def shifted(self, centre: Float[np.ndarray, " p"]) -> SparseDesign:
        """``X − c``: columns with most entries stored are filled; for the others products subtract ``c``."""
        X = self._x
        # Filling at most doubles the memory. Other columns are at least half zeros, so that their mean is at most their
        # standard deviation in size, and subtraction in products loses no digits.
        filled = np.where(2 * np.bincount(X.indices, minlength=self.shape[1]) > self.shape[0], centre, 0.0)
        remainder, X = centre - filled, shift_columns(X, filled)
        return ShiftedSparseDesign(X, remainder) if np.any(remainder) else SparseDesign(X)


class ShiftedSparseDesign(SparseDesign):
    """Sparse rows minus a centre, ``X − 1cᵀ``, which would be dense and is not formed.

    Parameters
    ----------
    X : csr (n, p)
        Canonical, without explicit zeros.
    centre : array (p,)
        Centre ``c``.

    Examples
    --------
    >>> design = SparseDesign(sparse.csr_array(np.diag([4.0, 0.0, 2.0]))).shifted(np.array([1.0, 0.0, 0.0]))
    >>> design.matvec(np.ones(3)).tolist(), design.sq_matvec(np.ones(3)).tolist()
    ([3.0, -1.0, 1.0], [9.0, 1.0, 5.0])
    """

    def __init__(self, X: Any, centre: Float[np.ndarray, " p"]) -> None:
        super().__init__(X)
        self._centre = centre

    @cached_property
    def _products(self) -> Any:
        return ShiftedProducts(super()._products, self._centre)

    @cached_property
    def _apart(self) -> Num[np.ndarray, " m"]:
        """Stored entries minus the centre; entries equal to it up to rounding are 0."""
        about = self._centre[self._x.indices]
        apart = self._x.data - about
        apart[np.abs(apart) <= ROUNDING * np.abs(about)] = 0.0
        return apart

    def __getitem__(self, rows: Any) -> ShiftedSparseDesign:
        """Rows that a mask, numbers or a slice selects."""
        return ShiftedSparseDesign(self._given[rows], self._centre)

    def select_columns(self, index: Int[np.ndarray, " q"]) -> ShiftedSparseDesign:
        """See :class:`bayesdrop.designs.Design`."""
        return ShiftedSparseDesign(self._x[:, index], self._centre[index])

    def outer_gram(self, scale: PerColumn) -> Float[np.ndarray, "n n"]:
        """``(X − 1cᵀ) diag(s) (X − 1cᵀ)ᵀ``, dense (n, n)."""
        side = (self._x @ (scale * self._centre))[:, None]
        return super().outer_gram(scale) - side - side.T + scale @ self._centre**2

    def sign_sums(self, r: Num[AnyArray, "n K"]) -> SignSums:
        """Counts of the signs of ``X − 1cᵀ``, where entries that are not stored have the sign of ``−c``."""
        signs = self._apart > 0, self._apart < 0, self._x.data != 0
        above, below, stored = (self._with_data(part.astype(np.float64)).T @ r for part in signs)
        absent, centre = r.sum(axis=0) - stored, self._centre[:, None]
        return above + np.where(centre < 0, absent, 0.0), below + np.where(centre > 0, absent, 0.0)

    def minimum(self) -> float:
        """Smallest entry, where entries that are not stored are ``−c``."""
        absent = np.bincount(self._x.indices, minlength=self.shape[1]) < self.shape[0]
        both = np.append(self._apart, -self._centre[absent])
        return float(both.min()) if len(both) else 0.0

    def matrix(self) -> Any:
        """Compressed rows with the columns filled."""
        return shift_columns(self._x, self._centre)

    def compressed(self) -> Any:
        """None, since compressed rows would be filled."""
        return None

    def parts(self, size: int | None = None) -> Iterator[tuple[slice, SparseDesign]]:
        """Blocks of rows in order, small enough to fill their columns."""
        limit = max(1, LIMITS.cached // max(1, int(np.count_nonzero(self._centre))))
        return super().parts(limit if size is None else min(size, limit))

    def entries(self) -> EntryBlocks:
        """Non-zero entries of ``X − 1cᵀ`` as ``(rows, columns, values)`` in blocks of rows."""
        for block, part in self.parts():
            for rows, columns, values in SparseDesign(part.matrix()).entries():
                yield rows + block.start, columns, values

    def column_summary(self, weight: Num[AnyArray, " n"]) -> ColumnSummary:
        """Summary of the columns; see :func:`.columns.summarise`."""
        return merge_summaries([summarise(part.matrix(), weight[rows]) for rows, part in self.parts()])

    def shifted(self, centre: Float[np.ndarray, " p"]) -> SparseDesign:
        """``X − 1(c + d)ᵀ`` for another centre ``d``."""
        return SparseDesign(self._x).shifted(self._centre + centre)


def of_matrix(matrix: Any) -> Design:
    """Wrap an array or compressed rows as a design."""
    return DenseDesign(matrix) if isinstance(matrix, np.ndarray) else SparseDesign(matrix)


def stacked(above: Design, below: Design) -> Design:
    """Stack the rows of two designs in memory; the result is sparse if either is."""
    parts = above.matrix(), below.matrix()
    if above.is_sparse or below.is_sparse:
        return SparseDesign(sparse.vstack([sparse.csr_array(part) for part in parts], format="csr"))
    return DenseDesign(np.concatenate(parts))
