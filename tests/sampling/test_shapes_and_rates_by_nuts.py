"""Learnt sigma and learnt dispersion, with and without learnt rates, against NUTS on NumPyro's program.

240 rows of five columns; with rates the program sums the 32 masks of each row. Means of every weight, of the intercept,
of every rate and of the logarithm of what is learnt are compared in units of both Monte Carlo errors: |z| < 4.5, 7e-6
each under the normal law, at most 12 of them, so that a case fails falsely with probability below 1e-4. Of a dispersion
the logarithm has moments, and it itself may have none, as masks explain much of what counts vary more than Poisson's.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

import bayesdrop as bd
from bayesdrop._arviz import arviz
from bayesdrop.models import count_laws, counts, ridge
from bayesdrop.models.masks import observe_summed
from bayesdrop.models.scales import sample_linear

LIMIT, ROWS, COLUMNS, CHAINS = 4.5, 240, 5, 4
RNG = np.random.default_rng(31)
X = RNG.normal(size=(ROWS, COLUMNS))
KEPT = RNG.random((ROWS, COLUMNS)) > [0.1, 0.3, 0.0, 0.2, 0.5]
SCORE = (X * KEPT) @ [1.0, -0.8, 0.5, 0.0, 0.7] + 0.3
NUMBERS = 3.0 * (SCORE + 0.6 * RNG.normal(size=ROWS))
COUNTS = RNG.poisson(np.exp(SCORE) * RNG.gamma(2.0, size=ROWS)).astype(float)
SPREAD = float(np.std(NUMBERS))
CASES = {"gaussian": (bd.Squared(), NUMBERS, "sigma"), "counts": (bd.NegativeBinomial(), COUNTS, "dispersion")}


def summed(X, y, kind):
    """Rates of five features, flat, and the masks of each row summed out."""
    rate = numpyro.sample("rate", dist.Beta(1.0, 1.0).expand([COLUMNS]).to_event(1))
    weight, intercept = sample_linear(COLUMNS, SPREAD if kind == "gaussian" else 1.0, None)
    if kind == "gaussian":
        sigma = numpyro.sample("sigma", dist.HalfNormal(SPREAD))
        law = lambda score, _: dist.Normal(score, sigma)  # noqa: E731
    else:
        response = count_laws.overdispersed().response
        law = lambda score, _: response(score)  # noqa: E731
    observe_summed(X, y, weight, intercept, rate, law, 1.0)


def by_nuts(kind, with_rates):
    """Draws of the program, by site: (chain, draw, …); fewer where each gradient sums masks."""
    draws = 1000 if with_rates else 3000
    if with_rates:
        program, options = summed, {"kind": kind}
    elif kind == "gaussian":
        program, options = ridge.program, {"sigma": dist.HalfNormal(SPREAD), "scale": SPREAD, "intercept_scale": None}
    else:
        program, options = counts.program, {"law": count_laws.overdispersed, "intercept_scale": None}
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        mcmc = MCMC(
            NUTS(program), num_warmup=500, num_samples=draws, num_chains=CHAINS, chain_method="vectorized",
            progress_bar=False,
        )  # fmt: skip
        mcmc.run(jax.random.key(0), jnp.asarray(X), jnp.asarray(CASES[kind][1]), **options)
        return {name: np.asarray(value, float) for name, value in mcmc.get_samples(group_by_chain=True).items()}


def z_scores(ours, theirs):
    """Differences of means over both errors, of arrays (chain, draw, …)."""
    found = []
    for one, other in zip(
        *(np.moveaxis(part.reshape(*part.shape[:2], -1), 2, 0) for part in (ours, theirs)), strict=True
    ):
        errors = [float(part.std() / np.sqrt(float(arviz().ess(part)))) for part in (one, other)]
        found.append((one.mean() - other.mean()) / np.hypot(*errors))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("with_rates", [False, True], ids=["no noise", "rates"])
@pytest.mark.parametrize("kind", CASES)
def test_posteriors_are_those_of_nuts_on_the_program(kind, with_rates):
    loss, y, name = CASES[kind]
    rates = bd.PerFeature() if with_rates else bd.Fixed(0.0)
    noise = bd.Dropout(centre=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.warnings.MixingWarning)
        post = bd.sample(
            bd.Model(loss, noise, rates), X, y, draws=4000, tune=500, chains=CHAINS, seed=2, progress=False
        )
    ours, theirs = bd.groups.dataset(post, "posterior"), by_nuts(kind, with_rates)
    names = ["weight", "intercept", name, *(["rate"] if with_rates else [])]
    pairs = {key: (np.asarray(ours[key], float), theirs[key]) for key in names}
    pairs[name] = tuple(map(np.log, pairs[name]))
    z = {key: np.round(z_scores(*pair), 2).tolist() for key, pair in pairs.items()}
    assert np.max(np.abs(np.concatenate(list(z.values())))) < LIMIT, z
