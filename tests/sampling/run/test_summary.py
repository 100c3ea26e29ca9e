"""Running summaries of draws against what all draws say, after any number of them."""

import numpy as np
import pytest
import xarray as xr

from bayesdrop._arviz import arviz
from bayesdrop.sampling.run import summary as module
from bayesdrop.sampling.run.stopping import Stop
from bayesdrop.sampling.run.summary import Summary


def summarised(draws):
    """Summaries of draws (S, C, …)."""
    found = Summary({"x": (draws.shape[1:], draws.dtype)})
    for draw in draws:
        found.add({"x": draw})
    return found


def autoregressive(rho, draws, chains, numbers, seed=0):
    """Chains of standard normal variables."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(chains, numbers))
    found = []
    for _ in range(draws):
        x = rho * x + np.sqrt(1 - rho**2) * rng.normal(size=x.shape)
        found.append(x)
    return np.array(found)


@pytest.mark.parametrize("draws", [1, 2, 31, 32, 33, 64, 100, 1000])
def test_mean_and_sd_are_those_of_all_draws(draws):
    """To round-off, also where the mean is a million times the spread."""
    x = 1e6 + autoregressive(0.5, draws, 3, 4)
    found = summarised(x).result()["x"]
    np.testing.assert_allclose(found.mean, x.mean(axis=(0, 1)), rtol=1e-14)
    np.testing.assert_allclose(found.sd, x.std(axis=(0, 1)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("draws", [1, 63, 64, 65, 128, 129, 1000])
def test_draws_that_are_kept_are_every_so_many(draws):
    x = autoregressive(0.0, draws, 4, 2).astype(np.float32)
    held = summarised(x)
    found, steps = held.result()["x"].draws, held.steps
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.moveaxis(x[steps], 0, 1))
    assert len(steps) <= 64
    assert len(steps) > 32 or len(steps) == draws
    assert len(set(np.diff(steps))) <= 1
    assert steps[0] == 0


@pytest.mark.parametrize("draws", [64, 128, 1024])
def test_r_hat_is_that_of_halved_chains(draws):
    """ArviZ's, of values, where the halves are whole batches."""
    x = autoregressive(0.5, draws, 3, 5) + np.linspace(0, 2, 5) * np.arange(3)[:, None]
    expected = arviz().rhat(xr.Dataset({"x": (("draw", "chain", "k"), x)}), method="split")["x"]
    np.testing.assert_allclose(summarised(x).result()["x"].r_hat, expected, rtol=1e-10)


def test_r_hat_of_other_numbers_weighs_the_halves():
    x = autoregressive(0.5, 75, 2, 3) + np.arange(2)[:, None]
    found = summarised(x).result()["x"].r_hat
    first = 4 * ((75 // 4) // 2)
    parts = [x[:first, c] for c in range(2)] + [x[first:, c] for c in range(2)]
    sizes = np.array([len(part) for part in parts])[:, None]
    within = sum(((part - part.mean(axis=0)) ** 2).sum(axis=0) for part in parts) / (sizes.sum() - 4)
    means = np.array([part.mean(axis=0) for part in parts])
    between = (sizes * (means - (sizes * means).sum(axis=0) / sizes.sum()) ** 2).sum(axis=0) / 3
    length = sizes.mean()
    np.testing.assert_allclose(found, np.sqrt((length - 1) / length + between / length / within), rtol=1e-10)


def test_effective_sample_size_of_batch_means():
    """By its formula from all draws; and of autoregressive chains near what is known of them.

    ``S (1 − ρ)/(1 + ρ)``. 200 numbers: their mean has a relative standard error of 0.13/√200 < 0.01, and the estimator
    itself is off by less than ``2ρ/((1 − ρ²) b)`` for batches of ``b``: 0.02. An error of 0.08 is 6 standard errors.
    """
    x = autoregressive(0.5, 4000, 4, 200)
    found = summarised(x).result()["x"].ess
    batches = x[: 31 * 128].reshape(31, 128, 4, 200).mean(axis=1).reshape(-1, 200)
    np.testing.assert_allclose(found, 16000 * x.var(axis=(0, 1)) / (128 * batches.var(axis=0, ddof=1)), rtol=1e-8)
    # The harmonic mean, for it is the reciprocal that has no bias.
    np.testing.assert_allclose(1 / np.mean(1 / found), 16000 / 3, rtol=0.08)


def test_chains_that_disagree_have_few():
    x = autoregressive(0.0, 1000, 4, 2) * 0.01 + np.arange(4)[:, None]
    found = summarised(x).result()["x"]
    assert np.all(found.r_hat > 10)
    assert np.all(found.ess < 150)


def test_what_cannot_be_told_is_not_a_number():
    still = summarised(np.ones((50, 4, 2))).result()["x"]
    assert np.all(np.isnan(still.r_hat) & np.isnan(still.ess) & (still.sd == 0))
    one = summarised(autoregressive(0.0, 50, 1, 2)).result()["x"]
    assert np.all(np.isnan(one.r_hat) & (one.ess > 5))
    few = summarised(autoregressive(0.0, 1, 4, 2)).result()["x"]
    assert np.all(np.isnan(few.r_hat) & np.isnan(few.ess))
    apart = summarised(np.tile(np.arange(4.0)[:, None], (50, 1, 1))).result()["x"]
    assert np.all(np.isinf(apart.r_hat))


def test_going_on_from_arrays_is_going_on():
    x = autoregressive(0.5, 200, 2, 3)
    whole, first = summarised(x), summarised(x[:77])
    second = Summary({"x": (x.shape[1:], x.dtype)})
    assert second.shapes() == {name: (value.shape, value.dtype) for name, value in first.arrays.items()}
    second.restore(first.arrays, 77)
    for draw in x[77:]:
        second.add({"x": draw})
    for one, other in zip(whole.result()["x"], second.result()["x"], strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_held_does_not_grow():
    sizes = [summarised(np.zeros((draws, 4, 10))).nbytes for draws in (1, 500)]
    assert sizes[0] == sizes[1] == 10 * 8 * (3 * 4 + 4 * module._BATCHES + module._DRAWS)


def test_a_stop_rule_sees_summaries():
    good = summarised(autoregressive(0.0, 500, 4, 3)).result()
    slow = summarised(autoregressive(0.99, 500, 4, 3)).result()
    draws = {"rate": np.moveaxis(autoregressive(0.0, 500, 4, 1), 0, 1)}
    rule = Stop(ess=400, r_hat=1.1)
    assert rule.assess(draws, good).reached
    assert rule.assess({}, good).reached
    assert not rule.assess(draws, slow).reached
    assert rule.assess(draws, slow).ess < 400
    apart = {"x": good["x"]._replace(r_hat=np.array([1.0, 1.3, 1.0]))}
    assert rule.assess(draws, apart).r_hat == 1.3
    assert not rule.assess(draws, apart).reached
