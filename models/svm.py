r"""Bayesian support vector machine (Polson & Scott, Bayesian Analysis 2011).

    w ~ N(0, scale² I),   b flat,   y_i ∈ {−1, +1} enters through the pseudo-likelihood exp{−C max(0, ζ_i)}

with the slack ``ζ_i = 1 − y_i (x_iᵀw + b)``. Their theorem 1, with ``c = C/2``, writes each factor as a mixture,

    exp{−2c max(0, ζ)} = ∫_0^∞ (2πλ)^{−1/2} exp{−(λ + cζ)² / (2λ)} dλ,

a normal density of ``−cζ`` with mean and variance ``λ``. The measure of ``λ`` is dλ, which is improper; given the
slack it is proper: ``λ | ζ ~ GIG(½, 1, c²ζ²)``. The hinge is no normalised likelihood of ``y``.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

__all__ = ["augmented", "augmented_log_likelihood", "log_likelihood", "program"]

REAL, POSITIVE = dist.constraints.real, dist.constraints.positive


def log_likelihood(y, score):
    """Minus the hinge loss; shaped like ``score``."""
    return -jnp.maximum(0.0, 1 - y * score)


def augmented_log_likelihood(y, score, latent_scale, C):
    """Log of the integrand of theorem 1, all normalising terms kept; shaped like ``score``."""
    slack = 1 - y * score
    return -0.5 * jnp.log(2 * jnp.pi * latent_scale) - (latent_scale + 0.5 * C * slack) ** 2 / (2 * latent_scale)


def program(X, y, C=1.0, scale=1.0):
    """Plain program: ``X`` (n, p), ``y`` (n,) of −1 and +1, ``C`` a number or (n,), prior sd ``scale``."""
    n, p = X.shape
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    intercept = numpyro.sample("intercept", dist.ImproperUniform(REAL, (), ()))
    with numpyro.plate("obs_id", n):
        numpyro.factor("pseudo_likelihood", C * log_likelihood(y, X @ weight + intercept))


def augmented(X, y, C=1.0, scale=1.0):
    """Same posterior of ``weight`` and ``intercept``, with the latent scales ``λ`` (n,) explicit."""
    n, p = X.shape
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    intercept = numpyro.sample("intercept", dist.ImproperUniform(REAL, (), ()))
    with numpyro.plate("obs_id", n):
        latent_scale = numpyro.sample("latent_scale", dist.ImproperUniform(POSITIVE, (), ()))
        log_joint = augmented_log_likelihood(y, X @ weight + intercept, latent_scale, C)
        numpyro.factor("pseudo_likelihood", log_joint)


def simulate(key, n=100, weight=(2.0, -1.0, 0.0)):
    """Standard normal features and the signs of noisy scores: ``X`` (n, p), ``y`` (n,)."""
    key_x, key_noise = jax.random.split(key)
    X = jax.random.normal(key_x, (n, len(weight)))
    return X, jnp.where(X @ jnp.array(weight) + jax.random.normal(key_noise, (n,)) > 0, 1.0, -1.0)


if __name__ == "__main__":
    mcmc = MCMC(NUTS(program), num_warmup=500, num_samples=1000, num_chains=2, chain_method="vectorized")
    mcmc.run(jax.random.key(0), *simulate(jax.random.key(1)))
    mcmc.print_summary()
