r"""Bayesian support vector regression (Chen, Zhu, Chen & Chen 2015, eqs 24-26; Polson & Scott 2011).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   y_i real enters through exp{−C max(0, |Δ_i| − ε)}

with the residual ``Δ_i = y_i − (x_iᵀw + b)``. The loss is a sum of two positive parts, at ``ζ = Δ − ε`` and at
``ζ = −Δ − ε``, and with ``c = C/2`` each is a mixture of normal densities over a latent scale of its own,

    exp{−2c max(0, ζ)} = ∫ 2 e^{−cζ} N(cζ; 0, λ) Exp(λ; ½) dλ,      λ | ζ ~ GIG(½, 1, c²ζ²).

Its integral over ``y`` is ``2ε + 2/C`` whatever the score, so up to that number it is a likelihood; the mixture's given
the latent scales depends on them, and ``y`` simulated by ``augmented`` is from its normalised form. NUTS takes
``program``, and ``augmented`` HMCGibbs(NUTS(augmented), conditionals(X, y), ["above", "below", "weight"]).
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import (
    EpsilonInsensitiveGivenScales,
    EpsilonInsensitivePseudoLikelihood,
    reciprocal_inverse_gaussian,
)
from bayesdrop.models import marginalised_dropout
from bayesdrop.models.observed import check_numbers
from bayesdrop.models.scales import draw_weights, sample_linear
from bayesdrop.models.statements import Statement
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["STATES", "augmented", "conditionals", "demonstrate", "program"]


def scores(X, scale, intercept_scale):
    """Sample the weights (p,) and the intercept; return the scores (n,)."""
    weight, intercept = sample_linear(X.shape[1], scale, intercept_scale)
    return X @ weight + intercept


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


def conditionals(X, y, C=1.0, scale=1.0, epsilon=0.1):
    """Return the ``gibbs_fn`` of HMCGibbs for ``above``, ``below`` and ``weight``."""

    def draw(rng_key, gibbs_sites, hmc_sites):
        *keys, key_weight = jax.random.split(rng_key, 3)
        residual = y - X @ gibbs_sites["weight"] - hmc_sites["intercept"]
        slacks = (residual - epsilon, -residual - epsilon)
        above, below = map(reciprocal_inverse_gaussian, keys, (jnp.abs(0.5 * C * part) for part in slacks))
        law = EpsilonInsensitiveGivenScales(jnp.zeros_like(y), above, below, C, epsilon)
        kappa = law.precision * (y - law.loc - hmc_sites["intercept"])
        weight = draw_weights(key_weight, X, law.precision, kappa, scale)
        return {"above": above, "below": below, "weight": weight}

    return draw


STATES = {
    "EpsilonInsensitive": Statement(
        program,
        lambda y, score, epsilon: EpsilonInsensitivePseudoLikelihood(score, 1.0, epsilon).log_prob(y),
        marginalised_dropout.epsilon_insensitive,
        {"epsilon": 0.1},
        {"epsilon": 0.1},
        (lambda y, epsilon: y - epsilon, lambda y, epsilon: y + epsilon),
    )
}


def demonstrate(**options):
    """Run the six steps on 40 rows."""
    X = jax.random.normal(jax.random.key(1), (40, 3))
    return six_steps(program, X, kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
