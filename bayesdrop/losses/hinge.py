r"""Hinge loss ``max(0, ζ)`` with ``ζ = ℓ − y s``.

With ``c = C/2`` the identity of Polson & Scott (2011, theorem 1),

    exp{−2c max(0, ζ)} = ∫ (2πλ)^{−1/2} exp{−(λ + cζ)² / (2λ)} dλ,

gives ``λ | y, s ~ GIG(½, 1, c²ζ²)``. Jensen's bound with λ profiled out (Chen, Zhu, Chen & Chen 2015, section 4.1)
is ``φ = ½(ζ + √(ζ² + v))``, with ``ω = C / (2√(ζ² + v))`` and ``κ = y(ωℓ + C/2)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._validation import check_number
from . import normal_score, positive_part
from .base import Responses, ScoreCost, Scores, choose_form
from .protocols import Interval

__all__ = ["Hinge"]

_NO_CURVATURE = (
    " The loss is piecewise linear, so its second derivative, and with it the Taylor penalty, is zero; "
    'expectation="gaussian" is its expectation in closed form.'
)


@dataclass(frozen=True)
class Hinge(positive_part.PiecewiseLoss):
    """Hinge loss of a support vector machine.

    Parameters
    ----------
    margin : float, default=1.0
        Margin ``ℓ > 0``, 1 in the usual support vector machine.
    expectation : str, default="augmentation"
        ``"augmentation"`` or ``"gaussian"``; see :mod:`bayesdrop.losses.base`.

    See Also
    --------
    Logistic, DropoutSVC

    References
    ----------
    - Chen, Zhu, Chen & Chen (2015), Dropout training for SVMs with data augmentation, section 4.1.
    - Polson & Scott (2011), Data augmentation for support vector machines, Bayesian Analysis 6.

    Examples
    --------
    >>> import numpy as np
    >>> float(Hinge().value(np.array(1.0), np.array(0.25), np.array(0.0)))
    0.75
    """

    margin: float = 1.0
    expectation: str = "augmentation"
    binary: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number(self.margin, "margin", above=0, advice="the usual SVM has 1.0")
        choose_form(positive_part.FORMS, self.expectation, "Hinge", _NO_CURVATURE)

    def parts(self, y: Responses) -> tuple[tuple[float, Scores, Any], ...]:
        """One part, ``max(0, ℓ − ys)``."""
        return ((1.0, self.margin + 0.0 * y, y),)

    def interval(self, y: Responses, weight: Any) -> Interval:
        """``β = yα`` with ``0 <= α <= c``; see :class:`bayesdrop.losses.protocols.PiecewiseLinear`."""
        end = y * weight
        return Interval(self.margin * y, np.minimum(end, 0.0), np.maximum(end, 0.0), np.zeros(np.shape(end)))

    def score_cost(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> ScoreCost:
        """Cost of a normal score; see :class:`bayesdrop.losses.protocols.Scored`."""
        part = normal_score.of_two_sides(self.margin - y * mean, var, weight, 0.0 * weight)
        return part._replace(mean=-y * part.mean)

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw −1 or +1 from the pseudo-likelihood, normalised over the two.

        The hinge is not a likelihood: normalising changes it by a factor that depends on the score, so that the draws
        are from a likelihood similar to the fitted model; see :meth:`probability`.
        """
        chance = self.probability(score, weight)
        return np.where(generator.random(np.shape(score)) < chance, 1.0, -1.0)

    def probability(self, score: Scores, weight: Any) -> Scores:
        """Normalised pseudo-likelihood ``e^{−C loss(+1)} / (e^{−C loss(+1)} + e^{−C loss(−1)})``.

        The hinge is not a likelihood, so this is a monotone transform of the score whose steepness depends on
        ``C``; it is not calibrated.
        """
        xp = score.__array_namespace__()
        zero = xp.zeros_like(score)
        gap = xp.maximum(self.margin + score, zero) - xp.maximum(self.margin - score, zero)
        decay = xp.exp(-xp.abs(weight * gap))  # small probabilities keep their digits
        return xp.where(gap > 0, 1.0, decay) / (1 + decay)

    def expected_probability(self, mean: Scores, var: Scores, weight: float) -> Scores:
        """Expectation of :meth:`probability` for a normal score, by the trapezium rule.

        With nodes 1/20 of a standard deviation apart the error is below 1e-3 if ``C`` times the standard deviation is
        below 20, and always below 0.01.
        """
        xp = mean.__array_namespace__()
        spread = xp.sqrt(var)
        nodes = np.linspace(-8.0, 8.0, 321)
        shares = np.exp(-0.5 * nodes * nodes)
        total = xp.zeros_like(mean)
        for node, share in zip(nodes.tolist(), (shares / shares.sum()).tolist(), strict=True):
            total = total + share * self.probability(mean + node * spread, weight)
        return total
