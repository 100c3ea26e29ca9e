"""The model: a loss, a feature noise, dropout rates, a loss weight and a weight prior.

    w ~ N(0, P⁻¹),  η_d ~ Beta(A, B),  α_id ~ Bernoulli(1 − η_d) where x_id ≠ 0,
    y_i ~ exp(−C · loss(y_i, wᵀ(x_i∘α_i) + b))

on ``x − c`` where the noise is centred at ``c`` (:mod:`bayesdrop.fitting.objective.centring`),
and its marginalised energy ``U(w) = ½ wᵀPw + C Σ s_i φ(y_i, m_i, v_i)``.

Missing entries, where the model takes them, are dropped entries whose masks are known:

    α_id = 0 where x_id is missing,    α_id ~ Bernoulli(1 − η_d) where it is there

so that a missing entry is ``c`` and has no variance. What goes missing has a law of its own, whose parameters are apart
from ``w`` and ``η``: given which entries are there, the likelihood is that of their masks alone, and a missing entry
tells nothing of a rate. One mechanism for both would tell no more: were a share ``ρ`` of the dropped entries seen to be
missing, ``M`` of them next to ``D`` dropped and ``K`` kept ones would have the probability

    (ηρ)^M {η(1 − ρ)}^D (1 − η)^K = π^M (1 − π)^{D+K} η'^D (1 − η')^K,   π = ηρ,  η' = η(1 − ρ)/(1 − ηρ),

in which the rate ``η'`` of entries that are there has no ``M``. ``bd.PerFeature(bd.Beta(a + M, b))`` counts them all
the same: on seven tables that is 0.002 better in log loss where the strength of the rates is tuned, and 0.03 worse by
the published rule (``benchmarks.missing``).

That an entry is missing tells nothing of ``y`` here. Where it does, as where large values go missing, give columns that
say so in addition to the others, those of ``sklearn.impute.MissingIndicator``; and where features say much of each
other, fill them in from each other before, as ``sklearn.impute.IterativeImputer`` and ``KNNImputer`` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ._validation import check_choice, check_flag, check_instance, check_number
from .losses import Logistic, Loss
from .noise import Dropout, Noise
from .priors import CentredIntercept, Normal, WeightPrior
from .priors.intercept import check_intercept_prior
from .rates import Fixed, PerFeature, RateMap, Rates

__all__ = ["Model", "check_model", "refuse_stated_priors", "require_complete"]


@dataclass(frozen=True)
class Model:
    """A linear model under feature noise.

    Parameters
    ----------
    loss : Loss, optional
        ``bd.Logistic()``, ``bd.Hinge()``, ``bd.EpsilonInsensitive()``, ``bd.Quantile()`` or ``bd.Squared()``;
        ``bd.Softmax()`` for more than two classes; ``bd.Poisson()``, ``bd.NegativeBinomial()`` or ``bd.Binomial()`` for
        counts; each with an ``expectation``; or any other :class:`bayesdrop.losses.Loss`.
    noise : Noise, optional
        ``bd.Dropout()`` (biased) by default: a dropped entry becomes 0, or the mean of its column where 0 is not a
        typical value of the column; see its ``centre``.
    rates : Rates, optional
        ``bd.Fixed``, ``bd.Shared``, ``bd.PerFeature`` or ``bd.PerGroup``; by default one rate per feature under a
        flat prior. A noise without a dropout rate takes none.
    C : float, default=1.0
        Weight of the loss, with the meaning that it has in scikit-learn: ``U = ½‖w‖² + C Σ loss``. It is the c of
        Chen et al. (2015) for the hinge, half of it for the logistic loss, and ``1/(2c)`` of Zhuo et al. (2015).
    weight_prior : Normal, Laplace, Horseshoe or SpikeSlab, optional
        Prior of the weights. By default normal with scale 1, where ``bd.sample`` learns the scale of numeric responses
        in units of their standard deviation, so that their unit does not matter. A point fit needs ``bd.Normal`` with a
        known scale, or ``bd.Laplace``; ``bd.sample`` accepts every prior.
    fit_intercept : bool, default=True
        Add an intercept, which is not noised, and not penalised unless ``intercept_prior`` is given.
    missing : None or "nan", optional
        How NaN in the features is treated. None (default): as an error. ``"nan"``: as a missing entry, that is, as a
        dropped one; see above. This needs a noise with dropout rates, and rows in memory.
    intercept_prior : Normal, optional
        Prior of the intercept at the means of the columns, ``b + wᵀx̄``, such as ``bd.Normal(2.5, mean=0.0)``: of the
        score where every column is at its mean, by the row weights; effects of random terms count as 0 there. Flat by
        default. Not for ``bd.Softmax()``, ``bd.variational`` and hidden layers.

    See Also
    --------
    fit, sample

    Examples
    --------
    >>> Model(C=0.5).loss
    Logistic(expectation='augmentation')
    """

    loss: Loss = field(default_factory=Logistic)
    noise: Noise = field(default_factory=Dropout)
    rates: Rates | None = None
    C: float = 1.0
    weight_prior: WeightPrior = field(default_factory=lambda: Normal(1.0, of_response=True))
    fit_intercept: bool = True
    missing: str | None = None
    intercept_prior: Normal | CentredIntercept | None = None

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
        C = check_number(self.C, "C", above=0)
        if not isinstance(self.C, int | float):  # a long double would turn arrays into such, which BLAS does not take
            object.__setattr__(self, "C", C)
        check_flag(self.fit_intercept, "fit_intercept")
        if self.intercept_prior is not None:
            check_intercept_prior(self.intercept_prior)
        if self.intercept_prior is not None and not self.fit_intercept:
            raise ValueError("intercept_prior: the model has no intercept, for fit_intercept is False; leave one out.")
        check_choice(self.missing, "missing", (None, "nan"))
        if self.missing is not None and not self.noise.has_rate:
            raise ValueError(
                f"missing: a missing entry is a dropped one, and {self.noise!r} drops none; use bd.Dropout(), with "
                "rates=bd.Fixed(0.0) for no other noise, or fill in the entries before."
            )

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


def require_complete(model: Model, what: str) -> None:
    """Raise ValueError if the model takes missing entries, and ``what`` does not.

    Examples
    --------
    >>> require_complete(Model(missing="nan"), "bd.sample_latent")
    Traceback (most recent call last):
    ValueError: missing: bd.sample_latent takes no missing entries; fill them in before, ...
    """
    if model.missing is not None:
        raise ValueError(
            f"missing: {what} takes no missing entries; fill them in before, as sklearn.impute.SimpleImputer does, and "
            "leave missing out."
        )


def refuse_stated_priors(model: Model, n_features: int, what: str, remedy: str = "leave it out") -> None:
    """Raise ValueError if weights have prior means other than 0, or the intercept a prior that is not flat.

    ``what`` takes no such prior.

    Examples
    --------
    >>> refuse_stated_priors(Model(weight_prior=Normal(1.0, mean=0.5)), 2, "a hidden layer")
    Traceback (most recent call last):
    ValueError: Normal mean: a hidden layer takes weight priors with mean 0, got ...; leave it out.
    """
    if model.weight_prior.location(n_features) is not None:
        raise ValueError(f"Normal mean: {what} takes weight priors with mean 0, got {model.weight_prior!r}; {remedy}.")
    if model.intercept_prior is not None:
        raise ValueError(
            f"intercept_prior: {what} takes a flat prior of the intercept, got {model.intercept_prior!r}; {remedy}."
        )
