r"""Define the Polya-Gamma distribution PG(b, z) of Polson, Scott & Windle (2013) for NumPyro.

    E exp(−t x) = cosh^b(z/2) / cosh^b(√(z²/4 + t/2)),      f(x | b, z) = cosh^b(z/2) exp(−z² x/2) f(x | b, 0).

The density is computed in :mod:`.polya_gamma_density`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpyro  # noqa: F401  (whole before its parts: ArviZ 1.3 leaves a lazy stand-in that would load parts twice)
from jax import lax, random
from jaxtyping import PRNGKeyArray
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.util import promote_shapes, validate_sample

from .._typing import Float
from .draws import polya_gamma_one, where_needed
from .inverse_gaussian import InverseGaussian, Numbers, floats
from .polya_gamma_density import log_cosh_change, log_density, relative_moments, unit_moments

__all__ = ["PolyaGamma"]

Elementwise = Float[jax.Array, "*shape"]
Carry = tuple[Float[jax.Array, ""], PRNGKeyArray, Elementwise]


@dataclass(frozen=True)
class Rules:
    """Rules of the draws.

    Attributes
    ----------
    summed : int
        Maximum number of draws of PG(1, z) that are summed; the rest of an integer shape is drawn as one inverse
        Gaussian of the same mean and variance.
    share, min_terms, max_terms : float, int, int
        Gamma terms that are drawn for shapes below 2, the least of which is ``f``: ``share/f``, from ``min_terms`` to
        ``max_terms``. The smaller the shape, the more terms are tiny.
    largest : float
        Maximum shape of an inverse Gaussian; beyond it its draws equal its mean.
    """

    summed: int = 64
    share: float = 1.2
    min_terms: int = 4
    max_terms: int = 64
    largest: float = 1e30


RULES = Rules()


class PolyaGamma(Distribution):
    """Polya-Gamma distribution.

    Parameters
    ----------
    b : array > 0, default=1.0
        Shape, any positive number.
    z : array, default=0.0
        Tilt, any real number.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.polya_gamma_one, bayesdrop.distributions.LogisticPseudoLikelihood

    Notes
    -----
    The sampler is exact for integer ``b`` up to 64, as a sum of exact draws of PG(1, z). A fractional part, together
    with 1 of the integer part if that is not 0, is a shape ``f`` below 2, drawn as at least its first ``1.2/f`` gamma
    terms (4 to 64) plus an inverse Gaussian that matches the mean and the variance of the rest: mean and variance are
    exact, and the distribution function is off by less than 1e-3 for ``f >= 0.02`` (below that by up to 0.02). The part
    of ``b`` above 64 is drawn as an inverse Gaussian of the same mean and variance, off by less than 1e-3.

    References
    ----------
    Polson, Scott & Windle (2013), Bayesian inference for logistic models using Pólya-Gamma latent variables, JASA
    108.

    Examples
    --------
    >>> float(PolyaGamma(1.0, 0.0).mean)
    0.25
    """

    arg_constraints = {"b": constraints.positive, "z": constraints.real}
    support = constraints.positive

    def __init__(self, b: Numbers = 1.0, z: Numbers = 0.0, *, validate_args: bool | None = None) -> None:
        self.b, self.z = promote_shapes(*floats(b, z))
        shape = jnp.broadcast_shapes(jnp.shape(b), jnp.shape(z))
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(self, key: PRNGKeyArray, sample_shape: tuple[int, ...] = ()) -> Float[jax.Array, ...]:
        """Draws of shape ``sample_shape + batch_shape``."""
        shape = tuple(sample_shape) + self.batch_shape
        return _draw(key, jnp.broadcast_to(self.b, shape), jnp.broadcast_to(self.z, shape))

    @validate_sample
    def log_prob(self, value: Numbers) -> Float[jax.Array, ...]:
        """Log-density."""
        value, b, z = jnp.broadcast_arrays(value, self.b, self.z)
        return log_density(value, b, jnp.abs(z))

    def log_laplace(self, t: Numbers) -> Float[jax.Array, ...]:
        """``log E exp(−t x)`` for ``t > −(z² + π²)/2``; broadcasts against the batch."""
        return -self.b * log_cosh_change(jnp.abs(self.z) / 2, jnp.asarray(t, self.z.dtype) / 2)

    @property
    def mean(self) -> Float[jax.Array, ...]:
        """``b tanh(z/2) / (2z)``, shaped like the batch."""
        return (self.b * unit_moments(jnp.abs(self.z), True)[0]).reshape(self.batch_shape)

    @property
    def variance(self) -> Float[jax.Array, ...]:
        """``b (sinh z − z) / (4 z³ cosh²(z/2))``, shaped like the batch."""
        return (self.b * unit_moments(jnp.abs(self.z), True)[1]).reshape(self.batch_shape)


@jax.jit
def _draw(key: PRNGKeyArray, b: Elementwise, z: Elementwise) -> Elementwise:
    """Draw the integer part by sums, the fractional part and the excess by matched moments."""
    key_sum, key_part, key_rest = random.split(key, 3)
    # A fraction takes 1 from the integer part, if that is not 0: a larger shape needs fewer terms.
    whole = jnp.floor(b)
    part = b - whole
    joined = jnp.where((part > 0) & (whole > 0), jnp.ones_like(b), 0)
    whole, part = whole - joined, part + joined
    summed = jnp.minimum(whole, RULES.summed)

    def add(carry: Carry) -> Carry:
        count, key, total = carry
        key, key_draw = random.split(key)
        draw = polya_gamma_one(key_draw, z)
        return count + 1, key, total + jnp.where(count < summed, draw, 0)

    rounds = jnp.max(summed, initial=0)
    start = (jnp.zeros((), z.dtype), key_sum, jnp.zeros_like(z))
    _, _, total = lax.while_loop(lambda carry: carry[0] < rounds, add, start)
    beyond = whole - summed
    moments = relative_moments(jnp.abs(z))
    total = where_needed(jnp.any(part > 0), lambda t, key: t + _fraction(key, part, z), total, key_part)
    return where_needed(jnp.any(beyond > 0), lambda t, key: t + _matched(key, beyond, *moments), total, key_rest)


def _matched(key: PRNGKeyArray, b: Elementwise, mean: Elementwise, spread: Elementwise) -> Elementwise:
    """Inverse Gaussian of mean ``b mean`` and of variance ``spread/b`` in units of its square; 0 where ``b`` is 0."""
    is_positive = b > 0
    # In units of the mean, so that no power of a small number underflows.
    shape = jnp.minimum(jnp.where(is_positive, b, 1) / spread, RULES.largest)
    return b * mean * jnp.where(is_positive, InverseGaussian(1.0, shape, validate_args=False).sample(key), 0)


def _fraction(key: PRNGKeyArray, b: Elementwise, z: Elementwise) -> Elementwise:
    """PG(b, z) for ``0 <= b < 2`` from ``Σ_k Gamma(b, 1) / (2π² (k − ½)² + z²/2)``: first terms drawn, tail matched."""
    key_gamma, key_rest = random.split(key)
    is_positive = b > 0
    shape = jnp.where(is_positive, b, 1)
    terms = jnp.clip(jnp.ceil(RULES.share / jnp.min(shape, initial=1.0)), RULES.min_terms, RULES.max_terms)

    def add(carry: Carry) -> Carry:
        k, key, total = carry
        key, key_draw = random.split(key)
        # By logarithms, because a gamma variable of small shape underflows in single precision.
        draw = jnp.exp(random.loggamma(key_draw, shape, b.shape, z.dtype))
        weight = 1 / (2 * math.pi**2 * (k + 0.5) ** 2 + z * z / 2)
        return k + 1, key, total + weight * draw

    start = (jnp.zeros((), z.dtype), key_gamma, jnp.zeros_like(z))
    _, _, total = lax.while_loop(lambda carry: carry[0] < terms, add, start)
    return jnp.where(is_positive, total + _matched(key_rest, shape, *_tail_moments(terms, z)), 0)


def _tail_moments(first: Float[jax.Array, ""], z: Elementwise) -> tuple[Elementwise, Elementwise]:
    """``Σ_{k >= first} w_k`` and ``Σ w_k² / (Σ w_k)²`` of ``w_k = 1/(2π² (k + ½)² + z²/2)``, by a midpoint rule.

    Its first correction is included. Subtracting the first terms from the total would cancel all digits of the variance
    in single precision, where the variance itself underflows at large tilts.
    """
    x = jnp.abs(z) / (2 * math.pi * first)
    small = x < 0.2
    safe = jnp.where(small, jnp.ones_like(x), x)
    y = jnp.where(small, x * x, 0)
    angle = jnp.arctan(safe)
    ratio = jnp.where(small, 1 - y * (1 / 3 - y * (1 / 5 - y * (1 / 7 - y / 9))), angle / safe)
    series = 1 / 3 - y * (2 / 5 - y * (3 / 7 - y * (4 / 9 - y * 5 / 11)))
    growth = 1 + x * x
    second = jnp.where(small, series / ratio**2, (ratio - 1 / growth) / (2 * angle * angle))
    mean = 1 - 1 / (12 * (first * growth) ** 2 * ratio)
    spread = (second - 1 / (6 * first * first * growth * (growth * ratio) ** 2)) / (first * mean * mean)
    return ratio / (2 * math.pi**2 * first) * mean, spread
