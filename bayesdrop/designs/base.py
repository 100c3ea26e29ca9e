"""Define the interface of a design: products of its matrix, counts, and vectors over its rows; no model.

A storage implements the abstract methods; all other methods are built on these here, and a storage may override them
with faster ones. ``matvec`` and similar methods take a vector or a block of ``K`` columns; a block of K classes costs
one pass over the data, not K. Vectors over the rows are stored with the rows: the design codes labels, checks weights
and drops rows of weight zero. Callers do arithmetic with such vectors and sum them by ``total``, in memory as on a
cluster. Letters: n rows, p columns, K problems.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from operator import add
from typing import Any, TypeAlias

import numpy as np

from .._typing import AnyArray, Float, Int, Num, PerRow, Shaped
from .columns import ColumnSummary, merge_summaries, summarise

__all__ = [
    "Between", "Blockwise", "ByColumn", "ColumnProducts", "Design", "EntryBlocks", "PerColumn", "RowFunction",
    "RowProducts", "SignSums", "SquaredByColumn", "added", "as_block",
]  # fmt: skip

Between = Callable[[slice, PerRow, PerRow], tuple[PerRow, PerRow]]
ByColumn: TypeAlias = Num[AnyArray, "p K"]
SquaredByColumn: TypeAlias = Num[AnyArray, "p L"]
PerColumn: TypeAlias = Num[AnyArray, " p"]
RowProducts: TypeAlias = tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]
ColumnProducts: TypeAlias = tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]
SignSums: TypeAlias = tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p K"]]
EntryBlocks: TypeAlias = Iterator[tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Num[np.ndarray, " m"]]]
RowFunction = Callable[..., tuple[PerRow, PerRow, PerRow]]


def as_block(vector: Num[AnyArray, "rows ..."]) -> Num[AnyArray, "rows K"]:
    """Return a vector (n,) as a block (n, 1), and a block unchanged."""
    return vector if vector.ndim == 2 else vector[:, None]


def _single(product: Callable[..., Any], vector: Num[AnyArray, "rows ..."], place: int) -> Any:
    """One product of a pair: the vector or block at position ``place``, and a block without columns at the other."""
    block = as_block(vector)
    result = product(*((block, block[:, :0]) if place == 0 else (block[:, :0], block)))[place]
    return result if vector.ndim == 2 else result[:, 0]


def added(total: tuple[Any, ...], parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add two tuples item by item; an empty ``total`` stands for zeros."""
    return tuple(map(add, total, parts)) if total else parts


