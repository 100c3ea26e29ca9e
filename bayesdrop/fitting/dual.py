r"""Coordinate descent on the dual of a kinked loss, with noise in the form of the augmentation bound, and without.

A plain hinge, ε-insensitive or quantile loss is a sum of maxima over intervals, and with noise of variance ``v`` its
bound is that of the same intervals,

    c φ(y, s, v) = Σ max { β(t − s) + √v √((β − l)(u − β)) : l <= β <= u },

for ``½(ζ + √(ζ² + v)) = max { αζ + √v √(α(1 − α)) : 0 <= α <= 1 }``; an offset of the scores is taken off ``t``. So
the energy is the maximum over ``β`` of what is convex in ``w``: a quadratic, linear terms, and norms ``√v``. As
``√v <= ½(v/r + r)``, with equality at ``r = √v``, the weights that belong to ``β`` are

    w = D⁻¹Mᵀβ,     D = P + q(σ/r),     σ = √((β − l)(u − β)),     q(s) = a∘(X²)ᵀs.

A round makes passes over the coordinates at fixed ``D`` and ``r``, each of which has a closed form or nearly
(:mod:`.coordinate_loop`; Hsieh, Chang, Lin, Keerthi & Sundararajan 2008 without noise), and then brings these up to
date. Without noise they stand. The intercept ``b`` is the multiplier of ``Σβ = 0``: by the method of multipliers
``(Σβ)²/2ρ`` is added, and ``b`` follows ``Σβ``.

As ``√v >= aᵀz`` for any ``z`` with ``‖z‖ <= 1``, any ``β`` that meets the constraint and any ``w`` with ``r = √v(w)``
bound the energy from below,

    U >= Σtβ − ½ρᵀP⁻¹ρ,     ρ = Mᵀβ − q(σ/r)∘w,

and the difference to the energy at ``w`` bounds its suboptimality, however sharp the kinks. Where it does not close
soon Newton's method goes on from there.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from .._typing import Float, PerRow
from .._validation import offers
from ..losses.protocols import PiecewiseLinear
from .coordinate_loop import CompressedRows, Coordinates, descend
from .energy import Energy
from .interior import solve_interior
from .kinked_problem import LEAST, NO_RESIDUAL, Dual, KinkedProblem
from .shapes import WeightBlock

__all__ = ["on_their_kinks", "solve_dual"]

# Passes of a round, with noise and without.
_PASSES = 2
_PASSES_PLAIN = 5
# Passes before Newton's method takes over, and those over few entries, which are as quick as one of its steps.
_MOST = 300
_ENTRIES = 3e8
_MOST_OF_FEW = 30_000
# Rounds in which the gap must halve, with noise.
_PATIENCE = 4
# With noise the loop is worth loading from so many entries on, and Newton's method is quicker where the variance of an
# entry is a larger share of its squared mean than this, in rows of one kink and of two: kinks are round then.
_WORTHWHILE = 100_000
_HEAVY = (0.5, 0.01)
# So is it where more than this share of the entries is stored and there are more than so many rows for each column.
_FULL = 0.5
_TALL = 1.5
# Half-width of a kink within which a slope says where the score is, and the share of a slope that counts as an end.
_KINK = 1e-9
_FAR = 1e-6
# Curvature of a row's coordinate that the intercept adds, relative to the mean row's own.
_INTERCEPT = 0.03
# At most so many times as much, and the share of ``Σβ`` that a round may leave before it is too little.
_STIFFEST = 32.0
_SLOW = 0.4


def solve_dual(energy: Energy, weights: WeightBlock, tol: float) -> Dual | None:
    """Minimise the energy of kinked losses by their dual.

    Parameters
    ----------
    energy : Energy
        Of K problems.
    weights : array (p + 1, K)
        Where the intercepts start.
    tol : float
        Relative suboptimality to reach. What does not come so near soon is left where it is, and its gap tells.

    Returns
    -------
    Dual or None
        None where it does not apply (other losses or forms of them, noise that does not leave zeros alone, columns
        without a prior, rows elsewhere, noised ones without zeros, no compiler) or does not pay.
    """
    if not _applies(energy):
        return None
    design = energy.moments.design
    n, p = design.shape
    if not design.is_sparse and n > _TALL * p and design.compressed() is None:
        return solve_interior(energy, weights, tol) or _by_coordinates(energy, weights, tol)
    return _by_coordinates(energy, weights, tol) or solve_interior(energy, weights, tol)


def _by_coordinates(energy: Energy, weights: WeightBlock, tol: float) -> Dual | None:
    rows = _rows_of(energy)
    if rows is None:
        return None
    tasks = [KinkedProblem.of(energy, k) for k in range(weights.shape[1])]
    if any(np.max(task.quadratic, initial=0.0) > _HEAVY[task.centre.shape[1] - 1] for task in tasks):
        return None
    n, p = energy.moments.design.shape
    if len(rows.values) > _FULL * n * p and (n > _TALL * p or tasks[0].centre.shape[1] > 1):
        return None
    found = [_solve(task, rows, float(weights[-1, k]), tol) for k, task in enumerate(tasks)]
    if any(part[1] is None for part in found):
        return None
    return Dual(
        np.stack([part[0] for part in found], axis=1),
        np.array([part[1] for part in found], dtype=np.float64),
        np.stack([part[2] for part in found], axis=1),
    )


def on_their_kinks(energy: Energy, mean: PerRow, pull: PerRow) -> tuple[PerRow, float]:
    """Scores (n, K) whose slopes are ``−β`` at the variance that is returned with them.

    A score on a kink is known to the root of the gap, and its slope depends on where in the kink it lies.
    """
    weight = np.broadcast_to(energy.weight, mean.shape)
    centre, low, high, width = cast(PiecewiseLinear, energy.loss).interval(energy.target, weight)
    centre = centre if energy.offset is None else centre - energy.offset
    # With a width there are two kinks, and β is between zero and one of the ends.
    above = (width > 0) & ((pull > 0) | ((pull == 0) & (mean < centre)))
    below = (width > 0) & ~above
    low, high = np.where(above, 0.0, low), np.where(below, 0.0, high)
    kink = centre - np.where(above, width, 0.0) + np.where(below, width, 0.0)
    share = np.clip((pull - low) / np.maximum(high - low, LEAST), _FAR, 1 - _FAR)
    place = _KINK * (2 * share - 1) / (2 * np.sqrt(share * (1 - share)))
    distance = kink - mean
    end = np.where(share == _FAR, np.minimum(distance, place), np.maximum(distance, place))
    return kink - np.where((share > _FAR) & (share < 1 - _FAR), place, end), _KINK**2


def _applies(energy: Energy) -> bool:
    """Whether the energy is the maximum that is stated above, in weights that are a multiple of those."""
    moments, loss = energy.moments, cast(PiecewiseLinear, energy.loss)
    gain, shift, _, linear, constant = moments.coefficients
    # Smooth losses first: to look for the methods of a protocol where they are not takes as long as a step.
    if not (loss.kinked and offers(loss, PiecewiseLinear)) or energy.plain_weight is not None:
        return False
    if moments.has_variance and not loss.augmented:
        return False
    if any(np.any(part) for part in (shift, linear, constant)) or not (np.all(gain > 0) and moments.centre is None):
        return False
    return bool(np.all(energy.precision[:-1] > 0))


def _rows_of(energy: Energy) -> CompressedRows | None:
    from ..designs._numba import available

    if not available():
        return None
    moments, design = energy.moments, energy.moments.design
    matrix = design.compressed(full=not moments.has_variance)
    if matrix is None or (moments.has_variance and matrix.nnz < _WORTHWHILE):
        return None
    # Unsigned indices spare Numba the check for negative ones.
    columns = matrix.indices.view(np.uint32 if matrix.indices.dtype.itemsize == 4 else np.uint64)
    return CompressedRows(matrix.indptr.astype(np.uint64), columns, matrix.data, bool(np.all(matrix.data == 1)))


def _solve(
    task: KinkedProblem, rows: CompressedRows, intercept: float, tol: float
) -> tuple[Float[np.ndarray, " q"], float | None, Float[np.ndarray, " n"]]:
    """Weights (p + 1,) of one problem, the gap there and ``β``; no gap where no energy is left to hold it against."""
    design, (n, p) = task.design, task.design.shape
    noisy = bool(np.any(task.quadratic))
    half, diagonal = 0.5 * (task.high - task.low), task.precision
    if noisy:
        # At zero weights the curvature of a bound is that at the distance of its kink, of which the mean is taken.
        far = max(float(np.mean(np.abs(task.centre - intercept))), LEAST)
        diagonal = diagonal + task.quadratic * design.sq_rmatvec(half.sum(axis=1) / far)
    # Of a row without entries any number above zero will do: its coordinate goes to an end.
    size = np.maximum(design.sq_matvec(1 / diagonal), LEAST)
    stiffness = least_stiffness = _INTERCEPT * float(np.mean(size)) if task.fitted else 0.0
    before = 0.0
    beta = np.clip(np.zeros_like(half), task.low, task.high)
    coordinates = Coordinates(task.centre, task.low, task.high, beta, np.zeros_like(half))
    pair, root = np.stack([np.zeros(p), 1 / diagonal], axis=1), np.zeros(n)
    order, state = np.arange(n, dtype=np.uint64), np.array([intercept, 0.0])
    passes = _PASSES if noisy else _PASSES_PLAIN
    best, least, floor = (np.append(pair[:, 0], intercept), beta), np.inf, -np.inf
    gaps: list[float] = []
    first = task.energy(pair[:, 0], task.centre - intercept, root)
    most = max(_MOST, min(_MOST_OF_FEW, int(_ENTRIES / max(len(rows.values), 1))))
    for _ in range(max(1, most // passes)):
        descend()(*rows, *coordinates, root, size + stiffness, pair, order, state, stiffness, passes)
        w = pair[:, 0].copy()
        if noisy:
            mean, var = design.pair_matvec(w[:, None], (task.quadratic * w * w)[:, None])
            mean, root = mean[:, 0], np.sqrt(var[:, 0])
            root[root < LEAST] = 0.0
        else:
            mean = design.matvec(w)
        slack = task.centre - (mean + state[0])[:, None]
        value = task.energy(w, slack, root)
        bound, spread = task.bound(task.feasible(beta), w, root)
        floor = max(floor, bound)
        if value < least:
            best, least = (np.append(w / task.gain, state[0]), beta.copy()), value
        gaps.append(max(least - floor, 0.0))
        if gaps[-1] <= tol * abs(least) or _stalls(gaps, noisy):
            break
        total = float(beta.sum())
        stiffness = _stiffen(stiffness, least_stiffness, total, before)
        step, before = stiffness, total
        if noisy:
            newer = task.precision + spread
            pair[:, 0] *= diagonal / newer
            pair[:, 1] = 1 / newer
            diagonal = newer
            size = np.maximum(design.sq_matvec(pair[:, 1]), LEAST)
            step = _multiplier_step(half, slack, root, size, stiffness)
        if task.fitted:
            state[0] += total * step
    return best[0], gaps[-1] if least >= NO_RESIDUAL * first else None, best[1].sum(axis=1)


def _stalls(gaps: list[float], noisy: bool) -> bool:
    """Whether the gap no longer halves in some rounds, which Newton's method then does better."""
    return noisy and len(gaps) > 2 * _PATIENCE and gaps[-1] > 0.5 * gaps[-1 - _PATIENCE]


def _stiffen(stiffness: float, least: float, total: float, before: float) -> float:
    """Stiffness of the constraint: twice as much where ``Σβ`` falls slowly, half where it changes sign."""
    if total * before < 0:
        return max(0.5 * stiffness, least)
    slow = total * before > 0 and abs(total) > _SLOW * abs(before)
    return min(2 * stiffness, _STIFFEST * least) if slow else stiffness


def _multiplier_step(
    half: Float[np.ndarray, "n kinks"],
    slack: Float[np.ndarray, "n kinks"],
    root: Float[np.ndarray, " n"],
    size: Float[np.ndarray, " n"],
    stiffness: float,
) -> float:
    """How far the intercept follows ``Σβ``: one over the slope of that in it, were each row alone."""
    var = (root * root)[:, None]
    curvature = half * var / np.maximum(slack * slack + var, LEAST) ** 1.5
    slope = float(np.sum(curvature / (1 + curvature * size[:, None])))
    return max(stiffness, 1 / max(slope, 1e-3 / max(stiffness, LEAST)))
