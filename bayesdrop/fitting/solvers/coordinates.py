r"""Coordinate descent on the dual of a piecewise-linear loss without noise, for sparse rows.

A row has one coordinate for each of its kinks, ``β`` between the ends ``l`` and ``u``. With the score ``s`` and
``q = Σ_d x_d²/P_d``, by which it moves with ``β``, the best ``β`` is ``β + (t − s)/q``, cut off at the ends (Hsieh,
Chang, Lin, Keerthi & Sundararajan 2008). The intercept ``b`` is the multiplier of ``Σβ = 0``: by the method of
multipliers ``(Σβ)²/2ρ`` is added, and ``b`` follows ``Σβ``. :mod:`.dual_problem` has the bound that ends it.
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
    """Passes over the rows, and the curvature that the intercept adds.

    Attributes
    ----------
    together : int
        Passes between two looks at the gap.
    still : float
        A row that moves less than this share of the mean row is left out of the passes up to the next look.
    stiff : float
        Curvature that the intercept adds to a row's coordinate, as a share of the mean row's own.
    stiffest : float
        Maximal factor on ``stiff``.
    slow : float
        If the passes leave more than this share of ``Σβ``, the added curvature is doubled.
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
        None without a compiler, where rows are elsewhere, and where no energy is left to hold the gap against.
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
    # Of a row without entries any number above zero will do: its coordinate goes to an end.
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
        # Twice as stiff where Σβ falls slowly, half where it changes sign.
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
    """Passes over the rows, one in each of the orders, which change ``beta`` (n, kinks) and ``weights`` (p,).

    Rows that move less than a ``share`` of the mean row are left out of the passes that follow.

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
