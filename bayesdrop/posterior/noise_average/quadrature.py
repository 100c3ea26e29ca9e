r"""Average a function of a noised score by one sum over equidistant scores.

    E f(s) ≈ Σ_i p_i f(x_i),      x_i = x_0 + ih

The masses ``p_i`` come from the distribution (law) of the score, a sum of independent terms.

For a nearly normal law they follow from its first four cumulants, by the Edgeworth series (Petrov 1975, chapter 6).
With ``z = (x − m)/σ``, ``λ3 = κ3/σ³`` and ``λ4 = κ4/σ⁴``,

    p_i = hϕ(z_i){1 + a He3 + b He4 + a² He6/2},      a = λ3/6,  b = λ4/24.

The next terms of the series, summed with the same ``f``, estimate the error. For any other law the masses follow from
its characteristic function, by a discrete Fourier transform. A filter keeps the mass of each score at the adjacent
nodes, so that a kink or a step of ``f`` affects a few nodes only. The error is at most about

    0.2 Σ_i |p_i| |Δ⁴f_i|

where fourth differences are large at kinks and steps. The number of nodes grows until it is small.

The expectation of a small function may come from scores at which the law has hardly any mass. The law is then tilted:
its density is multiplied by ``e^{θs}`` and normalised, and ``E f = E e^{θs} · E_θ f e^{−θs}``.

Shapes: ``N`` scores, ``M`` nodes, ``k`` noised entries of a score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Complex
from numpy.polynomial.hermite_e import hermevander
from scipy.special import expit

from ..._typing import Float, Int
from ..draws.draws import blocks
from .enumeration import log_chances

__all__ = ["RULES", "Cumulants", "Law", "by_cumulants", "by_law", "masked_law", "saddle_tilt"]

Function: TypeAlias = Callable[[Int[np.ndarray, " r"], Float[np.ndarray, "r M"]], Float[np.ndarray, "r M"]]
"""``function(numbers, score)``, with numbers of scores and their nodes; returns values, or logarithms of values."""


@dataclass(frozen=True)
class Rules:
    """Sizes of the sums, and maximum errors.

    Attributes
    ----------
    probability, likelihood : float
        Maximum error of a probability, and of the logarithm of a likelihood.
    series_reach, series_step, finest : float, float, int
        Nodes for a nearly normal law, in standard deviations: range, first distance, and maximum number of halvings of
        the distance.
    first, growth, last : int
        Number of nodes for any other law: first, factor of growth, and maximum.
    tail : float
        A score is beyond the nodes on either side with probability at most ``exp(−tail)``.
    margin : float
        Share of the nodes on either side beyond all scores, for the filter.
    order, strength : int, float
        The filter multiplies the ``j``-th of ``J`` frequencies by ``exp{−strength (j/J)^order}``.
    local : float
        Factor of the fourth differences in the error.
    narrowest : float
        Smallest width of the scores, relative to their size.
    steepest : float
        Maximum slope of the logarithm of a function for tilting.
    cache : int
        Number of entries of an array that fits into the cache of a core.
    few : int
        Maximum number of entries for enumeration of masks instead of quadrature.
    max_enumerated : int
        Maximum number of entries for enumeration of masks if the quadrature is not accurate enough.
    """

    probability: float = 5e-4
    likelihood: float = 1e-3
    series_reach: float = 6.0
    series_step: float = 0.75
    finest: int = 4
    first: int = 64
    growth: int = 4
    last: int = 1 << 14
    tail: float = 16.0
    margin: float = 0.125
    order: int = 6
    strength: float = 6.0
    local: float = 0.2
    narrowest: float = 1e-9
    steepest: float = 1e100
    cache: int = 1 << 17
    few: int = 8
    max_enumerated: int = 18

    def error(self, logarithmic: bool) -> float:
        """Maximum error, for a likelihood if ``logarithmic``, else for a probability."""
        return self.likelihood if logarithmic else self.probability


RULES = Rules()


class Cumulants(NamedTuple):
    """Cumulants of ``N`` scores, as in :class:`bayesdrop.noise.Expansion`, (N,) each."""

    mean: Float[np.ndarray, " N"]
    var: Float[np.ndarray, " N"]
    third: Float[np.ndarray, " N"]
    fourth: Float[np.ndarray, " N"]
    remainder: Float[np.ndarray, " N"]


def by_cumulants(
    law: Cumulants, function: Function, *, logarithmic: bool
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Average a function over nearly normal laws.

    Returns
    -------
    value, error : array (N,)
        ``E f``, or its logarithm for a logarithmic function, and an estimate of its error; infinite if the series does
        not apply.

    Examples
    --------
    >>> zero = np.zeros(1)
    >>> value, error = by_cumulants(
    ...     Cumulants(zero + 1, zero + 4, zero, zero, zero), lambda some, s: s**2, logarithmic=False
    ... )
    >>> bool(abs(value[0] - 5) < 1e-6)
    True
    """
    sd = np.sqrt(np.maximum(law.var, 0.0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        skew, excess, remainder = (
            np.where(part == 0, 0.0, part / (factor * sd**power))
            for part, factor, power in ((law.third, 6, 3), (law.fourth, 24, 4), (law.remainder, 1, 5))
        )
    value, error = np.full(len(sd), np.nan), np.full(len(sd), np.inf)
    todo = np.flatnonzero(np.isfinite(skew) & np.isfinite(excess) & (remainder < 1))
    for halvings in range(RULES.finest + 1):
        z, table = _hermite(halvings)
        going = [todo[:0]]
        for part in blocks(len(todo), len(z), RULES.cache):
            numbers = todo[part]
            moments, top = _normalised(function(numbers, law.mean[numbers, None] + sd[numbers, None] * z), logarithmic)
            m = (moments @ table).T
            a, b, r = skew[numbers], excess[numbers], remainder[numbers]
            average = m[0] + a * m[3] + b * m[4] + a * a / 2 * m[6]
            beyond = (r, r**_SIXTH, a * b, b * b / 2, a**3 / 6, a * a * b / 2, a**4 / 24)
            series = sum(np.abs(part * m[order]) for part, order in zip(beyond, _BEYOND, strict=True))
            spacing = np.abs(m[0] - m[-1]) / 2
            value[numbers], scale = _finished(average, top, logarithmic)
            error[numbers] = (series + spacing) * scale
            allowed = RULES.error(logarithmic) / 2
            going.append(numbers[(error[numbers] > allowed) & (series * scale <= allowed)])
        todo = np.concatenate(going)
    return value, error


# Orders of Hermite's polynomials in the next terms of the series, and the power of the remainder in the second.
_BEYOND, _SIXTH = (*range(5, 11), 12), 6 / 5


@cache
def _hermite(halvings: int) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, "M _"]]:
    """Nodes, and normal masses times Hermite's polynomials; the last column is for every other node."""
    step = RULES.series_step / 2**halvings
    z = step * np.arange(-round(RULES.series_reach / step), round(RULES.series_reach / step) + 1)
    mass = step * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    every_other = np.where(np.arange(len(z)) % 2 == 0, 2 * mass, 0.0)
    return z, np.column_stack([mass[:, None] * hermevander(z, _BEYOND[-1]), every_other])


