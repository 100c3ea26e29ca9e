"""Beta prior of a dropout rate, with a strength that may grow with how often a feature occurs.

``Beta(A, B)`` has mode ``μ = (A − 1)/(A + B − 2)`` and strength ``m = A + B − 2``, the number of pseudo-observations
of Zhuo, Zhu & Zhang (2015, eq. 17). With a relative strength ``λ`` the strength is ``m = λ n`` for a feature that
occurs ``n`` times, so that the learnt rate is ``(η̂ + λ μ)/(1 + λ)`` whatever its frequency.

The Beta law of dropout rates: conjugate to counts, so that every update is in closed form.

Given ``d`` entries dropped and ``k`` kept, ``Beta(A, B)`` becomes ``Beta(A + d, B + k)``. The density of the logit is
``η^A (1 − η)^B`` up to a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._typing import AnyArray, Float, Int, Num
from .._validation import check_numbers, shown
from .rate_prior import log_rates, spread_over_rates

__all__ = ["Beta", "BetaLaw", "beta_mode", "highest_density"]


@dataclass(frozen=True)
class Beta:
    """Beta prior; ``Beta(1, 1)`` is flat.

    Parameters
    ----------
    a, b : float or array, default=1.0
        Shape parameters, above 0; an array holds one value per rate.
    a_per_count, b_per_count : float or array, default=0.0
        What each (weighted) occurrence of the feature adds to ``a`` and ``b``; see ``from_mode``.

    See Also
    --------
    LogitNormal, PerFeature, log_prior

    Examples
    --------
    >>> Beta(2, 4).mode, Beta(2, 4).strength
    (0.25, 4)
    >>> Beta.from_mode(0.25, strength=4)
    Beta(a=2.0, b=4.0)
    """

    a: Any = 1.0
    b: Any = 1.0
    a_per_count: Any = 0.0
    b_per_count: Any = 0.0

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            given = getattr(self, name)
            value = check_numbers(given, f"Beta {name}", above=0, advice="flat is Beta(1, 1)")
            if value.ndim > 1:
                raise ValueError(f"Beta {name}: expected one number or one per feature, got shape {value.shape}.")
        for name in ("a_per_count", "b_per_count"):
            given = getattr(self, name)
            if check_numbers(given, f"Beta {name}", least=0).ndim > 1:
                raise ValueError(f"Beta {name}: expected one number or one per feature, got {shown(given)}.")

    def __repr__(self) -> str:
        tail = f", a_per_count={self.a_per_count}, b_per_count={self.b_per_count}" if self.relative else ""
        return f"Beta(a={self.a}, b={self.b}{tail})"

    @classmethod
    def from_mode(cls, mode: Any, strength: Any = None, *, relative_strength: Any = None) -> Beta:
        """Build the prior from its mode and its strength.

        Parameters
        ----------
        mode : float or array in [0, 1]
            Most likely rate.
        strength : float or array >= 0, optional
            Number of pseudo-observations; 0 is flat.
        relative_strength : float or array >= 0, optional
            Strength as a multiple ``λ`` of the number of times that the feature occurs.
        """
        if (strength is None) == (relative_strength is None):
            raise ValueError(
                "from_mode: expected exactly one of strength and relative_strength, got "
                f"strength={shown(strength)} and relative_strength={shown(relative_strength)}."
            )
        centre = check_numbers(mode, "mode", "rates in [0, 1]", least=0, most=1)
        name, given = ("strength", strength) if relative_strength is None else ("relative_strength", relative_strength)
        size = check_numbers(given, name, least=0)
        try:
            np.broadcast_shapes(centre.shape, size.shape)
        except ValueError:
            raise ValueError(f"mode, {name}: expected one shape, got {centre.shape} and {size.shape}.") from None
        up, down = _plain(centre * size), _plain((1 - centre) * size)
        if relative_strength is None:
            return cls(_plain(1 + np.asarray(up)), _plain(1 + np.asarray(down)))
        return cls(1.0, 1.0, up, down)

    def scaled(self, strength: float) -> Beta:
        """The prior whose learnt rates are ``strength`` times those of a flat one, for a strength in (0, 1].

        Each occurrence comes with ``1/strength − 1`` more that were kept: a relative strength about the mode 0.

        Examples
        --------
        >>> Beta().scaled(0.25) == Beta.from_mode(0, relative_strength=3.0)
        True
        """
        return replace(self, b_per_count=_plain(np.asarray(self.b_per_count) + (1 / strength - 1)))

    @property
    def relative(self) -> bool:
        """True if the strength depends on how often a feature occurs."""
        return bool(np.any(self.a_per_count) or np.any(self.b_per_count))

    def law(self, occurrences: Num[np.ndarray, "*law"]) -> BetaLaw:
        """Law of rates that apply so many (weighted) times, shaped like ``occurrences`` (k, ...)."""
        count = np.asarray(occurrences, dtype=float)
        a, b, more_a, more_b = (
            spread_over_rates(value, count.shape, "Beta")
            for value in (self.a, self.b, self.a_per_count, self.b_per_count)
        )
        parts = (own + more * count if np.any(more) else own for own, more in ((a, more_a), (b, more_b)))
        return BetaLaw(*(np.broadcast_to(part, count.shape) for part in parts))

    @staticmethod
    def stored_law(constants: Mapping[str, Num[np.ndarray, "*law"]]) -> BetaLaw | None:
        """The law of constants ``a`` and ``b``."""
        return BetaLaw(constants["a"], constants["b"]) if set(constants) == {"a", "b"} else None

    @property
    def mode(self) -> Any:
        """Most likely rate, 1/2 for a flat prior."""
        return (
            _plain(beta_mode(*self.law(np.ones(np.shape(self.a) or ()))))
            if self.relative
            else _plain(beta_mode(np.asarray(self.a, float), np.asarray(self.b, float)))
        )

    @property
    def strength(self) -> Any:
        """Number of pseudo-observations ``A + B − 2`` that do not depend on the data."""
        return self.a + self.b - 2


def _plain(value: Any) -> Any:
    value = np.asarray(value)
    return value.item() if value.ndim == 0 else value


# Largest log ratio of two densities that a step is taken by, ratio at which they are equal, and most steps.
_STEEP, _EQUAL, _STEPS = 30.0, 1e-9, 60


class BetaLaw(NamedTuple):
    """``Beta(a, b)`` of each rate, as a prior (:class:`~bayesdrop.priors.RateLaw`) and given counts.

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
        """``a log η + b log(1 − η)``, elementwise."""
        log_rate, log_rest = log_rates(logit)
        return self.a * log_rate + self.b * log_rest

    def log_rate_density(
        self, log_rate: Float[AnyArray, "*law"], log_rest: Float[AnyArray, "*law"]
    ) -> Float[AnyArray, "*law"]:
        """``(a − 1) log η + (b − 1) log(1 − η)``, elementwise."""
        return (self.a - 1) * log_rate + (self.b - 1) * log_rest

    def width(self) -> Float[AnyArray, "*law"]:
        """Four to six standard deviations of the logit.

        Its variance is ``ψ'(a) + ψ'(b)``, and ``ψ'(a) < (1 + a)/a²``. Data only make the density narrower; an interval
        that is too wide costs a few more trials, as the logarithm of how much too wide it is.
        """
        xp = self.a.__array_namespace__()
        return 4.5 * (xp.sqrt(1 + self.a) / self.a + xp.sqrt(1 + self.b) / self.b)

    def given(self, dropped: Float[AnyArray, "*law"], occurrences: Float[AnyArray, "*law"]) -> BetaLaw:
        """``Beta(a + dropped, b + occurrences − dropped)``."""
        return BetaLaw(self.a + dropped, self.b + occurrences - dropped)

    def draw_logit(self, key: Any) -> Any:
        """Logits drawn by a key of JAX: differences of logarithms of gamma variables, which do not underflow."""
        import jax

        key_drop, key_keep = jax.random.split(key)
        return jax.random.loggamma(key_drop, self.a) - jax.random.loggamma(key_keep, self.b)

    def quantile(self, probability: Any) -> Float[np.ndarray, "*law"]:
        """Rate below which lies the probability."""
        from scipy.stats import beta

        return np.asarray(beta.ppf(probability, self.a, self.b))

    def mode(self) -> Float[np.ndarray, "*law"]:
        """:func:`beta_mode`."""
        return beta_mode(self.a, self.b)

    def mean(self) -> Float[np.ndarray, "*law"]:
        """``a/(a + b)``."""
        return np.asarray(self.a / (self.a + self.b))

    def interval(self, probability: float) -> tuple[Float[np.ndarray, "*law"], Float[np.ndarray, "*law"]]:
        """:func:`highest_density`."""
        return highest_density(self.a, self.b, probability)

    def expected_logs(self) -> tuple[Float[np.ndarray, "*law"], Float[np.ndarray, "*law"]]:
        """``ψ(a) − ψ(a + b)`` and ``ψ(b) − ψ(a + b)``."""
        from scipy.special import digamma

        total = digamma(self.a + self.b)
        return digamma(self.a) - total, digamma(self.b) - total

    def divergence(self, prior: BetaLaw) -> Float[np.ndarray, "*law"]:
        """``KL(self ‖ prior)``, elementwise."""
        from scipy.special import betaln

        log_rate, log_rest = self.expected_logs()
        gap = betaln(prior.a, prior.b) - betaln(self.a, self.b)
        gap += (self.a - prior.a) * log_rate
        gap += (self.b - prior.b) * log_rest
        return np.asarray(gap)

    def log_odds(self) -> Float[np.ndarray, "*law"]:
        """``log a − log b``, the log-odds of the mean."""
        return np.asarray(np.log(self.a) - np.log(self.b))

    def with_log_odds(self, log_odds: Float[np.ndarray, "*law"]) -> BetaLaw:
        """The law of the same ``a + b`` whose mean has these log-odds."""
        from scipy.special import expit

        total, chance = self.a + self.b, np.clip(expit(log_odds), 1e-12, 1 - 1e-12)
        return BetaLaw(total * chance, total * (1 - chance))

    def sample(self, generator: np.random.Generator, draws: int) -> Float[np.ndarray, "draws ..."]:
        """Independent draws of the rates."""
        return generator.beta(self.a, self.b, (draws, *np.shape(self.a)))

    def constants(self) -> dict[str, Float[np.ndarray, "*law"]]:
        """``a`` and ``b``."""
        return {"a": self.a, "b": self.b}


