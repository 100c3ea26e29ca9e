"""Rows to predict that lose entries: what an estimator that is told so fits, scores and predicts."""

import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.sparse import csr_array
from scipy.special import log_softmax
from sklearn.datasets import load_iris
from sklearn.utils import get_tags

import bayesdrop as bd
from bayesdrop.fitting.tuning.scores import RowLosses
from bayesdrop.losses.softmax import expected_log_softmax, gaussian, log_sum_exp
from bayesdrop.rates.learnt import ExpectedDeletion

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4)) + [0.0, 5.0, 0.0, -1.0]
Y = (X[:, 0] + X[:, 1] - 5 + RNG.normal(size=90) > 0).astype(int)
HOLES = np.where(RNG.random(X.shape) < 0.3, np.nan, X)
FILLED = np.where(np.isnan(HOLES), X.mean(axis=0), HOLES)
NUMBERS = X.sum(axis=1) + RNG.normal(size=90)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
RATES = np.array([0.3, 0.1, 0.0, 0.6])
PLAIN = [bd.DropoutLogisticRegression, bd.DropoutSVC]
SEARCHING = [bd.DropoutLogisticRegressionCV, bd.DropoutSVCCV]
OF_NUMBERS = [bd.DropoutRidge, bd.DropoutSVR, bd.DropoutQuantileRegressor]
OF_NUMBERS_SEARCHING = [bd.DropoutRidgeCV, bd.DropoutSVRCV]


def named(rows):
    return pd.DataFrame(rows, columns=["a", "b", "c", "d"])


@pytest.mark.parametrize("labels", [Y, THREE])
@pytest.mark.parametrize("kind", PLAIN)
def test_the_fit_is_that_of_fixed_rates_on_rows_that_arrive_noised(kind, labels):
    own = {"expectation": "gaussian"} if kind is bd.DropoutLogisticRegression else {}
    told = kind(expected_deletion=RATES, C=2.0).fit(X, labels)
    by_hand = kind(
        bd.Fixed(RATES), C=2.0, noise=bd.Dropout(centre="mean"), missing="nan", corrupted_inputs=True, **own
    ).fit(X, labels)
    np.testing.assert_allclose(told.coef_, by_hand.coef_, rtol=1e-10, atol=1e-12)
    assert np.array_equal(np.broadcast_to(RATES, told.rates_.shape), told.rates_)
    np.testing.assert_allclose(told.centre_, X.mean(axis=0))
    if kind is bd.DropoutLogisticRegression:
        np.testing.assert_allclose(told.predict_proba(HOLES), by_hand.predict_proba(HOLES), rtol=1e-9)
    assert told.selection_.chosen.C == told.C_ == 2.0


@pytest.mark.parametrize("kind", OF_NUMBERS)
def test_a_regression_is_that_of_fixed_rates_on_rows_that_arrive_noised(kind):
    told = kind(expected_deletion=dict(zip("abd", [0.3, 0.1, 0.6], strict=True)), C=2.0).fit(named(X), NUMBERS)
    by_hand = kind(bd.Fixed(RATES), C=2.0, noise=bd.Dropout(centre="mean"), missing="nan", corrupted_inputs=True).fit(
        X, NUMBERS
    )
    np.testing.assert_allclose(told.coef_, by_hand.coef_, rtol=1e-10, atol=1e-12)
    assert np.array_equal(told.rates_, RATES)
    np.testing.assert_allclose(told.predict(named(HOLES)), FILLED @ told.coef_ + told.intercept_)
    assert get_tags(told).input_tags.allow_nan


