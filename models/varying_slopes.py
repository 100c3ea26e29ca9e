r"""Intercepts and slopes that vary between groups, correlated (Gelman & Hill 2007, chapter 13).

    u_g = diag(τ) L z_g,   z_g ~ N(0, I),   τ_k ~ HalfNormal(spread),   LLᵀ ~ LKJ(η),   w ~ N(0, scale²)
    s_i = b + w x_i + u_g(i),0 + u_g(i),1 x_i

with the response ``y_i`` normal about ``s_i``, whose standard deviation is known or ``HalfNormal(spread)``, or of a law
given the score, such as ``lambda s: dist.Poisson(jnp.exp(s))`` (LKJ: Lewandowski, Kurowicka & Joe 2009).
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesdrop.models.observed import check_numbers
from bayesdrop.models.scales import response_scale
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["demonstrate", "program"]


def program(x, y=None, group=None, groups=2, spread=1.0, scale=1.0, eta=2.0, sigma=None, law=None, intercept_scale=2.5):
    """``x`` (n,) and ``y`` (n,) real, ``group`` (n,) whole numbers below ``groups``; see the module for the others.

    ``intercept_scale=None`` is a flat prior of the intercept, which cannot be simulated from.
    """
    check_numbers(y, x.shape)
    weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    intercept = numpyro.sample("intercept", flat if intercept_scale is None else dist.Normal(0.0, intercept_scale))
    deviation = numpyro.sample("deviation", dist.HalfNormal(spread).expand([2]).to_event(1))
    root = numpyro.sample("root", dist.LKJCholesky(2, concentration=eta))
    standard = numpyro.sample("standard", dist.Normal(0.0, 1.0).expand([groups, 2]).to_event(2))
    effect = numpyro.deterministic("effect", standard @ (deviation[:, None] * root).T)
    numpyro.deterministic("correlation", root[1, 0])
    score = intercept + weight * x + effect[group, 0] + effect[group, 1] * x
    if law is None:
        deviation_of_rows = response_scale(dist.HalfNormal(spread) if sigma is None else sigma)
        law = lambda mean: dist.Normal(mean, deviation_of_rows)  # noqa: E731
    with numpyro.plate("obs_id", len(x)):
        numpyro.sample("y", law(score), obs=y)


def demonstrate(**options):
    """Run the six steps on 8 groups of 5 rows."""
    x = jax.random.normal(jax.random.key(1), (40,))
    return six_steps(program, x, group=jnp.arange(40) % 8, groups=8, kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
