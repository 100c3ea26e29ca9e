"""Dense design matrix on NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .._typing import AnyArray, Float, Int, Num, PerRow
from .base import Between, RowFunction
from .kernels import available
from .products import CompiledProducts, compress, shift
from .rows import RowsInMemory
from .threads import summed

__all__ = ["DenseDesign"]

# Rows are squared a block at a time, small enough to stay in a core's cache.
_BLOCK = 1 << 17
# Below this many entries the square is kept: the block loop would cost more than the memory.
_KEEP_SQUARE = 1 << 21
_GRAM_COLUMNS = 2000
# Entries from which on blocks of rows go in threads.
_THREADED = 1 << 19
# Share of non-zeros up to which products over them alone are faster, and take less memory than the matrix.
_FEW = 0.3


def _wide(X: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
    return X.astype(np.float64, copy=False)


class DenseDesign(RowsInMemory):
    """Dense matrix, float64 or float32; see :class:`bayesdrop.designs.Design` for the methods.

    Single precision stays as it is and is widened a block of rows at a time, so that sums are in double precision. A
    large matrix of mostly zeros is copied in compressed rows for its products, if Numba is installed.

    Parameters
    ----------
    X : array (n, p)
        Finite numbers.
    centre : array (p,), optional
        Makes the matrix ``X − c``, which is formed only when it is asked for as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> DenseDesign(np.array([[1.0, -2.0]])).sq_matvec(np.array([1.0, 1.0])).tolist()
    [5.0]
    """

    is_sparse = False

    def __init__(self, X: Any, centre: Float[np.ndarray, " p"] | None = None) -> None:
        X = np.asarray(X)
        self._source = X if X.dtype in (np.float64, np.float32) else X.astype(np.float64)
        self._centre = centre
        self._keeps_square = X.size <= _KEEP_SQUARE
        self._wide = self._keeps_square or self._source.dtype == np.float64
        self.shape: tuple[int, int] = self._source.shape
        n, p = self.shape
        self.prefers_gram = p <= _GRAM_COLUMNS and p <= max(n, 50)
        self.prefers_outer_gram = not self.prefers_gram and n <= _GRAM_COLUMNS

    def __sizeof__(self) -> int:
        """Bytes of the matrix, by which a scheduler knows what it would cost to move it."""
        return object.__sizeof__(self) + int(self._source.nbytes)

    def __getitem__(self, rows: Any) -> DenseDesign:
        """Rows that a mask, numbers or a slice selects."""
        return DenseDesign(self._source[rows] if self._centre is None else self._some(rows))

    @cached_property
    def _given(self) -> Float[np.ndarray, "n p"]:
        """The matrix, as it came or about its centre."""
        return self._source if self._centre is None else self._about(self._source, self._centre)

    def _about(self, X: Float[np.ndarray, "rows p"], centre: Float[np.ndarray, " p"]) -> Float[np.ndarray, "rows p"]:
        return shift(X, centre, np.float64 if self._keeps_square else X.dtype)

    def _some(self, rows: Any) -> Float[np.ndarray, "rows p"]:
        """Some rows, without those that are not asked for."""
        if self._keeps_square or self._centre is None or "_given" in vars(self):
            return self._x[rows]
        return self._about(self._source[rows], self._centre)

    @cached_property
    def _x(self) -> Float[np.ndarray, "n p"]:
        """The matrix as most products take it, a small one in double precision; made when first used."""
        return self._given.astype(np.float64, copy=False) if self._keeps_square else self._given

    @cached_property
    def _products(self) -> CompiledProducts | None:
        """Compiled products of a large matrix with many zeros, made when first used: samplers need none."""
        if self._keeps_square or not available():
            return None
        # Sums of a Gram matrix and of counts take a few rows at a time, so that the whole need not be formed.
        centre = np.zeros(self.shape[1]) if self._centre is None else self._centre
        rows = compress(self._source, centre, _FEW * self._source.size)
        return None if rows is None else CompiledProducts(rows, False)

    @cached_property
    def _square(self) -> Float[np.ndarray, "n p"] | None:
        """Square of a small matrix, made when first used: many products need none."""
        return self._x * self._x if self._keeps_square else None

    def _blocks(self) -> Iterator[tuple[slice, Float[np.ndarray, "rows p"]]]:
        """Blocks of rows in double precision, with where they stand."""
        n, p = self.shape
        rows = max(1, _BLOCK // max(p, 1))
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            yield part, self._some(part).astype(np.float64, copy=False)

    def _whole(self) -> bool:
        """True if BLAS is to go through all rows at once."""
        return self._wide and self._source.size < _THREADED

    def _in_blocks(
        self, shapes: Sequence[tuple[int, ...]], add: Callable[..., None]
    ) -> tuple[Float[np.ndarray, ...], ...]:
        """Sums to which ``add(rows, block, *sums)`` adds for each block of rows in double precision."""

        def one(rows: slice, *sums: Float[np.ndarray, ...]) -> None:
            add(rows, _wide(self._some(rows)), *sums)

        return summed(self.shape[0], max(1, _BLOCK // max(self.shape[1], 1)), shapes, one)

    def pair_matvec(
        self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"]
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]:
        """``(X w, X² w_sq)``, reading X once."""
        if self._products is not None:
            return self._products.forward(w, w_sq)
        if self._whole() and not w_sq.shape[1]:
            return self._x @ w, np.zeros((self.shape[0], 0))
        if self._whole() and self._square is not None:
            return self._x @ w, self._square @ w_sq
        first, second = (np.empty((self.shape[0], part.shape[1])) for part in (w, w_sq))

        def write(rows: slice, block: Float[np.ndarray, "rows p"]) -> None:
            np.matmul(block, w, out=first[rows])
            if w_sq.shape[1]:
                np.matmul(block * block, w_sq, out=second[rows])

        self._in_blocks([], write)
        return first, second

    def pair_rmatvec(
        self, r: Num[AnyArray, "n K"], r_sq: Num[AnyArray, "n L"]
    ) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """``(Xᵀ r, (X²)ᵀ r_sq)``, reading X once."""
        if self._products is not None:
            return self._products.backward(r, r_sq)
        if self._whole() and not r_sq.shape[1]:
            return self._x.T @ r, np.zeros((self.shape[1], 0))
        if self._whole() and self._square is not None:
            return self._x.T @ r, self._square.T @ r_sq

        def add(rows: slice, block: Float[np.ndarray, "rows p"], first: Any, second: Any) -> None:
            first += block.T @ r[rows]
            if r_sq.shape[1]:
                second += (block * block).T @ r_sq[rows]

        first, second = self._in_blocks([(self.shape[1], part.shape[1]) for part in (r, r_sq)], add)
        return first, second

    def normal_product(
        self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"], between: Between
    ) -> tuple[PerRow, ...]:
        """Block after block, which is in a core's cache when the second product reads it; see :class:`.base.Design`."""
        n, size = self.shape[0], max(1, _BLOCK // max(self.shape[1], 1))
        if n <= size or not self._wide or self._products is not None or w_sq.shape[1]:
            return super().normal_product(w, w_sq, between)
        first, none = np.empty((n, w.shape[1])), np.zeros((n, 0))

        def add(rows: slice, block: Float[np.ndarray, "rows p"], back: Any, total: Any) -> None:
            np.matmul(block, w, out=first[rows])
            r, _ = between(rows, first[rows], none[rows])
            back += block.T @ r
            total += r.sum(axis=0)

        back, total = self._in_blocks([w.shape, w.shape[1:]], add)
        return first, none, back, np.zeros((self.shape[1], 0)), total, np.zeros(0)

    def product_sums(
        self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"], function: RowFunction, *rows: PerRow
    ) -> tuple[Float[np.ndarray, ...], ...]:
        """A few rows at a time, from the first product to the last; see :class:`bayesdrop.designs.Design`.

        They stay in a core's cache, and products so small do not begin threads of their own.
        """
        if not self.shape[0] or self._products is not None:
            return super().product_sums(w, w_sq, function, *rows)
        sums: tuple[Any, ...] = ()
        step = max(1, _BLOCK // max(self.shape[1], 1))
        for start in range(0, self.shape[0], step):
            part = slice(start, start + step)
            block = _wide(self._given[part])
            square = block * block if w_sq.shape[1] else block[:, :0]
            # Column after column, over which functions of the rows go faster than over a few numbers of each row.
            second = np.asfortranarray(square @ w_sq) if w_sq.shape[1] else np.zeros((len(block), 0))
            r, s, t = function(np.asfortranarray(block @ w), second, *(vector[part] for vector in rows))
            back = square.T @ s if w_sq.shape[1] else np.zeros((self.shape[1], 0))
            found = block.T @ r, back, r.sum(axis=0), s.sum(axis=0), t.sum(axis=0)
            sums = tuple(a + b for a, b in zip(sums, found, strict=True)) if sums else found
        return sums

    def sampled_products(
        self, left: PerRow, right: Num[AnyArray, "p K"], square: Num[AnyArray, " p"], linear: Num[AnyArray, " p"]
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
        same = bool(self._wide and len(omega) and omega[0] == omega[-1] and np.all(omega == omega[0]))
        if same and self._whole():
            return np.asarray(omega[0] * (self._x.T @ self._x))
        # To gather rows costs a copy, which the products saved pay for where half of them are left out.
        rows = np.flatnonzero(omega) if not same and 2 * np.count_nonzero(omega) < len(omega) else None
        root = np.sqrt(omega if rows is None else omega[rows])

        def add(part: slice, total: Any) -> None:
            block = self._some(part if rows is None else rows[part])
            scaled = block if same else block * root[part, None]
            total += scaled.T @ scaled

        total = summed(len(root), max(1, 4 * _BLOCK // max(p, 1)), [(p, p)], add)[0]
        return omega[0] * total if same else total

    def outer_gram(self, scale: Num[AnyArray, " p"]) -> Float[np.ndarray, "n n"]:
        """``X diag(s) Xᵀ`` by blocks of columns, ``s >= 0``."""
        (n, p), root = self.shape, np.sqrt(scale)

        def add(columns: slice, total: Any) -> None:
            block = self._x[:, columns] * root[columns]
            total += block @ block.T

        return summed(p, max(1, 4 * _BLOCK // max(n, 1)), [(n, n)], add)[0]

    def sign_sums(self, r: Num[AnyArray, "n K"]) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p K"]]:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)``."""

        def add(rows: slice, block: Float[np.ndarray, "rows p"], above: Any, below: Any) -> None:
            above += (block > 0).astype(np.float64).T @ r[rows]
            below += (block < 0).astype(np.float64).T @ r[rows]

        above, below = self._in_blocks([(self.shape[1], r.shape[1])] * 2, add)
        return above, below

    def minimum(self) -> float:
        """Smallest entry."""
        return float(self._x.min()) if self._x.size else 0.0

    def entries(self) -> Iterator[tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Num[np.ndarray, " m"]]]:
        """Non-zero entries as ``(rows, columns, values)`` in blocks of rows."""
        for rows, block in self._blocks():
            within, columns = np.nonzero(block)
            if len(within):
                yield within + rows.start, columns, block[within, columns]

    def matrix(self) -> Float[np.ndarray, "n p"]:
        """The array in the precision that it came in."""
        return self._given

    @cached_property
    def _compressed(self) -> Any:
        return compress(self._x, np.zeros(self.shape[1]))

    def compressed(self, full: bool = False) -> Any:
        """Compressed rows that serve the products, or those of a small matrix if ``full`` ones are wanted too."""
        if self._products is not None:
            return self._products.compressed
        return self._compressed if full and self._keeps_square and available() else None

    def stacked(self, below: Any) -> Any:
        """These rows and other ones below them."""
        if below.is_sparse:
            return below.with_rows_above(self)
        return DenseDesign(np.concatenate([self._given, below.matrix()]))

    def transposed(self, dtype: Any) -> Any:
        """``Xᵀ`` as a JAX array."""
        import jax

        # A copy, for the array of the user's may change; `jnp.asarray` would compile a program for each shape.
        return jax.device_put(np.array(np.transpose(self._given), dtype=dtype, order="C"))

    def shifted(self, centre: Float[np.ndarray, " p"]) -> DenseDesign:
        """``X − c``; entries at ``c`` but for rounding become 0, for 0 is what noise leaves alone."""
        return DenseDesign(self._given, centre)
