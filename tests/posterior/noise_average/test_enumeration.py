"""Masks, and the tilt of a law, against sums over all masks one by one."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from bayesdrop.posterior.noise_average.quadrature import by_law, masked_law, saddle_tilt

N = 6


def entries(k):
    rng = np.random.default_rng(0)
    rate = rng.random((N, k))
    rate.flat[::7], rate.flat[3::11] = 0.0, 1e-12
    return rng.normal(size=N), rng.normal(size=(N, k)), rate


def one_by_one(base, step, rate, function):
    masks = np.array(list(itertools.product((0, 1), repeat=step.shape[1])))
    with np.errstate(divide="ignore"):
        logs = np.where(masks[:, None] == 1, np.log1p(-rate), np.log(rate)).sum(axis=2)
    return logsumexp(logs + function(base + (masks[:, None] * step).sum(axis=2)), axis=0)


@pytest.mark.parametrize("steepness", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("far", [0.0, 10.0, 1e4])
def test_a_tilted_law_has_its_mean_where_the_mass_is(far, steepness):
    """Ten entries, and normal likelihoods at places that no mask comes near: the series settles, tilted."""
    base, step, rate = entries(10)
    place = base + far
    tilt = saddle_tilt(lambda some, s: steepness * (place[some] - s), base, step, rate)
    law, log_norm = masked_law(base, step, rate, tilt)

    def function(some, s):
        return -0.5 * steepness * (place[some, None] - s) ** 2 - tilt[some, None] * s

    value, error = by_law(law, function, logarithmic=True)
    exact = one_by_one(base, step, rate, lambda s: -0.5 * steepness * (place - s) ** 2)
    assert np.max(error) < 1e-3
    np.testing.assert_allclose(value + log_norm, exact, rtol=1e-12, atol=1e-3)
