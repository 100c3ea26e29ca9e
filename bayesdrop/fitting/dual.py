r"""Coordinate descent on the dual of a kinked loss without noise.

Without variance a hinge, ε-insensitive or quantile loss is piecewise linear, and smoothing it costs hundreds of ill
conditioned systems. Each is a maximum over an interval,

    c φ(y, s) = max { β(t − s) − e|β| : l <= β <= u },

so that the weights are ``w = P⁻¹Xᵀβ`` (an offset of the scores is taken off ``t``) with

    β = argmin ½ βᵀXP⁻¹Xᵀβ − tᵀβ + e‖β‖₁   subject to   l <= β <= u,   Σβ = 0 where there is an intercept.

One coordinate at a time has a closed form, and a row whose ``β`` stays at an end is left out (Hsieh, Chang, Lin,
Keerthi & Sundararajan 2008, algorithms 1 and 3). The constraint is met by the method of multipliers: with ``b`` its
multiplier and the intercept, ``(Σβ)²/2ρ`` is added and ``b`` follows ``Σβ/ρ``. The gap of primal and dual, at a ``β``
that meets the constraint, bounds the suboptimality; where it does not close soon, Newton's method begins anew.
"""

from __future__ import annotations

from functools import cache
from inspect import unwrap
from typing import Any, NamedTuple, cast

import numpy as np

from .._typing import Float, PerRow
from ..losses.protocols import Interval, PiecewiseLinear
from .energy import Energy
from .shapes import ProblemVector, WeightBlock

__all__ = ["on_their_kinks", "solve_dual"]

# Passes between two changes of the multiplier.
_PASSES = 3
# Passes before Newton's method takes over, and those over few entries, which are as quick as one of its steps.
_MOST = 300
_ENTRIES = 3e8
_MOST_OF_FEW = 30_000
_LEAST = 1e-100
# Half-width of a kink within which a slope says where the score is, and the share of a slope that counts as an end.
_KINK = 1e-9
_FAR = 1e-6
# Curvature of a row's coordinate that the intercept adds, relative to the mean row's own.
_INTERCEPT = 0.03


class _Rows(NamedTuple):
    """Compressed rows: where each begins, the columns and the values of the entries."""

    pointers: Any
    columns: Any
    values: Any


def solve_dual(energy: Energy, weights: WeightBlock, tol: float) -> tuple[WeightBlock, ProblemVector, PerRow] | None:
    """Minimise the energy of piecewise linear losses without noise.

    Parameters
    ----------
    energy : Energy
        Of K problems.
    weights : array (p + 1, K)
        Where the intercepts start.
    tol : float
        Relative suboptimality to reach.

    Returns
    -------
    weights : array (p + 1, K)
    gap : array (K,)
        Bound on the suboptimality.
    beta : array (n, K)

    None where it does not apply (other losses, noise, columns without a prior, rows elsewhere or dense, no compiler),
    and where it does not converge soon.
    """
    rows = _rows_of(energy)
    if rows is None:
        return None
    loss = cast(PiecewiseLinear, energy.loss)
    weight = np.broadcast_to(energy.weight, energy.target.shape)
    result, gap, pull = weights.copy(), np.empty(weights.shape[1]), np.empty(weight.shape)
    for k in range(weights.shape[1]):
        interval = loss.interval(energy.target[:, k], weight[:, k])
        if energy.offset is not None:
            interval = interval._replace(centre=interval.centre - energy.offset[:, 0])
        found = _solve(energy, rows, interval, float(weights[-1, k]), tol, k)
        if found is None:
            return None
        result[:, k], gap[k], pull[:, k] = found
    return result, gap, pull


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
    share = np.clip((pull - low) / np.maximum(high - low, _LEAST), _FAR, 1 - _FAR)
    place = _KINK * (2 * share - 1) / (2 * np.sqrt(share * (1 - share)))
    distance = kink - mean
    end = np.where(share == _FAR, np.minimum(distance, place), np.maximum(distance, place))
    return kink - np.where((share > _FAR) & (share < 1 - _FAR), place, end), _KINK**2


def _rows_of(energy: Energy) -> _Rows | None:
    from ..designs._numba import available

    moments, loss = energy.moments, energy.loss
    design = moments.design
    plain = not moments.has_variance and np.all(moments.coefficients.gain > 0) and energy.plain_weight is None
    if not (plain and available() and design.is_sparse and isinstance(loss, PiecewiseLinear)):
        return None
    if np.any(moments.coefficients.shift) or not np.all(energy.precision[:-1] > 0):
        return None
    matrix = design.matrix()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return _Rows(matrix.indptr, matrix.indices, matrix.data)


