"""The sampler of the noising model against NUTS on the program that sums every mask: one posterior, two routes.

Means and standard deviations of all weights, the intercept and all rates, within Monte Carlo error.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import MCMC, NUTS
from scipy.stats import norm

import bayesdrop as bd
from bayesdrop.distributions import HingePseudoLikelihood, LogisticPseudoLikelihood
from bayesdrop.models import feature_noising

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.23 announces its successor
    import arviz as az

N, P, C, A, B, SCALE = 40, 3, 1.3, 2.0, 3.0, 2.0
GROUPS = (0, 1, 0)
LOSSES = {"hinge": (bd.Hinge(), HingePseudoLikelihood), "logistic": (bd.Logistic(), LogisticPseudoLikelihood)}
FALSE_ALARM = 1e-4


def _data():
    rng = np.random.default_rng(51)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.8)
    kept = rng.random((N, P)) < [0.9, 0.5, 0.7]
    score = (X * kept) @ [2.5, -2.0, 0.5] + 0.5 * rng.logistic(size=N)
    return X, np.where(score > 0, 1.0, -1.0)


def _oracle(likelihood, groups, C=C):
    """Draws of NUTS by name, (chains, draws, size) each."""
    X, y = _data()
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        mcmc = MCMC(
            NUTS(feature_noising.enumerated, target_accept_prob=0.9),
            num_warmup=500,
            num_samples=2500,
            num_chains=4,
            chain_method="vectorized",
            progress_bar=False,
        )
        arguments = (jnp.asarray(X), jnp.asarray(y > 0, int), likelihood, C, A, B, groups, SCALE, None)
        mcmc.run(jax.random.key(52), *arguments)
    draws = mcmc.get_samples(group_by_chain=True)
    return {name: np.asarray(value).reshape(4, 2500, -1) for name, value in draws.items()}


def _summary(statistic):
    """Mean of (chains, draws), its Monte Carlo error and its effective sample size; the chains must agree."""
    ess, r_hat = float(az.ess(statistic, method="mean")), float(az.rhat(statistic))
    # Fewer effective draws would not make the mean normal, nor its error known to a few per cent.
    assert ess > 400, f"effective sample size {ess:.0f}"
    assert r_hat < 1.02, f"R-hat {r_hat:.3f}"
    return statistic.mean(), statistic.std() / np.sqrt(ess)


def _distances(ours, theirs):
    """Standard normal distances of means and of second moments about a common centre, by name."""
    z = {}
    for name, other in theirs.items():
        for j in range(other.shape[-1]):
            pair = ours[name][..., j], other[..., j]
            centre = other[..., j].mean()
            for label, transform in (("mean", lambda x: x), ("spread", lambda x, c=centre: (x - c) ** 2)):
                (mean, error), (other_mean, other_error) = (_summary(transform(part)) for part in pair)
                z[f"{label} of {name}[{j}]"] = (mean - other_mean) / np.hypot(error, other_error)
    return z


def _limit(count):
    return -norm.ppf(FALSE_ALARM / (2 * count))


@pytest.mark.slow
@pytest.mark.parametrize("rates", ["per feature", "per group"])
@pytest.mark.parametrize("name", LOSSES)
def test_sampler_agrees_with_nuts_on_the_enumerated_program(name, rates):
    loss, likelihood = LOSSES[name]
    prior = bd.Beta(A, B)
    structure, groups = (
        (bd.PerFeature(prior), None) if rates == "per feature" else (bd.PerGroup(list(GROUPS), prior), GROUPS)
    )
    model = bd.Model(loss=loss, rates=structure, C=C, weight_prior=bd.Normal(SCALE))
    X, y = _data()
    posterior = bd.sample(model, X, y, draws=5000, tune=500, chains=4, seed=53).posterior
    ours = {key: np.asarray(posterior[key]).reshape(4, 5000, -1) for key in ("weight", "intercept", "rate")}
    z = _distances(ours, _oracle(likelihood, groups))
    worst = max(z, key=lambda key: abs(z[key]))
    assert abs(z[worst]) < _limit(len(z)), (worst, z[worst])
