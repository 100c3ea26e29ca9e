r"""Inverse Gaussian distribution.

    f(x) = √(λ / (2π x³)) exp{−λ (x − μ)² / (2 μ² x)},      x > 0,

with mean μ and shape λ; variance ``μ³/λ``. Draws come from :mod:`.reciprocal`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpyro  # noqa: F401  (whole before its parts: ArviZ 1.3 leaves a lazy stand-in that would load parts twice)
from jax.scipy.special import log_ndtr
from jaxtyping import PRNGKeyArray
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.util import promote_shapes, validate_sample

from .._typing import AnyArray, Float, Num
from .reciprocal import reciprocal_inverse_gaussian

__all__ = ["InverseGaussian"]

Numbers = Num[AnyArray, "..."] | float | int


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

    def __init__(self, loc: Numbers, concentration: Numbers, *, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = promote_shapes(*_floats(loc, concentration))
        shape = jnp.broadcast_shapes(jnp.shape(loc), jnp.shape(concentration))
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(self, key: PRNGKeyArray, sample_shape: tuple[int, ...] = ()) -> Float[jax.Array, ...]:
        """Draws of shape ``sample_shape + batch_shape``."""
        shape = tuple(sample_shape) + self.batch_shape
        loc, concentration = jnp.broadcast_to(self.loc, shape), jnp.broadcast_to(self.concentration, shape)
        # λ/X ~ GIG(½, 1, (λ/μ)²)
        return concentration / reciprocal_inverse_gaussian(key, concentration / loc)

    @validate_sample
    def log_prob(self, value: Numbers) -> Float[jax.Array, ...]:
        """Log-density."""
        value, loc, shape = jnp.broadcast_arrays(value, self.loc, self.concentration)
        z = (value - loc) / loc
        return 0.5 * (jnp.log(shape) - jnp.log(2 * jnp.pi) - 3 * jnp.log(value)) - 0.5 * shape * z * z / value

    def cdf(self, value: Numbers) -> Float[jax.Array, ...]:
        """Distribution function, in closed form."""
        value, loc, shape = jnp.broadcast_arrays(value, self.loc, self.concentration)
        root = jnp.sqrt(shape / value)
        first = jnp.exp(log_ndtr(root * (value / loc - 1)))
        return first + jnp.exp(2 * shape / loc + log_ndtr(-root * (value / loc + 1)))

    @property
    def mean(self) -> Float[jax.Array, ...]:
        """Mean, shaped like the batch."""
        return jnp.broadcast_to(self.loc, self.batch_shape)

    @property
    def variance(self) -> Float[jax.Array, ...]:
        """Variance, shaped like the batch."""
        return jnp.broadcast_to(self.loc, self.batch_shape) ** 3 / self.concentration


def _floats(*values: Numbers) -> list[Float[jax.Array, ...]]:
    """Arrays of one floating dtype: the widest among those given, Python numbers aside."""
    kinds = [jnp.asarray(value).dtype for value in values if hasattr(value, "dtype")]
    kinds = [kind for kind in kinds if jnp.issubdtype(kind, jnp.floating)]
    dtype = max(kinds, key=lambda kind: jnp.finfo(kind).bits) if kinds else jax.dtypes.canonicalize_dtype(float)
    return [jnp.asarray(value, dtype) for value in values]