def _solve(
    energy: Energy, rows: _Rows, interval: Interval, intercept: float, tol: float, k: int
) -> tuple[Float[np.ndarray, " q"], float, Float[np.ndarray, " n"]] | None:
    """Weights (p + 1,) of one problem, the gap there and ``β``, if the gap closes."""
    design, fitted = energy.moments.design, energy.moments.fit_intercept
    # Of the weights times the gain of the noise's mean, which is what meets the rows.
    gain = np.broadcast_to(energy.moments.coefficients.gain, (design.shape[1], energy.target.shape[1]))[:, k]
    inverse = gain**2 / energy.precision[:-1, 0]
    # Of a row without entries any number above zero will do: its coordinate goes to an end.
    size = np.maximum(design.sq_matvec(inverse), _LEAST)
    rho = 1 / (_INTERCEPT * float(np.mean(size))) if fitted else np.inf
    beta, w = np.clip(np.zeros(len(size)), interval.low, interval.high), np.zeros(len(inverse))
    order, state = np.arange(len(size)), np.array([intercept, 0.0])
    best, least, floor, violation = np.append(w, intercept), np.inf, -np.inf, 1e-2
    rounds = max(_MOST, min(_MOST_OF_FEW, int(_ENTRIES / max(len(rows.values), 1)))) // _PASSES
    look = 0
    for round_ in range(rounds):
        reached = _descend()(
            *rows, *interval, size + 1 / rho, inverse, order, beta, w, state, 1 / rho, violation, _PASSES
        )
        violation = 0.1 * reached if reached <= violation else violation
        if round_ >= look:
            look = max(round_ + 1, int(1.15 * round_))
            here = np.append(w / gain, state[0] if fitted else 0.0)
            value = _primal(energy, here, k)
            if value < least:
                best, least = here, value
            floor = max(floor, _dual(energy, interval, beta, inverse))
            if least - floor <= tol * abs(least):
                return best, max(least - floor, 0.0), beta
        if fitted:
            state[0] += beta.sum() / rho
    return None


def _primal(energy: Energy, weights: Float[np.ndarray, " q"], k: int) -> float:
    one = energy.select(np.array([k]))
    block = weights[:, None]
    mean = one.moments.mean(block)
    return float(one.value(block, mean, np.zeros_like(mean), np.zeros(1))[0])


def _dual(energy: Energy, interval: Interval, beta: Float[np.ndarray, " n"], inverse: Float[np.ndarray, " p"]) -> float:
    """Dual objective, of a ``β`` that meets the constraint: the larger side is scaled down."""
    if energy.moments.fit_intercept:
        above, below = beta[beta > 0].sum(), -beta[beta < 0].sum()
        share = min(above, below)
        beta = np.where(beta > 0, beta * (share / above if above else 0.0), beta * (share / below if below else 0.0))
    back = energy.moments.design.rmatvec(beta)
    return float(interval.centre @ beta - interval.width @ np.abs(beta) - 0.5 * back @ (inverse * back))


@cache
def _descend() -> Any:
    import numba

    return numba.njit(cache=True, nogil=True, boundscheck=False)(unwrap(_passes))


def _passes(
    pointers: Any,
    columns: Any,
    values: Any,
    centre: Any,
    low: Any,
    high: Any,
    width: Any,
    size: Any,
    inverse: Any,
    order: Any,
    beta: Any,
    w: Any,
    state: Any,
    stiffness: Any,
    tolerance: Any,
    passes: Any,
) -> Any:
    """Some passes over the coordinates, in place; returns the largest violation of the last whole one.

    ``state`` holds the intercept, and where the random order stands.
    """
    n = len(order)
    active = n
    bound = np.inf
    seed = np.uint64(state[1]) + np.uint64(88172645463325252)
    intercept = state[0]
    worst = np.inf
    for _ in range(passes):
        whole = active == n
        worst = 0.0
        j = 0
        while j < active:
            seed ^= seed << np.uint64(13)
            seed ^= seed >> np.uint64(7)
            seed ^= seed << np.uint64(17)
            other = j + np.int64(seed % np.uint64(active - j))
            i = order[other]
            order[other] = order[j]
            order[j] = i
            slope = intercept - centre[i]
            for e in range(pointers[i], pointers[i + 1]):
                slope += values[e] * w[columns[e]]
            old = beta[i]
            reach = old - slope / size[i]
            edge = width[i] / size[i]
            new = reach - edge if reach > edge else (reach + edge if reach < -edge else 0.0)
            new = min(max(new, low[i]), high[i])
            change = new - old
            if change == 0.0:
                above, below = slope - width[i] > bound, -slope - width[i] > bound
                if (old == low[i] and above) or (old == high[i] and below):
                    active -= 1
                    order[j] = order[active]
                    order[active] = i
                    continue
            else:
                worst = max(worst, abs(change) * size[i])
                beta[i] = new
                for e in range(pointers[i], pointers[i + 1]):
                    w[columns[e]] += change * inverse[columns[e]] * values[e]
                intercept += change * stiffness
            j += 1
        if worst <= tolerance:
            if whole:
                break
            active = n
            bound = np.inf
        else:
            bound = worst
    state[0] = intercept
    state[1] = np.float64(seed >> np.uint64(12))
    return worst if active == n else np.inf