class Design(ABC):
    """A design matrix ``X`` with ``n`` rows and ``p`` columns.

    Attributes
    ----------
    shape : (int, int)
        ``(n, p)``.
    columns : list of str or None
        Names of the columns of streamed rows or of a Dask data frame; None without names, and for rows in memory.
    zero_based : bool or None
        Whether the indices of svmlight files begin at 0; None for other sources.
    prefers_gram, prefers_outer_gram : bool
        Whether a dense ``gram`` (few columns), or ``outer_gram`` (few rows), costs less than a few dozen products.
    is_sparse : bool
        Whether zeros are not stored, so that the rows are never made dense.
    is_streamed : bool
        Whether the rows are read when needed or on a cluster, so that every product is a pass, in samplers too.
    is_local : bool
        Whether the rows are in this process's memory, as an array or a sparse matrix.
    is_mostly_zero : bool
        Whether a large array has few non-zero entries and is multiplied in compressed rows.
    """

    shape: tuple[int, int]
    columns: list[str] | None = None
    zero_based: bool | None = None
    prefers_gram: bool
    gram_columns = 2000
    prefers_outer_gram: bool = False
    is_sparse = False
    is_streamed = False
    is_local = False
    is_mostly_zero = False

    # Methods that a storage implements

    @abstractmethod
    def pair_matvec(self, w: ByColumn, w_sq: SquaredByColumn) -> tuple[PerRow, PerRow]:
        """``(X w, X² w_sq)``, the square elementwise, in as few passes over the data as the storage allows."""

    @abstractmethod
    def pair_rmatvec(self, r: PerRow, r_sq: PerRow) -> ColumnProducts:
        """``(Xᵀ r, (X²)ᵀ r_sq)`` in as few passes over the data as the storage allows."""

    @abstractmethod
    def sampled_products(
        self, left: PerRow, right: ByColumn, square: PerColumn, linear: PerColumn
    ) -> tuple[PerRow, Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)`` for ``E_ij = (a_j x_ij² + b_j x_ij) ⟨l_i, r_j⟩``, which is not formed.

        ``left`` (n, K) has the rows ``l_i``, ``right`` (p, K) the rows ``r_j``, ``square`` is ``a`` and ``linear`` is
        ``b``, (p,) each. Only non-zero entries of ``X`` contribute, at a cost of O(K) each.
        """

    @abstractmethod
    def gram(self, omega: PerRow) -> Float[np.ndarray, "p p"]:
        """``Xᵀ diag(ω) X``, dense (p, p), for ``ω >= 0`` of shape (n,)."""

    @abstractmethod
    def outer_gram(self, scale: PerColumn) -> Float[np.ndarray, "n n"]:
        """``X diag(s) Xᵀ``, dense (n, n), for ``s >= 0`` of shape (p,)."""

    @abstractmethod
    def sign_sums(self, r: PerRow) -> SignSums:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)`` for ``r`` of shape (n, K), the counts of the rate update."""

    @abstractmethod
    def minimum(self) -> float:
        """Smallest entry, zeros of a sparse matrix included; 0 if there is none."""

    @abstractmethod
    def column_summary(self, weight: PerRow) -> ColumnSummary:
        """Means, spreads and extremes of the columns under row weights ``s`` (n,), in one pass over the data."""

    @abstractmethod
    def shifted(self, centre: Float[np.ndarray, " p"]) -> Design:
        """``X − c`` for ``c`` (p,); entries equal to ``c`` up to rounding, and missing ones, become 0."""

    @abstractmethod
    def matrix(self) -> Any:
        """Whole matrix in memory, array (n, p) or compressed rows; raise TypeError with advice if rows are streamed."""

    @abstractmethod
    def parts(self, size: int | None = None) -> Iterator[tuple[slice, Design]]:
        """Slices of the rows with their designs in memory, of at most ``size`` rows unless the design is streamed."""

    @abstractmethod
    def codes(self, y: Any) -> tuple[Shaped[np.ndarray, " K"], PerRow]:
        """Classes (K,) in order and the class number of each row (n,); raise ValueError unless ``y`` holds labels."""

    @abstractmethod
    def targets(self, y: Any) -> PerRow:
        """Numbers of a regression, (n,); raise ValueError unless they are finite, one for each row."""

    @abstractmethod
    def row_weights(self, sample_weight: Any) -> PerRow:
        """Row weights (n,), ones by default; raise ValueError if negative, not finite, all zero or not n."""

    @abstractmethod
    def class_totals(self, code: PerRow, weight: PerRow, n_classes: int) -> Float[np.ndarray, " K"]:
        """``Σ_i s_i 1[code_i = k]``, (K,)."""

    @abstractmethod
    def zeros(self, columns: int) -> PerRow:
        """Zeros, (n, columns)."""

    @abstractmethod
    def rowwise(self, function: Callable[..., Any], *rows: PerRow, widths: Sequence[int] | None = None) -> Any:
        """Apply a function that treats every row separately to some rows at a time.

        ``widths`` are the numbers of columns of the results if it returns several; a single result has the shape to
        which ``rows`` broadcast.
        """

    @abstractmethod
    def total(self, rows: PerRow) -> Num[np.ndarray, ...]:
        """Sum over the rows, (K,) for (n, K)."""

    # Methods that use only these

    def matvec(self, w: Num[AnyArray, "p ..."]) -> PerRow:
        """``X w``: (p,) or (p, K) to (n,) or (n, K)."""
        return _single(self.pair_matvec, w, 0)

    def rmatvec(self, r: PerRow) -> Float[np.ndarray, "p ..."]:
        """``Xᵀ r``: (n,) or (n, K) to (p,) or (p, K)."""
        return _single(self.pair_rmatvec, r, 0)

    def sq_matvec(self, w: Num[AnyArray, "p ..."]) -> PerRow:
        """``X² w`` with the square taken elementwise."""
        return _single(self.pair_matvec, w, 1)

    def sq_rmatvec(self, r: PerRow) -> Float[np.ndarray, "p ..."]:
        """``(X²)ᵀ r`` with the square taken elementwise."""
        return _single(self.pair_rmatvec, r, 1)

    def back_sums(self, r: PerRow, s: PerRow) -> tuple[Float[np.ndarray, ...], ...]:
        """``(Xᵀr, (X²)ᵀs, Σr, Σs)``."""
        return *self.pair_rmatvec(r, s), self.total(r), self.total(s)

    def normal_product(self, w: ByColumn, w_sq: SquaredByColumn, between: Between) -> tuple[PerRow, ...]:
        """``(a, b, Xᵀr, (X²)ᵀs, Σr, Σs)`` for ``a = X w``, ``b = X² w_sq`` and ``(r, s) = between(rows, a, b)``.

        ``rows`` is the slice of the rows of ``a`` and ``b``, so that one pass over the data computes both products.
        """
        first, second = self.pair_matvec(w, w_sq)
        return first, second, *self.back_sums(*between(slice(None), first, second))

    def product_sums(
        self, w: ByColumn, w_sq: SquaredByColumn, function: RowFunction, *rows: PerRow
    ) -> tuple[Float[np.ndarray, ...], ...]:
        """``(Xᵀr, (X²)ᵀs, Σr, Σs, Σt)`` for ``(r, s, t) = function(X w, X² w_sq, *rows)``.

        The function treats every row separately. Streamed designs pass it one block at a time with its parts of
        ``rows``: one pass over the data, and no vector over all rows is kept.
        """
        r, s, t = function(*self.pair_matvec(w, w_sq), *rows)
        return *self.back_sums(r, s), self.total(t)

    def grams(self, omega: PerRow) -> Float[np.ndarray, "G p p"]:
        """``gram`` of every column of ``ω`` (n, G), in as few passes over the data as the storage allows."""
        return np.stack([self.gram(column) for column in omega.T])

    def occurrences(self, weight: PerRow) -> Float[np.ndarray, " p"]:
        """``1[X ≠ 0]ᵀ s``, (p,), for row weights ``s`` (n,)."""
        above, below = self.sign_sums(weight[:, None])
        return np.asarray((above + below)[:, 0])

    def entries(self) -> EntryBlocks:
        """Non-zero entries as ``(rows, columns, values)``, one block of whole rows after another.

        Row numbers refer to the whole matrix and ascend; a block has a bounded number of entries (or one row), and
        rows without entries are omitted.
        """
        for rows, part in self.parts():
            for within, columns, values in part.entries():
                yield within + rows.start, columns, values

    def each_block(self, function: Callable[..., Any], *rows: PerRow) -> list[Any]:
        """Apply ``function(matrix, *parts)`` to each block of rows, where it is stored, and return the results.

        ``matrix`` is an array or compressed rows, never empty, with its ``parts`` of ``rows``; results are in order.
        """
        return [function(part.matrix(), *(row[block] for row in rows)) for block, part in self.parts() if part.shape[0]]

    def select_columns(self, index: Int[np.ndarray, " q"]) -> Any:
        """Design of some columns, by their numbers; None if the rows are streamed."""
        return None

    def missing_share(self) -> Float[np.ndarray, " p"]:
        """Share of the rows in which each column is missing, (p,); in products missing entries are 0."""
        return np.zeros(self.shape[1])

    def compressed(self) -> Any:
        """Compressed rows, canonical and without zeros; None if they are streamed, shifted, or large and dense."""
        return None

    def transposed(self, dtype: Any) -> Any:
        """``Xᵀ`` of dense rows as a JAX array (p, n); raise TypeError for sparse or streamed rows."""
        return self.matrix()

    def drop_zero_weight(self, weight: PerRow, *rows: PerRow) -> tuple[Any, ...]:
        """Return the design, the weights (n,) and other vectors over the rows, without the rows of weight zero.

        A design that cannot drop rows keeps them, with weight zero.
        """
        return self, weight, *rows

    def persist(self, *rows: PerRow) -> tuple[PerRow, ...]:
        """Compute vectors over the rows on a cluster now, because they are used more than once; else no change."""
        return rows


