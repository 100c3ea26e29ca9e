r"""Logistic loss ``log(1 + exp(−y s))``.

By Polson, Scott & Windle (2013, theorem 1),

    (1 + e^{−ys})^{−C} = 2^{−C} e^{C y s / 2} ∫ exp(−λ s²/2) PG(λ | C, 0) dλ,

so ``λ | s ~ PG(C, s)``. Jensen's bound with λ profiled out (Chen, Zhu, Chen & Chen 2015, eqs 31-35; Jaakkola &
Jordan 2000) is ``φ = log 2cosh(r/2) − y m/2`` with ``r = √(m² + v)``, ``ω = C tanh(r/2) / (2r)``, ``κ = C y/2``.

The Gaussian form uses another identity. ``log(1 + e^{−t}) = E max(0, ξ − t)`` for a standard logistic ``ξ``, and
``ξ`` is a normal variable with the random variance ``4K²``, ``K`` of Kolmogorov's distribution (Andrews & Mallows
1974). So ``E loss`` under a normal score is a mixture of the expected positive parts of
:mod:`bayesdrop.losses.positive_part` at the variances ``v + 4K²``; the trapezoid rule in ``log K`` with 20 nodes has an
error of 1e-11 at every ``(m, v)``, while Gauss-Hermite nodes lose all accuracy for large ``v``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from scipy.special import zeta

from . import normal_score, positive_part
from .base import RULES, Derivatives, LossOfForms, Pseudo, Responses, ScoreCost, Scores, choose_form

__all__ = ["FORMS", "Logistic"]

# Taylor coefficients of tanh(r/2)/(2r) in powers of r².
_SERIES = tuple(-2 * (4**k - 1) * float(zeta(2 * k)) / (-4 * math.pi**2) ** k for k in range(1, RULES.terms + 1))


def _half_tanh(root: Scores) -> tuple[Scores, Scores, Scores, Scores]:
    """Return ``t = tanh(r/2)/(2r)``, ``t'(r)/r``, ``(r t)' = sech²(r/2)/4`` and ``σ(−r)``, stable as ``r → 0``."""
    xp = root.__array_namespace__()
    small = root < RULES.series_below
    decay = xp.exp(-root)
    both = 1 + decay
    sech2 = decay / (both * both)
    safe = xp.where(small, xp.ones_like(root), root)
    direct = (1 - decay) / (both * (2 * safe))
    direct_slope = (sech2 - direct) / (safe * safe)
    square = root * root
    series, series_slope = xp.zeros_like(root), xp.zeros_like(root)
    for j in reversed(range(len(_SERIES))):
        series_slope = series_slope * square + 2 * series
        series = series * square + _SERIES[j]
    return xp.where(small, series, direct), xp.where(small, series_slope, direct_slope), sech2, decay / both


class _Augmentation(NamedTuple):
    """``φ`` as a function of the agreement ``t = y m`` and the variance, and its derivatives, first and second."""

    def value(self, agreement: Scores, var: Scores) -> Scores:
        xp = agreement.__array_namespace__()
        root = xp.sqrt(agreement * agreement + var)
        size = xp.abs(agreement)
        # r − |m| = v / (r + |m|): no cancellation far from the boundary.
        tiny = float(xp.finfo(agreement.dtype).tiny) ** 0.5
        return xp.log1p(xp.exp(-root)) + 0.5 * (var / (root + size + tiny) + size - agreement)

    def derivatives(self, agreement: Scores, var: Scores) -> Derivatives:
        xp = agreement.__array_namespace__()
        root = xp.sqrt(agreement * agreement + var)
        weight, slope, curve, against = _half_tanh(root)
        # The slope is t m − ½, here without cancellation: counts multiply a small slope by a large number of trials.
        tiny = float(xp.finfo(agreement.dtype).tiny) ** 0.5
        apart = xp.where(agreement > 0, -var / (root + xp.abs(agreement) + tiny), agreement - root)
        return Derivatives(
            mean=apart * weight - against,
            var=0.5 * weight,
            mean_mean=curve - var * slope,  # = t + m² t'/r, in two terms that are never negative
            mean_var=0.5 * agreement * slope,
            var_var=0.25 * slope,
        )


@cache
def _kolmogorov() -> tuple[tuple[float, float], ...]:
    """Variances ``4K²`` and their probabilities in the mixture."""
    from scipy.stats import kstwobign

    count, smallest, largest = RULES.mixture
    node = np.geomspace(smallest, largest, count)
    share = node * kstwobign.pdf(node)
    return tuple(zip((4 * node**2).tolist(), (share / share.sum()).tolist(), strict=True))


class _Gaussian(NamedTuple):
    def value(self, agreement: Scores, var: Scores) -> Scores:
        part = positive_part.FORMS["gaussian"]
        return sum(share * part.value(-agreement, var + extra) for extra, share in _kolmogorov())

    def derivatives(self, agreement: Scores, var: Scores) -> Derivatives:
        part = positive_part.FORMS["gaussian"]
        total: list[Any] = []
        for extra, share in _kolmogorov():
            terms = [share * term for term in part.derivatives(-agreement, var + extra)]
            total = [a + b for a, b in zip(total, terms, strict=True)] if total else terms
        slopes = Derivatives(*total)
        return slopes._replace(mean=-slopes.mean, mean_var=-slopes.mean_var)


class _Taylor(NamedTuple):
    @staticmethod
    def _chances(agreement: Scores) -> tuple[Scores, Scores]:
        """``σ(−t)`` and ``σ(t) σ(−t)``."""
        xp = agreement.__array_namespace__()
        decay = xp.exp(-xp.abs(agreement))
        larger = 1 / (1 + decay)
        return xp.where(agreement > 0, decay * larger, larger), decay * larger * larger

    def value(self, agreement: Scores, var: Scores) -> Scores:
        _, curve = self._chances(agreement)
        return _Augmentation().value(agreement, 0 * var) + 0.5 * curve * var

    def derivatives(self, agreement: Scores, var: Scores) -> Derivatives:
        against, curve = self._chances(agreement)
        slope = curve * (2 * against - 1)
        return Derivatives(
            mean=-against + 0.5 * slope * var,
            var=0.5 * curve,
            mean_mean=curve + 0.5 * curve * (1 - 6 * curve) * var,
            mean_var=0.5 * slope,
            var_var=0 * var,
        )


Form: TypeAlias = _Augmentation | _Gaussian | _Taylor
FORMS: dict[str, Form] = {"augmentation": _Augmentation(), "gaussian": _Gaussian(), "taylor": _Taylor()}


@dataclass(frozen=True)
class Logistic(LossOfForms):
    """Logistic loss, the negative log-likelihood of logistic regression.

    Parameters
    ----------
    expectation : str, default="augmentation"
        ``"augmentation"``, ``"gaussian"`` or ``"taylor"``; see :mod:`bayesdrop.losses.base`.

    See Also
    --------
    Hinge, Softmax, DropoutLogisticRegression

    References
    ----------
    - Chen, Zhu, Chen & Chen (2015), Dropout training for SVMs with data augmentation, section 5.
    - Polson, Scott & Windle (2013), Bayesian inference for logistic models using Pólya-Gamma latent variables, JASA
      108.

    Examples
    --------
    >>> import numpy as np
    >>> float(Logistic().value(np.array(1.0), np.array(0.0), np.array(0.0)).round(4))
    0.6931
    """

    expectation: str = "augmentation"
    binary: ClassVar[bool] = True
    separable: ClassVar[bool] = True
    normalised: ClassVar[bool] = True
    ratio: ClassVar[str] = "odds_ratio"

    def __post_init__(self) -> None:
        choose_form(FORMS, self.expectation, "Logistic")

    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        """Marginalised loss; see :class:`bayesdrop.losses.base.Loss`."""
        return FORMS[self.expectation].value(y * mean, var)

    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.protocols.Curved`."""
        part = FORMS[self.expectation].derivatives(y * mean, var)
        return part._replace(mean=y * part.mean, mean_var=y * part.mean_var)

    def plain_value_and_slope(self, y: Responses, score: Scores) -> tuple[Scores, Scores]:
        """``log(1 + e^{−t})`` and ``−y σ(−t)`` with ``t = y s``, from one exponential."""
        xp = score.__array_namespace__()
        agreement = y * score
        decay = xp.exp(-xp.abs(agreement))
        larger = 1 / (1 + decay)
        against = xp.where(agreement > 0, decay * larger, larger)
        return xp.maximum(-agreement, xp.zeros_like(agreement)) + xp.log1p(decay), -y * against

    def plain_likelihood(self, y: Responses, score: Scores) -> Scores:
        """``σ(y s)``, the exponential of minus the loss; constant below ``y s = −80``, to keep its logarithm finite."""
        xp = score.__array_namespace__()
        return 1 / (1 + xp.exp(-xp.maximum(y * score, xp.full_like(score, RULES.lowest))))

    def score_cost(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> ScoreCost:
        """Cost of a normal score; see :class:`bayesdrop.losses.protocols.Scored`."""
        return normal_score.by_quadrature(self, y, mean, var, weight)

    def sample_pseudo(self, key: Any, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """Draw ``ω ~ PG(C, √(m² + v))``; a NumPy or Python weight of 1 uses the exact sampler of PG(1, s)."""
        import jax.numpy as jnp

        from ..distributions import polya_gamma_one

        score = jnp.sqrt(mean * mean + var)
        if isinstance(weight, float | np.ndarray | np.floating) and np.all(np.asarray(weight) == 1):
            omega = polya_gamma_one(key, score)
        else:
            from ..distributions import PolyaGamma

            omega = PolyaGamma(weight, score, validate_args=False).sample(key)
        return Pseudo(omega, jnp.broadcast_to(0.5 * weight * y, omega.shape))

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw −1 or +1, the latter with probability ``σ(s)``; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return np.where(generator.random(np.shape(score)) < self.probability(score, weight), 1.0, -1.0)

    def probability(self, score: Scores, weight: Any) -> Scores:
        """``σ(s)`` for every weight: ``C`` tempers the posterior, not the probability of a new label."""
        del weight
        return 0.5 * (1 + score.__array_namespace__().tanh(0.5 * score))

    def expected_probability(self, mean: Scores, var: Scores, weight: float) -> Scores:
        """``E σ(s)`` for a normal score, to 1e-11: minus the slope of the Gaussian form at ``−m``."""
        del weight  # a likelihood: C tempers the posterior, not the probability of a new label
        return -_Gaussian().derivatives(-mean, var).mean
