"""Newton's method for ``bd.fit``, on the marginalised energy, by inexact conjugate gradients.

The profiled energy is smooth and convex, so Newton's method reaches the optimum of EM in a few steps. For a form that
is not convex it reaches a stationary point: conjugate gradients stop at negative curvature.

For a quadratic loss the energy is quadratic in the weights. With ``c φ_mm = ω`` in every row, and ``φ_v = ½ φ_mm``
since an expected quadratic function is exact, its Hessian is the prior precision plus the expected Gram matrix of
noised rows,

    A = P + E M̃ᵀΩM̃ = P + MᵀΩM + diag(q(ω)),

at any weights, and a step with a factor of ``A`` solves the normal equations (van der Maaten, Chen, Tyree & Weinberger
2013, section 3.1; Wager, Wang & Liang 2013).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Bool, PerRow
from ..._validation import check_instance
from ...linalg.systems import Apply, conjugate_gradient
from ...losses import Derivatives
from ...losses.protocols import Curved, require
from ..objective.energy import Energy, FeatureBlock, ProblemVector, WeightBlock
from .choices import STEPS, case_of, choose, solve_dual
from .preconditioners import (
    Cholesky,
    Jacobi,
    Preconditioner,
    Woodbury,
    check_settings,
)
from .state import PerProblem, SolverState

__all__ = ["Newton", "StepRules"]

# Preconditioners of the rows of ``STEPS`` other than the diagonal.
_FACTORS: dict[str, Preconditioner] = {
    "Newton, Cholesky": Cholesky(),
    "Newton, Woodbury": Woodbury(),
}


# Fields that hold all problems together, and are cheaper to recompute than to split.
_RECOMPUTED: dict[str, Any] = {"first_order": None, "precondition": None}


@dataclass(frozen=True)
class StepRules:
    """Rules for accepting and ending Newton steps.

    Attributes
    ----------
    gain : float
        A step that gains less than this share of its slope (a perfect model gains half) is halved.
    safety : float
        Factor on the estimate of the suboptimality, a norm in the preconditioner that is calibrated on earlier steps.
    aim : float
        Share of the goal that the last step aims at.
    idle : float
        A step that gains less than this share of the goal only improves a bound; it counts while the gradient falls.
    products : int
        Maximum number of products in a step whose preconditioner is reused in the next.
    wide : int
        Minimum number of columns at which a factor costs more than the products that a new one saves.
    halvings, trials : int
        Number of halvings of a step before further cuts to a tenth, and maximum number of lengths tried.
    """

    gain: float = 1e-4
    safety: float = 4.0
    aim: float = 0.25
    idle: float = 1e-2
    products: int = 6
    wide: int = 32
    halvings: int = 10
    trials: int = 40


class FirstOrder(NamedTuple):
    """Derivatives of the loss (n, K), gradient (p + 1, K) and ``q(c φ_v)`` (p, K) at a state."""

    slopes: Derivatives
    gradient: WeightBlock
    spread: FeatureBlock

    @classmethod
    def at(cls, energy: Energy, state: SolverState) -> FirstOrder:
        """Evaluate the derivatives at a state."""
        slopes = energy.derivatives(state.mean, state.var, state.smoothing)
        return cls(slopes, *energy.gradient(state.weights, slopes))


@dataclass(frozen=True)
class NewtonMemory(PerProblem):
    """Memory of Newton's method between steps, (K,) each.

    Attributes
    ----------
    reference
        Size of the first gradient; 0 before the first step.
    calibration
        Largest ratio of a decrement to the size of its gradient; 0 before the first step.
    smoothing
        Smoothing used in the last step.
    first_order : FirstOrder, optional
        Derivatives at the state.
    precondition : callable, optional
        The previous step's preconditioner, reused while it still works.
    pull : array (n, K), optional
        Dual variables, if the weights come from them.
    """

    reference: ProblemVector
    calibration: ProblemVector
    smoothing: ProblemVector
    first_order: FirstOrder | None = None
    precondition: Apply | None = None
    pull: PerRow | None = None

    def at_smoothing(self, smoothing: ProblemVector) -> NewtonMemory:
        """Drop the derivatives if the smoothing differs from that of the last step."""
        if np.array_equal(smoothing, self.smoothing):
            return self
        return self.changed(smoothing=smoothing, first_order=None)

    def select(self, columns: Any) -> NewtonMemory:
        """Select some problems, without the fields to recompute."""
        return PerProblem.select(self.changed(**_RECOMPUTED), columns)

    def merge(self, columns: Any, part: NewtonMemory) -> NewtonMemory:
        """Replace some problems by those of ``part``."""
        return PerProblem.merge(self.changed(**_RECOMPUTED), columns, part.changed(**_RECOMPUTED))


def square(gradient: WeightBlock, precondition: Any) -> ProblemVector:
    """``gᵀz`` for each problem, with ``z`` the preconditioned gradient."""
    return np.einsum("ij,ij->j", gradient, precondition(gradient))


@dataclass(frozen=True)
class Newton:
    """Inexact Newton's method; for piecewise-linear losses on sparse rows it solves the dual first.

    Parameters
    ----------
    tol : float, default=1e-08
        Estimated suboptimality, relative to the energy, at which to stop. For smooth losses the distance of the weights
        to the optimum is also below ``10⁴ tol``, in units in which the curvature is one and relative to the root of
        twice the energy; at the default of 1e-8 this is the same bound. For piecewise-linear losses the suboptimality
        is bounded, and the distance is below the root of ``2 tol``.
    max_iter : int, default=200
        Maximum number of Newton steps.
    preconditioner : Preconditioner, optional
        ``Cholesky()``, ``Woodbury()`` or ``Jacobi()`` of :mod:`.preconditioners`; by default chosen by shape.
    max_inner : int, default=500
        Maximum number of conjugate-gradient steps in a Newton step.
    rules : StepRules, optional
        Rules for accepting steps.

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
        check_instance(self.rules, "rules", StepRules, "bayesdrop.fitting.solvers.newton.StepRules(...)")

    def init(self, energy: Energy, weights: Any, earlier: SolverState | None = None) -> SolverState:
        """See :class:`.driver.Minimiser`; raise ValueError if the loss has no derivatives."""
        require(energy.loss, Curved, "Newton's method", "write its derivatives, or use bd.EM() if it is Augmented")
        if earlier is not None:
            state = SolverState.at(energy, weights, None, earlier)
            memory: NewtonMemory = earlier.memory
            return state.changed(memory=NewtonMemory(memory.reference, memory.calibration, state.smoothing))
        choice, zero = choose(case_of(energy)).name, np.zeros(weights.shape[1])
        if (dual := solve_dual(energy, weights, self.tol, choice == "interior points")) is not None:
            # Problems that the dual has not solved keep their smoothing.
            state = SolverState.at(energy, dual.weights, None).unsmoothed(energy, dual.gap, self.tol)
            return state.changed(memory=NewtonMemory(zero, zero, state.smoothing, pull=dual.pull))
        state = SolverState.at(energy, weights, None)
        return state.changed(memory=NewtonMemory(zero, zero, state.smoothing))

    def step(self, energy: Energy, state: SolverState, goal: Any) -> tuple[SolverState, Bool[np.ndarray, " K"]]:
        """Make one Newton step with Armijo back-tracking; see :class:`.driver.Minimiser`."""
        memory: NewtonMemory = state.memory.at_smoothing(state.smoothing)
        first = memory.first_order or FirstOrder.at(energy, state)
        memory = memory.changed(first_order=first, pull=None)
        slopes, gradient, spread = first
        curvature = energy.curvature(slopes, spread)
        # A form that is not convex may have negative curvature, of which the preconditioner uses none.
        upward = curvature.mean_mean if energy.convex else np.maximum(curvature.mean_mean, 0.0)
        solver = self.preconditioner
        if solver is None:
            solver = _FACTORS.get(choose(case_of(energy), rows=STEPS).name, Jacobi())
        precondition = memory.precondition or solver.prepare(energy.moments, upward, curvature.diagonal)
        size = square(gradient, precondition)
        remaining = state.remaining
        doubted = np.isfinite(state.floor) & (remaining > goal)
        if (memory.calibration > 0).all():
            # Skip the step if the rates or the smoothing changed too little to matter.
            remaining = self.rules.safety * memory.calibration * size
            if ((remaining <= goal) & ~doubted).all():
                return state.changed(remaining=remaining, memory=memory), np.ones(size.shape, dtype=bool)
        reference = np.where(memory.reference > 0, memory.reference, np.maximum(size, np.finfo(float).tiny))
        memory = memory.changed(reference=reference)
        forcing = np.minimum(0.2, (size / reference) ** 0.15)
        # Solve only as accurately as the goal needs: the suboptimality falls by the square of the relative residual.
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
        first = FirstOrder.at(energy, ended)
        calibration = np.maximum(memory.calibration, -0.5 * slope / np.where(size > 0, size, np.inf))
        after = square(first.gradient, precondition)
        # A step whose gain is below rounding, or only improves a bound, counts as a move if it halves ``gᵀz``.
        unseen = 0.0 if energy.loss.piecewise_linear else np.finfo(float).eps * np.abs(ended.value)
        idle = (doubted & (-0.5 * slope <= self.rules.idle * goal)) | (-0.5 * slope <= unseen)
        spent = idle & (after > 0.5 * size)
        remaining = self.rules.safety * calibration * after
        # Without noise every step sharpens the kinks and changes the curvature: reuse no preconditioner.
        smooth = not energy.loss.piecewise_linear or energy.moments.has_variance
        costly = energy.moments.design.shape[1] >= self.rules.wide and not isinstance(solver, Jacobi)
        serves = smooth and costly and products <= self.rules.products
        memory = memory.changed(
            calibration=calibration, first_order=first, precondition=precondition if serves else None
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
    """Shorten the step until the energy falls; return the state and the lengths, (K,), 0 if no length does."""
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
    return state.moved(good, weights=weights, mean=mean, var=var, value=value), length * good
