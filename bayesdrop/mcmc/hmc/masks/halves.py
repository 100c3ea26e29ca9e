r"""The likelihood of short rows with all masks summed, for losses with kinks.

A kink leaves terms that fall as ``1/t²``: to know a sum to 1e-8, :mod:`.masks.sums` would need 10⁸ nodes, and smoothing
the kink bounds the error no better where a rate is near 0 and the score has few values that count. What a piecewise
linear loss has instead (:class:`bayesdrop.losses.protocols.PiecewiseLinear`) is a likelihood that is an exponential on
either side of an interval,

    exp{−c loss(y, s)} = e^{−r(l − s)}  for s < l,      1  for l ≤ s ≤ h,      e^{−f(s − h)}  for s > h,

and a score that is the sum ``s = b + a + a'`` of what two halves of the row contribute, independently. The ``2^{k/2}``
values of either half are brought into order, and for each ``a`` the sum over all ``a'`` is three partial sums at places
that move one way as ``a`` rises:

    Σ_{s < l} p(a') e^{−r(l − s)},      Σ_{l ≤ s ≤ h} p(a'),      Σ_{s > h} p(a') e^{−f(s − h)}

(meet in the middle; Horowitz & Sahni 1974). All terms are positive and no exponent is, so that likelihoods are known to
the last few digits of double precision, however small they are, by ``2^{k/2}`` operations in place of ``2^k``.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``m`` non-zero entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._typing import Float, Int, PerRow
from ....designs.compiled import jit
from .sums import gathered, one_of

__all__ = ["LONGEST", "MaskHalves", "halves_by_numpy"]

LONGEST = 24
"""Entries of a row, at most: 2¹² values of either half, which take a third of a millisecond."""

_LEAST = 1e-300


class MaskHalves:
    """Rows, and what their likelihoods are made of.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array (n, p)
        Features, no more than :data:`LONGEST` in a row.
    loss : PiecewiseLinear
        The loss.
    target, power : array (n,)
        Labels −1 and +1 or numbers, and ``C`` times the row weights.
    compiled : bool, optional
        Whether the loops are compiled by Numba; by default if it is installed.
    offset : array (n,), optional
        Known part of every row's score.
    """

    def __init__(
        self,
        matrix: Any,
        loss: Any,
        target: PerRow,
        power: PerRow,
        compiled: bool | None = None,
        offset: PerRow | None = None,
    ) -> None:
        self.pointers, self.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        self._data = matrix.data.astype(np.float64)
        linear = loss.interval(np.asarray(target, dtype=np.float64), np.asarray(power, dtype=np.float64))
        self._pieces = np.ascontiguousarray(
            np.stack([linear.centre - linear.width, linear.centre + linear.width, linear.high, -linear.low], axis=1)
        )
        self._offset = 0.0 if offset is None else np.asarray(offset, dtype=np.float64)
        compiles = jit.available() if compiled is None else compiled
        self._run = jit.compiled(_sum_by_halves) if compiles else halves_by_numpy

    def costs(
        self,
        weight: Float[np.ndarray, "C p"],
        intercept: Float[np.ndarray, " C"],
        keep: Float[np.ndarray, "C p"],
        drop: Float[np.ndarray, "C p"],
    ) -> Float[np.ndarray, "C n"]:
        """Minus the log-likelihoods of the rows, (C, n), of effective weights ``w k(η)``.

        ``keep`` and ``drop`` are ``1 − η`` and ``η`` (the smaller is read). A likelihood below 1e-300 counts as that.
        """
        weight, kept = gathered(self.indices, weight, keep, drop)
        base = np.zeros(len(self._pieces)) + self._offset + np.asarray(intercept, dtype=np.float64)[:, None]
        found = np.empty(base.shape)
        # Where only masks that drop a feature are likely, what is left of 1 − kept would not do.
        lost = np.take(one_of(drop, keep), self.indices, axis=1)
        self._run(self.pointers, weight * self._data[None], kept, lost, base, self._pieces, found)
        return -np.log(np.maximum(found, _LEAST))


def halves_by_numpy(
    pointers: Int[np.ndarray, " n1"],
    step: Float[np.ndarray, "C m"],
    keep: Float[np.ndarray, "C m"],
    drop: Float[np.ndarray, "C m"],
    base: Float[np.ndarray, "C n"],
    pieces: Float[np.ndarray, "n 4"],
    found: Float[np.ndarray, "C n"],
) -> None:
    """Write the likelihoods of all rows to ``found``.

    Parameters
    ----------
    pointers, step, keep, drop
        Where rows begin, and the terms of each and their chances.
    base : array (C, n)
        Constant parts of the scores.
    pieces : array (n, 4)
        ``l``, ``h``, ``r`` and ``f``.
    """
    for i, (low, high, rise, fall) in enumerate(pieces):
        first, last = pointers[i], pointers[i + 1]
        middle = (first + last) // 2
        for c in range(len(base)):
            a, log_a = _values(*(part[c, first:middle] for part in (step, keep, drop)))
            b, log_b = _values(*(part[c, middle:last] for part in (step, keep, drop)))
            order = np.argsort(b)
            b, log_b, nothing = b[order], log_b[order], np.array([-np.inf])
            below = np.append(nothing, np.logaddexp.accumulate(log_b + rise * b))
            among = np.append(0.0, np.cumsum(np.exp(log_b)))
            above = np.append(np.logaddexp.accumulate((log_b - fall * b)[::-1])[::-1], nothing)
            here = base[c, i] + a
            one, other = np.searchsorted(b, low - here), np.searchsorted(b, high - here, side="right")
            left, right = below[one] - rise * (low - here), above[other] - fall * (here - high)
            found[c, i] = np.sum(np.exp(log_a) * (np.exp(left) + np.exp(right) + (among[other] - among[one])))


def _values(
    step: Float[np.ndarray, " k"], keep: Float[np.ndarray, " k"], drop: Float[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, " masks"], Float[np.ndarray, " masks"]]:
    """What the masks of some entries contribute, and the logarithms of their chances."""
    value, log_chance = np.zeros(1), np.zeros(1)
    with np.errstate(divide="ignore"):
        for t, kept, lost in zip(step, keep, drop, strict=True):
            value = np.append(value, value + t)
            log_chance = np.append(log_chance + np.log(lost), log_chance + np.log(kept))
    return value, log_chance


def _sum_by_halves(
    pointers: Int[np.ndarray, " n1"],
    step: Float[np.ndarray, "C m"],
    keep: Float[np.ndarray, "C m"],
    drop: Float[np.ndarray, "C m"],
    base: Float[np.ndarray, "C n"],
    pieces: Float[np.ndarray, "n 4"],
    found: Float[np.ndarray, "C n"],
) -> None:
    """The same; values are kept in order by merging, and partial sums are relative to their last term."""
    longest = 0
    for i in range(pointers.shape[0] - 1):
        longest = max(longest, pointers[i + 1] - pointers[i])
    most = 1 << ((longest + 1) // 2)
    value, chance = np.empty((2, most)), np.empty((2, most))
    old_value, old_chance = np.empty(most), np.empty(most)
    below, among, above = np.empty(most), np.empty(most + 1), np.empty(most)
    size = np.empty(2, np.int64)
    for i in range(pointers.shape[0] - 1):
        low, high, rise, fall = pieces[i, 0], pieces[i, 1], pieces[i, 2], pieces[i, 3]
        first, last = pointers[i], pointers[i + 1]
        middle = (first + last) // 2
        for c in range(base.shape[0]):
            for half in range(2):
                value[half, 0], chance[half, 0], count = 0.0, 1.0, 1
                for entry in range(first if half == 0 else middle, middle if half == 0 else last):
                    t, kept, lost = step[c, entry], keep[c, entry], drop[c, entry]
                    for j in range(count):
                        old_value[j], old_chance[j] = value[half, j], chance[half, j]
                    dropped, moved = 0, 0
                    for j in range(2 * count):
                        if moved == count or (dropped < count and old_value[dropped] <= old_value[moved] + t):
                            value[half, j], chance[half, j] = old_value[dropped], old_chance[dropped] * lost
                            dropped += 1
                        else:
                            value[half, j], chance[half, j] = old_value[moved] + t, old_chance[moved] * kept
                            moved += 1
                    count *= 2
                size[half] = count
            b, many = value[1], size[1]
            among[0] = 0.0
            for j in range(many):
                among[j + 1] = among[j] + chance[1, j]
                below[j] = chance[1, j]
                if j > 0:
                    below[j] += below[j - 1] * np.exp(-rise * (b[j] - b[j - 1]))
            for j in range(many - 1, -1, -1):
                above[j] = chance[1, j]
                if j < many - 1:
                    above[j] += above[j + 1] * np.exp(-fall * (b[j + 1] - b[j]))
            one, other, total = many, many, 0.0
            for j in range(size[0]):
                here = base[c, i] + value[0, j]
                while one > 0 and here + b[one - 1] >= low:
                    one -= 1
                while other > 0 and here + b[other - 1] > high:
                    other -= 1
                part = among[other] - among[one]
                if one > 0:
                    part += below[one - 1] * np.exp(-rise * (low - here - b[one - 1]))
                if other < many:
                    part += above[other] * np.exp(-fall * (here + b[other] - high))
                total += chance[0, j] * part
            found[c, i] = total
