"""Draws of reciprocals of inverse Gaussian variables, the auxiliary variables of losses with a kink.

Michael, Schucany & Haas (1976), with the small root computed through the large one so that nothing cancels. It is apart
from the distribution, which takes NumPyro: a sampler of such a model does without that import.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import PRNGKeyArray

from .._typing import Float

__all__ = ["reciprocal_inverse_gaussian"]


@jax.jit
def reciprocal_inverse_gaussian(key: PRNGKeyArray, nu: Float[jax.Array, "*shape"]) -> Float[jax.Array, "*shape"]:
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
