r"""Missing entries as dropped ones whose masks are known, in the model of Zhuo, Zhu & Zhang (2015) with learnt rates.

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   η_d ~ Beta(A, B),
    α_id = 0 where x_id is missing,   α_id ~ Bernoulli(1 − η_d) where it is there and not c_d,
    y_i ∈ {0, 1} enters through exp{−C loss(y_i, s_i)},   s_i = Σ_d w_d α_id (x_id − c_d) + b

A dropped entry becomes the centre ``c_d`` of its column, and so does a missing one, which tells nothing of the rate:
what goes missing has a law of its own. ``program`` has every mask as a variable, for NumPyro's DiscreteHMCGibbs;
``enumerated`` sums the masks of each row, for NUTS.
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


def sample_rates(p, A, B):
    """Sample the rates (p,)."""
    with numpyro.plate("feature", p):
        return numpyro.sample("rate", dist.Beta(A, B))


def program(
    X, y=None, centre=0.0, likelihood=LogisticPseudoLikelihood, C=1.0, A=1.0, B=1.0, scale=1.0, intercept_scale=2.5
):  # fmt: skip
    """``X`` (n, p) with NaN where missing, ``y`` (n,) of 0 and 1, ``centre`` a number or (p,)."""
    check_labels(y, len(X))
    weight, intercept = sample_linear(X.shape[1], scale, intercept_scale)
    rate = sample_rates(X.shape[1], A, B)
    away = jnp.where(jnp.isnan(X), 0.0, X - centre)
    with numpyro.plate("obs_id", len(X), dim=-2), numpyro.plate("feature", X.shape[1], dim=-1):
        kept = numpyro.sample("kept", dist.Bernoulli(1 - rate).mask(away != 0))
    with numpyro.plate("obs_id", len(X)):
        numpyro.sample("y", likelihood((away * kept) @ weight + intercept, C), obs=y)


def enumerated(
    X, y=None, centre=0.0, likelihood=LogisticPseudoLikelihood, C=1.0, A=1.0, B=1.0, scale=1.0, intercept_scale=2.5
):  # fmt: skip
    """Same posterior of weights and rates, the masks summed."""
    check_labels(y, len(X))
    weight, intercept = sample_linear(X.shape[1], scale, intercept_scale)
    rate = sample_rates(X.shape[1], A, B)
    observe_summed(jnp.where(jnp.isnan(X), 0.0, X - centre), y, weight, intercept, rate, likelihood, C)


def demonstrate(**options):
    """Run the six steps on 30 rows, a fifth of the entries missing."""
    X = jax.random.normal(jax.random.key(1), (30, 2))
    X = jnp.where(jax.random.uniform(jax.random.key(2), X.shape) < 0.2, jnp.nan, X)
    return six_steps(program, X, kernel=lambda p, y: DiscreteHMCGibbs(NUTS(p)), smooth=enumerated, **options)


if __name__ == "__main__":
    demonstrate()
