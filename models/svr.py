r"""Bayesian support vector regression (Chen, Zhu, Chen & Chen 2015, eqs 24-26; Polson & Scott 2011).

    w ~ N(0, scale² I),   b flat,   y_i real enters through the pseudo-likelihood exp{−C max(0, |Δ_i| − ε)}

with the residual ``Δ_i = y_i − (x_iᵀw + b)``. The loss is a sum of two positive parts, ``max(0, Δ − ε)`` and
``max(0, −Δ − ε)``, and with ``c = C/2`` each is a mixture of normal densities over a latent scale of its own,

    exp{−2c max(0, ζ)} = ∫_0^∞ (2πλ)^{−1/2} exp{−(λ + cζ)² / (2λ)} dλ,    λ | ζ ~ GIG(½, 1, c²ζ²).

It is no normalised likelihood of ``y``.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

__all__ = ["augmented", "augmented_log_likelihood", "log_likelihood", "program"]

REAL, POSITIVE = dist.constraints.real, dist.constraints.positive


def log_likelihood(y, score, epsilon=0.1):
    """Minus the ε-insensitive loss; shaped like ``score``."""
    return -jnp.maximum(0.0, jnp.abs(y - score) - epsilon)


def augmented_log_likelihood(y, score, above, below, C, epsilon=0.1):
    """Log of the integrand, both latent scales given; shaped like ``score``."""
    residual = y - score
    terms = [
        -0.5 * jnp.log(2 * jnp.pi * latent) - (latent + 0.5 * C * part) ** 2 / (2 * latent)
        for latent, part in ((above, residual - epsilon), (below, -residual - epsilon))
    ]
    return terms[0] + terms[1]


def weights(p, scale):
    """Sample the weights (p,) and the intercept."""
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    return weight, numpyro.sample("intercept", dist.ImproperUniform(REAL, (), ()))


def program(X, y, C=1.0, scale=1.0, epsilon=0.1):
    """Plain program: ``X`` (n, p), ``y`` (n,), ``C`` a number or (n,), prior sd ``scale``."""
    weight, intercept = weights(X.shape[1], scale)
    with numpyro.plate("obs_id", X.shape[0]):
        numpyro.factor("pseudo_likelihood", C * log_likelihood(y, X @ weight + intercept, epsilon))


def augmented(X, y, C=1.0, scale=1.0, epsilon=0.1):
    """Same posterior of ``weight`` and ``intercept``, with both latent scales of each row explicit."""
    weight, intercept = weights(X.shape[1], scale)
    with numpyro.plate("obs_id", X.shape[0]):
        above = numpyro.sample("above", dist.ImproperUniform(POSITIVE, (), ()))
        below = numpyro.sample("below", dist.ImproperUniform(POSITIVE, (), ()))
        log_joint = augmented_log_likelihood(y, X @ weight + intercept, above, below, C, epsilon)
        numpyro.factor("pseudo_likelihood", log_joint)


if __name__ == "__main__":
    key_x, key_y = jax.random.split(jax.random.key(0))
    X = jax.random.normal(key_x, (100, 3))
    y = X @ jnp.array([2.0, -1.0, 0.0]) + 0.3 * jax.random.normal(key_y, (100,))
    mcmc = MCMC(NUTS(program), num_warmup=500, num_samples=1000, num_chains=2, chain_method="vectorized")
    mcmc.run(jax.random.key(1), X, y)
    mcmc.print_summary()
