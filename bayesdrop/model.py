"""The model: a loss, a feature noise, dropout rates, a loss weight and a weight prior.

    w ~ N(0, P⁻¹),  η_d ~ Beta(A, B),  α_id ~ Bernoulli(1 − η_d) where x_id ≠ 0,
    y_i ~ exp(−C · loss(y_i, wᵀ(x_i∘α_i) + b))

on ``x − c`` where the noise is centred at ``c`` (:mod:`bayesdrop.fitting.centring`),
and its marginalised energy ``U(w) = ½ wᵀPw + C Σ s_i φ(y_i, m_i, v_i)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ._validation import check_flag, check_instance, check_number
from .losses import Logistic, Loss
from .noise import Dropout, Noise
from .priors import Normal, WeightPrior
from .rates import Fixed, PerFeature, RateMap, Rates

__all__ = ["Model", "check_model"]


@dataclass(frozen=True)
class Model:
    """A linear model under feature noise.

    Parameters
    ----------
    loss : Loss
        ``bd.Logistic()``, ``bd.Hinge()``, ``bd.EpsilonInsensitive()``, ``bd.Quantile()`` or ``bd.Squared()``; of many
        classes ``bd.Softmax()``; of counts ``bd.Poisson()``, ``bd.NegativeBinomial()`` or ``bd.Binomial()``; each with
        an ``expectation``; or any other :class:`bayesdrop.losses.Loss`.
    noise : Noise
        ``bd.Dropout()`` (biased) by default: a dropped entry becomes 0, or the mean of its column where 0 is no usual
        value of it; see ``centre`` there.
    rates : Rates, optional
        ``bd.Fixed``, ``bd.Shared``, ``bd.PerFeature`` or ``bd.PerGroup``; by default one rate per feature under a
        flat prior. A noise without a dropout rate takes none.
    C : float
        Weight of the loss, with the meaning that it has in scikit-learn: ``U = ½‖w‖² + C Σ loss``. It is the c of
        Chen et al. (2015) for the hinge, half of it for the logistic loss, and ``1/(2c)`` of Zhuo et al. (2015).
    weight_prior : Normal, Laplace or Horseshoe
        Prior of the weights; the intercept is flat. A point fit takes ``bd.Normal`` of a known scale, ``bd.sample``
        all.
    fit_intercept : bool
        Add an intercept, which is neither noised nor penalised.

    Examples
    --------
    >>> Model(C=0.5).loss
    Logistic(expectation='augmentation')
    """

    loss: Loss = field(default_factory=Logistic)
    noise: Noise = field(default_factory=Dropout)
    rates: Rates | None = None
    C: float = 1.0
    weight_prior: WeightPrior = field(default_factory=Normal)
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        for name, kind, example in (
            ("loss", Loss, "bd.Logistic()"),
            ("noise", Noise, "bd.Dropout()"),
            ("weight_prior", WeightPrior, "bd.Normal(1.0)"),
        ):
            check_instance(getattr(self, name), name, kind, f"an object such as {example}")
        check_instance(self.rates, "rates", Rates, "an object such as bd.PerFeature() or bd.Fixed(0.3)", none=True)
        if self.rates is not None and not self.noise.has_rate:
            raise ValueError(f"rates: {self.noise!r} has no dropout rate, so it takes no rates; got {self.rates!r}.")
        if self.loss.class_rates and not self.noise.has_rate:
            raise ValueError(
                f"class_rates: {self.noise!r} has no dropout rate that a class could have for itself; leave "
                "class_rates out, or use bd.Dropout()."
            )
        check_number(self.C, "C", above=0)
        check_flag(self.fit_intercept, "fit_intercept")

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map the features to free rates; see :class:`bayesdrop.rates.RateMap`."""
        if not self.noise.has_rate:
            return Fixed(0.0).bind(feature_names)
        rates: Any = PerFeature() if self.rates is None else self.rates
        rate_map: RateMap = rates.bind(feature_names)
        return rate_map


def check_model(model: Any) -> Model:
    """Return a model, or raise TypeError.

    Examples
    --------
    >>> check_model("logistic")
    Traceback (most recent call last):
    TypeError: model: expected an object such as bd.Model(), got 'logistic'.
    """
    checked: Model = check_instance(model, "model", Model, "an object such as bd.Model()")
    return checked
