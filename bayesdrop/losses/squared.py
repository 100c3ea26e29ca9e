r"""Squared loss ``½(y − s)²``, whose expectation ``½((y − m)² + v)`` needs no bound: every form of it is exact.

It is its own Gaussian pseudo-observation, ``ω = C`` and ``κ = C y``: dropout ridge regression has a closed form
(van der Maaten, Chen, Tyree & Weinberger 2013, section 3.1; Wager, Wang & Liang 2013).

With a ``variance_prior`` the noise variance is unknown and ``C s_i`` is the power of the likelihood of row ``i``,
``N(y_i; score, σ²)^{C s_i}``: twice the weight is the row twice, and

    σ² | · ~ InverseGamma(a + ½ Σ C s_i,  b + ½ Σ C s_i (y_i − score_i)²).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_instance
from ..priors import InverseGamma
from .base import Derivatives, Loss, Pseudo, Responses, ScoreCost, Scores, choose_form

__all__ = ["Squared"]

_FORMS = dict.fromkeys(("augmentation", "gaussian", "taylor"), True)


@dataclass(frozen=True)
class Squared(Loss):
    """Squared loss of ridge regression, ``½(y − s)²``.

    Parameters
    ----------
    expectation : str, default="augmentation"
        ``"augmentation"``, ``"gaussian"`` or ``"taylor"``: for this loss all are exact and equal.
    variance_prior : InverseGamma, optional
        Prior of an unknown noise variance ``σ²``, which ``bd.sample`` draws too and stores as ``sigma``. By default the
        variance is known, ``1/C``; with a prior ``C`` is the power of the likelihood, 1 for the usual posterior.

    See Also
    --------
    EpsilonInsensitive, Quantile, DropoutRidge

    Examples
    --------
    >>> import numpy as np
    >>> float(Squared().value(np.array(1.0), np.array(3.0), np.array(0.5)))
    2.25
    """

    expectation: str = "augmentation"
    variance_prior: InverseGamma | None = None
    quadratic: ClassVar[bool] = True
    binary: ClassVar[bool] = False
    augmented: ClassVar[bool] = True
    separable: ClassVar[bool] = True
    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        choose_form(_FORMS, self.expectation, "Squared")
        expected = "a prior such as bd.InverseGamma(2.0, 1.0), or None for the known variance 1/C"
        check_instance(self.variance_prior, "variance_prior", InverseGamma, expected, none=True)

    @property
    def plain(self) -> Squared:
        """See :class:`bayesdrop.losses.base.Loss`; a function of scores has no use for a prior of their noise."""
        return self if self.variance_prior is None else replace(self, variance_prior=None)

    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        """Expected loss; see :class:`bayesdrop.losses.base.Loss`."""
        residual = y - mean
        return 0.5 * (residual * residual + var)

    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.protocols.Curved`."""
        xp = mean.__array_namespace__()
        zero, one = xp.zeros_like(mean), xp.ones_like(mean)
        return Derivatives(mean=mean - y, var=0.5 * one, mean_mean=one, mean_var=zero, var_var=zero)

    def plain_value_and_slope(self, y: Responses, score: Scores) -> tuple[Scores, Scores]:
        """``½(y − s)²`` and ``s − y``."""
        residual = y - score
        return 0.5 * residual * residual, -residual

    def score_cost(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> ScoreCost:
        """Cost of a normal score; see :class:`bayesdrop.losses.protocols.Scored`."""
        xp = mean.__array_namespace__()
        residual, shrunk = y - mean, weight / (1 + weight * var)
        square = shrunk * residual * residual
        return ScoreCost(0.5 * (xp.log1p(weight * var) + square), -shrunk * residual, 0.5 * shrunk * (1 - square))

    def pseudo(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """``ω = C``, ``κ = C y``, whatever the score."""
        omega = weight * mean.__array_namespace__().ones_like(mean)
        return Pseudo(omega, omega * y)

    def sample_pseudo(self, key: Any, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """As :meth:`pseudo`: there is nothing to draw."""
        return self.pseudo(y, mean, var, weight)

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw from ``N(s, 1/C)``; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return score + generator.normal(size=np.shape(score)) / np.sqrt(weight)

    def log_constant(self, weight: Any) -> Float[AnyArray, ...]:
        """``½ log(C/2π)``; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return 0.5 * np.log(np.asarray(weight, dtype=np.float64) / (2 * np.pi))
