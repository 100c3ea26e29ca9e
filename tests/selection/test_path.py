"""The path along the rate: scores are scikit-learn's; fits are held by ``test_path_optimum.py``."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

import bayesdrop as bd

GRID = [0.0, 0.3, 0.6]


def regression():
    X, y = load_diabetes(return_X_y=True)
    return (X / X.std(axis=0))[:150], ((y - y.mean()) / y.std())[:150]


CASES = {
    "two classes": bd.DropoutLogisticRegression(tol=1e-12),
    "hinge": bd.DropoutSVC(C=0.3, tol=1e-10),
    "one vs rest": bd.DropoutLogisticRegression(multiclass="one_vs_rest", tol=1e-12),
    "softmax": bd.DropoutLogisticRegression(multiclass="softmax", tol=1e-12),
    "ridge": bd.DropoutRidge(tol=1e-12),
    "svr": bd.DropoutSVR(tol=1e-12),
}


def data(case):
    if case in ("ridge", "svr"):
        return regression()
    X, y = load_iris(return_X_y=True)
    return X, y if case in ("one vs rest", "softmax") else y == 1


@pytest.mark.parametrize("case", ["two classes", "ridge"])
def test_scores_on_folds_are_cross_val_score(case):
    estimator, (X, y) = CASES[case], data(case)
    scoring = "neg_log_loss" if case == "two classes" else "neg_mean_squared_error"
    folds = (StratifiedKFold if case == "two classes" else KFold)(3, shuffle=True, random_state=0)
    path = bd.RatePath(estimator, GRID, cv=folds, scoring=scoring).fit(X, y)
    manual = np.array(
        [cross_val_score(clone(estimator).set_params(rates=rate), X, y, cv=folds, scoring=scoring) for rate in GRID]
    )
    np.testing.assert_allclose(path.scores_, manual.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(path.score_errors_, manual.std(axis=1, ddof=1) / np.sqrt(3), atol=1e-6)
    assert path.best_rate_ == GRID[manual.mean(axis=1).argmax()]
    assert path.scored_on_ == "folds"
    assert estimator.get_params()["rates"] is None
    assert not hasattr(estimator, "coef_")


def test_scores_on_test_rows():
    X, y = data("two classes")
    path = bd.RatePath(bd.DropoutSVC(), GRID).fit(X[::2], y[::2], X_test=X[1::2], y_test=y[1::2])
    manual = [bd.DropoutSVC(rate).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) for rate in GRID]
    np.testing.assert_allclose(path.scores_, manual)
    assert path.scored_on_ == "test"
    assert path.score_errors_ is None


@pytest.mark.parametrize("cv", [None, StratifiedKFold(3)])
def test_weights_of_rows_are_those_of_fits_and_scores(cv):
    """Weight 0 is no row."""
    X, y = data("two classes")
    weight = np.tile([0.0, 1.0, 2.0], 50)
    path = bd.RatePath(bd.DropoutLogisticRegression(), GRID, cv=cv).fit(X, y, sample_weight=weight)
    X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
    everything = np.arange(len(y))
    folds = [(everything, everything)] if cv is None else list(cv.split(X, y))
    for rate, score in zip(GRID, path.scores_, strict=True):
        manual = []
        for train, test in folds:
            alone = bd.DropoutLogisticRegression(rate).fit(X[train], y[train], sample_weight=weight[train])
            manual.append(alone.score(X[test], y[test], sample_weight=weight[test]))
        assert score == pytest.approx(np.mean(manual))


def test_a_row_that_a_fold_has_twice_counts_twice():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + rng.normal(size=60)
    folds = [(np.r_[np.zeros(30, int), np.arange(1, 40)], np.arange(40, 60))]
    path = bd.RatePath(bd.DropoutRidge(C=1.0), [0.3], cv=folds).fit(X, y)
    rows, test = folds[0]
    np.testing.assert_allclose(path.scores_, bd.DropoutRidge(0.3, C=1.0).fit(X[rows], y[rows]).score(X[test], y[test]))


def test_the_default_grid():
    path = bd.RatePath(bd.DropoutRidge()).fit(*regression())
    np.testing.assert_allclose(path.rates_, np.arange(10) / 10)
    assert path.best_rate_ == 0.0  # on the rows of the fit no noise is best


@pytest.mark.parametrize("case", CASES)
def test_dataset(case):
    X, y = data(case)
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"column {d}" for d in range(X.shape[1])])
    labels = y if case in ("ridge", "svr") else np.array(["no", "yes", "maybe"])[np.asarray(y, dtype=int)]
    path = bd.RatePath(CASES[case], GRID, cv=2).fit(frame, labels)
    result = path.to_dataset()
    assert result["feature"].values.tolist() == list(frame.columns)
    np.testing.assert_array_equal(result["rate"], GRID)
    assert result["score"].dims == result["score_error"].dims == ("rate",)
    many = case in ("one vs rest", "softmax")
    if case in ("ridge", "svr"):
        assert result["weight"].dims == ("rate", "feature")
        assert result["objective"].dims == result["intercept"].dims == ("rate",)
    else:
        assert result["weight"].dims == ("rate", "class", "feature")
        assert result["class"].values.tolist() == (["maybe", "no", "yes"] if many else ["yes"])
        assert result["objective"].dims == (("rate",) if case == "softmax" else ("rate", "class"))
    np.testing.assert_array_equal(result["weight"], path.coefs_)


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), make_pipeline(bd.DropoutSVC()), bd.DropoutSVC], ids=["other", "pipe", "class"]
)
def test_estimators_without_rates(estimator):
    with pytest.raises(TypeError, match=r"estimator: expected a linear estimator with rates.*transform X before"):
        bd.RatePath(estimator).fit(*data("two classes"))


def test_bad_test_rows():
    X, y = data("two classes")
    with pytest.raises(ValueError, match="y_test: expected both X_test and y_test or neither"):
        bd.RatePath(bd.DropoutSVC(), GRID).fit(X, y, X_test=X)
    with pytest.raises(ValueError, match="X_test: expected both"):
        bd.RatePath(bd.DropoutSVC(), GRID).fit(X, y, y_test=y)
    with pytest.raises(ValueError, match="X_test: cv is given as well"):
        bd.RatePath(bd.DropoutSVC(), GRID, cv=2).fit(X, y, X_test=X, y_test=y)
    with pytest.raises(ValueError, match="takes no rates"):
        bd.RatePath(bd.DropoutSVC(noise=bd.GaussianNoise(0.1)), GRID).fit(X, y)


@pytest.mark.parametrize("size", [1e-20, -1.0])
def test_of_scores_that_differ_by_rounding_errors_the_first_rate_is_best(size):
    scores = iter(size * (1 - np.array([0.0, 2e-16, 0.0, 0.0, 0.0, 4e-16, 0.0, 0.0])))
    path = bd.RatePath(bd.DropoutLogisticRegression(), [0.3, 0.0], cv=2, scoring=lambda *_: next(scores))
    assert path.fit(*data("two classes")).best_rate_ == 0.3
