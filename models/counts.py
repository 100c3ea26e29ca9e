r"""Regression of counts: Poisson, binomial and negative binomial, plain, augmented, and with learnt dropout rates.

    w ~ N(0, scale² I),   b ~ N(0, intercept_scale²) or flat,   s_i = x_iᵀw + b,
    y_i ~ Poisson(e^s)   or   Binomial(N, σ(s))   or   negative binomial, of mean r e^s and variance μ + μ²/r

``C`` tempers their likelihood, 1 is the model. For the last two, with ``b = N`` or ``y + r`` trials (Polson, Scott &
Windle, JASA 2013, theorem 1),

    p(y | s) ∝ e^{ys} / (1 + e^s)^b = 2^{−b} e^{κs} ∫ e^{−ωs²/2} PG(ω | b, 0) dω,      κ = y − b/2.

As ``b`` may depend on ``y``, ``augmented`` draws ``y | s`` and then ``ω | y, s ~ PG(Cb, s)``: their joint law
``e^{C(κs − b log 2) − ωs²/2} PG(ω | Cb, 0)``, times what depends on ``y`` alone, is normal in weights and intercept.
In ``noised`` masks ``α_id ~ Bernoulli(1 − η_d)`` drop entries, and ``η_d ~ Beta(A, B)``.
"""

import jax
import numpyro
import numpyro.distributions as dist
from numpyro.handlers import scale as tempered

from bayesdrop.distributions import PolyaGamma
from bayesdrop.models.count_laws import geometric, poisson
from bayesdrop.models.observed import check_counts
from bayesdrop.models.steps import nuts, six_steps

__all__ = ["augmented", "demonstrate", "noised", "program"]


def program(X, y=None, law=poisson, C=1.0, scale=1.0, intercept_scale=3.0, omega=False, rate=None):
    """``X`` (n, p), counts ``y`` (n,), ``C`` a number or (n,); with ``omega`` (n,) or masks of rates (p,) explicit.

    ``law`` is one of :mod:`bayesdrop.models.count_laws`, or a function that samples one, ``overdispersed``.
    """
    check_counts(y, len(X))
    law = law() if callable(law) else law
    with numpyro.plate("feature", X.shape[1]):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale))
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    b = numpyro.sample("intercept", flat if intercept_scale is None else dist.Normal(0.0, intercept_scale))
    if rate is not None:
        with numpyro.plate("row", len(X), dim=-2), numpyro.plate("column", X.shape[1], dim=-1):
            X = X * numpyro.sample("kept", dist.Bernoulli(1 - rate).mask(X != 0))
    with numpyro.plate("obs_id", len(X)):
        with tempered(scale=C):
            y = numpyro.sample("y", law.response(X @ weight + b), obs=y)
        if omega:
            numpyro.sample("omega", PolyaGamma(C * law.trials(y), X @ weight + b))


def augmented(X, y=None, law=geometric, **options):
    """Same posterior of ``weight`` and ``intercept``, with the Polya-Gamma variables ``omega`` (n,) explicit."""
    program(X, y, law, omega=True, **options)


def noised(X, y=None, law=geometric, A=1.0, B=1.0, **options):
    """Rates ``rate`` (p,) and masks ``kept`` (n, p) explicit; the mask of a zero entry says nothing of its rate."""
    with numpyro.plate("feature", X.shape[1]):
        rate = numpyro.sample("rate", dist.Beta(A, B))
    program(X, y, law, rate=rate, **options)


def demonstrate(**options):
    """Run the six steps on 40 rows of Poisson counts."""
    return six_steps(program, 0.5 * jax.random.normal(jax.random.key(1), (40, 3)), kernel=nuts, **options)


if __name__ == "__main__":
    demonstrate()
