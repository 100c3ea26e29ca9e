"""Products of rows that are held as blocks, each a design of its own: what they yield is summed or put in rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from .._typing import AnyArray, Float, Num, PerRow
from .base import Design
from .columns import ColumnSummary, merge_summaries, summarise
from .dense import DenseDesign
from .sparse import SparseDesign

__all__ = ["Blockwise", "of_matrix"]


def of_matrix(matrix: Any, binary: bool | None = None) -> Design:
    """Wrap an array or compressed rows as a design; ``binary`` as in :class:`.sparse.SparseDesign`."""
    return DenseDesign(matrix) if isinstance(matrix, np.ndarray) else SparseDesign(matrix, binary)


class Blockwise(Design):
    """What :class:`.blocks.design.Blocks` and :class:`.dask.design.DaskDesign` make of their blocks."""

    is_streamed = True
    _minimum: float | None

    @abstractmethod
    def _forward(self, method: str, tails: list[tuple[int, ...]], *weights: Num[AnyArray, "p ..."]) -> list[PerRow]:
        """Vectors over the rows, (n, …) for each tail, that a method of every block makes of the same weights."""

    @abstractmethod
    def _backward(self, method: str, *rows: PerRow) -> list[Any]:
        """Sums over the blocks of what a method makes of each block's part of vectors over the rows."""

    def pair_matvec(self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"]) -> tuple[PerRow, PerRow]:
        """``(X w, X² w_sq)``."""
        first, second = self._forward("pair_matvec", [w.shape[1:], w_sq.shape[1:]], w, w_sq)
        return first, second

    def pair_rmatvec(self, r: PerRow, r_sq: PerRow) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """``(Xᵀ r, (X²)ᵀ r_sq)``."""
        first, second = self._backward("pair_rmatvec", r, r_sq)
        return first, second

    def back_sums(self, r: PerRow, s: PerRow) -> tuple[Float[np.ndarray, ...], ...]:
        """``(Xᵀr, (X²)ᵀs, Σr, Σs)``."""
        return tuple(self._backward("back_sums", r, s))

    def sign_sums(self, r: PerRow) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p K"]]:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)``."""
        above, below = self._backward("sign_sums", r)
        return above, below

    def gram(self, omega: PerRow) -> Float[np.ndarray, "p p"]:
        """``Xᵀ diag(ω) X``, dense (p, p)."""
        return self._backward("gram", omega)[0]

    def grams(self, omega: PerRow) -> Float[np.ndarray, "G p p"]:
        """``Xᵀ diag(ω_g) X`` of every column of ``ω`` (n, G)."""
        return self._backward("grams", omega)[0]

    def column_summary(self, weight: PerRow) -> ColumnSummary:
        """Summary of the columns under row weights."""
        return merge_summaries(self.each_block(summarise, weight))

    def minimum(self) -> float:
        """Smallest entry; known from the first look unless rows were left out since."""
        if self._minimum is None:
            self._minimum = min(self.each_block(_least), default=0.0)
        return self._minimum


def _least(matrix: Any) -> float:
    return of_matrix(matrix).minimum()
