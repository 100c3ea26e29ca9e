"""Rates that features share, drawn given the weights.

Of the statistical test each statistic is allowed 5 standard errors (5.7e-7 each under normality): 5 in all.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.mcmc.hmc.rate_slices import draw_rates, has_rates

LIMIT = 5.0


def problem(n=12, p=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, p)) * (generator.random((n, p)) < 0.8)
    return X, np.where(X[:, 0] + generator.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.slow
def test_rates_given_the_weights_follow_the_density():
    """Two rates of 12,000 chains that share their weights, drawn in turn: moments of the density on a grid."""
    model, (X, y) = bd.Model(rates=bd.PerGroup(["a", "b", "a"], bd.Beta(2, 3))), problem()
    with jax.enable_x64(True):
        rows = as_dataset(2 * X, y, binary=True).with_weight()
        kernel, operands = bd.HMC(dtype="float64").bind(model, rows, model.bind(rows.feature_names), 0)
        density, data = kernel.density, operands.density
        assert has_rates(density)
        weight = jnp.asarray([1.5, -1.0, 0.5, 0.2])

        def at(u):
            return jnp.concatenate([jnp.broadcast_to(weight[None], (len(u), 4)), u], axis=1)

        grid = np.linspace(-5, 4, 120)
        both = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
        found = jax.jit(density.evaluate)(data, at(jnp.asarray(both)))
        share = np.exp(np.asarray(found.prior) - np.asarray(found.cost).sum(axis=1))
        sweep = jax.jit(lambda key, theta: draw_rates(key, density, data, theta))
        theta = at(jax.random.normal(jax.random.key(0), (12_000, 2)))
        for number in range(8):
            theta = sweep(jax.random.key(number + 1), theta)
    share /= share.sum()
    np.testing.assert_array_equal(theta[:, :4], np.broadcast_to(weight, (12_000, 4)))

    def moments(u):
        return np.concatenate([u, u**2, u[:, :1] * u[:, 1:]], axis=1)

    drawn, exact = moments(np.asarray(theta)[:, 4:]), share @ moments(both)
    z = (drawn.mean(axis=0) - exact) / (drawn.std(axis=0) / np.sqrt(12_000))
    assert np.max(np.abs(z)) < LIMIT, np.round(z, 1)
