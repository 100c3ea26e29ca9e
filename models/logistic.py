r"""Bayesian logistic regression with Polya-Gamma variables (Polson, Scott & Windle, JASA 2013).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   y_i ~ Bernoulli(σ(s_i)),   s_i = x_iᵀw + b

Their theorem 1 is a property of a joint law of ``y`` and ``ω`` that are independent given the score,

    p(y, ω | s) = σ((2y − 1)s) PG(ω | 1, s) = ½ e^{(y − ½)s − ωs²/2} PG(ω | 1, 0):

draw ``ω ~ PG(1, s)`` beside ``y``, and the weights are normal given both. A power ``C`` of the likelihood tempers it;
``numpyro.handlers.scale`` takes it, and ``ω ~ PG(C, s)``. Simulation and predictions are those of ``C = 1``.
"""

import jax
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import PolyaGamma
from bayesdrop.models.observed import check_labels
from bayesdrop.models.scales import weight_scale
from bayesdrop.models.steps import six_steps

__all__ = ["augmented", "demonstrate", "program"]


def scores(X, scale, intercept_scale):
    """Sample the weights (p,) and the intercept; return the scores (n,)."""
    scale = weight_scale(scale)
    with numpyro.plate("feature", X.shape[1]):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    prior = flat if intercept_scale is None else dist.Normal(0.0, intercept_scale)
    return X @ weight + numpyro.sample("intercept", prior)


def program(X, y=None, C=1.0, scale=1.0, intercept_scale=2.5):
    """``X`` (n, p), ``y`` (n,) of 0 and 1, ``C`` > 0 a number or (n,); ``intercept_scale=None`` for a flat prior."""
    check_labels(y, len(X))
    score = scores(X, scale, intercept_scale)
    with numpyro.plate("obs_id", len(X)), numpyro.handlers.scale(scale=C):
        numpyro.sample("y", dist.Bernoulli(logits=score), obs=y)


def augmented(X, y=None, C=1.0, scale=1.0, intercept_scale=2.5):
    """Same posterior of ``weight`` and ``intercept``, with the Polya-Gamma variables ``ω`` (n,) explicit."""
    check_labels(y, len(X))
    score = scores(X, scale, intercept_scale)
    with numpyro.plate("obs_id", len(X)):
        numpyro.sample("omega", PolyaGamma(C, score))
        with numpyro.handlers.scale(scale=C):
            numpyro.sample("y", dist.Bernoulli(logits=score), obs=y)


def demonstrate(**options):
    """Run the six steps on 40 rows."""
    return six_steps(program, jax.random.normal(jax.random.key(1), (40, 3)), **options)


if __name__ == "__main__":
    demonstrate()
