r"""Expectations over the law of a noised score, from its characteristic function.

    E f(s) = Σ_m F_m φ(2πm/P) e^{−2πi m x₀/P},      φ(t) = E e^{its},

where ``F_m`` are the Fourier coefficients of ``f``, continued from a window that holds the score to a function of
period ``P`` (a third longer, the ends joined by a polynomial with three continuous derivatives). The characteristic
function of a sum of independent terms is a product, so that the cost grows with the number of noised entries and not
with that of their masks, ``2^k``. With ``K`` nodes, and coefficients of both signs of ``m`` counted, the error is taken
to be

    2 max(Σ_{m > K/4} |F_m φ_m|, 2A/K mean |φ|)
                                            for the terms beyond K/2, which are missing: as many as in the last octave,
                                            or A/m² times the mean of |φ|, with A the largest |F_m| m² of that octave
    + ½ max_{m > 3K/8} |F_m| Σ_m |φ_m|      for their coefficients, folded back to K − m, if they fall as 1/m² at least
    + Σ_m |F_m| |φ_m − φ̂_m|                for an approximate φ̂, by its bound
    + 2 e^{−L} max |f|                      for scores outside the window (Kearns & Saul 1998; Bernstein 1924)

and ``K`` is doubled until it is small enough. Where ``f`` is smooth it falls exponentially in ``K``, at a kink as
``1/K``, in both cases times ``|φ|``, which falls by itself where many entries are noised.

Shapes: ``N`` scores, ``k`` noised entries of each, ``M`` frequencies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Complex
from scipy.special import expit

from ..._typing import Bool, Float, Int, Shaped
from ..draws.draws import blocks
from .enumeration import log_chances

__all__ = ["SERIES", "Exact", "Law", "NearNormal", "TwoPoint", "integrate", "saddle_tilt"]


@dataclass(frozen=True)
class Series:
    """Sizes of the sums.

    Attributes
    ----------
    first, last : int
        Nodes at first and at last.
    narrow, wide : float
        The score leaves its window on either side with probability exp(−14) = 8e-7 at first, and exp(−46) = 1e-20 at
        last.
    steepest, least_spread : float
        Steepest logarithm of a function that a law is tilted for, and the least spread that is not taken as 0.
    cache : int
        Complex numbers that a cache holds with two more arrays of them.
    entries, halved : int
        Entries up to which masks are enumerated after all where the series does not converge, and by halves.
    """

    first: int = 32
    last: int = 4096
    narrow: float = 14.0
    wide: float = 46.0
    steepest: float = 1e100
    least_spread: float = 1e-100
    cache: int = 1 << 14
    entries: int = 20
    halved: int = 24


SERIES = Series()


class Law:
    """Law of each of ``N`` scores, a dataclass whose fields are arrays over the scores, but for a few.

    ``low`` and ``high`` are the ends of the windows (N,), and ``outside`` bounds the probability outside of one.
    """

    low: Float[np.ndarray, " N"]
    high: Float[np.ndarray, " N"]
    outside: float
    characteristic: Callable[..., Any]

    def take(self, some: Shaped[np.ndarray, " r"]) -> Any:
        """The laws of some of the scores."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{name: v[some] if isinstance(v, np.ndarray) else v for name, v in values.items()})


