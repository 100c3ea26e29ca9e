"""Weights of a linear score: their scale, known or learnt with them, and their draw given a quadratic likelihood."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

__all__ = ["draw_weights", "response_scale", "sample_linear", "weight_scale"]


def weight_scale(scale):
    """``scale`` as it is; if it is a law, such as ``HalfNormal(2.0)``, a draw from it, the site ``weight_scale``."""
    return numpyro.sample("weight_scale", scale) if isinstance(scale, dist.Distribution) else scale


def response_scale(sigma):
    """``sigma`` as it is; if it is a law, such as ``HalfNormal(2.0)``, a draw from it, the site ``sigma``."""
    return numpyro.sample("sigma", sigma) if isinstance(sigma, dist.Distribution) else sigma


def sample_linear(p, scale, intercept_scale):
    """Sample the weights (p,) and the intercept, which is flat if its scale is None."""
    scale = weight_scale(scale)
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    return weight, numpyro.sample("intercept", flat if intercept_scale is None else dist.Normal(0.0, intercept_scale))


def draw_weights(key, Z, omega, kappa, scale):
    """``w ~ N(Q⁻¹Zᵀκ, Q⁻¹)``, ``Q = I/scale² + ZᵀΩZ``: weights of a score ``Zw`` with density ``exp(κs − ½ωs²)``."""
    precision = jnp.eye(Z.shape[1]) / scale**2 + Z.T @ (omega[:, None] * Z)
    root = jnp.linalg.cholesky(precision)
    mean = jax.scipy.linalg.cho_solve((root, True), Z.T @ kappa)
    noise = jax.random.normal(key, mean.shape)
    return mean + jax.scipy.linalg.solve_triangular(root, noise, lower=True, trans=1)
