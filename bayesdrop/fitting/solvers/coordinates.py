r"""Coordinate descent on the dual of a piecewise-linear loss without noise, for sparse rows.

A row has one coordinate ``β`` for each of its kinks, between the ends ``l`` and ``u``. The score ``s`` of the row
changes by ``q = Σ_d x_d²/P_d`` per unit of ``β``, so that the best value is ``β + (t − s)/q``, clipped to the ends
(Hsieh, Chang, Lin, Keerthi & Sundararajan 2008). The intercept ``b`` is the multiplier of ``Σβ = 0``: the method of
multipliers adds ``(Σβ)²/2ρ`` and changes ``b`` by ``Σβ/ρ``. The bound of :mod:`.dual_problem` ends the passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..objective.energy import Energy, WeightBlock
from .dual_problem import LEAST, NO_RESIDUAL, Dual, DualLimits, DualProblem, joined

__all__ = ["solve_by_coordinates"]

_ONE = np.uint64(1)


@dataclass(frozen=True)
class CoordinateRules:
    """Rules for passes over the rows, and for the curvature ``1/ρ`` that the intercept adds.

    Attributes
    ----------
    together : int
        Passes between two evaluations of the gap.
    still : float
        A row that moves less than this share of the mean row is skipped until the next evaluation of the gap.
    stiff : float
        Minimum of ``1/ρ``, as a share of the mean ``q``.
    stiffest : float
        Maximum factor on ``stiff``.
    slow : float
        If the passes leave more than this share of ``Σβ``, ``1/ρ`` is doubled.
    """

    together: int = 5
    still: float = 0.3
    stiff: float = 0.03
    stiffest: float = 32.0
    slow: float = 0.4


_RULES = CoordinateRules()


def solve_by_coordinates(energy: Energy, weights: WeightBlock, tol: float, limits: DualLimits) -> Dual | None:
    """Minimise energies without noise; see :func:`.choices.solve_dual`.

    Returns
    -------
    Dual or None
        None without a compiler, for rows outside this process, and if an energy, with which the gap is compared, is
        nearly zero.
    """
    from ...designs.kernels import available

    matrix = energy.moments.design.compressed() if available() else None
    if matrix is None:
        return None
    min_passes, max_passes = limits.passes
    passes = max(min_passes, min(max_passes, int(limits.visits / max(matrix.nnz, 1))))
    # Unsigned indices spare Numba the check for negative ones.
    columns = matrix.indices.view(np.uint32 if matrix.indices.dtype.itemsize == 4 else np.uint64)
    rows = matrix.indptr.astype(np.uint64), columns, matrix.data
    return joined(
        _solve(DualProblem.of(energy, k), rows, float(weights[-1, k]), tol, passes) for k in range(weights.shape[1])
    )


def _solve(
    task: DualProblem,
    rows: tuple[Any, ...],
    intercept: float,
    tol: float,
    max_passes: int,
) -> Dual | None:
    """Minimise the energy of one problem."""
    from ...designs.kernels import compiled

    passes, generator = compiled(_passes, "contract", "reassoc"), np.random.default_rng(0)
    gain, weights = 1 / task.precision, np.zeros(len(task.precision))
    # For a row without entries any positive number will do: its coordinate goes to an end.
    size = np.maximum(task.design.sq_matvec(gain), LEAST)
    beta = np.clip(np.zeros_like(task.centre), task.low, task.high)
    stiffness = least_stiffness = _RULES.stiff * float(size.mean()) if task.has_intercept else 0.0
    first = task.energy(weights, task.centre - intercept)
    best, pull = np.append(weights, intercept), beta.sum(axis=1)
    smallest, floor, before = np.inf, -np.inf, 0.0
    for _ in range(max(1, max_passes // _RULES.together)):
        orders = np.stack([generator.permutation(len(size)) for _ in range(_RULES.together)]).astype(np.uint64)
        intercept = passes(
            *rows, task.centre, task.low, task.high, beta, size, stiffness, gain, weights, intercept, orders,
            _RULES.still,
        )  # fmt: skip
        value = task.energy(weights, task.centre - (task.design.matvec(weights) + intercept)[:, None])
        floor = max(floor, task.bound(task.feasible(beta)))
        if value < smallest:
            best, pull, smallest = np.append(weights, intercept), beta.sum(axis=1), value
        if smallest - floor <= tol * abs(smallest):
            break
        total = float(beta.sum())
        # Double 1/ρ if Σβ falls slowly, and halve it if Σβ changes sign.
        if total * before < 0:
            stiffness = max(0.5 * stiffness, least_stiffness)
        elif abs(total) > _RULES.slow * abs(before) > 0:
            stiffness = min(2 * stiffness, _RULES.stiffest * least_stiffness)
        intercept, before = intercept + stiffness * total, total
    if smallest < NO_RESIDUAL * first:
        return None
    best[:-1] /= task.gain
    return Dual(best[:, None], np.array([max(smallest - floor, 0.0)]), pull[:, None])


def _passes(
    pointers: Any,
    columns: Any,
    values: Any,
    centre: Any,
    low: Any,
    high: Any,
    beta: Any,
    size: Any,
    stiffness: float,
    gain: Any,
    weights: Any,
    intercept: float,
    orders: Any,
    share: float,
) -> float:
    """Pass over the rows in each of the orders, and change ``beta`` (n, kinks) and ``weights`` (p,) in place.

    Rows that move less than a ``share`` of the mean row are skipped in the following passes.

    Returns
    -------
    float
        The intercept.
    """
    n, kinks = beta.shape
    still, total, level = np.zeros(n, dtype=np.bool_), 0.0, -1.0
    for turn in range(len(orders)):
        for i in orders[turn]:
            if still[i]:
                continue
            first, last = pointers[i], pointers[i + _ONE]
            score = intercept
            for e in range(first, last):
                score += values[e] * weights[columns[e]]
            q, change = size[i] + stiffness, 0.0
            for k in range(kinks):
                new = beta[i, k] + (centre[i, k] - score) / q - change
                new = min(max(new, low[i, k]), high[i, k])
                change += new - beta[i, k]
                beta[i, k] = new
            if change != 0.0:
                for e in range(first, last):
                    weights[columns[e]] += change * values[e] * gain[columns[e]]
                intercept += change * stiffness
            move = abs(change) * q
            total += move if turn == 0 else 0.0
            still[i] = turn > 0 and move <= level
        level = share * total / n
    return intercept
