"""The groups of every posterior are built alike, and say alike where they come from."""

import warnings

import jax
import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.posterior.arviz_groups.builder import build_groups, draws_dataset
from bayesdrop.posterior.arviz_groups.groups import dataset, group_names

EVERYWHERE = {
    "inference_library", "inference_library_version", "jax_version", "numpyro_version", "arviz_version", "created_at",
    "inference_method", "method", "target", "model", "seed",
}  # fmt: skip
OF_A_RUN = {"sampling_time", "tuning_steps", "thin", "complete", "stopped"}
DESCRIBED = {"model_description", "classes"}
X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.where(X[:, 0] > 0, "up", "down")
SHORT = {"draws": 4, "tune": 3, "chains": 3, "seed": 7, "progress": False}  # the program of test_thin.py

POSTERIORS = {
    "sample": (lambda: bd.sample(bd.Model(), X, Y, **SHORT), OF_A_RUN | DESCRIBED),
    "sample_latent": (lambda: bd.sample_latent(bd.Model(), X, Y, n_hidden=2, **SHORT), OF_A_RUN | DESCRIBED),
    "sample_factorization": (lambda: bd.sample_factorization(X, 2, **SHORT), OF_A_RUN),
    "variational": (lambda: bd.variational(bd.Model(), X, Y, n_init=1).to_arviz(draws=4, seed=7), DESCRIBED),
    "prior": (lambda: bd.prior_draws(bd.Model(fit_intercept=False), X, draws=4, seed=7), {"model_description"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", POSTERIORS)
def test_every_group_of_every_posterior_says_where_it_comes_from(name):
    make, more = POSTERIORS[name]
    # NumPyro's kernels ask for JAX's own rules of promotion.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        post = make()
    for group in group_names(post):
        attrs = dataset(post, group).attrs
        assert set(attrs) >= EVERYWHERE | more, group
        assert (attrs["inference_library"], attrs["seed"]) == ("bayesdrop", 7)
        assert all(isinstance(value, str | int | float) for value in attrs.values())
    assert OF_A_RUN <= set(post.attrs) or not OF_A_RUN & set(post.attrs)


def test_names_along_every_dim_and_no_other():
    draws = {"weight": np.zeros((2, 3, 2)), "rate": np.zeros((2, 3, 1)), "lp": np.zeros((2, 3))}
    variables = {"weight": ("feature",), "rate": ("group",)}
    coords = {"feature": ["age", "size"], "group": ["all"], "class": ["no", "yes"]}
    found = draws_dataset(draws, variables, coords)
    assert set(found.coords) == {"chain", "draw", "feature", "group"}
    assert found["rate"].dims == ("chain", "draw", "group")
    assert found["feature"].values.tolist() == ["age", "size"]


def test_a_statistic_that_was_not_recorded_is_left_out():
    draws = {"weight": np.zeros((2, 3, 1)), "lp": np.ones((2, 3))}
    given = {"coords": {}, "observed": xr.Dataset(), "constants": {"fixed_rate": ("feature", [0.5])}}
    groups = build_groups(draws, variables={"weight": ("feature",)}, statistics=("lp", "energy"), **given)
    assert list(groups["sample_stats"]) == ["lp"]
    assert groups["constant_data"]["feature"].values.tolist() == [0]
    assert "sample_stats" not in build_groups(draws, variables={"weight": ("feature",)}, **given)


def test_groups_that_are_not_there_are_named():
    post = bd.groups.assemble({"posterior": xr.Dataset({"lp": (("chain", "draw"), np.zeros((1, 2)))})})
    with pytest.raises(ValueError, match=r"group: expected one of \['posterior'\], got 'prior'"):
        dataset(post, "prior")
    with pytest.raises(TypeError, match="group: expected the name of a group"):
        dataset(post, 3)
