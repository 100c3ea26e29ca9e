r"""Bayesian logistic regression with Polya-Gamma variables (Polson, Scott & Windle, JASA 2013).

    w ~ N(0, scale² I),   b flat,   y_i ∈ {−1, +1} with likelihood σ(y_i s_i)^C,   s_i = x_iᵀw + b

``C = 1`` is the likelihood; any other power tempers it. Their theorem 1 writes each factor as a mixture,

    (1 + e^{−ys})^{−C} = 2^{−C} e^{C y s / 2} ∫_0^∞ e^{−λ s² / 2} PG(λ | C, 0) dλ,

so that ``λ | s ~ PG(C, s)`` and the weights are normal given ``λ``.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from bayesdrop.distributions import PolyaGamma

__all__ = ["augmented", "augmented_log_likelihood", "log_likelihood", "program"]

REAL = dist.constraints.real


def log_likelihood(y, score):
    """Minus the logistic loss, ``log σ(y s)``; shaped like ``score``."""
    return -jax.nn.softplus(-y * score)


def augmented_log_likelihood(y, score, latent_scale, C):
    """Log of the integrand of theorem 1 without the factor ``PG(λ | C, 0)``; shaped like ``score``."""
    return C * (0.5 * y * score - jnp.log(2.0)) - 0.5 * latent_scale * score**2


def program(X, y, C=1.0, scale=1.0):
    """Plain program: ``X`` (n, p), ``y`` (n,) of −1 and +1, ``C`` a number or (n,), prior sd ``scale``."""
    n, p = X.shape
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    intercept = numpyro.sample("intercept", dist.ImproperUniform(REAL, (), ()))
    with numpyro.plate("obs_id", n):
        numpyro.factor("likelihood", C * log_likelihood(y, X @ weight + intercept))


def augmented(X, y, C=1.0, scale=1.0):
    """Same posterior of ``weight`` and ``intercept``, with the Polya-Gamma variables ``λ`` (n,) explicit."""
    n, p = X.shape
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    intercept = numpyro.sample("intercept", dist.ImproperUniform(REAL, (), ()))
    with numpyro.plate("obs_id", n):
        latent_scale = numpyro.sample("latent_scale", PolyaGamma(C, 0.0))
        numpyro.factor("likelihood", augmented_log_likelihood(y, X @ weight + intercept, latent_scale, C))


def simulate(key, n=100, weight=(2.0, -1.0, 0.0)):
    """Standard normal features and labels from the model: ``X`` (n, p), ``y`` (n,)."""
    key_x, key_y = jax.random.split(key)
    X = jax.random.normal(key_x, (n, len(weight)))
    return X, jnp.where(jax.random.bernoulli(key_y, jax.nn.sigmoid(X @ jnp.array(weight))), 1.0, -1.0)


if __name__ == "__main__":
    mcmc = MCMC(NUTS(program), num_warmup=500, num_samples=1000, num_chains=2, chain_method="vectorized")
    mcmc.run(jax.random.key(0), *simulate(jax.random.key(1)))
    mcmc.print_summary()