def beta_mode(a: Any, b: Any) -> Float[np.ndarray, "*law"]:
    """Mode of ``Beta(a, b)``; 1/2 where it is flat or has two modes at the ends.

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

    With both shapes above 1 the densities at its two ends are equal. A density that only falls or only rises has it at
    one end of [0, 1], and so has one with a pole at each end, where the larger shape is. A flat law and one that is
    symmetric with two poles have the central interval.

    Examples
    --------
    >>> [round(float(end), 3) for end in highest_density(1.0, 3.0, 0.9)]
    [0.0, 0.536]
    """
    from scipy.special import betaincinv

    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    rest, mode = 1 - probability, beta_mode(a, b)
    # Probability below the interval.
    below = np.where(a > b, rest, np.where(a < b, 0.0, rest / 2))
    inside = (a > 1) & (b > 1)
    if np.any(inside):
        below = below.copy()
        below[inside] = _level(a[inside], b[inside], probability)
    low, high = betaincinv(a, b, below), betaincinv(a, b, np.minimum(below + probability, 1.0))
    # Rounding must not leave the mode outside.
    return np.asarray(np.minimum(low, mode)), np.asarray(np.maximum(high, mode))


def _level(a: Float[np.ndarray, " m"], b: Float[np.ndarray, " m"], probability: float) -> Float[np.ndarray, " m"]:
    """Probability below the interval whose ends have one density, by regula falsi with the Illinois rule."""
    from scipy.special import betaincinv, xlog1py, xlogy

    def excess(live: Int[np.ndarray, " r"], below: Float[np.ndarray, " r"]) -> Float[np.ndarray, " r"]:
        """Log density at the lower end minus that at the upper one, within what a step can use; it rises."""
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
        here = excess(live, best)
        solution[live] = best
        up = here > 0
        # The end that stays counts half, so that it moves at the next step.
        at_low, at_high = np.where(up, 0.5 * at_low, here), np.where(up, here, 0.5 * at_high)
        low, high = np.where(up, low, best), np.where(up, best, high)
        more = np.abs(here) >= _EQUAL
        if not np.any(more):
            break
        live, low, high, at_low, at_high = (part[more] for part in (live, low, high, at_low, at_high))
    return solution
