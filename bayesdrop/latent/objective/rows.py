"""The rows of a fit of a hidden layer, cut into blocks."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..._typing import Float, Int, MatrixLike
from ...designs import Design, as_design
from .criteria import Targets

__all__ = ["Block", "Rows", "blocks_of", "principal_axes"]

# Entries of a block, small enough that a dense design multiplies them as they are; and of all designs that are kept.
_ENTRIES = 1 << 21
_KEPT = 1 << 27


class Block(NamedTuple):
    """Some rows of the features, their targets and the weights ``C s_i`` of their loss, (m,).

    Attributes
    ----------
    X : array or scipy sparse (m, p)
        Features.
    target, weight : array
        Class numbers (m,) or signs (m, M), and weights (m,).
    nonzeros : int
        Non-zeros of the features, about so many.
    design : Design or None
        The features as a design, if it is kept.
    """

    X: MatrixLike
    target: Targets
    weight: Float[np.ndarray, " m"]
    nonzeros: int
    design: Design | None = None

    def take(self, rows: Int[np.ndarray, " rows"], share: float) -> Block:
        """Some of the rows, each counted ``share`` times as much."""
        nonzeros = self.nonzeros * len(rows) // max(len(self.weight), 1)
        return Block(self.X[rows], self.target[rows], share * self.weight[rows], nonzeros)


class Rows(list[Block]):
    """All rows, block by block."""

    @cached_property
    def second_moments(self) -> tuple[Float[np.ndarray, "p p"], Float[np.ndarray, " p"], float]:
        """``Σ C s_i x xᵀ``, ``Σ C s_i x`` and ``Σ C s_i``, made when first asked for."""
        p = self[0].X.shape[1]
        gram, total, count = np.zeros((p, p)), np.zeros(p), 0.0
        for block in self:
            design = as_design(block.X) if block.design is None else block.design
            gram += design.gram(block.weight)
            total += design.rmatvec(block.weight)
            count += float(block.weight.sum())
        return gram, total, count


def blocks_of(X: MatrixLike, target: Targets, weight: Float[np.ndarray, " n"], units: int) -> Rows:
    """Cut the rows into blocks for which features and covariances of ``units`` hidden units fit into a core's reach.

    The design of each is kept unless all together, with what a design may hold besides, would be large.
    """
    n, p = X.shape
    dense = not hasattr(X, "nnz")
    rows = max(1, min(_ENTRIES // (max(p, 1) if dense else 1), _ENTRIES // units**2))
    keep = (n * p if dense else X.nnz) <= _KEPT
    cuts = (slice(start, start + rows) for start in range(0, n, rows))

    def block(X: MatrixLike, cut: slice) -> Block:
        nonzeros = np.count_nonzero(X) if dense else X.nnz
        return Block(X, target[cut], weight[cut], int(nonzeros), as_design(X) if keep else None)

    return Rows(block(X[cut], cut) for cut in cuts)


def principal_axes(
    matrix: Float[np.ndarray, "q q"], with_last: bool
) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, "q q"]]:
    """Eigenvalues (q,) and vectors (q, q) of a symmetric matrix; the last coordinate may be left to itself.

    Examples
    --------
    >>> values, vectors = principal_axes(np.array([[1.0, 2.0], [2.0, 1.0]]), with_last=False)
    >>> values.tolist(), vectors.tolist()
    ([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    """
    inner = len(matrix) if with_last else len(matrix) - 1
    values, vectors = np.zeros(len(matrix)), np.eye(len(matrix))
    values[:inner], vectors[:inner, :inner] = np.linalg.eigh(matrix[:inner, :inner])
    return values, vectors
