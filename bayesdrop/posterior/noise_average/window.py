"""Enumerate those masks of a row whose scores lie where a function varies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._typing import Float
from .enumeration import all_masks
from .quadrature import RULES

__all__ = ["over_window"]


def over_window(
    base: float,
    step: Float[np.ndarray, " k"],
    rate: Float[np.ndarray, " k"],
    function: Callable[[Float[np.ndarray, " M"]], Float[np.ndarray, " M"]],
    logarithmic: bool,
) -> float:
    """Average a function of one score over all masks whose scores lie in the interval in which it varies.

    Either half of the entries has its masks enumerated. For each mask of one half those of the other that lead to the
    interval are found by bisection (meet in the middle; Horowitz & Sahni 1974). Beyond the interval a probability is
    constant and a likelihood 0.

    Parameters
    ----------
    base : float
        Part of the score that is never dropped.
    step, rate : array (k,)
        What kept entries add, and their rates.
    function : callable
        Of scores (M,), to values (M,), or to their logarithms, which are concave.
    logarithmic : bool
        Whether they are logarithms.

    Returns
    -------
    float
        The expectation, or its logarithm; NaN if there are too many such masks.

    Examples
    --------
    >>> chance = over_window(
    ...     0.0, np.ones(20), np.full(20, 0.5), lambda s: np.where(s > 10.5, 1.0, 0.0), False
    ... )
    >>> round(chance, 12)  # (1 − C(20, 10)/2²⁰)/2
    0.411901473999
    """
    order = np.argsort(-np.abs(step) * rate * (1 - rate))
    halves = []
    for half in (order[::2], order[1::2]):
        if len(half) > RULES.half:
            return np.nan
        value, log_chance = (part[0] for part in all_masks(step[None, half], rate[None, half]))
        ranks = np.argsort(value)
        halves.append((value[ranks], log_chance[ranks]))
    (a, log_a), (b, log_b) = halves
    a = a + base
    edge = 1e-9 * max(abs(a[0] + b[0]), abs(a[-1] + b[-1]), np.finfo(float).tiny)
    grid = np.linspace(a[0] + b[0] - edge, a[-1] + b[-1] + edge, RULES.last)
    at_grid, lift = function(grid), RULES.lift
    away = np.minimum(np.abs(at_grid - at_grid[0]), np.abs(at_grid - at_grid[-1]))
    while True:
        within = at_grid >= at_grid.max() - lift if logarithmic else away > RULES.probability / 10
        if not np.any(within):  # it is a step between two nodes
            within[np.argmax(np.abs(np.diff(at_grid)))] = True
        varies = np.flatnonzero(within)
        ends = [max(varies[0] - 1, 0), min(varies[-1] + 1, len(grid) - 1)]
        first, last = (np.searchsorted(b, grid[end] - a) for end in ends)
        count = last - first
        if count.sum() > RULES.masks:
            return np.nan
        one = np.repeat(np.arange(len(a)), count)
        other = np.arange(len(one)) - np.repeat(np.cumsum(count) - count - first, count)
        values, logs = function(a[one] + b[other]), log_a[one] + log_b[other]
        if not logarithmic:
            below = np.append(0.0, np.cumsum(np.exp(log_b)))
            outer = at_grid[0] * below[first] + at_grid[-1] * (below[-1] - below[last])
            return float(np.exp(logs) @ values + np.exp(log_a) @ outer)
        found = float(np.logaddexp.reduce(values + logs, initial=-np.inf))
        if found > at_grid[ends].max() + RULES.beyond or ends == [0, len(grid) - 1]:
            return found
        lift *= 2
