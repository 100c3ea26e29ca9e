r"""The Bayesian feature-noising model with its masks integrated as if scores were normal.

    w ~ N(0, scale² I),   b flat,   η = Φ(u) ~ Beta(A, B),
    y_i ~ E_{s ~ N(m_i, v_i)} exp{C · log_likelihood(y_i, s)},
    m_i = Σ_d (1 − η_d) w_d x_id + b,    v_i = Σ_d η_d (1 − η_d) w_d² x_id²

The score ``Σ_d w_d x_id α_id + b`` is a sum of independent terms with these two moments (fast dropout, Wang & Manning
2013; Wager, Wang & Liang 2013), so this approximates the model of Zhuo, Zhu & Zhang (2015, section 3). The
expectation is a Gauss-Hermite sum under the logistic loss and has a closed form under the hinge. The rates are sampled
as ``u``, where a flat prior is standard normal.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr, logsumexp, ndtr
from numpyro.infer import MCMC, NUTS

__all__ = ["hinge", "logistic", "program"]


def hinge(y, mean, sd, C):
    """``log E exp{−C max(0, 1 − y s)}`` of a normal score: two tails of the normal, either side of the margin."""
    slack = 1 - y * mean
    beyond = log_ndtr(-slack / sd)
    within = log_ndtr(slack / sd - C * sd) - C * slack + 0.5 * (C * sd) ** 2
    return jnp.logaddexp(beyond, within)


def logistic(y, mean, sd, C, nodes=15):
    """``log E σ(y s)^C`` of a normal score, by quadrature."""
    point, share = np.polynomial.hermite_e.hermegauss(nodes)
    score = mean[:, None] + sd[:, None] * jnp.asarray(point, mean.dtype)
    log_share = jnp.asarray(np.log(share / share.sum()), mean.dtype)
    return logsumexp(log_share - C[:, None] * jax.nn.softplus(-y[:, None] * score), axis=1)


def program(X, y, log_likelihood=logistic, C=1.0, A=1.0, B=1.0, groups=None, scale=1.0):
    """``X`` (n, p), ``y`` (n,) of −1 and +1, ``C`` a number or (n,), ``groups`` (p,) the group 0, 1, … of features."""
    n, p = X.shape
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    intercept = numpyro.sample("intercept", dist.ImproperUniform(dist.constraints.real, (), ()))
    k = p if groups is None else int(max(groups)) + 1
    probit = numpyro.sample("probit", dist.Normal(0.0, 1.0).expand([k]).to_event(1))
    rate = numpyro.deterministic("rate", ndtr(probit))
    # Under the standard normal of u the rate is uniform; the rest of its prior:
    numpyro.factor("rate_prior", jnp.sum(dist.Beta(A, B).log_prob(rate)))
    rate = rate if groups is None else rate[jnp.asarray(groups)]
    mean = X @ ((1 - rate) * weight) + intercept
    # The small number keeps the derivative of the root finite for a row of zeros.
    sd = jnp.sqrt(X**2 @ (rate * (1 - rate) * weight**2) + jnp.finfo(X.dtype).eps)
    with numpyro.plate("obs_id", n):
        power = jnp.broadcast_to(jnp.asarray(C, X.dtype), (n,))
        numpyro.factor("pseudo_likelihood", log_likelihood(y, mean, sd, power))


if __name__ == "__main__":
    key_x, key_kept, key_y = jax.random.split(jax.random.key(0), 3)
    X = jax.random.normal(key_x, (200, 8))
    kept = jax.random.bernoulli(key_kept, jnp.array([0.9, 0.5, 0.9, 0.9] * 2), X.shape)
    chance = jax.nn.sigmoid((X * kept) @ jnp.array([2.0, -4.0, 0.0, 0.0] * 2))
    y = jnp.where(jax.random.bernoulli(key_y, chance), 1.0, -1.0)
    mcmc = MCMC(NUTS(program), num_warmup=500, num_samples=1000, num_chains=2, chain_method="vectorized")
    mcmc.run(jax.random.key(1), X, y)
    mcmc.print_summary()