@pytest.mark.parametrize("cv", ["loo", "folds"])
def test_the_stated_score_of_a_regression_is_that_of_rows_that_lose_entries(cv):
    """The squared loss of each row by a fit without it, and the variance of its score under deletion."""
    number = 90 if cv == "loo" else 3
    folds = [
        (np.flatnonzero(np.arange(90) % number != k), np.flatnonzero(np.arange(90) % number == k))
        for k in range(number)
    ]
    search = bd.DropoutRidgeCV(expected_deletion=RATES, Cs=(0.3,), cv="loo" if cv == "loo" else folds).fit(X, NUMBERS)
    centre, losses = X.mean(axis=0), []
    for train, test in folds:
        model = bd.DropoutRidge(bd.Fixed(RATES), C=0.3, noise=bd.Dropout(centre=centre), corrupted_inputs=True)
        w, rows = model.fit(X[train], NUMBERS[train]).coef_, X[test] - centre
        mean = rows @ ((1 - RATES) * w) + centre @ w + model.intercept_
        var = rows**2 @ (RATES * (1 - RATES) * w**2)
        losses.append(0.5 * np.mean((NUMBERS[test] - mean) ** 2 + var))
    # What leaving one row out does to a variance is approximate: of order 1/n² of the loss.
    assert -search.best_score_ == pytest.approx(np.mean(losses), rel=1e-6 if cv == "folds" else 4 / 90**2)


def test_an_epsilon_insensitive_search_chooses_C_for_rows_that_lose_entries():
    model = bd.DropoutSVRCV(expected_deletion=0.5, cv=3).fit(X, NUMBERS)
    assert len({one.C for one in model.selection_.candidates}) > 1
    assert np.all(model.rates_ == 0.5)
    np.testing.assert_allclose(model.predict(HOLES), FILLED @ model.coef_ + model.intercept_)


@pytest.mark.parametrize("labels", [Y, THREE])
@pytest.mark.parametrize("kind", PLAIN)
def test_an_entry_that_is_lost_is_the_mean_of_its_column(kind, labels):
    model = kind(expected_deletion=0.3).fit(X, labels)
    np.testing.assert_allclose(model.decision_function(HOLES), model.decision_function(FILLED), atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(HOLES), model.predict_proba(FILLED), atol=1e-12)
    assert get_tags(model).input_tags.allow_nan


def test_scores_of_noised_rows_take_missing_entries_for_the_centre_as_probabilities_do():
    noise = bd.Dropout(centre="mean")
    model = bd.DropoutSVC(0.3, noise=noise, missing="nan", corrupted_inputs=True).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(HOLES), model.decision_function(FILLED), atol=1e-12)
    ridge = bd.DropoutRidge(0.3, noise=noise, missing="nan", corrupted_inputs=True).fit(X, NUMBERS)
    np.testing.assert_allclose(ridge.predict(HOLES), ridge.predict(FILLED), atol=1e-12)


def test_zeros_are_lost_entries_for_inputs_that_arrive_corrupted():
    told = bd.DropoutLogisticRegression(expected_deletion=0.3, corrupted_inputs=True).fit(X, Y)
    assert told.centre_ is None
    lost = np.nan_to_num(HOLES)
    np.testing.assert_allclose(told.decision_function(lost), lost @ told.coef_[0] + told.intercept_[0])
    np.testing.assert_allclose(told.predict_proba(HOLES), told.predict_proba(lost))


def test_rates_by_name_and_by_position_are_equal():
    by_name = bd.DropoutLogisticRegression(expected_deletion={"d": 0.6, "a": 0.3, "b": 0.1}).fit(named(X), Y)
    by_place = bd.DropoutLogisticRegression(expected_deletion=RATES).fit(named(X), Y)
    assert np.array_equal(by_name.rates_, RATES)
    assert np.array_equal(by_name.coef_, by_place.coef_)
    searched = bd.DropoutSVCCV(expected_deletion={"a": 0.3}, Cs=(1.0,)).fit(named(X), Y)
    assert np.array_equal(searched.rates_, [0.3, 0, 0, 0])
    sparse, dense = (
        bd.DropoutLogisticRegression(expected_deletion=RATES).fit(kind(X), Y) for kind in (csr_array, np.array)
    )
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-6)


