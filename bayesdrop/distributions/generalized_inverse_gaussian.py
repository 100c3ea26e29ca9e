r"""Define the generalised inverse Gaussian distribution for NumPyro.

    f(x) = (a/b)^{p/2} / (2 K_p(√(ab))) · x^{p−1} exp{−(a x + b/x)/2},      x > 0.

Draws come from the log-concave density of ``log x`` by rejection (:mod:`.log_concave`). With ``ω = √(ab)``,
``R = √(ω² + p²)`` and, for ``p >= 0``, the mode ``x_0 = (R + p)/a`` of ``x f(x)``,

    x f(x) ∝ exp D(u),     D(u) = −(R − p)(cosh u − 1) − p(e^u − 1 − u),     u = log(x / x_0),

whose terms are small in the bulk of the law, however large ``ω`` and ``p``; for ``p < 0`` it holds for ``1/x``, of
order ``−p``. Constant and moments are integrals over ``u``, on which the trapezoidal rule converges geometrically.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpyro  # noqa: F401  (whole before its parts: ArviZ 1.3 leaves a lazy stand-in that would load parts twice)
from jax import lax
from jax.scipy.special import logsumexp
from jaxtyping import PRNGKeyArray
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.util import promote_shapes, validate_sample

from .._typing import Float
from .inverse_gaussian import Numbers, floats
from .log_concave import draw_log_concave

__all__ = ["GeneralizedInverseGaussian"]

Elementwise = Float[jax.Array, "*shape"]


@dataclass(frozen=True)
class Rules:
    """Accuracy of the sums over ``u``.

    Attributes
    ----------
    nodes, depth : int, float
        Number of nodes, and the fall of the logarithm of the integrand from its peak to the ends of the sum.
    terms : int
        Terms of the series of ``e^u − 1 − u``.
    exponent, margin : float
        ``log x`` beyond which ``log 2x`` replaces ``arccosh(1 + x)``, and the margin that makes it an upper bound.
    """

    nodes: int = 800
    depth: float = 45.0
    terms: int = 15
    exponent: float = 9.0
    margin: float = 1e-3


RULES = Rules()


def _exponent(
    p: Float[jax.Array, ...], omega: Float[jax.Array, ...], u: Float[jax.Array, ...]
) -> Float[jax.Array, ...]:
    """``D(u)`` for ``p >= 0``; the shapes broadcast."""
    small = jnp.abs(u) < 0.5
    small_u = jnp.where(small, u, 0)
    series = jnp.ones_like(u)
    for n in range(RULES.terms, 2, -1):
        series = 1 + small_u / n * series
    large_u = jnp.where(small, 1, u)
    # R − p = ω²/(R + p), as a square root: ω² may underflow where the hyperbolic sine overflows.
    half = omega / jnp.sqrt(jnp.hypot(omega, p) + p) * jnp.sinh(u / 2)
    return -2 * half * half - p * jnp.where(small, small_u * small_u / 2 * series, jnp.expm1(large_u) - large_u)


def _ends(p: Elementwise, omega: Elementwise) -> tuple[Elementwise, Elementwise]:
    """Points below and above the peak at which the integrand is at most ``e⁻⁴⁵`` of its peak, for ``p >= 0``."""
    # Above the peak D falls as R(cosh u − 1) or faster, below as the larger of its two terms.
    line = RULES.depth / jnp.maximum(p, jnp.finfo(p.dtype).tiny)
    root = jnp.hypot(omega, p)
    below = _arccosh_above(math.log(RULES.depth) + jnp.log(root + p) - 2 * jnp.log(omega))
    return -jnp.minimum(below, line + jnp.sqrt(2 * line)), _arccosh_above(math.log(RULES.depth) - jnp.log(root))


def _place(p: Elementwise, omega: Elementwise) -> Elementwise:
    """``arcsinh(p/ω)``, the logarithm of ``x_0`` in units of ``√(b/a)``."""
    size = jnp.abs(p)
    return jnp.sign(p) * (jnp.log(jnp.hypot(omega, size) + size) - jnp.log(omega))


def _arccosh_above(log_excess: Elementwise) -> Elementwise:
    """``arccosh(1 + excess)``, or a little more."""
    excess = jnp.exp(jnp.minimum(log_excess, RULES.exponent))
    value = jnp.log1p(excess + jnp.sqrt(excess * (excess + 2)))
    return jnp.where(log_excess > RULES.exponent, log_excess + math.log(2) + RULES.margin, value)


def _nodes(low: Elementwise, high: Elementwise) -> tuple[Float[jax.Array, "... nodes"], Elementwise]:
    """Nodes between the ends along a new last axis, and the logarithm of their spacing, without derivatives."""
    low, high = lax.stop_gradient(low), lax.stop_gradient(high)
    share = jnp.arange(RULES.nodes, dtype=low.dtype) / (RULES.nodes - 1)
    u = low[..., None] + (high - low)[..., None] * share.reshape((1,) * low.ndim + (-1,))
    return u, jnp.log((high - low) / (RULES.nodes - 1))


@jax.jit
def _log_integral(p: Elementwise, omega: Elementwise) -> Elementwise:
    """``log ∫ exp D(u) du``."""
    u, step = _nodes(*_ends(p, omega))
    return logsumexp(_exponent(p[..., None], omega[..., None], u), axis=-1) + step


@jax.jit
def _log_moments(p: Elementwise, omega: Elementwise, power: Elementwise) -> tuple[Elementwise, Elementwise]:
    """Logarithms of ``E (x/x_0)^power`` and of the variance of ``x/x_0``, from the same nodes as the constant."""
    sign, size = jnp.where(p < 0, -1, 1).astype(p.dtype), jnp.abs(p)
    low, high = _ends(size, omega)
    # The law tilted by a power of x has another order and another peak.
    for tilt in (sign * power, 2 * sign):
        order = size + tilt
        ends = _ends(jnp.abs(order), omega)
        away = _place(order, omega) - _place(size, omega)
        low = jnp.minimum(low, away + jnp.where(order < 0, -ends[1], ends[0]))
        high = jnp.maximum(high, away + jnp.where(order < 0, -ends[0], ends[1]))
    u, _ = _nodes(low, high)
    exponent = _exponent(size[..., None], omega[..., None], u)
    u, total = sign[..., None] * u, logsumexp(exponent, axis=-1)
    excess = jnp.expm1(u)
    mean = jnp.sum(excess * jnp.exp(exponent - total[..., None]), axis=-1)
    away = 2 * jnp.log(jnp.maximum(jnp.abs(excess - mean[..., None]), jnp.finfo(u.dtype).tiny))
    moment = logsumexp(power[..., None] * u + exponent, axis=-1) - total
    return moment, logsumexp(away + exponent, axis=-1) - total


class GeneralizedInverseGaussian(Distribution):
    """Generalised inverse Gaussian distribution, ``density ∝ x^{p−1} exp(−(a x + b/x)/2)``.

    Parameters
    ----------
    p : array
        Order, any real number.
    a, b : array > 0
        Coefficients of ``x`` and of ``1/x``.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.InverseGaussian

    Examples
    --------
    >>> round(float(GeneralizedInverseGaussian(0.5, 1.0, 4.0).mean), 3)  # 1/μ + 1 with μ = 1/2
    3.0
    """

    arg_constraints = {"p": constraints.real, "a": constraints.positive, "b": constraints.positive}
    support = constraints.positive

    def __init__(self, p: Numbers, a: Numbers, b: Numbers, *, validate_args: bool | None = None) -> None:
        self.p, self.a, self.b = promote_shapes(*floats(p, a, b))
        shape = jnp.broadcast_shapes(jnp.shape(p), jnp.shape(a), jnp.shape(b))
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(self, key: PRNGKeyArray, sample_shape: tuple[int, ...] = ()) -> Float[jax.Array, ...]:
        """Draws of shape ``sample_shape + batch_shape``."""
        shape = tuple(sample_shape) + self.batch_shape
        axes = (1,) * len(sample_shape) + self.batch_shape
        p, a, b = (part.reshape(axes) for part in jnp.broadcast_arrays(self.p, self.a, self.b))
        return jnp.sqrt(b / a) * _draw(key, p, jnp.sqrt(a) * jnp.sqrt(b), shape)

    @validate_sample
    def log_prob(self, value: Numbers) -> Float[jax.Array, ...]:
        """Log-density."""
        value, p, omega, log_peak, peak = jnp.broadcast_arrays(value, *self._standard())
        close = jnp.abs(value - peak) < 0.5 * peak
        away = jnp.where(close, (value - peak) / peak, 0)
        u = jnp.where(close, jnp.log1p(away), jnp.log(value) - log_peak)
        size = jnp.abs(p)
        return _exponent(size, omega, jnp.where(p < 0, -u, u)) - _log_integral(size, omega) - jnp.log(value)

    def _standard(self) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Order, ``ω``, and the logarithm and the value of the mode ``x_0`` of ``x f(x)``."""
        p, a, b = jnp.broadcast_arrays(self.p, self.a, self.b)
        omega = jnp.sqrt(a) * jnp.sqrt(b)
        larger = jnp.hypot(omega, p) + jnp.abs(p)
        peak = jnp.where(p >= 0, larger / a, b / larger)
        return p, omega, jnp.where(p >= 0, jnp.log(larger) - jnp.log(a), jnp.log(b) - jnp.log(larger)), peak

    def moment(self, power: float) -> Float[jax.Array, ...]:
        """``E[x^power]`` for any real power, shaped like the batch; ``moment(-1)`` is ``E[1/x]``."""
        p, omega, log_peak, peak = self._standard()
        log_moment = _log_moments(p, omega, jnp.full_like(omega, power))[0]
        whole = peak * jnp.exp(log_moment) if power == 1 else jnp.exp(log_moment + power * log_peak)
        return whole.reshape(self.batch_shape)

    @property
    def mean(self) -> Float[jax.Array, ...]:
        """Mean, shaped like the batch."""
        return self.moment(1)

    @property
    def variance(self) -> Float[jax.Array, ...]:
        """Variance, shaped like the batch."""
        p, omega, _, peak = self._standard()
        return (peak * jnp.exp(0.5 * _log_moments(p, omega, jnp.ones_like(omega))[1])).reshape(self.batch_shape) ** 2


@partial(jax.jit, static_argnums=3)
def _draw(key: PRNGKeyArray, p: Elementwise, omega: Elementwise, shape: tuple[int, ...]) -> Float[jax.Array, "*draws"]:
    """Draws of density ``∝ x^{p−1} exp(−ω(x + 1/x)/2)``: rejection in ``log x``, all elements until all accept."""
    order = jnp.abs(p)
    u = draw_log_concave(key, lambda u: _exponent(order, omega, u), jnp.zeros_like(omega), shape)
    place = u + _place(order, omega)
    return jnp.exp(jnp.where(p < 0, -place, place))
