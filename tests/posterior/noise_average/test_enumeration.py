"""Masks whose scores lie where a function varies, and the tilt of a law, against sums over all masks one by one."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp

from bayesdrop.posterior.noise_average.enumeration import all_masks
from bayesdrop.posterior.noise_average.quadrature import Masked, by_entries, saddle_tilt
from bayesdrop.posterior.noise_average.window import over_window

N = 6


def entries(k, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    rate = rng.random((N, k))
    rate.flat[::7], rate.flat[3::11] = 0.0, 1e-12
    return rng.normal(size=N), size * rng.normal(size=(N, k)), rate


def one_by_one(base, step, rate, function):
    masks = np.array(list(itertools.product((0, 1), repeat=step.shape[1])))
    with np.errstate(divide="ignore"):
        logs = np.where(masks[:, None] == 1, np.log1p(-rate), np.log(rate)).sum(axis=2)
    return logsumexp(logs + function(base + (masks[:, None] * step).sum(axis=2)), axis=0)


@pytest.mark.parametrize("k", [2, 7, 12])
@pytest.mark.parametrize("slope", [1.0, 30.0, 1e6])
@pytest.mark.parametrize("far", [0.0, 0.3, 1e6])
def test_likelihoods_over_the_masks_that_matter(k, slope, far):
    """Kinks among the scores and far away, one side flat, rates of 0."""
    base, step, rate = entries(k)
    for low, rise, fall in ((far, slope, 0.0), (-far, slope, 0.5 * slope), (far, 0.2 * slope, slope)):
        function = lambda s, low=low, up=rise, down=fall: -up * np.maximum(low - s, 0) - down * np.maximum(s - low, 0)  # noqa: E731
        exact = one_by_one(base, step, rate, function)
        for i in range(N):
            found = over_window(base[i], step[i], rate[i], function, True)
            np.testing.assert_allclose(found, exact[i], rtol=1e-12, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_probabilities_over_the_masks_that_matter(scale):
    base, step, rate = entries(12, size=scale)
    exact = np.exp(one_by_one(base, step, rate, log_expit))
    for i in range(N):
        assert over_window(base[i], step[i], rate[i], expit, False) == pytest.approx(exact[i], abs=1e-4)


def test_masks_are_those_of_the_product():
    base, step, rate = entries(5)
    value, log_chance = all_masks(step, rate)
    assert value.shape == (N, 32)
    np.testing.assert_allclose(np.exp(log_chance).sum(axis=1), 1.0)
    square = lambda s: -0.5 * s * s  # noqa: E731
    found = logsumexp(log_chance + square(base[:, None] + value), axis=1)
    np.testing.assert_allclose(found, one_by_one(base, step, rate, square), rtol=1e-12)


@pytest.mark.parametrize("steepness", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("far", [0.0, 10.0, 1e4])
def test_a_tilted_law_has_its_mean_where_the_mass_is(far, steepness):
    """Ten entries, and normal likelihoods at places that no mask comes near: the series settles, tilted."""
    base, step, rate = entries(10)
    place = base + far
    tilt = saddle_tilt(lambda some, s: steepness * (place[some] - s), base, step, rate)
    law = Masked.of(base, step, rate, tilt)

    def function(some, s):
        return -0.5 * steepness * (place[some, None] - s) ** 2 - tilt[some, None] * s

    value, error, _ = by_entries(law, function, logarithmic=True)
    exact = one_by_one(base, step, rate, lambda s: -0.5 * steepness * (place - s) ** 2)
    assert np.max(error) < 1e-3
    np.testing.assert_allclose(value + law.log_norm, exact, rtol=1e-12, atol=1e-3)
