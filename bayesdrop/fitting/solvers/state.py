"""State of a minimiser of ``K`` linear problems: weights, moments of their scores, energy and smoothing.

A piecewise-linear loss starts smoothed, and the smoothing shrinks whenever the rest of the error is below what it
costs, which is known exactly; the last steps are then those on the true loss. Where an estimate says that it has ended,
a bound (:func:`.dual_problem.lower_bound`) is asked whether that is so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..._typing import Bool, PerRow
from ..objective.energy import Energy, ProblemVector, WeightBlock
from .driver import LOOSE, accuracy
from .dual_problem import best_constant, lower_bound

__all__ = ["PerProblem", "SmoothingRules", "SolverState", "end_at_zero"]

Own = TypeVar("Own", bound="PerProblem")


class PerProblem:
    """Base of frozen dataclasses whose fields are arrays (…, K), or such dataclasses in their turn, or None."""

    def changed(self: Own, **parts: Any) -> Own:
        """Replace fields, in a third of the time of ``dataclasses.replace``; a step does it many times.

        No field may be computed from others when it is made.
        """
        other = object.__new__(type(self))
        vars(other).update(vars(self), **parts)
        return other

    def moved(self: Own, where: Bool[np.ndarray, " K"], **parts: Any) -> Own:
        """Replace fields for the marked problems."""
        return self.changed(**{name: np.where(where, part, vars(self)[name]) for name, part in parts.items()})

    def select(self: Own, columns: Any) -> Own:
        """Some of the problems."""
        return self.changed(**{name: _take(part, columns) for name, part in vars(self).items()})

    def merge(self: Own, columns: Any, part: Own) -> Own:
        """All of the problems, some of them from ``part``."""
        other = vars(part)
        return self.changed(**{name: _put(block, columns, other[name]) for name, block in vars(self).items()})


def _take(block: Any, columns: Any) -> Any:
    if block is None or isinstance(block, PerProblem):
        return block and block.select(columns)
    return block[..., columns]


def _put(block: Any, columns: Any, part: Any) -> Any:
    if block is None or isinstance(block, PerProblem):
        return block and block.merge(columns, part)
    result = block.copy()
    result[..., columns] = part
    return result


@dataclass(frozen=True)
class SmoothingRules:
    """How the kinks of a loss are smoothed.

    Attributes
    ----------
    first : float
        First smoothing of a piecewise-linear loss, as a share of a margin.
    step, gaussian_step : float
        Smoothing is cut by no more at once, and less of the Gaussian form, which is flat away from its kinks: a step
        would find no slope there.
    smoother, enough : float
        Of a problem that is not shown to have ended the smoothing is cut so far, down to what adds ``enough`` of the
        goal.
    cheap : float
        Before the smoothing costs less than this share of the energy no bound is near it.
    closed, dual : float
        A gap above this share of the energy is open, whatever the tolerance, and one below the second is what double
        precision left of it.
    """

    first: float = 0.1
    step: float = 0.1
    gaussian_step: float = 0.3
    smoother: float = 0.3
    enough: float = 0.1
    cheap: float = 3e-3
    closed: float = 1e-2
    dual: float = 1e-9


@dataclass(frozen=True)
class SolverState(PerProblem):
    """State of a minimiser of :class:`bayesdrop.fitting.objective.energy.Energy`; see
    :class:`bayesdrop.fitting.solvers.driver.State`.

    Attributes
    ----------
    weights : array (p + 1, K)
        The weights, the intercepts last.
    mean, var : array (n, K)
        Moments of their scores, without the offset of the energy.
    value : array (K,)
        Energies, smoothed.
    smoothing : array (K,)
        The ``ε`` of a piecewise-linear loss; 0 for others.
    remaining : array (K,)
        Estimated suboptimality, or the gap to ``floor`` where the estimate was doubted.
    floor : array (K,)
        Bound from below on the least energy without smoothing; −∞ where none was asked for.
    memory : PerProblem
        What the method keeps from step to step.
    """

    weights: WeightBlock
    mean: PerRow
    var: PerRow
    value: ProblemVector
    smoothing: ProblemVector
    remaining: ProblemVector
    floor: ProblemVector
    memory: Any
    rules: ClassVar[SmoothingRules] = SmoothingRules()

    @classmethod
    def at(cls, energy: Energy, weights: Any, memory: Any, earlier: SolverState | None = None) -> SolverState:
        """Evaluate the energy at the weights, at the smoothing of an earlier state if there is one."""
        K = weights.shape[1]
        first = np.full(K, cls.rules.first if energy.loss.piecewise_linear else 0.0)
        smoothing = first if earlier is None else earlier.smoothing
        mean, var = energy.moments.scores(weights)
        if energy.moments.has_variance:
            # An earlier fit may have ended at zero weights, which are a kink with noise too.
            smoothing = np.where(smoothing == 0, first, smoothing)
        value = energy.value(weights, mean, var, smoothing)
        return cls(weights, mean, var, value, smoothing, np.full(K, np.inf), np.full(K, -np.inf), memory)

    def smoothed(self, energy: Energy, share: Any, remaining: ProblemVector | None = None) -> SolverState:
        """Reduce the smoothing to a share, and set the suboptimality ``remaining`` (K,) if it is known."""
        smoothing = share * self.smoothing
        value = energy.value(self.weights, self.mean, self.var, smoothing)
        remaining = self.remaining if remaining is None else remaining
        return self.changed(value=value, smoothing=smoothing, remaining=remaining)

    def unsmoothed(self, energy: Energy, gap: ProblemVector, tol: float) -> SolverState:
        """Remove the smoothing of problems whose ``gap`` (K,) to a dual without noise is closed.

        A state without smoothing whose gap is above a goal is one that double precision lets nobody improve.
        """
        plain = self.smoothed(energy, 0.0, gap)
        self, plain = (state.changed(floor=plain.value - gap) for state in (self, plain))
        # A smoothed energy leads no nearer than a dual that is as near as this, and may lead away.
        closed = gap <= max(min(tol, self.rules.closed), self.rules.dual) * np.abs(plain.value)
        return plain if np.all(closed) else self.smoothed(energy, np.where(closed, 0.0, 1.0), gap)

    def no_worse_than(self, first_state: SolverState, energy: Energy) -> SolverState:
        """The state, or, of problems that began nearer to the optimum of the energy without smoothing, where they did.

        Smoothing leads away from a dual, or from an earlier fit, before it leads back.
        """
        first_state = first_state.smoothed(energy, 0.0)
        better = np.flatnonzero(first_state.value < self.smoothed(energy, 0.0).value)
        return self.merge(better, first_state.select(better)) if len(better) else self

    def has_ended(self, energy: Energy, goal: Any) -> Bool[np.ndarray, " K"]:
        """At its goal without smoothing, or where a dual of kinks without noise ended, however near; see
        :class:`bayesdrop.fitting.solvers.driver.State`.
        """
        sharp = energy.loss.piecewise_linear and not energy.moments.has_variance
        return np.asarray((self.smoothing == 0) & ((self.remaining <= goal) | (np.isfinite(self.floor) & sharp)))

    @property
    def objective(self) -> ProblemVector:
        """The energies; see :class:`.driver.State`."""
        return self.value

    def goal(self, energy: Energy, tol: float) -> ProblemVector:
        """Small enough for the gradient too, where there is one; see :class:`.driver.State`."""
        share = tol if energy.loss.piecewise_linear else accuracy(tol)
        return share * np.maximum(np.abs(self.value), np.finfo(float).tiny)

    def refine(self, energy: Energy, goal: Any, moved: Any) -> tuple[SolverState, Bool[np.ndarray, " K"]]:
        """Smooth less, and doubt an estimate; see :class:`.driver.State`."""
        if not energy.loss.piecewise_linear:
            return self._without_residuals(energy, goal), np.zeros(len(self.value), dtype=bool)
        none = np.zeros_like(self.smoothing)
        bias = self.value - energy.value(self.weights, self.mean, self.var, none)
        state = end_at_zero(energy, self, goal, bias)
        bias = np.where(state.smoothing < self.smoothing, 0.0, bias)
        state, rough = state._less_smooth(energy, goal, moved, bias)
        return state._checked_by_bound(energy, goal, moved, rough)

    def _less_smooth(
        self, energy: Energy, goal: Any, moved: Any, bias: Any
    ) -> tuple[SolverState, Bool[np.ndarray, " K"]]:
        rough = bias > goal
        if np.any(self.smoothing < 1e-6 * self.rules.first):
            # A fit without any residual, as of a constant response, leaves no energy to hold the smoothing against.
            exact = self.value <= self._round_off(energy)
            rough, self = rough & ~exact, self.changed(remaining=np.where(exact, 0.0, self.remaining))
        shrink = rough & ((self.remaining <= bias) | ~moved)
        if not np.any(shrink):
            return self, rough
        share = self.rules.step if energy.loss.augmented else self.rules.gaussian_step
        return self.smoothed(energy, np.where(shrink, share, 1.0)), rough

    def _without_residuals(self, energy: Energy, goal: Any) -> SolverState:
        """End least squares whose residuals are round-off of the scores: no share of their energy means anything."""
        if not (energy.loss.quadratic and np.any(self.remaining > goal)):
            return self
        unit = 8 * float(np.finfo(np.float64).eps)
        exact = self.value <= 0.5 * energy.moments.design.total(energy.weight * (unit * energy.scores(self.mean)) ** 2)
        return self.changed(remaining=np.where(exact, 0.0, self.remaining))

    def _checked_by_bound(
        self, energy: Energy, goal: Any, moved: Any, rough: Bool[np.ndarray, " K"]
    ) -> tuple[SolverState, Bool[np.ndarray, " K"]]:
        """Check small estimates by a bound; return also which problems have to go on."""
        ended = ~rough & (self.remaining <= goal) & (goal < LOOSE * np.abs(self.value))
        if not np.any(ended):
            return self, rough
        plain = energy.value(self.weights, self.mean, self.var, np.zeros_like(self.smoothing))
        # No energy is below zero, and none that is round-off need be shown to be the least.
        ended &= (plain > self._round_off(energy)) & (plain - self.floor > goal)
        if not np.any(ended):
            return self, rough
        # Others may be at zero weights, without smoothing.
        bound = lower_bound(energy, self.weights, self.mean, self.var, np.where(ended, self.smoothing, 1.0))
        if bound is None:
            return self, rough
        floor = np.where(ended, np.maximum(self.floor, bound), self.floor)
        gap = np.maximum(plain - floor, 0.0)
        doubted = ended & (gap > goal)
        # The smoothing has a part in the gap that is as large as what it adds to the energy.
        share = np.where(doubted & (self.value - plain > self.rules.enough * goal), self.rules.smoother, 1.0)
        # Where the estimate is small and no step leads on a bound may be poor for sharp kinks, and the point is not.
        left = np.where(moved, gap, np.minimum(gap, LOOSE * np.abs(plain)))
        state = self.changed(floor=floor, remaining=np.where(ended, left, self.remaining))
        return (state.smoothed(energy, share) if np.any(share < 1) else state), rough | (doubted & moved)

    def _round_off(self, energy: Energy) -> ProblemVector:
        """Energy of residuals that are round-off of the scores, (K,)."""
        sums = energy.moments.design.total
        unit, size = 8 * float(np.finfo(np.float64).eps), np.abs(energy.scores(self.mean))
        return unit * np.maximum(self.rules.first * sums(energy.weight), sums(energy.weight * size))


def end_at_zero(energy: Energy, state: SolverState, goal: ProblemVector, bias: ProblemVector) -> SolverState:
    """End the problems that are shown to have their optimum at zero weights.

    Of a rare class, or with much noise, every row of the other class may end on its kink. With the weights the smoothed
    energy nears zero by a factor at each step; so zero weights with the best intercept are put to a bound as soon as
    the scores are nearly constant. What is missing is of the second order in the smoothing then, where the smoothing
    itself costs the first.

    Parameters
    ----------
    energy : Energy
        Energy of K problems, with noise.
    state : SolverState
        After a step.
    goal, bias : array (K,)
        Suboptimality that is wanted, and what the smoothing adds to the energy.

    Returns
    -------
    SolverState
        Problems that have ended are there without smoothing, and with the gap that remains.
    """
    smooth = (state.smoothing > 0) & (bias <= state.rules.cheap * np.abs(state.value))
    has_rows = energy.has_all_rows and energy.plain_weight is None and energy.moments.has_variance
    if not (has_rows and np.any(smooth)):
        return state
    # A row's cost changes by no more than its score and the standard deviation of that do.
    apart = np.sum(energy.weight * (np.abs(state.mean - state.weights[-1]) + np.sqrt(state.var)), axis=0)
    columns = np.flatnonzero(smooth & (apart <= np.abs(state.value)))
    if not len(columns):
        return state
    energy, before = energy.select(columns), state.select(columns)
    weights, zero = np.zeros_like(before.weights), np.zeros_like(before.smoothing)
    if energy.moments.fit_intercept:
        weights[-1] = best_constant(energy)
    mean, var = np.broadcast_to(weights[-1], before.mean.shape), np.zeros_like(before.var)
    value = energy.value(weights, mean, var, zero)
    # No bound is above the energy without smoothing where the state is.
    if np.all(value > (state.value - bias + goal)[columns]):
        return state
    floor = lower_bound(energy, before.weights, before.mean, before.var, before.smoothing, try_other_weights=True)
    if floor is None:
        return state
    floor = np.maximum(floor, before.floor)
    part = before.changed(
        weights=weights, mean=mean, var=var, value=value, smoothing=zero, floor=floor,
        remaining=np.maximum(value - floor, 0.0),
    )  # fmt: skip
    ended = np.flatnonzero(part.remaining <= goal[columns])
    return state.merge(columns[ended], part.select(ended)) if len(ended) else state
