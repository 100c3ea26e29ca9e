r"""Rows of the softmax loss from their scores to the sums over them, compiled by Numba (the extra ``fast``).

Scores count from that of the last class, so that with the basis ``B`` (K, J) of :mod:`.classes.density` a row has ``J``
of them for its contrasts ``m``, and a product with a small matrix for each pass stands in for one for each row:

    s = Tm,  T = B_{1…J} − 1B_K,    log(1 + Σ_k e^{s_k}) − s_y,    ∂/∂s_k = c(π_k − 1[y = k]),    ∂/∂m = Tᵀ ∂/∂s.

A few rows are widened to double precision, multiplied with the weights of four columns at a time, a column for each
score of each chain, and their slopes multiplied back while they are in the nearest cache: the rows are read once,
whatever the number of chains and classes. The exponential is that of :mod:`.logistic_rows`; the logarithm of a sum
``2^k f`` with ``f`` from 1 to 2 is

    log 2^k f = (k + ½) log 2 + 2 artanh{(f − √2)/(f + √2)},

whose series is cut where a double ends.

Shapes: ``n`` rows, ``p`` features, ``C`` chains, ``K`` classes, ``J = K − 1``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._typing import Float, Num
from ....designs.compiled.jit import compiled
from ..streamed.logistic_rows import filled

__all__ = ["softmax_rows", "softmax_sums"]

# Rows that are worked on at once, a multiple of four.
_ROWS = 32
_WIDTH = 4
# Added to a number, it leaves the nearest integer in the last bits of a double.
_SHIFT = 6755399441055744.0
_PER_LOG2, _LOG2_HIGH, _LOG2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
_LOG2, _HALF_LOG2, _ROOT = 0.6931471805599453, 0.34657359027997264, 1.4142135623730951
# The exponential below is as good as 0, and above it all its digits are there.
_LEAST = -708.0
# Bits of a double: those of its fraction, those of 1, and those of 2^52, which an integer below may be added to.
_FRACTION, _ONE, _INTEGER = (1 << 52) - 1, 1023 << 52, 1075 << 52
# What is to come off such a sum with the exponent as it is stored.
_BIAS = 4503599627370496.0 + 1023.0


def _compiled() -> Any:
    """:func:`softmax_rows`; sums may be ordered as the processor likes, and several taken at once."""
    return compiled(softmax_rows, "reassoc", "contract", like_numpy=True)


def softmax_sums(
    X: Float[np.ndarray, "n p"],
    weights: Float[np.ndarray, "p columns"],
    level: Float[np.ndarray, " columns"],
    basis: Float[np.ndarray, "K J"],
    target: Num[np.ndarray, " n"],
    weight: Num[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, "p columns"], Float[np.ndarray, " columns"], Float[np.ndarray, " C"]]:
    """``Xᵀr``, ``Σr`` and the costs, with the slopes ``r`` of the weighted loss in the contrasts of every chain.

    Columns are the contrasts of the first chain, then of the next; ``target`` has the numbers of the classes,
    ``weight`` what each row counts.
    """
    p, J = X.shape[1], basis.shape[1]
    C = len(level) // J
    turn = basis[:-1] - basis[-1]
    size = -(-C * J // _WIDTH) * _WIDTH
    # Columns that fill up the last four are at zero, and left out again.
    rows, levels = np.zeros((size, p)), np.zeros(size)
    rows[: C * J] = (turn @ weights.T.reshape(C, J, p)).reshape(C * J, p)
    levels[: C * J] = (level.reshape(C, J) @ turn.T).ravel()
    back, slope, cost = np.zeros((size, p)), np.zeros(size), np.zeros(C)
    parts = [np.ascontiguousarray(X), *(np.ascontiguousarray(part, dtype=np.float64) for part in (target, weight))]
    # As arguments, their lengths are no constants, and loops over them are not unrolled but vectorised.
    room, rise = np.zeros((7, _ROWS)), np.zeros((2, (J + 1) * _ROWS))
    wide, score = np.empty((_ROWS, p)), np.empty((size, _ROWS))
    whole = len(X) - len(X) % _ROWS
    # What is left of the rows is filled up by rows of zeros, which count nothing.
    ends = [[filled(part[whole:], _ROWS) for part in parts]] if whole < len(X) else []
    for some in [[part[:whole] for part in parts], *ends]:
        _compiled()(some[0], rows, levels, *some[1:], room, rise, wide, score, back, slope, cost)
    turned = np.swapaxes(back[: C * J].reshape(C, J, p), 1, 2) @ turn
    return turned.transpose(1, 0, 2).reshape(p, C * J), (slope[: C * J].reshape(C, J) @ turn).ravel(), cost


def softmax_rows(
    X: Float[np.ndarray, "n p"],
    weights: Float[np.ndarray, "size p"],
    level: Float[np.ndarray, " size"],
    target: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    room: Float[np.ndarray, "seven rows"],
    rise: Float[np.ndarray, "two K_rows"],
    wide: Float[np.ndarray, "rows p"],
    score: Float[np.ndarray, "size rows"],
    back: Float[np.ndarray, "size p"],
    total_slope: Float[np.ndarray, " size"],
    total_cost: Float[np.ndarray, " C"],
) -> None:
    """Add to the sums what all rows make, as many of them as are a multiple of those in ``wide``."""
    size, p = wide.shape
    K = rise.shape[1] // size
    y, power, top, own, total, place, inverse = room[0], room[1], room[2], room[3], room[4], room[5], room[6]
    decay, shifted = rise[0], rise[1]
    bits, exponent, raw, stored = (
        decay.view(np.int64),
        shifted.view(np.int64),
        total.view(np.int64),
        place.view(np.int64),
    )
    for start in range(0, X.shape[0], size):
        y[:], power[:] = target[start : start + size], weight[start : start + size]
        for i in range(size):
            one, two = X[start + i], wide[i]
            for d in range(X.shape[1]):
                two[d] = one[d]
        for k in range(0, weights.shape[0], 4):
            w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            for i in range(0, size, 2):
                one, two = wide[i], wide[i + 1]
                a0, a1, a2, a3, b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                for d in range(p):
                    a, b = one[d], two[d]
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
        for c in range(total_cost.shape[0]):
            first = c * (K - 1)
            # Loops of few arrays each: for more of them no vectoriser checks that they lie apart.
            top[:], own[:], total[:] = 0.0, 0.0, 0.0
            for k in range(K - 1):
                s, add = score[first + k], level[first + k]
                for i in range(size):
                    s[i] += add
                    top[i] = s[i] if s[i] > top[i] else top[i]
                for i in range(size):
                    own[i] = s[i] if y[i] == k else own[i]
            for k in range(K):
                e = decay[k * size : (k + 1) * size]
                if k < K - 1:
                    s = score[first + k]
                    for i in range(size):
                        e[i] = s[i] - top[i]
                else:
                    for i in range(size):
                        e[i] = -top[i]
            for i in range(decay.shape[0]):
                # What is not a number stays none.
                v = _LEAST if decay[i] < _LEAST else decay[i]
                decay[i] = v
                shifted[i] = v * _PER_LOG2 + _SHIFT
            # A loop of its own: within one, sums may be ordered anew, and the shift would come off before it is on.
            for i in range(decay.shape[0]):
                v, whole = decay[i], shifted[i] - _SHIFT
                r = (v - whole * _LOG2_HIGH) - whole * _LOG2_LOW
                tail = 1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600))))
                tail = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * tail)))
                decay[i] = 1 + r * (1 + r * (1 / 2 + r * (1 / 6 + r * tail)))
            for i in range(decay.shape[0]):
                bits[i] += exponent[i] << 52
            for k in range(K):
                e = decay[k * size : (k + 1) * size]
                for i in range(size):
                    total[i] += e[i]
            cost = 0.0
            for i in range(size):
                inverse[i] = power[i] / total[i]
                # Of a sum that is not a number the bits below would make one.
                top[i] += 0.0 * total[i] - own[i]
            for i in range(size):
                stored[i] = (raw[i] >> 52) + _INTEGER
            # A loop of its own, as the next but one: what is to come off would be multiplied first.
            for i in range(size):
                place[i] -= _BIAS
            for i in range(size):
                raw[i] = (raw[i] & _FRACTION) | _ONE
            for i in range(size):
                f = (total[i] - _ROOT) / (total[i] + _ROOT)
                q = f * f
                tail = 1 / 11 + q * (1 / 13 + q * (1 / 15 + q * (1 / 17 + q * (1 / 19))))
                tail = 1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * tail))))
                total[i] = 2 * f * tail + _HALF_LOG2
            for i in range(size):
                cost += power[i] * ((place[i] * _LOG2 + total[i]) + top[i])
            total_cost[c] += cost
            for k in range(K - 1):
                s, e, slope = score[first + k], decay[k * size : (k + 1) * size], 0.0
                for i in range(size):
                    s[i] = e[i] * inverse[i]
                for i in range(size):
                    s[i] -= power[i] if y[i] == k else 0.0
                    slope += s[i]
                total_slope[first + k] += slope
        for k in range(0, back.shape[0], 2):
            s, t, sums, others = score[k], score[k + 1], back[k], back[k + 1]
            for i in range(0, size, 4):
                x0, x1, x2, x3 = wide[i], wide[i + 1], wide[i + 2], wide[i + 3]
                r0, r1, r2, r3, q0, q1, q2, q3 = s[i], s[i + 1], s[i + 2], s[i + 3], t[i], t[i + 1], t[i + 2], t[i + 3]
                for d in range(p):
                    a, b, g, h = x0[d], x1[d], x2[d], x3[d]
                    sums[d] += (a * r0 + b * r1) + (g * r2 + h * r3)
                    others[d] += (a * q0 + b * q1) + (g * q2 + h * q3)