@dataclass(frozen=True)
class NearNormal(Law):
    """A law by its first four cumulants and a bound of the rest, as :class:`bayesdrop.noise.Expansion` has them.

    Attributes
    ----------
    mean, var, third, fourth : array (N,)
        Cumulants.
    remainder : array (N,)
        Coefficient of ``|t|⁵`` in the bound of what follows; 0 for a normal law.
    low, high : array (N,)
        Window.
    """

    mean: Float[np.ndarray, " N"]
    var: Float[np.ndarray, " N"]
    third: Float[np.ndarray, " N"]
    fourth: Float[np.ndarray, " N"]
    remainder: Float[np.ndarray, " N"]
    low: Float[np.ndarray, " N"]
    high: Float[np.ndarray, " N"]
    outside: float = 2 * np.exp(-SERIES.narrow)

    @classmethod
    def of(
        cls,
        cumulants: tuple[Float[np.ndarray, " N"], ...],
        proxy: Float[np.ndarray, " N"],
        jump: Float[np.ndarray, " N"],
    ) -> NearNormal:
        """The law with a window from its tails: see :class:`bayesdrop.noise.Expansion`."""
        reach = np.sqrt(2 * SERIES.narrow * proxy) + SERIES.narrow * jump
        mean, var, third, fourth, remainder = cumulants
        return cls(mean, var, third, fourth, remainder, mean - reach, mean + reach)

    def characteristic(
        self, step: Float[np.ndarray, " N"], origin: Float[np.ndarray, " N"], count: int
    ) -> tuple[Complex[np.ndarray, "N M"], Float[np.ndarray, "N M"] | None]:
        """``E exp{i m step (s − origin)}`` for ``m`` below ``count``, (N, M), and a bound of its error, or None."""
        t = step[:, None] * np.arange(count)
        square = t * t
        size = square * (square * (self.fourth / 24)[:, None] - 0.5 * self.var[:, None])
        phase = t * ((self.mean - origin)[:, None] - square * (self.third / 6)[:, None])
        # Where the series makes it greater than 1 no bound but the trivial one is left.
        beyond, height = size > 0, np.exp(np.minimum(size, 0.0))
        value = height * (np.cos(phase) + 1j * np.sin(phase))
        if not np.any(self.remainder):
            return value, None
        rest = height * np.expm1(np.minimum(square * square * t * self.remainder[:, None], 50.0))
        return value, np.where(beyond, 2.0, np.minimum(rest, 1 + height))


@dataclass(frozen=True)
class TwoPoint(Law):
    """``base`` plus independent entries, each ``step`` with probability ``kept`` and 0 otherwise.

    The law may be tilted, its density multiplied by ``e^{θs}`` and normalised, to put the mass where a function that
    is small at most scores has its expectation: ``E f(s) = E e^{θs} · E_θ f(s) e^{−θs}``.

    Attributes
    ----------
    base, tilt, log_norm : array (N,)
        Part of the score that is never dropped, ``θ`` and ``log E e^{θs}``.
    step, kept : array (N, k)
        The entries and their probabilities.
    low, high : array (N,)
        Window.
    """

    base: Float[np.ndarray, " N"]
    tilt: Float[np.ndarray, " N"]
    log_norm: Float[np.ndarray, " N"]
    step: Float[np.ndarray, "N k"]
    kept: Float[np.ndarray, "N k"]
    low: Float[np.ndarray, " N"]
    high: Float[np.ndarray, " N"]
    outside: float

    @classmethod
    def of(
        cls,
        base: Float[np.ndarray, " N"],
        step: Float[np.ndarray, "N k"],
        rate: Float[np.ndarray, "N k"],
        tilt: Float[np.ndarray, " N"],
        wide: bool = False,
    ) -> TwoPoint:
        """The law tilted by ``θ``, with the smallest of three windows: all scores, Hoeffding's and Bernstein's."""
        level = SERIES.wide if wide else SERIES.narrow
        keep, drop = log_chances(rate)
        raised = keep + tilt[:, None] * step
        either = np.logaddexp(drop, raised)
        kept = np.exp(raised - either)
        odds = raised - drop
        even = np.abs(odds) < 1e-4
        proxy = np.where(even, 0.25, (2 * kept - 1) / np.where(even, 1.0, 2 * odds))
        mean, square = base + (step * kept).sum(axis=1), step * step
        var = (square * kept * (1 - kept)).sum(axis=1)
        reach = np.minimum(
            np.sqrt(2 * level * (square * proxy).sum(axis=1)),
            np.sqrt(2 * level * var) + np.abs(step).max(axis=1) * level / 3,
        )
        low = np.maximum(mean - reach, base + np.minimum(step, 0.0).sum(axis=1))
        high = np.minimum(mean + reach, base + np.maximum(step, 0.0).sum(axis=1))
        return cls(base, tilt, tilt * base + either.sum(axis=1), step, kept, low, high, 2 * float(np.exp(-level)))

    def characteristic(
        self, step: Float[np.ndarray, " N"], origin: Float[np.ndarray, " N"], count: int
    ) -> tuple[Complex[np.ndarray, "N M"], Float[np.ndarray, "N M"] | None]:
        """``E exp{i m step (s − origin)}`` for ``m`` below ``count``, (N, M), and a bound of its error, or None."""
        value = np.ones((len(step), count), dtype=complex)
        # Entries first and scores last, a cache's worth of them: three times as fast as all at once.
        for some in blocks(len(step), self.step.shape[1], SERIES.cache):
            angle = self.step[some].T * step[some]
            turn = np.cos(angle) + 1j * np.sin(angle)
            keep = np.ascontiguousarray(self.kept[some].T)
            drop, term = 1 - keep, keep * turn
            factor = np.empty_like(term)
            for m in range(1, count):
                np.add(term, drop, out=factor)
                value[some, m] = np.multiply.reduce(factor, axis=0)
                term *= turn
        value *= np.exp(1j * (step * (self.base - origin))[:, None] * np.arange(count))
        return value, None


