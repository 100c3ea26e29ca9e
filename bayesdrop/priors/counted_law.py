r"""The law of dropout rates given counts where the prior is not conjugate, by quadrature over the logit.

    log p(l | d, k) = log p(l) + d log η + k log(1 − η) + constant

is concave wherever ``log p(l)`` is. Its mode is the root of a falling slope, found by bisection; the trapezoid rule
on 513 nodes from one point to another where the density is ``e^{−45}`` of its largest gives moments and normalising
constants to rounding, for the integrand is analytic and vanishes with all its derivatives at both ends. Distribution
functions take the Euler-Maclaurin correction of the same rule, and their inverse a cubic in each cell: errors of 1e-8.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from .._typing import AnyArray, Bool, Float
from .rate_prior import log_rates, map_arrays

__all__ = ["CountedLaw"]

# Nodes, drop of the log density at the ends, rates integrated at once.
_NODES, _DROP, _AT_ONCE = 513, 45.0, 2048


class CountedLaw(NamedTuple):
    """A prior law and counts: an :class:`~bayesdrop.priors.rate_prior.UpdatedRateLaw` of any prior.

    Attributes
    ----------
    prior : RateLaw
        With ``slope(logit)`` as well, the derivative of its log density, which falls.
    dropped, kept : array (k, ...)
        Weighted numbers of entries.

    Examples
    --------
    >>> from bayesdrop.priors import LogitNormal
    >>> law = LogitNormal(0.0, 1.0).law(np.zeros(1)).given(np.array([3.0]), np.array([6.0]))
    >>> law.mode().tolist(), [round(float(end[0]), 2) for end in law.interval(0.9)]
    ([0.5], [0.26, 0.74])
    """

    prior: Any
    dropped: Float[AnyArray, "*law"]
    kept: Float[AnyArray, "*law"]

    def log_density(self, logit: Float[AnyArray, "*law"]) -> Float[AnyArray, "*law"]:
        """``log p(l) + d log η + k log(1 − η)``, elementwise."""
        log_rate, log_rest = log_rates(logit)
        prior: AnyArray = self.prior.log_density(logit)
        return prior + self.dropped * log_rate + self.kept * log_rest

    def width(self) -> Float[AnyArray, "*law"]:
        """That of the prior, which counts only narrow."""
        return self.prior.width()

    def mode(self) -> Float[np.ndarray, "*law"]:
        """Rate at the most likely logit, which is one whatever the counts, and never 0 or 1."""
        return np.asarray(expit(self._mode()))

    def mean(self) -> Float[np.ndarray, "*law"]:
        """``E η``."""
        mean: np.ndarray = self._by_block(lambda law: law._averages(lambda logit: (expit(logit),))[0])
        return mean

    def interval(self, probability: float) -> tuple[Float[np.ndarray, "*law"], Float[np.ndarray, "*law"]]:
        """Ends of the interval that is shortest in the logit, where the density is the same; it holds the mode."""
        low, high = self._by_block(lambda law: law._interval(probability))
        return low, high

    def expected_logs(self) -> tuple[Float[np.ndarray, "*law"], Float[np.ndarray, "*law"]]:
        """``E log η`` and ``E log(1 − η)``."""
        log_rate, log_rest = self._by_block(lambda law: law._averages(log_rates))
        return log_rate, log_rest

    def divergence(self, prior: Any) -> Float[np.ndarray, "*law"]:
        """``KL(self ‖ prior)``, elementwise; ``prior`` is the law that this one came from."""
        log_rate, log_rest = self.expected_logs()
        before = CountedLaw(prior, np.zeros_like(self.dropped), np.zeros_like(self.kept))
        constant = before._by_block(CountedLaw._log_integral) - self._by_block(CountedLaw._log_integral)
        return np.asarray(self.dropped * log_rate + self.kept * log_rest + constant)

    def log_odds(self) -> Float[np.ndarray, "*law"]:
        """Log-odds of the counts, half an entry added to each."""
        return np.asarray(np.log(self.dropped + 0.5) - np.log(self.kept + 0.5))

    def with_log_odds(self, log_odds: Float[np.ndarray, "*law"]) -> CountedLaw:
        """The law of the same total whose counts have these log-odds."""
        total, chance = self.dropped + self.kept + 1, np.clip(expit(log_odds), 1e-12, 1 - 1e-12)
        return CountedLaw(self.prior, total * chance - 0.5, total * (1 - chance) - 0.5)

    def sample(self, generator: np.random.Generator, draws: int) -> Float[np.ndarray, "draws ..."]:
        """Independent draws of the rates, by inverting their distribution functions."""
        uniform = generator.random((draws, *np.shape(self.dropped)))
        found = np.empty_like(uniform)
        for place in np.ndindex(np.shape(self.dropped)):
            one = map_arrays(itemgetter((*place[:-1], slice(place[-1], place[-1] + 1))), self)
            found[(slice(None), *place)] = expit(one._quantile(uniform[(slice(None), *place)][:, None])[:, 0])
        return found

    def constants(self) -> dict[str, Float[np.ndarray, "*law"]]:
        """Those of the prior, ``dropped`` and ``kept``."""
        return {**self.prior.constants(), "dropped": self.dropped, "kept": self.kept}

    def _by_block(self, question: Callable[[CountedLaw], Any]) -> Any:
        """The answers to a question about laws of shape (m,), a number of rates at a time, in the shape of the law."""
        shape = np.shape(self.dropped)
        flat = map_arrays(np.ravel, self)
        size = len(flat.dropped)
        starts = range(0, max(size, 1), _AT_ONCE)
        parts = [question(map_arrays(itemgetter(slice(start, start + _AT_ONCE)), flat)) for start in starts]
        if isinstance(parts[0], tuple):
            return tuple(np.concatenate(side).reshape(shape) for side in zip(*parts, strict=True))
        return np.concatenate(parts).reshape(shape)

    def _slope(self, logit: Float[np.ndarray, "*law"]) -> Float[np.ndarray, "*law"]:
        """Derivative of the log density, which falls."""
        return np.asarray(self.prior.slope(logit) + self.dropped * expit(-logit) - self.kept * expit(logit))

    def _mode(self) -> Float[np.ndarray, "*law"]:
        """Logit at which the slope is 0."""
        ones = np.ones_like(self.dropped)
        # The slope of the prior outgrows that of the counts, whatever they are.
        low = -_doubled(lambda far: self._slope(-far) < 0, ones)
        high = _doubled(lambda far: self._slope(far) > 0, ones)
        return _bisected(lambda logit: self._slope(logit) > 0, low, high)

    def _nodes(self) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """First node, distance between nodes and log density at the mode of each law of shape (m,)."""
        mode = self._mode()
        top = self.log_density(mode)

        def reach(sign: float) -> Float[np.ndarray, " m"]:
            def inside(far: Float[np.ndarray, " m"]) -> Bool[np.ndarray, " m"]:
                return np.asarray(self.log_density(mode + sign * far) > top - _DROP)

            far = _doubled(inside, np.full_like(mode, 1e-6))
            return _bisected(inside, 0.5 * far, far, halvings=20)

        first, last = mode - reach(-1.0), mode + reach(1.0)
        return first, (last - first) / (_NODES - 1), top

    def _grid(self) -> tuple[Float[np.ndarray, "m nodes"], Float[np.ndarray, "m nodes"], Float[np.ndarray, " m"]]:
        """Nodes, density there relative to the mode, and the logarithm of its integral."""
        first, step, top = self._nodes()
        logit = first[:, None] + step[:, None] * np.arange(_NODES)
        wide = map_arrays(lambda part: part[:, None], self)
        density = np.exp(wide.log_density(logit) - top[:, None])
        return logit, density, np.log(step * np.sum(density, axis=1)) + top

    def _averages(self, functions: Callable[[Any], tuple[Any, ...]]) -> tuple[Float[np.ndarray, " m"], ...]:
        """Expectations of functions of the logit."""
        logit, density, _ = self._grid()
        return tuple(np.sum(density * part, axis=1) / np.sum(density, axis=1) for part in functions(logit))

    def _log_integral(self) -> Float[np.ndarray, " m"]:
        """Logarithm of the integral of the density as :meth:`log_density` has it."""
        return self._grid()[2]

    def _quantile(self, probability: Float[np.ndarray, "q m"]) -> Float[np.ndarray, "q m"]:
        """Logits below which lie the probabilities, of each law of shape (m,)."""
        return _inverse(*self._distribution(), probability)

    def _distribution(
        self,
    ) -> tuple[Float[np.ndarray, "m nodes"], Float[np.ndarray, "m nodes"], Float[np.ndarray, "m nodes"]]:
        """Nodes, distribution function there and its derivative."""
        logit, density, _ = self._grid()
        step = logit[:, 1:] - logit[:, :-1]
        change = density * map_arrays(lambda part: part[:, None], self)._slope(logit)
        cells = 0.5 * step * (density[:, 1:] + density[:, :-1]) + step**2 / 12 * (change[:, :-1] - change[:, 1:])
        below = np.concatenate([np.zeros_like(cells[:, :1]), np.cumsum(np.maximum(cells, 0), axis=1)], axis=1)
        return logit, below / below[:, -1:], density / below[:, -1:]

    def _interval(self, probability: float) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Bisection of the probability below the interval: the more, the denser its lower end than its upper one."""
        found = self._distribution()

        def denser_below(below: Float[np.ndarray, " m"]) -> Bool[np.ndarray, " m"]:
            lower, upper = _inverse(*found, np.stack([below, below + probability]))
            return np.asarray(self.log_density(lower) <= self.log_density(upper))

        below = _bisected(
            denser_below, np.zeros_like(self.dropped), np.full_like(self.dropped, 1 - probability), halvings=30
        )
        lower, upper = np.asarray(expit(_inverse(*found, np.stack([below, below + probability]))))
        mode = self.mode()
        # Rounding must not leave the mode outside.
        return np.minimum(lower, mode), np.maximum(upper, mode)


