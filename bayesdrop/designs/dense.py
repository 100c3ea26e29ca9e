"""Store a design matrix as a NumPy array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from .._memory import BLOCK
from .._typing import AnyArray, Float, Int, Num, PerRow
from .base import (
    ByColumn,
    ColumnProducts,
    EntryBlocks,
    PerColumn,
    RowProducts,
    SignSums,
    SquaredByColumn,
)  # fmt: skip
from .products import SparseProducts, shift
from .rows import RowsInMemory
from .threads import LIMITS, summed

__all__ = ["DenseDesign"]


def _wide(X: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
    return X.astype(np.float64, copy=False)


class DenseDesign(RowsInMemory):
    """Dense matrix, float64 or float32; see :class:`bayesdrop.designs.Design` for the methods.

    Single precision is stored, and converted to double a block of rows at a time for sums. A large matrix of mostly
    zeros is copied to compressed rows for its products.

    Parameters
    ----------
    X : array (n, p)
        Finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> DenseDesign(np.array([[1.0, -2.0]])).sq_matvec(np.array([1.0, 1.0])).tolist()
    [5.0]
    """

    is_sparse = False

    def __init__(self, X: Any) -> None:
        X = np.asarray(X)
        self._x = X if X.dtype in (np.float64, np.float32) else X.astype(np.float64)
        self.shape: tuple[int, int] = self._x.shape
        n, p = self.shape
        self._is_small = X.size <= LIMITS.small
        self.prefers_gram = p <= self.gram_columns and p <= max(n, LIMITS.few)
        self.prefers_outer_gram = not self.prefers_gram and n <= self.gram_columns

    def __sizeof__(self) -> int:
        """Bytes of the matrix, by which a scheduler estimates the cost of moving it."""
        return object.__sizeof__(self) + int(self._x.nbytes)

    def __getitem__(self, rows: Any) -> DenseDesign:
        """Rows that a mask, numbers or a slice selects."""
        return DenseDesign(self._x[rows])

    def select_columns(self, index: Int[np.ndarray, " q"]) -> DenseDesign | None:
        """See :class:`bayesdrop.designs.Design`."""
        return DenseDesign(self._x[:, index])

    @cached_property
    def _products(self) -> SparseProducts | None:
        """Products of a large matrix with many zeros, made at the first use, because samplers need none."""
        return SparseProducts(self.compressed(), False) if self.is_mostly_zero else None

    @cached_property
    def is_mostly_zero(self) -> bool:  # type: ignore[override]
        """Whether the matrix is large and has few non-zero entries."""
        return not self._is_small and bool(np.count_nonzero(self._x) <= LIMITS.share * self._x.size)

    @cached_property
    def _compressed(self) -> Any:
        return csr_array(self._x, dtype=np.float64) if self._is_small or self.is_mostly_zero else None

    def compressed(self) -> Any:
        """Compressed rows if the matrix is small or mostly zero, and else None."""
        return self._compressed

    @property
    def _rows_of_block(self) -> int:
        """Number of rows of a block that fits into a core's cache."""
        return max(1, LIMITS.cached // max(self.shape[1], 1))

    def _in_blocks(
        self, shapes: Sequence[tuple[int, ...]], add: Callable[..., None]
    ) -> tuple[Float[np.ndarray, ...], ...]:
        """Return sums to which ``add(rows, block, *sums)`` adds each block of rows, in double precision."""

        def one(rows: slice, *sums: Float[np.ndarray, ...]) -> None:
            add(rows, _wide(self._x[rows]), *sums)

        return summed(self.shape[0], self._rows_of_block, shapes, one)

    def pair_matvec(self, w: ByColumn, w_sq: SquaredByColumn) -> RowProducts:
        """``(X w, X² w_sq)``, reading X once."""
        if self._products is not None:
            return self._products.forward(w, w_sq)
        first, second = (np.empty((self.shape[0], part.shape[1])) for part in (w, w_sq))

        def write(rows: slice, block: Float[np.ndarray, "rows p"]) -> None:
            if w.shape[1]:
                np.matmul(block, w, out=first[rows])
            if w_sq.shape[1]:
                np.matmul(block * block, w_sq, out=second[rows])

        self._in_blocks([], write)
        return first, second

    def pair_rmatvec(self, r: Num[AnyArray, "n K"], r_sq: Num[AnyArray, "n L"]) -> ColumnProducts:
        """``(Xᵀ r, (X²)ᵀ r_sq)``, reading X once."""
        if self._products is not None:
            return self._products.backward(r, r_sq)

        def add(rows: slice, block: Float[np.ndarray, "rows p"], first: Any, second: Any) -> None:
            if r.shape[1]:
                first += block.T @ r[rows]
            if r_sq.shape[1]:
                second += (block * block).T @ r_sq[rows]

        first, second = self._in_blocks([(self.shape[1], part.shape[1]) for part in (r, r_sq)], add)
        return first, second

    def sampled_products(
        self, left: PerRow, right: ByColumn, square: PerColumn, linear: PerColumn
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)`` by blocks of rows; see :class:`bayesdrop.designs.Design`."""
        if self._products is not None:
            return self._products.sampled(left, right, square, linear)
        forward = np.empty(left.shape)

        def add(rows: slice, block: Float[np.ndarray, "rows p"], back: Any) -> None:
            tilted = block * (square * block + linear)
            tilted *= left[rows] @ right.T
            np.matmul(tilted, right, out=forward[rows])
            back += tilted.T @ left[rows]

        return forward, self._in_blocks([right.shape], add)[0]

    def gram(self, omega: Num[AnyArray, " n"]) -> Float[np.ndarray, "p p"]:
        """``Xᵀ diag(ω) X`` by blocks of rows, ``ω >= 0``."""
        p = self.shape[1]
        # Gathering rows costs a copy, which pays if more than half of the rows have weight zero.
        rows = np.flatnonzero(omega) if 2 * np.count_nonzero(omega) < len(omega) else None
        root = np.sqrt(omega if rows is None else omega[rows])

        def add(part: slice, total: Any) -> None:
            block = _wide(self._x[part if rows is None else rows[part]])
            scaled = block * root[part, None]
            total += scaled.T @ scaled

        return summed(len(root), 4 * self._rows_of_block, [(p, p)], add)[0]

    def outer_gram(self, scale: PerColumn) -> Float[np.ndarray, "n n"]:
        """``X diag(s) Xᵀ`` by blocks of columns, ``s >= 0``."""
        (n, p), root = self.shape, np.sqrt(scale)

        def add(columns: slice, total: Any) -> None:
            block = _wide(self._x[:, columns]) * root[columns]
            total += block @ block.T

        return summed(p, max(1, BLOCK // (2 * max(n, 1))), [(n, n)], add)[0]

    def sign_sums(self, r: Num[AnyArray, "n K"]) -> SignSums:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)``."""

        def add(rows: slice, block: Float[np.ndarray, "rows p"], above: Any, below: Any) -> None:
            above += (block > 0).astype(np.float64).T @ r[rows]
            below += (block < 0).astype(np.float64).T @ r[rows]

        above, below = self._in_blocks([(self.shape[1], r.shape[1])] * 2, add)
        return above, below

    def minimum(self) -> float:
        """Smallest entry."""
        return float(self._x.min()) if self._x.size else 0.0

    def entries(self) -> EntryBlocks:
        """Non-zero entries as ``(rows, columns, values)`` in blocks of rows."""
        for start in range(0, self.shape[0], self._rows_of_block):
            block = _wide(self._x[start : start + self._rows_of_block])
            within, columns = np.nonzero(block)
            if len(within):
                yield within + start, columns, block[within, columns]

    def matrix(self) -> Float[np.ndarray, "n p"]:
        """The array in its original precision."""
        return self._x

    def transposed(self, dtype: Any) -> Any:
        """``Xᵀ`` as a JAX array."""
        import jax

        # Copy, because the user's array may change; `jnp.asarray` would compile a program for each shape.
        return jax.device_put(np.array(np.transpose(self._x), dtype=dtype, order="C"))

    def shifted(self, centre: Float[np.ndarray, " p"]) -> DenseDesign:
        """``X − c``; entries equal to ``c`` up to rounding become 0, which noise does not change."""
        return DenseDesign(shift(self._x, centre, np.float64 if self._is_small else self._x.dtype))
