r"""Passes over the coordinates of the dual of a kinked loss, compiled by Numba; :mod:`.dual` has the mathematics.

A row has one coordinate for each of its kinks, ``β`` between the ends ``l`` and ``u``. With the score ``s``, which
moves by ``q`` times what ``β`` does, and ``r`` the root of the variance the best ``β`` is where

    t − s(β) + r ½(l + u − 2β) / √((β − l)(u − β)) = 0.

In ``β = ½(l + u) + ½(u − l) x/√(1 + x²)`` that is ``r x + h x/√(1 + x²) = a`` with ``h = ½q(u − l)``: odd, increasing
and concave above zero, so that Newton's method from below cannot miss. Without noise ``β`` is what it is without ends,
cut off at these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import unwrap
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Coordinates", "CompressedRows", "descend"]

# Newton steps for one coordinate at most, and the relative change of it that is enough.
_STEPS = 12
_ENOUGH = 1e-4
# A row that moves less than this share of the mean row is left out of a round's later passes.
_STILL = 0.3
_ONE = np.uint64(1)
_WEIGHT, _INVERSE = np.uint32(0), np.uint32(1)


class CompressedRows(NamedTuple):
    """Compressed rows: where each begins, columns and values of the entries; whether these are all 1."""

    pointers: Any
    columns: Any
    values: Any
    binary: bool


class Coordinates(NamedTuple):
    """Kinks ``t``, ends ``l`` and ``u``, and ``β`` and ``x``, which the passes change, (n, kinks) each."""

    centre: Any
    low: Any
    high: Any
    beta: Any
    place: Any


@cache
def descend() -> Callable[..., None]:
    """The loop, compiled: ``(*rows, *coordinates, root, size, pair, order, state, stiffness, passes)``.

    ``root`` and ``size`` are ``r`` and ``q`` (n,); ``pair`` (p, 2) has the weights, which it changes, and what a weight
    gains from a pull; ``order`` (n,) is shuffled; ``state`` holds the intercept and the seed.
    """
    import numba

    loop: Callable[..., None] = numba.njit(cache=True, nogil=True, boundscheck=False, fastmath={"contract", "reassoc"})(
        unwrap(_passes)
    )
    return loop


def _passes(
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
    pair: Any,
    order: Any,
    state: Any,
    stiffness: Any,
    passes: Any,
) -> None:
    """Some passes in random order, in place; the later ones over the rows that moved in the first."""
    n, kinks = beta.shape
    active, total, still = n, 0.0, -1.0
    intercept = state[0]
    seed = np.uint64(state[1]) + np.uint64(88172645463325252)
    for one in range(passes):
        if one == 1:
            still = _STILL * total / n
        j = 0
        while j < active:
            seed ^= seed << np.uint64(13)
            seed ^= seed >> np.uint64(7)
            seed ^= seed << np.uint64(17)
            other = j + np.int64(seed % np.uint64(active - j))
            i = order[other]
            order[other] = order[j]
            order[j] = i
            score = intercept
            first, last = pointers[i], pointers[i + _ONE]
            if binary:
                for e in range(first, last):
                    score += pair[columns[e], _WEIGHT]
            else:
                for e in range(first, last):
                    score += values[e] * pair[columns[e], _WEIGHT]
            q, r, change = size[i], root[i], 0.0
            for k in range(kinks):
                old, half, middle = beta[i, k], 0.5 * (high[i, k] - low[i, k]), 0.5 * (high[i, k] + low[i, k])
                a = centre[i, k] - score + q * (old - middle - change)
                if r == 0.0:
                    new = min(max(middle + a / q, low[i, k]), high[i, k])
                elif half == 0.0:
                    new = old
                else:
                    h, far = q * half, abs(a)
                    least = max(far / (r + h), (far - h) / r)
                    x = max(abs(place[i, k]), least)
                    for _ in range(_STEPS):
                        secant = 1 / sqrt(1 + x * x)
                        before = x
                        x = max(x - (r * x + h * x * secant - far) / (r + h * secant * secant * secant), least)
                        if abs(x - before) <= _ENOUGH * (1 + x):
                            break
                    if a < 0:
                        x = -x
                    new = middle + half * x / sqrt(1 + x * x)
                    place[i, k] = x
                beta[i, k] = new
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
                intercept += change * stiffness
            move = abs(change) * q
            if one == 0:
                total += move
            elif move <= still:
                active -= 1
                order[j] = order[active]
                order[active] = i
                continue
            j += 1
    state[0] = intercept
    state[1] = np.float64(seed >> np.uint64(12))
