r"""Dropout ridge regression: squared loss, the noise integrated exactly (van der Maaten et al. 2013, section 3.1).

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   y_i real enters through exp{−½ C [(y_i − m_i)² + v_i]}

with ``m_i`` and ``v_i`` the mean and the variance of the noised score: ``E(y − s)² = (y − m)² + v``. The loss is its
own Gaussian pseudo-observation, so the posterior is normal, of precision ``Q = P + C(MᵀM + diag(q))`` and mean
``C Q⁻¹Mᵀy``. Given the weights ``y`` is simulated from ``N(m, 1/C)``; the factor ``exp(−½ C v)`` is what the noise adds
to the prior.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import NormalPseudoLikelihood
from bayesdrop.models import marginalised_dropout
from bayesdrop.models.observed import check_numbers
from bayesdrop.models.scales import response_scale, weight_scale
from bayesdrop.models.statements import Statement
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["STATES", "demonstrate", "program"]


def program(X, y=None, rate=0.0, C=1.0, scale=1.0, intercept_scale=2.5, sigma=None):
    """``X`` (n, p), ``y`` (n,) real, ``rate`` of dropout in [0, 1) and ``scale`` numbers or (p,), ``C`` > 0 or (n,).

    ``intercept_scale=None`` is a flat prior of the intercept, which cannot be simulated from. ``sigma`` is the standard
    deviation of ``y``, or a law of it such as ``HalfNormal(y.std())``, under which it is a site; ``C`` is then 1/σ².
    """
    n, p = X.shape
    check_numbers(y, (n,))
    scale = weight_scale(scale)
    C = C if sigma is None else response_scale(sigma) ** -2
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    intercept = numpyro.sample("intercept", flat if intercept_scale is None else dist.Normal(0.0, intercept_scale))
    mean = X @ ((1 - rate) * weight) + intercept
    var = X**2 @ (rate * (1 - rate) * weight**2)
    with numpyro.plate("obs_id", n):
        # A variance that is learnt needs the constant of its density, which a known one may leave out.
        level = 0.0 if sigma is None else 0.5 * jnp.log(C)
        numpyro.sample("y", NormalPseudoLikelihood(mean, C, level - 0.5 * C * var), obs=y)


STATES = {
    "Squared": Statement(
        program, lambda y, score: NormalPseudoLikelihood(score).log_prob(y), marginalised_dropout.squared
    )
}


def demonstrate(**options):
    """Run the six steps on 40 rows, features dropped with different probabilities."""
    X = jax.random.normal(jax.random.key(1), (40, 3))
    return six_steps(program, X, rate=jnp.array([0.1, 0.3, 0.5]), kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
