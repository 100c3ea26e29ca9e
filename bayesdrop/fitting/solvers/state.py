"""State of a minimiser of ``K`` linear problems: weights, moments of their scores, energy and smoothing.

A piecewise-linear loss starts smoothed. The cost of the smoothing is known exactly, and the smoothing shrinks whenever
the remaining error is smaller, so that the last steps use the true loss. A problem that has ended by an estimate is
checked by a bound (:func:`.dual_problem.lower_bound`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..._typing import Bool, PerRow
from ...losses.protocols import Curved
from ..objective.energy import Energy, ProblemVector, WeightBlock
from .driver import LOOSE, accuracy
from .dual_problem import best_constant, lower_bound

__all__ = ["PerProblem", "SmoothingRules", "SolverState", "end_at_zero"]

Own = TypeVar("Own", bound="PerProblem")


class PerProblem:
    """Base of frozen dataclasses whose fields are arrays (…, K), other such dataclasses, or None."""

    def changed(self: Own, **parts: Any) -> Own:
        """Replace fields, in a third of the time of ``dataclasses.replace``, as every step does many times.

        It does not run ``__post_init__``.
        """
        other = object.__new__(type(self))
        vars(other).update(vars(self), **parts)
        return other

    def moved(self: Own, where: Bool[np.ndarray, " K"], **parts: Any) -> Own:
        """Replace fields for the marked problems."""
        return self.changed(**{name: np.where(where, part, vars(self)[name]) for name, part in parts.items()})

    def select(self: Own, columns: Any) -> Own:
        """Select some problems."""
        return self.changed(**{name: _take(part, columns) for name, part in vars(self).items()})

    def merge(self: Own, columns: Any, part: Own) -> Own:
        """Replace some problems by those of ``part``."""
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
    """Rules for the smoothing ``ε`` of the kinks of a loss.

    Attributes
    ----------
    first : float
        First smoothing, in units of :attr:`bayesdrop.fitting.objective.energy.Energy.score_unit`.
    step, gaussian_step : float
        Factor on the smoothing in one reduction; larger for the Gaussian form, which is flat away from its kinks, so
        that a step would find no slope.
    smoother, enough : float
        Factor on the smoothing of a problem that a bound has not shown to have ended, while the smoothing adds more
        than the share ``enough`` of the goal to the energy.
    cheap : float
        Maximum cost of the smoothing, as a share of the energy, for testing zero weights by a bound.
    closed, dual : float
        Shares of the energy: a gap of the dual above the first is never closed, at any tolerance, and one below the
        second is due to rounding.
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
        Weights, the intercepts last.
    mean, var : array (n, K)
        Moments of the scores, without the offset.
    value : array (K,)
        Smoothed energies.
    smoothing : array (K,)
        The ``ε`` of a piecewise-linear loss; 0 for others.
    remaining : array (K,)
        Estimated suboptimality, or the gap to ``floor`` once a bound was computed.
    floor : array (K,)
        Lower bound on the minimum without smoothing; −∞ if none was computed.
    memory : PerProblem
        Memory of the method between steps.
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
        first = cls.rules.first * energy.score_unit if energy.loss.piecewise_linear else np.zeros(K)
        smoothing = first if earlier is None else earlier.smoothing
        mean, var = energy.moments.scores(weights)
        if energy.moments.has_variance:
            # An earlier fit may have ended without smoothing at zero weights, which have kinks even with noise.
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

        If an unsmoothed state has a gap above its goal, rounding prevents any improvement.
        """
        plain = self.smoothed(energy, 0.0, gap)
        self, plain = (state.changed(floor=plain.value - gap) for state in (self, plain))
        # From a gap as small as this, minimising a smoothed energy cannot improve the weights and may worsen them.
        closed = gap <= max(min(tol, self.rules.closed), self.rules.dual) * np.abs(plain.value)
        return plain if np.all(closed) else self.smoothed(energy, np.where(closed, 0.0, 1.0), gap)

    def no_worse_than(self, first_state: SolverState, energy: Energy) -> SolverState:
        """Return the first state for the problems whose unsmoothed energy was lower there.

        A smoothed energy first leads away from the solution of a dual or of an earlier fit.
        """
        first_state = first_state.smoothed(energy, 0.0)
        better = np.flatnonzero(first_state.value < self.smoothed(energy, 0.0).value)
        return self.merge(better, first_state.select(better)) if len(better) else self

    def has_ended(self, energy: Energy, goal: Any) -> Bool[np.ndarray, " K"]:
        """Whether each problem is unsmoothed and at its goal, or is the solution of a dual without noise; see
        :class:`bayesdrop.fitting.solvers.driver.State`.
        """
        sharp = energy.loss.piecewise_linear and not energy.moments.has_variance
        return np.asarray((self.smoothing == 0) & ((self.remaining <= goal) | (np.isfinite(self.floor) & sharp)))

    @property
    def objective(self) -> ProblemVector:
        """The energies; see :class:`.driver.State`."""
        return self.value

    def goal(self, energy: Energy, tol: float) -> ProblemVector:
        """Goal for the energy and, for a smooth loss, the gradient; see :class:`.driver.State`."""
        share = tol if energy.loss.piecewise_linear else accuracy(tol)
        return share * np.maximum(np.abs(self.value), np.finfo(float).tiny)

    def refine(self, energy: Energy, goal: Any, moved: Any) -> tuple[SolverState, Bool[np.ndarray, " K"]]:
        """Reduce the smoothing, and check small estimates by a bound; see :class:`.driver.State`."""
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
        if np.any(self.smoothing < 1e-6 * self.rules.first * energy.score_unit):
            # A fit without residuals, as to a constant response, has no energy to compare the smoothing with.
            exact = self.value <= self._round_off(energy)
            rough, self = rough & ~exact, self.changed(remaining=np.where(exact, 0.0, self.remaining))
        shrink = rough & ((self.remaining <= bias) | ~moved)
        if not np.any(shrink):
            return self, rough
        share = self.rules.step if energy.loss.augmented else self.rules.gaussian_step
        return self.smoothed(energy, np.where(shrink, share, 1.0)), rough

    def _without_residuals(self, energy: Energy, goal: Any) -> SolverState:
        """End fits whose energy is due to rounding of the scores: a relative tolerance is meaningless."""
        eps = float(np.finfo(np.float64).eps)
        # Do not evaluate the derivatives of a long fit where they cannot end it.
        small = (self.remaining > goal) & (energy.loss.quadratic | (np.abs(self.value) <= eps))
        if not (np.any(small) and isinstance(energy.loss, Curved)):
            return self
        unit, size = 8 * eps, np.abs(energy.scores(self.mean))
        # The exponential of a logarithm has the rounding error of a score of 1 at least.
        size = np.maximum(size, 1.0) if energy.loss.ratio else size
        bend = energy.derivatives(self.mean, self.var, self.smoothing).mean_mean
        least = 0.5 * energy.moments.design.total(np.abs(bend) * (unit * size) ** 2)
        return self.changed(remaining=np.where(np.abs(self.value) <= least, 0.0, self.remaining))

    def _checked_by_bound(
        self, energy: Energy, goal: Any, moved: Any, rough: Bool[np.ndarray, " K"]
    ) -> tuple[SolverState, Bool[np.ndarray, " K"]]:
        """Check small estimates by a bound; return also the mask of the problems that must continue."""
        ended = ~rough & (self.remaining <= goal) & (goal < LOOSE * np.abs(self.value))
        if not np.any(ended):
            return self, rough
        plain = energy.value(self.weights, self.mean, self.var, np.zeros_like(self.smoothing))
        # An energy that is rounding error needs no bound, because no energy is negative.
        ended &= (plain > self._round_off(energy)) & (plain - self.floor > goal)
        if not np.any(ended):
            return self, rough
        # Give the other problems, which may have zero variance and no smoothing, any positive smoothing.
        bound = lower_bound(energy, self.weights, self.mean, self.var, np.where(ended, self.smoothing, 1.0))
        if bound is None:
            return self, rough
        floor = np.where(ended, np.maximum(self.floor, bound), self.floor)
        gap = np.maximum(plain - floor, 0.0)
        doubted = ended & (gap > goal)
        # The smoothing adds about as much to the gap as to the energy.
        share = np.where(doubted & (self.value - plain > self.rules.enough * goal), self.rules.smoother, 1.0)
        # If no step lowers the energy, a large gap may be due to a poor bound at sharp kinks: limit the gap.
        left = np.where(moved, gap, np.minimum(gap, LOOSE * np.abs(plain)))
        state = self.changed(floor=floor, remaining=np.where(ended, left, self.remaining))
        return (state.smoothed(energy, share) if np.any(share < 1) else state), rough | (doubted & moved)

    def _round_off(self, energy: Energy) -> ProblemVector:
        """Energy of residuals that are rounding errors of the scores, (K,)."""
        sums = energy.moments.design.total
        unit, size = 8 * float(np.finfo(np.float64).eps), np.abs(energy.scores(self.mean))
        least = self.rules.first * energy.score_unit * sums(energy.weight)
        return unit * np.maximum(least, sums(energy.weight * size))


def end_at_zero(energy: Energy, state: SolverState, goal: ProblemVector, bias: ProblemVector) -> SolverState:
    """End the problems whose optimum is shown to be at zero weights.

    For a rare class, or with much noise, all rows of the other class may be on their kinks at the optimum. The weights
    of a smoothed energy then fall only by a factor per step, so zero weights with the best intercept are tested by a
    bound as soon as the scores are nearly constant. The gap of this bound is of second order in the smoothing, whereas
    the cost of the smoothing is of first order.

    Parameters
    ----------
    energy : Energy
        Energy of K problems, with noise.
    state : SolverState
        State after a step.
    goal, bias : array (K,)
        Suboptimality to reach, proportional to the energy, and cost of the smoothing.

    Returns
    -------
    SolverState
        State in which the ended problems have zero weights, no smoothing, and the remaining gap.
    """
    smooth = (state.smoothing > 0) & (bias <= state.rules.cheap * np.abs(state.value))
    has_rows = energy.has_all_rows and energy.plain_weight is None and energy.moments.has_variance
    if not (has_rows and np.any(smooth)):
        return state
    # The cost of a row changes by at most the change of its score and of the standard deviation of the score.
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
    # No lower bound exceeds the unsmoothed energy of the state.
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
    # Of an energy far above that at zero weights the goal may exceed what the weights gain.
    share = np.abs(value) / np.maximum(np.abs(before.value), np.finfo(float).tiny)
    ended = np.flatnonzero(part.remaining <= np.minimum(share, 1.0) * goal[columns])
    return state.merge(columns[ended], part.select(ended)) if len(ended) else state
