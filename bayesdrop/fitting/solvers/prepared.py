"""Preconditioners that serve again: of a fit at the next rate the matrix is nearly that of the last."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..._typing import Float, PerRow
from ...moments import ScoreMoments
from ..shapes import WeightBlock
from .preconditioners import Apply, DiagonalInverse, Jacobi, Preconditioner

__all__ = ["Prepared", "prepare_near"]

# Largest ratio of the changes of two diagonal entries for which one factor serves both matrices.
_ALIKE = 2.0


class Prepared:
    """A preconditioner with what it was made of, to be brought to the scale of a matrix nearby.

    With ``s² = diag(A) / diag(B)`` the preconditioner ``r ↦ s∘A⁻¹(s∘r)`` of ``B`` has the diagonal of ``B``.

    Parameters
    ----------
    inverse : callable
        ``r ↦ z`` on blocks (p + 1, K).
    moments : ScoreMoments
        Design and noise of the matrix.
    omega : array (n, K)
        Weights of the rows.
    diagonal : array (p + 1, K)
        What is added to the diagonal.
    """

    def __init__(self, inverse: Apply, moments: ScoreMoments, omega: PerRow, diagonal: WeightBlock) -> None:
        self._inverse, self._moments, self._omega, self._diagonal = inverse, moments, omega, diagonal
        self._scale: Float[np.ndarray, "q K"] | None = None

    @cached_property
    def _whole(self) -> WeightBlock:
        return np.asarray(self._diagonal + self._moments.diagonal(self._omega))

    def apply(self, right: WeightBlock) -> WeightBlock:
        """Approximate solution ``z``, (p + 1, K)."""
        if self._scale is None:
            return self._inverse(right)
        return self._scale * self._inverse(self._scale * right)

    @property
    def diagonal_inverse(self) -> DiagonalInverse | None:
        """The map itself where it treats every number by itself."""
        return self._inverse if isinstance(self._inverse, DiagonalInverse) else None

    def at(self, moments: ScoreMoments, omega: PerRow, diagonal: WeightBlock) -> Prepared | None:
        """The same for another matrix; None if the two are not much alike."""
        if self._moments.design is not moments.design or self._omega.shape != omega.shape:
            return None
        ratio = self._whole / (diagonal + moments.diagonal(omega))
        if not np.max(ratio) <= _ALIKE * np.min(ratio):
            return None
        other = Prepared(self._inverse, self._moments, self._omega, self._diagonal)
        other._whole, other._scale = self._whole, np.sqrt(ratio)
        return other


def prepare_near(
    solver: Preconditioner, moments: ScoreMoments, omega: PerRow, diagonal: WeightBlock, known: Prepared | None
) -> Prepared:
    """Prepare a preconditioner, or take one that is ``known`` where its matrix is much alike and it is costly.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from bayesdrop.designs import as_design
    >>> from bayesdrop.fitting.solvers.preconditioners import Cholesky
    >>> design, one = as_design(np.array([[1.0], [2.0]])), np.ones((2, 1))
    >>> moments = [ScoreMoments(design, bd.Dropout(), np.array([[rate]])) for rate in (0.1, 0.2)]
    >>> first = prepare_near(Cholesky(), moments[0], one, one, None)
    >>> prepare_near(Cholesky(), moments[1], one, one, first)._inverse is first._inverse
    True
    """
    if known is not None and not isinstance(solver, Jacobi):
        found = known.at(moments, omega, diagonal)
        if found is not None:
            return found
    return Prepared(solver.prepare(moments, omega, diagonal), moments, omega, diagonal)
