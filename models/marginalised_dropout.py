r"""Marginalised dropout training (Chen, Zhu, Chen & Chen 2015): the noise integrated by Jensen's bound.

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   y_i enters through exp{−C φ(y_i, m_i, v_i)}

where ``m_i`` and ``v_i`` are the mean and the variance of the score ``wᵀx̃_i + b`` when feature ``d`` of ``x̃_i`` is
dropped with the known probability ``η_d``, and ``φ`` bounds the expected loss from above. With a flat intercept minus
the log density is the energy ``U = ‖w‖²/(2 scale²) + C Σ φ`` of dropout training plus ``p log(scale √(2π))``, so the
mode is the point fit. Kept entries stay (``E x̃ = (1 − η) x``), or are divided by ``1 − η`` if ``unbiased``.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import BernoulliPseudoLikelihood, ConvexPseudoLikelihood
from bayesdrop.models.observed import check_labels, check_numbers
from bayesdrop.models.scales import weight_scale
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["demonstrate", "epsilon_insensitive", "hinge", "logistic", "program", "quantile", "squared"]


def hinge(sign, mean, var):
    """``φ = ½(ζ + √(ζ² + v))`` with ``ζ = 1 − sign m``, sign −1 or +1 (section 4.1); shaped like ``mean``."""
    slack = 1 - sign * mean
    return 0.5 * (slack + jnp.sqrt(slack**2 + var))


def logistic(sign, mean, var):
    """``φ = log 2cosh(r/2) − sign m / 2`` with ``r = √(m² + v)``, sign −1 or +1 (eqs 31-35); shaped like ``mean``."""
    half = 0.5 * jnp.sqrt(mean**2 + var)
    return jnp.logaddexp(half, -half) - 0.5 * sign * mean


def epsilon_insensitive(y, mean, var, epsilon=0.1):
    """``φ = −ε + ½√((Δ − ε)² + v) + ½√((Δ + ε)² + v)``, ``Δ = y − m`` real (eqs 24-26); shaped like ``mean``."""
    above, below = y - mean - epsilon, y - mean + epsilon
    return -epsilon + 0.5 * jnp.sqrt(above**2 + var) + 0.5 * jnp.sqrt(below**2 + var)


def quantile(y, mean, var, tau=0.5):
    """``φ = ½√(Δ² + v) + (τ − ½)Δ`` with ``Δ = y − m``, ``y`` real; shaped like ``mean``."""
    residual = y - mean
    return 0.5 * jnp.sqrt(residual**2 + var) + (tau - 0.5) * residual


def squared(y, mean, var):
    """``φ = ½((y − m)² + v)``, exact, ``y`` real; shaped like ``mean``."""
    return 0.5 * ((y - mean) ** 2 + var)


def program(X, y=None, rate=0.0, bound=logistic, C=1.0, scale=1.0, unbiased=False, real=False, intercept_scale=2.5):
    """``y`` (n,) of 0 and 1 under a bound of labels, numbers if ``real``; ``rate`` a number or (p,) in [0, 1)."""
    n, p = X.shape
    check_numbers(y, (n,)) if real else check_labels(y, n)
    scale = weight_scale(scale)
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    intercept = numpyro.sample("intercept", flat if intercept_scale is None else dist.Normal(0.0, intercept_scale))
    # The score is a sum of independent terms w_d x̃_d: mean and variance add up.
    kept_value = weight / (1 - rate) if unbiased else weight
    mean = X @ ((1 - rate) * kept_value) + intercept
    var = X**2 @ (rate * (1 - rate) * kept_value**2)
    with numpyro.plate("obs_id", n):
        labels = BernoulliPseudoLikelihood(*(-C * bound(sign * jnp.ones_like(mean), mean, var) for sign in (-1, 1)))
        numpyro.sample("y", ConvexPseudoLikelihood(bound, (mean, var), C) if real else labels, obs=y)


def demonstrate(**options):
    """Run the six steps on 40 rows, features dropped with different probabilities."""
    X = jax.random.normal(jax.random.key(1), (40, 3))
    return six_steps(program, X, rate=jnp.array([0.1, 0.3, 0.5]), kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
