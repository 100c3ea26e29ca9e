r"""Marginalised dropout training (Chen, Zhu, Chen & Chen 2015): the noise integrated by Jensen's bound.

    w ~ N(0, scale² I),   b flat,   y_i ∈ {−1, +1} enters through exp{−C φ(y_i, m_i, v_i)}

where ``m_i`` and ``v_i`` are the mean and the variance of the score ``wᵀx̃_i + b`` when feature ``d`` of ``x̃_i`` is
dropped with the known probability ``η_d``, and ``φ`` bounds the expected loss from above. Minus the log density is
the energy ``U = ‖w‖²/(2 scale²) + C Σ φ`` of dropout training plus ``p log(scale √(2π))``, so the mode is the point
fit. Kept entries stay as they are (``E x̃ = (1 − η) x``), or are divided by ``1 − η`` if ``unbiased``.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

__all__ = ["epsilon_insensitive", "hinge", "logistic", "program", "quantile", "squared"]


def hinge(y, mean, var):
    """``φ = ½(ζ + √(ζ² + v))`` with ``ζ = 1 − y m`` (section 4.1); shaped like ``mean``."""
    slack = 1 - y * mean
    return 0.5 * (slack + jnp.sqrt(slack**2 + var))


def logistic(y, mean, var):
    """``φ = log 2cosh(r/2) − y m / 2`` with ``r = √(m² + v)`` (eqs 31-35); shaped like ``mean``."""
    half = 0.5 * jnp.sqrt(mean**2 + var)
    return jnp.logaddexp(half, -half) - 0.5 * y * mean


def epsilon_insensitive(y, mean, var, epsilon=0.1):
    """``φ = −ε + ½√((Δ − ε)² + v) + ½√((Δ + ε)² + v)``, ``Δ = y − m`` real (eqs 24-26); shaped like ``mean``."""
    above, below = y - mean - epsilon, y - mean + epsilon
    return -epsilon + 0.5 * jnp.sqrt(above**2 + var) + 0.5 * jnp.sqrt(below**2 + var)


def quantile(y, mean, var, tau=0.5):
    """``φ = ½√(Δ² + v) + (τ − ½)Δ`` with ``Δ = y − m``, ``y`` real; shaped like ``mean``."""
    residual = y - mean
    return 0.5 * jnp.sqrt(residual**2 + var) + (tau - 0.5) * residual


def squared(y, mean, var):
    """``φ = ½((y − m)² + v)``, exact, ``y`` real; shaped like ``mean``."""
    return 0.5 * ((y - mean) ** 2 + var)


def program(X, y, rate, bound=logistic, C=1.0, scale=1.0, unbiased=False):
    """``X`` (n, p), ``y`` (n,) of −1 and +1, ``rate`` (p,) in [0, 1), ``C`` a number or (n,), prior sd ``scale``."""
    n, p = X.shape
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    intercept = numpyro.sample("intercept", dist.ImproperUniform(dist.constraints.real, (), ()))
    # The score is a sum of independent terms w_d x̃_d: mean and variance add up.
    kept_value = weight / (1 - rate) if unbiased else weight
    mean = X @ ((1 - rate) * kept_value) + intercept
    var = X**2 @ (rate * (1 - rate) * kept_value**2)
    with numpyro.plate("obs_id", n):
        numpyro.factor("pseudo_likelihood", -C * bound(y, mean, var))


if __name__ == "__main__":
    key_x, key_y = jax.random.split(jax.random.key(0))
    X = jax.random.normal(key_x, (200, 3))
    y = jnp.where(jax.random.bernoulli(key_y, jax.nn.sigmoid(X @ jnp.array([2.0, -1.0, 0.0]))), 1.0, -1.0)
    mcmc = MCMC(NUTS(program), num_warmup=500, num_samples=1000, num_chains=2, chain_method="vectorized")
    mcmc.run(jax.random.key(1), X, y, rate=jnp.array([0.1, 0.3, 0.5]))
    mcmc.print_summary()
