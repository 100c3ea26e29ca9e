"""Noises with one scale: additive Gaussian, additive Laplace and multiplicative Gaussian."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .._validation import check_number
from .base import AUTO, Coefficients, Expansion, RateArray, check_centre

__all__ = ["GaussianNoise", "LaplaceNoise", "MultiplicativeNoise"]


@dataclass(frozen=True)
class _Scaled:
    scale: float = 1.0
    has_rate: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number(self.scale, "scale", least=0)

    def check(self, minimum: float) -> None:
        """Accept any finite data."""

    def mgf_limit(self) -> float:
        """Infinite: the moment-generating function is finite everywhere."""
        return np.inf

    def expansion(self, rate: RateArray) -> Expansion:
        """All zero: a normal distribution has no cumulants after the variance."""
        zero = np.zeros_like(rate)
        return Expansion(zero, zero, zero, powers=(0, 0, 0), proxy=None, tail_scale=0.0)

    def _coefficients(self, rate: RateArray, quadratic: float, constant: float) -> Coefficients:
        xp = rate.__array_namespace__()
        zero, one = xp.zeros_like(rate), xp.ones_like(rate)
        return Coefficients(one, zero, quadratic * one, zero, constant * one)


@dataclass(frozen=True)
class GaussianNoise(_Scaled):
    """Additive ``N(0, scale²)`` noise on every entry, zeros included.

    Parameters
    ----------
    scale : float, default=1.0
        Standard deviation, >= 0, in the units of the features.

    See Also
    --------
    LaplaceNoise, MultiplicativeNoise, Dropout

    References
    ----------
    van der Maaten, Chen, Tyree & Weinberger (2013), Learning with marginalized corrupted features, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> GaussianNoise(2.0).coefficients(np.zeros(1)).constant
    array([4.])
    """

    centre: ClassVar[None] = None

    def coefficients(self, rate: RateArray) -> Coefficients:
        """Coefficients of the quadratic variance function."""
        return self._coefficients(rate, 0.0, self.scale**2)

    def sample(self, generator: Any, x: Any, rate: RateArray) -> Any:
        """Add normal noise."""
        return x + generator.normal(scale=self.scale, size=np.shape(x))

    def log_mgf(self, t: Any, x: Any, rate: RateArray) -> Any:
        """``t x + ½ t² scale²``."""
        return t * x + 0.5 * (t * self.scale) ** 2

    def log_mgf_slope(self, t: Any, x: Any, rate: RateArray) -> Any:
        """``x + t scale²``."""
        return x + t * self.scale**2


@dataclass(frozen=True)
class LaplaceNoise(_Scaled):
    """Additive Laplace noise with the given scale (variance ``2 scale²``) on every entry, zeros included.

    Parameters
    ----------
    scale : float, default=1.0
        Scale of the Laplace distribution, >= 0, in the units of the features.

    See Also
    --------
    GaussianNoise, Dropout

    References
    ----------
    van der Maaten, Chen, Tyree & Weinberger (2013), Learning with marginalized corrupted features, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> LaplaceNoise(2.0).coefficients(np.zeros(1)).constant
    array([8.])
    """

    centre: ClassVar[None] = None

    def coefficients(self, rate: RateArray) -> Coefficients:
        """Coefficients of the quadratic variance function."""
        return self._coefficients(rate, 0.0, 2 * self.scale**2)

    def sample(self, generator: Any, x: Any, rate: RateArray) -> Any:
        """Add Laplace noise."""
        return x + generator.laplace(scale=self.scale, size=np.shape(x))

    def expansion(self, rate: RateArray) -> Expansion:
        """``−log(1 + u²b²)``: fourth cumulant ``12b⁴``, the rest below ``|ub|⁵/5``, tails exponential."""
        zero = np.zeros_like(rate)
        scale = self.scale * np.ones_like(rate)
        return Expansion(zero, 12 * scale**4, scale**5 / 5, powers=(0, 0, 0), proxy=None, tail_scale=self.scale)

    def log_mgf(self, t: Any, x: Any, rate: RateArray) -> Any:
        """``t x − log(1 − t² scale²)``, infinite for real ``|t| scale >= 1``."""
        if np.iscomplexobj(t):
            return t * x - np.log(1 - (t * self.scale) ** 2)
        square = np.minimum((t * self.scale) ** 2, 1.0)
        with np.errstate(divide="ignore"):
            return t * x - np.log1p(-square)

    def log_mgf_slope(self, t: Any, x: Any, rate: RateArray) -> Any:
        """``x + 2 t scale²/(1 − t² scale²)``, infinite for ``|t| scale >= 1``."""
        remainder = 1 - np.minimum((t * self.scale) ** 2, 1.0)
        with np.errstate(divide="ignore"):
            return x + 2 * t * self.scale**2 / remainder

    def mgf_limit(self) -> float:
        """``1/scale``; at larger ``|t|`` the expectation is infinite."""
        return 1 / self.scale if self.scale > 0 else np.inf


@dataclass(frozen=True)
class MultiplicativeNoise(_Scaled):
    """Multiplicative ``N(1, scale²)`` noise on ``x − c``; zeros stay zero if ``c = 0``.

    Parameters
    ----------
    scale : float, default=1.0
        Standard deviation of the factor.
    centre : None, "mean", "auto" or array (p,), default="auto"
        As in :class:`bayesdrop.Dropout`.

    See Also
    --------
    GaussianNoise, Dropout

    References
    ----------
    van der Maaten, Chen, Tyree & Weinberger (2013), Learning with marginalized corrupted features, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> MultiplicativeNoise(2.0).coefficients(np.zeros(1)).quadratic
    array([4.])
    """

    centre: Any = field(default=AUTO, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "centre", check_centre(self.centre))

    def coefficients(self, rate: RateArray) -> Coefficients:
        """Coefficients of the quadratic variance function."""
        return self._coefficients(rate, self.scale**2, 0.0)

    def sample(self, generator: Any, x: Any, rate: RateArray) -> Any:
        """Multiply by normal noise."""
        return x * generator.normal(1.0, self.scale, size=np.shape(x))

    def log_mgf(self, t: Any, x: Any, rate: RateArray) -> Any:
        """``t x + ½ t² x² scale²``."""
        return t * x + 0.5 * (t * x * self.scale) ** 2

    def log_mgf_slope(self, t: Any, x: Any, rate: RateArray) -> Any:
        """``x + t x² scale²``."""
        return x + t * (x * self.scale) ** 2
