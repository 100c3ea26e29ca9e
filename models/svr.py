r"""Bayesian support vector regression (Chen, Zhu, Chen & Chen 2015, eqs 24-26; Polson & Scott 2011).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   y_i real enters through exp{−C max(0, |Δ_i| − ε)}

with the residual ``Δ_i = y_i − (x_iᵀw + b)``. The loss is a sum of two positive parts, at ``ζ = Δ − ε`` and at
``ζ = −Δ − ε``, and with ``c = C/2`` each is a mixture of normal densities over a latent scale of its own,

    exp{−2c max(0, ζ)} = ∫ 2 e^{−cζ} N(cζ; 0, λ) Exp(λ; ½) dλ,      λ | ζ ~ GIG(½, 1, c²ζ²).

Its integral over ``y`` is ``2ε + 2/C`` whatever the score, so up to that number it is a likelihood; the mixture's given
the latent scales depends on them, and ``y`` simulated by ``augmented`` is from its normalised form.
"""

import jax
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import EpsilonInsensitiveGivenScales, EpsilonInsensitivePseudoLikelihood
from bayesdrop.models.observed import check_numbers
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


def program(X, y=None, C=1.0, scale=1.0, epsilon=0.1, intercept_scale=2.5):
    """``X`` (n, p), ``y`` (n,) real, ``C`` > 0 a number or (n,); ``intercept_scale=None`` for a flat prior."""
    check_numbers(y, (len(X),))
    score = scores(X, scale, intercept_scale)
    with numpyro.plate("obs_id", len(X)):
        numpyro.sample("y", EpsilonInsensitivePseudoLikelihood(score, C, epsilon), obs=y)


def augmented(X, y=None, C=1.0, scale=1.0, epsilon=0.1, intercept_scale=2.5):
    """Same posterior of ``weight`` and ``intercept``, with both latent scales of each row explicit."""
    check_numbers(y, (len(X),))
    score = scores(X, scale, intercept_scale)
    with numpyro.plate("obs_id", len(X)):
        above = numpyro.sample("above", dist.Exponential(0.5))
        below = numpyro.sample("below", dist.Exponential(0.5))
        numpyro.sample("y", EpsilonInsensitiveGivenScales(score, above, below, C, epsilon), obs=y)


def demonstrate(**options):
    """Run the six steps on 40 rows."""
    return six_steps(program, jax.random.normal(jax.random.key(1), (40, 3)), **options)


if __name__ == "__main__":
    demonstrate()
