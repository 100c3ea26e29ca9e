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


class State(NamedTuple):
    key: Any
    weight: Any


class Kernel:
    """Independent normal weights, whatever the data."""

    def __init__(self, names=("weight", "intercept", "lp")):
        self.names = names

    def init(self, operands, key, chains):
        return State(key, jnp.zeros((chains, 2)))

    def step(self, operands, state):
        key, key_noise = jax.random.split(state.key)
        return State(key, jax.random.normal(key_noise, state.weight.shape))

    def record(self, operands, state):
        parts = {"weight": state.weight, "intercept": state.weight[:, 0], "lp": -jnp.sum(state.weight**2, axis=1)}
        return {name: parts[name] for name in self.names}


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
        return bd.sample(MODEL, X, Y, method=method, **OPTIONS)


def test_its_draws_come_back_with_its_settings():
    post = _sample(Independent())
    assert bd.groups.dataset(post, "posterior")["weight"].shape == (2, 10, 2)
    assert json.loads(post.attrs["settings"]) == {"width": "2.5"}


def test_settings_of_our_own_are_their_fields():
    from bayesdrop.inference.target import sampler_settings

    assert sampler_settings(bd.Gibbs(joint_moves=3))["joint_moves"] == "3"


def test_it_runs_under_numpyro():
    from numpyro.infer import MCMC

    mcmc = MCMC(
        bd.NumpyroKernel(MODEL, X, Y, method=Independent()), num_warmup=2, num_samples=3, num_chains=2,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        mcmc.run(jax.random.key(0))
    assert mcmc.get_samples()["weight"].shape == (6, 2)


class Lacking:
    """No precision, no length of warm-up."""

    integrates_masks = False

    def bind(self, *args, **kwargs):
        raise AssertionError("called before the check")


class Hasty(Lacking):
    dtype, warm_up = "float32", 0


class Rough(Lacking):
    dtype, warm_up = "float16", 10


@pytest.mark.parametrize(
    ("method", "kind", "message"),
    [
        (Lacking(), TypeError, "which lacks dtype, warm_up"),
        (Hasty(), ValueError, "expected warm_up, a whole number of at least 1, got 0"),
        (Rough(), ValueError, 'expected dtype "float32" or "float64", got .float16.'),
        (bd.Gibbs, TypeError, "method: expected a sampler such as"),
        (bd.Newton(), TypeError, "method: expected a sampler such as .*bd.fit takes the minimisers"),
        (Independent(names=("weight", "lp")), TypeError, r"records \['lp', 'weight', 'intercept'\]"),
        (Independent(names=("weight", "intercept")), TypeError, r"records \['lp', 'weight', 'intercept'\]"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_it_lacks_is_said_before_the_run(method, kind, message):
    with pytest.raises(kind, match=message):
        _sample(method)