def _inverse(
    logit: Float[np.ndarray, "m nodes"],
    below: Float[np.ndarray, "m nodes"],
    density: Float[np.ndarray, "m nodes"],
    probability: Float[np.ndarray, "q m"],
) -> Float[np.ndarray, "q m"]:
    """Inverse of distribution functions that are cubic between nodes, by bisection within a cell."""
    if len(probability) > len(below):
        cell = np.stack(
            [row.searchsorted(chance, "right") for row, chance in zip(below, probability.T, strict=True)], 1
        )
    else:
        cell = np.stack([np.sum(below <= chance[:, None], axis=1) for chance in probability])
    cell, rate = np.clip(cell - 1, 0, _NODES - 2), np.arange(len(below))
    step = logit[rate, cell + 1] - logit[rate, cell]
    start, end = below[rate, cell], below[rate, cell + 1]
    up, down = step * density[rate, cell], step * density[rate, cell + 1]

    def less(t: Float[np.ndarray, "q m"]) -> Bool[np.ndarray, "q m"]:
        rest = 1 - t
        value = start * rest**2 * (1 + 2 * t) + end * t**2 * (1 + 2 * rest) + up * t * rest**2 - down * t**2 * rest
        return np.asarray(value < probability)

    within = _bisected(less, np.zeros_like(probability), np.ones_like(probability), halvings=40)
    return np.asarray(logit[rate, cell] + step * within)


Place = Float[np.ndarray, "*law"]


def _doubled(holds: Callable[[Place], Bool[np.ndarray, "*law"]], start: Place, most: int = 64) -> Place:
    """Numbers doubled until a condition no longer holds of any."""
    far = start
    for _ in range(most):
        more = holds(far)
        if not np.any(more):
            break
        far = np.where(more, 2 * far, far)
    return far


def _bisected(holds: Callable[[Place], Bool[np.ndarray, "*law"]], low: Place, high: Place, halvings: int = 60) -> Place:
    """Where a condition that holds at ``low`` ends."""
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        more = holds(middle)
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.asarray(0.5 * (low + high))
