r"""The likelihood of rows with all masks summed, by the characteristic functions of their scores.

A loss may say that ``exp{−c loss(y, s)}`` is the chance that a random threshold lies below the agreement ``u = ys``,
``P(u + ξ > 0)`` (:class:`bayesdrop.losses.protocols.Thresholded`). Summed over the masks of a row it still is such a
chance, and ``u`` a sum of independent terms, ``t_d = y w_d k(η_d) x_id`` with probability ``1 − η_d`` and 0 otherwise:

    Σ_α p(α | η) exp{−c loss} = ½ + (1/π) Σ_m (h/t_m) Im{φ(t_m) ψ(t_m)},      t_m = (m + ½) h,
    φ(t) = e^{ityb} Π_d {η_d + (1 − η_d) e^{it t_d}},      ψ(t) = E e^{itξ}

(Gil-Pelaez 1951). On the half-way nodes the sum is exact but for the chance that ``|u + ξ|`` is beyond ``2π/h``: they
turn the step into a square wave of that half-period. The nodes end where what is left of ``ψ`` is below ``e^{−24}``, or
in rows of many entries where ``φ`` is. A row costs as many products of two complex numbers as it has entries times
nodes, ``2^k`` masks or not.

The sum is right to 1e-10, which is much where a likelihood is tiny. Such a row, as a large ``C`` makes them, is summed
under the law tilted by ``e^{aU}``, ``U = u + ξ``, whose mean ``M = E e^{aU}`` is no smaller than the likelihood and not
much larger (Chernoff 1952), for the best of seven ``a`` in ``(0, c)``:

    E 1(U > 0) = M E_a{e^{−aU} 1(U > 0)} = (M h/π) Σ_m Re{φ_a(t_m) ψ_a(t_m) / (a + it_m)}

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``m`` non-zero entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Complex

from ...._typing import Float, Int, PerRow
from ....designs.compiled import jit

__all__ = ["FARTHEST", "MaskSums", "gathered", "one_of", "sum_by_numpy"]

FARTHEST = 1e5
"""How far from 0 a score may be: a sum takes as many nodes, whatever the power."""

# Logarithm of what is left out, and the least likelihood of a row that is told from zero.
_LEFT = 24.0
_LEAST = 1e-10
# Likelihoods below which a row is summed tilted, and by how much, as shares of the power.
_SMALL, _TILTS = 1e-5, (0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.95)
# Half-periods are powers of this times the shortest one.
_SHORTEST, _RATIO = 32.0, 2.0**0.25
# Nodes between two looks at what is left of φ, and entries of a row from which on that is believed: in few entries the
# phases may agree again.
_LOOK, _MANY, _VANISHED = 8, 24, 1e-23


class MaskSums:
    """Rows, and what their likelihoods are made of.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array (n, p)
        Features.
    loss : Thresholded
        The loss.
    target, power : array (n,)
        Labels −1 and +1, and ``C`` times the row weights.
    compiled : bool, optional
        Whether the loops are compiled by Numba; by default if it is installed. Without, they take ten times as long.
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
        self.target, self.loss = np.asarray(target, dtype=np.float64), loss
        self._offset = 0.0 if offset is None else np.asarray(offset, dtype=np.float64)
        self._signed = matrix.data.astype(np.float64) * np.repeat(self.target, np.diff(self.pointers))
        self.powers, self.kind = np.unique(np.asarray(power, dtype=np.float64), return_inverse=True)
        self._tail = _LEFT / min(1.0, float(self.powers.min()))
        compiles = jit.available() if compiled is None else compiled
        self._run = jit.compiled(_sum_by_rows, "contract") if compiles else sum_by_numpy
        self._tables: dict[tuple[int, float], Complex[np.ndarray, "kinds nodes"]] = {}

    def costs(
        self,
        weight: Float[np.ndarray, "C p"],
        intercept: Float[np.ndarray, " C"],
        keep: Float[np.ndarray, "C p"],
        drop: Float[np.ndarray, "C p"],
    ) -> Float[np.ndarray, "C n"]:
        """Minus the log-likelihoods of the rows, (C, n), of effective weights ``w k(η)``.

        Likelihoods are right to 1e-10, and to 1e-10 of the mean ``M`` where they are below 1e-5 and it is below 1.

        ``keep`` and ``drop`` are ``1 − η`` and ``η`` (the smaller is read).

        Raises
        ------
        ValueError
            If a score may be further than :data:`FARTHEST` from 0.
        """
        step, kept = gathered(self.indices, weight, keep, drop)
        step *= self._signed
        base = self.target * (self._offset + np.asarray(intercept, dtype=np.float64)[:, None])
        reach = _reaches(self.pointers, step, kept, base)
        if not np.all(reach <= FARTHEST):
            raise ValueError(
                f"masks: a sum over the masks of a row takes as many terms as its score may be far from 0; expected at "
                f"most {FARTHEST:.0e}, got {np.max(reach):.1e}. Divide the features by their scales and look for large "
                "offsets, or take bd.Gibbs(), which draws masks."
            )
        level, found = _levels(reach + self._tail), np.empty(base.shape)
        for number in np.unique(level):
            cells = np.ascontiguousarray(np.argwhere(level == number))
            self._sum(self.pointers, step, kept, base, cells, self.kind, int(number), 0.0, found)
        cost = -np.log(np.maximum(found, _LEAST))
        small = np.argwhere(found < _SMALL)
        if len(small):
            log_mean, tilted = self._tilted(step, kept, base, small)
            # The error is 1e-10 times the mean; above 1 the tilt was none.
            some = log_mean < 0
            cost[tuple(small[some].T)] = tilted[some]
        return cost

    def _sum(self, pointers: Any, step: Any, keep: Any, base: Any, cells: Any, kind: Any, *rest: Any) -> None:
        """Sum some cells at a level and a tilt to ``found``."""
        number, tilt, found = rest
        half_period = _SHORTEST * _RATIO**number
        self._run(pointers, step, keep, base, cells, kind, half_period, self._table(number, tilt), found)

    def _tilted(
        self,
        step: Float[np.ndarray, "C m"],
        keep: Float[np.ndarray, "C m"],
        base: Float[np.ndarray, "C n"],
        cells: Int[np.ndarray, "r 2"],
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
        """For likelihoods too small to be told by the sum itself: ``log M``, and minus their logarithms by the tilt."""
        (chain, row), size = cells.T, np.diff(self.pointers)[cells[:, 1]]
        pointers = np.append(0, np.cumsum(size))
        entry = np.repeat(self.pointers[row] - pointers[:-1], size) + np.arange(size.sum())
        step, keep = (part[np.repeat(chain, size), entry][None] for part in (step, keep))
        base, kind, found = base[chain, row][None], self.kind[row], np.full(len(cells), np.inf)
        bound, tilted = np.full((len(_TILTS), len(cells)), np.inf), []
        for j, share in enumerate(_TILTS):
            tilt = share * self.powers[kind]
            angle = np.repeat(tilt, size) * step
            largest = np.maximum(angle, 0)
            kept, lost = keep * np.exp(angle - largest), (1 - keep) * np.exp(-largest)
            grown = _reduced(pointers, np.add, largest + np.log(kept + lost))[0]
            own = self.loss.threshold_characteristic(-1j * tilt, self.powers[kind]).real
            bound[j] = grown + tilt * base[0] + np.log(own)
            tilted.append(kept / (kept + lost))
        best = np.argmin(bound, axis=0)
        for j, share in enumerate(_TILTS):
            tail = _LEFT / np.minimum(1 + share * self.powers, (1 - share) * self.powers).min()
            least = 2 * _LEFT / (share * self.powers.min())
            level = _levels(np.maximum(2 * (_reaches(pointers, step, tilted[j], base) + tail), least))[0]
            for number in np.unique(level[best == j]):
                some, total = np.flatnonzero((best == j) & (level == number)), np.empty(base.shape)
                where = np.stack([np.zeros_like(some), some], axis=1)
                self._sum(pointers, step, tilted[j], base, where, kind, int(number), share, total)
                # The sum begins at a half, which is the square wave's mean.
                found[some] = -bound[j, some] - np.log(np.maximum(total[0, some] - 0.5, _LEAST))
        return bound.min(axis=0), found

    def _table(self, level: int, tilt: float) -> Complex[np.ndarray, "kinds nodes"]:
        """``(h/π) iψ(t − ia)/{(a + it) ψ(−ia)}`` at the nodes of a level, for each power; ``a`` is tilt times it."""
        if (level, tilt) not in self._tables:
            step, turn = 2 * np.pi / (_SHORTEST * _RATIO**level), self.powers[:, None]
            characteristic, a = self.loss.threshold_characteristic, tilt * turn
            count, left = 64, np.ones(1)
            while left[-1] > np.exp(-_LEFT):
                count *= 2
                t = (np.arange(count) + 0.5)[None] * step
                table = characteristic(t - 1j * a, turn) / characteristic(-1j * a, turn) * 1j / (a + 1j * t)
                table *= step / np.pi
                left = np.abs(table).max(axis=0)
            self._tables[level, tilt] = np.ascontiguousarray(table[:, : 1 + np.flatnonzero(left > np.exp(-_LEFT))[-1]])
        return self._tables[level, tilt]


def _reaches(
    pointers: Int[np.ndarray, " n1"],
    step: Float[np.ndarray, "C m"],
    keep: Float[np.ndarray, "C m"],
    base: Float[np.ndarray, "C n"],
) -> Float[np.ndarray, "C n"]:
    """How far from 0 the agreement of each row may be, but for what is left out."""
    mean, high = (_reduced(pointers, np.add, part) for part in (step * keep, np.maximum(step, 0)))
    low = _reduced(pointers, np.add, np.minimum(step, 0))
    size = np.abs(step)
    largest = _reduced(pointers, np.maximum, size)
    size *= size
    square = _reduced(pointers, np.add, size)
    size *= keep * (1 - keep)
    # Bernstein (1924) and Hoeffding (1963); no score is beyond the sum of all its terms.
    reach = np.sqrt(2 * _LEFT * _reduced(pointers, np.add, size)) + _LEFT * largest / 3
    reach = np.minimum(reach, np.sqrt(0.5 * _LEFT * square))
    high, low = np.minimum(mean + reach, high) + base, np.maximum(mean - reach, low) + base
    return np.maximum(np.abs(high), np.abs(low))


def _levels(length: Float[np.ndarray, "C n"]) -> Int[np.ndarray, "C n"]:
    """Half-periods as powers of the ratio."""
    return np.maximum(np.ceil(np.log(length / _SHORTEST) / np.log(_RATIO)), 0).astype(np.int64)


def _reduced(pointers: Int[np.ndarray, " n1"], how: Any, entries: Float[np.ndarray, "C m"]) -> Float[np.ndarray, "C n"]:
    """One number a row, 0 for empty ones."""
    some = np.flatnonzero(np.diff(pointers))
    found = np.zeros((len(entries), len(pointers) - 1))
    if len(some):
        found[:, some] = how.reduceat(entries, pointers[some], axis=1)
    return found


def gathered(
    indices: Int[np.ndarray, " m"], weight: Any, keep: Any, drop: Any
) -> tuple[Float[np.ndarray, "C m"], Float[np.ndarray, "C m"]]:
    """Weights and chances of being kept of the features (C, p) at each entry, in double precision."""
    weight = np.take(np.asarray(weight, dtype=np.float64), indices, axis=1)
    return weight, np.take(one_of(keep, drop), indices, axis=1)


def one_of(keep: Any, drop: Any) -> Float[np.ndarray, "C p"]:
    """The first of two chances that add up to 1, in double precision; the smaller of the two has the digits."""
    keep, drop = (np.asarray(part, dtype=np.float64) for part in (keep, drop))
    return np.where(keep < drop, keep, 1 - drop)


def sum_by_numpy(
    pointers: Int[np.ndarray, " n1"],
    step: Float[np.ndarray, "C m"],
    keep: Float[np.ndarray, "C m"],
    base: Float[np.ndarray, "C n"],
    cells: Int[np.ndarray, "r 2"],
    kind: Int[np.ndarray, " n"],
    half_period: float,
    table: Complex[np.ndarray, "kinds nodes"],
    found: Float[np.ndarray, "C n"],
) -> None:
    """Write the likelihoods of some rows of some chains to ``found``.

    Parameters
    ----------
    pointers, step, keep
        Where rows begin, and the terms of each and their chances.
    base, kind : array (C, n), (n,)
        Constant parts of the agreements, and the line of the table of each row.
    cells : int array (r, 2)
        Which chains and rows.
    half_period, table
        Of the square wave, ``2π/h``; and what the nodes count for.
    """
    h, (chain, row) = 2 * np.pi / half_period, cells.T
    size = np.diff(pointers)[row]
    begin, some = np.append(0, np.cumsum(size))[:-1], np.flatnonzero(size)
    entry = np.repeat(pointers[row] - begin, size) + np.arange(size.sum())
    which = np.repeat(chain, size), entry
    kept, angle = keep[which], h * step[which]
    turn, term = np.exp(1j * angle), kept * np.exp(0.5j * angle)
    total = np.full(len(cells), 0.5)
    for m in range(table.shape[1]):
        value = np.exp(1j * (m + 0.5) * h * base[chain, row])
        if len(some):
            value[some] *= np.multiply.reduceat(1 - kept + term, begin[some])
        total += (value * table[kind[row], m]).imag
        term *= turn
    found[chain, row] = total


def _sum_by_rows(
    pointers: Int[np.ndarray, " n1"],
    step: Float[np.ndarray, "C m"],
    keep: Float[np.ndarray, "C m"],
    base: Float[np.ndarray, "C n"],
    cells: Int[np.ndarray, "r 2"],
    kind: Int[np.ndarray, " n"],
    half_period: float,
    table: Complex[np.ndarray, "kinds nodes"],
    found: Float[np.ndarray, "C n"],
) -> None:
    """The same, row by row, with an end of the nodes where ``φ`` has vanished.

    A term is turned from node to node; the factors of a node are multiplied in halves, whose loops have no order.
    """
    h = 2 * np.pi / half_period
    longest = 1
    for i in range(pointers.shape[0] - 1):
        longest = max(longest, pointers[i + 1] - pointers[i])
    turn_real, turn_imag = np.empty(longest), np.empty(longest)
    term_real, term_imag = np.empty(longest), np.empty(longest)
    real, imag, lost = np.empty(longest), np.empty(longest), np.empty(longest)
    for cell in range(cells.shape[0]):
        chain, i = cells[cell, 0], cells[cell, 1]
        first, count = pointers[i], pointers[i + 1] - pointers[i]
        for j in range(count):
            angle, kept = h * step[chain, first + j], keep[chain, first + j]
            a, b = np.cos(0.5 * angle), np.sin(0.5 * angle)
            turn_real[j], turn_imag[j] = a * a - b * b, 2 * a * b
            term_real[j], term_imag[j], lost[j] = kept * a, kept * b, 1 - kept
        angle = h * base[chain, i]
        base_real, base_imag = np.cos(0.5 * angle), np.sin(0.5 * angle)
        turn_base_real, turn_base_imag = np.cos(angle), np.sin(angle)
        total, largest = 0.5, 0.0
        for m in range(table.shape[1]):
            for j in range(count):
                a, b, c, d = term_real[j], term_imag[j], turn_real[j], turn_imag[j]
                real[j] = lost[j] + a
                imag[j] = b
                term_real[j] = a * c - b * d
                term_imag[j] = a * d + b * c
            size = count
            while size > 1:
                half = size // 2
                rest = size - half
                for j in range(half):
                    a, b, c, d = real[j], imag[j], real[rest + j], imag[rest + j]
                    real[j] = a * c - b * d
                    imag[j] = a * d + b * c
                size = rest
            a, b = (real[0], imag[0]) if count > 0 else (1.0, 0.0)
            c, d = base_real, base_imag
            weight = table[kind[i], m]
            total += (a * c - b * d) * weight.imag + (a * d + b * c) * weight.real
            base_real = c * turn_base_real - d * turn_base_imag
            base_imag = c * turn_base_imag + d * turn_base_real
            largest = max(largest, (a * a + b * b) * (weight.real * weight.real + weight.imag * weight.imag))
            if (m + 1) % _LOOK == 0:
                if count >= _MANY and largest < _VANISHED:
                    break
                largest = 0.0
        found[chain, i] = total
