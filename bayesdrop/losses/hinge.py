r"""Hinge loss, marginalised by the location-scale augmentation.

Plain loss ``max(0, ℓ − y s)``. With ``ζ = ℓ − y m`` and ``c = C/2`` the identity of Polson & Scott (2011),

    exp{−2c max(0, ζ)} = ∫ (2πλ)^{−1/2} exp{−(λ + cζ)² / (2λ)} dλ,

gives ``λ | y, s ~ GIG(½, 1, c²ζ²)``. Jensen's bound with λ profiled out (Chen, Zhu, Chen & Chen 2015, section 3)
is ``φ = ½(ζ + √(ζ² + v))``, with ``ω = C / (2√(ζ² + v))`` and ``κ = y(ωℓ + C/2)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import Array, Derivatives, Pseudo

__all__ = ["Hinge"]


@dataclass(frozen=True)
class Hinge:
    """Hinge loss of a support vector machine.

    Parameters
    ----------
    margin : float
        The margin ``ℓ > 0`` (1 in the usual support vector machine).

    Examples
    --------
    >>> import numpy as np
    >>> float(Hinge().value(np.array(1.0), np.array(0.25), np.array(0.0)))
    0.75
    """

    margin: float = 1.0
    kinked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.margin) and self.margin > 0):
            raise ValueError(f"margin: expected a finite number above 0, got {self.margin!r}; the usual SVM has 1.0.")

    def _residual(self, y: Array, mean: Array, var: Array) -> tuple[Array, Array]:
        xp = mean.__array_namespace__()
        slack = self.margin - y * mean
        # The floor stands for 0/0 at a row that sits on the kink with no noise; solvers smooth before it matters.
        tiny = float(xp.finfo(mean.dtype).tiny) ** 0.5
        return slack, xp.maximum(xp.sqrt(slack * slack + var), xp.asarray(tiny, dtype=mean.dtype))

    def value(self, y: Array, mean: Array, var: Array) -> Array:
        """Marginalised loss; see :class:`bayesdrop.losses.base.Loss`."""
        xp = mean.__array_namespace__()
        slack, root = self._residual(y, mean, var)
        # For negative slack the two terms cancel: ζ + r = v / (r − ζ).
        return 0.5 * xp.where(slack > 0, slack + root, var / (root + xp.abs(slack)))

    def derivatives(self, y: Array, mean: Array, var: Array) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.base.Loss`."""
        xp = mean.__array_namespace__()
        slack, root = self._residual(y, mean, var)
        slope = 0.5 * xp.where(slack > 0, 1 + slack / root, var / (root * (root + xp.abs(slack))))
        inverse = 1 / root
        cubed = inverse * inverse * inverse
        return Derivatives(
            mean=-y * slope,
            var=0.25 * inverse,
            mean_mean=0.5 * var * cubed,
            mean_var=0.25 * y * slack * cubed,
            var_var=-0.125 * cubed,
        )

    def pseudo(self, y: Array, mean: Array, var: Array, weight: Array) -> Pseudo:
        """E-step: ``ω = C E[1/λ] c²`` in closed form."""
        _, root = self._residual(y, mean, var)
        omega = weight / (2 * root)
        return Pseudo(omega, y * (omega * self.margin + weight / 2))

    def sample_pseudo(self, key: Array, y: Array, score: Array, weight: Array) -> Pseudo:
        """Draw ``λ ~ GIG(½, 1, c²ζ²)`` and return ``(c²/λ, y(ωℓ + c))`` with ``c = C/2``."""
        import jax.numpy as jnp

        from ..distributions import reciprocal_inverse_gaussian

        half = weight / 2
        scale = reciprocal_inverse_gaussian(key, half * jnp.abs(self.margin - y * score))
        # λ is a chi-square with one degree of freedom on the margin, so 1/λ is unbounded; the floor keeps the
        # Cholesky factor of the weights' precision finite (1e-8 in double, 1e-5 in single precision).
        floor = 1e-8 if scale.dtype == jnp.float64 else 1e-5
        omega = half * half / jnp.maximum(scale, jnp.asarray(floor, scale.dtype))
        return Pseudo(omega, y * (omega * self.margin + half))

    def expected_probability(self, mean: Array, var: Array, weight: float) -> Array:
        """Normalised pseudo-likelihood ``e^{−Cφ(+1)} / (e^{−Cφ(+1)} + e^{−Cφ(−1)})``.

        The hinge is no normalised likelihood, so this is a monotone transform of the score whose
        steepness depends on ``C``; it is not calibrated.
        """
        xp = mean.__array_namespace__()
        one = xp.ones_like(mean)
        gap = weight * (self.value(-one, mean, var) - self.value(one, mean, var))
        return 0.5 * (1 + xp.tanh(0.5 * gap))
