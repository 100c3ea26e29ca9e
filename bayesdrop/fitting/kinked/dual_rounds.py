r"""Rounds of coordinate descent on the duals of some problems that share a matrix, in step; :mod:`.dual` has the rest.

A round makes passes over the coordinates (:mod:`.coordinate_loop`), and then products with the rows bring the
majorisers up to date and bound what is missing. Both read an entry once for all problems. Those that have ended are
left behind. With noise, weights that are given have slopes, and these are the ``β`` to begin with. Rates that follow
the weights may change after every round: the ``β`` stand, and weights, ``D`` and ``q`` are those that go with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._typing import Bool, Float, PerRow
from ..driver import LOOSE
from ..shapes import FeatureBlock, ProblemVector, WeightBlock
from .coordinate_loop import CompressedRows, Coordinates, Passes
from .problem import LEAST, NO_RESIDUAL, Dual, KinkedProblem

__all__ = ["Follow", "descend"]

# Of weights (p + 1, K), which problems are within their tolerance (K,) and the energies (K,): whose rates change (K,),
# and all problems as they are then.
Follow = Callable[
    [WeightBlock, Bool[np.ndarray, " K"], ProblemVector], tuple[Bool[np.ndarray, " K"], KinkedProblem] | None
]

# Passes of a round without noise, and with it: the less noise, the less there is to be brought up to date after them.
# So many, over the largest variance of an entry relative to its square, of one kink and of two, between two ends.
_PASSES_PLAIN = 5
_PASSES = (0.2, 1.2)
_LEAST_PASSES, _MOST_PASSES = 2, 6
# Rounds in which the gap must halve, with noise.
_PATIENCE = 4
# Curvature of a row's coordinate that the intercept adds, relative to the mean row's own.
_INTERCEPT = 0.03
# At most so many times as much, and the share of ``Σβ`` that a round may leave before it is too little.
_STIFFEST = 32.0
_SLOW = 0.4


@dataclass
class _Progress:
    """Where the passes of ``K`` problems are: weights, ``D`` (p, K), intercepts, ``r`` and ``q`` (n, K), stiffness."""

    coordinates: Coordinates
    weights: FeatureBlock
    diagonal: FeatureBlock
    intercept: ProblemVector
    root: PerRow
    size: PerRow
    stiffness: ProblemVector
    least_stiffness: ProblemVector
    before: ProblemVector

    def select(self, columns: Any) -> _Progress:
        """Some of the problems."""
        parts = {
            name: np.ascontiguousarray(part[..., columns]) for name, part in vars(self).items() if name != "coordinates"
        }
        coordinates = Coordinates(*(np.ascontiguousarray(part[..., columns]) for part in self.coordinates))
        return _Progress(coordinates, **parts)


def descend(
    task: KinkedProblem,
    rows: CompressedRows,
    begun: WeightBlock,
    tol: float,
    most: int,
    follow: Follow | None = None,
) -> Dual | None:
    """Descend ``K`` problems until their gaps are below ``tol`` of their energies, or ``most`` passes are made.

    Parameters
    ----------
    task : KinkedProblem
        Several problems.
    rows : CompressedRows
        The rows of the design.
    begun : array (p + 1, K)
        Where to start; without noise, and of weights that are all zero, the intercepts alone.
    tol : float
        Relative suboptimality to reach. What does not come so near soon is left where it is, and its gap tells.
    most : int
        Most passes.
    follow : callable, optional
        What the weights do to the rates; by default nothing. A problem whose rates have just changed has not ended,
        unless ``tol`` is loose.

    Returns
    -------
    Dual or None
        None where no energy is left to hold a gap against.
    """
    n, kinks, K = task.centre.shape
    noisy = bool(np.any(task.quadratic))
    passes = _passes(kinks, float(np.max(task.quadratic, initial=0.0)))
    first = task.energy(np.zeros_like(task.gain), task.centre, np.zeros(begun.shape[1]))
    now = _at_weights(task, begun, first) if noisy and np.any(begun[:-1]) else None
    now = now or _at_zero(task, begun[-1], noisy)
    found = Dual(begun.copy(), np.full(K, np.inf), now.coordinates.beta.sum(axis=1))
    least, floor = np.full(K, np.inf), np.full(K, -np.inf)
    gaps: list[ProblemVector] = []
    live, loop = np.arange(K), Passes(rows, n, K)
    for _ in range(max(1, most // passes)):
        gain = 1 / now.diagonal
        loop(now.coordinates, now.root, now.size, now.stiffness, now.weights, gain, now.intercept, passes)
        slack = _look(task, now, noisy)
        value = task.energy(now.weights, slack, now.root)
        beta = now.coordinates.beta
        bound, spread = task.bound(task.feasible(beta), now.weights, now.root)
        floor[live] = np.maximum(floor[live], bound)
        better = np.flatnonzero(value < least[live])
        columns = live[better]
        least[columns] = value[better]
        found.weights[:-1, columns] = now.weights[:, better] / task.gain[:, better]
        found.weights[-1, columns] = now.intercept[better]
        found.pull[:, columns] = beta[..., better].sum(axis=1)
        found.gap[live] = np.maximum(least[live] - floor[live], 0.0)
        gaps.append(found.gap.copy())
        near = found.gap <= tol * np.abs(least)
        open_, stalled = ~near, noisy & _stall(gaps)
        if follow is not None and (change := follow(found.weights, near, least)) is not None:
            moved, whole = change
            if tol >= LOOSE:  # what still changes sign is too near zero to matter
                moved = moved & ~near
            task = whole.select(live)
            least[moved], floor[moved], found.gap[moved] = np.inf, -np.inf, np.inf
            open_ |= moved
            for gap in gaps:  # of a problem that had all but ended, and begins anew
                gap[moved & near] = np.inf
        left = np.flatnonzero((open_ & ~stalled)[live])
        if not len(left):
            break
        if len(left) < len(live):
            live, task, now, slack = live[left], task.select(left), now.select(left), slack[..., left]
            spread, loop = spread[:, left], Passes(rows, n, len(left))
        _update(task, now, slack, spread, noisy)
    return found if np.all(least >= NO_RESIDUAL * first) else None


def _passes(kinks: int, heaviest: float) -> int:
    """Passes of a round.

    Examples
    --------
    >>> [_passes(1, heaviest) for heaviest in (0.0, 0.01, 0.05, 1.0)], _passes(2, 0.4)
    ([5, 6, 4, 2], 3)
    """
    if heaviest == 0:
        return _PASSES_PLAIN
    return int(np.clip(round(_PASSES[kinks - 1] / heaviest), _LEAST_PASSES, _MOST_PASSES))


def _at_weights(task: KinkedProblem, begun: WeightBlock, first: ProblemVector) -> _Progress | None:
    """The slopes at some weights, and the weights that they make; None if zeros, of energy ``first``, are better."""
    weights, intercept = task.gain * begun[:-1], begun[-1]
    mean, var = task.design.pair_matvec(weights, task.quadratic * weights**2)
    root = np.sqrt(var)
    root[root < LEAST] = 0.0
    slack, wide = task.centre - (mean + intercept)[:, None], root[:, None]
    if np.any(task.energy(weights, slack, root) > first):
        return None
    place = np.where(wide > 0, slack / np.where(wide > 0, wide, 1.0), 0.0)
    share = slack / np.maximum(np.sqrt(slack * slack + wide * wide), LEAST)
    beta = 0.5 * (task.high + task.low) + 0.5 * (task.high - task.low) * share
    _, spread = task.bound(beta, weights, root)
    diagonal = task.precision + task.quadratic * spread
    coordinates = Coordinates(task.centre, task.low, task.high, beta, place)
    made = task.design.rmatvec(beta.sum(axis=1)) / diagonal
    return _begin(task, coordinates, made, diagonal, intercept, root)


def _at_zero(task: KinkedProblem, intercept: ProblemVector, noisy: bool) -> _Progress:
    """Zero weights and slopes, or the nearest to them."""
    design, K, n = task.design, len(intercept), len(task.centre)
    diagonal = task.precision.copy()
    if noisy:
        # At zero weights the curvature of a bound is that at the distance of its kink, of which the mean is taken.
        far = np.maximum(np.mean(np.abs(task.centre - intercept), axis=(0, 1)), LEAST)
        half = 0.5 * (task.high - task.low).sum(axis=1)
        diagonal += task.quadratic * design.sq_rmatvec(half / far)
    beta = np.clip(np.zeros_like(task.centre), task.low, task.high)
    coordinates = Coordinates(task.centre, task.low, task.high, beta, np.zeros_like(beta))
    return _begin(task, coordinates, np.zeros(diagonal.shape), diagonal, intercept, np.zeros((n, K)))


def _begin(
    task: KinkedProblem,
    coordinates: Coordinates,
    weights: FeatureBlock,
    diagonal: FeatureBlock,
    intercept: ProblemVector,
    root: PerRow,
) -> _Progress:
    """Before the first round, with ``q`` and the stiffness that go with the rest."""
    K, size = len(intercept), _sizes(task, diagonal)
    least = _INTERCEPT * size.mean(axis=0) if task.fitted else np.zeros(K)
    return _Progress(coordinates, weights, diagonal, intercept.copy(), root, size, least, least.copy(), np.zeros(K))


def _sizes(task: KinkedProblem, diagonal: FeatureBlock) -> PerRow:
    """``q`` (n, K); of a row without entries any number above zero will do: its coordinate goes to an end."""
    return np.maximum(task.design.sq_matvec(1 / diagonal), LEAST)


def _look(task: KinkedProblem, now: _Progress, noisy: bool) -> Float[np.ndarray, "n kinks K"]:
    """Bring ``r`` up to date, and return how far the scores are short of their kinks."""
    if noisy:
        mean, var = task.design.pair_matvec(now.weights, task.quadratic * now.weights**2)
        now.root = np.sqrt(var)
        now.root[now.root < LEAST] = 0.0
    else:
        mean = task.design.matvec(now.weights)
    return task.centre - (mean + now.intercept)[:, None]


def _update(
    task: KinkedProblem, now: _Progress, slack: Float[np.ndarray, "n kinks K"], spread: FeatureBlock, noisy: bool
) -> None:
    """Bring ``D``, ``q``, the stiffness and the intercepts up to date after a round."""
    total = now.coordinates.beta.sum(axis=(0, 1))
    now.stiffness = _stiffened(now.stiffness, now.least_stiffness, total, now.before)
    step, now.before = now.stiffness, total
    if noisy:
        newer = task.precision + task.quadratic * spread
        now.weights *= now.diagonal / newer
        now.diagonal = newer
        now.size = _sizes(task, newer)
        step = _multiplier_step(0.5 * (task.high - task.low), slack, now.root, now.size, now.stiffness)
    if task.fitted:
        now.intercept += total * step


def _stall(gaps: list[ProblemVector]) -> Bool[np.ndarray, " K"]:
    """Whether the gaps no longer halve in some rounds, which Newton's method then does better."""
    if len(gaps) <= 2 * _PATIENCE:
        return np.zeros(len(gaps[-1]), dtype=bool)
    return np.asarray(gaps[-1] > 0.5 * gaps[-1 - _PATIENCE])


def _stiffened(
    stiffness: ProblemVector, least: ProblemVector, total: ProblemVector, before: ProblemVector
) -> ProblemVector:
    """Stiffness of the constraint: twice as much where ``Σβ`` falls slowly, half where it changes sign."""
    slow = (total * before > 0) & (np.abs(total) > _SLOW * np.abs(before))
    more = np.where(slow, np.minimum(2 * stiffness, _STIFFEST * least), stiffness)
    return np.where(total * before < 0, np.maximum(0.5 * stiffness, least), more)


def _multiplier_step(
    half: Float[np.ndarray, "n kinks K"],
    slack: Float[np.ndarray, "n kinks K"],
    root: PerRow,
    size: PerRow,
    stiffness: ProblemVector,
) -> ProblemVector:
    """How far the intercept follows ``Σβ``: one over the slope of that in it, were each row alone."""
    var = (root * root)[:, None]
    far = np.maximum(slack * slack + var, LEAST)
    curvature = half * var / (far * np.sqrt(far))
    slope = np.sum(curvature / (1 + curvature * size[:, None]), axis=(0, 1))
    return np.maximum(stiffness, 1 / np.maximum(slope, 1e-3 / np.maximum(stiffness, LEAST)))
