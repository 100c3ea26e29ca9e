r"""One hidden layer of ``K`` logistic units whose inputs are dropped out, with a posterior over the dropout rates.

    α_kd ~ N(0, scale²),   a_k ~ N(0, 3²),   w_k ~ N(0, 1),   b ~ N(0, intercept_scale²) or flat,   η_d ~ Beta(A, B),
    m = wᵀσ(ū) + b,   ū = Σ_d (1 − η_d) x_d α_d + a,   v = Σ_d η_d (1 − η_d) x_d² h_d²,   h_d = Σ_k w_k σ'(ū_k) α_kd,
    y ∈ {0, 1} enters through E_{s ~ N(m, v)} σ((2y − 1)s)^C

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
from jax.scipy.special import logsumexp

from bayesdrop.distributions import BernoulliPseudoLikelihood
from bayesdrop.models.observed import check_labels
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["demonstrate", "program"]


def program(X, y=None, n_hidden=3, C=1.0, A=1.0, B=1.0, scale=1.0, nodes=15, intercept_scale=2.5):
    """``X`` (n, p), ``y`` (n,) of 0 and 1, ``C`` a number or (n,), ``A`` and ``B`` numbers or (p,)."""
    n, p = X.shape
    check_labels(y, n)
    with numpyro.plate("hidden", n_hidden):
        prior = dist.Normal(0.0, scale).expand([p]).to_event(1)
        hidden = numpyro.sample("hidden_weight", prior, infer={"event_dims": ["feature"]})
        shift = numpyro.sample("hidden_intercept", dist.Normal(0.0, 3.0))
        weight = numpyro.sample("output_weight", dist.Normal(0.0, 1.0))
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    intercept = numpyro.sample("intercept", flat if intercept_scale is None else dist.Normal(0.0, intercept_scale))
    with numpyro.plate("feature", p):
        rate = numpyro.sample("rate", dist.Beta(A, B))
    unit = jax.nn.sigmoid(((1 - rate) * X) @ hidden.T + shift)
    mean = unit @ weight + intercept
    slope = (unit * (1 - unit) * weight) @ hidden
    # The small number keeps the derivative of the root finite for a row of zeros.
    sd = jnp.sqrt(jnp.sum(rate * (1 - rate) * (X * slope) ** 2, axis=1) + jnp.finfo(X.dtype).eps)
    point, share = np.polynomial.hermite_e.hermegauss(nodes)
    score = mean[:, None] + sd[:, None] * jnp.asarray(point, X.dtype)
    log_share = jnp.asarray(np.log(share / share.sum()), X.dtype)
    power = jnp.broadcast_to(jnp.asarray(C, X.dtype), (n,))[:, None]
    with numpyro.plate("obs_id", n):
        log_weights = (logsumexp(log_share - power * jax.nn.softplus(-sign * score), axis=1) for sign in (-1, 1))
        numpyro.sample("y", BernoulliPseudoLikelihood(*log_weights), obs=y)


def demonstrate(**options):
    """Run the six steps on 40 rows and two hidden units."""
    return six_steps(program, jax.random.normal(jax.random.key(1), (40, 3)), n_hidden=2, kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
