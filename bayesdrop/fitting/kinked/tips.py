r"""Problems that end where the noise vanishes on rows: at the tips of the cones that the energy has there.

With noise of variance ``v`` a kinked loss costs a norm of the distance ``ζ`` from the kink and of the noise,

    ½c(ζ + √(ζ² + v)),        v = Σ_d a_d x_d² w_d²,

which is smooth where ``v > 0`` and has the tip of a cone where the row is on its kink and has no noise. Much noise is
a penalty on norms of overlapping groups of weights: those of a row's entries are zero together, and many rows end at
their tips, so that a weight is not zero only if no such row has its feature. Newton's method on a smoothed energy nears
those zeros by a factor at each step, and each step is a hard one.

So whenever the smoothing shrinks, what is near tips is brought as much nearer. And after a step rows within a multiple
of the smoothing of their tips are put there, the weights of their features at zero and the intercept on the kink, and a
bound (:mod:`.certificate`), of which the dual variables are those of the smoothed energy, tells whether that ends the
problem. What is missing is of the second order in the smoothing then, where the smoothing itself costs the first.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..._typing import Bool, PerRow
from ..objective.energy import Energy
from ..shapes import ProblemVector
from .certificate import lower_bound

__all__ = ["best_constant", "end_at_tips", "has_tips", "on_tips", "sharpened"]

SolverState: TypeAlias = Any
"""That of :mod:`.state`, which imports this."""

# Rows within so many times the smoothing of their kinks, noise counted, are near their tips, and within so many are put
# there, for the bound to judge.
_NEAR, _PUT = 3.0, 10.0
# Distance that is none.
_ON = 1e-9
# Before the smoothing costs less than this share of the energy no bound is near it.
_CHEAP = 3e-3
# Scores are flat where their spread costs no more than so many times the energy.
_FLAT = 1.0
# There are tips to speak of where they have this share of the rows' weight.
_MANY = 0.05


def end_at_tips(energy: Energy, state: SolverState, goal: ProblemVector, bias: ProblemVector) -> SolverState:
    """End the problems whose rows at tips can be put there.

    Parameters
    ----------
    energy : Energy
        Of K problems, with noise and a prior for every column.
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
    if not (np.any(smooth) and _here(energy, state)):
        return state
    tips, centre = _tips(energy, state, _PUT)
    columns = np.flatnonzero(smooth & (_many(energy, tips) | _near_zero(energy, state)))
    if not len(columns):
        return state
    energy, here = energy.select(columns), state.select(columns)
    part = _rounded(energy, here, tips[:, columns], centre[:, columns])
    # No bound is above the energy without smoothing where the state is.
    if np.all(part.value > (state.value - bias + goal)[columns]):
        return state
    floor = lower_bound(energy, here.weights, here.mean, here.var, here.smoothing, elsewhere=True)
    if floor is None:
        return state
    floor = np.maximum(floor, here.floor)
    part = part.changed(remaining=np.maximum(part.value - floor, 0.0), floor=floor)
    ended = np.flatnonzero(part.remaining <= goal[columns])
    return state.merge(columns[ended], part.select(ended)) if len(ended) else state


def sharpened(energy: Energy, state: SolverState, smoothing: ProblemVector) -> SolverState:
    """The state at less smoothing, (K,), with what is at tips brought as much nearer to them where that is better.

    The energy is homogeneous there but for the smoothing, so that distances are in proportion to it.
    """
    plain = state.changed(smoothing=smoothing, value=energy.value(state.weights, state.mean, state.var, smoothing))
    columns = np.flatnonzero(smoothing < state.smoothing)
    if not (_here(energy, state) and len(columns)):
        return plain
    tips, centre = _tips(energy, state)
    if not np.any(_many(energy, tips)[columns]):
        return plain
    tips, centre = tips[:, columns], centre[:, columns]
    energy, state = energy.select(columns), state.select(columns)
    share = smoothing[columns] / state.smoothing
    weights, kink = state.weights.copy(), _middle(centre, tips, state.weights[-1])
    weights[:-1] *= np.where(energy.moments.design.sq_rmatvec(tips.astype(np.float64)) > 0, share, 1.0)
    if energy.moments.fit_intercept:
        weights[-1] = kink + share * (weights[-1] - kink)
    mean, var = energy.moments.scores(weights)
    value = energy.value(weights, mean, var, smoothing[columns])
    better = np.flatnonzero(value < plain.value[columns])
    part = plain.select(columns).changed(weights=weights, mean=mean, var=var, value=value)
    return plain.merge(columns[better], part.select(better)) if len(better) else plain


