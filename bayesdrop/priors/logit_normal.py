r"""Logit-normal prior of a dropout rate: ``log η − log(1 − η)`` is normal.

    l ~ N(μ, σ²),      η = 1/(1 + e^{−l})

(Aitchison & Shen 1980). Not conjugate to counts: given ``d`` entries dropped and ``k`` kept the log density of the
logit is ``−(l − μ)²/2σ² + d log η + k log(1 − η)``, which is concave, so that the learnt rate solves

    logit η = μ + σ² {d − (d + k) η}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._typing import AnyArray, Float, Num
from .._validation import check_numbers, shown
from .counted_law import CountedLaw
from .rate_prior import spread_over_rates

__all__ = ["LogitNormal", "LogitNormalLaw"]


@dataclass(frozen=True)
class LogitNormal:
    """Logit-normal prior; the default is close to flat between 0.1 and 0.9.

    A learnt rate is the one at the most likely *logit*, the scale of the prior: it is never 0 or 1, and
    unique, where the density of the rate itself has two modes if ``scale`` is above ``√2`` and the data say little.

    Parameters
    ----------
    mean : float or array, default=0.0
        Mean of the logit, the log-odds of the median rate; an array holds one value per rate.
    scale : float or array, default=1.5
        Standard deviation of the logit, above 0.

    See Also
    --------
    Beta, PerFeature

    References
    ----------
    Aitchison & Shen (1980), Logistic-normal distributions, Biometrika 67.

    Examples
    --------
    >>> LogitNormal(mean=-1.0, scale=0.5).median
    0.2689414213699951
    """

    mean: Any = 0.0
    scale: Any = 1.5

    def __post_init__(self) -> None:
        mean = check_numbers(self.mean, "LogitNormal mean", "finite numbers")
        if not (mean.ndim <= 1 and np.all(np.isfinite(mean))):
            raise ValueError(f"LogitNormal mean: expected finite numbers, got {shown(self.mean)}.")
        scale = check_numbers(self.scale, "LogitNormal scale", "finite numbers above 0")
        if not (scale.ndim <= 1 and np.all(np.isfinite(scale)) and np.all(scale > 0)):
            raise ValueError(f"LogitNormal scale: expected finite numbers above 0, got {shown(self.scale)}.")

    @property
    def median(self) -> Any:
        """Median rate."""
        value = 1 / (1 + np.exp(-np.asarray(self.mean, dtype=float)))
        return value if value.ndim else float(value)

    @property
    def relative(self) -> bool:
        """False: the prior is the same however often a rate applies."""
        return False

    def law(self, occurrences: Num[np.ndarray, "*law"]) -> LogitNormalLaw:
        """Law of rates that apply so many times, shaped like ``occurrences`` (k, ...)."""
        shape = np.shape(occurrences)
        mean, scale = (spread_over_rates(value, shape, "LogitNormal") for value in (self.mean, self.scale))
        return LogitNormalLaw(np.broadcast_to(mean, shape), np.broadcast_to(scale, shape))

    @staticmethod
    def stored_law(constants: Mapping[str, Num[np.ndarray, "*law"]]) -> LogitNormalLaw | None:
        """The law of constants ``logit_mean`` and ``logit_scale``."""
        names = ("logit_mean", "logit_scale")
        return LogitNormalLaw(*(constants[name] for name in names)) if set(constants) == set(names) else None


class LogitNormalLaw(NamedTuple):
    """Normal law of the logit of each rate; a :class:`~bayesdrop.priors.rate_prior.RateLaw`.

    Attributes
    ----------
    location, scale : array (k, ...)
        Mean and standard deviation of the logit.
    """

    location: Float[AnyArray, "*law"]
    scale: Float[AnyArray, "*law"]

    def log_density(self, logit: Float[AnyArray, "*law"]) -> Float[AnyArray, "*law"]:
        """``−(l − μ)²/2σ²``, elementwise."""
        z = (logit - self.location) / self.scale
        return -0.5 * z * z

    def slope(self, logit: Float[AnyArray, "*law"]) -> Float[AnyArray, "*law"]:
        """Derivative of :meth:`log_density`."""
        return (self.location - logit) / (self.scale * self.scale)

    def log_rate_density(
        self, log_rate: Float[AnyArray, "*law"], log_rest: Float[AnyArray, "*law"]
    ) -> Float[AnyArray, "*law"]:
        """``−(l − μ)²/2σ² − log η − log(1 − η)``, elementwise."""
        return self.log_density(log_rate - log_rest) - log_rate - log_rest

    def width(self) -> Float[AnyArray, "*law"]:
        """Five standard deviations."""
        return 5 * self.scale

    def given(self, dropped: Float[AnyArray, "*law"], occurrences: Float[AnyArray, "*law"]) -> CountedLaw:
        """The law given counts, by quadrature."""
        return CountedLaw(self, dropped, occurrences - dropped)

    def draw_logit(self, key: Any) -> Any:
        """Logits drawn by a key of JAX."""
        import jax

        return self.location + self.scale * jax.random.normal(key, self.location.shape, self.location.dtype)

    def quantile(self, probability: Any) -> Float[np.ndarray, "*law"]:
        """Rate below which lies the probability."""
        from scipy.special import expit, ndtri

        return np.asarray(expit(self.location + self.scale * ndtri(probability)))

    def sample(self, generator: np.random.Generator, draws: int) -> Float[np.ndarray, "draws ..."]:
        """Independent draws of the rates."""
        from scipy.special import expit

        normal = generator.standard_normal((draws, *np.shape(self.location)))
        return np.asarray(expit(self.location + self.scale * normal))

    def constants(self) -> dict[str, Float[np.ndarray, "*law"]]:
        """``logit_mean`` and ``logit_scale``."""
        return {"logit_mean": self.location, "logit_scale": self.scale}
