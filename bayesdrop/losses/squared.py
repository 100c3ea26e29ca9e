r"""Squared loss ``½(y − s)²``, whose expectation ``½((y − m)² + v)`` needs no bound: every form of it is exact.

It is its own Gaussian pseudo-observation, ``ω = C`` and ``κ = C y``: dropout ridge regression has a closed form
(van der Maaten, Chen, Tyree & Weinberger 2013, section 3.1; Wager, Wang & Liang 2013, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .base import Array, Derivatives, Pseudo, choose

__all__ = ["Squared"]

_FORMS = dict.fromkeys(("augmentation", "gaussian", "taylor"), True)


@dataclass(frozen=True)
class Squared:
    """Squared loss of ridge regression, ``½(y − s)²``.

    Parameters
    ----------
    bound : str
        ``"augmentation"``, ``"gaussian"`` or ``"taylor"``: for this loss all are exact and equal.

    Examples
    --------
    >>> import numpy as np
    >>> float(Squared().value(np.array(1.0), np.array(3.0), np.array(0.5)))
    2.25
    """

    bound: str = "augmentation"
    kinked: ClassVar[bool] = False
    binary: ClassVar[bool] = False
    convex: ClassVar[bool] = True
    augmented: ClassVar[bool] = True
    separable: ClassVar[bool] = True
    normalised: ClassVar[bool] = True
    variance_prior: ClassVar[None] = None

    def __post_init__(self) -> None:
        choose(_FORMS, self.bound, "Squared")

    @property
    def plain(self) -> Squared:
        """See :class:`bayesdrop.losses.base.Loss`."""
        return self

    def value(self, y: Array, mean: Array, var: Array) -> Array:
        """Expected loss; see :class:`bayesdrop.losses.base.Loss`."""
        residual = y - mean
        return 0.5 * (residual * residual + var)

    def derivatives(self, y: Array, mean: Array, var: Array) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.base.Loss`."""
        xp = mean.__array_namespace__()
        zero, one = xp.zeros_like(mean), xp.ones_like(mean)
        return Derivatives(mean=mean - y, var=0.5 * one, mean_mean=one, mean_var=zero, var_var=zero)

    def pseudo(self, y: Array, mean: Array, var: Array, weight: Array) -> Pseudo:
        """``ω = C``, ``κ = C y``, whatever the score."""
        omega = weight * mean.__array_namespace__().ones_like(mean)
        return Pseudo(omega, omega * y)

    def sample_pseudo(self, key: Array, y: Array, mean: Array, var: Array, weight: Array) -> Pseudo:
        """As :meth:`pseudo`: there is nothing to draw."""
        return self.pseudo(y, mean, var, weight)

    def sample_response(self, generator: Any, score: Array, weight: Any) -> Array:
        """Draw from ``N(s, 1/C)``; see :class:`bayesdrop.losses.base.Loss`."""
        return score + generator.normal(size=np.shape(score)) / np.sqrt(weight)

    def log_constant(self, weight: Any) -> Array:
        """``½ log(C/2π)``; see :class:`bayesdrop.losses.base.Loss`."""
        return 0.5 * np.log(np.asarray(weight, dtype=np.float64) / (2 * np.pi))

    def expected_probability(self, mean: Array, var: Array, weight: float) -> Array:
        """Raise TypeError: a real ``y`` has no class probability."""
        raise TypeError("Squared is a loss of real targets; class probabilities need Hinge or Logistic.")
