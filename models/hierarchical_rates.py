r"""Learnt dropout rates that are pooled within groups of features: a hierarchy over the rates of Zhuo et al. (2015).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   μ_j ~ Beta(a, b),   s_j ~ Gamma(shape, 1/size),
    η_d ~ Beta(μ_j s_j, (1 − μ_j) s_j) of the group j of feature d,   α_id ~ Bernoulli(1 − η_d) where x_id ≠ 0,
    y_i ∈ {0, 1} enters through exp{−C loss(y_i, s_i)},   s = (X∘α)w + b

``μ_j`` is the mean rate of a group and ``s_j`` how many observations it is worth. The masks are summed, so that NUTS
takes the program; a flat law of ``μ`` and one of ``s`` with mean 20 are the library's ``bd.Hierarchical``.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS

from bayesdrop.distributions import LogisticPseudoLikelihood
from bayesdrop.models.masks import observe_summed
from bayesdrop.models.observed import check_labels
from bayesdrop.models.scales import sample_linear
from bayesdrop.models.steps import six_steps

__all__ = ["demonstrate", "program"]


def program(
    X, y=None, groups=None, likelihood=LogisticPseudoLikelihood, C=1.0, mean=(1.0, 1.0), strength=(2.0, 10.0),
    scale=1.0, intercept_scale=2.5,
):  # fmt: skip
    """``X`` (n, p), ``y`` (n,) of 0 and 1, ``groups`` (p,) of 0, 1, …, or None; ``strength`` a shape and a size."""
    check_labels(y, len(X))
    weight, intercept = sample_linear(X.shape[1], scale, intercept_scale)
    index = jnp.zeros(X.shape[1], int) if groups is None else jnp.asarray(groups)
    with numpyro.plate("group", 1 if groups is None else int(max(groups)) + 1):
        group_rate = numpyro.sample("group_rate", dist.Beta(*mean))
        group_strength = numpyro.sample("group_strength", dist.Gamma(strength[0], 1 / strength[1]))
    a, b = group_rate * group_strength, (1 - group_rate) * group_strength
    with numpyro.plate("feature", X.shape[1]):
        rate = numpyro.sample("rate", dist.Beta(a[index], b[index]))
    observe_summed(X, y, weight, intercept, rate, likelihood, C)


def demonstrate(**options):
    """Run the six steps on 40 rows and two groups."""
    X = jax.random.normal(jax.random.key(1), (40, 4))
    return six_steps(program, X, kernel=lambda p, y: NUTS(p, target_accept_prob=0.95), groups=(0, 0, 1, 1), **options)


if __name__ == "__main__":
    demonstrate()