def expected_loss(mean, var):
    """Mean logistic loss of a normal margin, by quadrature of another kind."""

    def at(z, m, s):
        return np.logaddexp(0, -(m + s * z)) * stats.norm.pdf(z)

    return np.array([integrate.quad(at, -9, 9, args=(m, np.sqrt(v)))[0] for m, v in zip(mean, var, strict=True)])


def test_noised_rows_are_scored_by_the_mean_of_their_losses():
    mean, var = RNG.normal(scale=2, size=(20, 1)), RNG.gamma(1.0, size=(20, 1))
    target = np.where(RNG.random((20, 1)) < 0.5, 1.0, -1.0)
    losses = RowLosses(bd.Logistic(), target, np.ones(20)).of_noised(np.arange(20), mean, var, 1.0)
    np.testing.assert_allclose(losses, expected_loss((target * mean)[:, 0], var[:, 0]), atol=2e-4)
    # Several classes one against the rest, without noise, and of a joint fit.
    many, one = RNG.normal(size=(20, 3)), np.where(np.eye(3)[RNG.integers(0, 3, 20)] > 0, 1.0, -1.0)
    rows = RowLosses(bd.Logistic(), one, np.ones(20))
    plain = rows(np.arange(20), many, 0 * many, 1.0)
    np.testing.assert_allclose(rows.of_noised(np.arange(20), many, 0 * many, 1.0), plain, rtol=1e-12)
    root = RNG.normal(size=(20, 3, 3))
    cov = root @ np.swapaxes(root, 1, 2)
    level = gaussian(many, cov)[0] + log_sum_exp(many)[0]
    np.testing.assert_allclose(expected_log_softmax(many, cov), many - level[:, None], rtol=1e-12)
    np.testing.assert_allclose(expected_log_softmax(many, 0 * cov), log_softmax(many, axis=1), atol=1e-6)


def test_C_is_chosen_for_rows_that_lose_entries():
    model = bd.DropoutLogisticRegression(expected_deletion=0.5).fit(X, Y)
    tried = {one.C for one in model.selection_.candidates}
    assert len(tried) > 1
    assert model.C_ == model.selection_.chosen.C
    assert bd.DropoutLogisticRegression(expected_deletion=0.5, C=3.0).fit(X, Y).C_ == 3.0
    searched = bd.DropoutLogisticRegressionCV(expected_deletion=0.5).fit(X, Y)
    np.testing.assert_allclose(searched.coef_, model.coef_)
    assert "fixed rates of 0.5" in str(model.selection_)


def test_probabilities_of_a_hinge_are_calibrated_on_rows_that_lose_entries():
    model = bd.DropoutSVC(expected_deletion=0.5, C=1.0).fit(X, Y)
    whole = bd.DropoutSVC(ExpectedDeletion(bd.Fixed(0.5)), C=1.0, noise=bd.Dropout(centre="mean")).fit(X, Y)
    assert model.calibration_.corrupted_inputs
    assert not whole.calibration_.corrupted_inputs
    # Complete rows are told apart better than those that lose entries, by the same weights.
    np.testing.assert_allclose(model.coef_, whole.coef_)
    assert model.calibration_.slope < whole.calibration_.slope


@pytest.mark.parametrize("kind", PLAIN + SEARCHING + OF_NUMBERS + OF_NUMBERS_SEARCHING)
def test_what_contradicts_the_deletion_is_refused(kind):
    rates = [0.3] if "CV" in kind.__name__ else 0.3
    for options, message in (
        ({"expected_deletion": 1.0}, r"expected_deletion: expected dropout rates in \[0, 1\), got 1.0"),
        ({"expected_deletion": {"a": -0.1}}, "expected_deletion: expected dropout rates"),
        ({"expected_deletion": "often"}, "expected_deletion: expected a number"),
        ({"expected_deletion": {"z": 0.1}}, r"expected names of columns, got also \['z'\]"),
        ({"expected_deletion": 0.3, "rates": rates}, "rates.*expected None.*expected_deletion"),
        ({"expected_deletion": 0.3, "noise": bd.GaussianNoise(1.0)}, r"noise: expected bd.Dropout\(\)"),
        ({"expected_deletion": 0.3, "noise": bd.Dropout(unbiased=True)}, r"noise: expected bd.Dropout\(\)"),
    ):
        with pytest.raises(ValueError, match=message):
            kind(**options).fit(named(X), Y)


