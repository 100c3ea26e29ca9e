"""What a design offers: products of its matrix, counts, and vectors over its rows. It never sees the model.

``matvec`` and friends take a vector or a block of ``K`` columns; a block of K classes costs one pass over the data, not
K. Vectors over the rows belong to the design: it codes labels, checks weights and drops rows of weight zero where its
rows are; whoever asks for products does arithmetic with such vectors and sums them by ``total``, and need not know
where they are. Letters: n rows, p columns, K problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._typing import AnyArray, Float, Int, Num, PerRow, Shaped
from .columns import ColumnSummary
from .distinct import DistinctColumns
from .rows import Between, RowFunction

__all__ = ["Design"]


@runtime_checkable
class Design(Protocol):
    """Protocol of a design matrix ``X`` with ``n`` rows and ``p`` columns."""

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, p)``."""

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns that the source of the rows has, if it is no array."""

    @property
    def zero_based(self) -> bool | None:
        """Whether the indices of the svmlight files that the rows are read from begin at 0; None of other rows."""

    @property
    def prefers_gram(self) -> bool:
        """True if a dense ``gram`` costs less than a few dozen products (few columns)."""

    @property
    def prefers_outer_gram(self) -> bool:
        """True if a dense ``outer_gram`` costs less than a few dozen products (few rows)."""

    @property
    def is_sparse(self) -> bool:
        """True if zeros are not stored, so that nothing dense is made of the rows."""

    @property
    def is_streamed(self) -> bool:
        """True if every product is a pass over rows that are read or multiplied elsewhere; samplers then pass too."""

    @property
    def is_local(self) -> bool:
        """True if the rows are in this process's memory, as an array or a sparse matrix."""

    @property
    def distinct(self) -> DistinctColumns | None:
        """One column for all that are alike; None if there are few such, or columns are not looked at."""

    # Products

    def matvec(self, w: Num[AnyArray, "p ..."]) -> PerRow:
        """``X w``: (p,) or (p, K) to (n,) or (n, K)."""

    def rmatvec(self, r: PerRow) -> Float[np.ndarray, "p ..."]:
        """``Xᵀ r``: (n,) or (n, K) to (p,) or (p, K)."""

    def sq_matvec(self, w: Num[AnyArray, "p ..."]) -> PerRow:
        """``X² w`` with the square taken elementwise."""

    def sq_rmatvec(self, r: PerRow) -> Float[np.ndarray, "p ..."]:
        """``(X²)ᵀ r`` with the square taken elementwise."""

    def pair_matvec(self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"]) -> tuple[PerRow, PerRow]:
        """``(X w, X² w_sq)`` in as few passes over the data as the storage allows."""

    def pair_rmatvec(self, r: PerRow, r_sq: PerRow) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """``(Xᵀ r, (X²)ᵀ r_sq)`` in as few passes over the data as the storage allows."""

    def normal_product(
        self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"], between: Between
    ) -> tuple[PerRow, ...]:
        """``(a, b, Xᵀr, (X²)ᵀs, Σr, Σs)`` for ``a = X w``, ``b = X² w_sq`` and ``(r, s) = between(rows, a, b)``.

        ``rows`` says which rows ``a`` and ``b`` belong to, so that one pass over the data can do both products.
        """

    def product_sums(
        self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"], function: RowFunction, *rows: PerRow
    ) -> tuple[Float[np.ndarray, ...], ...]:
        """``(Xᵀr, (X²)ᵀs, Σr, Σs, Σt)`` for ``(r, s, t) = function(X w, X² w_sq, *rows)``.

        The function treats every row by itself and is given some rows at a time, with their parts of vectors over the
        rows: one pass over the data where the storage allows, and nothing of the length of the rows is kept.
        """

    def sampled_products(
        self, left: PerRow, right: Num[AnyArray, "p K"], square: Num[AnyArray, " p"], linear: Num[AnyArray, " p"]
    ) -> tuple[PerRow, Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)`` for ``E_ij = (a_j x_ij² + b_j x_ij) ⟨l_i, r_j⟩``, which is not formed.

        ``left`` (n, K) has the rows ``l_i``, ``right`` (p, K) the rows ``r_j``, ``square`` is ``a`` and ``linear`` is
        ``b``, (p,) each. Only entries where ``X`` is not zero take part: O(K) for each of them.
        """

    def gram(self, omega: PerRow) -> Float[np.ndarray, "p p"]:
        """``Xᵀ diag(ω) X``, dense (p, p), for ``ω >= 0`` of shape (n,); rows of weight 0 cost next to nothing."""

    def grams(self, omega: PerRow) -> Float[np.ndarray, "G p p"]:
        """``gram`` of every column of ``ω`` (n, G), in as few passes over the data as the storage allows."""

    def outer_gram(self, scale: Num[AnyArray, " p"]) -> Float[np.ndarray, "n n"]:
        """``X diag(s) Xᵀ``, dense (n, n), for ``s`` of shape (p,)."""

    # Counts and columns

    def sign_sums(self, r: PerRow) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p K"]]:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)`` for ``r`` of shape (n, K): what the rate update counts."""

    def occurrences(self, weight: PerRow) -> Float[np.ndarray, " p"]:
        """``1[X ≠ 0]ᵀ s``, (p,), for row weights ``s`` (n,)."""

    def minimum(self) -> float:
        """Smallest entry, zeros of a sparse matrix included; 0 if there is none."""

    def entries(self) -> Iterator[tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Num[np.ndarray, " m"]]]:
        """Non-zero entries as ``(rows, columns, values)``, one block of whole rows after another.

        Rows are numbers in the whole matrix and ascend; a block has a bounded number of entries (or one row), and
        rows without entries do not occur.
        """

    def missing_share(self) -> Float[np.ndarray, " p"]:
        """Share of the rows in which each column is missing, (p,); products take what is missing for 0."""

    def column_summary(self, weight: PerRow) -> ColumnSummary:
        """Means, spreads and extremes of the columns under row weights ``s`` (n,), in one pass over the data."""

    def shifted(self, centre: Float[np.ndarray, " p"]) -> Design:
        """``X − c`` for ``c`` (p,), entries at ``c`` but for rounding being 0, as are those that are missing."""

    # Rows

    def matrix(self) -> Any:
        """Whole matrix in memory, array (n, p) or compressed rows; raise TypeError that says what else to do."""

    def compressed(self, full: bool = False) -> Any:
        """Compressed rows in memory, canonical and without zeros, or None where the rows are elsewhere.

        Those of a dense matrix only if they serve its products, or if it is small and ``full`` rows are wanted too.
        """

    def parts(self, size: int | None = None) -> Iterator[tuple[slice, Design]]:
        """Designs in memory of some rows each, with where they stand: at most ``size`` rows, or as they are held."""

    def each_block(self, function: Callable[..., Any], *rows: PerRow) -> list[Any]:
        """What a function makes of each block of rows, ``function(matrix, *parts)``, where the block is, in order.

        The matrix is an array or in compressed rows, and never empty; what is made of it comes here.
        """

    def transposed(self, dtype: Any) -> Any:
        """``Xᵀ`` of dense rows as a JAX array (p, n) on their devices; raise TypeError where that would fill memory."""

    def stacked(self, below: Design) -> Design:
        """These rows and other ones below them, sparse if either is; both are ``check_stackable``."""

    def check_stackable(self) -> None:
        """Raise TypeError unless these rows can be put with others into one design."""

    def drop_zero_weight(self, weight: PerRow, *rows: PerRow) -> tuple[Any, ...]:
        """The design, the weights (n,) and other vectors over the rows, without the rows of weight zero.

        Rows that must stay where they are keep their zero, which counts nothing.
        """

    # Vectors over the rows

    def codes(self, y: Any) -> tuple[Shaped[np.ndarray, " K"], PerRow]:
        """Classes (K,) in order and the class number of each row (n,); raise ValueError if ``y`` is no labels."""

    def targets(self, y: Any) -> PerRow:
        """Numbers of a regression, (n,); raise ValueError unless they are finite, one for each row."""

    def row_weights(self, sample_weight: Any) -> PerRow:
        """Row weights (n,), ones by default; raise ValueError if negative, not finite, all zero or not n."""

    def class_totals(self, code: PerRow, weight: PerRow, n_classes: int) -> Float[np.ndarray, " K"]:
        """``Σ_i s_i 1[code_i = k]``, (K,)."""

    def zeros(self, columns: int) -> PerRow:
        """Zeros, (n, columns)."""

    def rowwise(self, function: Callable[..., Any], *rows: PerRow, widths: Sequence[int] | None = None) -> Any:
        """Apply a function that treats every row by itself, or at least may be given some rows at a time.

        ``widths`` are the numbers of columns of the results if it returns several; a single one has the common shape
        of ``rows``.
        """

    def total(self, rows: PerRow) -> Num[np.ndarray, ...]:
        """Sum over the rows, (K,) for (n, K)."""

    def persist(self, *rows: PerRow) -> tuple[PerRow, ...]:
        """Compute now what will be used more than once."""
