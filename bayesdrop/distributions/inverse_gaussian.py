r"""Inverse Gaussian distribution.

    f(x) = √(λ / (2π x³)) exp{−λ (x − μ)² / (2 μ² x)},      x > 0,

with mean μ and shape λ; variance ``μ³/λ``. Sampler: Michael, Schucany & Haas (1976), with the small root computed
through the large one so that nothing cancels.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random
from jax.scipy.special import log_ndtr
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.util import promote_shapes, validate_sample

__all__ = ["InverseGaussian", "reciprocal_inverse_gaussian"]

Array = Any


@jax.jit
def reciprocal_inverse_gaussian(key: Array, nu: Array) -> Array:
    """Draw from GIG(½, 1, ν²), the law of the reciprocal of an inverse Gaussian with mean ``1/ν`` and shape 1.

    Parameters
    ----------
    key : JAX key
    nu : array >= 0
        At 0 the law is a chi-square with one degree of freedom; no value of ν is special to the arithmetic.

    Returns
    -------
    array shaped like ``nu``, in its dtype

    Examples
    --------
    >>> from jax import random
    >>> import jax.numpy as jnp
    >>> bool(reciprocal_inverse_gaussian(random.key(0), jnp.array([0.0, 1.0])).min() > 0)
    True
    """
    key_normal, key_root = random.split(key)
    square = random.normal(key_normal, nu.shape, nu.dtype) ** 2
    large = nu + 0.5 * (square + jnp.sqrt(square * (4 * nu + square)))
    large = jnp.maximum(large, jnp.finfo(nu.dtype).tiny)
    chance = random.uniform(key_root, nu.shape, nu.dtype)
    draw = jnp.where(chance * (large + nu) < large, large, nu * (nu / large))
    return jnp.maximum(draw, jnp.finfo(nu.dtype).tiny)


class InverseGaussian(Distribution):
    """Inverse Gaussian distribution with mean ``loc`` and shape ``concentration``.

    Parameters
    ----------
    loc : array > 0
        Mean μ.
    concentration : array > 0
        Shape λ; the variance is ``μ³/λ``.

    Examples
    --------
    >>> float(InverseGaussian(2.0, 4.0).variance)
    2.0
    """

    arg_constraints = {"loc": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    reparametrized_params = ["loc", "concentration"]

    def __init__(self, loc: Array, concentration: Array, *, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = promote_shapes(*_floats(loc, concentration))
        shape = jnp.broadcast_shapes(jnp.shape(loc), jnp.shape(concentration))
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of shape ``sample_shape + batch_shape``."""
        shape = tuple(sample_shape) + self.batch_shape
        loc, concentration = jnp.broadcast_to(self.loc, shape), jnp.broadcast_to(self.concentration, shape)
        # λ/X ~ GIG(½, 1, (λ/μ)²)
        return concentration / reciprocal_inverse_gaussian(key, concentration / loc)

    @validate_sample
    def log_prob(self, value: Array) -> Array:
        """Log-density."""
        value, loc, shape = jnp.broadcast_arrays(value, self.loc, self.concentration)
        z = (value - loc) / loc
        return 0.5 * (jnp.log(shape) - jnp.log(2 * jnp.pi) - 3 * jnp.log(value)) - 0.5 * shape * z * z / value

    def cdf(self, value: Array) -> Array:
        """Distribution function, in closed form."""
        value, loc, shape = jnp.broadcast_arrays(value, self.loc, self.concentration)
        root = jnp.sqrt(shape / value)
        first = jnp.exp(log_ndtr(root * (value / loc - 1)))
        return first + jnp.exp(2 * shape / loc + log_ndtr(-root * (value / loc + 1)))

    @property
    def mean(self) -> Array:
        """Mean, shaped like the batch."""
        return jnp.broadcast_to(self.loc, self.batch_shape)

    @property
    def variance(self) -> Array:
        """Variance, shaped like the batch."""
        return jnp.broadcast_to(self.loc, self.batch_shape) ** 3 / self.concentration


def _floats(*values: Array) -> list[Array]:
    """Arrays of one floating dtype: the widest among those given, Python numbers aside."""
    kinds = [jnp.asarray(value).dtype for value in values if hasattr(value, "dtype")]
    kinds = [kind for kind in kinds if jnp.issubdtype(kind, jnp.floating)]
    dtype = max(kinds, key=lambda kind: jnp.finfo(kind).bits) if kinds else jax.dtypes.canonicalize_dtype(float)
    return [jnp.asarray(value, dtype) for value in values]
