"""Masks of a small number of features, summed out."""

import itertools

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

__all__ = ["observe_summed"]


def observe_summed(X, y, weight, intercept, rate, likelihood, C):
    """Sample ``y`` with all ``2^p`` masks of each row of ``X`` (n, p) summed; ``rate`` (p,)."""
    masks = jnp.array(list(itertools.product((0.0, 1.0), repeat=X.shape[1])), X.dtype)
    log_mask = masks @ jnp.log1p(-rate) + (1 - masks) @ jnp.log(rate)
    score = (X * weight) @ masks.T + intercept
    with numpyro.plate("obs_id", len(X)):
        mixture = dist.MixtureSameFamily(dist.Categorical(logits=log_mask), likelihood(score, C))
        numpyro.sample("y", mixture, obs=y)
