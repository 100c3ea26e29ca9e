r"""Beta distributions of dropout rates, and the protocol of their priors.

A rate ``η`` is stored as its logit ``l = log η − log(1 − η)``, which resolves both ends in any precision. If ``d``
entries are dropped and ``m`` kept (weighted counts), the likelihood is ``η^d (1 − η)^m``: ``Beta(a, b)`` becomes
``Beta(a + d, b + m)``, and the density of the logit is ``η^a (1 − η)^b`` up to a constant.

Users write a :class:`RatePrior`. Given the number of times that each rate applies, it becomes a :class:`BetaLaw`, a
named tuple of arrays, which compiled functions take as operands: new numbers need no new compilation.

Shapes: ``k`` free rates; further axes are problems, chains or features. Importing a prior does not import JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .._typing import AnyArray, Float, Int, Num

__all__ = ["BetaLaw", "RatePrior", "beta_mode", "highest_density", "log_rates"]


@runtime_checkable
class RatePrior(Protocol):
    """Protocol of a prior of dropout rates."""

    @property
    def relative(self) -> bool:
        """True if the strength of the prior depends on how often a rate applies."""

    def law(self, occurrences: Num[np.ndarray, "*law"]) -> BetaLaw:
        """Distributions of rates that apply ``occurrences`` (k, ...) times, weighted; same shape.

        Raises
        ------
        ValueError
            If the prior has another number of rates.
        """


def log_rates(logit: Float[AnyArray, "*shape"]) -> tuple[Float[AnyArray, "*shape"], Float[AnyArray, "*shape"]]:
    """``log η`` and ``log(1 − η)``, each to full relative precision, elementwise.

    Examples
    --------
    >>> [float(part) for part in log_rates(np.array(-800.0))]
    [-800.0, -0.0]
    """
    xp = logit.__array_namespace__()
    zero = xp.zeros_like(logit)
    return -xp.logaddexp(-logit, zero), -xp.logaddexp(logit, zero)


# Bound of the log ratio of densities in a step, log ratio at which they count as equal, maximum number of steps.
_STEEP, _EQUAL, _STEPS = 30.0, 1e-9, 60


class BetaLaw(NamedTuple):
    """Distribution ``Beta(a, b)`` of each rate, independent across rates, as a prior or given counts.

    Attributes
    ----------
    a, b : array (k, ...)
        Shape parameters.

    Examples
    --------
    >>> law = BetaLaw(np.array([1.0]), np.array([1.0])).given(np.array([2.0]), np.array([8.0]))
    >>> law.mode().tolist(), law.mean().tolist()
    ([0.25], [0.3])
    """

    a: Float[AnyArray, "*law"]
    b: Float[AnyArray, "*law"]

    def log_density(self, logit: Float[AnyArray, "*law"]) -> Float[AnyArray, "*law"]:
        """Log density of the logit up to a constant, ``a log η + b log(1 − η)``, elementwise; NumPy or JAX."""
        log_rate, log_rest = log_rates(logit)
        return self.a * log_rate + self.b * log_rest

    def log_rate_density(
        self, log_rate: Float[AnyArray, "*law"], log_rest: Float[AnyArray, "*law"]
    ) -> Float[AnyArray, "*law"]:
        """Log density of the rate up to a constant, ``(a − 1) log η + (b − 1) log(1 − η)``, elementwise."""
        return (self.a - 1) * log_rate + (self.b - 1) * log_rest

    def width(self) -> Float[AnyArray, "*law"]:
        """Width of 4.5 to 7 standard deviations of the logit, for a slice sampler's first interval; NumPy or JAX.

        The variance is ``ψ'(a) + ψ'(b)``, and ``ψ'(a) < (1 + a)/a²``. Data only make the density narrower; the number
        of trials grows with the logarithm of the width.
        """
        xp = self.a.__array_namespace__()
        return 4.5 * (xp.sqrt(1 + self.a) / self.a + xp.sqrt(1 + self.b) / self.b)

    def given(self, dropped: Float[AnyArray, "*law"], occurrences: Float[AnyArray, "*law"]) -> BetaLaw:
        """Distribution given counts of drops, ``Beta(a + dropped, b + occurrences − dropped)``."""
        return BetaLaw(self.a + dropped, self.b + occurrences - dropped)

    def draw_logit(self, key: Any) -> Any:
        """Logits drawn by a key of JAX: differences of logarithms of gamma variables, which do not underflow."""
        import jax

        key_drop, key_keep = jax.random.split(key)
        return jax.random.loggamma(key_drop, self.a) - jax.random.loggamma(key_keep, self.b)

    def quantile(self, probability: Any) -> Float[np.ndarray, "*law"]:
        """Quantile of the rate at a probability."""
        from scipy.stats import beta

        return np.asarray(beta.ppf(probability, self.a, self.b))

    def mode(self) -> Float[np.ndarray, "*law"]:
        """The learnt rate, in the closed [0, 1]: :func:`beta_mode`."""
        return beta_mode(self.a, self.b)

    def mean(self) -> Float[np.ndarray, "*law"]:
        """``a/(a + b)``."""
        return np.asarray(self.a / (self.a + self.b))

    def interval(self, probability: float) -> tuple[Float[np.ndarray, "*law"], Float[np.ndarray, "*law"]]:
        """Ends of the highest-density interval: :func:`highest_density`."""
        return highest_density(self.a, self.b, probability)

    def expected_logs(self) -> tuple[Float[np.ndarray, "*law"], Float[np.ndarray, "*law"]]:
        """``E log η`` and ``E log(1 − η)``: ``ψ(a) − ψ(a + b)`` and ``ψ(b) − ψ(a + b)``."""
        from scipy.special import digamma

        total = digamma(self.a + self.b)
        return digamma(self.a) - total, digamma(self.b) - total

    def divergence(self, prior: BetaLaw) -> Float[np.ndarray, "*law"]:
        """``KL(self ‖ prior)`` in natural logarithms, elementwise."""
        from scipy.special import betaln

        log_rate, log_rest = self.expected_logs()
        gap = betaln(prior.a, prior.b) - betaln(self.a, self.b)
        gap += (self.a - prior.a) * log_rate
        gap += (self.b - prior.b) * log_rest
        return np.asarray(gap)

    def log_odds(self) -> Float[np.ndarray, "*law"]:
        """Log-odds of the mean, ``log a − log b``."""
        return np.asarray(np.log(self.a) - np.log(self.b))

    def with_log_odds(self, log_odds: Float[np.ndarray, "*law"]) -> BetaLaw:
        """Distribution with the same ``a + b`` whose mean has these log-odds."""
        from scipy.special import expit

        total, chance = self.a + self.b, np.clip(expit(log_odds), 1e-12, 1 - 1e-12)
        return BetaLaw(total * chance, total * (1 - chance))

    def sample(self, generator: np.random.Generator, draws: int) -> Float[np.ndarray, "draws ..."]:
        """Independent draws of the rates."""
        return generator.beta(self.a, self.b, (draws, *np.shape(self.a)))

    def map(self, function: Callable[[Any], Any]) -> BetaLaw:
        """Apply a function to both arrays."""
        return BetaLaw(function(self.a), function(self.b))


def beta_mode(a: Any, b: Any) -> Float[np.ndarray, "*law"]:
    """Mode of ``Beta(a, b)``; with both shapes at most 1 it is 1/2 if they are equal, else the end nearer the mean.

    Examples
    --------
    >>> beta_mode(np.array([1.0, 1.0, 3.0]), np.array([1.0, 3.0, 3.0])).tolist()
    [0.5, 0.0, 0.5]
    """
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    up, down = np.maximum(a - 1, 0.0), np.maximum(b - 1, 0.0)
    total = up + down
    flat = np.where(a == b, 0.5, (a > b).astype(float))  # both at most 1: the end with the larger shape wins
    return np.asarray(np.where(total > 0, up / np.where(total > 0, total, 1.0), flat))


def highest_density(a: Any, b: Any, probability: float) -> tuple[Float[np.ndarray, "*law"], Float[np.ndarray, "*law"]]:
    """Shortest interval of ``Beta(a, b)`` that holds ``probability`` and :func:`beta_mode`; shaped like ``a``.

    With both shapes above 1 the densities at the two ends are equal. If the density only falls, only rises or has two
    different poles, the interval starts at the end of [0, 1] that is the mode. Equal shapes of at most 1 have the
    central interval.

    Examples
    --------
    >>> [round(float(end), 3) for end in highest_density(1.0, 3.0, 0.9)]
    [0.0, 0.536]
    """
    from scipy.special import betaincinv

    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    tail, mode = 1 - probability, beta_mode(a, b)
    # Probability below the interval.
    below = np.where(a > b, tail, np.where(a < b, 0.0, tail / 2))
    inside = (a > 1) & (b > 1)
    if np.any(inside):
        below = below.copy()
        below[inside] = _level(a[inside], b[inside], probability)
    low, high = betaincinv(a, b, below), betaincinv(a, b, np.minimum(below + probability, 1.0))
    # Rounding must not leave the mode outside.
    return np.asarray(np.minimum(low, mode)), np.asarray(np.maximum(high, mode))


def _level(a: Float[np.ndarray, " m"], b: Float[np.ndarray, " m"], probability: float) -> Float[np.ndarray, " m"]:
    """Probability below the interval whose ends have equal density, by regula falsi with the Illinois rule."""
    from scipy.special import betaincinv, xlog1py, xlogy

    def excess(live: Int[np.ndarray, " r"], below: Float[np.ndarray, " r"]) -> Float[np.ndarray, " r"]:
        """Log density at the lower end minus that at the upper one, clipped; it increases with ``below``."""
        up, down = a[live], b[live]
        ends = betaincinv(up, down, below), betaincinv(up, down, np.minimum(below + probability, 1.0))
        lower, upper = (xlogy(up - 1, x) + xlog1py(down - 1, -x) for x in ends)
        return np.asarray(np.clip(lower - upper, -_STEEP, _STEEP))

    live = np.arange(len(a))
    low, high = np.zeros_like(a), np.full_like(a, 1 - probability)
    at_low, at_high = np.full_like(a, -_STEEP), np.full_like(a, _STEEP)
    solution: np.ndarray = 0.5 * (low + high)
    for step in range(_STEPS):
        best = low - at_low * (high - low) / (at_high - at_low) if step % 3 else 0.5 * (low + high)
        value = excess(live, best)
        solution[live] = best
        up = value > 0
        # Halve the value at the end that stays, so that it moves at the next step.
        at_low, at_high = np.where(up, 0.5 * at_low, value), np.where(up, value, 0.5 * at_high)
        low, high = np.where(up, low, best), np.where(up, best, high)
        more = np.abs(value) >= _EQUAL
        if not np.any(more):
            break
        live, low, high, at_low, at_high = (part[more] for part in (live, low, high, at_low, at_high))
    return solution
