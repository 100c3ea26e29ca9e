"""Half-normal and half-Cauchy priors of learnt standard deviations; gamma and inverse gamma priors.

    HalfNormal(a):  p(σ) ∝ exp(−σ²/2a²)          HalfCauchy(a):  p(σ) ∝ 1/(1 + σ²/a²)          σ > 0

(Gelman 2006, sections 3.2 and 5). A scale is stored as its logarithm ``t = log σ``. Both densities of ``t`` are
log-concave, and so are their posteriors given ``m`` normal variables ``w ~ N(0, σ²)``,

    log p(t | w) = log p(t) − m t − ½ e^{−2t} Σ w² + constant,

so there is a single mode. Shapes: ``g`` scales, each with a prior of its own; further axes are chains.

Gamma prior of a number above 0, such as a strength in pseudo-observations:

    p(s) = s^{a−1} exp(−s/b) / (Γ(a) b^a)

Inverse gamma prior of a noise variance:

    p(σ²) = b^a / Γ(a) · (σ²)^{−a−1} exp(−b/σ²)

It is conjugate for the variance of normal noise: given ``n`` residuals ``e`` the posterior has the parameters
``a + n/2`` and ``b + ½ Σ e²``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_number
from .base import check_per_feature, spread_scale

__all__ = [
    "Gamma",
    "HalfCauchy",
    "HalfCauchyLaw",
    "HalfNormal",
    "HalfNormalLaw",
    "InverseGamma",
    "InverseGammaLaw",
    "ScaleLaw",
    "ScalePrior",
]


@runtime_checkable
class ScaleLaw(Protocol):
    """Distribution of ``g`` independent scales: a named tuple of arrays (g,), NumPy's or JAX's."""

    def log_density(self, log_scale: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        """Log density of ``t = log σ`` up to a constant, elementwise, at an array that broadcasts with ``(g,)``."""

    def median(self) -> Float[AnyArray, "*shape"]:
        """Median of ``σ``."""


@runtime_checkable
class ScalePrior(Protocol):
    """Protocol of a prior of a learnt scale."""

    @property
    def has_mean(self) -> bool:
        """True if ``E σ`` is finite."""

    def law(self, groups: int) -> ScaleLaw:
        """Distribution of ``groups`` scales, in double precision; raise ValueError if the prior has another number."""

    def sample(self, generator: np.random.Generator, draws: int, groups: int) -> Float[np.ndarray, "draws g"]:
        """Independent draws of ``σ``."""

    def constants(self, groups: int) -> dict[str, Float[np.ndarray, " g"]]:
        """Constants of the prior that a posterior stores, by name."""

    def in_units(self, unit: float) -> Any:
        """Prior of ``σ/unit``."""


class HalfNormalLaw(NamedTuple):
    """``|N(0, scale²)|``; see :class:`ScaleLaw`."""

    scale: Float[AnyArray, "*law"]

    def log_density(self, log_scale: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        """``t − e^{2t}/2a²``."""
        xp = log_scale.__array_namespace__()
        ratio = xp.exp(log_scale) / self.scale
        return log_scale - 0.5 * ratio * ratio

    def median(self) -> Float[AnyArray, "*law"]:
        """``a Φ⁻¹(¾)``."""
        return 0.6744897501960817 * self.scale


class HalfCauchyLaw(NamedTuple):
    """``|Cauchy(0, scale)|``; see :class:`ScaleLaw`."""

    scale: Float[AnyArray, "*law"]

    def log_density(self, log_scale: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        """``t − log(1 + e^{2t}/a²)``."""
        xp = log_scale.__array_namespace__()
        return log_scale - xp.logaddexp(xp.zeros_like(log_scale), 2 * (log_scale - xp.log(self.scale)))

    def median(self) -> Float[AnyArray, "*law"]:
        """``a``."""
        return self.scale


class InverseGammaLaw(NamedTuple):
    """Square root of an inverse gamma variance; see :class:`ScaleLaw`."""

    shape: Float[AnyArray, "*law"]
    scale: Float[AnyArray, "*law"]

    def log_density(self, log_scale: Float[AnyArray, "*shape"]) -> Float[AnyArray, "*shape"]:
        """``−2at − be^{−2t}``."""
        xp = log_scale.__array_namespace__()
        return -2 * self.shape * log_scale - self.scale * xp.exp(-2 * log_scale)

    def median(self) -> Float[AnyArray, "*law"]:
        """A typical value, ``√(b/a)``, because the median has no closed form; samplers start there."""
        return (self.scale / self.shape) ** 0.5


@dataclass(frozen=True)
class _HalfScale:
    """A scale that is the absolute value of a variable with centre 0; subclasses name its distribution."""

    scale: Any = 1.0
    law_type: ClassVar[Any]
    generator_method: ClassVar[str]
    stored_as: ClassVar[str]

    def __post_init__(self) -> None:
        check_per_feature(self.scale, f"{type(self).__name__} scale", above=0)

    def law(self, groups: int) -> Any:
        """See :class:`ScalePrior`."""
        return self.law_type(spread_scale(self.scale, groups, type(self).__name__, "group"))

    def sample(self, generator: np.random.Generator, draws: int, groups: int) -> Float[np.ndarray, "draws g"]:
        """See :class:`ScalePrior`."""
        return np.abs(getattr(generator, self.generator_method)((draws, groups))) * self.law(groups).scale

    def constants(self, groups: int) -> dict[str, Float[np.ndarray, " g"]]:
        """The scale of each group, by the name of the prior."""
        return {self.stored_as: self.law(groups).scale}

    def in_units(self, unit: float) -> Any:
        """See :class:`ScalePrior`."""
        scale = np.asarray(self.scale, dtype=float) / unit
        return replace(self, scale=scale if scale.ndim else float(scale))


class HalfNormal(_HalfScale):
    """Half-normal prior of a scale, with little mass above three times ``scale``.

    Parameters
    ----------
    scale : float or array (g,), default=1.0
        Standard deviation of the normal variable whose absolute value is the scale, above 0; one per group if an array.

    See Also
    --------
    HalfCauchy, Normal

    Examples
    --------
    >>> round(float(HalfNormal(2.0).law(1).median()[0]), 3)
    1.349
    """

    has_mean: ClassVar[bool] = True
    law_type = HalfNormalLaw
    generator_method = "standard_normal"
    stored_as = "weight_scale_half_normal"


class HalfCauchy(_HalfScale):
    """Half-Cauchy prior of a scale, with heavy tails.

    It has no mean, so the posterior is improper if features separate two classes and the prior of the intercept is
    flat; ``bd.sample`` then raises an error (:mod:`bayesdrop.sampling.propriety`); use ``bd.HalfNormal``.

    Parameters
    ----------
    scale : float or array (g,), default=1.0
        Median, above 0; one per group if an array.

    See Also
    --------
    HalfNormal, Normal

    References
    ----------
    Gelman (2006), Prior distributions for variance parameters in hierarchical models, Bayesian Analysis 1.

    Examples
    --------
    >>> HalfCauchy(0.5).law(2).median().tolist()
    [0.5, 0.5]
    """

    has_mean: ClassVar[bool] = False
    law_type = HalfCauchyLaw
    generator_method = "standard_cauchy"
    stored_as = "weight_scale_half_cauchy"


@dataclass(frozen=True)
class Gamma:
    """Gamma prior.

    Parameters
    ----------
    shape, scale : float
        ``a`` and ``b``, above 0; the mean is ``ab`` and the standard deviation ``b√a``.

    See Also
    --------
    Hierarchical, Beta

    Examples
    --------
    >>> Gamma(2.0, 10.0).mean
    20.0
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        for name in ("shape", "scale"):
            check_number(getattr(self, name), f"Gamma {name}", above=0)

    @property
    def mean(self) -> float:
        """Mean, ``ab``."""
        return float(self.shape * self.scale)