def has_tips(energy: Energy, state: SolverState) -> Bool[np.ndarray, " K"]:
    """Which problems have many rows near their tips, (K,)."""
    if not _here(energy, state):
        return np.zeros(len(state.smoothing), dtype=bool)
    return _many(energy, _tips(energy, state)[0])


def on_tips(energy: Energy, mean: PerRow, var: PerRow) -> Bool[np.ndarray, " K"]:
    """Which problems have rows on a tip itself, where the energy has no slope without smoothing, (K,)."""
    found = np.zeros(mean.shape[1], dtype=bool)
    for centre, low, high in energy.kinks:
        found |= np.any(((centre - mean) ** 2 + var <= _ON**2) & (high > low), axis=0)
    return found


def _here(energy: Energy, state: SolverState) -> bool:
    """Whether there are tips at all: noise that vanishes with the weights, and rows in memory."""
    here = energy.has_all_rows and energy.plain_weight is None
    return here and energy.moments.has_variance and energy.moments.leaves_zeros


def _many(energy: Energy, tips: Bool[np.ndarray, "n K"]) -> Bool[np.ndarray, " K"]:
    weight = np.broadcast_to(energy.weight, tips.shape)
    return np.asarray(np.sum(weight * tips, axis=0) >= _MANY * np.sum(weight, axis=0))


def _near_zero(energy: Energy, state: SolverState) -> Bool[np.ndarray, " K"]:
    """Whether the scores are so nearly constant, and so nearly without noise, that zero weights may be the end, (K,).

    A row's cost changes by no more than its score and the standard deviation of that do.
    """
    apart = np.sum(energy.weight * (np.abs(state.mean - state.weights[-1]) + np.sqrt(state.var)), axis=0)
    return np.asarray(apart <= _FLAT * np.abs(state.value))


def best_constant(energy: Energy) -> ProblemVector:
    """The intercept of zero weights, (K,): the first kink past which the slope of the energy is not below zero."""
    kinks, low, high = (np.concatenate(part, axis=0) for part in zip(*energy.kinks, strict=True))
    order = np.argsort(kinks, axis=0, kind="stable")
    rise = np.cumsum(np.take_along_axis(high - low, order, axis=0), axis=0)
    first = np.argmax(rise >= np.sum(high, axis=0), axis=0)
    return np.take_along_axis(np.take_along_axis(kinks, order, axis=0), first[None], axis=0)[0]


def _middle(centre: PerRow, tips: Bool[np.ndarray, "n K"], other: ProblemVector) -> ProblemVector:
    """The kink of the rows at tips, (K,), or another intercept where there are none."""
    columns = zip(centre.T, tips.T, other, strict=True)
    return np.array([np.median(middle[tip]) if np.any(tip) else here for middle, tip, here in columns])


def _tips(energy: Energy, state: SolverState, near: float = _NEAR) -> tuple[Bool[np.ndarray, "n K"], PerRow]:
    """Which rows are near their tips, and the kinks that are nearest, (n, K) each."""
    distance, nearest = np.full(state.mean.shape, np.inf), np.zeros(state.mean.shape)
    for centre, low, high in energy.kinks:
        slack = np.where(high > low, np.abs(centre - state.mean), np.inf)
        closer = slack < distance
        distance, nearest = np.where(closer, slack, distance), np.where(closer, centre, nearest)
    return distance**2 + state.var <= (near * state.smoothing) ** 2, nearest


def _rounded(energy: Energy, state: SolverState, tips: Bool[np.ndarray, "n K"], centre: PerRow) -> SolverState:
    """The better of the weights that are zero where rows are put on their tips and of those that all are."""
    weights, zero = state.weights.copy(), np.zeros_like(state.smoothing)
    if energy.moments.fit_intercept:
        weights[-1] = _middle(centre, tips, weights[-1])
    none = np.zeros_like(weights)
    if energy.moments.fit_intercept:
        none[-1] = best_constant(energy)
    weights[:-1][energy.moments.design.sq_rmatvec(tips.astype(np.float64)) > 0] = 0.0
    mean, var = energy.moments.scores(weights)
    value = energy.value(weights, mean, var, zero)
    flat = np.broadcast_to(none[-1], mean.shape)
    least = energy.value(none, flat, np.zeros_like(var), zero)
    best = value <= least
    weights, mean, var, value = (
        np.where(best, one, other)
        for one, other in ((weights, none), (mean, flat), (var, np.zeros_like(var)), (value, least))
    )
    return state.changed(weights=weights, mean=mean, var=var, value=value, smoothing=zero)
