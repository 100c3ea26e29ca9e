"""The programs as a user meets them: sites and dims in ArviZ, simulation from the prior, and the command line."""

import os
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.handlers import condition, seed, substitute, trace
from numpyro.infer import HMC, MCMC, Predictive
from scipy.stats import binomtest

from bayesdrop.models import feature_noising, logistic, marginalised_dropout, svm

NAMES = ("svm", "logistic", "feature_noising", "marginalised_dropout", "quantile")


@pytest.fixture(autouse=True)
def _numpyro_promotion():
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        yield


@pytest.fixture
def data():
    X = np.random.default_rng(41).normal(size=(8, 3))
    return jnp.asarray(X), jnp.where(jnp.asarray(X[:, 0]) > 0, 1.0, -1.0)


PLAIN = {"weight": ("feature",), "intercept": ()}
LATENT = {**PLAIN, "latent_scale": ("obs_id",)}
DIMS = [
    (svm.program, {}, PLAIN),
    (svm.augmented, {}, LATENT),
    (logistic.program, {}, PLAIN),
    (logistic.augmented, {}, LATENT),
    (marginalised_dropout.program, {"rate": np.full(3, 0.2)}, PLAIN),
    (feature_noising.enumerated, {}, {**PLAIN, "rate": ("feature",)}),
    (feature_noising.enumerated, {"groups": (0, 0, 1)}, {**PLAIN, "rate": ("group",)}),
    (feature_noising.program, {}, {**PLAIN, "rate": ("feature",), "kept": ("obs_id", "feature")}),
    (feature_noising.program, {"groups": (0, 0, 1)}, {**PLAIN, "rate": ("group",), "kept": ("obs_id", "feature")}),
]


@pytest.mark.parametrize(("program", "keywords", "dims"), DIMS)
def test_plates_carry_the_names_of_the_dims(data, program, keywords, dims):
    values = {"intercept": jnp.zeros(()), "latent_scale": jnp.ones(8), "kept": jnp.ones((8, 3))}
    sites = trace(substitute(seed(program, 0), values)).get_trace(*data, **keywords)
    found = {
        name: tuple(frame.name for frame in site["cond_indep_stack"]) + tuple(site["infer"].get("event_dims", ()))
        for name, site in sites.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    assert found == dims
    assert not set(dims) & {"feature", "group", "obs_id"}, "a dim shares the name of a variable"


@pytest.mark.slow
@pytest.mark.parametrize(("program", "keywords", "dims"), DIMS[:-2])
def test_dims_in_arviz(data, program, keywords, dims):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.23 announces its successor
        import arviz as az
    kernel = HMC(program, num_steps=1, trajectory_length=None)
    mcmc = MCMC(kernel, num_warmup=2, num_samples=3, progress_bar=False)
    mcmc.run(jax.random.key(0), *data, **keywords)
    posterior = az.from_numpyro(mcmc, log_likelihood=False).posterior
    assert {name: variable.dims[2:] for name, variable in posterior.data_vars.items()} == dims


@pytest.mark.parametrize("groups", [None, (0, 1, 0)])
def test_masks_are_kept_with_one_minus_the_rate(data, groups):
    rate = jnp.array([0.1, 0.75, 0.4])[: 3 if groups is None else 2]
    values = {"weight": jnp.ones(3), "intercept": jnp.zeros(()), "rate": rate}
    program = condition(feature_noising.program, values)
    draws = Predictive(program, num_samples=500, return_sites=["kept"])(jax.random.key(1), *data, groups=groups)
    kept = np.asarray(draws["kept"])
    assert kept.shape == (500, 8, 3)
    chance = 1 - np.asarray(rate if groups is None else rate[jnp.asarray(groups)])
    # Three exact tests of 4,000 masks each; false-alarm rate below 1e-5.
    for d in range(3):
        assert binomtest(int(kept[..., d].sum()), kept[..., d].size, chance[d]).pvalue > 3e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_runs_from_the_command_line(name):
    environment = {**os.environ, "CI": "1"}  # no progress bar
    command = [sys.executable, "-W", "error::RuntimeWarning:runpy", "-m", f"bayesdrop.models.{name}"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    assert "weight[0]" in result.stdout
