"""Products of a matrix that is read a block of rows at a time: one pass each, whose parts are summed or put in rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..._typing import AnyArray, Float, Int, Num, PerRow
from ..base import Design
from ..rows import Between

__all__ = ["BlockProducts"]

# Columns of an outer Gram matrix that are computed at once.
_OUTER_COLUMNS = 256


class BlockProducts:
    """What :class:`.design.Blocks` makes of its parts; see :class:`bayesdrop.designs.Design` for the methods."""

    shape: tuple[int, int]

    def parts(self, size: int | None = None) -> Iterator[tuple[slice, Design]]:
        """One pass: each block as a design of its own with where its rows stand."""
        raise NotImplementedError

    def _filled(
        self, width: tuple[int, ...], part: Callable[[Design], Float[np.ndarray, "rows ..."]]
    ) -> Float[np.ndarray, "n ..."]:
        """What every block yields for its rows, (n, …)."""
        result = np.empty((self.shape[0], *width))
        for rows, block in self.parts():
            result[rows] = part(block)
        return result

    def _summed(
        self, shape: tuple[int, ...], part: Callable[[slice, Design], Float[np.ndarray, ...]]
    ) -> Float[np.ndarray, ...]:
        """Sum of what the blocks yield."""
        total = np.zeros(shape)
        for rows, block in self.parts():
            total += part(rows, block)
        return total

    def matvec(self, w: Num[AnyArray, "p ..."]) -> Float[np.ndarray, "n ..."]:
        """``X w``."""
        return self._filled(w.shape[1:], lambda block: block.matvec(w))

    def rmatvec(self, r: Num[AnyArray, "n ..."]) -> Float[np.ndarray, "p ..."]:
        """``Xᵀ r``."""
        return self._summed((self.shape[1], *r.shape[1:]), lambda rows, block: block.rmatvec(r[rows]))

    def sq_matvec(self, w: Num[AnyArray, "p ..."]) -> Float[np.ndarray, "n ..."]:
        """``X² w``."""
        return self._filled(w.shape[1:], lambda block: block.sq_matvec(w))

    def sq_rmatvec(self, r: Num[AnyArray, "n ..."]) -> Float[np.ndarray, "p ..."]:
        """``(X²)ᵀ r``."""
        return self._summed((self.shape[1], *r.shape[1:]), lambda rows, block: block.sq_rmatvec(r[rows]))

    def pair_matvec(
        self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"]
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]:
        """``(X w, X² w_sq)`` in one pass."""
        n = self.shape[0]
        first, second = np.empty((n, *w.shape[1:])), np.empty((n, *w_sq.shape[1:]))
        for rows, block in self.parts():
            first[rows], second[rows] = block.pair_matvec(w, w_sq)
        return first, second

    def pair_rmatvec(
        self, r: Num[AnyArray, "n K"], r_sq: Num[AnyArray, "n L"]
    ) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """``(Xᵀ r, (X²)ᵀ r_sq)`` in one pass."""
        return self._two_sums(r, r_sq, lambda rows, block: block.pair_rmatvec(r[rows], r_sq[rows]))

    def sign_sums(self, r: Num[AnyArray, "n K"]) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p K"]]:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)`` in one pass."""
        return self._two_sums(r, r, lambda rows, block: block.sign_sums(r[rows]))

    def _two_sums(
        self,
        r: Num[np.ndarray, "n K"],
        other: Num[np.ndarray, "n L"],
        part: Callable[[slice, Design], tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]],
    ) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        p = self.shape[1]
        first, second = np.zeros((p, *r.shape[1:])), np.zeros((p, *other.shape[1:]))
        for rows, block in self.parts():
            one, two = part(rows, block)
            first += one
            second += two
        return first, second

    def normal_product(
        self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"], between: Between
    ) -> tuple[PerRow, ...]:
        """Both products in one pass; see :class:`.rows.LocalRows`."""
        (n, p), K, L = self.shape, w.shape[1], w_sq.shape[1]
        first, second = np.empty((n, K)), np.empty((n, L))
        sums = np.zeros((p, K)), np.zeros((p, L)), np.zeros(K), np.zeros(L)
        for rows, block in self.parts():
            first[rows], second[rows] = block.pair_matvec(w, w_sq)
            r, s = between(rows, first[rows], second[rows])
            for total, part in zip(sums, (*block.pair_rmatvec(r, s), block.total(r), block.total(s)), strict=True):
                total += part
        return first, second, *sums

    def sampled_products(
        self, left: PerRow, right: Num[AnyArray, "p K"], square: Num[AnyArray, " p"], linear: Num[AnyArray, " p"]
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)`` in one pass; see :class:`bayesdrop.designs.Design`."""
        forward, back = np.empty(left.shape), np.zeros(right.shape)
        for rows, block in self.parts():
            forward[rows], part = block.sampled_products(left[rows], right, square, linear)
            back += part
        return forward, back

    def gram(self, omega: Num[AnyArray, " n"]) -> Float[np.ndarray, "p p"]:
        """``Xᵀ diag(ω) X``, dense (p, p), in one pass."""
        return self._summed((self.shape[1], self.shape[1]), lambda rows, block: block.gram(omega[rows]))

    def grams(self, omega: Num[AnyArray, "n G"]) -> Float[np.ndarray, "G p p"]:
        """``Xᵀ diag(ω_g) X`` of every column of ``ω``, in one pass."""
        p = self.shape[1]
        return self._summed((omega.shape[1], p, p), lambda rows, block: block.grams(omega[rows]))

    def outer_gram(self, scale: Num[AnyArray, " p"]) -> Float[np.ndarray, "n n"]:
        """``X diag(s) Xᵀ``, dense (n, n), in two passes for every few columns: for few rows only."""
        n = self.shape[0]
        result = np.empty((n, n))
        for start in range(0, n, _OUTER_COLUMNS):
            some = slice(start, min(start + _OUTER_COLUMNS, n))
            unit = np.zeros((n, some.stop - start))
            unit[np.arange(start, some.stop), np.arange(some.stop - start)] = 1.0
            result[:, some] = self.matvec(scale[:, None] * self.rmatvec(unit))
        return result

    def entries(self) -> Iterator[tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Num[np.ndarray, " m"]]]:
        """Non-zero entries as ``(rows, columns, values)`` in blocks of rows."""
        for rows, block in self.parts():
            for within, columns, values in block.entries():
                yield within + rows.start, columns, values
