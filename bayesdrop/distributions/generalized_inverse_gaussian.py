r"""Generalised inverse Gaussian distribution.

    f(x) = (a/b)^{p/2} / (2 K_p(√(ab))) · x^{p−1} exp{−(a x + b/x)/2},      x > 0.

Sampler: the rejection method of Devroye (2014, Statistics and Computing 24), whose three-piece envelope bounds the
log-concave density of ``log x``. The Bessel function comes from its integral ``K_p(ω) = ½ ∫ exp(−ω cosh t + p t) dt``
over the real line, on which the trapezoidal rule converges geometrically.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpyro  # noqa: F401  (whole before its parts: ArviZ 1.3 leaves a lazy stand-in that would load parts twice)
from jax import lax, random
from jax.scipy.special import logsumexp
from jaxtyping import PRNGKeyArray
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.util import promote_shapes, validate_sample

from .._typing import Bool, Float
from .inverse_gaussian import Numbers, _floats

__all__ = ["GeneralizedInverseGaussian", "log_bessel_k"]

Elementwise = Float[jax.Array, "*shape"]
Carry = tuple[PRNGKeyArray, Elementwise, Bool[jax.Array, "*shape"]]

_NODES = 800


def log_bessel_k(order: Numbers, x: Numbers) -> Float[jax.Array, ...]:
    """``log K_p(x)`` for real order ``|p| <= 500`` and ``x > 0``; both broadcast.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> round(float(log_bessel_k(jnp.array(0.5), jnp.array(1.0))), 4)  # √(π/2) e⁻¹
    -0.7742
    """
    return _log_bessel_k(*jnp.broadcast_arrays(*_floats(order, x)))


@jax.jit
def _log_bessel_k(order: Elementwise, x: Elementwise) -> Elementwise:
    order = jnp.abs(order)
    # Beyond these ends the integrand is below e⁻⁴⁵ of its peak, which lies at sinh t = p/x.
    low = -jnp.arccosh(1 + 45 / x)
    high = jnp.arcsinh(order / x) + jnp.arccosh(1 + 45 / jnp.sqrt(x * x + order * order))
    low, high = lax.stop_gradient(low)[..., None], lax.stop_gradient(high)[..., None]
    share = jnp.arange(_NODES, dtype=x.dtype) / (_NODES - 1)
    share = share.reshape((1,) * x.ndim + (-1,))
    t = low + (high - low) * share
    # cosh t − 1 = 2 sinh²(t/2): the large part of the exponent stays outside of the sum.
    exponent = -x[..., None] * 2 * jnp.sinh(t / 2) ** 2 + order[..., None] * t
    step = jnp.log((high - low)[..., 0] / (_NODES - 1))
    return logsumexp(exponent, axis=-1) - x + step - jnp.log(jnp.asarray(2.0, x.dtype))


class GeneralizedInverseGaussian(Distribution):
    """Generalised inverse Gaussian distribution, ``density ∝ x^{p−1} exp(−(a x + b/x)/2)``.

    Parameters
    ----------
    p : array
        Order, any real number.
    a, b : array > 0
        Rates of ``x`` and of ``1/x``.

    Examples
    --------
    >>> round(float(GeneralizedInverseGaussian(0.5, 1.0, 4.0).mean), 3)  # 1/μ + 1 with μ = 1/2
    3.0
    """

    arg_constraints = {"p": constraints.real, "a": constraints.positive, "b": constraints.positive}
    support = constraints.positive

    def __init__(self, p: Numbers, a: Numbers, b: Numbers, *, validate_args: bool | None = None) -> None:
        self.p, self.a, self.b = promote_shapes(*_floats(p, a, b))
        shape = jnp.broadcast_shapes(jnp.shape(p), jnp.shape(a), jnp.shape(b))
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(self, key: PRNGKeyArray, sample_shape: tuple[int, ...] = ()) -> Float[jax.Array, ...]:
        """Draws of shape ``sample_shape + batch_shape``."""
        shape = tuple(sample_shape) + self.batch_shape
        p, a, b = (jnp.broadcast_to(part, shape) for part in (self.p, self.a, self.b))
        return jnp.sqrt(b / a) * _devroye(key, p, jnp.sqrt(a) * jnp.sqrt(b))

    @validate_sample
    def log_prob(self, value: Numbers) -> Float[jax.Array, ...]:
        """Log-density."""
        value, p, a, b = jnp.broadcast_arrays(value, self.p, self.a, self.b)
        constant = 0.5 * p * (jnp.log(a) - jnp.log(b)) - jnp.log(jnp.asarray(2.0, a.dtype))
        kernel = (p - 1) * jnp.log(value) - 0.5 * (a * value + b / value)
        return constant - log_bessel_k(p, jnp.sqrt(a) * jnp.sqrt(b)) + kernel

    def moment(self, power: float) -> Float[jax.Array, ...]:
        """``E[x^power]`` for any real power, shaped like the batch; ``moment(-1)`` is ``E[1/x]``."""
        p, a, b = jnp.broadcast_arrays(self.p, self.a, self.b)
        omega = jnp.sqrt(a) * jnp.sqrt(b)
        ratio = log_bessel_k(p + power, omega) - log_bessel_k(p, omega)
        value = jnp.exp(ratio + 0.5 * power * (jnp.log(b) - jnp.log(a)))
        return value.reshape(self.batch_shape)

    @property
    def mean(self) -> Float[jax.Array, ...]:
        """Mean, shaped like the batch."""
        return self.moment(1)

    @property
    def variance(self) -> Float[jax.Array, ...]:
        """Variance, shaped like the batch."""
        return self.moment(2) - self.moment(1) ** 2


@jax.jit
def _devroye(key: PRNGKeyArray, p: Elementwise, omega: Elementwise) -> Elementwise:
    """Draws of density ``∝ x^{p−1} exp(−ω(x + 1/x)/2)``: rejection in ``log x``, all elements until all accept."""
    order = jnp.abs(p)
    root = jnp.sqrt(omega * omega + order * order)
    alpha = omega * (omega / (root + order))  # √(ω² + λ²) − λ without cancellation

    def psi(x: Elementwise) -> Elementwise:
        return -alpha * 2 * jnp.sinh(x / 2) ** 2 - order * (jnp.expm1(x) - x)

    def psi_slope(x: Elementwise) -> Elementwise:
        return -alpha * jnp.sinh(x) - order * jnp.expm1(x)

    one = jnp.ones_like(omega)
    tiny = jnp.finfo(omega.dtype).tiny
    up, down = -psi(one), -psi(-one)
    t = jnp.where(up > 2, jnp.sqrt(2 / (alpha + order)), one)
    t = jnp.where(up < 0.5, jnp.log(4 / (alpha + 2 * order)), t)
    s = jnp.where(down > 2, jnp.sqrt(4 / (alpha * jnp.cosh(one) + order)), one)
    shallow = jnp.log1p(1 / alpha + jnp.sqrt(1 / alpha * (1 / alpha + 2)))
    s = jnp.where(down < 0.5, jnp.minimum(1 / jnp.maximum(order, tiny), shallow), s)
    eta, zeta = -psi(t), -psi_slope(t)
    theta, xi = -psi(-s), psi_slope(-s)
    left, right = 1 / xi, 1 / zeta
    t_in, s_in = t - right * eta, s - left * theta
    middle = t_in + s_in

    def attempt(carry: Carry) -> Carry:
        key, x, done = carry
        key, key_draw = random.split(key)
        u, v, w = random.uniform(key_draw, (3, *omega.shape), omega.dtype, minval=tiny)
        u = u * (left + middle + right)
        log_v = jnp.log(v)
        proposal = jnp.where(
            u < middle, -s_in + middle * v, jnp.where(u < middle + right, t_in - right * log_v, -s_in + left * log_v)
        )
        envelope = jnp.where(proposal > t_in, -eta - zeta * (proposal - t), jnp.zeros_like(proposal))
        envelope = jnp.where(proposal < -s_in, -theta + xi * (proposal + s), envelope)
        accept = ~done & (jnp.log(w) + envelope <= psi(proposal))
        return key, jnp.where(accept, proposal, x), done | accept

    start = (key, jnp.zeros_like(omega), jnp.zeros(omega.shape, bool))
    _, x, _ = lax.while_loop(lambda carry: ~jnp.all(carry[2]), attempt, start)
    mode = jnp.log((order + root) / omega)
    return jnp.exp(jnp.where(p < 0, -(x + mode), x + mode))
