r"""Multinomial logistic regression under feature noise: the quadratic penalty of Wager, Wang & Liang (2013).

    W_dk ~ N(0, scale²),   b flat,   y_i ∈ {0, …, K − 1} enters through exp{−C [log Σ_k exp(m_ik) − m_{i,y_i} + R_i]}

with ``m_i = Wᵀ E x̃_i + b`` and ``R_i = ½ Σ_d Var(x̃_id) [Σ_k π_ik W_dk² − (Σ_k π_ik W_dk)²]``, ``π = softmax(m)``:
half the trace of the loss's Hessian ``diag(π) − ππᵀ`` times the covariance of the noised scores. The penalty does not
depend on the label, so that rows without one may add it too (as they propose).
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

__all__ = ["penalty", "program"]


def penalty(X, W, mean, rate):
    """``R`` of each row, (n,), under biased dropout; ``W`` (p, K), ``mean`` (n, K), ``rate`` (p,)."""
    chance = jax.nn.softmax(mean, axis=1)
    second = chance @ (W**2).T
    first = chance @ W.T
    return 0.5 * jnp.sum(X**2 * (rate * (1 - rate))[None, :] * (second - first**2), axis=1)


def program(X, y, rate, n_classes, C=1.0, scale=1.0):
    """``X`` (n, p), ``y`` (n,) of 0 … K − 1, dropout ``rate`` (p,) in [0, 1), ``C`` a number, prior sd ``scale``."""
    n, p = X.shape
    W = numpyro.sample("weight", dist.Normal(0.0, scale).expand((p, n_classes)).to_event(2))
    b = numpyro.sample("intercept", dist.ImproperUniform(dist.constraints.real, (), (n_classes,)))
    mean = (X * (1 - rate)[None, :]) @ W + b[None, :]
    with numpyro.plate("obs_id", n):
        loss = jax.nn.logsumexp(mean, axis=1) - jnp.take_along_axis(mean, y[:, None], axis=1)[:, 0]
        numpyro.factor("pseudo_likelihood", -C * (loss + penalty(X, W, mean, rate)))


if __name__ == "__main__":
    key_x, key_y = jax.random.split(jax.random.key(0))
    X = jax.random.normal(key_x, (150, 3))
    y = jax.random.categorical(key_y, X @ jnp.array([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    mcmc = MCMC(NUTS(program), num_warmup=500, num_samples=1000, num_chains=2, chain_method="vectorized")
    mcmc.run(jax.random.key(1), X, y, rate=jnp.array([0.1, 0.3, 0.5]), n_classes=3)
    mcmc.print_summary()
