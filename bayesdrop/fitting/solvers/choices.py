"""Table of the minimisers of a fit with one score per row; the first row whose condition holds is used.

``fit.solver`` is the name of this row. If interior points or coordinates do not finish, Newton's method continues, by a
row of ``STEPS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from ...losses.protocols import PiecewiseLinear
from ..objective.energy import Energy, WeightBlock
from .coordinates import solve_by_coordinates
from .dual_problem import Dual, DualLimits
from .interior_points import has_steps, solve_interior

__all__ = ["CHOICES", "STEPS", "Case", "Choice", "Limits", "case_of", "choose", "has_dual", "solve_dual"]


@dataclass(frozen=True)
class Limits:
    """Thresholds of the table.

    Attributes
    ----------
    tall : int
        Minimum number of rows per column at which interior points take sparse rows.
    multiplications : float
        Maximum number of multiplications of a Gram matrix, ``n p²``, at which interior points take sparse rows.
    heavy : float
        Minimum variance of an entry, as a share of its squared mean, at which the diagonal dominates the matrix.
    many : int
        Minimum number of columns for the diagonal preconditioner under such noise.
    """

    tall: int = 20
    multiplications: float = 2e10
    heavy: float = 1.5
    many: int = 200


class Case(NamedTuple):
    """Properties of an energy by which a minimiser is chosen.

    Attributes
    ----------
    n, p : int
        Rows and columns.
    dense : bool
        Rows are in memory, and not mostly zero.
    factor, outer : bool
        A p × p factor fits into memory, and an n × n factor.
    dual, interior : bool
        There is a dual without noise, and interior points have steps for it.
    noise : float
        Minimum variance of an entry, as a share of its squared mean, for a piecewise-linear loss; 0 for others.
    absolute : bool
        The penalty is on absolute weights.
    """

    n: int
    p: int
    dense: bool
    factor: bool
    outer: bool
    dual: bool
    interior: bool
    noise: float
    absolute: bool = False


@dataclass(frozen=True)
class Choice:
    """A row of a table of algorithms: its name, the condition for its use, a description, and the reason."""

    name: str
    when: Callable[[Any, Any], bool]
    what: str
    because: str


STEPS = (
    Choice(
        "Newton, diagonal of much noise",
        lambda case, limits: case.noise >= limits.heavy and case.factor and case.p >= limits.many,
        "conjugate gradients with a diagonal preconditioner, though a factor would fit",
        "6 s instead of 62 for ten classes of MNIST at rate 0.9",
    ),
    Choice(
        "Newton, Cholesky", lambda case, limits: case.factor,
        "conjugate gradients with a p × p Cholesky factor",
        "few columns: one or two steps of conjugate gradients remain, and one step is exact for squared loss",
    ),
    Choice(
        "Newton, Woodbury", lambda case, limits: case.outer, "an n × n Cholesky factor",
        "few rows: exact",
    ),
    Choice(
        "Newton, diagonal", lambda case, limits: True, "conjugate gradients with a diagonal preconditioner",
        "two passes over the entries for each product, whatever the shape",
    ),
)  # fmt: skip
"""Steps of Newton's method."""

CHOICES = (
    Choice(
        "Newton, proximal", lambda case, limits: case.absolute,
        "Newton steps on a quadratic with the penalty on absolute weights, by coordinates and one factor",
        "weights that are zero are zero exactly",
    ),
    Choice(
        "interior points",
        lambda case, limits: (
            case.dual
            and case.interior
            and (case.dense or (case.n > limits.tall * case.p and case.n * case.p**2 <= limits.multiplications))
        ),
        "20 to 30 Newton steps, each with a Cholesky factor",
        "8 ms instead of 50 to 100 for 1,000 × 30, whatever C, and to the last digit",
    ),
    Choice(
        "coordinates", lambda case, limits: case.dual, "coordinate ascent on the dual variables",
        "a hundred times faster than a smoothed loss on sparse rows",
    ),
    *STEPS,
)  # fmt: skip
"""Minimisers in order of preference."""


