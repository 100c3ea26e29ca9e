"""Store the non-zero entries of the matrix and the expected matrix ``z = xρ``, for :mod:`.mean_field`.

Only non-zero entries have masks, so that all sums of a round are sums over these entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .._typing import Float, Int, MatrixLike

__all__ = ["Entries"]


@dataclass(frozen=True)
class Entries:
    """Non-zero entries of the matrix, in the order in which a sweep takes them.

    Attributes
    ----------
    row, column : int array (N,)
        Position of each entry.
    value : array (N,)
        Value of each entry.
    ends : int array (steps + 1,)
        Each step of a sweep takes the entries ``ends[t]:ends[t + 1]``, which lie in different rows.
    shape : (int, int)
        Rows and columns.

    Examples
    --------
    >>> entries = Entries.of(np.array([[2.0, 0.0], [3.0, 4.0]]), by_column=True)
    >>> entries.row.tolist(), entries.value.tolist(), entries.ends.tolist()
    ([0, 1, 1], [2.0, 3.0, 4.0], [0, 2, 3])
    >>> Entries.of(np.array([[2.0, 0.0], [3.0, 4.0]]), by_column=False).ends.tolist()
    [0, 2, 3]
    """

    row: Int[np.ndarray, " N"]
    column: Int[np.ndarray, " N"]
    value: Float[np.ndarray, " N"]
    ends: Int[np.ndarray, " ends"]
    shape: tuple[int, int]

    @classmethod
    def of(cls, X: MatrixLike, by_column: bool) -> Entries:
        """Take the entries of a dense or scipy sparse matrix column by column, or by their place within the row."""
        csc = sparse.csc_array(X, dtype=np.float64, copy=True)
        csc.sum_duplicates()
        csc.eliminate_zeros()
        n, p = csc.shape
        row = csc.indices.astype(np.intp)
        column = np.repeat(np.arange(p), np.diff(csc.indptr))
        if by_column:
            return cls(row, column, csc.data, csc.indptr.astype(np.intp), (n, p))
        by_row = np.argsort(row, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(row, minlength=n)))
        place = np.empty(len(row), dtype=np.intp)
        place[by_row] = np.arange(len(row)) - starts[row[by_row]]
        order = np.argsort(place, kind="stable")
        ends = np.append(0, np.cumsum(np.bincount(place)))
        return cls(row[order], column[order], csc.data[order], ends, (n, p))

    def row_sums(self, per_entry: Float[np.ndarray, " N"], weight: Float[np.ndarray, " p"]) -> Float[np.ndarray, " n"]:
        """``Σ_d e_id w_d``, (n,), for numbers ``e`` on the entries."""
        return np.bincount(self.row, weights=per_entry * weight[self.column], minlength=self.shape[0])

    def column_sums(
        self, per_entry: Float[np.ndarray, " N"], rowwise: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " p"]:
        """``Σ_i e_id r_i``, (p,)."""
        return np.bincount(self.column, weights=per_entry * rowwise[self.row], minlength=self.shape[1])

    def matrix(self, z: Float[np.ndarray, " N"]) -> Any:
        """The matrix ``Z`` of numbers on entries in column order, sparse."""
        return sparse.csc_array((z.copy(), self.row, self.ends), shape=self.shape)

    def gram(self, z: Float[np.ndarray, " N"], omega: Float[np.ndarray, " n"]) -> Float[np.ndarray, "p p"]:
        """``Zᵀ diag(ω) Z``, dense (p, p)."""
        scaled = self.matrix(z * np.sqrt(omega)[self.row])
        return np.asarray((scaled.T @ scaled).toarray())
