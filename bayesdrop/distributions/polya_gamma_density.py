r"""Density of PG(b, 0), by three routes that share the ``(x, b)`` plane.

*Small x.* The alternating series of Polson, Scott & Windle (2013, section 2.3).

*Small b.* A numerical inversion of the Laplace transform ``cosh^{−b}(√(s/2))``, all of whose singularities lie on the
negative axis, for which the contour of Talbot (1979; weights of Abate & Valkó 2004) is made. Its terms grow with ``b``.

*Large b.* The inversion along the vertical line through the saddle point of ``K(s) + sx``, with
``K(s) = −b log cosh √(s/2)``, which the trapezoidal rule sums to all digits: the integrand is near a normal one. With
``q = 2s`` the saddle solves ``tanh(√q/2)/(2√q) = x/b`` (Windle, Polson & Scott 2014). Where the line is does not change
the integral, so that derivatives are taken with the line held.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from .._typing import Float

__all__ = ["log_density_at_zero"]

Elementwise = Float[jax.Array, "*shape"]

_STEP, _ITERATIONS = 0.5, 12
# Shapes from which on the vertical line has few enough nodes; Talbot's terms cancel to 1e-10 of the sum there.
_LARGE = 8.0


@jax.jit
def log_density_at_zero(x: Elementwise, b: Elementwise) -> Elementwise:
    """``log f(x | b, 0)``; one shape and type."""
    small = x < (1 + b) / (2 * (jnp.log(2 + b) + 3))
    large = b >= _LARGE
    one, half = jnp.ones_like(x), jnp.full_like(x, 0.1)
    series = _series(jnp.where(small & ~large, x, half), jnp.where(small & ~large, b, one))
    talbot = _talbot(jnp.where(small | large, one, x), jnp.where(small | large, one, b))
    line = _vertical(jnp.where(large, x, 4 * one), jnp.where(large, b, 16 * one))
    return jnp.where(large, line, jnp.where(small, series, talbot))


def _series(x: Elementwise, b: Elementwise) -> Elementwise:
    """``2^{b−1}/Γ(b) Σ (−1)ⁿ Γ(n+b)/Γ(n+1) (2n+b)/√(2πx³) exp(−(2n+b)²/(8x))``, first term factored out."""
    total = jnp.ones_like(x)
    for n in range(1, 12):
        size = gammaln(n + b) - gammaln(b) - math.lgamma(n + 1) + jnp.log(2 * n + b) - jnp.log(b)
        total = total + (-1) ** n * jnp.exp(size - (4 * n * n + 4 * n * b) / (8 * x))
    first = (b - 1) * math.log(2) + jnp.log(b) - 0.5 * jnp.log(2 * math.pi * x**3) - b * b / (8 * x)
    return first + jnp.log(total)


def _talbot(x: Elementwise, b: Elementwise) -> Elementwise:
    """Inverse Laplace transform of ``cosh^{−b}(√(s/2))`` after a shift by its first singularity, ``−π²/2``."""
    M = 24 if x.dtype == jnp.float64 else 12
    k = np.arange(1, M)
    cot = 1 / np.tan(k * np.pi / M)
    node = np.concatenate([[2 * M / 5 + 0j], 2 * k * np.pi / 5 * (cot + 1j)])
    weight = np.concatenate([[0.5 + 0j], 1 + 1j * (k * np.pi / M) * (1 + cot**2) - 1j * cot]) * np.exp(node)
    kind = _complex(x)
    shift = math.pi**2 / 2
    along = (1,) * x.ndim + (-1,)
    s = jnp.asarray(node, kind).reshape(along) / x.astype(kind)[..., None] - shift
    terms = jnp.asarray(weight, kind).reshape(along) * jnp.exp(-b.astype(kind)[..., None] * _log_cosh(s))
    return jnp.log(0.4 * jnp.real(terms).sum(axis=-1) / x) - shift * x


def _vertical(x: Elementwise, b: Elementwise) -> Elementwise:
    """The same along ``s = ŝ + it``: ``log Σ h/(2π) Re exp{K(s) + sx}``, the saddle's term factored out."""
    q, variance = jax.lax.stop_gradient(_saddle(jax.lax.stop_gradient(x / b)))
    saddle = q / 2
    step = _STEP / jnp.sqrt(jax.lax.stop_gradient(b) * variance)
    kind = _complex(x)
    along = (1,) * x.ndim + (-1,)
    t = step[..., None] * jnp.arange(144 if x.dtype == jnp.float64 else 72, dtype=x.dtype).reshape(along)
    start = jnp.real(_log_cosh(saddle.astype(kind)))
    rest = _log_cosh(jax.lax.complex(jnp.broadcast_to(saddle[..., None], t.shape), t)) - start.astype(kind)[..., None]
    turn = jax.lax.complex(jnp.zeros_like(t), t * x[..., None])
    terms = jnp.real(jnp.exp(turn - b.astype(kind)[..., None] * rest))
    total = 2 * terms.sum(axis=-1) - terms[..., 0]
    return saddle * x - b * start + jnp.log(step * total / (2 * math.pi))


def _saddle(ratio: Elementwise) -> tuple[Elementwise, Elementwise]:
    """``q > −π²`` at which PG(1, √q) has the mean ``ratio``, and its variance there, by Newton's method in logarithms.

    The logarithm of the mean falls with ``log(q + π²)`` at a slope between ½ and 1.
    """
    edge = math.pi**2
    place = jnp.log(2 / ratio + 1 / (4 * ratio * ratio))
    for _ in range(_ITERATIONS):
        q = jnp.exp(place) - edge
        mean, variance = _moments(q)
        place = place + jnp.log(mean / ratio) * 2 * mean / (variance * (q + edge))
    q = jnp.exp(place) - edge
    return q, _moments(q)[1]


def _moments(q: Elementwise) -> tuple[Elementwise, Elementwise]:
    """Mean and variance of PG(1, √q), for negative ``q`` as well."""
    size = jnp.abs(q)
    small = size < 0.09
    root = jnp.sqrt(jnp.where(small, jnp.ones_like(q), size))
    decay = jnp.exp(-root)
    tanh, sech2 = (1 - decay) / (1 + decay), 4 * decay / ((1 + decay) * (1 + decay))
    angle = jnp.minimum(root, 3.1415)
    tan, sec2 = jnp.tan(angle / 2), 1 / jnp.cos(angle / 2) ** 2
    up = q > 0
    mean = jnp.where(up, tanh / (2 * root), tan / (2 * angle))
    variance = jnp.where(up, (2 * tanh - root * sech2) / (4 * root**3), (angle * sec2 - 2 * tan) / (4 * angle**3))
    near_mean = 1 / 4 - q * (1 / 48 - q * (1 / 480 - q * (17 / 80640 - q * 31 / 1451520)))
    near_variance = 1 / 24 - q * (1 / 120 - q * (17 / 13440 - q * (31 / 181440 - q * 691 / 31933440)))
    return jnp.where(small, near_mean, mean), jnp.where(small, near_variance, variance)


def _log_cosh(s: jax.Array) -> jax.Array:
    """``log cosh √(s/2)`` of complex ``s``."""
    root = jnp.sqrt(s / 2)
    return root + jnp.log1p(jnp.exp(-2 * root)) - math.log(2)


def _complex(x: Elementwise) -> type:
    return jnp.complex128 if x.dtype == jnp.float64 else jnp.complex64
