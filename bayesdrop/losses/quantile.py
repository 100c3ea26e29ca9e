r"""Check loss ``ρ(u) = τ max(0, u) + (1 − τ) max(0, −u)`` of a quantile, with the residual ``u = y − s``.

Its minimiser over ``s`` is the ``τ`` quantile of ``y`` (Koenker & Bassett 1978), and ``C τ(1 − τ) exp(−Cρ)`` is the
asymmetric Laplace density (Yu & Moyeed 2001). As ``ρ(u) = ½|u| + (τ − ½)u``, one auxiliary variable suffices:

    e^{−Cρ(u)} = 2 e^{−C(τ − ½)u} ∫ N(½Cu; 0, λ) Exp(λ; rate ½) dλ,    λ | u ~ GIG(½, 1, ¼C²u²),

which is the mixture of Kozumi & Kobayashi (2011, section 2.2) in the scale of :mod:`bayesdrop.losses.positive_part`.
Jensen's bound with λ profiled out is

    φ = ½√(Δ² + v) + (τ − ½)Δ,    ω = C / (2√(Δ² + v)),    κ = ωy + C(τ − ½),    Δ = y − m.

Twice the loss of ``τ = ½`` is the ε-insensitive loss of ``ε = 0``. At the scale ``σ`` the loss is ``ρ(u)/σ`` and the
density ``τ(1 − τ)/σ · exp{−ρ(u)/σ}``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_number
from ..priors import ScalePrior
from . import normal_score, positive_part
from .base import Parameter, Pseudo, Responses, ScoreCost, Scores, check_scale_setting, choose_form, learnt_scale
from .protocols import Interval

__all__ = ["Quantile"]


@dataclass(frozen=True)
class Quantile(positive_part.PiecewiseLoss):
    """Check loss of quantile regression: the score is the ``tau`` quantile of ``y``.

    Parameters
    ----------
    tau : float, default=0.5
        Level of the quantile, in (0, 1); 0.5 is the median.
    scale : float, HalfNormal or HalfCauchy, optional
        Scale ``σ`` of the asymmetric Laplace distribution, above 0, in units of the response, or its prior. By default
        ``bd.sample`` learns it under the prior ``HalfNormal(sd of the response)`` and stores it as ``sigma``. For every
        prior ``bd.fit`` minimises the same energy, at scale 1.
    expectation : str, default="augmentation"
        ``"augmentation"`` or ``"gaussian"``; see :mod:`bayesdrop.losses.base`.

    See Also
    --------
    EpsilonInsensitive, DropoutQuantileRegressor

    Notes
    -----
    The asymmetric Laplace distribution is a working likelihood: it centres the posterior on the quantile, and responses
    need not follow it. Intervals of weights and scores assume this distribution: they have about the right width where
    it fits, and need not cover elsewhere (Yang, Wang & He 2016 correct them). Intervals of new responses are quantiles
    of this distribution about the score: for data of another shape they are not prediction intervals; for these, fit
    two quantiles.

    References
    ----------
    - Koenker & Bassett (1978), Regression quantiles, Econometrica 46.
    - Kozumi & Kobayashi (2011), J. Stat. Comput. Simul. 81.
    - Yang, Wang & He (2016), Posterior inference in Bayesian quantile regression with asymmetric Laplace likelihood,
      International Statistical Review 84.

    Examples
    --------
    >>> import numpy as np
    >>> Quantile(0.75).value(np.array([2.0, -2.0]), np.zeros(2), np.zeros(2)).tolist()
    [1.5, 0.5]
    """

    tau: float = 0.5
    scale: float | ScalePrior | None = None
    expectation: str = "augmentation"
    binary: ClassVar[bool] = False
    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number(self.tau, "tau", above=0, below=1, advice="the median has 0.5, the upper decile 0.9")
        check_scale_setting(self, "scale")
        choose_form(
            positive_part.FORMS,
            self.expectation,
            "Quantile",
            ' The loss is piecewise linear: its Taylor penalty is zero; expectation="gaussian" is exact.',
        )

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """``sigma``, unless the scale is a number; see :class:`bayesdrop.losses.base.Loss`."""
        return learnt_scale(self.scale, "scale", 1)

    @property
    def plain(self) -> Quantile:
        """See :class:`bayesdrop.losses.base.Loss`."""
        return replace(self, expectation="augmentation", scale=1.0 if self.parameters else self.scale)

    @property
    def precision(self) -> float:
        """``1/σ`` if the scale is known, and else 1."""
        return 1 / self.scale if isinstance(self.scale, float) else 1.0

    @property
    def _sides(self) -> tuple[float, float]:
        """``τ/σ`` and ``(1 − τ)/σ``."""
        return self.tau * self.precision, (1 - self.tau) * self.precision

    @property
    def score_is(self) -> str:
        """See :class:`bayesdrop.losses.base.Loss`."""
        return f"{self.tau:g} quantile of the response"

    def parts(self, y: Responses) -> tuple[tuple[float, Scores, Any], ...]:
        """Two parts, ``τ/σ max(0, y − s)`` and ``(1 − τ)/σ max(0, s − y)``."""
        up, down = self._sides
        return (up, y, 1.0), (down, -y, -1.0)

    def interval(self, y: Responses, weight: Any) -> Interval:
        """``−(1 − τ)c/σ <= β <= τc/σ``; see :class:`bayesdrop.losses.protocols.PiecewiseLinear`."""
        up, down = self._sides
        return Interval(y, -down * weight, up * weight, np.zeros(np.shape(y)))

    def score_cost(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> ScoreCost:
        """Cost of a normal score; see :class:`bayesdrop.losses.protocols.Scored`."""
        up, down = self._sides
        part = normal_score.of_two_sides(y - mean, var, up * weight, down * weight)
        return part._replace(mean=-part.mean)

    def sample_pseudo(self, key: Any, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """Draw ``λ ~ GIG(½, 1, ¼C²(Δ² + v))`` and return ``(¼C²/λ, ωy + C(τ − ½))``, with ``C/σ`` for ``C``."""
        weight = self.precision * weight
        omega = positive_part.draw_precision(key, y - mean, var, weight / 2)
        return Pseudo(omega, omega * y + weight * (self.tau - 0.5))

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw ``y`` with the asymmetric Laplace density ``C τ(1 − τ) exp{−Cρ(y − s)}``, with ``C/σ`` for ``C``.

        With probability ``1 − τ`` it exceeds the score, by an exponential variable of rate ``Cτ``; else it is below the
        score by one of rate ``C(1 − τ)``.
        """
        shape, (up, down) = np.shape(score), self._sides
        distance = generator.exponential(size=shape) / weight
        above = generator.random(shape) >= self.tau
        return score + np.where(above, distance / up, -distance / down)

    def log_constant(self, weight: Any) -> Float[AnyArray, ...]:
        """``log{C τ(1 − τ)/σ}``; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return np.log(self.tau * self._sides[1] * np.asarray(weight, dtype=np.float64))
