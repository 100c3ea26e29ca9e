"""The centre of streamed rows: where the gradient averages to zero, from wherever the fit had stopped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_sampling_design
from bayesdrop.mcmc.hmc.recentring import recentred

N, P = 400, 3


@pytest.fixture(scope="module", name="start")
def _start():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    y = X @ np.array([2.0, -1.0, 0.5]) + rng.logistic(size=N) > 0
    model = bd.Model(rates=bd.Fixed(0.0))
    bound = []
    with jax.enable_x64(True):
        for features in (X, bd.Blocks([X[:150], X[150:]])):
            data = as_dataset(features, y, None, None, True, as_sampling_design).with_weight()
            method = bd.HMC(dtype="float64")
            bind = method.bind_streamed if data.design.is_streamed else method.bind
            bound.append(bind(model, data, model.bind(data.feature_names), 10, marginalised=True))
    (memory, operands), (streamed, given) = bound
    return memory.density, operands, streamed.inner.density, given


def average(density, operands, centre, factor):
    """Whitened gradient, averaged over the pairs that the centre was found with, by the density in memory."""
    z = np.random.default_rng(0).normal(size=(4, P + 1)) @ factor.T
    theta = jnp.asarray(np.concatenate([centre + z, centre - z]))
    return factor.T @ np.asarray(density.evaluate(operands.density, theta).gradient).mean(axis=0)


def test_the_gradient_averages_to_zero(start):
    """To 1e-4 standard deviations, where at the mode it is a tenth and more; and from a centre half a one off."""
    density, operands, streamed, given = start
    factor, mode = np.asarray(given.chains.factor), np.asarray(operands.centre)
    with jax.enable_x64(True):
        centre = np.asarray(given.chains.centre)
        assert np.linalg.norm(average(density, operands, mode, factor)) > 0.1
        assert np.linalg.norm(average(density, operands, centre, factor)) < 1e-4
        off = jnp.asarray(mode + factor @ np.array([0.5, 0.0, -0.3, 0.2]))
        again = recentred(streamed, given.chains._replace(centre=off), given.rows)
        whitened = np.linalg.solve(factor, np.asarray(again.centre) - centre)
    assert np.linalg.norm(whitened) < 1e-3


def test_a_factor_that_leads_astray_moves_nothing(start):
    """Steps with four times the covariance go three times too far; the centre is that of the smallest gradient."""
    _, _, streamed, given = start
    with jax.enable_x64(True):
        off = given.chains.centre + given.chains.factor[:, 0]
        wide = given.chains._replace(centre=off, factor=2 * given.chains.factor)
        found = recentred(streamed, wide, given.rows)
        broken = recentred(streamed, given.chains._replace(centre=off * np.nan), given.rows)
    np.testing.assert_array_equal(found.centre, off)
    assert np.all(np.isnan(broken.centre))
