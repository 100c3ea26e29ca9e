r"""Dropout training with rows that have no label (Wager, Wang & Liang 2013, section 5), logistic loss.

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,
    y_i ∈ {0, 1} enters through exp{−C [log(1 + e^{−(2y_i − 1)m_i}) + ρR(m_i, v_i) + ραΣ_u R(m_u, v_u)/n]}

``m`` and ``v`` are mean and variance of the noised score of a row, and ``R = log cosh(r/2) − log cosh(m/2)`` with
``r = √(m² + v)`` is what the noise adds to the loss, by the bound of :mod:`bayesdrop.models.marginalised_dropout`. It
does not depend on the label, so that ``M`` rows ``u`` without one add it with the weight ``α`` each, and
``ρ = n/(n + αM)`` leaves the noise as strong as it was. The last sum is the same for all labels: it is a factor of the
weights' prior, and is divided among the rows that have labels. NUTS takes the program.
"""

import jax
import jax.numpy as jnp
import numpyro

from bayesdrop.distributions import BernoulliPseudoLikelihood
from bayesdrop.models.observed import check_labels
from bayesdrop.models.scales import sample_linear
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["demonstrate", "penalty", "program"]


def penalty(mean, var):
    """``R``, shaped like the moments."""
    size, spread = jnp.abs(mean), jnp.sqrt(mean**2 + var)
    return (spread - size) / 2 + jnp.log1p(jnp.exp(-spread)) - jnp.log1p(jnp.exp(-size))


def program(X, y=None, unlabelled=None, rate=0.5, share=1.0, C=1.0, scale=1.0, intercept_scale=2.5):
    """``X`` (n, p), ``y`` (n,) of 0 and 1, ``unlabelled`` (M, p) of weight ``share``, ``rate`` a number or (p,)."""
    n = len(X)
    check_labels(y, n)
    more = jnp.zeros((0, X.shape[1])) if unlabelled is None else unlabelled
    weight, intercept = sample_linear(X.shape[1], scale, intercept_scale)

    def moments(rows):
        return rows @ ((1 - rate) * weight) + intercept, rows**2 @ (rate * (1 - rate) * weight**2)

    mean, var = moments(X)
    ratio = n / (n + share * len(more))
    added = ratio * (penalty(mean, var) + share * jnp.sum(penalty(*moments(more))) / n)
    with numpyro.plate("obs_id", n):
        log_weights = (-C * (jax.nn.softplus(-sign * mean) + added) for sign in (-1, 1))
        numpyro.sample("y", BernoulliPseudoLikelihood(*log_weights), obs=y)


def demonstrate(**options):
    """Run the six steps on 20 rows with labels and 60 without."""
    X = jax.random.normal(jax.random.key(1), (80, 3))
    return six_steps(program, X[:20], kernel=nuts, unlabelled=X[20:], **options)


if __name__ == "__main__":
    demonstrate()