@dataclass(frozen=True)
class Exact(Law):
    """A law by the logarithms of the characteristic functions of its entries.

    Attributes
    ----------
    base, low, high : array (N,)
        Part of the score without noise, and window.
    weight, entry : array (N, k)
        Weights of the entries and their values.
    log_characteristic : callable
        Of a noise, ``(it, x, rate)`` to ``log E exp(itx̃)``; it has no rates.
    """

    base: Float[np.ndarray, " N"]
    weight: Float[np.ndarray, "N k"]
    entry: Float[np.ndarray, "N k"]
    low: Float[np.ndarray, " N"]
    high: Float[np.ndarray, " N"]
    log_characteristic: Callable[..., Complex[np.ndarray, "N k"]]
    outside: float = 2 * np.exp(-SERIES.narrow)

    def characteristic(
        self, step: Float[np.ndarray, " N"], origin: Float[np.ndarray, " N"], count: int
    ) -> tuple[Complex[np.ndarray, "N M"], Float[np.ndarray, "N M"] | None]:
        """``E exp{i m step (s − origin)}`` for ``m`` below ``count``, (N, M), and a bound of its error, or None."""
        value = np.ones((len(step), count), dtype=complex)
        rate = np.zeros_like(self.entry)
        for m in range(1, count):
            t = 1j * m * step
            logs = self.log_characteristic(t[:, None] * self.weight, self.entry, rate)
            value[:, m] = np.exp(t * (self.base - origin) + logs.sum(axis=1))
        return value, None


def saddle_tilt(
    slope: Callable[[Int[np.ndarray, " r"], Float[np.ndarray, " r"]], Float[np.ndarray, " r"]],
    base: Float[np.ndarray, " N"],
    step: Float[np.ndarray, "N k"],
    rate: Float[np.ndarray, "N k"],
) -> Float[np.ndarray, " N"]:
    """Tilts under which the law of a score has its mean where a log-concave function times it has its mass.

    ``θ = (log f)'(E_θ s)``: the left side rises and the right side falls, so that either lies between the root and the
    other; halved until what is left moves the score by half a standard deviation at most.

    Parameters
    ----------
    slope : callable
        ``slope(some, score)`` with the numbers of some of the scores, (r,), and where they are, (r,).
    base, step, rate
        As in :meth:`TwoPoint.of`.

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> steep = saddle_tilt(lambda some, s: 1000 * (0.75 - s), np.zeros(1), one, 0.5 * one)  # −500(s − 0.75)²
    >>> law = TwoPoint.of(np.zeros(1), one, 0.5 * one, steep)
    >>> bool(0.6 < law.kept[0, 0] < 0.85)
    True
    """
    keep, drop = log_chances(rate)
    odds, close = keep - drop, 1.0 / np.maximum(np.sqrt((step * step).sum(axis=1)), SERIES.least_spread)
    tilt, low, high = np.zeros(len(base)), np.full(len(base), -SERIES.steepest), np.full(len(base), SERIES.steepest)
    todo = np.arange(len(base))
    while len(todo):
        mean = base[todo] + (step[todo] * expit(odds[todo] + tilt[todo, None] * step[todo])).sum(axis=1)
        there = np.clip(np.nan_to_num(slope(todo, mean)), -SERIES.steepest, SERIES.steepest)
        low[todo] = np.maximum(low[todo], np.minimum(tilt[todo], there))
        high[todo] = np.minimum(high[todo], np.maximum(tilt[todo], there))
        tilt[todo] = 0.5 * (low[todo] + high[todo])
        rounding = 4 * np.finfo(float).eps * np.abs(tilt[todo])
        todo = todo[high[todo] - low[todo] > np.maximum(close[todo], rounding)]
    return tilt


