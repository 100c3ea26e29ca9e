"""Dropout, or blank-out, noise: each entry is kept with probability ``1 − η`` and set to zero otherwise.

Biased (Zhuo, Zhu & Zhang 2015): a kept entry stays as it is, so ``E x̃ = (1 − η) x`` and ``Var = η(1 − η) x²``.
Unbiased (Chen, Zhu, Chen & Chen 2015): a kept entry is divided by ``1 − η``, so ``E x̃ = x``, ``Var = η/(1 − η) x²``.

About a centre ``c`` the entry is set to ``c`` instead: ``x̃ = c + α(x − c)``, and all of this holds of ``x − c``. With
an intercept, which takes up ``wᵀc``, that is plain dropout on the columns less ``c``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .base import Array, Coefficients
from .centre import AUTO, check_centre

__all__ = ["Dropout"]


@dataclass(frozen=True)
class Dropout:
    """Dropout noise.

    Parameters
    ----------
    unbiased : bool
        Divide kept entries by ``1 − η``, so that the mean of the noised feature is the feature.
    centre : None, "mean", "auto" or array (p,)
        What a dropped entry becomes. None: zero, as published. ``"mean"``: the mean of its column, weighted as the
        rows are. An array: the numbers given. ``"auto"`` (default): zero, but the mean where zero is no usual value of
        a column, which is dense, of one sign, non-zero in more than half of the rows and has more than one value other
        than zero; standardised columns, dummies, counts of rare words and sparse columns keep zero. Anything but zero
        takes a dense matrix in memory and an intercept, without which ``"auto"`` is None. Fits and posteriors say what
        was done in ``centre``, estimators in ``centre_``. See :mod:`bayesdrop.centring`.

    Raises
    ------
    ValueError
        If ``centre`` is something else.

    Examples
    --------
    >>> import numpy as np
    >>> Dropout().coefficients(np.array([0.5])).gain
    array([0.5])
    >>> Dropout(centre=[1.0, 0.0])
    Dropout(unbiased=False, centre=(1.0, 0.0))
    """

    unbiased: bool = False
    centre: Any = field(default=AUTO, kw_only=True)
    has_rate: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", check_centre(self.centre))

    def coefficients(self, rate: Array) -> Coefficients:
        """Coefficients of the quadratic variance function of ``x − c``."""
        xp = rate.__array_namespace__()
        zero = xp.zeros_like(rate)
        if self.unbiased:
            return Coefficients(xp.ones_like(rate), zero, rate / (1 - rate), zero, zero)
        return Coefficients(1 - rate, zero, rate * (1 - rate), zero, zero)

    def check(self, minimum: float) -> None:
        """Accept any finite data."""

    def sample(self, generator: Any, x: Array, rate: Array) -> Array:
        """Drop entries of ``x − c``."""
        kept = generator.random(np.shape(x)) >= rate
        return np.where(kept, x / (1 - rate) if self.unbiased else x, 0.0)

    def log_mgf(self, t: Array, x: Array, rate: Array) -> Array:
        """``log(η + (1 − η) exp(t x'))`` with ``x'`` the kept value."""
        kept = x / (1 - rate) if self.unbiased else x
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log(rate), np.log1p(-rate) + t * kept)

    def log_mgf_slope(self, t: Array, x: Array, rate: Array) -> Array:
        """``x'`` times the probability that it is kept under the tilted law."""
        kept = x / (1 - rate) if self.unbiased else x
        return kept * np.exp(np.log1p(-rate) + t * kept - self.log_mgf(t, x, rate))

    def mgf_limit(self) -> float:
        """Infinite: the moment-generating function is finite everywhere."""
        return np.inf
