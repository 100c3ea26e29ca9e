r"""Poisson loss ``e^s − y s`` of a count whose mean has the logarithm ``s``.

It is computed as half the deviance, ``y(e^u − 1 − u)`` with ``u = s − log y``, which differs by a term in ``y``, is
never negative, and loses no digits if ``y`` is large and the fit good.

No auxiliary variable makes ``e^s`` quadratic, so that there is no augmentation bound. But its expectation under the
noise is a product of moment-generating functions,

    E e^s = e^b Π_d E e^{w_d x̃_d},      E loss = E e^s − y m      (cf. van der Maaten, Chen, Tyree & Weinberger 2013),

which is exact for every noise, and ``exp(m + v/2)`` for a normal score. One function gives both,

    φ(y, m, v) = e^{m + v/2} − y m:

with ``v`` the variance of the score it is the Gaussian form, and with ``v = 2(log E e^s − m)``, which has all
cumulants from the second on, it is exact (:mod:`bayesdrop.fitting.objective.exponential_moments`). Both are
convex in the weights.

Beyond an exponent that no count reaches, the exponential is replaced by its second-order Taylor polynomial, so that a
line search that overshoots gets a finite value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._typing import AnyArray, Float
from . import normal_score
from .base import RULES, Derivatives, Loss, NoisedScores, Responses, ScoreCost, Scores, choose_form

__all__ = ["LARGEST_DRAW", "Poisson", "draw_counts"]

LARGEST_DRAW = 1e18
"""Largest mean of a drawn count; larger means are replaced by it. It is near the largest that NumPy can draw."""


class _Exponential(NamedTuple):
    """``e^a`` and its first three derivatives, or of its parabola beyond the largest exponent; shaped like ``a``."""

    value: Scores
    slope: Scores
    bend: Scores
    third: Scores

    @classmethod
    def at(cls, exponent: Scores) -> _Exponential:
        """Evaluate them; the largest exponent is a third of the largest finite one, 236 in double, 29 in single."""
        xp = exponent.__array_namespace__()
        largest = xp.asarray(math.log(float(xp.finfo(exponent.dtype).max)) / 3, dtype=exponent.dtype)
        beyond = xp.maximum(exponent - largest, xp.zeros_like(exponent))
        plain = xp.exp(xp.minimum(exponent, largest))
        third = xp.where(beyond > 0, xp.zeros_like(plain), plain)
        return cls(plain * (1 + beyond + 0.5 * beyond * beyond), plain * (1 + beyond), plain, third)


def _half_deviance(y: Responses, exponent: Scores, exponential: Scores) -> Scores:
    """``e^a − y a − y + y log y``, given ``a`` and ``e^a``."""
    xp = exponent.__array_namespace__()
    is_positive = y > 0
    excess = exponent - xp.log(xp.where(is_positive, 1.0 * y, xp.ones_like(exponent)))
    is_close = xp.abs(excess) < 1
    inside = xp.where(is_close, excess, xp.zeros_like(excess))
    close = y * (xp.expm1(inside) - inside)
    return xp.where(is_positive, xp.where(is_close, close, exponential - y * (1 + excess)), exponential)


class _Gaussian(NamedTuple):
    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        exponent = mean + 0.5 * var
        return _half_deviance(y, exponent, _Exponential.at(exponent).value) + 0.5 * y * var

    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        _, slope, bend, _ = _Exponential.at(mean + 0.5 * var)
        return Derivatives(slope - y, 0.5 * slope, bend, 0.5 * bend, 0.25 * bend)


class _Taylor(NamedTuple):
    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        plain = _Exponential.at(mean)
        return _half_deviance(y, mean, plain.value) + 0.5 * plain.bend * var

    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        _, slope, bend, third = _Exponential.at(mean)
        curved = 0.5 * third * var
        return Derivatives(slope - y + curved, 0.5 * bend, bend + curved, 0.5 * third, 0 * var)


_FORMS: dict[str, _Gaussian | _Taylor] = {"exact": _Gaussian(), "gaussian": _Gaussian(), "taylor": _Taylor()}


@dataclass(frozen=True)
class Poisson(Loss):
    """Poisson loss ``e^s − y s``, the negative log-likelihood of Poisson regression.

    ``bd.fit`` minimises it by Newton's method; there is no EM. ``bd.sample`` uses ``bd.HMC()``, which is exact without
    masks and approximate with them (:func:`bayesdrop.reweight` corrects the draws). ``bd.Gibbs()`` has no auxiliary
    variables for this loss; use :class:`bayesdrop.NegativeBinomial` with a large ``dispersion``, which is close to it.

    Parameters
    ----------
    expectation : str, default="exact"
        ``"exact"``: ``E e^s`` by the moment-generating function of the noise, for features in memory. ``"gaussian"``:
        that of a normal score, ``e^{m + v/2}``, for streamed features, too. ``"taylor"``: ``e^m (1 + v/2)``. See
        :mod:`bayesdrop.losses.base`.

    See Also
    --------
    NegativeBinomial, Binomial, DropoutPoissonRegressor

    References
    ----------
    van der Maaten, Chen, Tyree & Weinberger (2013), Learning with marginalized corrupted features, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> float(Poisson().value(np.array(0.0), np.array(0.0), np.array(0.0)))
    1.0
    """

    expectation: str = "exact"
    ratio: ClassVar[str] = "rate_ratio"
    binary: ClassVar[bool] = False
    normalised: ClassVar[bool] = True
    separable: ClassVar[bool] = True
    largest_count: ClassVar[float] = float("inf")

    def __post_init__(self) -> None:
        choose_form(_FORMS, self.expectation, "Poisson", " No auxiliary variables augment it.")

    @property
    def convex(self) -> bool:
        """See :class:`bayesdrop.losses.base.Loss`."""
        return self.expectation != "taylor"

    @property
    def exponential(self) -> bool:
        """See :class:`bayesdrop.losses.base.Loss`."""
        return self.expectation == "exact"

    @property
    def plain(self) -> Poisson:
        """See :class:`bayesdrop.losses.base.Loss`."""
        return replace(self, expectation="gaussian")

    def votes(self, y: Responses) -> tuple[Scores, Scores]:
        """``y`` for a higher score and 1 for a lower one; the rate update weights the latter by the mean count.

        This is the limit of a negative binomial count, with votes ``y`` and ``r`` weighted to equal sums.
        """
        return 1.0 * y, 0.0 * y + 1.0

    def exposure(self, offset: Scores) -> Scores:
        """``e^o``: a count over ``e`` units of exposure is the sum of ``e`` counts over one unit each."""
        return np.exp(offset)

    def first_score(self, mean_response: Float[AnyArray, " K"]) -> Float[AnyArray, " K"]:
        """``log ȳ``."""
        return np.log(np.maximum(mean_response, RULES.share))

    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        """Marginalised loss; see :class:`bayesdrop.losses.base.Loss`."""
        return _FORMS[self.expectation].value(y, mean, var)

    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.protocols.Curved`."""
        return _FORMS[self.expectation].derivatives(y, mean, var)

    def plain_value_and_slope(self, y: Responses, score: Scores) -> tuple[Scores, Scores]:
        """Half the deviance and ``e^s − y``."""
        plain = _Exponential.at(score)
        return _half_deviance(y, score, plain.value), plain.slope - y

    def score_cost(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> ScoreCost:
        """Cost of a normal score; see :class:`bayesdrop.losses.protocols.Scored`."""
        return normal_score.by_quadrature(self, y, mean, var, weight)

    def expected_response(self, law: NoisedScores) -> Float[AnyArray, ...]:
        """``E e^s``."""
        return np.exp(law.log_exponential())

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw a Poisson count of mean ``e^s``; ``C`` tempers the posterior only."""
        del weight
        return draw_counts(generator, np.exp(np.minimum(score, math.log(LARGEST_DRAW))))

    def log_constant(self, weight: Any) -> Float[AnyArray, ...]:
        """Zero; the terms in ``y`` are the base measure."""
        return np.zeros(np.shape(weight))

    def log_base_measure(self, y: Responses) -> Scores:
        """``y log y − y − log y!``: half the deviance is relative to the saturated model."""
        from scipy.special import gammaln, xlogy

        return xlogy(y, y) - y - gammaln(y + 1.0)


def draw_counts(generator: Any, mean: Scores) -> Scores:
    """Poisson counts of the given means, as doubles; means above :data:`LARGEST_DRAW` are replaced by it.

    Examples
    --------
    >>> draw_counts(np.random.default_rng(0), np.array([0.0, 1e30])).tolist()[0]
    0.0
    """
    return np.asarray(generator.poisson(np.minimum(mean, LARGEST_DRAW)), dtype=np.float64)
