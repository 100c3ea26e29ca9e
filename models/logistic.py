r"""Bayesian logistic regression with Polya-Gamma variables (Polson, Scott & Windle, JASA 2013).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   y_i ~ Bernoulli(σ(s_i)),   s_i = x_iᵀw + b

Their theorem 1 is a property of a joint law of ``y`` and ``ω`` that are independent given the score,

    p(y, ω | s) = σ((2y − 1)s) PG(ω | 1, s) = ½ e^{(y − ½)s − ωs²/2} PG(ω | 1, 0):

draw ``ω ~ PG(1, s)`` with ``y``, and the weights are normal given both. A power ``C`` of the likelihood tempers it;
``numpyro.handlers.scale`` takes it, and ``ω ~ PG(C, s)``. Simulation and predictions are those of ``C = 1``.
NUTS takes ``program``, and ``augmented`` HMCGibbs(NUTS(augmented), conditionals(X, y), ["omega", "weight"]).
"""

import jax
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import LogisticPseudoLikelihood, PolyaGamma
from bayesdrop.models import marginalised_dropout
from bayesdrop.models.observed import check_labels
from bayesdrop.models.scales import draw_weights, sample_linear
from bayesdrop.models.statements import Statement
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["STATES", "augmented", "conditionals", "demonstrate", "program"]


def scores(X, scale, intercept_scale):
    """Sample the weights (p,) and the intercept; return the scores (n,)."""
    weight, intercept = sample_linear(X.shape[1], scale, intercept_scale)
    return X @ weight + intercept


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


def conditionals(X, y, C=1.0, scale=1.0):
    """Return the ``gibbs_fn`` of HMCGibbs for ``omega`` and ``weight``."""

    def draw(rng_key, gibbs_sites, hmc_sites):
        key_omega, key_weight = jax.random.split(rng_key)
        omega = PolyaGamma(C, X @ gibbs_sites["weight"] + hmc_sites["intercept"]).sample(key_omega)
        kappa = C * (y - 0.5) - omega * hmc_sites["intercept"]
        return {"omega": omega, "weight": draw_weights(key_weight, X, omega, kappa, scale)}

    return draw


STATES = {
    "Logistic": Statement(
        program,
        lambda sign, score: LogisticPseudoLikelihood(score).log_prob((1 + sign) / 2),
        marginalised_dropout.logistic,
    )
}


def demonstrate(**options):
    """Run the six steps on 40 rows."""
    X = jax.random.normal(jax.random.key(1), (40, 3))
    return six_steps(program, X, kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
