r"""Compute the density of PG(b, z), ``cosh^b(z/2) exp(−z²x/2)`` times that of PG(b, 0), for :mod:`.polya_gamma`.

Three algorithms each cover a part of the ``(x, b)`` plane.

*Small x.* The alternating series of Polson, Scott & Windle (2013, section 2.3). Its exponents and the tilt are one
square, ``−½(zx − b/2)²/x``, so that nothing large cancels.

*Small b.* A numerical inversion of the Laplace transform ``cosh^{−b}(√(s/2))``, all of whose singularities lie on the
negative axis, along the contour of Talbot (1979; weights of Abate & Valkó 2004). Its terms grow with ``b``.

*Large b.* The inversion along the vertical line through the saddle point of ``K(s) + sx``, with
``K(s) = −b log cosh √(s/2)``, by the trapezoidal rule, exact to all digits since the integrand is nearly normal. With
``q = 2s`` the saddle solves ``tanh(√q/2)/(2√q) = x/b`` (Windle, Polson & Scott 2014). The
integral does not depend on the position of the line, so that derivatives treat the line as fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from scipy.special import zeta

from .._typing import Float

__all__ = ["log_cosh_change", "log_density", "relative_moments", "unit_moments"]

Elementwise = Float[jax.Array, "*shape"]


@dataclass(frozen=True)
class Rules:
    """Where each algorithm is used, and its accuracy.

    Attributes
    ----------
    large : float
        Smallest shape for which the vertical line is used: at this shape it has few enough nodes, and Talbot's terms
        cancel to 1e-10 of their sum.
    terms : int
        Terms of the series for small ``x``.
    talbot : (int, int)
        Nodes of the contour in double and in single precision.
    line : ((float, int), (float, int))
        Spacing and number of nodes of the vertical line in double and in single precision.
    steps : int
        Newton steps for the saddle point.
    series_limit : float
        Largest ``z`` at which moments are computed by series.
    """

    large: float = 8.0
    terms: int = 12
    talbot: tuple[int, int] = (24, 12)
    line: tuple[tuple[float, int], tuple[float, int]] = ((0.33, 220), (0.5, 72))
    steps: int = 12
    series_limit: float = 0.3


RULES = Rules()

# Series of tanh(x)/x in x², by Riemann's zeta function: SciPy's Bernoulli numbers lose three digits.
_TANH = tuple(-2 * (4**k - 1) * float(zeta(2 * k)) / (-math.pi * math.pi) ** k for k in range(1, 9))


@jax.jit
def log_density(x: Elementwise, b: Elementwise, z: Elementwise) -> Elementwise:
    """``log f(x | b, z)`` for ``z >= 0``; the arrays have one shape and dtype."""
    large = b >= RULES.large
    # For a large shape the series is used only if its first term is the whole sum: the other terms are inaccurate.
    digits = jnp.where(large, -math.log(jnp.finfo(x.dtype).eps), 0)
    small = x < (1 + b) / (2 * (jnp.log(2 + b) + 3 + digits))
    one, half = jnp.ones_like(x), jnp.full_like(x, 0.1)
    series = _first_term(jnp.where(small, x, half), jnp.where(small, b, one), jnp.where(small, z, one))
    sparse = small & ~large
    series = series + jnp.where(sparse, _other_terms(jnp.where(sparse, x, half), jnp.where(sparse, b, one)), 0)
    talbot = _talbot(jnp.where(small | large, one, x), jnp.where(small | large, one, b))
    talbot = talbot + b * (z / 2 + jnp.log1p(jnp.exp(-z)) - math.log(2)) - z * (0.5 * z * x)
    dense = large & ~small
    line = _vertical(jnp.where(dense, x, 4 * one), jnp.where(dense, b, 16 * one), jnp.where(dense, z, one))
    return jnp.where(small, series, jnp.where(large, line, talbot))


def _first_term(x: Elementwise, b: Elementwise, z: Elementwise) -> Elementwise:
    """Logarithm of the tilted ``2^{b−1} b/√(2πx³) exp(−b²/(8x))``: an inverse Gaussian density × ``(1 + e^{−z})^b``."""
    away = (z * x - b / 2) / jnp.sqrt(x)
    first = jnp.log(b) - 0.5 * math.log(8 * math.pi) - 1.5 * jnp.log(x) - 0.5 * away * away
    return first + b * jnp.log1p(jnp.exp(-z))


def _other_terms(x: Elementwise, b: Elementwise) -> Elementwise:
    """Logarithm of ``Σ (−1)ⁿ Γ(n+b)/Γ(n+1)/Γ(b+1) (2n+b) exp{−(4n² + 4nb)/(8x)}``, the series over its first term."""
    total = jnp.ones_like(x)
    for n in range(1, RULES.terms):
        size = gammaln(n + b) - gammaln(b) - math.lgamma(n + 1) + jnp.log(2 * n + b) - jnp.log(b)
        total = total + (-1) ** n * jnp.exp(size - (4 * n * n + 4 * n * b) / (8 * x))
    return jnp.log(total)


def _talbot(x: Elementwise, b: Elementwise) -> Elementwise:
    """Inverse Laplace transform of ``cosh^{−b}(√(s/2))`` after a shift by its first singularity, ``−π²/2``."""
    M = RULES.talbot[x.dtype != jnp.float64]
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


def _vertical(x: Elementwise, b: Elementwise, z: Elementwise) -> Elementwise:
    """Inversion along ``s = ŝ + it`` in steps ``h``: ``log Σ h/(2π) Re exp{K(s) + sx}``, tilted, about the saddle ŝ."""
    q, variance = jax.lax.stop_gradient(_saddle(jax.lax.stop_gradient(x / b)))
    spacing, nodes = RULES.line[x.dtype != jnp.float64]
    step = spacing / jnp.sqrt(jax.lax.stop_gradient(b) * variance)
    kind = _complex(x)
    along = (1,) * x.ndim + (-1,)
    t = step[..., None] * jnp.arange(nodes, dtype=x.dtype).reshape(along)
    start = jnp.sqrt(q.astype(kind) / 4)[..., None]
    log_ratio = _log_cosh_ratio(jnp.sqrt(jax.lax.complex(jnp.broadcast_to(q[..., None] / 4, t.shape), t / 2)), start, t)
    turn = jax.lax.complex(jnp.zeros_like(t), t * x[..., None])
    terms = jnp.real(jnp.exp(turn - b.astype(kind)[..., None] * log_ratio))
    total = (2 * terms.sum(axis=-1) - terms[..., 0]) * spacing
    # For a huge shape the nodes cancel to rounding errors, and the integrand is normal up to 1/b.
    total = jnp.where(b * b * jnp.finfo(x.dtype).eps > 1, math.sqrt(2 * math.pi), total)
    root = jnp.sqrt(jnp.abs(q))
    between = jnp.where(q > 0, (root - z) * (root + z), q - z * z)
    return between * x / 2 - b * log_cosh_change(z / 2, between / 4) + jnp.log(step / spacing * total / (2 * math.pi))


def log_cosh_change(half: Elementwise, change: Elementwise) -> Elementwise:
    """``log cosh √(half² + change) − log cosh half`` without cancellation; a cosine if the root is imaginary."""
    scale = jnp.maximum(half, 1)
    unit = 1 / scale  # the square of a large number overflows
    square = (half * unit) ** 2 + change * unit * unit
    above = square > 0
    root = scale * jnp.sqrt(jnp.where(above, square, 1))
    angle = jnp.where(above, 0.5, scale * jnp.sqrt(jnp.where(above, 1, -square)))
    apart = change / (root + half)
    # cosh r − cosh h = 2 sinh((r + h)/2) sinh((r − h)/2)
    is_close = above & (root + half < 3)
    r, h = jnp.where(is_close, root, 1), jnp.where(is_close, half, 1)
    product = jnp.log1p(2 * jnp.sinh((r + h) / 2) * jnp.sinh(jnp.where(is_close, apart, 0) / 2) / jnp.cosh(h))
    far_value = apart + jnp.log1p(jnp.exp(-2 * root)) - jnp.log1p(jnp.exp(-2 * half))
    log_cosh = half + jnp.log1p(jnp.exp(-2 * half)) - math.log(2)
    little = jnp.where(~above & (half < 3), half, 0)
    sines = jnp.sin(angle / 2) ** 2 + jnp.sinh(little / 2) ** 2
    bent = jnp.log1p(-2 * jnp.where(angle < 1, sines, 0.25) / jnp.cosh(little))
    below = jnp.where((angle < 1) & (half < 3), bent, jnp.log(jnp.cos(angle)) - log_cosh)
    return jnp.where(above, jnp.where(is_close, product, far_value), below)


def _log_cosh_ratio(root: jax.Array, start: jax.Array, t: Float[jax.Array, ...]) -> jax.Array:
    """``log cosh r − log cosh h`` of complex numbers, ``r² − h² = it/2``."""
    both = root + start
    apart = jax.lax.complex(jnp.zeros_like(t), t / 2) / jnp.where(both == 0, 1, both)
    is_close = jnp.abs(root) + jnp.abs(start) < 2
    r, h, d = (jnp.where(is_close, part, 0) for part in (root, start, apart))
    change = 2 * jnp.sinh((r + h) / 2) * jnp.sinh(d / 2) / jnp.cosh(h)
    # Only for a ratio near one, which cannot wind around the origin, where the logarithm jumps.
    is_close &= jnp.abs(change) < 0.5
    far_value = apart + jnp.log1p(jnp.exp(-2 * root)) - jnp.log1p(jnp.exp(-2 * start))
    return jnp.where(is_close, jnp.log1p(jnp.where(is_close, change, 0)), far_value)


def _saddle(ratio: Elementwise) -> tuple[Elementwise, Elementwise]:
    """``q > −π²`` at which PG(1, √q) has the mean ``ratio``, and its variance there, by Newton's method in logarithms.

    The logarithm of the mean falls with ``log(q + π²)`` at a slope between ½ and 1.
    """
    edge = math.pi**2
    place = jnp.log(2 / ratio + 1 / (4 * ratio * ratio))
    for _ in range(RULES.steps):
        q = jnp.exp(place) - edge
        mean, variance = unit_moments(jnp.sqrt(jnp.abs(q)), q > 0)
        place = place + jnp.log(mean / ratio) * 2 * mean / (variance * (q + edge))
    q = jnp.exp(place) - edge
    return q, unit_moments(jnp.sqrt(jnp.abs(q)), q > 0)[1]


def unit_moments(root: Elementwise, real: jax.Array | bool) -> tuple[Elementwise, Elementwise]:
    """Mean and variance of PG(1, z) at ``z = root`` if ``real``, else at ``z = i root``; ``root >= 0``."""
    small = root < RULES.series_limit
    safe = jnp.where(small, jnp.ones_like(root), root)
    decay = jnp.exp(-safe)
    tanh, sech2 = (1 - decay) / (1 + decay), 4 * decay / ((1 + decay) * (1 + decay))
    angle = jnp.minimum(safe, 3.1415)
    tan, sec2 = jnp.tan(angle / 2), 1 / jnp.cos(angle / 2) ** 2
    mean = jnp.where(real, tanh / (2 * safe), tan / (2 * angle))
    # Without a cube, which overflows before the variance is 0.
    variance = jnp.where(real, (2 * tanh / safe - sech2) / (4 * safe) / safe, (sec2 - 2 * tan / angle) / (4 * angle**2))
    q = jnp.where(small, jnp.where(real, root * root, -root * root), 0) / 4
    near_mean, near_variance = jnp.zeros_like(q), jnp.zeros_like(q)
    for power in range(len(_TANH) - 1, -1, -1):
        near_mean = near_mean * q + _TANH[power] / 4
        if power:
            near_variance = near_variance * q - power * _TANH[power] / 8
    return jnp.where(small, near_mean, mean), jnp.where(small, near_variance, variance)


def relative_moments(root: Elementwise) -> tuple[Elementwise, Elementwise]:
    """Mean of PG(1, z) at ``z = root >= 0`` and its variance over the square of its mean, which never underflows."""
    mean, variance = unit_moments(root, True)
    is_large = root > 1
    safe = jnp.where(is_large, root, 1)
    tanh = jnp.tanh(safe / 2)
    # = (2 tanh(z/2)/z − sech²(z/2)) / tanh²(z/2)
    ratio = 2 / (safe * tanh) - (1 - tanh * tanh) / (tanh * tanh)
    return mean, jnp.where(is_large, ratio, variance / (mean * mean))


def _log_cosh(s: jax.Array) -> jax.Array:
    """``log cosh √(s/2)`` of complex ``s``."""
    root = jnp.sqrt(s / 2)
    return root + jnp.log1p(jnp.exp(-2 * root)) - math.log(2)


def _complex(x: Elementwise) -> type:
    return jnp.complex128 if x.dtype == jnp.float64 else jnp.complex64
