r"""Learnt dropout rates: the Bayesian feature-noising model (Zhuo, Zhu & Zhang, IJCAI 2015, section 3).

    w ~ N(0, scale² I),   b flat,   η_d ~ Beta(A, B) (or η_j, one per group of features),
    α_id ~ Bernoulli(1 − η_d) where x_id ≠ 0,   y_i ~ exp{C · log_likelihood(y_i, wᵀ(x_i ∘ α_i) + b)}

A rate ``η`` is the probability that a feature is dropped; ``α_id = 1`` keeps the entry. A zero entry is the same kept
or dropped and says nothing of the rate. ``program`` has every mask as a variable; ``enumerated`` sums all ``2^p``
masks of each row, which is the exact marginal likelihood that the Jensen bound of the paper stands in for.
"""

import itertools

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from numpyro.infer import MCMC, NUTS

__all__ = ["enumerated", "hinge", "logistic", "program"]


def hinge(y, score):
    """Minus the hinge loss; shaped like ``score``."""
    return -jnp.maximum(0.0, 1 - y * score)


def logistic(y, score):
    """Minus the logistic loss, ``log σ(y s)``; shaped like ``score``."""
    return -jax.nn.softplus(-y * score)


def weights_and_rates(p, groups, A, B, scale):
    """Sample the weights (p,), the intercept and the rates; return the rates per feature (p,)."""
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
        rate = numpyro.sample("rate", dist.Beta(A, B)) if groups is None else None
    if groups is not None:
        with numpyro.plate("group", int(max(groups)) + 1):
            rate = numpyro.sample("rate", dist.Beta(A, B))[jnp.asarray(groups)]
    return weight, numpyro.sample("intercept", dist.ImproperUniform(dist.constraints.real, (), ())), rate


def program(X, y, log_likelihood=logistic, C=1.0, A=1.0, B=1.0, groups=None, scale=1.0):
    """Masks explicit: ``X`` (n, p), ``y`` (n,) of −1 and +1, ``groups`` (p,) the group 0, 1, … of each feature."""
    n, p = X.shape
    weight, intercept, rate = weights_and_rates(p, groups, A, B, scale)
    with numpyro.plate("obs_id", n):
        mask = dist.Bernoulli(jnp.broadcast_to(1 - rate, (n, p))).mask(X != 0).to_event(1)
        kept = numpyro.sample("kept", mask, infer={"event_dims": ["feature"]})
        numpyro.factor("pseudo_likelihood", C * log_likelihood(y, (X * kept) @ weight + intercept))


def enumerated(X, y, log_likelihood=logistic, C=1.0, A=1.0, B=1.0, groups=None, scale=1.0):
    """Masks summed exactly, for small ``p``: time and memory grow as ``n 2^p``."""
    n, p = X.shape
    weight, intercept, rate = weights_and_rates(p, groups, A, B, scale)
    masks = jnp.array(list(itertools.product((0.0, 1.0), repeat=p)), X.dtype)
    log_mask = masks @ jnp.log1p(-rate) + (1 - masks) @ jnp.log(rate)
    score = (X * weight[None, :]) @ masks.T + intercept
    with numpyro.plate("obs_id", n):
        log_terms = log_mask[None, :] + C * log_likelihood(y[:, None], score)
        numpyro.factor("pseudo_likelihood", logsumexp(log_terms, axis=1))


if __name__ == "__main__":
    key_x, key_kept, key_y = jax.random.split(jax.random.key(0), 3)
    X = jax.random.normal(key_x, (200, 3))
    kept = jax.random.bernoulli(key_kept, jnp.array([0.9, 0.5, 0.9]), X.shape)
    chance = jax.nn.sigmoid((X * kept) @ jnp.array([2.0, -4.0, 0.0]))
    y = jnp.where(jax.random.bernoulli(key_y, chance), 1.0, -1.0)
    mcmc = MCMC(NUTS(enumerated), num_warmup=500, num_samples=1000, num_chains=2, chain_method="vectorized")
    mcmc.run(jax.random.key(1), X, y, scale=3.0)
    mcmc.print_summary()
