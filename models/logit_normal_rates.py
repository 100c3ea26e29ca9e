r"""Learnt dropout rates under a normal law of their log-odds (Aitchison & Shen 1980), after Zhuo et al. (2015).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   log η_d − log(1 − η_d) ~ N(location, spread²),
    α_id ~ Bernoulli(1 − η_d) where x_id ≠ 0,   y_i ∈ {0, 1} enters through exp{−C loss(y_i, s_i)},   s = (X∘α)w + b

The masks are summed, so that NUTS takes the program.
"""

import jax
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import LogisticPseudoLikelihood
from bayesdrop.models.masks import observe_summed
from bayesdrop.models.observed import check_labels
from bayesdrop.models.scales import sample_linear
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["demonstrate", "program"]


def program(
    X, y=None, likelihood=LogisticPseudoLikelihood, C=1.0, location=0.0, spread=1.5, scale=1.0, intercept_scale=2.5
):  # fmt: skip
    """``X`` (n, p), ``y`` (n,) of 0 and 1; ``location`` and ``spread`` of the logits, numbers or (p,)."""
    check_labels(y, len(X))
    weight, intercept = sample_linear(X.shape[1], scale, intercept_scale)
    with numpyro.plate("feature", X.shape[1]):
        logit = numpyro.sample("logit_rate", dist.Normal(location, spread))
    rate = numpyro.deterministic("rate", jax.nn.sigmoid(logit))
    observe_summed(X, y, weight, intercept, rate, likelihood, C)


def demonstrate(**options):
    """Run the six steps on 40 rows."""
    X = jax.random.normal(jax.random.key(1), (40, 3))
    return six_steps(program, X, kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
