"""scikit-learn's manners, one-vs-rest, probabilities, names."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import bayesdrop as bd
from bayesdrop.estimators.classes import shares

BOTH = [bd.DropoutSVC, bd.DropoutLogisticRegression]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("rates", [0.3, bd.PerFeature(class_ratio=False)], ids=["fixed", "learnt"])
def test_one_vs_rest_is_each_class_alone(kind, rates):
    X, y = load_iris(return_X_y=True)
    several = {} if kind is bd.DropoutSVC else {"multiclass": "one_vs_rest"}
    together = kind(rates, tol=1e-12, **several).fit(X, y)
    assert together.coef_.shape == (3, 4)
    assert together.rates_.shape == (3, 4)
    for k in range(3):
        alone = kind(rates, tol=1e-12).fit(X, y == k)
        np.testing.assert_allclose(together.coef_[k], alone.coef_[0], atol=1e-5)
        np.testing.assert_allclose(together.rates_[k], alone.rates_, atol=1e-12)
        np.testing.assert_allclose(together.decision_function(X)[:, k], alone.decision_function(X), atol=1e-4)


def test_several_classes_are_fitted_jointly():
    """By default, and a step on a block of rows keeps the rates of the fit, or where there was none their start."""
    X, y = load_iris(return_X_y=True)
    default, joint = (bd.DropoutLogisticRegression(0.3, **more).fit(X, y) for more in ({}, {"multiclass": "softmax"}))
    np.testing.assert_array_equal(default.coef_, joint.coef_)
    np.testing.assert_allclose(default.coef_.sum(axis=0), 0.0, atol=1e-10)
    assert len(bd.DropoutLogisticRegression().fit(X, y).selection_.candidates) > 1
    learnt = bd.DropoutLogisticRegression(bd.PerFeature()).fit(X, y)
    before = learnt.rates_.copy()
    for _ in range(2):
        np.testing.assert_allclose(learnt.partial_fit(X, y).rates_, before, rtol=1e-14)
    fresh = bd.DropoutLogisticRegression(bd.PerFeature(start=0.2)).partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_allclose(fresh.rates_, 0.2, rtol=1e-14)


def test_more_features_than_rows_are_fitted_one_against_the_rest():
    """By default, and so wherever the rows go: in a search, in its folds and in the fit that it ends with."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 30)), np.arange(30) % 3
    wide, square = (bd.DropoutLogisticRegression(0.3).fit(part, y) for part in (np.hstack([X, X[:, :1]]), X))
    assert (wide.multiclass_, square.multiclass_) == ("one_vs_rest", "softmax")
    assert bd.DropoutLogisticRegression(0.3, expectation="augmentation").fit(X, y).multiclass_ == "one_vs_rest"
    named = bd.DropoutLogisticRegression(0.3, multiclass="softmax").fit(np.hstack([X, X[:, :1]]), y)
    assert named.multiclass_ == "softmax"
    chosen = bd.DropoutLogisticRegressionCV([0.3], Cs=[0.1, 1.0], cv=3).fit(X, y).best_estimator_
    assert chosen.multiclass_ == "softmax"


@pytest.mark.parametrize("kind", BOTH)
def test_prediction_conventions(kind, breast_cancer):
    X, y = breast_cancer
    model = kind(bd.PerFeature()).fit(X, y)
    clean = X @ ((1 - model.rates_) * model.coef_[0]) + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), clean, rtol=1e-10)
    model.set_params(corrupted_inputs=True)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0] + model.intercept_, rtol=1e-10)


def test_svc_probability_is_the_normalised_pseudo_likelihood():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=60) > 0
    model = bd.DropoutSVC(0.2, C=0.8, corrupted_inputs=True).fit(X, y)
    score = model.decision_function(X)
    up, down = np.exp(-0.8 * np.maximum(0, 1 - score)), np.exp(-0.8 * np.maximum(0, 1 + score))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], up / (up + down), rtol=1e-12)


@pytest.mark.parametrize("kind", BOTH)
def test_the_intercept_is_free(kind):
    """Neither noised nor penalised: a constant added to every score of the plain problem goes into it whole."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 3))
    y = rng.random(100) < 0.9
    big = kind(0.5, C=1e-6).fit(X, y)  # the weights vanish, the intercept stays
    assert np.abs(big.coef_).max() < 1e-3
    if kind is bd.DropoutLogisticRegression:
        assert big.intercept_[0] == pytest.approx(np.log(y.mean() / (1 - y.mean())), rel=1e-3)
    assert kind(0.5, fit_intercept=False).fit(X, y).intercept_[0] == 0


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("several", [False, True])
def test_warm_start(kind, several):
    X, y = load_iris(return_X_y=True)
    y = y if several else y == 1
    model = kind(bd.PerFeature(), warm_start=True, tol=1e-10).fit(X, y)
    first, coef = model.n_iter_, model.coef_.copy()
    model.fit(X, y)
    assert model.n_iter_ < first
    np.testing.assert_allclose(model.coef_, coef, atol=1e-3)
    model.fit(X[:, :2], y)  # another width starts afresh
    assert model.coef_.shape[1] == 2


@pytest.mark.parametrize("kind", BOTH)
def test_class_weight_is_sample_weight(kind):
    X, y = load_iris(return_X_y=True)
    y = np.array(["a", "b", "c"])[y][20:]
    X = X[20:]
    by_class = kind(0.3, class_weight={"a": 2.0, "b": 1.0, "c": 0.5}).fit(X, y)
    share = np.array([{"a": 2.0, "b": 1.0, "c": 0.5}[label] for label in y])
    by_row = kind(0.3).fit(X, y, sample_weight=share)
    np.testing.assert_allclose(by_class.coef_, by_row.coef_, rtol=1e-6)
    balanced = kind(0.3, class_weight="balanced").fit(X, y)
    total = {label: np.sum(y == label) for label in "abc"}
    by_row = kind(0.3).fit(X, y, sample_weight=[len(y) / 3 / total[label] for label in y])
    np.testing.assert_allclose(balanced.coef_, by_row.coef_, rtol=1e-6)


def test_probabilities_that_rounding_takes_beyond_their_bounds_come_back():
    beyond = np.array([[1 + 1e-15], [-1e-15]])
    np.testing.assert_array_equal(shares(beyond), [[0.0, 1.0], [1.0, 0.0]])
    assert np.all(shares(np.array([[-1e-15, 0.5, 0.5]])) >= 0)
