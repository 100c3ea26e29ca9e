r"""Logistic loss, marginalised by the Polya-Gamma augmentation.

Plain loss ``log(1 + exp(−y s))``. By Polson, Scott & Windle (2013, theorem 1),

    (1 + e^{−ys})^{−C} = 2^{−C} e^{C y s / 2} ∫ exp(−λ s²/2) PG(λ | C, 0) dλ,

so ``λ | s ~ PG(C, s)``. Jensen's bound with λ profiled out (Chen, Zhu, Chen & Chen 2015, section 5; Jaakkola &
Jordan 2000) is ``φ = log 2cosh(r/2) − y m/2`` with ``r = √(m² + v)``, ``ω = C tanh(r/2) / (2r)``, ``κ = C y/2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import Array, Derivatives, Pseudo

__all__ = ["Logistic"]

# Taylor coefficients of tanh(r/2)/(2r) in powers of r², from those of tanh.
_SERIES = tuple(
    coefficient / 2 ** (2 * j + 2)
    for j, coefficient in enumerate((1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925))
)
_NODES = 32


def _half_tanh(root: Array) -> tuple[Array, Array, Array]:
    """Return ``t = tanh(r/2)/(2r)``, ``t'(r)/r`` and ``(r t)' = sech²(r/2)/4``, stable as ``r → 0``."""
    xp = root.__array_namespace__()
    square = root * root
    small = root < 0.1
    safe = xp.where(small, xp.ones_like(root), root)
    decay = xp.exp(-root)
    sech2 = 4 * decay / ((1 + decay) * (1 + decay))
    decay = xp.exp(-safe)
    tanh = (1 - decay) / (1 + decay)
    direct = tanh / (2 * safe)
    direct_slope = (sech2 / 4 - direct) / (safe * safe)
    series, series_slope = xp.zeros_like(root), xp.zeros_like(root)
    for j in reversed(range(len(_SERIES))):
        series = series * square + _SERIES[j]
        if j:
            series_slope = series_slope * square + 2 * j * _SERIES[j]
    return xp.where(small, series, direct), xp.where(small, series_slope, direct_slope), sech2 / 4


@dataclass(frozen=True)
class Logistic:
    """Logistic loss, the negative log-likelihood of logistic regression.

    Examples
    --------
    >>> import numpy as np
    >>> float(Logistic().value(np.array(1.0), np.array(0.0), np.array(0.0)).round(4))
    0.6931
    """

    kinked: ClassVar[bool] = False

    def value(self, y: Array, mean: Array, var: Array) -> Array:
        """Marginalised loss; see :class:`bayesdrop.losses.base.Loss`."""
        xp = mean.__array_namespace__()
        root = xp.sqrt(mean * mean + var)
        size = xp.abs(mean)
        # r − |m| = v / (r + |m|): no cancellation far from the boundary.
        tiny = float(xp.finfo(mean.dtype).tiny) ** 0.5
        return xp.log1p(xp.exp(-root)) + 0.5 * (var / (root + size + tiny) + size - y * mean)

    def derivatives(self, y: Array, mean: Array, var: Array) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.base.Loss`."""
        xp = mean.__array_namespace__()
        weight, slope, curve = _half_tanh(xp.sqrt(mean * mean + var))
        return Derivatives(
            mean=mean * weight - 0.5 * y,
            var=0.5 * weight,
            mean_mean=curve - var * slope,  # = t + m² t'/r, in two terms that are never negative
            mean_var=0.5 * mean * slope,
            var_var=0.25 * slope,
        )

    def pseudo(self, y: Array, mean: Array, var: Array, weight: Array) -> Pseudo:
        """E-step: ``ω = E[λ]`` for ``λ ~ PG(C, √(m² + v))``."""
        xp = mean.__array_namespace__()
        half_tanh, _, _ = _half_tanh(xp.sqrt(mean * mean + var))
        return Pseudo(weight * half_tanh, 0.5 * weight * y)

    def sample_pseudo(self, key: Array, y: Array, score: Array, weight: Array) -> Pseudo:
        """Draw ``ω ~ PG(C, s)``; a plain number 1 for the weight takes the exact sampler of PG(1, s) at once."""
        import jax.numpy as jnp

        from ..distributions import PolyaGamma, polya_gamma_one

        if isinstance(weight, float | np.ndarray | np.floating) and np.all(np.asarray(weight) == 1):
            omega = polya_gamma_one(key, score)
        else:
            omega = PolyaGamma(weight, score, validate_args=False).sample(key)
        return Pseudo(omega, jnp.broadcast_to(0.5 * weight * y, omega.shape))

    def expected_probability(self, mean: Array, var: Array, weight: float) -> Array:
        """``E σ(s)`` for a normal score, by Gauss-Hermite quadrature with 32 nodes."""
        del weight  # a likelihood: C tempers the posterior, not the probability of a new label
        xp = mean.__array_namespace__()
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        spread = xp.sqrt(var)
        total = xp.zeros_like(mean)
        for node, share in zip(nodes.tolist(), (weights / weights.sum()).tolist(), strict=True):
            total = total + share * 0.5 * (1 + xp.tanh(0.5 * (mean + node * spread)))
        return total
