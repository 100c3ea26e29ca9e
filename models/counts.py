r"""Regression of counts: Poisson, binomial and negative binomial, plain, augmented, and with learnt dropout rates.

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) (flat if None),   s_i = x_iᵀw + b,
    y_i ~ Poisson(e^s)   or   Binomial(N, σ(s))   or   negative binomial, of mean r e^s and variance μ + μ²/r

``y=None`` simulates counts; ``C`` tempers their likelihood, 1 is the model. For the last two, with ``b = N`` or
``y + r`` trials (Polson, Scott & Windle, JASA 2013, theorem 1),

    p(y | s) ∝ e^{ys} / (1 + e^s)^b = 2^{−b} e^{κs} ∫ e^{−ωs²/2} PG(ω | b, 0) dω,      κ = y − b/2.

Where ``b`` depends on ``y``, the two are not independent given ``s``, as they are for a class: ``augmented`` draws
``y | s`` first and then ``ω | y, s ~ PG(Cb, s)``. Their joint law ``e^{C(κs − b log 2) − ωs²/2} PG(ω | Cb, 0)``, times
what depends on ``y`` alone, is normal in weights and intercept. A Poisson count has no such variable. In ``noised``
masks ``α_id ~ Bernoulli(1 − η_d)`` drop entries, and ``η_d ~ Beta(A, B)``.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.handlers import scale as tempered
from numpyro.infer import MCMC, NUTS, Predictive

from bayesdrop.distributions import PolyaGamma

__all__ = ["augmented", "binomial", "negative_binomial", "noised", "poisson", "program"]


class Law(NamedTuple):
    """``response(score)``, the law of a count, and ``trials(y)``, its ``b``."""

    response: Any
    trials: Any = None


def binomial(n):  # noqa: D103
    return Law(lambda s: dist.Binomial(n, logits=s), lambda y: jnp.full(y.shape, float(n)))


def negative_binomial(r):  # noqa: D103
    return Law(lambda s: dist.NegativeBinomialLogits(r, s), lambda y: y + r)


poisson, geometric = Law(lambda s: dist.Poisson(jnp.exp(s))), negative_binomial(1.0)


def coefficients(p, scale, intercept_scale):
    """Sample the weights (p,) and the intercept."""
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    return weight, numpyro.sample("intercept", flat if intercept_scale is None else dist.Normal(0.0, intercept_scale))


def program(X, y=None, law=poisson, C=1.0, scale=1.0, intercept_scale=3.0):
    """Plain program: ``X`` (n, p), counts ``y`` (n,), ``C`` a number or (n,)."""
    weight, intercept = coefficients(X.shape[1], scale, intercept_scale)
    with numpyro.plate("obs_id", X.shape[0]), tempered(scale=C):
        return numpyro.sample("y", law.response(X @ weight + intercept), obs=y)


def augmented(X, y=None, law=geometric, C=1.0, scale=1.0, intercept_scale=3.0):
    """Same posterior of ``weight`` and ``intercept``, with the Polya-Gamma variables ``omega`` (n,) explicit."""
    weight, intercept = coefficients(X.shape[1], scale, intercept_scale)
    score = X @ weight + intercept
    with numpyro.plate("obs_id", X.shape[0]):
        with tempered(scale=C):
            y = numpyro.sample("y", law.response(score), obs=y)
        numpyro.sample("omega", PolyaGamma(C * law.trials(y), score))


def noised(X, y=None, law=geometric, A=1.0, B=1.0, C=1.0, scale=1.0, intercept_scale=3.0):
    """Rates ``rate`` (p,) and masks ``kept`` (n, p) explicit; the mask of a zero entry says nothing of its rate."""
    n, p = X.shape
    weight, intercept = coefficients(p, scale, intercept_scale)
    with numpyro.plate("feature", p):
        rate = numpyro.sample("rate", dist.Beta(A, B))
    with numpyro.plate("row", n, dim=-2), numpyro.plate("column", p, dim=-1):
        kept = numpyro.sample("kept", dist.Bernoulli(1 - rate).mask(X != 0))
    with numpyro.plate("obs_id", n), tempered(scale=C):
        numpyro.sample("y", law.response((X * kept) @ weight + intercept), obs=y)


if __name__ == "__main__":
    X = jax.random.normal(jax.random.key(0), (200, 2))
    truth = {"weight": jnp.array([[0.8, -0.5]]), "intercept": jnp.array([0.5])}
    for model, law in ((program, poisson), (augmented, negative_binomial(3.0))):
        y = Predictive(program, truth)(jax.random.key(1), X, law=law)["y"][0]
        mcmc = MCMC(NUTS(model), num_warmup=300, num_samples=500)
        mcmc.run(jax.random.key(2), X, y, law=law)
        mcmc.print_summary(exclude_deterministic=True)