@pytest.mark.parametrize("kind", SEARCHING + OF_NUMBERS_SEARCHING)
def test_a_score_of_the_users_is_refused(kind):
    with pytest.raises(ValueError, match="scoring.*expected None next to expected_deletion"):
        kind(expected_deletion=0.3, scoring="accuracy").fit(X, Y)


@pytest.mark.slow
def test_rows_that_are_elsewhere_are_fitted_at_the_given_C():
    rows, labels = da.from_array(X, chunks=(45, 4)), da.from_array(Y, chunks=45)
    with pytest.warns(bd.SelectionWarning, match="C was not chosen"):
        model = bd.DropoutLogisticRegression(expected_deletion=0.3).fit(rows, labels)
    assert model.selection_ is None
    assert np.all(model.rates_ == 0.3)


def test_missing_entries_that_the_fit_has_not_seen_name_the_deletion():
    for kind in PLAIN:
        with pytest.raises(ValueError, match="X contains NaN.\nIf new rows lose entries, .*expected_deletion="):
            kind(0.3).fit(X, Y).predict(HOLES)
    few = X.copy()
    few[0, 0] = np.nan
    with pytest.warns(bd.MissingWarning, match=r"3\d % of the entries are missing.*expected_deletion=0.3"):
        bd.DropoutLogisticRegression(0.3, missing="nan").fit(X, Y).predict(HOLES)
    with pytest.warns(bd.MissingWarning, match=r"rates=0.3.*corrupted_inputs=True"):
        bd.DropoutPoissonRegressor(missing="nan").fit(X, Y).predict(HOLES)
    with pytest.warns(bd.MissingWarning, match="expected_deletion"):
        bd.DropoutLogisticRegressionCV([0.3], Cs=(1.0,), missing="nan").fit(X, Y).predict(HOLES)
    with warnings.catch_warnings():
        warnings.simplefilter("error", bd.MissingWarning)
        bd.DropoutLogisticRegression(0.3, missing="nan").fit(X, Y).predict(few)
        bd.DropoutLogisticRegression(0.3, missing="nan").fit(HOLES, Y).predict(HOLES)
        bd.DropoutLogisticRegression(0.3, missing="nan", corrupted_inputs=True).fit(X, Y).predict(HOLES)
        bd.DropoutLogisticRegression(expected_deletion=0.3).fit(X, Y).predict(HOLES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning")
def test_a_posterior_has_the_deletion_for_its_rates():
    rows, labels = load_iris(return_X_y=True)
    model = bd.DropoutLogisticRegression(expected_deletion=0.3)
    post = model.sample(rows[:100], labels[:100], draws=5, tune=5, chains=2, progress=False)
    assert "rate" not in bd.groups.dataset(post, "posterior")
    assert np.all(bd.groups.dataset(post, "constant_data")["fixed_rate"].values == 0.3)


def test_blocks_of_rows_are_fitted_about_zero_at_the_rates_of_the_deletion():
    model = bd.DropoutLogisticRegression(expected_deletion=RATES).partial_fit(X, Y, classes=[0, 1])
    assert model.centre_ is None
    assert np.array_equal(model.rates_, RATES)
    np.testing.assert_allclose(model.predict_proba(HOLES), model.predict_proba(np.nan_to_num(HOLES)))
