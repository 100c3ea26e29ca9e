"""Precondition linear systems ``(D + MᵀΩM) x = r`` with a positive definite matrix, for Newton's method and EM.

There are three preconditioners for conjugate gradients (:mod:`bayesdrop.linalg.systems`), chosen by shape: a Cholesky
factor of the matrix (few columns), the Woodbury identity on an n × n matrix (few rows) and the diagonal (sparse or
large). With the first two, conjugate gradients are iterative refinement and end after one or two steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ..._typing import Float, PerRow
from ..._validation import check_count, check_instance, check_number
from ...designs import Design
from ...linalg.systems import Apply, Factor, factor, factored, refuse_overflow, solved
from ...moments import ScoreMoments
from ..objective.energy import WeightBlock

__all__ = [
    "Cholesky",
    "Jacobi",
    "Preconditioner",
    "Woodbury",
    "check_settings",
    "column_factor",
    "row_inverse",
    "choose_preconditioner",
]

Vector: TypeAlias = Float[np.ndarray, "..."]


@runtime_checkable
class Preconditioner(Protocol):
    """Protocol: ``prepare`` returns a map ``r ↦ z`` on blocks (p + 1, K)."""

    def prepare(self, moments: ScoreMoments, omega: PerRow, diagonal: WeightBlock) -> Apply:
        """Approximate inverse of ``diag(diagonal) + MᵀΩM`` for ``ω >= 0`` (n, K) and ``diagonal`` (p + 1, K)."""


def check_settings(tol: Any, max_iter: Any, max_inner: Any, preconditioner: Any) -> None:
    """Raise if a setting of Newton's method or EM is invalid.

    Examples
    --------
    >>> check_settings(1e-8, 200, 500, None)
    """
    check_number(tol, "tol", least=0)
    check_count(max_iter, "max_iter")
    check_count(max_inner, "max_inner")
    expected = "an object such as bayesdrop.fitting.solvers.preconditioners.Jacobi()"
    check_instance(preconditioner, "preconditioner", Preconditioner, expected, none=True)


def choose_preconditioner(design: Design, similar: bool = False) -> Preconditioner:
    """Cholesky for few columns, Woodbury for few rows, else the diagonal; ``similar`` problems share a factor.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> choose_preconditioner(as_design(np.ones((20, 3))))
    Cholesky(shared_from=200)
    """
    if design.prefers_gram:
        return Cholesky(shared_from=0) if similar else Cholesky()
    return Woodbury() if design.prefers_outer_gram else Jacobi()


@dataclass(frozen=True)
class Jacobi:
    """The diagonal of the matrix.

    Examples
    --------
    >>> Jacobi()
    Jacobi()
    """

    def prepare(self, moments: ScoreMoments, omega: PerRow, diagonal: WeightBlock) -> Apply:
        """See :class:`Preconditioner`."""
        whole = diagonal + moments.diagonal(omega)
        # The inverse of an overflow would be 0 and hide the gradient.
        refuse_overflow(curvature=whole)
        inverse = 1 / np.maximum(whole, np.finfo(float).tiny)
        return lambda r: inverse * r


def column_factor(design: Design, omega: PerRow, diagonal: Vector, affine: bool, gain: Vector | float = 1.0) -> Factor:
    """Factor of ``D + M̃ᵀΩM̃``, ``M̃ = [Xg, 1]``, for one ``ω`` (n,) and ``D`` (p + 1,); ``affine`` with an intercept."""
    matrix = np.zeros((len(diagonal), len(diagonal)))
    scale = np.broadcast_to(gain, len(diagonal) - 1)
    matrix[:-1, :-1] = design.gram(omega) * (scale[:, None] * scale)
    matrix[-1, -1] = design.total(omega[:, None])[0] if affine else 1.0
    if affine:
        matrix[-1, :-1] = matrix[:-1, -1] = scale * design.rmatvec(omega[:, None])[:, 0]
    return factored(matrix, diagonal)


def row_inverse(
    design: Design, omega: PerRow, diagonal: Vector, affine: bool, gain: Vector | float = 1.0
) -> Callable[[Vector], Vector]:
    """Inverse of the matrix of :func:`column_factor`, through the n × n matrix ``I + Ω^½ M D⁻¹ Mᵀ Ω^½``.

    The intercept, which has no prior, is eliminated by its Schur complement.
    """
    scale = np.broadcast_to(gain, len(diagonal) - 1)
    root, inverse = np.sqrt(omega), 1 / diagonal[:-1]
    inner = design.outer_gram(scale**2 * inverse) * (root[:, None] * root)
    inner[np.diag_indices(len(root))] += 1.0
    refuse_overflow(curvature=inner.diagonal())
    inner_factor = factor(inner)

    def within(r: Vector) -> Vector:
        z = inverse * r
        inside = solved(inner_factor, root * design.matvec(scale * z))
        return np.asarray(z - inverse * scale * design.rmatvec(root * inside))

    if not affine:
        return lambda r: np.append(within(r[:-1]), r[-1])
    border = scale * design.rmatvec(omega)
    through = within(border)
    complement = omega.sum() + diagonal[-1] - border @ through

    def solve(r: Vector) -> Vector:
        z = within(r[:-1])
        top = (r[-1] - border @ z) / complement
        return np.append(z - through * top, top)

    return solve


@dataclass(frozen=True)
class Cholesky:
    """Cholesky factor of the dense (p + 1) × (p + 1) matrix, one per column of the block.

    Attributes
    ----------
    shared_from : int
        Minimum number of features at which three or more problems share the factor of their mean matrix, rescaled for
        each.

    Examples
    --------
    >>> Cholesky()
    Cholesky(shared_from=200)
    """

    shared_from: int = 200

    def prepare(self, moments: ScoreMoments, omega: PerRow, diagonal: WeightBlock) -> Apply:
        """See :class:`Preconditioner`."""
        p, K, design, affine = moments.design.shape[1], omega.shape[1], moments.design, moments.fit_intercept
        if K > 2 and p >= self.shared_from:
            size = np.mean(diagonal + moments.diagonal(omega), axis=0)
            gain = np.broadcast_to(moments.coefficients.gain, (p, K)).mean(axis=1)
            shared = column_factor(design, omega.mean(axis=1), diagonal.mean(axis=1), affine, gain)
            return lambda r: size.mean() / size * solved(shared, r)
        factors = []
        for k in range(K):
            matrix = (moments if K == 1 else moments.select([k])).grams(omega[:, [k]])[0]
            if not affine:
                matrix[-1, -1] = 1.0
            factors.append(factored(matrix, diagonal[:, k]))
        return lambda r: np.stack([solved(factors[k], r[:, k]) for k in range(K)], axis=1)


@dataclass(frozen=True)
class Woodbury:
    """Inverse through the n × n matrix ``I + Ω^½ M D⁻¹ Mᵀ Ω^½``, one per column of the block.

    Examples
    --------
    >>> Woodbury()
    Woodbury()
    """

    def prepare(self, moments: ScoreMoments, omega: PerRow, diagonal: WeightBlock) -> Apply:
        """See :class:`Preconditioner`."""
        design, K = moments.design, omega.shape[1]
        gain, affine = np.broadcast_to(moments.coefficients.gain, (design.shape[1], K)), moments.fit_intercept
        solvers = [row_inverse(design, omega[:, k], diagonal[:, k], affine, gain[:, k]) for k in range(K)]
        return lambda r: np.stack([solvers[k](r[:, k]) for k in range(r.shape[1])], axis=1)
