r"""Bayesian support vector machine (Polson & Scott, Bayesian Analysis 2011).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   y_i ∈ {0, 1} enters through exp{−C max(0, ζ_i)}

with the slack ``ζ_i = 1 − (2y_i − 1)(x_iᵀw + b)``. Their theorem 1, with ``c = C/2``, writes each factor as a mixture,

    exp{−2c max(0, ζ)} = ∫ 2 e^{−cζ} N(cζ; 0, λ) Exp(λ; ½) dλ,      λ | ζ ~ GIG(½, 1, c²ζ²),

of normal densities over a latent scale whose prior ``Exp(½)``, of mean 2, is proper. The hinge is no normalised
likelihood of ``y``; simulated labels are from its normalised form, in ``augmented`` from that given the latent scale.
NUTS takes ``program``. Given the scales the weights are normal: ``augmented`` takes NumPyro's
``HMCGibbs(NUTS(augmented), conditionals(X, y), ["latent_scale", "weight"])``, in which NUTS moves the intercept.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import HingeGivenScale, HingePseudoLikelihood, reciprocal_inverse_gaussian
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
    with numpyro.plate("obs_id", len(X)):
        numpyro.sample("y", HingePseudoLikelihood(score, C), obs=y)


def augmented(X, y=None, C=1.0, scale=1.0, intercept_scale=2.5):
    """Same posterior of ``weight`` and ``intercept``, with the latent scales ``λ`` (n,) explicit."""
    check_labels(y, len(X))
    score = scores(X, scale, intercept_scale)
    with numpyro.plate("obs_id", len(X)):
        latent_scale = numpyro.sample("latent_scale", dist.Exponential(0.5))
        numpyro.sample("y", HingeGivenScale(score, latent_scale, C), obs=y)


def conditionals(X, y, C=1.0, scale=1.0):
    """Return the ``gibbs_fn`` of HMCGibbs for ``latent_scale`` and ``weight``."""
    sign, c = 2 * y - 1, 0.5 * C

    def draw(rng_key, gibbs_sites, hmc_sites):
        key_scale, key_weight = jax.random.split(rng_key)
        slack = 1 - sign * (X @ gibbs_sites["weight"] + hmc_sites["intercept"])
        latent = reciprocal_inverse_gaussian(key_scale, jnp.abs(c * slack))
        omega = c**2 / latent
        kappa = sign * (omega + c) - omega * hmc_sites["intercept"]
        return {"latent_scale": latent, "weight": draw_weights(key_weight, X, omega, kappa, scale)}

    return draw


STATES = {
    "Hinge": Statement(
        program,
        lambda sign, score: HingePseudoLikelihood(score).log_prob((1 + sign) / 2),
        marginalised_dropout.hinge,
        kinks=(lambda sign: sign,),
    )
}


def demonstrate(**options):
    """Run the six steps on 40 rows."""
    X = jax.random.normal(jax.random.key(1), (40, 3))
    return six_steps(program, X, kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
