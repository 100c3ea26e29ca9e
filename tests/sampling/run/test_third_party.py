"""A sampler of one's own, which need be no dataclass: checked before the run, described after it."""

import json
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdrop as bd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = (X[:, 0] > 0).astype(int)
MODEL = bd.Model(rates=bd.Fixed(0.2))
OPTIONS = {"draws": 10, "tune": 5, "chains": 2, "progress": False}
VARIABLES = {"weight": ("feature",), "intercept": (), "tension": ("knot", "feature")}
STATISTICS = ("lp", "temperature")


class State(NamedTuple):
    key: Any
    weight: Any


class Kernel:
    """Independent normal weights, whatever the data, with a variable, a dim and a statistic of its own."""

    def __init__(self, variables=VARIABLES, statistics=STATISTICS, leave_out=()):
        self.variables, self.statistics = dict(variables), tuple(statistics)
        self.leave_out = leave_out

    def init(self, operands, key, chains):
        return State(key, jnp.zeros((chains, 2)))

    def step(self, operands, state):
        key, key_noise = jax.random.split(state.key)
        weight = jax.random.normal(key_noise, state.weight.shape)
        recorded = {
            "weight": weight,
            "intercept": weight[:, 0],
            "tension": weight[:, None, :] * jnp.arange(3.0)[None, :, None],
            "lp": -jnp.sum(weight**2, axis=1),
            "temperature": jnp.full(len(weight), 2.0),
        }
        return State(key, weight), {name: value for name, value in recorded.items() if name not in self.leave_out}


class Independent:
    """Plain attributes, one of them private."""

    dtype, warm_up, integrates_masks = "float32", 7, False

    def __init__(self, **kernel):
        self.width, self._kernel = 2.5, kernel

    def bind(self, model, data, rate_map, tune, marginalised=False):
        return Kernel(**self._kernel), {"unused": jnp.zeros(1)}


def _sample(method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        return bd.sample(MODEL, X, Y, method=method, feature_names=["age", "dose"], **OPTIONS)


@pytest.mark.slow
def test_its_draws_come_back_with_its_settings():
    post = _sample(Independent())
    assert bd.groups.dataset(post, "posterior")["weight"].shape == (2, 10, 2)
    assert json.loads(post.attrs["settings"]) == {"width": 2.5}


def test_what_it_declares_comes_back_with_dims_and_coords():
    post = _sample(Independent())
    posterior, stats = bd.groups.dataset(post, "posterior"), bd.groups.dataset(post, "sample_stats")
    assert set(posterior.data_vars) == set(VARIABLES)
    assert posterior["tension"].dims == ("chain", "draw", "knot", "feature")
    assert posterior["knot"].values.tolist() == [0, 1, 2]
    assert posterior["tension"].coords["feature"].values.tolist() == ["age", "dose"]
    np.testing.assert_allclose(posterior["tension"].sel(knot=2), 2 * posterior["weight"], rtol=1e-6)
    assert set(stats.data_vars) == set(STATISTICS)
    assert stats["temperature"].dims == ("chain", "draw")
    assert np.all(stats["temperature"] == 2)


def test_settings_of_our_own_are_their_fields():
    from bayesdrop.posterior.problem import sampler_settings

    assert sampler_settings(bd.Gibbs(joint_moves=3))["joint_moves"] == 3


def test_it_runs_under_numpyro():
    from numpyro.infer import MCMC

    mcmc = MCMC(
        bd.NumpyroKernel(MODEL, X, Y, method=Independent()), num_warmup=2, num_samples=3, num_chains=2,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        mcmc.run(jax.random.key(0), extra_fields=("temperature",))
    assert {name: value.shape for name, value in mcmc.get_samples().items()} == {
        "weight": (6, 2), "intercept": (6,), "tension": (6, 3, 2),
    }  # fmt: skip
    assert np.all(mcmc.get_extra_fields()["temperature"] == 2)


class Lacking:
    """No precision, no length of warm-up."""

    integrates_masks = False

    def bind(self, *args, **kwargs):
        raise AssertionError("called before the check")


class Hasty(Lacking):
    dtype, warm_up = "float32", 0


class Rough(Lacking):
    dtype, warm_up = "float16", 10


class Empty(Independent):
    def bind(self, *args, **kwargs):
        return "kernel", None


def _declares(**variables):
    return Independent(variables=VARIABLES | variables)


@pytest.mark.parametrize(
    ("method", "kind", "message"),
    [
        (Lacking(), TypeError, "which lacks dtype, warm_up"),
        (Hasty(), ValueError, "warm_up: expected a whole number of at least 1, got 0"),
        (Rough(), ValueError, 'expected dtype "float32" or "float64", got .float16.'),
        pytest.param(10**5000, TypeError, "got an int whose repr fails, which lacks", id="huge count"),
        (bd.Gibbs, TypeError, "method: expected a sampler such as .*a class; give an instance"),
        (bd.Newton(), TypeError, "method: expected a sampler such as .*bd.fit takes the minimisers"),
        (Empty(), TypeError, "expected a kernel with init, step, variables and statistics, got 'kernel'"),
        (Independent(statistics=("temperature",), leave_out=("lp",)), TypeError, "'lp' is required and not declared"),
        (Independent(leave_out=("intercept",)), TypeError, "'intercept' is declared and not recorded"),
        (Independent(statistics=("lp",)), TypeError, "'temperature' is recorded and not declared"),
        (Independent(statistics=("lp", "temperature", "weight")), TypeError, "'weight' is declared twice"),
        (_declares(tension=("knot",)), TypeError, r"'tension' has shape \(2, 3, 2\) on \(chain, knot\)"),
        (_declares(tension=("feature", "knot")), TypeError, r"'tension' has shape .* on \(chain, feature, knot\)"),
        (_declares(tension=("draw", "feature")), TypeError, "'tension' has shape"),
        (_declares(tension=("weight", "feature")), TypeError, "'weight' is the name of a dim as well"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_it_lacks_is_said_before_the_run(method, kind, message):
    with pytest.raises(kind, match=message):
        _sample(method)