class Blockwise(Design):
    """Methods that :class:`.blocks.design.Blocks` and :class:`.dask.design.DaskDesign` share: sums over blocks."""

    is_streamed = True
    _minimum: float | None

    @abstractmethod
    def _forward(self, method: str, tails: list[tuple[int, ...]], *weights: Num[AnyArray, "p ..."]) -> list[PerRow]:
        """Apply a method of every block to the same weights; return vectors over the rows, (n, …) for each tail."""

    @abstractmethod
    def sum_over_parts(self, method: str, *rows: PerRow) -> list[Any]:
        """Apply a method of each block to its parts of vectors over the rows, and sum the results over the blocks."""

    def pair_matvec(self, w: ByColumn, w_sq: SquaredByColumn) -> tuple[PerRow, PerRow]:
        """``(X w, X² w_sq)``."""
        first, second = self._forward("pair_matvec", [w.shape[1:], w_sq.shape[1:]], w, w_sq)
        return first, second

    def pair_rmatvec(self, r: PerRow, r_sq: PerRow) -> ColumnProducts:
        """``(Xᵀ r, (X²)ᵀ r_sq)``."""
        first, second = self.sum_over_parts("pair_rmatvec", r, r_sq)
        return first, second

    def back_sums(self, r: PerRow, s: PerRow) -> tuple[Float[np.ndarray, ...], ...]:
        """``(Xᵀr, (X²)ᵀs, Σr, Σs)``."""
        return tuple(self.sum_over_parts("back_sums", r, s))

    def sign_sums(self, r: PerRow) -> SignSums:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)``."""
        above, below = self.sum_over_parts("sign_sums", r)
        return above, below

    def gram(self, omega: PerRow) -> Float[np.ndarray, "p p"]:
        """``Xᵀ diag(ω) X``, dense (p, p)."""
        return self.sum_over_parts("gram", omega)[0]

    def grams(self, omega: PerRow) -> Float[np.ndarray, "G p p"]:
        """``Xᵀ diag(ω_g) X`` of every column of ``ω`` (n, G)."""
        return self.sum_over_parts("grams", omega)[0]

    def column_summary(self, weight: PerRow) -> ColumnSummary:
        """Summary of the columns under row weights."""
        return merge_summaries(self.each_block(summarise, weight))

    def minimum(self) -> float:
        """Smallest entry, recorded in the first pass unless rows were dropped since."""
        if self._minimum is None:
            self._minimum = min(self.each_block(_least), default=0.0)
        return self._minimum


def _least(matrix: Any) -> float:
    return float(matrix.min())
