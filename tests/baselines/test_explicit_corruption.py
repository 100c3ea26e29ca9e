"""Explicit corruption: what it samples, what it hands on, and the marginalised fit as its limit."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

import bayesdrop as bd
from bayesdrop.baselines import ExplicitCorruption, MCFQuadratic


class _Recorder(BaseEstimator):
    """Keeps what it is fitted on."""

    def fit(self, X, y, sample_weight=None):
        self.seen_ = (X, y, sample_weight)
        return self

    def predict(self, X):
        return X


def _data(n=60, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.7)
    y = np.where(X @ np.linspace(1, -1, p) + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix, sparse.csc_array])
def test_copies_are_stacked_and_weighted(storage):
    X, y = _data()
    rates = np.array([0.0, 0.2, 0.5, 0.9])
    before = X.copy()
    model = ExplicitCorruption(_Recorder(), rates, copies=5, random_state=0).fit(storage(X), y, np.ones(60))
    noised, target, seen = model.estimator_.seen_
    assert sparse.issparse(noised) == sparse.issparse(storage(X))
    noised = noised.toarray() if sparse.issparse(noised) else noised
    np.testing.assert_array_equal(target, np.tile(y, 5))
    np.testing.assert_allclose(seen, 1 / 5)
    assert np.all((noised == 0) | (noised == np.tile(X, (5, 1))))
    np.testing.assert_array_equal(noised[:, 0], np.tile(X[:, 0], 5))
    # 5·60·0.7 = 210 entries per column: |z| < 6 fails in fewer than 1e-8 of runs.
    stored = np.tile(X, (5, 1)) != 0
    dropped = np.sum((noised == 0) & stored, axis=0) - rates * stored.sum(axis=0)
    assert np.all(np.abs(dropped) <= 6 * np.sqrt(rates * (1 - rates) * stored.sum(axis=0)))
    np.testing.assert_array_equal(X, before)
    other = ExplicitCorruption(_Recorder(), rates, copies=5, random_state=0).fit(storage(X), y).estimator_.seen_[0]
    np.testing.assert_array_equal(other.toarray() if sparse.issparse(other) else other, noised)
    other = ExplicitCorruption(_Recorder(), rates, copies=5, random_state=1).fit(storage(X), y).estimator_.seen_[0]
    assert np.any((other.toarray() if sparse.issparse(other) else other) != noised)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_a_row_of_weight_2_is_corrupted_as_often_as_a_row_twice(storage):
    """In the same way; a weight that is no count says how much a row matters, which is corrupted once."""
    X, y = _data()
    weight = np.random.default_rng(0).integers(0, 4, 60)
    order = np.random.default_rng(1).permutation(60)
    model = ExplicitCorruption(_Recorder(), 0.4, copies=3, random_state=0)
    one = model.fit(storage(X[order]), y[order], weight[order]).estimator_.seen_
    other = model.fit(storage(np.repeat(X, weight, axis=0)), np.repeat(y, weight)).estimator_.seen_
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(*(part.toarray() if sparse.issparse(part) else part for part in (mine, theirs)))
    assert one[0].shape == (3 * weight.sum(), 4)
    noised, _, seen = model.fit(storage(X), y, 0.5 + weight).estimator_.seen_
    assert noised.shape == (180, 4)
    assert seen.sum() == pytest.approx(np.sum(0.5 + weight))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_predictions_are_at_the_mean_of_the_noise(storage):
    X, y = _data()
    rates = np.array([0.0, 0.2, 0.5, 0.9])
    for noise, gain in ((bd.Dropout(), 1 - rates), (bd.Dropout(unbiased=True), np.ones(4))):
        model = ExplicitCorruption(_Recorder(), rates, noise=noise, copies=2, random_state=0).fit(storage(X), y)
        mean = model.predict(storage(X))
        np.testing.assert_allclose(mean.toarray() if sparse.issparse(mean) else mean, X * gain)
    fitted = ExplicitCorruption(LogisticRegression(), rates, random_state=0).fit(storage(X), y)
    inner, mean = fitted.estimator_, X * (1 - rates)
    np.testing.assert_allclose(fitted.decision_function(storage(X)), inner.decision_function(mean))
    np.testing.assert_allclose(fitted.predict_proba(storage(X)), inner.predict_proba(mean))
    assert fitted.score(storage(X), y) == inner.score(mean, y)
    np.testing.assert_array_equal(fitted.classes_, [-1, 1])


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_rows_that_are_noised_already_are_taken_as_they_are(storage):
    X, y = _data()
    model = ExplicitCorruption(LogisticRegression(), 0.3, copies=3, random_state=0).fit(storage(X), y)
    noised = clone(model).set_params(corrupted_inputs=True).fit(storage(X), y)
    np.testing.assert_allclose(noised.decision_function(storage(0.7 * X)), model.decision_function(storage(X)))
    assert noised.score(storage(X), y) == noised.estimator_.score(X, y)


@pytest.mark.parametrize(
    "noise", [bd.Dropout(), bd.Dropout(unbiased=True), bd.GaussianNoise(0.7), bd.LaplaceNoise(0.5)], ids=repr
)
def test_many_copies_approach_the_marginalised_fit(noise):
    """Ridge regression of the signs has MCF-quadratic as its limit.

    The normal equations ``H_M w = r_M`` average ``M`` independent copies, so that ``w_M − w`` is the solution of
    ``H_M δ = r_M − H_M w`` whose right side is a mean of ``M`` independent terms with mean zero. Their standard error
    is estimated from the copies; |z| < 6 in 5 statistics and 4 noises fails in fewer than 1e-6 of runs (M = 2000).
    """
    M, C, rate = 2000, 0.5, 0.3
    X, y = _data(n=30)
    exact = MCFQuadratic(rate, C=C, noise=noise, tol=1e-12).fit(X, y)
    # Ridge: ‖y − Xw − b‖² + alpha‖w‖² is 2/C of ours at alpha = 1/C.
    sampled = ExplicitCorruption(Ridge(alpha=1 / C, tol=1e-12), rate, noise=noise, copies=M, random_state=7).fit(X, y)
    recorded = ExplicitCorruption(_Recorder(), rate, noise=noise, copies=M, random_state=7).fit(X, y)
    Z = np.hstack([recorded.estimator_.seen_[0], np.ones((30 * M, 1))]).reshape(M, 30, 5)
    w = np.append(exact.coef_[0], exact.intercept_)
    penalty = np.diag([1.0] * 4 + [0.0])
    terms = C * np.einsum("min,mi->mn", Z, y - Z @ w) - penalty @ w
    H = C * np.einsum("min,mik->nk", Z, Z) / M + penalty
    delta = np.linalg.solve(H, terms.mean(axis=0))
    found = np.append(sampled.estimator_.coef_, sampled.estimator_.intercept_)
    np.testing.assert_allclose(found - w, delta, atol=1e-8)
    steps = np.linalg.solve(H, terms.T).T
    z = delta / (steps.std(axis=0) / np.sqrt(M))
    assert np.max(np.abs(z)) < 6
    # The bound has teeth: a rate off by a quarter, or a scale off by a tenth, lies outside it.
    other = MCFQuadratic(0.375, C=C, noise=noise, tol=1e-12).fit(X, y)
    if not noise.has_rate:
        other = MCFQuadratic(C=C, noise=type(noise)(1.1 * noise.scale), tol=1e-12).fit(X, y)
    far = np.append(other.coef_[0], other.intercept_) - found
    assert np.max(np.abs(far) / (steps.std(axis=0) / np.sqrt(M))) > 6


def test_estimators_without_weights_see_repeated_rows():
    X, y = _data()
    model = ExplicitCorruption(KNeighborsClassifier(), 0.1, copies=3, random_state=0).fit(X, y)
    assert model.estimator_.n_samples_fit_ == 180
    assert model.predict(X).shape == (60,)
    assert not hasattr(model, "decision_function")
    with pytest.raises(ValueError, match="sample_weight: fit of KNeighborsClassifier takes none"):
        ExplicitCorruption(KNeighborsClassifier()).fit(X, y, np.ones(60))


def test_regressors_have_no_classes():
    X, y = _data()
    model = ExplicitCorruption(LinearRegression(), 0.1, random_state=0).fit(X, y)
    assert not hasattr(model, "classes_")
    assert not hasattr(model, "predict_proba")
    assert model.fit(X, np.column_stack([y, -y])).predict(X).shape == (60, 2)


def test_bad_input():
    X, y = _data()
    wrap = LogisticRegression()
    for noise in (bd.GaussianNoise(), bd.LaplaceNoise()):
        with pytest.raises(ValueError, match="disturbs zeros too.*dense X"):
            ExplicitCorruption(wrap, noise=noise).fit(sparse.csr_array(X), y)
    for storage in (np.asarray, sparse.csr_array):
        with pytest.raises(ValueError, match="Poisson noise needs x >= 0"):
            ExplicitCorruption(wrap, noise=bd.PoissonNoise()).fit(storage(X), y)
        ExplicitCorruption(wrap, noise=bd.PoissonNoise(), copies=2).fit(storage(np.abs(X)), y)
        ExplicitCorruption(wrap, noise=bd.MultiplicativeNoise(), copies=2).fit(storage(X), y)
    for rates in (1.0, np.array([0.1, 0.2, 0.3, -1.0])):
        with pytest.raises(ValueError, match=r"rates: expected dropout rates in \[0, 1\)"):
            ExplicitCorruption(wrap, rates).fit(X, y)
    with pytest.raises(ValueError, match="does not learn rates"):
        ExplicitCorruption(wrap, bd.PerFeature()).fit(X, y)