def integrate(
    law: Law,
    function: Callable[[Int[np.ndarray, " r"], Float[np.ndarray, "r M"]], Float[np.ndarray, "r M"]],
    *,
    logarithmic: bool,
    tolerance: float,
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Expectation of a function of each score, and an estimate of its error.

    Parameters
    ----------
    law : Law
        The laws of ``N`` scores.
    function : callable
        ``function(some, score)`` with the numbers of some of the scores, (r,), and nodes (r, M), to values (r, M): of
        a function between 0 and 1, or of the logarithm of a positive one.
    logarithmic : bool
        Which of the two. The result is then the logarithm of the expectation and the error relative.
    tolerance : float
        Error at which the doubling of the nodes ends.

    Returns
    -------
    value, error : array (N,)
        An error above the tolerance says that the nodes did not suffice, or that the law is not known well enough.

    Examples
    --------
    >>> law = TwoPoint.of(np.zeros(1), np.array([[1.0, 2.0]]), np.array([[0.5, 0.25]]), np.zeros(1))
    >>> value, error = integrate(law, lambda some, s: 1 / (1 + np.exp(-s)), logarithmic=False, tolerance=1e-3)
    >>> scores, chances = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.125, 0.125, 0.375, 0.375])
    >>> bool(abs(value[0] - chances @ (1 / (1 + np.exp(-scores)))) < error[0] < 1e-3)
    True
    """
    total = len(law.low)
    value, error = np.zeros(total), np.full(total, np.inf)
    todo, nodes = np.arange(total), SERIES.first
    while len(todo) and nodes <= SERIES.last:
        again = [todo[:0]]
        for chunk in blocks(len(todo), 8 * nodes):
            some = todo[chunk]
            found, off, hopeless = _sum(law.take(some), function, some, nodes, logarithmic, tolerance)
            value[some], error[some] = found, off
            again.append(some[(off > tolerance) & ~hopeless])
        todo, nodes = np.concatenate(again), 2 * nodes
    return value, error


def _sum(
    law: Law,
    function: Callable[[Int[np.ndarray, " r"], Float[np.ndarray, "r M"]], Float[np.ndarray, "r M"]],
    some: Int[np.ndarray, " N"],
    nodes: int,
    logarithmic: bool,
    tolerance: float,
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """One sum for each score, its error, and where more nodes cannot help."""
    width = np.maximum(law.high - law.low, 1e-9 * np.maximum(1.0, np.abs(law.low)))
    joint = nodes // 4
    spacing = width / (nodes - joint)
    period = nodes * spacing
    score = law.low[:, None] + spacing[:, None] * np.arange(-joint, nodes)
    values = function(some, score)
    top = np.zeros(len(some))
    if logarithmic:
        top = values.max(axis=1)
        values = np.exp(values - top[:, None])
    largest = values.max(axis=1)
    # The last quarter of a period goes over from the function to its continuation below the window.
    u = np.arange(joint) / joint
    share = u**4 * (35 - 84 * u + 70 * u**2 - 20 * u**3)
    below, values = values[:, :joint], values[:, joint:]
    values[:, -joint:] += share * (below - values[:, -joint:])
    coefficients = np.fft.rfft(values, axis=1) / nodes
    count = nodes // 2 + 1
    coefficients[:, 1 : count - 1] *= 2
    law_values, doubt = law.characteristic(2 * np.pi / period, law.low, count)
    terms = coefficients * law_values
    mean = terms.real.sum(axis=1)
    floor = law.outside * largest + 1e-14 * largest
    if doubt is not None:
        floor = floor + (np.abs(coefficients) * doubt).sum(axis=1)
    size = np.abs(coefficients[:, 3 * count // 4 :]).max(axis=1)
    folded = 0.5 * size * np.abs(law_values).sum(axis=1)
    # A sum of few entries has a characteristic function that may be small in one octave and large again in the next.
    upper = np.arange(count // 2, count)
    decay = (np.abs(coefficients[:, count // 2 :]) * upper**2).max(axis=1)
    octave = np.abs(terms[:, count // 2 :]).sum(axis=1)
    left_out = 2 * np.maximum(octave, decay / count * np.abs(law_values).mean(axis=1))
    off = floor + left_out + folded
    if not logarithmic:
        return mean, off, floor > tolerance
    known = mean > off
    safe = np.where(known, mean, 1.0)  # of what is lost in its error the most that it may be is left
    error = np.where(known, off / safe, np.inf)
    return top + np.log(safe), error, (floor > tolerance * np.maximum(mean, 0.0)) & (floor > off / 2)