@dataclass(frozen=True)
class InverseGamma:
    """Inverse gamma prior of a variance, equivalent to ``2a`` observations with mean square ``b/a``.

    Parameters
    ----------
    shape, scale : float
        ``a`` and ``b``, above 0; ``b`` in squared units of the response. The mean is ``b/(a − 1)`` for ``a > 1``.

    See Also
    --------
    Squared, HalfNormal

    Examples
    --------
    >>> InverseGamma(2.0, 3.0).mode
    1.0
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        for name in ("shape", "scale"):
            check_number(getattr(self, name), f"InverseGamma {name}", above=0)

    @property
    def mode(self) -> float:
        """Most likely variance, ``b/(a + 1)``."""
        return float(self.scale / (self.shape + 1))

    def law(self, groups: int) -> InverseGammaLaw:
        """Distribution of the square root of the variance; see :class:`ScalePrior`."""
        return InverseGammaLaw(*(np.full(groups, float(part)) for part in (self.shape, self.scale)))

    def sample(self, generator: np.random.Generator, draws: int, groups: int) -> Float[np.ndarray, "draws g"]:
        """Independent draws of the square root of the variance."""
        return np.sqrt(self.scale / generator.gamma(self.shape, size=(draws, groups)))

    def in_units(self, unit: float) -> InverseGamma:
        """Prior of ``σ²/unit²``."""
        return InverseGamma(self.shape, self.scale / unit**2)
