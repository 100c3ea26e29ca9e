r"""Squared loss ``½(y − s)²``, whose expectation ``½((y − m)² + v)`` needs no bound: every form of it is exact.

The loss is a Gaussian pseudo-observation, ``ω = C`` and ``κ = C y``: dropout ridge regression has a closed form
(van der Maaten, Chen, Tyree & Weinberger 2013, section 3.1; Wager, Wang & Liang 2013).

If the variance is learnt, the row weight ``s_i`` is a power of the likelihood of row ``i``, ``N(y_i; score,
σ²)^{s_i}``: weight 2 equals the row twice, and ``log p(σ | ·) = log p(σ) − Σ s_i log σ − ½ Σ s_i (y_i −
score_i)²/σ²``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._typing import AnyArray, Float
from ..priors import InverseGamma, ScalePrior
from .base import (
    Derivatives,
    Loss,
    Parameter,
    Pseudo,
    Responses,
    ScoreCost,
    Scores,
    check_scale_setting,
    choose_form,
    learnt_scale,
)

__all__ = ["Squared"]

_FORMS = dict.fromkeys(("augmentation", "gaussian", "taylor"), True)


@dataclass(frozen=True)
class Squared(Loss):
    """Squared loss of ridge regression, ``½(y − s)²/variance``: normal responses.

    Parameters
    ----------
    variance : float, HalfNormal, HalfCauchy or InverseGamma, optional
        Variance ``σ²`` of a response given its score, above 0, in squared units of the response. By default
        ``bd.sample`` learns it and stores its root as ``sigma``, under the prior ``σ ~ HalfNormal(sd of the
        response)``; ``bd.HalfNormal(...)`` and ``bd.HalfCauchy(...)`` are other priors of ``σ``, in units of the
        response, and ``bd.InverseGamma(...)`` is one of ``σ²``. ``bd.fit`` minimises the same energy whatever the prior
        is, with variance 1, and estimates the variance from the residuals.
    expectation : str, default="augmentation"
        ``"augmentation"``, ``"gaussian"`` or ``"taylor"``: for this loss all are exact and equal.

    See Also
    --------
    EpsilonInsensitive, Quantile, DropoutRidge

    Examples
    --------
    >>> import numpy as np
    >>> float(Squared().value(np.array(1.0), np.array(3.0), np.array(0.5)))
    2.25
    >>> [parameter.name for parameter in Squared().parameters], Squared(variance=4.0).parameters
    (['sigma'], ())
    """

    variance: float | ScalePrior | InverseGamma | None = None
    expectation: str = "augmentation"
    quadratic: ClassVar[bool] = True
    binary: ClassVar[bool] = False
    augmented: ClassVar[bool] = True
    separable: ClassVar[bool] = True
    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        choose_form(_FORMS, self.expectation, "Squared")
        check_scale_setting(self, "variance", InverseGamma)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """``sigma``, unless the variance is a number; see :class:`bayesdrop.losses.base.Loss`."""
        return learnt_scale(self.variance, "variance", 2)

    @property
    def plain(self) -> Squared:
        """See :class:`bayesdrop.losses.base.Loss`; a learnt variance becomes 1, because a value needs a number."""
        return replace(self, variance=1.0) if self.parameters else self

    @property
    def precision(self) -> float:
        """``1/σ²`` if the variance is known, and else 1."""
        return 1 / self.variance if isinstance(self.variance, float) else 1.0

    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        """Expected loss; see :class:`bayesdrop.losses.base.Loss`."""
        residual = y - mean
        return 0.5 * self.precision * (residual * residual + var)

    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.protocols.Curved`."""
        xp = mean.__array_namespace__()
        zero, one = xp.zeros_like(mean), self.precision * xp.ones_like(mean)
        return Derivatives(mean=self.precision * (mean - y), var=0.5 * one, mean_mean=one, mean_var=zero, var_var=zero)

    def plain_value_and_slope(self, y: Responses, score: Scores) -> tuple[Scores, Scores]:
        """``½(y − s)²/σ²`` and ``(s − y)/σ²``."""
        residual = y - score
        slope = self.precision * residual
        return 0.5 * slope * residual, -slope

    def score_cost(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> ScoreCost:
        """Cost of a normal score; see :class:`bayesdrop.losses.protocols.Scored`."""
        xp = mean.__array_namespace__()
        weight = self.precision * weight
        residual, shrunk = y - mean, weight / (1 + weight * var)
        square = shrunk * residual * residual
        return ScoreCost(0.5 * (xp.log1p(weight * var) + square), -shrunk * residual, 0.5 * shrunk * (1 - square))

    def pseudo(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """``ω = C/σ²``, ``κ = ωy``, for every score."""
        omega = self.precision * weight * mean.__array_namespace__().ones_like(mean)
        return Pseudo(omega, omega * y)

    def sample_pseudo(self, key: Any, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """As :meth:`pseudo`: there is nothing to draw."""
        return self.pseudo(y, mean, var, weight)

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw from ``N(s, σ²/C)``; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return score + generator.normal(size=np.shape(score)) / np.sqrt(self.precision * weight)

    def log_constant(self, weight: Any) -> Float[AnyArray, ...]:
        """``½ log(C/2πσ²)``; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return 0.5 * np.log(self.precision * np.asarray(weight, dtype=np.float64) / (2 * np.pi))
