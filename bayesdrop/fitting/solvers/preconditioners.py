"""Linear systems ``(D + MᵀΩM) x = r`` with a symmetric positive definite matrix.

Three preconditioners of conjugate gradients (:mod:`bayesdrop.linalg.systems`), chosen by shape: a Cholesky
factor of the matrix (few columns), the Woodbury identity on an n × n matrix (few rows) and the diagonal (sparse or
large). With one of the first two the loop is iterative refinement and ends after a step or two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ..._typing import Float, PerRow
from ..._validation import check_count, check_instance, check_number
from ...designs import Design
from ...linalg.systems import Apply, Factor, factor, factored, refuse_overflow, solved
from ...moments import ScoreMoments
from ..objective.energy import ProblemVector, WeightBlock

__all__ = [
    "Cholesky",
    "Jacobi",
    "Preconditioner",
    "Woodbury",
    "check_settings",
    "column_factor",
    "row_inverse",
    "choose_preconditioner",
    "rows_taken",
]

Vector: TypeAlias = Float[np.ndarray, "..."]


@runtime_checkable
class Preconditioner(Protocol):
    """Protocol: ``prepare`` returns a map ``r ↦ z`` on blocks (p + 1, K)."""

    def prepare(self, moments: ScoreMoments, omega: PerRow, diagonal: WeightBlock) -> Apply:
        """Approximate inverse of ``diag(diagonal) + MᵀΩM`` for ``ω >= 0`` (n, K) and ``diagonal`` (p + 1, K)."""


def check_settings(tol: Any, max_iter: Any, max_inner: Any, preconditioner: Any) -> None:
    """Raise if a setting of a minimiser that solves linear systems makes no sense.

    Examples
    --------
    >>> check_settings(1e-8, 200, 500, None)
    """
    check_number(tol, "tol", least=0)
    check_count(max_iter, "max_iter")
    check_count(max_inner, "max_inner")
    expected = "an object such as bayesdrop.fitting.solvers.preconditioners.Jacobi()"
    check_instance(preconditioner, "preconditioner", Preconditioner, expected, none=True)


def choose_preconditioner(design: Design, shared_from: int = 200) -> Preconditioner:
    """Cholesky for few columns, which problems share from so many on, Woodbury for few rows, else the diagonal.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> choose_preconditioner(as_design(np.ones((20, 3))))
    Cholesky(shared_from=200, enough=60000000.0)
    """
    if design.prefers_gram:
        return Cholesky(shared_from)
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
        # The inverse of what overflowed is 0: a gradient that is there would look as if it were none.
        refuse_overflow(curvature=whole)
        inverse = 1 / np.maximum(whole, np.finfo(float).tiny)
        return lambda r: inverse * r


def _thin(omega: Float[np.ndarray, "n K"], step: ProblemVector) -> Float[np.ndarray, "n K"]:
    """Keep rows drawn systematically with chances in proportion to ``ω``, with weights that stand for all of them.

    One row for each ``step`` of weight, for ``ω`` (n, K) and ``step`` (K,); rows with much weight are all there.
    """
    return np.stack([_thin_column(*column) for column in zip(omega.T, step, strict=True)], axis=1)


def _thin_column(omega: Float[np.ndarray, " n"], step: Any) -> Float[np.ndarray, " n"]:
    running = np.cumsum(omega)
    result = np.zeros_like(omega)
    if len(omega) and running[-1] > 0:
        size = max(1, round(running[-1] / step))
        rows = np.searchsorted(running, (np.arange(size) + 0.5) / size * running[-1])
        np.add.at(result, np.minimum(rows, len(omega) - 1), running[-1] / size)
    return result


def rows_taken(n: int, p: int, enough: float = 6e7, share: float = 14.0, per_column: tuple[int, int] = (4, 40)) -> int:
    """Rows of which the Cholesky preconditioner is made.

    All where they cost no more than ``enough`` multiplications; else so many that their matrix costs a ``share`` of a
    product with all rows, which is bound by memory while that is not, between the least and the most ``per_column``:
    with four the preconditioner is right to about a half, with a hundred to a tenth; conjugate gradients do the rest.

    Examples
    --------
    >>> rows_taken(1000, 20), rows_taken(20_000, 100)
    (1000, 2772)
    """
    least, most = per_column
    size = round((p + 1) * min(max(share * n / (p + 1) ** 2, least), most))
    return size if n > max(2 * size, enough / (p + 1) ** 2) else n


def column_factor(design: Design, omega: PerRow, diagonal: Vector, fitted: bool, gain: Vector | float = 1.0) -> Factor:
    """Factor of ``D + M̃ᵀΩM̃``, ``M̃ = [Xg, 1]``, for one ``ω`` (n,), ``D`` (p + 1,), and an intercept or none."""
    matrix = np.zeros((len(diagonal), len(diagonal)))
    scale = np.broadcast_to(gain, len(diagonal) - 1)
    matrix[:-1, :-1] = design.gram(omega) * (scale[:, None] * scale)
    matrix[-1, -1] = design.total(omega[:, None])[0] if fitted else 1.0
    if fitted:
        matrix[-1, :-1] = matrix[:-1, -1] = scale * design.rmatvec(omega[:, None])[:, 0]
    return factored(matrix, diagonal)


def row_inverse(
    design: Design, omega: PerRow, diagonal: Vector, fitted: bool, gain: Vector | float = 1.0
) -> Callable[[Vector], Vector]:
    """Inverse of the same through the n × n matrix ``I + Ω^½ M D⁻¹ Mᵀ Ω^½``.

    The intercept, which has no prior, is eliminated by its Schur complement.
    """
    scale = np.broadcast_to(gain, len(diagonal) - 1)
    root, inverse = np.sqrt(omega), 1 / diagonal[:-1]
    inner = design.outer_gram(scale**2 * inverse) * (root[:, None] * root)
    inner[np.diag_indices(len(root))] += 1.0
    refuse_overflow(curvature=inner.diagonal())
    known = factor(inner)

    def within(r: Vector) -> Vector:
        z = inverse * r
        inside = solved(known, root * design.matvec(scale * z))
        return np.asarray(z - inverse * scale * design.rmatvec(root * inside))

    if not fitted:
        return lambda r: np.append(within(r[:-1]), r[-1])
    border = scale * design.rmatvec(omega)
    through = within(border)
    rest = omega.sum() + diagonal[-1] - border @ through

    def solve(r: Vector) -> Vector:
        z = within(r[:-1])
        top = (r[-1] - border @ z) / rest
        return np.append(z - through * top, top)

    return solve


@dataclass(frozen=True)
class Cholesky:
    """Cholesky factor of the dense (p + 1) × (p + 1) matrix, one per column of the block.

    Where there are many more rows than columns it is the matrix of a sample of them, at a fraction of the cost: the
    factor is a preconditioner, and no loss of accuracy follows.

    Attributes
    ----------
    shared_from : int
        Columns from which on three problems or more share the factor of their mean matrix, on the scale of each.
    enough : float
        Multiplications up to which all rows are taken.

    Examples
    --------
    >>> Cholesky()
    Cholesky(shared_from=200, enough=60000000.0)
    """

    shared_from: int = 200
    enough: float = 6e7

    def prepare(self, moments: ScoreMoments, omega: PerRow, diagonal: WeightBlock) -> Apply:
        """See :class:`Preconditioner`."""
        (n, p), K, design, fitted = moments.design.shape, omega.shape[1], moments.design, moments.fit_intercept
        share = K > 2 and p >= self.shared_from
        size = np.mean(diagonal + moments.diagonal(omega), axis=0) if share else np.ones(K)
        taken = rows_taken(n, p, self.enough)
        omega = omega.mean(axis=1, keepdims=True) if share else omega
        if taken < n:
            step = np.maximum(design.total(omega) / taken, np.finfo(float).tiny)
            (omega,) = design.persist(design.rowwise(partial(_thin, step=step), omega))
        if share:
            gain = np.broadcast_to(moments.coefficients.gain, (p, K)).mean(axis=1)
            shared, scale = column_factor(design, omega[:, 0], diagonal.mean(axis=1), fitted, gain), size.mean() / size
            return lambda r: scale * solved(shared, r)
        factors = []
        for k in range(K):
            matrix = (moments if K == 1 else moments.select([k])).grams(omega[:, [k]])[0]
            if not fitted:
                matrix[-1, -1] = 1.0
            factors.append(factored(matrix, diagonal[:, k]))
        if K == 1:
            return lambda r: solved(factors[0], r)
        return lambda r: np.stack([solved(factors[k], r[:, k]) for k in range(r.shape[1])], axis=1)


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
        gain, fitted = np.broadcast_to(moments.coefficients.gain, (design.shape[1], K)), moments.fit_intercept
        solvers = [row_inverse(design, omega[:, k], diagonal[:, k], fitted, gain[:, k]) for k in range(K)]
        return lambda r: np.stack([solvers[k](r[:, k]) for k in range(r.shape[1])], axis=1)
