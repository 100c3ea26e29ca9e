r"""Bayesian quantile regression (Yu & Moyeed 2001), with the mixture of Kozumi & Kobayashi (2011, section 2.2).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²),   s_i = x_iᵀw + b,   y_i ~ C τ(1 − τ) exp{−C ρ(y_i − s_i)}

with the check loss ``ρ(u) = max{τu, (τ − 1)u}``: an asymmetric Laplace law, whose ``τ`` quantile is ``s``. It is a
normal law of random mean and variance,

    λ_i ~ Exponential(2τ(1 − τ)),    y_i | λ_i, s_i ~ N(s_i + (2/C)(1 − 2τ)λ_i, (2/C)² λ_i),

and given the residual ``u``, ``λ | u ~ GIG(½, 1, ¼C²u²)``: the weights are normal given ``λ``, and the other way round
``λ`` is drawn at once. NUTS takes ``program``, and ``augmented`` NumPyro's
``HMCGibbs(NUTS(augmented), conditionals(X, y), ["latent_scale", "weight"])``. With ``y=None`` both programs simulate.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import reciprocal_inverse_gaussian
from bayesdrop.models import marginalised_dropout
from bayesdrop.models.observed import check_numbers
from bayesdrop.models.scales import draw_weights, response_scale, sample_linear
from bayesdrop.models.statements import Statement
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["STATES", "augmented", "conditionals", "demonstrate", "log_likelihood", "program"]


def log_likelihood(y, score, tau=0.5):
    """Minus the check loss; shaped like ``score``."""
    residual = y - score
    return -jnp.maximum(tau * residual, (tau - 1) * residual)


def scores(X, scale, intercept_scale):
    """Sample the weights (p,) and the intercept; return the scores (n,)."""
    weight, intercept = sample_linear(X.shape[1], scale, intercept_scale)
    return X @ weight + intercept


def program(X, y=None, C=1.0, scale=1.0, tau=0.5, intercept_scale=10.0, sigma=None):
    """Plain program: ``X`` (n, p), ``y`` (n,), ``C`` a number or (n,), prior sds.

    ``sigma`` is the scale of the law, or a law of it such as ``HalfNormal(y.std())``, under which it is a site; ``C``
    is then 1/σ.
    """
    check_numbers(y, (len(X),))
    C = C if sigma is None else 1 / response_scale(sigma)
    score = scores(X, scale, intercept_scale)
    with numpyro.plate("obs_id", X.shape[0]):
        numpyro.sample("y", dist.AsymmetricLaplaceQuantile(score, 1 / C, tau), obs=y)


def augmented(X, y=None, C=1.0, scale=1.0, tau=0.5, intercept_scale=10.0):
    """Same posterior of ``weight`` and ``intercept``, with the latent scale of each row explicit."""
    check_numbers(y, (len(X),))
    score = scores(X, scale, intercept_scale)
    with numpyro.plate("obs_id", X.shape[0]):
        latent = numpyro.sample("latent_scale", dist.Exponential(2 * tau * (1 - tau)))
        numpyro.sample("y", dist.Normal(score + 2 / C * (1 - 2 * tau) * latent, 2 / C * jnp.sqrt(latent)), obs=y)


def conditionals(X, y, C=1.0, scale=1.0, tau=0.5):
    """Return the ``gibbs_fn`` of HMCGibbs for ``latent_scale`` and ``weight``."""

    def draw(rng_key, gibbs_sites, hmc_sites):
        key_scale, key_weight = jax.random.split(rng_key)
        residual = y - hmc_sites["intercept"]
        latent = reciprocal_inverse_gaussian(key_scale, jnp.abs(0.5 * C * (residual - X @ gibbs_sites["weight"])))
        omega = 0.25 * C**2 / latent
        kappa = omega * (residual - 2 / C * (1 - 2 * tau) * latent)
        return {"latent_scale": latent, "weight": draw_weights(key_weight, X, omega, kappa, scale)}

    return draw


STATES = {
    "Quantile": Statement(
        program, log_likelihood, marginalised_dropout.quantile, {"tau": 0.8}, {"tau": 0.8}, (lambda y, tau: y,)
    )
}


def demonstrate(**options):
    """Run the six steps on 40 rows, for the upper decile of responses that vary by a tenth of a weight."""
    X = jax.random.normal(jax.random.key(1), (40, 3))
    return six_steps(program, X, kernel=nuts, tau=0.9, C=10.0, **options)


if __name__ == "__main__":
    demonstrate()
