"""Dropout, or blank-out, noise: each entry is kept with probability ``1 − η`` and set to zero otherwise.

Biased (Zhuo, Zhu & Zhang 2015): a kept entry is unchanged, so ``E x̃ = (1 − η) x`` and ``Var = η(1 − η) x²``.
Unbiased (Chen, Zhu, Chen & Chen 2015): a kept entry is divided by ``1 − η``, so ``E x̃ = x``, ``Var = η/(1 − η) x²``.

About a centre ``c`` the entry is set to ``c`` instead: ``x̃ = c + α(x − c)``, and all of this holds for ``x − c``. With
an intercept, which absorbs ``wᵀc``, this is plain dropout on the columns minus ``c``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .._validation import check_flag
from .base import AUTO, Coefficients, Expansion, RateArray, check_centre

__all__ = ["Dropout"]

# Lower bound of the divisor of a kept entry, so that its square does not overflow in single precision. An entry with
# a smaller probability is practically never kept.
_LEAST_KEPT = 1e-17


@dataclass(frozen=True)
class Dropout:
    """Dropout noise.

    Parameters
    ----------
    unbiased : bool, default=False
        Divide kept entries by ``1 − η``, so that the mean of the noised feature is the feature.
    centre : None, "mean", "auto" or array (p,), default="auto"
        Value that a dropped entry takes. None: zero, as published. ``"mean"``: the mean of its column, by the row
        weights. An array: these numbers. ``"auto"`` (default): zero, or the mean for columns in which zero is not a
        typical value, that is, columns of one sign which are non-zero in more than half of the rows and have more than
        one non-zero value; standardised columns, dummies and counts of rare words keep zero. Dense and sparse storage
        give the same result. A centre other than zero needs an intercept; without one ``"auto"`` means None. Fits and
        posteriors store the result as ``centre``, estimators as ``centre_``. See
        :mod:`bayesdrop.fitting.objective.centring`.

    Raises
    ------
    ValueError
        If ``centre`` has another value.

    See Also
    --------
    GaussianNoise, MultiplicativeNoise, Model

    References
    ----------
    - van der Maaten, Chen, Tyree & Weinberger (2013), Learning with marginalized corrupted features, ICML.
    - Zhuo, Zhu & Zhang (2015), Adaptive dropout rates for learning with corrupted features, IJCAI.

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
        check_flag(self.unbiased, "unbiased")
        object.__setattr__(self, "centre", check_centre(self.centre))

    def coefficients(self, rate: RateArray, keep: RateArray | None = None) -> Coefficients:
        """Coefficients of the quadratic variance function of ``x − c``; ``keep`` is a more accurate ``1 − η``."""
        xp = rate.__array_namespace__()
        zero, keep = xp.zeros_like(rate), 1 - rate if keep is None else keep
        if self.unbiased:
            return Coefficients(xp.ones_like(rate), zero, rate / xp.maximum(keep, _LEAST_KEPT), zero, zero)
        return Coefficients(keep, zero, rate * keep, zero, zero)

    def log_multiplier(self, logit: Any) -> Any:
        """Logarithm of the factor on a kept entry: 0, or ``−log(1 − η)`` if unbiased, from logits of rates."""
        xp = logit.__array_namespace__()
        if not self.unbiased:
            return xp.zeros_like(logit)
        return xp.minimum(xp.logaddexp(logit, xp.zeros_like(logit)), -np.log(_LEAST_KEPT))

    def expansion(self, rate: RateArray) -> Expansion:
        """Cumulants of a two-point distribution; its tails are below those of a normal one (Kearns & Saul 1998).

        The remainder, ``η(1 − η)|u|⁵/80``, holds at every rate and ``u``; if both are small, 1/120 would do.
        """
        keep, spread = 1 - rate, rate * (1 - rate)
        scale = 1 / keep if self.unbiased else np.ones_like(rate)
        small = np.finfo(float).tiny
        odds = np.log(np.maximum(keep, small)) - np.log(np.maximum(rate, small))
        # (1 − 2η)/(2 log odds), ¼ at a rate of ½, where both vanish.
        even = np.abs(odds) < 1e-4
        proxy = np.where(even, 0.25, (1 - 2 * rate) / np.where(even, 1.0, 2 * odds))
        return Expansion(
            third=scale**3 * spread * (2 * rate - 1),
            fourth=scale**4 * spread * (1 - 6 * spread),
            remainder=scale**5 * spread / 80,
            powers=(3, 4, 5),
            proxy=scale**2 * np.where(spread > 0, proxy, 0.0),
            tail_scale=0.0,
        )

    def check(self, minimum: float) -> None:
        """Accept any finite data."""

    def sample(self, generator: Any, x: Any, rate: RateArray) -> Any:
        """Drop entries of ``x − c``."""
        is_kept = generator.random(np.shape(x)) >= rate
        return np.where(is_kept, x / (1 - rate) if self.unbiased else x, 0.0)

    def log_mgf(self, t: Any, x: Any, rate: RateArray) -> Any:
        """``log(η + (1 − η) exp(t x'))`` with ``x'`` the kept value."""
        value = x / (1 - rate) if self.unbiased else x
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log(rate), np.log1p(-rate) + t * value)

    def log_mgf_slope(self, t: Any, x: Any, rate: RateArray) -> Any:
        """``x'`` times the probability that it is kept under the tilted law."""
        value = x / (1 - rate) if self.unbiased else x
        return value * np.exp(np.log1p(-rate) + t * value - self.log_mgf(t, x, rate))

    def mgf_limit(self) -> float:
        """Infinite: the moment-generating function is finite everywhere."""
        return np.inf
