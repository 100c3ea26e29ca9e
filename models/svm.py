r"""Bayesian support vector machine (Polson & Scott, Bayesian Analysis 2011).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   y_i ∈ {0, 1} enters through exp{−C max(0, ζ_i)}

with the slack ``ζ_i = 1 − (2y_i − 1)(x_iᵀw + b)``. Their theorem 1, with ``c = C/2``, writes each factor as a mixture,

    exp{−2c max(0, ζ)} = ∫ 2 e^{−cζ} N(cζ; 0, λ) Exp(λ; ½) dλ,      λ | ζ ~ GIG(½, 1, c²ζ²),

of normal densities over a latent scale whose prior ``Exp(½)``, of mean 2, is proper. The hinge is no normalised
likelihood of ``y``; simulated labels are from its normalised form, in ``augmented`` from that given the latent scale.
"""

import jax
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import HingeGivenScale, HingePseudoLikelihood
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
    with numpyro.plate("obs_id", len(X)):
        numpyro.sample("y", HingePseudoLikelihood(score, C), obs=y)


def augmented(X, y=None, C=1.0, scale=1.0, intercept_scale=2.5):
    """Same posterior of ``weight`` and ``intercept``, with the latent scales ``λ`` (n,) explicit."""
    check_labels(y, len(X))
    score = scores(X, scale, intercept_scale)
    with numpyro.plate("obs_id", len(X)):
        latent_scale = numpyro.sample("latent_scale", dist.Exponential(0.5))
        numpyro.sample("y", HingeGivenScale(score, latent_scale, C), obs=y)


def demonstrate(**options):
    """Run the six steps on 40 rows."""
    return six_steps(program, jax.random.normal(jax.random.key(1), (40, 3)), **options)


if __name__ == "__main__":
    demonstrate()
