"""Vectors over the rows: they stay where the rows are, and only sums over the rows leave.

Whoever minimises an energy holds a score, a target and a weight for each row, and does to them what this file lists and
plain arithmetic. Here they are NumPy arrays; a design whose rows lie elsewhere keeps them there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["Between", "LocalRows"]

Array = Any
# Rows that a function over the rows is given at a time.
_ROWS = 1 << 15
Between = Callable[[slice, Array, Array], tuple[Array, Array]]


class LocalRows:
    """What the designs share whose vectors over the rows are NumPy arrays.

    Examples
    --------
    >>> rows = LocalRows()
    >>> rows.total(rows.rowwise(np.square, np.array([[1.0], [2.0]]))).tolist()
    [5.0]
    """

    shape: tuple[int, int]
    pair_matvec: Callable[..., tuple[Array, Array]]
    pair_rmatvec: Callable[..., tuple[Array, Array]]

    def zeros(self, columns: int) -> Array:
        """Zeros, (n, columns)."""
        return np.zeros((self.shape[0], columns))

    def rowwise(self, function: Callable[..., Any], *rows: Array, widths: Sequence[int] | None = None) -> Any:
        """Apply a function that treats every row by itself, or at least may be given some rows at a time.

        ``widths`` are the numbers of columns of the results if it returns several; a single one has the common shape
        of ``rows``.
        """
        n = len(rows[0])
        if n <= _ROWS:
            return function(*rows)
        # A piece at a time: what the function makes on its way then fits into a core's cache and takes no memory.
        results: list[Array] = []
        for start in range(0, n, _ROWS):
            part = slice(start, start + _ROWS)
            made = function(*(vector[part] for vector in rows))
            made = (made,) if widths is None else made
            if not results:
                results = [np.empty((n, *piece.shape[1:])) for piece in made]
            for result, piece in zip(results, made, strict=True):
                result[part] = piece
        return results[0] if widths is None else tuple(results)

    def total(self, rows: Array) -> Array:
        """Sum over the rows, (K,) for (n, K)."""
        return rows.sum(axis=0)

    def hold(self, *rows: Array) -> tuple[Array, ...]:
        """Compute now what will be used more than once."""
        return rows

    def there_and_back(self, w: Array, w_sq: Array, between: Between) -> tuple[Array, ...]:
        """``(a, b, Xᵀr, (X²)ᵀs, Σr, Σs)`` for ``a = X w``, ``b = X² w_sq`` and ``(r, s) = between(rows, a, b)``.

        ``rows`` says which rows ``a`` and ``b`` belong to, so that one pass over the data can do both products.
        """
        first, second = self.pair_matvec(w, w_sq)
        r, s = between(slice(None), first, second)
        return first, second, *self.pair_rmatvec(r, s), self.total(r), self.total(s)
