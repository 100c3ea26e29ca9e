"""Poisson noise: a count ``x`` is replaced by a Poisson draw with mean ``x`` (van der Maaten et al. 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .base import Coefficients, Expansion, RateArray

__all__ = ["PoissonNoise"]


@dataclass(frozen=True)
class PoissonNoise:
    """Poisson noise on non-negative features; it has no rate.

    See Also
    --------
    MultiplicativeNoise, Dropout

    References
    ----------
    van der Maaten, Chen, Tyree & Weinberger (2013), Learning with marginalized corrupted features, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> PoissonNoise().coefficients(np.zeros(1)).linear
    array([1.])
    """

    has_rate: ClassVar[bool] = False
    centre: ClassVar[None] = None

    def coefficients(self, rate: RateArray) -> Coefficients:
        """Coefficients of the quadratic variance function."""
        xp = rate.__array_namespace__()
        zero, one = xp.zeros_like(rate), xp.ones_like(rate)
        return Coefficients(one, zero, zero, one, zero)

    def expansion(self, rate: RateArray) -> Expansion:
        """All cumulants are ``x``; the rest of the series of ``e^{iu}`` is ``|u|⁵/120`` at most; Bernstein tails."""
        one = np.ones_like(rate)
        return Expansion(one, one, one / 120, powers=(1, 1, 1), proxy=None, tail_scale=1 / 3)

    def check(self, minimum: float) -> None:
        """Refuse negative data, which cannot be the mean of a Poisson variable."""
        if minimum < 0:
            raise ValueError(
                f"X: Poisson noise needs x >= 0, got an entry of {minimum:g}; shift or rescale the features, "
                "or use another noise such as bd.Dropout()."
            )

    def sample(self, generator: Any, x: Any, rate: RateArray) -> Any:
        """Draw Poisson counts with mean ``x``."""
        return generator.poisson(x).astype(float)

    def log_mgf(self, t: Any, x: Any, rate: RateArray) -> Any:
        """``x (e^t − 1)``."""
        return x * np.expm1(t)

    def log_mgf_slope(self, t: Any, x: Any, rate: RateArray) -> Any:
        """``x e^t``."""
        return x * np.exp(t)

    def mgf_limit(self) -> float:
        """Infinite: the moment-generating function is finite everywhere."""
        return np.inf
