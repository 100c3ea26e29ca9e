"""What a marginalised loss must offer.

A loss sees a label ``y`` in {-1, +1} and the two moments ``(m, v)`` of the score under the noise. Its
marginalised form ``φ(y, m, v)`` equals the plain loss at ``v = 0`` and bounds the expected loss from above.
Profiling the auxiliary variable out makes every loss a Gaussian pseudo-observation ``exp(κ s − ½ ω s²)`` with

    ω = 2 C ∂φ/∂v,      κ = ω m − C ∂φ/∂m,

taken in expectation by EM and drawn by Gibbs (Polson & Scott 2011; Polson, Scott & Windle 2013).

All methods are written against the array's own namespace, so NumPy and JAX arrays both work.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

__all__ = ["Derivatives", "Loss", "Pseudo"]

Array = Any


class Derivatives(NamedTuple):
    """First and second derivatives of ``φ`` in the mean and the variance of the score, each shaped like the mean."""

    mean: Array
    var: Array
    mean_mean: Array
    mean_var: Array
    var_var: Array


class Pseudo(NamedTuple):
    """Gaussian pseudo-observation ``exp(κ s − ½ ω s²)``; both shaped like the score, ``omega >= 0``."""

    omega: Array
    kappa: Array


@runtime_checkable
class Loss(Protocol):
    """Protocol of a loss; arguments come in the order ``(y, mean, var)`` and share one shape."""

    kinked: ClassVar[bool]
    """True if the plain loss is not differentiable, so that solvers must smooth where the variance is zero."""

    def value(self, y: Array, mean: Array, var: Array) -> Array:
        """Marginalised loss ``φ(y, m, v)``."""

    def derivatives(self, y: Array, mean: Array, var: Array) -> Derivatives:
        """Closed-form first and second derivatives of ``φ``."""

    def pseudo(self, y: Array, mean: Array, var: Array, weight: Array) -> Pseudo:
        """Expected pseudo-observation (E-step); ``weight`` is ``C`` times the sample weight."""

    def sample_pseudo(self, key: Array, y: Array, score: Array, weight: Array) -> Pseudo:
        """Draw of the pseudo-observation given the score (Gibbs step, JAX)."""

    def expected_probability(self, mean: Array, var: Array, weight: float) -> Array:
        """Probability of ``y = +1`` when the score has the given moments."""
