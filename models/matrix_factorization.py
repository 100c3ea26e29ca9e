r"""Matrix factorisation whose columns are dropped: a Bayesian form of Cavazza et al. (2018).

    θ ~ Beta(A, B),   r_k ~ Bernoulli(θ),   σ² ~ InverseGamma(variance_shape, variance_scale) (or σ known),
    u_ik, v_jk ~ N(0, scale²),   y_ij ~ N(Σ_k r_k u_ik v_jk, σ²) where y_ij is observed

``θ`` is the probability that a column is **retained**. The factor ``1/θ`` of the paper is left to the factors: it is
their scale. ``program`` has every mask as a variable; ``enumerated`` sums all ``2^d`` masks of the ``d`` columns.
Columns may change places and signs without any effect: look at what does not, such as the number of retained ones.
"""

import itertools

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS, DiscreteHMCGibbs

from bayesdrop.models.observed import check_numbers
from bayesdrop.models.steps import six_steps

__all__ = ["demonstrate", "enumerated", "program"]


def parameters(shape, d, A, B, scale, variance_shape, variance_scale, sigma):
    """Sample the probability of being retained, the factors (n, d) and (p, d) and the sd of the noise; return all."""
    n, p = shape
    retain = numpyro.sample("retain", dist.Beta(A, B))
    columns = numpyro.plate("component", d, dim=-1)
    with numpyro.plate("obs_id", n, dim=-2), columns:
        left = numpyro.sample("left", dist.Normal(0.0, scale))
    with numpyro.plate("feature", p, dim=-2), columns:
        right = numpyro.sample("right", dist.Normal(0.0, scale))
    if sigma is None:
        sigma = jnp.sqrt(numpyro.sample("variance", dist.InverseGamma(variance_shape, variance_scale)))
    return retain, left, right, sigma


def seen_and_filled(y):
    """Which entries are observed, and the matrix with zeros where they are not: a NaN would enter gradients."""
    return (True, None) if y is None else (~jnp.isnan(y), jnp.nan_to_num(y))


def program(shape, y=None, d=2, A=1.0, B=1.0, scale=1.0, variance_shape=1.0, variance_scale=0.01, sigma=None):
    """Masks explicit: ``y`` of this shape (n, p), NaN where missing; ``d`` columns; ``sigma`` if it is known."""
    check_numbers(y, tuple(shape), missing=True)
    retain, left, right, sigma = parameters(shape, d, A, B, scale, variance_shape, variance_scale, sigma)
    with numpyro.plate("component", d):
        kept = numpyro.sample("kept", dist.Bernoulli(retain))
    seen, filled = seen_and_filled(y)
    with numpyro.plate("obs_id", shape[0], dim=-2), numpyro.plate("feature", shape[1], dim=-1):
        numpyro.sample("y", dist.Normal((left * kept) @ right.T, sigma).mask(seen), obs=filled)


def enumerated(shape, y=None, d=2, A=1.0, B=1.0, scale=1.0, variance_shape=1.0, variance_scale=0.01, sigma=None):
    """Masks summed exactly, for small ``d``: time and memory grow as ``n p 2^d``."""
    check_numbers(y, tuple(shape), missing=True)
    retain, left, right, sigma = parameters(shape, d, A, B, scale, variance_shape, variance_scale, sigma)
    masks = jnp.array(list(itertools.product((0.0, 1.0), repeat=d)), left.dtype)
    log_mask = masks.sum(1) * jnp.log(retain) + (1 - masks).sum(1) * jnp.log1p(-retain)
    seen, filled = seen_and_filled(y)
    matrices = dist.Normal((left * masks[:, None, :]) @ right.T, sigma).mask(seen).to_event(2)
    mixture = dist.MixtureSameFamily(dist.Categorical(logits=log_mask), matrices)
    numpyro.sample("y", mixture, obs=filled, infer={"event_dims": ["obs_id", "feature"]})


def demonstrate(**options):
    """Run the six steps on a matrix of 12 rows and 6 columns."""
    options = {"kernel": lambda p, y: DiscreteHMCGibbs(NUTS(p)), "smooth": enumerated, **options}
    return six_steps(program, (12, 6), d=2, variance_shape=3.0, **options)


if __name__ == "__main__":
    demonstrate()
