r"""Regression of counts: Poisson, binomial and negative binomial, plain, augmented, and with learnt dropout rates.

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) (flat if None),   s_i = x_iᵀw + b,
    y_i ~ Poisson(e^s)   or   Binomial(N, σ(s))   or   NB(r, odds e^s) of mean r e^s and variance μ + μ²/r

``y=None`` simulates counts. ``C`` tempers their likelihood, ``p(y | s)^C``; 1 is the model.

For the last two, ``p(y | s) ∝ e^{ys}/(1 + e^s)^b`` with ``b = N`` or ``y + r`` trials, and (Polson, Scott & Windle,
JASA 2013, theorem 1)

    e^{ys} / (1 + e^s)^b = 2^{−b} e^{κs} ∫ e^{−ωs²/2} PG(ω | b, 0) dω,      κ = y − b/2.

Where ``b`` depends on ``y``, ``y`` and ``ω`` are not independent given ``s``, as they are for a class. ``augmented``
therefore draws ``y | s`` first and ``ω | y, s ~ PG(Cb, s)`` from it: the joint law is the same, all the same
``e^{C(κs − b log 2) − ωs²/2} PG(ω | Cb, 0)``, so that weights and intercept are normal given ``y`` and ``ω``. A Poisson
count has no such variable. In ``noised`` masks ``α_id ~ Bernoulli(1 − η_d)`` drop entries, and ``η_d ~ Beta(A, B)``.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.handlers import scale as tempered
from numpyro.infer import MCMC, NUTS, DiscreteHMCGibbs, Predictive

from bayesdrop.distributions import PolyaGamma

__all__ = ["Binomial", "NegativeBinomial", "Poisson", "augmented", "noised", "program"]


class Poisson(NamedTuple):
    """Counts of mean ``e^s``."""

    def response(self, score):
        return dist.Poisson(jnp.exp(score))


class Binomial(NamedTuple):
    """Successes among ``total`` trials, of probability ``σ(s)``."""

    total: int

    def response(self, score):
        return dist.Binomial(self.total, logits=score)

    def trials(self, y):
        return jnp.full(y.shape, float(self.total))


class NegativeBinomial(NamedTuple):
    """Successes, of odds ``e^s``, before ``dispersion`` failures."""

    dispersion: float

    def response(self, score):
        return dist.NegativeBinomialLogits(self.dispersion, score)

    def trials(self, y):
        return y + self.dispersion


def coefficients(p, scale, intercept_scale):
    """Sample the weights (p,) and the intercept."""
    with numpyro.plate("feature", p):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    return weight, numpyro.sample("intercept", flat if intercept_scale is None else dist.Normal(0.0, intercept_scale))


def program(X, y=None, law=Poisson(), C=1.0, scale=1.0, intercept_scale=3.0):
    """Plain program: ``X`` (n, p), ``y`` (n,) counts, ``law`` one of the three, ``C`` a number or (n,)."""
    weight, intercept = coefficients(X.shape[1], scale, intercept_scale)
    with numpyro.plate("obs_id", X.shape[0]), tempered(scale=C):
        return numpyro.sample("y", law.response(X @ weight + intercept), obs=y)


def augmented(X, y=None, law=NegativeBinomial(1.0), C=1.0, scale=1.0, intercept_scale=3.0):
    """Same posterior of ``weight`` and ``intercept``, with the Polya-Gamma variables ``omega`` (n,) explicit."""
    weight, intercept = coefficients(X.shape[1], scale, intercept_scale)
    score = X @ weight + intercept
    with numpyro.plate("obs_id", X.shape[0]):
        with tempered(scale=C):
            y = numpyro.sample("y", law.response(score), obs=y)
        numpyro.sample("omega", PolyaGamma(C * law.trials(y), score))


def noised(X, y=None, law=NegativeBinomial(1.0), A=1.0, B=1.0, C=1.0, scale=1.0, intercept_scale=3.0):
    """Rates ``rate`` (p,) and masks ``kept`` (n, p) explicit; a mask of a zero entry says nothing and counts nothing."""
    n, p = X.shape
    weight, intercept = coefficients(p, scale, intercept_scale)
    with numpyro.plate("feature", p):
        rate = numpyro.sample("rate", dist.Beta(A, B))
    with numpyro.plate("row", n, dim=-2), numpyro.plate("column", p, dim=-1):
        kept = numpyro.sample("kept", dist.Bernoulli(1 - rate).mask(X != 0))
    with numpyro.plate("obs_id", n), tempered(scale=C):
        numpyro.sample("y", law.response((X * kept) @ weight + intercept), obs=y)


if __name__ == "__main__":
    X = jax.random.normal(jax.random.key(0), (100, 2))
    given = {"weight": jnp.array([[0.8, -0.5]]), "intercept": jnp.array([0.5])}
    for model, law in ((program, Poisson()), (augmented, NegativeBinomial(3.0)), (noised, Binomial(5))):
        y = Predictive(model, given)(jax.random.key(1), X, law=law)["y"][0]
        kernel = DiscreteHMCGibbs(NUTS(model), modified=True) if model is noised else NUTS(model)
        mcmc = MCMC(kernel, num_warmup=300, num_samples=500, progress_bar=False)
        mcmc.run(jax.random.key(2), X, y, law=law)
        print(model.__name__, law, {name: mcmc.get_samples()[name].mean(axis=0) for name in given})
