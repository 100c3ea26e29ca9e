r"""One hidden layer of ``K`` logistic units whose inputs are dropped out, with a posterior over the dropout rates.

    α_dk ~ N(0, scale²),   a_k ~ N(0, 3²),   w_k ~ N(0, 1),   b flat,   η = Φ(u) ~ Beta(A, B),
    m = wᵀσ(ū) + b,   ū = Σ_d (1 − η_d) x_d α_d + a,   v = Σ_d η_d (1 − η_d) x_d² h_d²,   h_d = Σ_k w_k σ'(ū_k) α_dk,
    y ~ E_{s ~ N(m, v)} σ(y s)^C

The layer of Chen, Zhu, Chen & Chen (2015, section 5.2) with its noise carried through to first order, as there, and the
rates of Zhuo, Zhu & Zhang (2015). The hidden intercepts need a proper prior: a unit that is always on is an intercept.
Units may be permuted, and a unit with its signs turned is the same unit (``σ(−u) = 1 − σ(u)``): the posterior has
``2^K K!`` equal modes, and only what does not depend on the labels of the units can be read off a chain directly.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp, ndtr
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

__all__ = ["program"]


def program(X, y, n_hidden=3, C=1.0, A=1.0, B=1.0, scale=1.0, nodes=15):
    """``X`` (n, p), ``y`` (n,) of −1 and +1, ``C`` a number or (n,), ``A`` and ``B`` numbers or (p,)."""
    n, p = X.shape
    hidden = numpyro.sample("hidden_weight", dist.Normal(0.0, scale).expand([n_hidden, p]).to_event(2))
    shift = numpyro.sample("hidden_intercept", dist.Normal(0.0, 3.0).expand([n_hidden]).to_event(1))
    weight = numpyro.sample("output_weight", dist.Normal(0.0, 1.0).expand([n_hidden]).to_event(1))
    intercept = numpyro.sample("intercept", dist.ImproperUniform(dist.constraints.real, (), ()))
    probit = numpyro.sample("probit", dist.Normal(0.0, 1.0).expand([p]).to_event(1))
    rate = numpyro.deterministic("rate", ndtr(probit))
    # Under the standard normal of u the rate is uniform; the rest of its prior:
    numpyro.factor("rate_prior", jnp.sum(dist.Beta(A, B).log_prob(rate)))
    unit = jax.nn.sigmoid(((1 - rate) * X) @ hidden.T + shift)
    mean = unit @ weight + intercept
    slope = (unit * (1 - unit) * weight) @ hidden
    # The small number keeps the derivative of the root finite for a row of zeros.
    sd = jnp.sqrt(jnp.sum(rate * (1 - rate) * (X * slope) ** 2, axis=1) + jnp.finfo(X.dtype).eps)
    point, share = np.polynomial.hermite_e.hermegauss(nodes)
    score = mean[:, None] + sd[:, None] * jnp.asarray(point, X.dtype)
    log_share = jnp.asarray(np.log(share / share.sum()), X.dtype)
    with numpyro.plate("obs_id", n):
        power = jnp.broadcast_to(jnp.asarray(C, X.dtype), (n,))[:, None]
        terms = log_share - power * jax.nn.softplus(-y[:, None] * score)
        numpyro.factor("pseudo_likelihood", logsumexp(terms, axis=1))


if __name__ == "__main__":
    key_x, key_kept, key_y = jax.random.split(jax.random.key(0), 3)
    X = jax.random.normal(key_x, (300, 4))
    kept = jax.random.bernoulli(key_kept, jnp.array([0.9, 0.9, 0.5, 0.5]), X.shape)
    chance = jax.nn.sigmoid(8 * jnp.prod((X * kept)[:, :2], axis=1))
    y = jnp.where(jax.random.bernoulli(key_y, chance), 1.0, -1.0)
    mcmc = MCMC(NUTS(program), num_warmup=500, num_samples=500, num_chains=2, chain_method="vectorized")
    mcmc.run(jax.random.key(1), X, y)
    rate = mcmc.get_samples()["rate"]
    print("NUTS: rates", rate.mean(axis=0), "sd", rate.std(axis=0))
    guide = AutoNormal(program, init_scale=0.1)
    fit = SVI(program, guide, numpyro.optim.Adam(0.01), Trace_ELBO(4)).run(jax.random.key(2), 3000, X, y)
    u = guide.sample_posterior(jax.random.key(3), fit.params, sample_shape=(1000,))["probit"]
    print("SVI: rates", ndtr(u).mean(axis=0), "sd", ndtr(u).std(axis=0))
