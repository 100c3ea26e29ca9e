"""Piecewise-linear losses that no feature helps: all weights zero, where the noise vanishes too.

Of a rare class, or with much noise, every row of the other class may end on its kink. With the weights the smoothed
energy nears zero by a factor at each step; so zero weights with the best intercept are put to a bound
(:mod:`.certificate`) as soon as the scores are nearly constant. What is missing is of the second order in the smoothing
then, where the smoothing itself costs the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..objective.energy import Energy
from ..shapes import ProblemVector
from .certificate import lower_bound

if TYPE_CHECKING:
    from ..state import SolverState

__all__ = ["best_constant", "end_at_zero"]

# Before the smoothing costs less than this share of the energy no bound is near it.
_CHEAP = 3e-3


def end_at_zero(energy: Energy, state: SolverState, goal: ProblemVector, bias: ProblemVector) -> SolverState:
    """End the problems that are shown to have their optimum at zero weights.

    Parameters
    ----------
    energy : Energy
        Of K problems, with noise.
    state : SolverState
        After a step.
    goal, bias : array (K,)
        Suboptimality that is wanted, and what the smoothing adds to the energy.

    Returns
    -------
    SolverState
        Problems that have ended are there without smoothing, and with the gap that remains.
    """
    smooth = (state.smoothing > 0) & (bias <= _CHEAP * np.abs(state.value))
    here = energy.has_all_rows and energy.plain_weight is None and energy.moments.has_variance
    if not (here and np.any(smooth)):
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
    floor = lower_bound(energy, before.weights, before.mean, before.var, before.smoothing, elsewhere=True)
    if floor is None:
        return state
    floor = np.maximum(floor, before.floor)
    part = before.changed(
        weights=weights, mean=mean, var=var, value=value, smoothing=zero, floor=floor,
        remaining=np.maximum(value - floor, 0.0),
    )  # fmt: skip
    ended = np.flatnonzero(part.remaining <= goal[columns])
    return state.merge(columns[ended], part.select(ended)) if len(ended) else state


def best_constant(energy: Energy) -> ProblemVector:
    """The intercept of zero weights, (K,): the first kink past which the slope of the energy is not below zero."""
    kinks, low, high = (np.concatenate(part, axis=0) for part in zip(*energy.kinks, strict=True))
    order = np.argsort(kinks, axis=0, kind="stable")
    rise = np.cumsum(np.take_along_axis(high - low, order, axis=0), axis=0)
    first = np.argmax(rise >= np.sum(high, axis=0), axis=0)
    return np.take_along_axis(np.take_along_axis(kinks, order, axis=0), first[None], axis=0)[0]
