"""Regression: ridge in closed form, the fits without noise, the posterior of a regression by exact means."""

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


@pytest.mark.slow
@pytest.mark.parametrize("loss", [bd.Squared(), bd.EpsilonInsensitive(0.2), bd.Quantile(0.8)], ids=repr)
def test_posterior_of_a_regression_is_the_enumerated_one(loss):
    """Weights, intercept and rates by importance sampling against 64 chains; false alarms below 1e-4 (9 means)."""
    import jax

    from bayesdrop.data.dataset import as_dataset
    from bayesdrop.sampling.protocols import natural
    from bayesdrop.sampling.run.runner import as_key, run

    rng = np.random.default_rng(2)
    X = np.round(rng.normal(size=(10, 2)), 1)
    y = X @ np.array([1.0, -0.5]) + 0.3 * rng.normal(size=10)
    model = bd.Model(loss, rates=bd.PerFeature(bd.Beta(2, 2)), C=2.0)
    draws = 400_000
    w, b, rate = rng.normal(size=(draws, 2)), 2.0 * rng.standard_t(4, size=draws), rng.beta(2, 2, size=(draws, 2))
    log_share = 2.5 * np.log1p((b / 2.0) ** 2 / 4)
    for row, target in zip(X, y, strict=True):
        total = np.zeros(draws)
        for kept in np.ndindex(2, 2):
            kept = np.array(kept)
            chance = np.prod(np.where(kept, 1 - rate, rate), axis=1)
            score = (w * kept) @ row + b
            total += chance * np.exp(-2.0 * loss.value(np.full(draws, target), score, np.zeros(draws)))
        log_share += np.log(np.maximum(total, 1e-300))
    share = np.exp(log_share - log_share.max())
    share /= share.sum()
    values = np.column_stack([w, w**2, b, rate, w[:, 0] * rate[:, 0], w[:, 1] * rate[:, 1]])
    exact = share @ values
    exact_error = np.sqrt(share**2 @ (values - exact) ** 2)
    assert 1 / np.sum(share**2) > 1000
    data = as_dataset(X, y, binary=False)
    with jax.enable_x64(False):
        kernel, operands = bd.Gibbs(joint_moves=0).bind(model, data, model.bind(data.feature_names), 200)
        result = run(kernel, operands, as_key(0), tune=200, draws=300, chains=64, progress=False)
    result = natural(result.draws)
    weight, rates = result["weight"].astype(float), result["rate"].astype(float)
    parts = [weight, weight**2, result["intercept"].astype(float)[..., None], rates, weight * rates]
    chains = np.concatenate(parts, axis=-1).mean(axis=1)
    error = np.hypot(chains.std(axis=0, ddof=1) / 8, exact_error)
    assert np.max(np.abs(chains.mean(axis=0) - exact) / error) < 4.9