def case_of(energy: Energy) -> Case:
    """Properties of an energy for the choice."""
    design = energy.moments.design
    dense = energy.has_all_rows and not (design.is_sparse or design.is_streamed or design.is_mostly_zero)
    dual, noise = has_dual(energy), 0.0
    if energy.loss.piecewise_linear and not dual:
        gain, _, quadratic, _, _ = energy.moments.coefficients
        noise = float(np.min(quadratic / np.maximum(gain**2, np.finfo(float).tiny), initial=np.inf))
    return Case(
        *design.shape, dense, design.prefers_gram, design.prefers_outer_gram, dual, dual and has_steps(energy), noise,
        energy.absolute is not None,
    )  # fmt: skip


def choose(case: Case, limits: Limits | None = None, rows: Sequence[Choice] = CHOICES) -> Choice:
    """The first of the rows whose condition holds.

    Examples
    --------
    >>> case = Case(1000, 30, True, True, False, False, False, 0.0)
    >>> choose(case).name, choose(case._replace(factor=False)).name
    ('Newton, Cholesky', 'Newton, diagonal')
    """
    limits = Limits() if limits is None else limits
    return next(row for row in rows if row.when(case, limits))


def has_dual(energy: Energy) -> bool:
    """Whether the energy has the dual of :mod:`.dual_problem`, in weights times the gain of the noise."""
    moments, loss = energy.moments, cast(PiecewiseLinear, energy.loss)
    gain, shift = moments.coefficients[:2]
    # Check the flag first: for a smooth loss the check of the protocol takes as long as a step.
    if not (loss.piecewise_linear and isinstance(loss, PiecewiseLinear)) or energy.plain_weight is not None:
        return False
    if moments.has_variance or np.any(shift) or not np.all(gain > 0) or energy.level is not None:
        return False
    return bool(np.all(energy.precision[:-1] > 0))


def solve_dual(
    energy: Energy, weights: WeightBlock, tol: float, interior: bool = False, limits: DualLimits | None = None
) -> Dual | None:
    """Minimise the energy of piecewise-linear losses without noise by their dual.

    Parameters
    ----------
    energy : Energy
        Energy of K problems.
    weights : array (p + 1, K)
        Where to start; only the intercepts are used.
    tol : float
        Relative suboptimality to reach. The ``gap`` of the result is larger if the limits are met before.
    interior : bool
        Whether interior points come first and coordinates second, if needed; else the other way round.
    limits : DualLimits, optional
        Limits on the work.

    Returns
    -------
    Dual or None
        None for other losses, with noise, for columns without a prior and rows outside this process, or without a
        compiler.
    """
    if not has_dual(energy):
        return None
    if energy.location is not None:
        # Without noise the scores of the prior mean are an offset; the weights minus this mean have the mean 0.
        prior_scores = energy.moments.mean(energy.location)
        prior_scores = prior_scores if energy.offset is None else prior_scores + energy.offset
        dual = solve_dual(replace(energy, location=None, offset=prior_scores), weights, tol, interior, limits)
        return None if dual is None else dual._replace(weights=dual.weights + energy.location)
    limits = DualLimits() if limits is None else limits
    n, p = energy.moments.design.shape
    best: Dual | None = None
    for by_interior in (interior, not interior):
        if not by_interior:
            other = solve_by_coordinates(energy, weights, tol, limits)
        else:
            is_cheap = interior or n * p**2 <= limits.multiplications
            other = solve_interior(energy, weights, tol) if is_cheap else None
        if other is not None and (best is None or np.sum(other.gap) < np.sum(best.gap)):
            best = other
        if best is not None and _has_ended(energy, best, tol):
            break
    return best


def _has_ended(energy: Energy, dual: Dual, tol: float) -> bool:
    mean, var = energy.moments.scores(dual.weights)
    value = energy.value(dual.weights, mean, var, np.zeros(len(dual.gap)))
    return bool(np.all(dual.gap <= tol * np.abs(value)))
