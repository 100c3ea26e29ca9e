"""Choosing the rate and C on folds: scikit-learn's grid search, with warm starts."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import bayesdrop as bd

SMALL = {"rates": (0.3, bd.PerFeature()), "Cs": (0.5, 1.0), "cv": 2}
PAIRS = [(bd.DropoutSVC, bd.DropoutSVCCV), (bd.DropoutLogisticRegression, bd.DropoutLogisticRegressionCV)]
BOTH = [pair[1] for pair in PAIRS]


def noisy(n=150, p=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.7)
    return X, np.where(X[:, :3].sum(axis=1) + 1.5 * rng.normal(size=n) > 0, "up", "down")


@pytest.mark.slow
@pytest.mark.parametrize(("plain", "searched"), PAIRS)
@pytest.mark.parametrize("several", [False, True])
def test_scores_and_choice_are_grid_search(plain, searched, several):
    X, y = load_iris(return_X_y=True) if several else noisy()
    # About their means, so that the noise of no column is centred: its centre would be the mean of all rows in one
    # search, and of those of the fold in the other.
    X = X - X.mean(axis=0) if several else X
    grid = {"rates": [0.0, 0.2, 0.4], "C": [0.03, 0.3, 3.0]}
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    theirs = GridSearchCV(plain(tol=1e-12), grid, cv=folds, scoring="neg_log_loss").fit(X, y)
    ours = searched(grid["rates"], Cs=grid["C"], cv=folds, scoring="neg_log_loss", tol=1e-12).fit(X, y)
    for key in ("mean_test_score", "std_test_score", "split0_test_score", "split2_test_score"):
        np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], atol=1e-6)
    np.testing.assert_array_equal(ours.cv_results_["rank_test_score"], theirs.cv_results_["rank_test_score"])
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    assert {"rates": ours.best_rates_, "C": ours.C_} == theirs.best_params_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1e-6)
    # The probabilities of a hinge, and its threshold, come of held-out scores, which only ours has.
    np.testing.assert_allclose(ours.coef_, theirs.best_estimator_.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.best_estimator_.intercept_, atol=1e-6)
    assert ours.score(X, y) == pytest.approx(-log_loss(y, ours.predict_proba(X)), abs=1e-12)
    if plain is not bd.DropoutSVC:
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
        assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-6)
    splits = np.stack([ours.cv_results_[f"split{k}_test_score"] for k in range(3)])
    np.testing.assert_allclose(
        ours.cv_results_["standard_error_test_score"], splits.std(axis=0, ddof=1) / np.sqrt(3), rtol=1e-12
    )


@pytest.mark.parametrize(("plain", "searched"), PAIRS)
def test_fitted_attributes_are_those_of_the_chosen_fit(plain, searched):
    X, y = noisy()
    model = searched([bd.PerFeature(bd.Beta(2, 2))], Cs=(1.0,), cv=3, class_weight="balanced").fit(X, y)
    alone = plain(bd.PerFeature(bd.Beta(2, 2)), C=1.0, class_weight="balanced").fit(X, y)
    for name in ("coef_", "intercept_", "rates_", "classes_", "objective_trace_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(alone, name))
    np.testing.assert_array_equal(model.rate_posterior_.law.a, alone.rate_posterior_.law.a)
    if plain is bd.DropoutSVC:
        alone.calibration_ = model.calibration_
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(model, method)(X), getattr(alone, method)(X))
    assert model.score(X, y) == alone.score(X, y)
    model.set_params(corrupted_inputs=True)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0] + model.intercept_[0], rtol=1e-10)


@pytest.mark.parametrize("searched", BOTH)
def test_equal_scores_take_the_smallest_C_and_then_the_first_rate(searched):
    X = np.repeat([[2.0, 0.0], [0.0, 2.0]], 10, axis=0)
    y = np.repeat([0, 1], 10)  # every candidate is right on every row
    model = searched([0.5, 0.0], Cs=(1.0, 0.1, 10.0), cv=2, scoring="accuracy").fit(X, y)
    np.testing.assert_array_equal(model.cv_results_["mean_test_score"], 1.0)
    assert (model.C_, model.best_rates_, model.best_index_) == (0.1, 0.5, 0)
    assert set(model.cv_results_["rank_test_score"]) == {1}


def test_default_candidates():
    X, y = noisy(n=60, p=3)
    model = bd.DropoutSVCCV(Cs=(0.1,), cv=2).fit(X, y)
    assert [one.strength for one in model.selection_.candidates] == [1.0, 2 / 3, 1 / 3, 1 / 9, 0.0]
    rates = model.cv_results_["param_rates"].tolist()
    assert rates[0] == bd.PerFeature()
    assert rates[2].prior == bd.Beta.from_mode(0, relative_strength=2.0)
    assert rates[-1] == bd.Fixed(0.0)
    gaussian = bd.DropoutSVCCV(Cs=(0.1, 1.0), cv=2, noise=bd.GaussianNoise(0.1)).fit(X, y)
    assert gaussian.cv_results_["param_rates"].tolist() == [None, None]
    assert gaussian.best_rates_ is None


@pytest.mark.slow
@pytest.mark.parametrize("searched", BOTH)
def test_sparse_equals_dense_and_processes_change_nothing(searched):
    X, y = noisy()
    options = {"rates": [0.0, 0.5], "Cs": (0.1, 1.0), "cv": 3, "scoring": "neg_log_loss", "tol": 1e-12}
    dense = searched(**options).fit(X, y)
    for other in (searched(**options).fit(sparse.csr_array(X), y), searched(**options, n_jobs=2).fit(X, y)):
        # Twice the root of the gap in energy, as far as two fits may stand apart.
        np.testing.assert_allclose(
            other.cv_results_["mean_test_score"], dense.cv_results_["mean_test_score"], atol=1e-5
        )
        np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-4)


def test_draws_use_the_choice(monkeypatch):
    X, y = noisy(n=60, p=3)
    monkeypatch.setattr("bayesdrop.posterior.sampling.sample", lambda model, X, y, **options: (model, options))
    searched = bd.DropoutLogisticRegressionCV([0.3], Cs=(0.5,), cv=2).fit(X, y)
    model, options = searched.sample(X, y, draws=10)
    assert (model.C, model.rates) == (0.5, bd.Fixed(0.3))
    assert options == {"draws": 10, "sample_weight": None, "class_weight": None}


def test_scores_that_are_no_numbers():
    X, y = noisy(n=40, p=3)
    with pytest.raises(ValueError, match="scoring: every score is NaN"):
        bd.DropoutSVCCV(**SMALL, scoring=lambda *_: np.nan).fit(X, y)


@pytest.mark.parametrize("searched", [bd.DropoutRidgeCV, bd.DropoutSVRCV])
def test_the_order_of_candidates_does_not_matter(searched):
    """Without noise nothing is centred: the search of columns far from 0 then was about 0, its fit about the mean."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 3)) + 20
    y = X @ [1.0, -1.0, 0.5] + generator.normal(size=60)
    scores = []
    for rates in ([0.0, 0.3], [0.3, 0.0]):
        table = searched(rates, Cs=(1.0,), cv=3).fit(X, y).cv_results_
        place = [float(rate) for rate in table["param_rates"]].index(0.3)
        scores.append(table["mean_test_score"][place])
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6)


