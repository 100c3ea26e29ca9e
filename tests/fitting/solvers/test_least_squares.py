"""Least squares under noise: one step by a factor is the ridge regression on the moments of noised rows."""

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.fitting.solvers.preconditioners import Jacobi

NOISES = [
    bd.Dropout(centre=None),
    bd.Dropout(unbiased=True, centre=None),
    bd.GaussianNoise(0.7),
    bd.PoissonNoise(),
    bd.MultiplicativeNoise(0.5, centre=None),
]


def counts(n=90, p=6, seed=0):
    """Counts, that Poisson noise may have too, numbers that they say something of, and weights of the rows."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(2.0, size=(n, p)).astype(float)
    return X, X @ rng.normal(size=p) + rng.normal(size=n), rng.uniform(0.2, 3.0, size=n)


def rates_of(noise, p):
    return bd.Fixed(np.linspace(0.05, 0.9, p)) if noise.has_rate else None


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("intercept", [True, False])
def test_least_squares_are_ridge_on_the_moments_of_noised_rows(noise, intercept):
    X, y, weight = counts()
    n, p = X.shape
    model = bd.Model(bd.Squared(), noise, rates_of(noise, p), C=0.4, fit_intercept=intercept)
    fit = bd.fit(model, X, y, sample_weight=weight)
    assert fit.n_iter == 1
    # Once more: rows of means, and a ridge of its own for every weight.
    rate = np.linspace(0.05, 0.9, p) if noise.has_rate else np.zeros(p)
    g, h, a, b, c0 = (np.broadcast_to(part, p) for part in noise.coefficients(rate))
    rows, c = np.column_stack([g * X + h, np.full(n, float(intercept))]), 0.4 * weight
    ridge = np.append(1 + c @ (a * X**2 + b * X + c0), 0.0 if intercept else 1.0)
    expected = np.linalg.solve(np.diag(ridge) + (rows.T * c) @ rows, (rows.T * c) @ y)
    np.testing.assert_allclose(np.append(fit.weight, fit.intercept), expected, rtol=1e-9, atol=1e-11)


def test_collinear_columns_are_solved_to_the_tolerance():
    X, y, _ = counts()
    X = np.column_stack([X, X[:, 0] * (1 + 1e-9)])
    model = bd.Model(bd.Squared(), rates=bd.Fixed(0.0), C=1e6)
    fit = bd.fit(model, X, y)
    exact = bd.fit(model, X, y, method=bd.Newton(tol=1e-12, preconditioner=Jacobi()))
    assert fit.objective_trace[-1] <= exact.objective_trace[-1] * (1 + 1e-8)


@pytest.mark.parametrize("level", [3.0, 1e-9, -7e8])
def test_a_constant_response_ends_where_residuals_are_round_off(level):
    X, _, weight = counts()
    fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.3)), X, np.full(len(X), level), sample_weight=weight)
    assert fit.status.name == "CONVERGED"
    np.testing.assert_allclose(fit.intercept, level, rtol=1e-12)
    np.testing.assert_allclose(fit.weight, 0.0, atol=1e-10 * abs(level))


@pytest.mark.parametrize("loss", [bd.Poisson(), bd.Poisson("gaussian")], ids=["exact", "gaussian"])
@pytest.mark.parametrize("level", [1.0, 3.0, 1e6])
def test_constant_counts_end_where_residuals_are_round_off(loss, level):
    X = np.random.default_rng(2).normal(size=(60, 2))
    fit = bd.fit(bd.Model(loss, rates=bd.Fixed(0.3)), X, np.full(60, level))
    assert not fit.status.is_unfinished
    np.testing.assert_allclose([*fit.weight, fit.intercept], [0.0, 0.0, np.log(level)], atol=1e-8)
