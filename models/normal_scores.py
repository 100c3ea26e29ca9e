r"""The Bayesian feature-noising model with its masks integrated as if scores were normal.

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   η_d ~ Beta(A, B) (or η_j, one per group of features),
    y_i ∈ {0, 1} enters through E_{s ~ N(m_i, v_i)} exp{−C loss(2y_i − 1, s)},
    m_i = Σ_d (1 − η_d) w_d x_id + b,    v_i = Σ_d η_d (1 − η_d) w_d² x_id²

The score ``Σ_d w_d x_id α_id + b`` is a sum of independent terms with these two moments (fast dropout, Wang & Manning
2013; Wager, Wang & Liang 2013), so this approximates the model of Zhuo, Zhu & Zhang (2015, section 3). The
expectation is a Gauss-Hermite sum under the logistic loss and has a closed form under the hinge.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr, logsumexp

from bayesdrop.distributions import BernoulliPseudoLikelihood
from bayesdrop.models.observed import check_labels
from bayesdrop.models.scales import weight_scale
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["demonstrate", "hinge", "logistic", "program"]


def hinge(sign, mean, sd, C):
    """``log E exp{−C max(0, 1 − sign s)}`` of a normal score: two tails of the normal, either side of the margin."""
    slack = 1 - sign * mean
    beyond = log_ndtr(-slack / sd)
    within = log_ndtr(slack / sd - C * sd) - C * slack + 0.5 * (C * sd) ** 2
    return jnp.logaddexp(beyond, within)


def logistic(sign, mean, sd, C, nodes=15):
    """``log E σ(sign s)^C`` of a normal score, by quadrature."""
    point, share = np.polynomial.hermite_e.hermegauss(nodes)
    score = mean[:, None] + sd[:, None] * jnp.asarray(point, mean.dtype)
    log_share = jnp.asarray(np.log(share / share.sum()), mean.dtype)
    return logsumexp(log_share - C[:, None] * jax.nn.softplus(-sign * score), axis=1)


def program(
    X, y=None, log_likelihood=logistic, C=1.0, A=1.0, B=1.0, groups=None, scale=1.0, intercept_scale=2.5
):  # fmt: skip
    """``X`` (n, p), ``y`` (n,) of 0 and 1, ``C`` a number or (n,), ``groups`` (p,) the group 0, 1, … of features."""
    n, p = X.shape
    check_labels(y, n)
    scale = weight_scale(scale)
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    intercept = numpyro.sample("intercept", flat if intercept_scale is None else dist.Normal(0.0, intercept_scale))
    with numpyro.plate(*(("feature", p) if groups is None else ("group", int(max(groups)) + 1))):
        rate = numpyro.sample("rate", dist.Beta(A, B))
    rate = rate if groups is None else rate[jnp.asarray(groups)]
    mean = X @ ((1 - rate) * weight) + intercept
    # The small number keeps the derivative of the root finite for a row of zeros.
    sd = jnp.sqrt(X**2 @ (rate * (1 - rate) * weight**2) + jnp.finfo(X.dtype).eps)
    power = jnp.broadcast_to(jnp.asarray(C, X.dtype), (n,))
    with numpyro.plate("obs_id", n):
        log_weights = (log_likelihood(sign, mean, sd, power) for sign in (-1, 1))
        numpyro.sample("y", BernoulliPseudoLikelihood(*log_weights), obs=y)


def demonstrate(**options):
    """Run the six steps on 40 rows."""
    return six_steps(program, jax.random.normal(jax.random.key(1), (40, 3)), kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
