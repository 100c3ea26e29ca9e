"""Compiled passes over the coordinates of the dual, for one problem and for eight; see :mod:`.coordinate_loop`.

Imported only where Numba is (the extra ``fast``).
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from ...designs.compiled.jit import compiled
from ...designs.compiled.lanes import LANES, add_to_eight, add_to_eight_ones, eight_sums, eight_sums_of_ones

__all__ = ["alone", "together"]

# Newton steps for one coordinate at most, and the relative change of it that is enough.
_STEPS = 12
_ENOUGH = 1e-4
# A row that moves less than this share of the mean row is left out of a round's later passes.
_STILL = 0.3
_ONE = np.uint64(1)
_WEIGHT, _INVERSE = np.uint32(0), np.uint32(1)


def _best(a: Any, q: Any, r: Any, low: Any, high: Any, start: Any) -> Any:
    """``β`` where ``r x + h x/√(1 + x²) = a``, and that ``x``, from a ``start`` of it."""
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    if r == 0.0:
        return min(max(middle + a / q, low), high), start
    if half == 0.0:
        return middle, start
    h, far = q * half, abs(a)
    least = max(far / (r + h), (far - h) / r)
    x = max(abs(start), least)
    for _ in range(_STEPS):
        secant = 1 / sqrt(1 + x * x)
        before = x
        x = max(x - (r * x + h * x * secant - far) / (r + h * secant * secant * secant), least)
        if abs(x - before) <= _ENOUGH * (1 + x):
            break
    if a < 0:
        x = -x
    return middle + half * x / sqrt(1 + x * x), x


best = compiled(_best, "contract", "reassoc")


def _next_seed(seed: Any) -> Any:
    """The next number of a shift-register generator (Marsaglia 2003)."""
    seed ^= seed << np.uint64(13)
    seed ^= seed >> np.uint64(7)
    return seed ^ (seed << np.uint64(17))


next_seed = compiled(_next_seed, "contract", "reassoc")


def _bring(order: Any, j: Any, active: Any, neighbours: Any, seed: Any) -> None:
    """Put neighbours that are drawn from the active rows at the place ``j``."""
    other = j + neighbours * np.int64(seed % np.uint64((active - j) // neighbours))
    for m in range(neighbours):
        order[j + m], order[other + m] = order[other + m], order[j + m]


bring = compiled(_bring, "contract", "reassoc")


def _alone(
    pointers: Any,
    columns: Any,
    values: Any,
    binary: Any,
    centre: Any,
    low: Any,
    high: Any,
    beta: Any,
    place: Any,
    root: Any,
    size: Any,
    stiffness: Any,
    intercept: Any,
    seeds: Any,
    pair: Any,
    order: Any,
    passes: Any,
    neighbours: Any,
    one: Any,
    width: Any,
) -> None:
    """Passes of one problem."""
    n, kinks, _ = beta.shape
    active, total, still = n, 0.0, -1.0
    bias, stiff, seed = intercept[one], stiffness[one], seeds[one]
    for turn in range(passes):
        if turn == 1:
            still = _STILL * total / n
        j = 0
        while j < active:
            if j % neighbours == 0 and active - j >= neighbours:
                seed = next_seed(seed)
                bring(order, j, active, neighbours, seed)
            i = order[j]
            score = bias
            first, last = pointers[i], pointers[i + _ONE]
            if binary:
                for e in range(first, last):
                    score += pair[columns[e], _WEIGHT]
            else:
                for e in range(first, last):
                    score += values[e] * pair[columns[e], _WEIGHT]
            q, change = size[i, one] + stiff, 0.0
            for k in range(kinks):
                least, most, old = low[i, k, one], high[i, k, one], beta[i, k, one]
                a = centre[i, k, one] - score + q * (old - 0.5 * (least + most) - change)
                new, place[i, k, one] = best(a, q, root[i, one], least, most, place[i, k, one])
                beta[i, k, one] = new
                change += new - old
            if change != 0.0:
                if binary:
                    for e in range(first, last):
                        d = columns[e]
                        pair[d, _WEIGHT] += change * pair[d, _INVERSE]
                else:
                    for e in range(first, last):
                        d = columns[e]
                        pair[d, _WEIGHT] += change * values[e] * pair[d, _INVERSE]
                bias += change * stiff
            move = abs(change) * q
            if turn == 0:
                total += move
            elif move <= still:
                active -= 1
                order[j] = order[active]
                order[active] = i
                continue
            j += 1
    intercept[one], seeds[one] = bias, (seed >> np.uint64(12)) + np.uint64(88172645463325252)


alone = compiled(_alone, "contract", "reassoc")


def _together(
    pointers: Any,
    columns: Any,
    values: Any,
    binary: Any,
    centre: Any,
    low: Any,
    high: Any,
    beta: Any,
    place: Any,
    root: Any,
    size: Any,
    stiffness: Any,
    intercept: Any,
    seeds: Any,
    pair: Any,
    order: Any,
    passes: Any,
    neighbours: Any,
    one: Any,
    width: Any,
) -> None:
    """Passes of up to eight problems, from ``one`` on: an entry is read once for all of them.

    ``pair`` has their weights side by side, and then what these gain; of lanes without a problem both are zero.
    """
    n, kinks, _ = beta.shape
    active = n
    total, still, change, score = np.zeros(LANES), np.full(LANES, -1.0), np.zeros(LANES), np.zeros(LANES)
    bias = np.zeros(LANES)
    bias[:width] = intercept[one : one + width]
    seed = seeds[one]
    for turn in range(passes):
        if turn == 1:
            still[:] = _STILL * total / n
        j = 0
        while j < active:
            if j % neighbours == 0 and active - j >= neighbours:
                seed = next_seed(seed)
                bring(order, j, active, neighbours, seed)
            i = order[j]
            first, last = pointers[i], pointers[i + _ONE]
            if binary:
                eight_sums_of_ones(pair, columns, values, first, last, 2 * LANES, False, False, score)
            else:
                eight_sums(pair, columns, values, first, last, 2 * LANES, False, False, score)
            moved, far = False, False
            for lane in range(width):
                p = one + lane
                q, by = size[i, p] + stiffness[p], 0.0
                for k in range(kinks):
                    least, most, old = low[i, k, p], high[i, k, p], beta[i, k, p]
                    pull = centre[i, k, p] - bias[lane] - score[lane] + q * (old - 0.5 * (least + most) - by)
                    new, place[i, k, p] = best(pull, q, root[i, p], least, most, place[i, k, p])
                    beta[i, k, p] = new
                    by += new - old
                change[lane] = by
                moved |= by != 0.0
                bias[lane] += by * stiffness[p]
                if turn == 0:
                    total[lane] += abs(by) * q
                far |= abs(by) * q > still[lane]
            if moved:
                if binary:
                    add_to_eight_ones(pair, columns, values, first, last, change)
                else:
                    add_to_eight(pair, columns, values, first, last, change)
            if not far:
                active -= 1
                order[j] = order[active]
                order[active] = i
                continue
            j += 1
    intercept[one : one + width] = bias[:width]
    seeds[one] = (seed >> np.uint64(12)) + np.uint64(88172645463325252)


together = compiled(_together, "contract", "reassoc")
