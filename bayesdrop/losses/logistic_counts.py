r"""Counts whose score is a logarithm of odds: binomial and negative binomial.

Both are ``y`` successes among ``b`` trials, and differ in what is fixed. With ``A(s) = log(1 + e^s)``,

    loss = b A(s) − y s,      b = N (binomial: N trials)      b = y + r (negative binomial: r failures),

the negative log-likelihood up to a term in ``y`` alone. By Polson, Scott & Windle (2013, theorem 1)

    e^{ys} / (1 + e^s)^b = 2^{−b} e^{κs} ∫ exp(−λ s²/2) PG(λ | b, 0) dλ,      κ = y − b/2,

so ``λ | y, s ~ PG(b, s)``. The likelihood to the power ``C`` has ``PG(Cb, s)`` and ``Cκ``. For the negative binomial
``κ = (y − r)/2`` (Zhou, Li, Dunson & Carin 2012). Since the logistic loss is ``A(−s) = A(s) − s``, every marginalised
form ``f(m, v)`` of the logistic loss for the class +1 gives a form of the loss of a count,

    φ(y, m, v) = b f(m, v) + (b − y) m,

Jensen's bound among them: ``φ = b log 2cosh(r/2) − κ m`` with ``r = √(m² + v)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_count, check_number
from ..priors import HalfNormal
from . import normal_score
from .base import (
    RULES,
    Derivatives,
    LossOfForms,
    NoisedScores,
    Parameter,
    Pseudo,
    Responses,
    ScoreCost,
    Scores,
    choose_form,
)
from .logistic import FORMS
from .poisson import LARGEST_DRAW, draw_counts

__all__ = ["Binomial", "NegativeBinomial", "log_binomial"]


def log_binomial(trials: Any, successes: Any) -> Float[AnyArray, ...]:
    """Logarithm of the binomial coefficient, the number of ways to choose the successes among the trials.

    Examples
    --------
    >>> round(float(np.exp(log_binomial(4.0, 2.0))))
    6
    """
    from scipy.special import gammaln

    return gammaln(trials + 1.0) - gammaln(successes + 1.0) - gammaln(trials - successes + 1.0)


# At this dispersion a negative binomial count is Poisson to eight digits; above, rounding loses digits.
LARGEST_DISPERSION = 1e8


def log_coefficient(successes: Any, failures: Any) -> Any:
    """``log Γ(y + r) − log Γ(r) − log y!``, accurate in single precision and for large ``y`` or ``r``.

    Each ``log Γ(z)`` is Stirling's series at ``z + 8``, minus the logarithms of the eight factors between. The large
    terms cancel in the formula, not in floating point as in ``betaln`` of JAX, whose error over a hundred rows is 4e-7
    in double precision. Accepts arrays of NumPy or JAX.

    Examples
    --------
    >>> round(float(np.exp(log_coefficient(np.array(3.0), np.array(2.0)))), 9)
    4.0
    """
    xp = successes.__array_namespace__()
    y, r = successes, failures
    steps = sum(xp.log((y + r + j) / (r + j) * ((1.0 + j) / (y + 1.0 + j))) for j in range(8))
    low, high = r + 8.0, y + (r + 8.0)
    terms = (1.0, -1 / 30, 1 / 105, -1 / 140, 1 / 99, -691 / 30030)
    series = [sum(c / z ** (2 * k + 1) for k, c in enumerate(terms)) / 12 for z in (low, high, low * 0 + 9.0, y + 9.0)]
    leading = (low - 0.5) * xp.log1p(y / low) - 8.5 * xp.log1p(y / 9.0) + y * xp.log1p((r - 1.0) / (y + 9.0))
    return leading + (series[1] - series[0]) - (series[3] - series[2]) - steps


class _LogisticCount(LossOfForms):
    """Base of both losses; a subclass defines the number of failures ``b − y``."""

    binary: ClassVar[bool] = False
    normalised: ClassVar[bool] = True

    def _failures(self, y: Responses) -> Scores:
        """``b − y`` of each response, in the precision of ``y``."""
        raise NotImplementedError

    def _trials(self, y: Responses) -> Scores:
        """``b`` of each response."""
        return y + self._failures(y)

    def votes(self, y: Responses) -> tuple[Scores, Scores]:
        """Numbers of successes and failures: a row counts as this many rows of the positive and the negative class."""
        return 1.0 * y, self._failures(y)

    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        """Marginalised loss; see :class:`bayesdrop.losses.base.Loss`."""
        size, trials = abs(mean), self._trials(y)
        against = mean.__array_namespace__().where(mean > 0, self._failures(y), y + 0 * trials)
        return trials * FORMS[self.expectation].value(size, var) + against * size

    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.protocols.Curved`."""
        xp, trials = mean.__array_namespace__(), self._trials(y)
        upper, one = mean > 0, xp.ones_like(mean)
        against, sign = xp.where(upper, self._failures(y), y + 0 * trials), xp.where(upper, one, -one)
        parts = Derivatives(*(trials * part for part in FORMS[self.expectation].derivatives(abs(mean), var)))
        return parts._replace(mean=sign * (parts.mean + against), mean_var=sign * parts.mean_var)

    def plain_value_and_slope(self, y: Responses, score: Scores) -> tuple[Scores, Scores]:
        """``b A(s) − y s`` and ``b σ(s) − y``, from one exponential."""
        xp = score.__array_namespace__()
        trials = self._trials(y)
        decay = xp.exp(-xp.abs(score))
        sigmoid = 1 / (1 + decay)  # at |s|
        against = xp.where(score > 0, self._failures(y), y + 0 * trials)
        slope = xp.where(score > 0, against - trials * decay * sigmoid, trials * decay * sigmoid - against)
        return trials * xp.log1p(decay) + against * xp.abs(score), slope

    def score_cost(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> ScoreCost:
        """Cost of a normal score; see :class:`bayesdrop.losses.protocols.Scored`."""
        return normal_score.by_quadrature(self, y, mean, var, weight)

    def sample_pseudo(self, key: Any, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """Draw ``ω ~ PG(Cb, √(m² + v))``; ``κ = C(y − b/2)``.

        Exact if ``Cb`` is a whole number of at most 64; see :class:`bayesdrop.distributions.PolyaGamma` for others.
        """
        import jax.numpy as jnp

        from ..distributions import PolyaGamma

        trials = self._trials(y)
        score = jnp.sqrt(mean * mean + var)
        omega = PolyaGamma(weight * trials, score, validate_args=False).sample(key)
        return Pseudo(omega, jnp.broadcast_to(weight * (y - 0.5 * trials), omega.shape))


@dataclass(frozen=True)
class Binomial(_LogisticCount):
    """Loss of a binomial count, ``y`` successes in ``N`` trials: ``N log(1 + e^s) − y s``.

    The score is the logarithm of the odds of a success. If rows have different numbers of trials, ``y`` has two
    columns, the successes and the failures, or a formula names both, ``"successes + failures ~ dose"``, and ``trials``
    is omitted. Such a row counts as one row per trial: in a posterior each trial has its own masks, whereas the trials
    of a row of ``Binomial(N)`` share the masks of the row. Posteriors store the successes and, in
    ``constant_data``, the ``trials``. Simulated responses of the fitted rows are numbers of successes; those of new
    rows, and all expected responses, are for one trial.

    Parameters
    ----------
    trials : int, default=1
        Number of trials ``N >= 1`` of every row; with 1, ``y`` is 0 or 1 (logistic loss), or a pair of counts. If
        successes or failures are rare, noise has more effect in the ``"augmentation"`` bound than in the expected loss
        (ten times at a share of 1 % or 99 %): use ``"gaussian"``.
    expectation : str, default="augmentation"
        ``"augmentation"``, ``"gaussian"`` or ``"taylor"``; see :mod:`bayesdrop.losses.base`.

    See Also
    --------
    Logistic, Poisson

    References
    ----------
    Polson, Scott & Windle (2013), Bayesian inference for logistic models using Pólya-Gamma latent variables, JASA
    108.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.isclose(Binomial(3).value(np.array(1.0), np.array(0.0), np.array(0.0)), 3 * np.log(2)))
    True
    >>> import bayesdrop as bd
    >>> X, counts = [[0.0], [1.0], [2.0], [3.0]], [[0, 5], [2, 10], [4, 3], [8, 1]]
    >>> fit = bd.fit(bd.Model(Binomial(), rates=bd.Fixed(0.0)), X, counts)
    >>> bool(fit.weight[0] > 0)
    True
    """

    trials: int = 1
    expectation: str = "augmentation"
    ratio: ClassVar[str] = "odds_ratio"
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        advice = (
            "the number of trials of every row, as in bd.Binomial(10); where rows differ give y as two columns, the "
            "successes and the failures"
        )
        check_count(self.trials, "trials", advice=advice)
        choose_form(FORMS, self.expectation, "Binomial")

    @property
    def largest_count(self) -> float:
        """See :class:`bayesdrop.losses.base.Loss`."""
        return float(self.trials)

    @property
    def pairs(self) -> bool:
        """See :class:`bayesdrop.losses.base.Loss`."""
        return self.trials == 1

    def _failures(self, y: Responses) -> Scores:
        return float(self.trials) - y

    def first_score(self, mean_response: Float[AnyArray, " K"]) -> Float[AnyArray, " K"]:
        """Logarithm of the odds of the mean share of successes."""
        share = np.clip(mean_response / self.trials, RULES.share, 1 - RULES.share)
        return np.log(share / (1 - share))

    def log_base_measure(self, y: Responses) -> Scores:
        """Logarithm of the binomial coefficient ``N`` choose ``y``; 0 for one trial."""
        return 0.0 * y if self.trials == 1 else log_binomial(float(self.trials), y)

    def expected_response(self, law: NoisedScores) -> Float[AnyArray, ...]:
        """``N E σ(s)``."""
        return self.trials * law.sigmoid()

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw from the binomial distribution with probability ``σ(s)``; ``C`` tempers the posterior only."""
        del weight
        return generator.binomial(self.trials, 0.5 * (1 + np.tanh(0.5 * score))).astype(np.float64)


@dataclass(frozen=True)
class NegativeBinomial(_LogisticCount):
    r"""Loss of a negative binomial count, ``(y + r) log(1 + e^s) − y s``: an overdispersed Poisson count.

    The score is the logarithm of the odds ``μ/r`` of the mean ``μ = r e^s``, and the variance is ``μ + μ²/r``. As
    ``r`` grows it becomes :class:`bayesdrop.Poisson` with the score ``s + log r``; the intercept absorbs ``log r``.

    Parameters
    ----------
    dispersion : float, optional
        Parameter ``r``, above 0 and up to 1e8: the smaller, the more overdispersed. It is ``1/alpha`` of statsmodels,
        ``size`` and ``theta`` of R, and ``concentration`` of NumPyro. By default it is learnt: ``bd.sample`` stores it
        as ``dispersion``, under the prior ``r^{−½} ~ HalfNormal(1)``, under which ``r`` has the median 2.2 and may be
        arbitrarily large (a Poisson count); ``bd.fit`` estimates it with the weights, without noise by maximum
        likelihood, and with noise by the lowest expected loss, so that variation caused by the noise does not count as
        overdispersion. If the mean count is far below or above ``r``, noise has more effect in the ``"augmentation"``
        bound than in the expected loss (at rate 0.1 weights are a quarter smaller at ``r = 100`` and mean 3, and nine
        tenths smaller at ``r = 1`` and mean 1,000): use ``"gaussian"``.
        If ``y + r`` times ``C`` is a whole number of at most 64, Gibbs sampling draws its auxiliary variables exactly;
        otherwise from distributions with an error below 1e-3.
    expectation : str, default="augmentation"
        ``"augmentation"``, ``"gaussian"`` or ``"taylor"``; see :mod:`bayesdrop.losses.base`.

    See Also
    --------
    Poisson, DropoutNegativeBinomialRegressor

    References
    ----------
    Polson, Scott & Windle (2013), Bayesian inference for logistic models using Pólya-Gamma latent variables, JASA
    108.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.isclose(NegativeBinomial(2.0).value(np.array(1.0), np.array(0.0), np.array(0.0)), 3 * np.log(2)))
    True
    """

    dispersion: float | None = None
    expectation: str = "augmentation"
    largest_count: ClassVar[float] = float("inf")
    ratio: ClassVar[str] = "rate_ratio"

    def __post_init__(self) -> None:
        advice = "r of the variance μ + μ²/r; for no overdispersion take bd.Poisson()"
        if self.dispersion is not None:
            r = check_number(self.dispersion, "dispersion", above=0, most=LARGEST_DISPERSION, advice=advice)
            object.__setattr__(self, "dispersion", float(r))
        choose_form(FORMS, self.expectation, "NegativeBinomial")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """``dispersion``, if it is learnt; see :class:`bayesdrop.losses.base.Loss`."""
        if self.dispersion is not None:
            return ()
        return (Parameter("dispersion", "dispersion", HalfNormal(1.0), 0, -0.5),)

    @property
    def _r(self) -> Any:
        """``r``: a number, or an array that broadcasts against the scores of draws."""
        if self.dispersion is None:
            raise ValueError(
                "dispersion: it is learnt by bd.fit and bd.sample, and is not known here; give it, as in "
                "bd.NegativeBinomial(2.0), such as the estimate of a fit."
            )
        return self.dispersion

    def _failures(self, y: Responses) -> Scores:
        r = self._r
        # Quadrature puts an axis of nodes before the axes of the draws.
        return 0.0 * y + (r if np.ndim(r) in (0, y.ndim) else r.reshape((1,) * (y.ndim - r.ndim) + r.shape))

    def exposure(self, offset: Scores) -> Scores:
        """``e^o``: the expected count is in proportion to it, as that of a Poisson count."""
        return np.exp(offset)

    def first_score(self, mean_response: Float[AnyArray, " K"]) -> Float[AnyArray, " K"]:
        """``log(ȳ/r)``."""
        return np.log(np.maximum(mean_response, RULES.share) / self._r)

    def log_base_measure(self, y: Responses) -> Scores:
        """``log Γ(y + r) − log Γ(r) − log y!``."""
        return log_coefficient(y, self._failures(y))

    def expected_response(self, law: NoisedScores) -> Float[AnyArray, ...]:
        """``r E e^s``."""
        return self._r * np.exp(law.log_exponential())

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw a Poisson count whose mean is a gamma variable of shape r and scale e^s; ``C`` has no effect."""
        del weight
        mean = generator.gamma(self._r, size=np.shape(score)) * np.exp(np.minimum(score, np.log(LARGEST_DRAW)))
        return draw_counts(generator, mean)