def test_a_search_without_a_fit_has_no_score():
    with pytest.raises(NotFittedError):
        bd.DropoutRidgeCV().score([[1.0]], [1.0])


SEARCHES = {
    "ridge": lambda k: bd.DropoutRidgeCV(),
    "ridge, folds": lambda k: bd.DropoutRidgeCV([0.0, 0.3], cv=3),
    "ridge, scorer": lambda k: bd.DropoutRidgeCV([0.0, 0.3], cv=3, scoring="neg_mean_squared_error"),
    "svr": lambda k: bd.DropoutSVRCV([0.0], Cs=k * np.array([0.01, 0.1, 1.0, 10.0]), cv=3, epsilon=0.1 * k),
    "median": lambda k: bd.DropoutSVRCV([0.0], Cs=k * np.array([0.01, 0.1, 1.0, 10.0]), cv=3, epsilon=0.0),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_the_choice_does_not_depend_on_the_units_of_the_response(name):
    """``k y`` has the losses of ``y`` times ``k²`` or ``k``: equal losses are equal relative to their size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=60)
    plain = SEARCHES[name](1.0).fit(X, y)
    for k in (1e-8, 1e6):
        model = SEARCHES[name](k).fit(X, k * y)
        assert model.C_ == pytest.approx(plain.C_ if "ridge" in name else k * plain.C_)
        assert model.best_rates_ == plain.best_rates_
        np.testing.assert_allclose(model.coef_ / k, plain.coef_, rtol=1e-4)
        np.testing.assert_array_equal(model.cv_results_["rank_test_score"], plain.cv_results_["rank_test_score"])
        assert k > 1 or f"{model.selection_.chosen.loss:.4g} ±" in str(model.selection_)


@pytest.mark.parametrize("size", [1e-20, -1.0, 1e20])
def test_scores_that_differ_by_rounding_errors_are_equal(size):
    X, y = noisy()
    scores = iter(size * (1 + np.random.default_rng(0).uniform(-1e-13, 1e-13, size=100)))
    model = bd.DropoutSVCCV([0.3, 0.0], Cs=(0.1, 1.0), cv=2, scoring=lambda *_: next(scores)).fit(X, y)
    assert (model.best_index_, model.best_rates_, model.C_) == (0, 0.3, 0.1)
    assert model.cv_results_["rank_test_score"].tolist() == [1] * 4


def test_the_choice_for_a_constant_is_the_smallest_C():
    """All candidates fit it exactly, up to rounding errors, which are no losses."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    for constant in (3.3, 3.3e9, 3.3e-9):
        model = bd.DropoutRidgeCV([0.5, 0.0], Cs=(0.1, 1.0)).fit(X, np.full(40, constant))
        assert (model.C_, model.best_rates_) == (0.1, 0.5)
        assert all(one.loss == 0 for one in model.selection_.candidates)