def _normalised(
    values: Float[np.ndarray, "N M"], logarithmic: bool
) -> tuple[Float[np.ndarray, "N M"], Float[np.ndarray, " N"]]:
    """Values scaled to at most about 1, and the logarithms of the scales."""
    if not logarithmic:
        return values, np.zeros(len(values))
    top = values.max(axis=1)
    return np.exp(values - top[:, None]), top


def _finished(
    average: Float[np.ndarray, " N"], top: Float[np.ndarray, " N"], logarithmic: bool
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Results from sums, and factors from errors of the sums to errors of the results."""
    if not logarithmic:
        return average, np.ones_like(average)
    with np.errstate(divide="ignore", invalid="ignore"):
        return top + np.log(average), np.where(average > 0, 1 / average, np.inf)


@dataclass(frozen=True)
class Law:
    """Laws of scores by their characteristic functions.

    Attributes
    ----------
    base, low, high : array (N,)
        Part without noise, and the range of the scores.
    characteristic : callable
        Returns ``E exp{iu(s − base)}`` of scores with given numbers (r,), at frequencies 0, u, 2u, … (r, M).
    entries : int
        Noised entries of each score.
    """

    base: Float[np.ndarray, " N"]
    low: Float[np.ndarray, " N"]
    high: Float[np.ndarray, " N"]
    characteristic: Callable[[Int[np.ndarray, " r"], Float[np.ndarray, "r M"]], Complex[np.ndarray, "r M"]]
    entries: int


def masked_law(
    base: Float[np.ndarray, " N"],
    step: Float[np.ndarray, "N k"],
    rate: Float[np.ndarray, "N k"],
    tilt: Float[np.ndarray, " N"],
) -> tuple[Law, Float[np.ndarray, " N"]]:
    """Laws of scores ``base`` plus entries, each ``step`` or dropped, tilted by ``θ``; and ``log E e^{θs}``.

    The range is that of all scores, or that of Bernstein's inequality if smaller.
    """
    keep, drop = log_chances(rate)
    raised = keep + tilt[:, None] * step
    either = np.logaddexp(drop, raised)
    tilted_keep = np.exp(raised - either)
    mean, var = base + (step * tilted_keep).sum(axis=1), (step * step * tilted_keep * (1 - tilted_keep)).sum(axis=1)
    reach = np.sqrt(2 * RULES.tail * var) + np.abs(step).max(axis=1, initial=0.0) * RULES.tail / 3
    low = np.maximum(mean - reach, base + np.minimum(step, 0.0).sum(axis=1))
    high = np.minimum(mean + reach, base + np.maximum(step, 0.0).sum(axis=1))

    def characteristic(numbers: Int[np.ndarray, " r"], u: Float[np.ndarray, "r M"]) -> Complex[np.ndarray, "r M"]:
        turn = np.exp(1j * step[numbers].T * u[:, 1])[:, :, None]
        powers, size = np.ones((*turn.shape[:2], u.shape[1]), dtype=complex), 1
        while size < u.shape[1]:  # products take a tenth of the time of exponentials
            more = min(size, u.shape[1] - size)
            np.multiply(powers[:, :, :more], turn, out=powers[:, :, size : size + more])
            turn, size = turn * turn, 2 * size
        share = tilted_keep[numbers].T[:, :, None]
        powers *= share
        powers += 1 - share
        return np.asarray(np.multiply.reduce(powers, axis=0))

    return Law(base, low, high, characteristic, step.shape[1]), tilt * base + either.sum(axis=1)


def by_law(
    law: Law, function: Function, *, logarithmic: bool
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Average a function over any laws; returns value and error as :func:`by_cumulants` does.

    Examples
    --------
    >>> law, _ = masked_law(np.zeros(1), np.array([[1.0, 2.0]]), np.array([[0.5, 0.25]]), np.zeros(1))
    >>> value, _ = by_law(law, lambda some, s: 1 / (1 + np.exp(-s)), logarithmic=False)
    >>> scores, chances = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.125, 0.125, 0.375, 0.375])
    >>> bool(abs(value[0] - chances @ (1 / (1 + np.exp(-scores)))) < RULES.probability)
    True
    """
    value, error = np.zeros((2, len(law.base)))
    todo, nodes = np.arange(len(value)), RULES.first
    while len(todo) and nodes <= RULES.last:
        for part in blocks(len(todo), nodes * (2 + law.entries), RULES.cache):
            numbers = todo[part]
            score, mass = _masses(law, numbers, nodes)
            values, top = _normalised(function(numbers, score), logarithmic)
            value[numbers], scale = _finished((mass * values).sum(axis=1), top, logarithmic)
            fourth = np.abs(np.diff(values, 4, axis=1))
            error[numbers] = RULES.local * scale * (np.abs(mass[:, 2:-2]) * fourth).sum(axis=1)
        todo, nodes = todo[error[todo] > RULES.error(logarithmic)], RULES.growth * nodes
    return value, error


def _masses(law: Law, numbers: Int[np.ndarray, " r"], nodes: int) -> Float[np.ndarray, "2 r M"]:
    """Nodes of some laws, and their masses."""
    low, width = law.low[numbers], law.high[numbers] - law.low[numbers]
    width = np.maximum(width, RULES.narrowest * np.maximum(1.0, np.abs(low)))
    step = width / (nodes * (1 - 2 * RULES.margin))
    start = low - RULES.margin * nodes * step
    number = np.arange(nodes // 2 + 1)
    u = (2 * np.pi / (nodes * step))[:, None] * number
    spectrum = np.conj(law.characteristic(numbers, u) * np.exp(1j * u * (law.base[numbers] - start)[:, None]))
    spectrum *= np.exp(-RULES.strength * (number / number[-1]) ** RULES.order)
    return np.stack([start[:, None] + step[:, None] * np.arange(nodes), np.fft.irfft(spectrum, nodes, axis=1)])


def saddle_tilt(
    slope: Callable[[Int[np.ndarray, " r"], Float[np.ndarray, " r"]], Float[np.ndarray, " r"]],
    base: Float[np.ndarray, " N"],
    step: Float[np.ndarray, "N k"],
    rate: Float[np.ndarray, "N k"],
) -> Float[np.ndarray, " N"]:
    """Tilts that centre the law of a score on the mass of a log-concave function times its density.

    The tilt solves ``θ = (log f)'(E_θ s)``, by bisection, because the left side rises and the right side falls in
    ``θ``; it ends when the interval changes the score by at most half a standard deviation.

    Parameters
    ----------
    slope : callable
        ``slope(numbers, score)``, with numbers of scores (r,) and their values (r,).
    base, step, rate
        As in :func:`masked_law`.

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> steep = saddle_tilt(lambda some, s: 1000 * (0.75 - s), np.zeros(1), one, 0.5 * one)  # −500(s − 0.75)²
    >>> bool(0.6 < 1 / (1 + np.exp(-steep[0])) < 0.85)
    True
    """
    keep, drop = log_chances(rate)
    odds, close = keep - drop, 1.0 / np.maximum(np.sqrt((step * step).sum(axis=1)), np.finfo(float).tiny)
    tilt, low, high = np.zeros(len(base)), np.full(len(base), -RULES.steepest), np.full(len(base), RULES.steepest)
    todo = np.arange(len(base))
    while len(todo):
        mean = base[todo] + (step[todo] * expit(odds[todo] + tilt[todo, None] * step[todo])).sum(axis=1)
        new_tilt = np.clip(np.nan_to_num(slope(todo, mean)), -RULES.steepest, RULES.steepest)
        low[todo] = np.maximum(low[todo], np.minimum(tilt[todo], new_tilt))
        high[todo] = np.minimum(high[todo], np.maximum(tilt[todo], new_tilt))
        tilt[todo] = 0.5 * (low[todo] + high[todo])
        rounding = 4 * np.finfo(float).eps * np.abs(tilt[todo])
        todo = todo[high[todo] - low[todo] > np.maximum(close[todo], rounding)]
    return tilt
