r"""Learnt dropout rates: the Bayesian feature-noising model (Zhuo, Zhu & Zhang, IJCAI 2015, section 3).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   η_d ~ Beta(A, B) (or η_j, one per group of features),
    α_id ~ Bernoulli(1 − η_d) where x_id ≠ 0,   y_i ∈ {0, 1} enters through exp{−C loss(y_i, s_i)},   s = (X∘α)w + b

A rate ``η`` is the probability that a feature is dropped; ``α_id = 1`` keeps the entry. A zero entry is the same kept
or dropped and says nothing of the rate. ``program`` has every mask as a variable; ``enumerated`` sums all ``2^p`` masks
of each row, the exact marginal likelihood that the Jensen bound of the paper stands in for. Masks together with the
variables of the loss's augmentation are :mod:`bayesdrop.models.augmented_noising`.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS, DiscreteHMCGibbs

from bayesdrop.distributions import LogisticPseudoLikelihood
from bayesdrop.models.masks import observe_summed
from bayesdrop.models.observed import check_labels
from bayesdrop.models.scales import sample_linear
from bayesdrop.models.steps import six_steps

__all__ = ["demonstrate", "enumerated", "program"]


def weights_and_rates(p, groups, A, B, scale, intercept_scale):
    """Sample the weights (p,), the intercept and the rates; return the rates per feature (p,)."""
    weight, intercept = sample_linear(p, scale, intercept_scale)
    with numpyro.plate(*(("feature", p) if groups is None else ("group", int(max(groups)) + 1))):
        rate = numpyro.sample("rate", dist.Beta(A, B))
    return weight, intercept, rate if groups is None else rate[jnp.asarray(groups)]


def masked_scores(X, *priors):
    """Sample parameters and masks (n, p); return the scores (n,)."""
    weight, intercept, rate = weights_and_rates(X.shape[1], *priors)
    with numpyro.plate("obs_id", len(X), dim=-2), numpyro.plate("feature", X.shape[1], dim=-1):
        kept = numpyro.sample("kept", dist.Bernoulli(1 - rate).mask(X != 0))
    return (X * kept) @ weight + intercept


def program(
    X, y=None, likelihood=LogisticPseudoLikelihood, C=1.0, A=1.0, B=1.0, groups=None, scale=1.0, intercept_scale=2.5
):
    """Masks explicit: ``X`` (n, p), ``y`` (n,) of 0 and 1, ``groups`` (p,) the group 0, 1, … of each feature."""
    check_labels(y, len(X))
    score = masked_scores(X, groups, A, B, scale, intercept_scale)
    with numpyro.plate("obs_id", len(X)):
        numpyro.sample("y", likelihood(score, C), obs=y)


def enumerated(
    X, y=None, likelihood=LogisticPseudoLikelihood, C=1.0, A=1.0, B=1.0, groups=None, scale=1.0, intercept_scale=2.5
):
    """Masks summed exactly, for small ``p``: time and memory grow as ``n 2^p``."""
    check_labels(y, len(X))
    weight, intercept, rate = weights_and_rates(X.shape[1], groups, A, B, scale, intercept_scale)
    observe_summed(X, y, weight, intercept, rate, likelihood, C)


def demonstrate(**options):
    """Run the six steps on 30 rows."""
    X = jax.random.normal(jax.random.key(1), (30, 2))
    return six_steps(program, X, kernel=lambda p, y: DiscreteHMCGibbs(NUTS(p)), smooth=enumerated, **options)


if __name__ == "__main__":
    demonstrate()
