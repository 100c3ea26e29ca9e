r"""Rows of the logistic loss from their scores to the sums over them, compiled by Numba (the extra ``fast``).

A few rows are multiplied with the weights of four chains at a time, and their slopes multiplied back while they are in
the nearest cache: the rows are read once, whatever the number of chains. Single precision is widened in the registers,
so that products and sums are in double precision and no copy is written. The loss is made of polynomials, which a
processor evaluates for several rows at once, right to 1e-15 of itself for scores that occur; a call of the mathematical
library for every score takes ten times as long. With ``k`` the integer next to ``x / log 2`` and ``r = x − k log 2``,

    e^x = 2^k e^r,        log(1 + u) = 2 artanh{u/(2 + u)} = log 2 + 2 artanh{(u − 1)/(3 + u)},

the first form of the logarithm for ``u`` up to ``√2 − 1``, the second from there to 1. Taylor's series of both are cut
where a double ends.

Shapes: ``n`` rows, ``p`` features, ``C`` chains, padded to a multiple of four.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._typing import Float, Num
from ....designs.compiled.jit import compiled

__all__ = ["filled", "logistic_rows", "logistic_sums"]

# Rows that are worked on at once, a multiple of four: with a hundred features in single precision they take 13 kB.
_ROWS = 32
_WIDTH = 4
# Added to a number, it leaves the nearest integer in the last bits of a double.
_SHIFT = 6755399441055744.0
_PER_LOG2, _LOG2_HIGH, _LOG2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
_LOG2, _TO_ROOT = 0.6931471805599453, 0.41421356237309503
# The exponential below is as good as 0, and above it all its digits are there.
_LEAST = -708.0


def _compiled() -> Any:
    """:func:`logistic_rows`; sums may be ordered as the processor likes, and several taken at once."""
    return compiled(logistic_rows, "reassoc", "contract", like_numpy=True)


def logistic_sums(
    X: Float[np.ndarray, "n p"],
    weights: Float[np.ndarray, "p C"],
    level: Float[np.ndarray, " C"],
    target: Num[np.ndarray, " n"],
    weight: Num[np.ndarray, " n"],
    offset: Num[np.ndarray, " n"] | None = None,
) -> tuple[Float[np.ndarray, "p C"], Float[np.ndarray, " C"], Float[np.ndarray, " C"]]:
    """``Xᵀr``, ``Σr`` and the costs, with the slopes ``r`` of the weighted loss, at the weights of every chain.

    ``target`` has the labels −1 and +1, ``weight`` what each row counts.
    """
    C, size = weights.shape[1], -(-weights.shape[1] // _WIDTH) * _WIDTH
    # Chains that fill up the last four are at zero, and left out again.
    rows, levels = np.zeros((size, X.shape[1])), np.zeros(size)
    rows[:C], levels[:C] = weights.T, level
    known = np.zeros(0) if offset is None else offset
    back, slope, cost = np.zeros(rows.shape), np.zeros(size), np.zeros(size)
    sides = (np.ascontiguousarray(part, dtype=np.float64) for part in (target, weight, known))
    parts = [np.ascontiguousarray(X), *sides]
    # As an argument, its length is no constant, and loops over it are not unrolled but vectorised.
    room = np.zeros((6, _ROWS))
    whole = len(X) - len(X) % _ROWS
    # What is left of the rows is filled up by rows of zeros, which count nothing.
    ends = [[filled(part[whole:], _ROWS) for part in parts]] if whole < len(X) else []
    for some in [[part[:whole] for part in parts], *ends]:
        _compiled()(some[0], rows, levels, *some[1:], room, back, slope, cost)
    return back[:C].T, slope[:C], cost[:C]


def filled(rows: Num[np.ndarray, ...], size: int) -> Num[np.ndarray, ...]:
    """Rows, and as many rows of zeros as make it a multiple of those worked on at once."""
    result = np.zeros((-(-len(rows) // size) * size, *rows.shape[1:]), dtype=rows.dtype)
    result[: len(rows)] = rows
    result.flags.writeable = rows.flags.writeable  # else it would be another type to the compiler
    return result


def logistic_rows(
    X: Float[np.ndarray, "n p"],
    weights: Float[np.ndarray, "C p"],
    level: Float[np.ndarray, " C"],
    target: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    offset: Float[np.ndarray, " offsets"],
    room: Float[np.ndarray, "six rows"],
    back: Float[np.ndarray, "C p"],
    total_slope: Float[np.ndarray, " C"],
    total_cost: Float[np.ndarray, " C"],
) -> None:
    """Add to the sums what all rows make, as many of them as are a multiple of those in ``room``, which is of zeros.

    ``offset`` is empty if there is none.
    """
    p, size = X.shape[1], room.shape[1]
    score = np.empty((weights.shape[0], size))
    y, power, known, agreement, shifted, decay = room[0], room[1], room[2], room[3], room[4], room[5]
    bits, exponent = decay.view(np.int64), shifted.view(np.int64)
    for start in range(0, X.shape[0], size):
        rows = X[start : start + size]
        y[:], power[:] = target[start : start + size], weight[start : start + size]
        if offset.shape[0] > 0:
            known[:] = offset[start : start + size]
        for k in range(0, weights.shape[0], 4):
            w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            for i in range(0, size, 2):
                one, two = rows[i], rows[i + 1]
                a0, a1, a2, a3, b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                for d in range(p):
                    a, b = np.float64(one[d]), np.float64(two[d])
                    a0 += a * w0[d]
                    a1 += a * w1[d]
                    a2 += a * w2[d]
                    a3 += a * w3[d]
                    b0 += b * w0[d]
                    b1 += b * w1[d]
                    b2 += b * w2[d]
                    b3 += b * w3[d]
                score[k, i], score[k, i + 1] = a0, b0
                score[k + 1, i], score[k + 1, i + 1] = a1, b1
                score[k + 2, i], score[k + 2, i + 1] = a2, b2
                score[k + 3, i], score[k + 3, i + 1] = a3, b3
        for k in range(weights.shape[0]):
            # Loops of few arrays each: for more of them no vectoriser checks that they lie apart.
            s, own = score[k], level[k]
            for i in range(size):
                agreement[i] = y[i] * (s[i] + own + known[i])
            for i in range(size):
                v = -abs(agreement[i])
                decay[i] = v if v > _LEAST else _LEAST
                shifted[i] = decay[i] * _PER_LOG2 + _SHIFT
            # A loop of its own: within one, sums may be ordered anew, and the shift would come off before it is on.
            for i in range(size):
                v, whole = decay[i], shifted[i] - _SHIFT
                r = (v - whole * _LOG2_HIGH) - whole * _LOG2_LOW
                tail = 1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600))))
                tail = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * tail)))
                decay[i] = 1 + r * (1 + r * (1 / 2 + r * (1 / 6 + r * tail)))
            for i in range(size):
                bits[i] += exponent[i] << 52
            slope, cost = 0.0, 0.0
            for i in range(size):
                u, t = decay[i], agreement[i]
                small = u < _TO_ROOT
                f = (u if small else u - 1) / (2 + u if small else 3 + u)
                q = f * f
                tail = 1 / 11 + q * (1 / 13 + q * (1 / 15 + q * (1 / 17 + q * (1 / 19))))
                tail = 1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * tail))))
                # A score that is NaN makes the cost so.
                cost += power[i] * ((0.0 if small else _LOG2) + 2 * f * tail + (0.0 if t > 0 else -t))
                s[i] = -power[i] * y[i] * (u if t > 0 else 1.0) / (1 + u)
                slope += s[i]
            total_slope[k] += slope
            total_cost[k] += cost
        for i in range(0, size, 4):
            x0, x1, x2, x3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
            for k in range(0, weights.shape[0], 2):
                s, t, sums, others = score[k], score[k + 1], back[k], back[k + 1]
                r0, r1, r2, r3, q0, q1, q2, q3 = s[i], s[i + 1], s[i + 2], s[i + 3], t[i], t[i + 1], t[i + 2], t[i + 3]
                for d in range(p):
                    a, b, e, f = np.float64(x0[d]), np.float64(x1[d]), np.float64(x2[d]), np.float64(x3[d])
                    sums[d] += (a * r0 + b * r1) + (e * r2 + f * r3)
                    others[d] += (a * q0 + b * q1) + (e * q2 + f * q3)
