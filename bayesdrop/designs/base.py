"""What a design matrix must offer: products and counts. It never sees the model.

``matvec`` and friends take a vector or a block of ``K`` columns; a block of K classes costs one pass over the
data, not K. Vectors over the rows belong to the design: whoever asks for products does arithmetic with them and sums
them by ``total``, and need not know where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from .rows import Between

__all__ = ["Design"]

Array = Any


@runtime_checkable
class Design(Protocol):
    """Protocol of a design matrix ``X`` with ``n`` rows and ``p`` columns."""

    shape: tuple[int, int]

    prefers_gram: bool
    """True if a dense ``gram`` costs less than a few dozen products (few columns)."""

    prefers_outer_gram: bool
    """True if a dense ``outer_gram`` costs less than a few dozen products (few rows)."""

    def matvec(self, w: Array) -> Array:
        """``X w``: (p,) or (p, K) to (n,) or (n, K)."""

    def rmatvec(self, r: Array) -> Array:
        """``Xᵀ r``: (n,) or (n, K) to (p,) or (p, K)."""

    def sq_matvec(self, w: Array) -> Array:
        """``X² w`` with the square taken elementwise."""

    def sq_rmatvec(self, r: Array) -> Array:
        """``(X²)ᵀ r`` with the square taken elementwise."""

    def pair_matvec(self, w: Array, w_sq: Array) -> tuple[Array, Array]:
        """``(X w, X² w_sq)`` in as few passes over the data as the storage allows."""

    def pair_rmatvec(self, r: Array, r_sq: Array) -> tuple[Array, Array]:
        """``(Xᵀ r, (X²)ᵀ r_sq)`` in as few passes over the data as the storage allows."""

    def gram(self, omega: Array) -> Array:
        """``Xᵀ diag(ω) X``, dense (p, p), for ``ω >= 0`` of shape (n,); rows of weight 0 cost next to nothing."""

    def outer_gram(self, scale: Array) -> Array:
        """``X diag(s) Xᵀ``, dense (n, n), for ``s`` of shape (p,)."""

    def sign_sums(self, r: Array) -> tuple[Array, Array]:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)`` for ``r`` of shape (n, K): what the rate update counts."""

    def minimum(self) -> float:
        """Smallest entry, zeros of a sparse matrix included."""

    def entries(self) -> Iterator[tuple[Array, Array, Array]]:
        """Non-zero entries as ``(rows, columns, values)``, one block of whole rows after another.

        Rows are numbers in the whole matrix and ascend; a block has a bounded number of entries (or one row), and
        rows without entries do not occur.
        """

    def zeros(self, columns: int) -> Array:
        """Vectors over the rows, (n, columns), all zero; see :class:`.rows.LocalRows` for this and what follows."""

    def rowwise(self, function: Callable[..., Any], *rows: Array, widths: Sequence[int] | None = None) -> Any:
        """Apply a function that treats every row by itself."""

    def total(self, rows: Array) -> Array:
        """Sum of a vector over the rows."""

    def hold(self, *rows: Array) -> tuple[Array, ...]:
        """Compute now what will be used more than once."""

    def there_and_back(self, w: Array, w_sq: Array, between: Between) -> tuple[Array, ...]:
        """Products with ``X`` and ``X²`` and, of what ``between`` makes of them, with their transposes, and sums."""
