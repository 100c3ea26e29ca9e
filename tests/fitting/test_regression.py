"""Regression: ridge in closed form, and the fits without noise."""

import numpy as np
import pytest

import bayesdrop as bd


def problem(n=80, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.8)
    return X, X @ rng.normal(size=p) + 0.5 + 0.3 * rng.normal(size=n)


def test_without_noise_ridge_is_scikit_learns():
    from sklearn.linear_model import Ridge

    X, y = problem()
    ours = bd.DropoutRidge(0.0, C=0.5, tol=1e-14).fit(X, y)
    theirs = Ridge(alpha=2.0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-7)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-7)


@pytest.mark.parametrize("bound", ["augmentation", "gaussian"])
@pytest.mark.parametrize("case", ["rate 0", "tiny noise"])
def test_without_noise_svr_is_scikit_learns(bound, case):
    """LinearSVR penalises its intercept, so neither has one here; it stops at a duality gap of 1e-8."""
    from sklearn.svm import LinearSVR

    X, y = problem()
    options = {"C": 0.5, "epsilon": 0.2, "fit_intercept": False}
    noise = bd.Dropout() if case == "rate 0" else bd.GaussianNoise(1e-8)
    ours = bd.DropoutSVR(0.0 if case == "rate 0" else None, noise=noise, expectation=bound, tol=1e-11, **options).fit(
        X, y
    )
    theirs = LinearSVR(tol=1e-8, max_iter=1_000_000, random_state=0, **options).fit(X, y)

    def objective(w):
        return 0.5 * w @ w + 0.5 * np.maximum(0, np.abs(y - X @ w) - 0.2).sum()

    assert objective(ours.coef_) == pytest.approx(objective(theirs.coef_), rel=1e-7)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("kind", [bd.DropoutSVR, bd.DropoutRidge, bd.DropoutQuantileRegressor])
def test_rates_of_a_regression_are_not_learnt_by_signs(kind):
    X, y = problem()
    with pytest.raises(ValueError, match=r"two\s+classes.*bd\.Fixed.*bd\.sample"):
        kind(bd.PerFeature()).fit(X, y)
    with pytest.raises(ValueError, match="rates: learnt rates need two classes"):
        kind(bd.PerFeature()).partial_fit(X, y)
    with pytest.raises(ValueError, match="takes no rates"):
        kind(0.3, noise=bd.GaussianNoise(0.1)).fit(X, y)


def test_warm_start_goes_on_from_the_last_fit():
    X, y = problem()
    model = bd.DropoutSVR(0.3, warm_start=True).fit(X, y)
    steps = model.n_iter_
    assert model.fit(X, y).n_iter_ < steps
