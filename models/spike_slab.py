r"""Spike-and-slab logistic regression: which features are in the model (Mitchell & Beauchamp 1988).

    γ_d ~ Bernoulli(inclusion),   u_d ~ N(0, scale²),   b ~ N(0, intercept_scale²) or flat,
    y_i ∈ {0, 1} enters through exp{−loss(y_i, s_i)},   s = X(γ∘u) + b

With dropped entries ``s_i = Σ_d γ_d u_d α_id x_id + b``, ``α_id ~ Bernoulli(1 − η_d)``, ``η_d ~ Beta(a, b)``.

``program`` has every indicator as a variable, and sums the masks ``α``. ``enumerated``, of features without dropped
entries, sums all ``2^p`` models, the same posterior of ``u`` and ``b`` without discrete variables. In ``of_classes``,
without dropped entries, each of ``K`` classes has its indicators and weights, ``y_i ~ softmax(s_i)``.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS, DiscreteHMCGibbs

from bayesdrop.distributions import LogisticPseudoLikelihood
from bayesdrop.models.masks import observe_summed
from bayesdrop.models.observed import check_labels
from bayesdrop.models.scales import sample_linear
from bayesdrop.models.softmax import weights
from bayesdrop.models.steps import six_steps

__all__ = ["demonstrate", "enumerated", "of_classes", "program"]


def program(X, y=None, inclusion=0.5, scale=1.0, intercept_scale=2.5, rate_prior=None):
    """``X`` (n, p), ``y`` (n,) of 0 and 1, ``inclusion`` in (0, 1) a number or (p,); indicators explicit.

    ``rate_prior`` is the pair ``(a, b)`` of the rates; None for features without dropped entries.
    """
    check_labels(y, len(X))
    slab, intercept = sample_linear(X.shape[1], scale, intercept_scale)
    with numpyro.plate("feature", X.shape[1]):
        included = numpyro.sample("included", dist.Bernoulli(jnp.asarray(inclusion)))
        rate = None if rate_prior is None else numpyro.sample("rate", dist.Beta(*rate_prior))
    if rate is not None:
        observe_summed(X, y, included * slab, intercept, rate, LogisticPseudoLikelihood, 1.0)
        return
    with numpyro.plate("obs_id", len(X)):
        numpyro.sample("y", LogisticPseudoLikelihood(X @ (included * slab) + intercept), obs=y)


def enumerated(X, y=None, inclusion=0.5, scale=1.0, intercept_scale=2.5):
    """All models summed, for small ``p``: time and memory grow as ``n 2^p``. It does not simulate: give ``y``."""
    slab, intercept = sample_linear(X.shape[1], scale, intercept_scale)
    every = jnp.asarray(np.array(list(itertools.product([0.0, 1.0], repeat=X.shape[1]))), X.dtype)
    chance = jnp.broadcast_to(jnp.asarray(inclusion), X.shape[1:])
    log_prior = jnp.sum(every * jnp.log(chance) + (1 - every) * jnp.log1p(-chance), axis=1)
    scores = (every * slab) @ X.T + intercept
    rows = LogisticPseudoLikelihood(scores).log_prob(jnp.asarray(y))
    numpyro.factor("models", jax.nn.logsumexp(log_prior + jnp.sum(rows, axis=1)))


def of_classes(X, y=None, n_classes=3, inclusion=0.5, scale=1.0, intercept_scale=2.5):
    """``X`` (n, p), ``y`` (n,) of 0 … K − 1, ``inclusion`` in (0, 1) a number or (p,); indicators explicit."""
    check_labels(y, len(X), n_classes)
    slab, intercept = weights(X.shape[1], n_classes, scale, intercept_scale)
    with numpyro.plate("class", n_classes, dim=-2), numpyro.plate("feature", X.shape[1], dim=-1):
        included = numpyro.sample("included", dist.Bernoulli(jnp.asarray(inclusion)))
    with numpyro.plate("obs_id", len(X)):
        numpyro.sample("y", dist.Categorical(logits=X @ (included * slab).T + intercept), obs=y)


def demonstrate(**options):
    """Run the six steps on 40 rows and three features."""
    X = jax.random.normal(jax.random.key(1), (40, 3))
    return six_steps(program, X, kernel=lambda p, y: DiscreteHMCGibbs(NUTS(p)), smooth=enumerated, **options)


if __name__ == "__main__":
    demonstrate()
