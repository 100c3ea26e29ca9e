"""The stated error of integrated masks is the error: of all rows, and from some of them."""

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.posterior.draws.draws import draws_of
from bayesdrop.posterior.scores import approximation_error as approximation
from bayesdrop.posterior.scores.approximation_error import approximation_error, errors_of


def draws_by_hand(p, size, spread, model, seed=0):
    import xarray as xr

    rng = np.random.default_rng(seed)
    dims = ("chain", "draw", "feature")
    parts = {"weight": (dims, spread * rng.normal(size=(1, size, p)))}
    parts |= {"rate": (dims, rng.uniform(0.2, 0.8, size=(1, size, p))), "intercept": (dims[:2], np.zeros((1, size)))}
    coords = {"chain": [0], "draw": np.arange(size), "feature": [f"x{d}" for d in range(p)]}
    return draws_of(xr.Dataset(parts, coords), model, marginalised=False)


@pytest.mark.parametrize("model", [bd.Model(C=1.5), bd.Model(bd.Hinge())])
def test_the_stated_error_is_that_of_the_rows(model):
    """Whose errors are held against all masks in ``noise_average/test_extremes.py``."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 4)), np.arange(20) % 2
    draws, data = draws_by_hand(4, 16, 1.5, model), as_dataset(X, y)
    errors = errors_of(draws, X, data.target, data.weight)
    found = approximation_error(draws, data, bd.Beta().law(np.zeros(4)))
    assert (found.rows, found.draws) == (20, 16)
    assert found.per_row == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)
    # At least that of the draws themselves.
    assert found.total > np.std(errors.sum(axis=1), ddof=1) * (1 - 1e-4)
    assert found.total > 3 * found.per_row  # what a row is off by says little of their sum
    assert found.bound > found.total


def test_many_rows_are_sampled_with_a_stated_error(monkeypatch):
    """The error of all rows from a third of them, without bias, and within its bound.

    Two standard errors from eight groups (Student, 7 degrees of freedom) are exceeded once in 23 times on a side, four
    times of ten with a chance of 7e-4; five of the mean of ten (9 degrees) with one of 7e-4.
    """
    model = bd.Model(bd.Hinge(), C=2.0)
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 3)), np.arange(300) % 2
    data, draws = as_dataset(X, y), draws_by_hand(3, 64, 1.0, model)
    law = bd.Beta().law(np.zeros(3))
    assert approximation_error(draws, data, law).rows == 300
    whole = np.std(errors_of(draws, X, data.target, data.weight).sum(axis=1), ddof=1)
    monkeypatch.setattr(approximation, "EFFORT", approximation.EffortLimits(work=20_000))
    parts = [approximation_error(draws, data, law, seed) for seed in range(10)]
    assert all(30 < part.rows < 200 for part in parts)
    assert sum(part.bound < whole for part in parts) <= 3
    squares = np.array([part.variance for part in parts])
    assert abs(squares.mean() - whole**2) < 5 * squares.std(ddof=1) / np.sqrt(10)
    assert all(np.isnan(part.pareto_k) for part in parts)
