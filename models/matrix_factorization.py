r"""Matrix factorisation whose columns are dropped: a Bayesian form of Cavazza et al. (2018).

    θ ~ Beta(A, B),   r_k ~ Bernoulli(θ),   σ² ~ InverseGamma(variance_shape, variance_scale) (or σ known),
    u_ik, v_jk ~ N(0, scale²),   x_ij ~ N(Σ_k r_k u_ik v_jk, σ²) where x_ij is observed

``θ`` is the probability that a column is **retained**. The factor ``1/θ`` of the paper is left to the factors: it is
their scale. ``program`` has every mask as a variable; ``enumerated`` sums all ``2^d`` masks of the ``d`` columns.
Columns may change places and signs without any effect: look at what does not, such as the number of retained ones.
"""

import itertools

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from numpyro.infer import MCMC, NUTS

__all__ = ["enumerated", "program"]


def parameters(shape, d, A, B, scale, variance_shape, variance_scale, sigma):
    """Sample the probability of being retained, the factors (n, d) and (p, d) and the sd of the noise; return all."""
    n, p = shape
    retain = numpyro.sample("retain", dist.Beta(A, B))
    normal = dist.Normal(0.0, scale).expand([d]).to_event(1)
    with numpyro.plate("obs_id", n):
        left = numpyro.sample("left", normal, infer={"event_dims": ["component"]})
    with numpyro.plate("feature", p):
        right = numpyro.sample("right", normal, infer={"event_dims": ["component"]})
    if sigma is None:
        sigma = jnp.sqrt(numpyro.sample("variance", dist.InverseGamma(variance_shape, variance_scale)))
    return retain, left, right, sigma


def log_likelihood(X, mean, sigma):
    """Sum over the entries of ``X`` (n, p) that are not NaN; ``mean`` is (…, n, p)."""
    seen = ~jnp.isnan(X)
    terms = dist.Normal(mean, sigma).log_prob(jnp.where(seen, X, 0.0))
    return jnp.where(seen, terms, 0.0).sum((-2, -1))


def program(X, d, A=1.0, B=1.0, scale=1.0, variance_shape=1.0, variance_scale=0.01, sigma=None):
    """Masks explicit: ``X`` (n, p), NaN where missing, ``d`` columns, ``sigma`` the noise's sd if it is known."""
    retain, left, right, sigma = parameters(X.shape, d, A, B, scale, variance_shape, variance_scale, sigma)
    with numpyro.plate("component", d):
        kept = numpyro.sample("kept", dist.Bernoulli(retain))
    numpyro.factor("likelihood", log_likelihood(X, (left * kept) @ right.T, sigma))


def enumerated(X, d, A=1.0, B=1.0, scale=1.0, variance_shape=1.0, variance_scale=0.01, sigma=None):
    """Masks summed exactly, for small ``d``: time and memory grow as ``n p 2^d``."""
    retain, left, right, sigma = parameters(X.shape, d, A, B, scale, variance_shape, variance_scale, sigma)
    masks = jnp.array(list(itertools.product((0.0, 1.0), repeat=d)), X.dtype)
    log_mask = masks.sum(1) * jnp.log(retain) + (1 - masks).sum(1) * jnp.log1p(-retain)
    mean = (left * masks[:, None, :]) @ right.T
    numpyro.factor("likelihood", logsumexp(log_mask + log_likelihood(X, mean, sigma)))


if __name__ == "__main__":
    key_u, key_v, key_x = jax.random.split(jax.random.key(0), 3)
    mean = jax.random.normal(key_u, (12, 1)) @ jax.random.normal(key_v, (1, 6))
    X = mean + 0.3 * jax.random.normal(key_x, mean.shape)
    mcmc = MCMC(NUTS(enumerated), num_warmup=500, num_samples=500, num_chains=2, chain_method="vectorized")
    mcmc.run(jax.random.key(1), X, 3)
    mcmc.print_summary()
