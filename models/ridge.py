r"""Dropout ridge regression: squared loss, the noise integrated exactly (van der Maaten et al. 2013, section 3.1).

    w ~ N(0, scale² I),   b flat,   y_i real enters through exp{−½ C [(y_i − m_i)² + v_i]}

with ``m_i`` and ``v_i`` the mean and the variance of the noised score: ``E(y − s)² = (y − m)² + v``. The loss is its
own Gaussian pseudo-observation, so the posterior is normal, of precision ``Q = P + C(MᵀM + diag(q))`` and mean
``C Q⁻¹Mᵀy``.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

__all__ = ["log_likelihood", "program"]


def log_likelihood(y, score):
    """Minus the squared loss ``½(y − s)²``; shaped like ``score``."""
    return -0.5 * (y - score) ** 2


def program(X, y, rate, C=1.0, scale=1.0):
    """``X`` (n, p), ``y`` (n,), dropout ``rate`` (p,) in [0, 1), ``C`` a number or (n,), prior sd ``scale``."""
    n, p = X.shape
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    intercept = numpyro.sample("intercept", dist.ImproperUniform(dist.constraints.real, (), ()))
    mean = X @ ((1 - rate) * weight) + intercept
    var = X**2 @ (rate * (1 - rate) * weight**2)
    with numpyro.plate("obs_id", n):
        numpyro.factor("pseudo_likelihood", C * log_likelihood(y, mean) - 0.5 * C * var)


if __name__ == "__main__":
    key_x, key_y = jax.random.split(jax.random.key(0))
    X = jax.random.normal(key_x, (100, 3))
    y = X @ jnp.array([2.0, -1.0, 0.0]) + 0.3 * jax.random.normal(key_y, (100,))
    mcmc = MCMC(NUTS(program), num_warmup=500, num_samples=1000, num_chains=2, chain_method="vectorized")
    mcmc.run(jax.random.key(1), X, y, rate=jnp.array([0.1, 0.3, 0.5]))
    mcmc.print_summary()
