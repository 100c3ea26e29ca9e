r"""ε-insensitive loss ``max(0, |y − s| − ε)``, a sum of two positive parts.

With ``Δ = y − m`` it is ``max(0, Δ − ε) + max(0, −Δ − ε)``, each with its own auxiliary variable: two draws from
``GIG(½, 1, c²ζ²)`` with ``c = C/2`` and ``ζ = Δ − ε`` or ``−Δ − ε`` (Chen, Zhu, Chen & Chen 2015, eqs 24-26, whose
printed integrands lack the squares around ``λ`` and ``ω``). Jensen's bound with both profiled out is

    φ = −ε + ½√((Δ − ε)² + v) + ½√((Δ + ε)² + v),    ω = a + b,    κ = a(y − ε) + b(y + ε),

with ``a = C / (2√((Δ − ε)² + v))`` and ``b = C / (2√((Δ + ε)² + v))``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_number
from . import normal_score, positive_part
from .base import Responses, ScoreCost, Scores, choose_form
from .protocols import Interval

__all__ = ["EpsilonInsensitive"]


@dataclass(frozen=True)
class EpsilonInsensitive(positive_part.PiecewiseLoss):
    """Loss of support vector regression, ε-insensitive.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half-width ``ε >= 0`` of the tube within which a residual costs nothing, in units of ``y``.
    expectation : str, default="augmentation"
        ``"augmentation"`` or ``"gaussian"``; see :mod:`bayesdrop.losses.base`.

    See Also
    --------
    Squared, Quantile, DropoutSVR

    References
    ----------
    Chen, Zhu, Chen & Chen (2015), Dropout training for SVMs with data augmentation, section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> EpsilonInsensitive(0.5).value(np.array([2.0, 0.1]), np.zeros(2), np.zeros(2)).tolist()
    [1.5, 0.0]
    """

    epsilon: float = 0.1
    expectation: str = "augmentation"
    binary: ClassVar[bool] = False
    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number(self.epsilon, "epsilon", least=0, advice="half the width of the tube")
        choose_form(
            positive_part.FORMS,
            self.expectation,
            "EpsilonInsensitive",
            ' The loss is piecewise linear: its Taylor penalty is zero; expectation="gaussian" is exact.',
        )

    def parts(self, y: Responses) -> tuple[tuple[float, Scores, Any], ...]:
        """Two parts, ``max(0, y − ε − s)`` and ``max(0, s − y − ε)``."""
        return (1.0, y - self.epsilon, 1.0), (1.0, -y - self.epsilon, -1.0)

    def interval(self, y: Responses, weight: Any) -> Interval:
        """``|β| <= c``, at a cost of ``ε|β|``; see :class:`bayesdrop.losses.protocols.PiecewiseLinear`."""
        return Interval(y, -weight, weight, np.full(np.shape(y), float(self.epsilon)))

    def score_cost(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> ScoreCost:
        """Cost of a normal score; see :class:`bayesdrop.losses.protocols.Scored`."""
        part = normal_score.of_two_sides(y - mean, var, weight, weight, self.epsilon)
        return part._replace(mean=-part.mean)

    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw ``y`` with density ``exp(−C max(0, |y − s| − ε)) / (2ε + 2/C)``.

        It is within the tube with probability ``ε/(ε + 1/C)``, uniform there, and exponential beyond.
        """
        shape = np.shape(score)
        inside = generator.random(shape) * (self.epsilon + 1 / weight) < self.epsilon
        beyond = self.epsilon + generator.exponential(size=shape) / weight
        distance = np.where(inside, self.epsilon * generator.random(shape), beyond)
        return score + np.where(generator.random(shape) < 0.5, distance, -distance)

    def log_constant(self, weight: Any) -> Float[AnyArray, ...]:
        """``−log(2ε + 2/C)``; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return -np.log(2 * self.epsilon + 2 / np.asarray(weight, dtype=np.float64))
