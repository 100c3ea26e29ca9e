"""NBSVM: ratios of naive Bayes by scikit-learn's own, objectives as printed, optima by other solvers."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.svm import LinearSVC

import bayesdrop as bd
from bayesdrop.baselines import NBSVM

LOSSES = ["squared_hinge", "log_loss"]


def _words(n=60, p=8, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    y[:classes] = np.arange(classes)
    X = rng.poisson(np.where(np.arange(p) % classes == y[:, None], 1.2, 0.4))
    X[0] = 0  # a row without words
    return X.astype(float), y


def _ratios(X, positive, weight, alpha=1.0):
    """By loops over the printed formula."""
    n, p = X.shape
    u, v = np.full(p, alpha), np.full(p, alpha)
    for i in range(n):
        for d in range(p):
            if X[i, d] > 0:
                (u if positive[i] else v)[d] += weight[i]
    return np.log((u / u.sum()) / (v / v.sum()))


def test_ratios_are_those_of_naive_bayes():
    X, y = _words()
    weight = np.random.default_rng(1).random(len(y))
    naive = MultinomialNB(alpha=0.7).fit(X > 0, y, sample_weight=weight)
    model = NBSVM(0.7).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        model.log_count_ratio_[0], naive.feature_log_prob_[1] - naive.feature_log_prob_[0], rtol=1e-12
    )
    np.testing.assert_allclose(model.log_count_ratio_[0], _ratios(X, y == 1, weight, 0.7), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_its_share_the_classifier_is_naive_bayes_up_to_a_factor(loss):
    X, y = _words()
    model = NBSVM(beta=0.0, loss=loss).fit(X, y)
    factor = model.coef_[0] / model.log_count_ratio_[0]
    np.testing.assert_allclose(factor, factor[0], rtol=1e-12)
    assert factor[0] > 0


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", LOSSES)
def test_optimum_of_the_printed_objective(loss, storage):
    """L-BFGS-B with differences of 1e-8 finds the minimum to about 1e-5; the gradient there vanishes to 1e-6."""
    X, y = _words(p=5)
    rng = np.random.default_rng(2)
    C, weight, sign = 0.6, rng.random(len(y)) + 0.1, np.where(y == 1, 1.0, -1.0)
    Z = _ratios(X, y == 1, weight) * (X > 0)

    def objective(w):
        margin = sign * (Z @ w[:-1] + w[-1])
        each = np.maximum(0, 1 - margin) ** 2 if loss == "squared_hinge" else np.log1p(np.exp(-margin))
        return 0.5 * w[:-1] @ w[:-1] + C * weight @ each

    model = NBSVM(C=C, beta=1.0, loss=loss, tol=1e-12).fit(storage(X), y, sample_weight=weight)
    fitted = np.append(model.coef_[0] / model.log_count_ratio_[0], model.intercept_)
    other = minimize(objective, np.zeros(6), method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
    assert objective(fitted) <= other.fun * (1 + 1e-9)
    np.testing.assert_allclose(fitted, other.x, atol=1e-4)
    h = 1e-5
    slope = [(objective(fitted + h * e) - objective(fitted - h * e)) / (2 * h) for e in np.eye(6)]
    np.testing.assert_allclose(slope, 0, atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_linear_classifiers_of_scikit_learn_on_ratios(classes):
    """To their tolerance: liblinear's without an intercept, which it would penalise, and lbfgs' with one."""
    X, y = _words(classes=classes)
    for loss, theirs in (
        ("squared_hinge", LinearSVC(C=0.5, fit_intercept=False, dual=False, tol=1e-10, max_iter=10_000)),
        ("log_loss", LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000)),
    ):
        bare = getattr(theirs, "fit_intercept") is False  # noqa: B009
        model = NBSVM(C=0.5, beta=1.0, loss=loss, fit_intercept=not bare, tol=1e-12).fit(X, y)
        for k in range(len(model.coef_)):
            positive = y == (k if classes > 2 else 1)
            r = _ratios(X, positive, np.ones(len(y)))
            fit = theirs.fit(r * (X > 0), positive)
            np.testing.assert_allclose(model.coef_[k], r * fit.coef_[0], atol=1e-5)
            np.testing.assert_allclose(model.intercept_[k], 0.0 if bare else fit.intercept_[0], atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_interpolation_is_between_its_ends(loss):
    X, y = _words()
    whole = NBSVM(beta=1.0, loss=loss).fit(X, y)
    w = whole.coef_[0] / whole.log_count_ratio_[0]
    between = NBSVM(beta=0.25, loss=loss).fit(X, y)
    np.testing.assert_allclose(
        between.coef_[0], whole.log_count_ratio_[0] * (0.75 * np.abs(w).mean() + 0.25 * w), rtol=1e-9
    )
    np.testing.assert_allclose(between.intercept_, whole.intercept_)


def test_counts_are_presence_in_fits_and_predictions():
    X, y = _words()
    counts, presence = NBSVM().fit(X, y), NBSVM().fit(X > 0, y)
    np.testing.assert_allclose(counts.coef_, presence.coef_, rtol=1e-12)
    np.testing.assert_allclose(counts.decision_function(3 * X), counts.decision_function(X > 0), rtol=1e-12)
    np.testing.assert_allclose(
        counts.decision_function(X), (X > 0) @ counts.coef_[0] + counts.intercept_[0], rtol=1e-12
    )
    np.testing.assert_allclose(counts.decision_function(sparse.csc_matrix(X)), counts.decision_function(X))


def test_probabilities_are_of_the_interpolated_score():
    X, y = _words()
    model = NBSVM(loss="log_loss").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-model.decision_function(X))))
    X, y = _words(classes=3)
    model = NBSVM(loss="log_loss").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert np.array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


def test_refusals_say_what_to_do():
    X, y = _words()
    for bad in (-X, sparse.csr_array(-X)):
        with pytest.raises(ValueError, match="X: Negative values in data.*DropoutLogisticRegression"):
            NBSVM().fit(bad, y)
        with pytest.raises(ValueError, match="X: Negative values in data"):
            NBSVM().fit(X, y).predict(bad)
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'") as error:
        _ = NBSVM().predict_proba
    assert 'loss="log_loss"' in str(error.value.__cause__)
    with pytest.raises(TypeError, match="memory"):
        NBSVM().fit(bd.Blocks([X[:30], X[30:]]), y)
