r"""Define the inverse Gaussian distribution for NumPyro.

    f(x) = √(λ / (2π x³)) exp{−λ (x − μ)² / (2 μ² x)},      x > 0,

with mean μ and shape λ; variance ``μ³/λ``. Draws come from :mod:`.draws`.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpyro  # noqa: F401  (whole before its parts: ArviZ 1.3 leaves a lazy stand-in that would load parts twice)
from jax.scipy.special import log_ndtr
from jaxtyping import PRNGKeyArray
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.util import promote_shapes, validate_sample

from .._typing import AnyArray, Float, Num
from .draws import reciprocal_inverse_gaussian

__all__ = ["InverseGaussian", "Numbers", "floats"]

Numbers = Num[AnyArray, "..."] | float | int
# Levels of the continued fraction of Mills' ratio, enough for double precision at x >= 3.
_FRACTION = 50


class InverseGaussian(Distribution):
    """Inverse Gaussian distribution with mean ``loc`` and shape ``concentration``.

    Parameters
    ----------
    loc : array > 0
        Mean μ.
    concentration : array > 0
        Shape λ; the variance is ``μ³/λ``.
    validate_args : bool, optional
        As in NumPyro.

    See Also
    --------
    bayesdrop.distributions.GeneralizedInverseGaussian

    Examples
    --------
    >>> float(InverseGaussian(2.0, 4.0).variance)
    2.0
    """

    arg_constraints = {"loc": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    reparametrized_params = ["loc", "concentration"]

    def __init__(self, loc: Numbers, concentration: Numbers, *, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = promote_shapes(*floats(loc, concentration))
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
        z = jnp.sqrt(shape / value) * ((value - loc) / loc)
        return 0.5 * (jnp.log(shape) - math.log(2 * math.pi) - 3 * jnp.log(value)) - 0.5 * z * z

    def cdf(self, value: Numbers) -> Float[jax.Array, ...]:
        """Distribution function, in closed form."""
        value, loc, shape = jnp.broadcast_arrays(*floats(value, self.loc, self.concentration))
        inside = (value > 0) & (value < jnp.inf)
        safe = jnp.where(inside, value, loc)
        root = jnp.sqrt(shape / safe)
        below, above = root * ((safe - loc) / loc), root * (safe / loc + 1)
        # e^{2λ/μ} Φ(−above), as one number that does not overflow: above² − below² = 4λ/μ.
        second = jnp.exp(-0.5 * below * below - 0.5 * math.log(2 * math.pi)) * _mills_ratio(above)
        return jnp.where(inside, jnp.exp(log_ndtr(below)) + second, jnp.where(value > 0, 1, 0).astype(loc.dtype))

    @property
    def mean(self) -> Float[jax.Array, ...]:
        """Mean, shaped like the batch."""
        return jnp.broadcast_to(self.loc, self.batch_shape)

    @property
    def variance(self) -> Float[jax.Array, ...]:
        """Variance, shaped like the batch."""
        loc = jnp.broadcast_to(self.loc, self.batch_shape)
        return loc / self.concentration * loc * loc


def _mills_ratio(x: Float[jax.Array, "*shape"]) -> Float[jax.Array, "*shape"]:
    """``Φ(−x)/φ(x)`` for ``x >= 0``, beyond 3 by a continued fraction (Abramowitz & Stegun 1964, 26.2.14)."""
    small = x < 3
    t, tail = jnp.where(small, x, 0), jnp.where(small, 3, x)
    fraction = tail
    for n in range(_FRACTION, 0, -1):
        fraction = tail + n / fraction
    return jnp.where(small, jnp.exp(log_ndtr(-t) + 0.5 * t * t) * math.sqrt(2 * math.pi), 1 / fraction)


def floats(*values: Numbers) -> list[Float[jax.Array, ...]]:
    """Convert to arrays of one floating dtype, the widest among the arguments; Python numbers do not count."""
    kinds = [jnp.asarray(value).dtype for value in values if hasattr(value, "dtype")]
    kinds = [kind for kind in kinds if jnp.issubdtype(kind, jnp.floating)]
    dtype = max(kinds, key=lambda kind: jnp.finfo(kind).bits) if kinds else jax.dtypes.canonicalize_dtype(float)
    return [jnp.asarray(value, dtype) for value in values]
