"""Quantile regression: scikit-learn's own without noise and penalty, the shares below the fit, and conformance."""

import numpy as np
import pytest
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


@pytest.mark.parametrize("level", [0.0, -3.0, 1e6])
@pytest.mark.parametrize("kind", [bd.DropoutQuantileRegressor, lambda rate: bd.DropoutSVR(rate, epsilon=0.0)])
def test_a_constant_response_is_fitted_exactly(kind, level):
    """No energy is left to measure the smoothing of the kink by."""
    X, _ = problem(n=20)
    for rate in (0.0, 0.3):
        fit = kind(rate).fit(X, np.full(20, level))
        np.testing.assert_allclose(fit.predict(X), level, rtol=1e-9, atol=1e-9)
        assert fit.status_.name == "ALL_ZERO"
