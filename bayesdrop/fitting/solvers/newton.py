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

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Bool, PerRow
from ..._validation import check_instance
from ...linalg.systems import conjugate_gradient
from ...losses.protocols import Curved, require
from ..objective.energy import Energy, ProblemVector, WeightBlock
from .choices import STEPS, case_of, choose, solve_dual
from .driver import StepInfo
from .learning import Learning
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
    "normal equations": Cholesky(enough=np.inf),
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
            state = self._fresh(energy, state, False)
            return state.changed(memory=state.memory.changed(pull=dual.pull))
        return self._fresh(energy, SolverState.at(energy, weights, None), begun)

    def init_learning(self, learning: Learning, weights: WeightBlock) -> SolverState:
        """The same at rates that follow the weights (p + 1, K), which they may do already in what comes first."""
        # Rates follow the signs of the weights, so that those before the first update need not be accurate at all.
        return replace(self, tol=max(self.tol, self.rules.rough)).init(learning.energy, weights)

    def _fresh(self, energy: Energy, state: SolverState, begun: bool) -> SolverState:
        """Before the first step, at weights that may have been ``begun`` by a fit nearby."""
        memory = NewtonMemory.blank(state.smoothing, None)
        if begun:
            # Full steps succeed at once; those that do not bring the damping back.
            memory = memory.changed(damping=np.zeros_like(memory.damping))
        return state.changed(memory=memory)

    def step(self, energy: Energy, state: SolverState, goal: Any) -> tuple[SolverState, StepInfo]:
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
                return state.changed(remaining=remaining, memory=memory), StepInfo(np.ones(size.shape, dtype=bool))
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
            return ended, StepInfo(np.zeros(size.shape, dtype=bool))
        slope = np.einsum("ij,ij->j", gradient, direction)
        ended, length = _search(energy, state, direction, tangent, slope, self.rules)
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
        return ended.changed(remaining=remaining, memory=memory), StepInfo((length > 0) & ~spent)


class _Place(NamedTuple):
    """Weights (p + 1, K) on the way, the moments of their scores (n, K), and the slope of the variance if asked."""

    weights: WeightBlock
    mean: PerRow
    var: PerRow
    var_slope: Callable[[], PerRow]


def _search(
    energy: Energy,
    state: SolverState,
    direction: WeightBlock,
    tangent: tuple[PerRow, ...],
    slope: ProblemVector,
    rules: StepRules,
) -> tuple[SolverState, ProblemVector]:
    """Go along the direction; returns the state there and the lengths, (K,), 0 where nothing decreases.

    The mean scores are linear in the length, and their variances quadratic, so that other lengths cost no pass over the
    data (:mod:`.exponential_moments` apart). A full step
    that gains much less than its model said is shortened by regula falsi on the slope; what still does not decrease is
    halved. One that gains much more goes on to where the slope ends, as those of a logistic loss do whose rows leave
    the bend of the loss one after the other.
    """
    moments = energy.moments
    slack = 8 * np.finfo(float).eps * np.abs(state.value)
    length = np.ones_like(slope)
    weights = state.weights + direction
    mean, var = moments.design.persist(state.mean + tangent[0], moments.variance(weights))
    value = energy.value(weights, mean, var, state.smoothing)
    good = value <= state.value + rules.gain * slope + slack
    # Of several valleys a longer step may miss the one that is meant; kinks without noise are about to be sharpened.
    free = energy.convex and (moments.has_variance or not energy.loss.piecewise_linear)
    far = free & (value < state.value + rules.far * slope - slack)
    if np.all(good & ~far):
        return state.changed(weights=weights, mean=mean, var=var, value=value), length
    path = moments.path(state.weights, direction, state.var, var, tangent[1] if len(tangent) > 1 else None)

    def at(length: ProblemVector) -> _Place:
        var, var_slope = path(length)
        mean, var = moments.design.persist(state.mean + length * tangent[0], var)
        weights = state.weights + length * direction
        return _Place(weights, mean, var, var_slope)

    def slope_at(length: ProblemVector) -> ProblemVector:
        weights, mean, var, var_slope = at(length)
        parts = energy.derivatives(mean, var, state.smoothing)
        inside = energy.moments.design.total(parts.mean * tangent[0] + parts.var * var_slope())
        return np.asarray(inside + np.sum(energy.pull(weights) * direction, axis=0))

    if np.any(far):
        length = _lengthen(slope_at, slope, far, rules.flat)
    if not np.all(good):
        length = np.where(good, length, _shorten(slope_at, slope))
    # What goes on is to gain more than it did.
    most, share = np.where(far, value, state.value), np.where(far, 0.0, 1e-4)
    for attempt in range(40):
        # Where the energy is all but flat a direction may be any number of times too long.
        shorter = 0.5 if attempt < rules.halvings else 0.1
        weights, mean, var, _ = at(length)
        value = energy.value(weights, mean, var, state.smoothing)
        good = value <= most + share * length * slope + slack
        if np.all(good):
            break
        length = np.where(good, length, np.where(length > 1, 1.0, shorter * length))
    else:
        length = np.where(good, length, 0.0)
        weights, mean, var = (
            np.where(good, new, old) for new, old in ((weights, state.weights), (mean, state.mean), (var, state.var))
        )
    # Along a path rounding grows with the square of the length, from step to step where weights shrink to zero.
    _, var = moments.design.persist(mean, moments.variance(weights))
    value = energy.value(weights, mean, var, state.smoothing)
    return state.changed(weights=weights, mean=mean, var=var, value=value), length


def _lengthen(
    slope_at: Callable[[ProblemVector], ProblemVector],
    slope: ProblemVector,
    far: Bool[np.ndarray, " K"],
    flat: float,
) -> ProblemVector:
    """Length from 1 on near where the energy along the direction is flat, of those that go ``far``; 1 of the others.

    Secants of the slope lead there, at most four times as far at once; the share ``flat`` of the first slope is enough.
    """
    low, at_low, best = np.zeros_like(slope), slope, np.ones_like(slope)
    probe = np.where(far, 2.0, 1.0)
    for _ in range(4):
        here = slope_at(probe)
        secant = low + (probe - low) * at_low / np.where(here > at_low, at_low - here, -np.inf)
        best = np.where(far, np.where(here > 0, np.maximum(secant, 1.0), probe), best)
        far = far & (here < flat * slope)
        if not np.any(far):
            break
        low, at_low = np.where(far, probe, low), np.where(far, here, at_low)
        probe = np.where(far, np.clip(secant, 1.5 * probe, 4 * probe), probe)
    return best


def _shorten(slope_at: Callable[[ProblemVector], ProblemVector], slope: ProblemVector) -> ProblemVector:
    """Length in (0, 1] where the energy along the direction is flat, by four steps of the Illinois rule."""
    low, high = np.zeros_like(slope), np.ones_like(slope)
    at_low, at_high = slope.copy(), slope_at(high)
    crossing = at_high > 0
    best = high.copy()
    for _ in range(4):
        safe = np.where(crossing, at_high - at_low, 1.0)
        best = np.where(crossing, high - at_high * (high - low) / safe, high)
        here = slope_at(best)
        up = here > 0
        # The end that stays counts half, so that it moves at the next step.
        at_low, at_high = np.where(up, 0.5 * at_low, here), np.where(up, here, 0.5 * at_high)
        low, high = np.where(up, low, best), np.where(up, best, high)
        if np.all(np.abs(here) <= 0.1 * np.abs(slope)):
            break
    return best
