"""Sums over all masks by halves, and the tilt of a law, against sums over all masks one by one."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from bayesdrop.posterior.noise_average.enumeration import LinearPieces, all_masks, by_halves
from bayesdrop.posterior.noise_average.score_law import TwoPoint, integrate, saddle_tilt

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


def lines(pieces):
    return lambda s: (
        pieces.level - pieces.rise * np.maximum(pieces.low - s, 0) - pieces.fall * np.maximum(s - pieces.high, 0)
    )


@pytest.mark.parametrize("k", [0, 1, 2, 7, 10])
@pytest.mark.parametrize("slope", [1e-3, 1.0, 30.0, 1e6])
def test_by_halves(k, slope):
    """Kinks among the scores and far away, lines of either slope and of none, ties, rates of 0."""
    rng, (base, step, rate) = np.random.default_rng(1), entries(k)
    step[0] = np.round(step[0])
    low = np.array([0.0, 0.5, -1e6, 1e6, 0.3, -0.2])
    width = np.array([0.0, 1.0, 0.0, 2.0, 0.0, 1e-9])
    rise, fall = slope * rng.random(N), slope * np.array([1.0, 0.0, 0.5, 1.0, 0.0, 2.0])
    rise[4] = 0.0
    pieces = LinearPieces(low, low + width, rise, fall, rng.normal(size=N))
    exact = one_by_one(base, step, rate, lines(pieces))
    np.testing.assert_allclose(by_halves(base, step, rate, pieces), exact, rtol=1e-12, atol=1e-9)


def test_a_tube_that_few_masks_reach():
    """Its chance, 1e-40, is not the difference of two near 1."""
    step, rate = np.full((1, 4), 1.0), np.full((1, 4), 1 - 1e-10)
    one = np.ones(1)
    found = by_halves(np.zeros(1), step, rate, LinearPieces(3.5 * one, 5 * one, 1e9 * one, 1e9 * one, 0 * one))
    np.testing.assert_allclose(found, 4 * np.log(1 - rate[0, 0]), rtol=1e-12)


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
    law = TwoPoint.of(base, step, rate, tilt, wide=True)

    def function(some, s):
        return -0.5 * steepness * (place[some, None] - s) ** 2 - tilt[some, None] * s

    value, error = integrate(law, function, logarithmic=True, tolerance=1e-3)
    exact = one_by_one(base, step, rate, lambda s: -0.5 * steepness * (place - s) ** 2)
    assert np.max(error) < 1e-3
    np.testing.assert_allclose(value + law.log_norm, exact, rtol=1e-12, atol=1e-3)
