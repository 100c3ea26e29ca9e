"""Quantile regression: scikit-learn's own without noise and penalty, the shares below the fit, and conformance."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import QuantileRegressor

import bayesdrop as bd


def problem(n=150, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.8)
    return X, X @ rng.normal(size=p) + 0.5 + rng.gamma(1.0, size=n) * np.exp(0.3 * X[:, 0])


def check_loss(residual, tau):
    return np.maximum(tau * residual, (tau - 1) * residual)


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("case", ["rate 0", "gaussian", "tiny noise"])
def test_without_noise_and_penalty_it_is_scikit_learns(tau, case):
    """Its penalty is absolute, ours quadratic: ``alpha=0`` there is a vague prior of the weights here.

    HiGHS is exact to 1e-7. What the prior costs is ½‖w‖²/scale² of C Σ ρ, 1e-8 of it.
    """
    X, y = problem()
    theirs = QuantileRegressor(quantile=tau, alpha=0.0, solver="highs").fit(X, y)
    options = {"noise": bd.GaussianNoise(1e-7)} if case == "tiny noise" else {"rates": 0.0}
    ours = bd.DropoutQuantileRegressor(
        quantile=tau, weight_prior=bd.Normal(1e4), tol=1e-9, max_iter=2000,
        expectation="gaussian" if case == "gaussian" else "augmentation", **options,
    ).fit(X, y)  # fmt: skip
    total = [check_loss(y - fitted.predict(X), tau).sum() for fitted in (ours, theirs)]
    assert total[0] == pytest.approx(total[1], rel=1e-6)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.0, -3.0, 1e6])
@pytest.mark.parametrize("kind", [bd.DropoutQuantileRegressor, lambda rate: bd.DropoutSVR(rate, epsilon=0.0)])
def test_a_constant_response_is_fitted_exactly(kind, level):
    """No energy is left to measure the smoothing of the kink by."""
    X, _ = problem(n=20)
    for rate in (0.0, 0.3):
        fit = kind(rate).fit(X, np.full(20, level))
        np.testing.assert_allclose(fit.predict(X), level, rtol=1e-9, atol=1e-9)
        assert fit.status_.name == "ALL_ZERO"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["quantile", "extreme", "tube"])
def test_steps_on_blocks_do_not_depend_on_the_units_of_the_response(kind):
    """Pickled between blocks, of responses far from 0 too, and of a scale that grows."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2500, 2))
    z, found = Z[:, 0] + rng.normal(size=2500), []
    z[500:1000] *= 10
    for unit, shift in ((1.0, 0.0), (1e-3, 0.0), (1e5, 0.0), (1.0, 1e5)):
        options = {"rates": 0.0, "weight_prior": bd.Normal(10 * unit), "C": 1 / unit}
        if kind == "tube":
            model = bd.DropoutSVR(epsilon=0.1 * unit, **options)
        else:
            model = bd.DropoutQuantileRegressor(quantile=0.99 if kind == "extreme" else 0.9, **options)
        whole = clone(model).fit(Z, unit * z + shift)
        for rows in np.split(np.arange(2500), 5):
            model = pickle.loads(pickle.dumps(model.partial_fit(Z[rows], unit * z[rows] + shift)))
        found.append(np.append(model.coef_, model.intercept_ - shift) / unit)
        if shift == 0 and kind == "quantile":
            np.testing.assert_allclose(found[-1], np.append(whole.coef_, whole.intercept_) / unit, atol=0.15)
    for one in found[1:3]:
        np.testing.assert_allclose(one, found[0], rtol=1e-6)
    np.testing.assert_allclose(found[3], found[0], atol=2e-3)


@pytest.mark.parametrize("y", [np.zeros(50), np.full(50, 5.0), 3 * np.arange(50.0)], ids=["zeros", "constant", "exact"])
def test_steps_on_blocks_without_residuals(y):
    model = bd.DropoutQuantileRegressor(0.0, quantile=0.9, weight_prior=bd.Normal(10.0))
    X = np.arange(50.0)[:, None] / 10
    for _ in range(3):
        model.partial_fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=0.2)
