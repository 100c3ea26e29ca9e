"""Newton's method on the marginalised energy itself, by inexact conjugate gradients.

The profiled energy is smooth and convex, so Newton's method reaches the point that EM reaches, in a handful of
steps. Forms that are not convex are taken downhill to a stationary point: conjugate gradients stop where the energy
bends downwards. Early steps lean on the EM matrix ``P + G``, which majorises the Hessian: its share is the *damping*,
one at the start and gone as soon as a full step succeeds.

Of a quadratic loss the energy is quadratic in the weights. With ``c φ_mm = ω`` in every row, and ``φ_v = ½ φ_mm`` since
an expected quadratic function is exact, its Hessian is the prior precision and the expected Gram matrix of noised rows,

    A = P + E M̃ᵀΩM̃ = P + MᵀΩM + diag(q(ω)),

wherever it is taken, and a step by a factor of it is the solution of the normal equations (van der Maaten, Chen, Tyree
& Weinberger 2013, section 3.1; Wager, Wang & Liang 2013).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._typing import Bool, PerRow
from ..._validation import check_instance
from ...linalg.systems import conjugate_gradient
from ...losses.protocols import Curved, require
from ..objective.energy import Energy, ProblemVector, WeightBlock
from .choices import STEPS, case_of, choose, solve_dual
from .newton_memory import FirstOrder, NewtonMemory, StepRules, learn_from, square
from .preconditioners import (
    Cholesky,
    Jacobi,
    Preconditioner,
    Woodbury,
    check_settings,
)
from .state import SolverState

__all__ = ["Newton"]

# Preconditioners of the steps of the table that are not the diagonal.
_FACTORS: dict[str, Preconditioner] = {
    "Newton, Cholesky": Cholesky(),
    "Newton, Woodbury": Woodbury(),
}


@dataclass(frozen=True)
class Newton:
    """Inexact Newton's method; for piecewise-linear losses on sparse rows it solves the dual first.

    Parameters
    ----------
    tol : float, default=1e-08
        Estimated suboptimality, relative to the energy, at which to stop. Of smooth losses the weights, and the
        gradient, are as near as that: in units in which the curvature is one the distance to the optimum is below
        ``10⁴ tol``, relative to the root of twice the energy; at the default of 1e-8 that is the same bound. Of
        piecewise-linear losses it is a bound on the energy, and the distance is below the root of ``2 tol``.
    max_iter : int, default=200
        Maximal number of Newton steps.
    preconditioner : Preconditioner, optional
        ``Cholesky()``, ``Woodbury()`` or ``Jacobi()`` of :mod:`.preconditioners`; by default chosen by shape.
    max_inner : int, default=500
        Maximal number of conjugate-gradient steps in a Newton step.
    rules : StepRules, optional
        Rules by which steps are accepted.

    See Also
    --------
    EM, fit

    Examples
    --------
    >>> Newton(tol=1e-10).max_iter
    200
    """

    tol: float = 1e-8
    max_iter: int = 200
    preconditioner: Preconditioner | None = None
    max_inner: int = 500
    rules: StepRules = field(default=StepRules(), repr=False)

    def __post_init__(self) -> None:
        check_settings(self.tol, self.max_iter, self.max_inner, self.preconditioner)
        check_instance(self.rules, "rules", StepRules, "bayesdrop.fitting.solvers.newton_memory.StepRules(...)")

    def init(self, energy: Energy, weights: Any, earlier: SolverState | None = None) -> SolverState:
        """See :class:`.driver.Minimiser`; raise ValueError if the loss has no derivatives."""
        require(energy.loss, Curved, "Newton's method", "write its derivatives, or use bd.EM() if it is Augmented")
        if earlier is not None:
            state = SolverState.at(energy, weights, None, earlier)
            return state.changed(memory=NewtonMemory.blank(state.smoothing, earlier.memory))
        way = choose(case_of(energy)).name
        begun = bool(np.any(weights[:-1]))
        if (dual := solve_dual(energy, weights, self.tol, way == "interior points")) is not None:
            # Where it has not ended, all of the smoothing stays.
            state = SolverState.at(energy, dual.weights, None).unsmoothed(energy, dual.gap, self.tol)
            return state.changed(memory=NewtonMemory.blank(state.smoothing, None).changed(pull=dual.pull))
        state = SolverState.at(energy, weights, None)
        memory = NewtonMemory.blank(state.smoothing, None)
        # A step that fails restores the damping.
        return state.changed(memory=memory.changed(damping=np.zeros_like(memory.damping)) if begun else memory)

    def step(self, energy: Energy, state: SolverState, goal: Any) -> tuple[SolverState, Bool[np.ndarray, " K"]]:
        """One damped Newton step with Armijo back-tracking; see :class:`.driver.Minimiser`."""
        memory: NewtonMemory = state.memory.at_smoothing(state.smoothing)
        first = memory.first_order or FirstOrder.at(energy, state)
        memory = memory.changed(first_order=first, pull=None)
        slopes, gradient, spread = first
        curvature = energy.curvature(slopes, spread, memory.damping)
        # A form that is not convex may bend downwards; the preconditioner keeps to what bends upwards.
        upward = curvature.mean_mean if energy.convex else np.maximum(curvature.mean_mean, 0.0)
        solver = self.preconditioner
        if solver is None:
            way = choose(case_of(energy), rows=STEPS).name
            solver = _FACTORS.get(way, Jacobi())
        precondition = memory.precondition or solver.prepare(energy.moments, upward, curvature.diagonal)
        size = square(gradient, precondition)
        remaining = state.remaining
        doubted = np.isfinite(state.floor) & (remaining > goal)
        if (memory.calibration > 0).all():
            # The rates or the smoothing may have moved by too little to matter.
            remaining = self.rules.safety * memory.calibration * size
            if ((remaining <= goal) & ~doubted).all():
                return state.changed(remaining=remaining, memory=memory), np.ones(size.shape, dtype=bool)
        reference = np.where(memory.reference > 0, memory.reference, np.maximum(size, np.finfo(float).tiny))
        memory = memory.changed(reference=reference)
        forcing = np.minimum(0.2, (size / reference) ** 0.15)
        # No more accuracy than the goal asks for: the suboptimality falls by the square of the relative residual.
        left = np.maximum(self.rules.safety * memory.calibration * size, 1e-6 * goal + np.finfo(float).tiny)
        left = np.where(doubted, np.maximum(left, state.remaining), left)
        forcing = np.where(
            memory.calibration > 0, np.maximum(forcing, np.minimum(0.5, np.sqrt(self.rules.aim * goal / left))), forcing
        )
        direction, tangent, products = conjugate_gradient(
            lambda u: energy.product(state.weights, curvature, u),
            -gradient,
            precondition,
            forcing,
            self.max_inner,
            energy.moments.design.persist,
        )
        if not tangent:  # the gradient is exactly zero
            ended = state.changed(remaining=np.zeros_like(size), memory=memory)
            return ended, np.zeros(size.shape, dtype=bool)
        slope = np.einsum("ij,ij->j", gradient, direction)
        ended, length = _search(energy, state, direction, tangent[0], slope, self.rules)
        damped = memory.damping > 0
        first = FirstOrder.at(energy, ended)
        memory = learn_from(memory, length, -0.5 * slope, size, first, self.rules)
        after = square(first.gradient, precondition)
        # Nor does one that a smooth energy cannot show, unless the gradient says that it led somewhere.
        unseen = 0.0 if energy.loss.piecewise_linear else np.finfo(float).eps * np.abs(ended.value)
        idle = (doubted & (-0.5 * slope <= self.rules.idle * goal)) | (-0.5 * slope <= unseen)
        spent = idle & (after > 0.5 * size)
        remaining = self.rules.safety * memory.calibration * after
        if not energy.loss.quadratic:
            # The EM matrix may be 1e8 times the Hessian, and no gradient is large in its units.
            remaining = np.where(damped, np.maximum(remaining, 2 * goal), remaining)
        # Kinks without noise are sharpened from step to step, and their curvature with them.
        smooth = not energy.loss.piecewise_linear or energy.moments.has_variance
        costly = energy.moments.design.shape[1] >= self.rules.wide and not isinstance(solver, Jacobi)
        memory = memory.changed(
            precondition=precondition
            if smooth and costly and products <= self.rules.products and not damped.any()
            else None
        )
        return ended.changed(remaining=remaining, memory=memory), (length > 0) & ~spent


def _search(
    energy: Energy,
    state: SolverState,
    direction: WeightBlock,
    tangent: PerRow,
    slope: ProblemVector,
    rules: StepRules,
) -> tuple[SolverState, ProblemVector]:
    """Halve the step until the energy falls; return the state there and the lengths, (K,), 0 if nothing decreases."""
    moments, slack = energy.moments, 8 * np.finfo(float).eps * np.abs(state.value)
    length = np.ones_like(slope)
    for attempt in range(rules.trials):
        weights = state.weights + length * direction
        # Mean scores are linear in the length.
        mean, var = moments.design.persist(state.mean + length * tangent, moments.variance(weights))
        value = energy.value(weights, mean, var, state.smoothing)
        good = value <= state.value + rules.gain * length * slope + slack
        if np.all(good):
            return state.changed(weights=weights, mean=mean, var=var, value=value), length
        # If the energy is almost flat, a direction may be too long by orders of magnitude.
        length = np.where(good, length, (0.5 if attempt < rules.halvings else 0.1) * length)
    parts = {"weights": weights, "mean": mean, "var": var, "value": value}
    return state.changed(
        **{name: np.where(good, part, vars(state)[name]) for name, part in parts.items()}
    ), length * good
