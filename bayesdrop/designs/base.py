"""Interface of a design: products of its matrix, counts, and vectors over its rows. It never sees the model.

A storage says a few things of its rows (the abstract methods); everything else is written on them here, once, and a
storage that can do better overrides it. ``matvec`` and friends take a vector or a block of ``K`` columns; a block of K
classes costs one pass over the data, not K. Vectors over the rows belong to the design: it codes labels, checks weights
and drops rows of weight zero where its rows are; whoever asks for products does arithmetic with such vectors and sums
them by ``total``, and need not know where they are. Letters: n rows, p columns, K problems.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._typing import AnyArray, Float, Int, Num, PerRow, Shaped
from .columns import ColumnSummary, merge_summaries, summarise

__all__ = ["Between", "Blockwise", "Design", "RowFunction", "as_block"]

Between = Callable[[slice, PerRow, PerRow], tuple[PerRow, PerRow]]
RowFunction = Callable[..., tuple[PerRow, PerRow, PerRow]]


def as_block(vector: Num[AnyArray, "rows ..."]) -> Num[AnyArray, "rows K"]:
    """Return a vector (n,) as a block (n, 1), and a block unchanged."""
    return vector if vector.ndim == 2 else vector[:, None]


class Design(ABC):
    """A design matrix ``X`` with ``n`` rows and ``p`` columns.

    Attributes
    ----------
    shape : (int, int)
        ``(n, p)``.
    columns : list of str or None
        Names of the columns that the source of the rows has, if it is no array.
    zero_based : bool or None
        Whether the indices of the svmlight files that the rows are read from begin at 0; None of other rows.
    prefers_gram, prefers_outer_gram : bool
        Whether a dense ``gram``, or ``outer_gram``, costs less than a few dozen products (few columns; few rows).
    is_sparse : bool
        Whether zeros are not stored, so that nothing dense is made of the rows.
    is_streamed : bool
        Whether every product is a pass over rows that are read or multiplied elsewhere; samplers then pass too.
    is_local : bool
        Whether the rows are in this process's memory, as an array or a sparse matrix.
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

    # What a storage says

    @abstractmethod
    def pair_matvec(self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"]) -> tuple[PerRow, PerRow]:
        """``(X w, X² w_sq)``, the square elementwise, in as few passes over the data as the storage allows."""

    @abstractmethod
    def pair_rmatvec(self, r: PerRow, r_sq: PerRow) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """``(Xᵀ r, (X²)ᵀ r_sq)`` in as few passes over the data as the storage allows."""

    @abstractmethod
    def sampled_products(
        self, left: PerRow, right: Num[AnyArray, "p K"], square: Num[AnyArray, " p"], linear: Num[AnyArray, " p"]
    ) -> tuple[PerRow, Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)`` for ``E_ij = (a_j x_ij² + b_j x_ij) ⟨l_i, r_j⟩``, which is not formed.

        ``left`` (n, K) has the rows ``l_i``, ``right`` (p, K) the rows ``r_j``, ``square`` is ``a`` and ``linear`` is
        ``b``, (p,) each. Only entries where ``X`` is not zero take part: O(K) for each of them.
        """

    @abstractmethod
    def gram(self, omega: PerRow) -> Float[np.ndarray, "p p"]:
        """``Xᵀ diag(ω) X``, dense (p, p), for ``ω >= 0`` of shape (n,); rows of weight 0 cost almost nothing."""

    @abstractmethod
    def outer_gram(self, scale: Num[AnyArray, " p"]) -> Float[np.ndarray, "n n"]:
        """``X diag(s) Xᵀ``, dense (n, n), for ``s`` of shape (p,)."""

    @abstractmethod
    def sign_sums(self, r: PerRow) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p K"]]:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)`` for ``r`` of shape (n, K): what the rate update counts."""

    @abstractmethod
    def minimum(self) -> float:
        """Smallest entry, zeros of a sparse matrix included; 0 if there is none."""

    @abstractmethod
    def column_summary(self, weight: PerRow) -> ColumnSummary:
        """Means, spreads and extremes of the columns under row weights ``s`` (n,), in one pass over the data."""

    @abstractmethod
    def shifted(self, centre: Float[np.ndarray, " p"]) -> Design:
        """``X − c`` for ``c`` (p,), entries at ``c`` but for rounding being 0, as are those that are missing."""

    @abstractmethod
    def matrix(self) -> Any:
        """Whole matrix in memory, array (n, p) or compressed rows; raise TypeError that says what else to do."""

    @abstractmethod
    def parts(self, size: int | None = None) -> Iterator[tuple[slice, Design]]:
        """Designs in memory of some rows each, with where they stand: at most ``size`` rows, or as they are held."""

    @abstractmethod
    def codes(self, y: Any) -> tuple[Shaped[np.ndarray, " K"], PerRow]:
        """Classes (K,) in order and the class number of each row (n,); raise ValueError if ``y`` is no labels."""

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
        """Apply a function that treats every row separately, or at least may be given some rows at a time.

        ``widths`` are the numbers of columns of the results if it returns several; a single one has the common shape
        of ``rows``.
        """

    @abstractmethod
    def total(self, rows: PerRow) -> Num[np.ndarray, ...]:
        """Sum over the rows, (K,) for (n, K)."""

    # What follows from it

    def matvec(self, w: Num[AnyArray, "p ..."]) -> PerRow:
        """``X w``: (p,) or (p, K) to (n,) or (n, K)."""
        block = as_block(w)
        found = self.pair_matvec(block, block[:, :0])[0]
        return found if w.ndim == 2 else found[:, 0]

    def rmatvec(self, r: PerRow) -> Float[np.ndarray, "p ..."]:
        """``Xᵀ r``: (n,) or (n, K) to (p,) or (p, K)."""
        block = as_block(r)
        found = self.pair_rmatvec(block, block[:, :0])[0]
        return found if r.ndim == 2 else found[:, 0]

    def sq_matvec(self, w: Num[AnyArray, "p ..."]) -> PerRow:
        """``X² w`` with the square taken elementwise."""
        block = as_block(w)
        found = self.pair_matvec(block[:, :0], block)[1]
        return found if w.ndim == 2 else found[:, 0]

    def sq_rmatvec(self, r: PerRow) -> Float[np.ndarray, "p ..."]:
        """``(X²)ᵀ r`` with the square taken elementwise."""
        block = as_block(r)
        found = self.pair_rmatvec(block[:, :0], block)[1]
        return found if r.ndim == 2 else found[:, 0]

    def back_sums(self, r: PerRow, s: PerRow) -> tuple[Float[np.ndarray, ...], ...]:
        """``(Xᵀr, (X²)ᵀs, Σr, Σs)``."""
        return *self.pair_rmatvec(r, s), self.total(r), self.total(s)

    def normal_product(
        self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"], between: Between
    ) -> tuple[PerRow, ...]:
        """``(a, b, Xᵀr, (X²)ᵀs, Σr, Σs)`` for ``a = X w``, ``b = X² w_sq`` and ``(r, s) = between(rows, a, b)``.

        ``rows`` says which rows ``a`` and ``b`` belong to, so that one pass over the data can do both products.
        """
        first, second = self.pair_matvec(w, w_sq)
        return first, second, *self.back_sums(*between(slice(None), first, second))

    def product_sums(
        self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"], function: RowFunction, *rows: PerRow
    ) -> tuple[Float[np.ndarray, ...], ...]:
        """``(Xᵀr, (X²)ᵀs, Σr, Σs, Σt)`` for ``(r, s, t) = function(X w, X² w_sq, *rows)``.

        The function treats every row separately and is given some rows at a time, with their parts of vectors over the
        rows: one pass over the data where the storage allows, and nothing of the length of the rows is kept.
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

    def entries(self) -> Iterator[tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Num[np.ndarray, " m"]]]:
        """Non-zero entries as ``(rows, columns, values)``, one block of whole rows after another.

        Rows are numbers in the whole matrix and ascend; a block has a bounded number of entries (or one row), and
        rows without entries do not occur.
        """
        for rows, part in self.parts():
            for within, columns, values in part.entries():
                yield within + rows.start, columns, values

    def each_block(self, function: Callable[..., Any], *rows: PerRow) -> list[Any]:
        """What a function makes of each block of rows, ``function(matrix, *parts)``, where the block is, in order.

        The matrix is an array or in compressed rows, and never empty; what is made of it comes here.
        """
        return [function(part.matrix(), *(row[here] for row in rows)) for here, part in self.parts() if part.shape[0]]

    def select_columns(self, index: Int[np.ndarray, " q"]) -> Any:
        """The design of some columns, by their numbers; None where that would take a pass, or more than the matrix."""
        return None

    def missing_share(self) -> Float[np.ndarray, " p"]:
        """Share of the rows in which each column is missing, (p,); products take what is missing for 0."""
        return np.zeros(self.shape[1])

    def compressed(self, full: bool = False) -> Any:
        """Compressed rows in memory, canonical and without zeros, or None where the rows are elsewhere.

        Those of a dense matrix only if they serve its products, or if it is small and ``full`` rows are wanted too.
        """
        return None

    def transposed(self, dtype: Any) -> Any:
        """``Xᵀ`` of dense rows as a JAX array (p, n); raise TypeError where that would fill memory."""
        return self.matrix()

    def drop_zero_weight(self, weight: PerRow, *rows: PerRow) -> tuple[Any, ...]:
        """The design, the weights (n,) and other vectors over the rows, without the rows of weight zero.

        Rows that must stay where they are keep their zero, which counts nothing.
        """
        return self, weight, *rows

    def persist(self, *rows: PerRow) -> tuple[PerRow, ...]:
        """Compute now what will be used more than once."""
        return rows


class Blockwise(Design):
    """What :class:`.blocks.design.Blocks` and :class:`.dask.design.DaskDesign` make of their blocks."""

    is_streamed = True
    _minimum: float | None

    @abstractmethod
    def _forward(self, method: str, tails: list[tuple[int, ...]], *weights: Num[AnyArray, "p ..."]) -> list[PerRow]:
        """Vectors over the rows, (n, …) for each tail, that a method of every block makes of the same weights."""

    @abstractmethod
    def sum_over_parts(self, method: str, *rows: PerRow) -> list[Any]:
        """Sums over the blocks of what a method makes of each block's part of vectors over the rows."""

    def pair_matvec(self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"]) -> tuple[PerRow, PerRow]:
        """``(X w, X² w_sq)``."""
        first, second = self._forward("pair_matvec", [w.shape[1:], w_sq.shape[1:]], w, w_sq)
        return first, second

    def pair_rmatvec(self, r: PerRow, r_sq: PerRow) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """``(Xᵀ r, (X²)ᵀ r_sq)``."""
        first, second = self.sum_over_parts("pair_rmatvec", r, r_sq)
        return first, second

    def back_sums(self, r: PerRow, s: PerRow) -> tuple[Float[np.ndarray, ...], ...]:
        """``(Xᵀr, (X²)ᵀs, Σr, Σs)``."""
        return tuple(self.sum_over_parts("back_sums", r, s))

    def sign_sums(self, r: PerRow) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p K"]]:
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
        """Smallest entry; known from the first look unless rows were left out since."""
        if self._minimum is None:
            self._minimum = min(self.each_block(_least), default=0.0)
        return self._minimum


def _least(matrix: Any) -> float:
    return float(matrix.min())
