r"""Multinomial logistic regression under feature noise: the quadratic penalty of Wager, Wang & Liang (2013).

    W_kd ~ N(0, scale²),   b_k ~ N(0, intercept_scale²) or flat,
    y_i ∈ {0, …, K − 1} enters through exp{−C [log Σ_k exp(m_ik) − m_{i,y_i} + R_i]}

with ``m_i = W E x̃_i + b`` and ``R_i = ½ Σ_d Var(x̃_id) [Σ_k π_ik W_kd² − (Σ_k π_ik W_kd)²]``, ``π = softmax(m)``:
half the trace of the loss's Hessian ``diag(π) − ππᵀ`` times the covariance of the noised scores. The penalty does not
depend on the label, so that rows without one may add it too (as they propose), and labels are simulated from ``π^C``.

``noising`` is no approximation: the masks of Zhuo, Zhu & Zhang (2015), shared by the classes, with learnt rates,

    η_d ~ Beta(A, B),   α_id ~ Bernoulli(1 − η_d) where x_id ≠ 0,   y_i ~ softmax(W(x_i∘α_i) + b)
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesdrop.distributions import CategoricalPseudoLikelihood
from bayesdrop.models.observed import check_labels
from bayesdrop.models.scales import weight_scale
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["demonstrate", "noising", "penalty", "program"]


def weights(p, n_classes, scale, intercept_scale):
    """Sample the weights (K, p) and the intercepts (K,)."""
    flat, scale = dist.ImproperUniform(dist.constraints.real, (), ()), weight_scale(scale)
    with numpyro.plate("class", n_classes):
        prior = dist.Normal(0.0, scale).expand([p]).to_event(1)
        W = numpyro.sample("weight", prior, infer={"event_dims": ["feature"]})
        return W, numpyro.sample("intercept", flat if intercept_scale is None else dist.Normal(0.0, intercept_scale))


def penalty(X, W, mean, rate):
    """``R`` of each row, (n,), under biased dropout; ``W`` (K, p), ``mean`` (n, K), ``rate`` a number or (p,)."""
    chance = jax.nn.softmax(mean, axis=1)
    first, second = chance @ W, chance @ W**2
    return 0.5 * jnp.sum(X**2 * (rate * (1 - rate)) * (second - first**2), axis=1)


def program(X, y=None, rate=0.0, n_classes=2, C=1.0, scale=1.0, intercept_scale=2.5):
    """``X`` (n, p), ``y`` (n,) of 0 … K − 1, dropout ``rate`` in [0, 1) a number or (p,), ``C`` a number."""
    check_labels(y, len(X), n_classes)
    W, b = weights(X.shape[1], n_classes, scale, intercept_scale)
    mean = (X * (1 - rate)) @ W.T + b
    minus_loss = jax.nn.log_softmax(mean, axis=1) - penalty(X, W, mean, rate)[:, None]
    with numpyro.plate("obs_id", len(X)):
        numpyro.sample("y", CategoricalPseudoLikelihood(C * minus_loss), obs=y)


def noising(X, y=None, n_classes=2, C=1.0, A=1.0, B=1.0, scale=1.0, intercept_scale=2.5):
    """Masks explicit: ``X`` (n, p), ``y`` (n,) of 0 … K − 1; all classes share them."""
    check_labels(y, len(X), n_classes)
    W, b = weights(X.shape[1], n_classes, scale, intercept_scale)
    with numpyro.plate("feature", X.shape[1], dim=-1):
        rate = numpyro.sample("rate", dist.Beta(A, B))
        with numpyro.plate("obs_id", len(X), dim=-2):
            kept = numpyro.sample("kept", dist.Bernoulli(1 - rate).mask(X != 0))
    score = (X * kept) @ W.T + b
    with numpyro.plate("obs_id", len(X)), numpyro.handlers.scale(scale=C):
        numpyro.sample("y", dist.Categorical(logits=score), obs=y)


def demonstrate(**options):
    """Run the six steps on 40 rows, features dropped with different probabilities."""
    X = jax.random.normal(jax.random.key(1), (40, 3))
    return six_steps(program, X, rate=jnp.array([0.1, 0.3, 0.5]), n_classes=3, kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
