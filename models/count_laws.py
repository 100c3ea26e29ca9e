"""Laws of a count given its score: Poisson, binomial, negative binomial, and that of a dispersion that is learnt."""

from collections import namedtuple

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

__all__ = ["binomial", "geometric", "negative_binomial", "overdispersed", "poisson"]

Law = namedtuple("Law", "response trials")  # the law of a count given its score, and ``b`` given the count


def binomial(n):  # noqa: D103
    return Law(lambda s: dist.Binomial(n, logits=s), lambda y: jnp.full(y.shape, float(n)))


def negative_binomial(r):  # noqa: D103
    return Law(lambda s: dist.NegativeBinomialLogits(r, s), lambda y: y + r)


def overdispersed():
    """Negative binomial law of a dispersion that is learnt: ``r^{−½}``, the site ``overdispersion``, is half-normal."""
    r = numpyro.sample("overdispersion", dist.HalfNormal(1.0)) ** -2
    return negative_binomial(numpyro.deterministic("dispersion", r))


poisson, geometric = Law(lambda s: dist.Poisson(jnp.exp(s)), None), negative_binomial(1.0)
