"""Missing entries in fits: every mask written out, counts by hand, and the same rows with the centres filled in."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

import bayesdrop as bd
from bayesdrop.designs import as_design, with_missing

NAN, GONE = np.nan, {"missing": "nan"}
# Noise about zero where columns are far from it is what some of the tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::bayesdrop.UnscaledWarning")
ZERO, MEAN = bd.Dropout(centre=None), bd.Dropout(centre="mean")
RARE = np.random.default_rng(9).random(60) < 0.2


@pytest.fixture(scope="module")
def holes(far):
    """Rows with a quarter of the entries missing, one row without any, and labels."""
    X, y = far
    rng = np.random.default_rng(8)
    left = np.where(rng.random(X.shape) < 0.25, NAN, X)
    left[7] = NAN
    left[11] = X[11]
    return left, y


def filled(X, centre):
    return np.where(np.isnan(X), centre, X)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [ZERO, bd.Dropout(unbiased=True, centre="mean")])
def test_ridge_with_every_mask_written_out(holes, noise):
    """The expected squared error over the masks of what is there, those of what is missing being zero."""
    X, y = holes
    rate, target = np.array([0.3, 0.5, 0.1]), y + 0.1 * np.arange(len(y))
    model = bd.DropoutRidge(rate, C=0.7, noise=noise, **GONE).fit(X, target)
    centre = np.zeros(3) if model.centre_ is None else model.centre_
    np.testing.assert_allclose(centre, np.zeros(3) if noise is ZERO else np.nanmean(X, axis=0), rtol=1e-12)
    keep = 1 / (1 - rate) if noise.unbiased else np.ones(3)
    masks = list(map(np.array, itertools.product((0.0, 1.0), repeat=3)))

    def energy(parameters):
        weight, intercept = parameters[:3], parameters[3]
        total = 0.5 * weight @ weight
        for row, value in zip(X, target, strict=True):
            there = ~np.isnan(row)
            for mask in masks:
                if np.any(mask[~there]):
                    continue
                chance = np.prod(np.where(mask == 1, 1 - rate, rate)[there])
                seen = centre + np.where(mask == 1, keep * (np.where(there, row, 0.0) - centre), 0.0)
                total += 0.35 * chance * (value - seen @ weight - intercept) ** 2
        return total

    best = minimize(energy, np.append(model.coef_, model.intercept_) + 0.01, tol=1e-12)
    assert energy(np.append(model.coef_, model.intercept_)) <= best.fun * (1 + 1e-9)
    np.testing.assert_allclose(best.x[:3], model.coef_, atol=2e-4)


@pytest.mark.parametrize("noise", [MEAN, bd.Dropout()])
def test_learnt_rates_count_what_is_there(holes, noise):
    X, y = holes
    weight = np.linspace(0.5, 2.0, len(y))
    fit = bd.fit(bd.Model(noise=noise, **GONE), X, y, sample_weight=weight)
    sign, n, against = np.where(y == 1, 1, -1), np.zeros(3), np.zeros(3)
    mean = [np.average(X[~np.isnan(X[:, d]), d], weights=weight[~np.isnan(X[:, d])]) for d in range(3)]
    np.testing.assert_allclose(fit.centre, mean, rtol=1e-12)
    for i in range(len(y)):
        for d in range(3):
            if not np.isnan(X[i, d]):
                n[d] += weight[i]
                against[d] += weight[i] * (sign[i] * fit.weight[d] * (X[i, d] - mean[d]) < 0)
    np.testing.assert_allclose(fit.rate_posterior.occurrences, n, rtol=1e-12)
    np.testing.assert_allclose(fit.rates, against / n, rtol=1e-12)
    np.testing.assert_allclose(fit.rate_posterior.law.a, 1 + against, rtol=1e-12)


ALL = {
    "logistic": lambda **options: bd.DropoutLogisticRegression(**options),
    "softmax": lambda **options: bd.DropoutLogisticRegression(**options),
    "hinge": lambda **options: bd.DropoutSVC(bd.PerFeature(), **options),
    "tube": lambda **options: bd.DropoutSVR(0.2, **options),
    "quantile": lambda **options: bd.DropoutQuantileRegressor(0.2, **options),
    "poisson": lambda **options: bd.DropoutPoissonRegressor(bd.PerFeature(), **options),
    "chosen": lambda **options: bd.DropoutLogisticRegressionCV(**options),
    "chosen ridge": lambda **options: bd.DropoutRidgeCV([0.3, 0.0], **options),
}


@pytest.mark.parametrize("kind", ALL)
def test_the_fit_of_the_same_rows_with_the_centres(holes, kind):
    X, y = holes
    target = np.arange(len(y)) % 3 if kind == "softmax" else y
    mean = np.nanmean(X, axis=0)
    one = ALL[kind](**GONE).fit(X, target)
    two = ALL[kind](noise=bd.Dropout(centre=mean)).fit(filled(X, mean), target)
    np.testing.assert_allclose(one.centre_, mean, rtol=1e-12)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(one.rates_, two.rates_, atol=1e-12)
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(one, method):
            expected = getattr(two, method)(filled(X, mean))
            np.testing.assert_allclose(getattr(one, method)(X), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("noise", [ZERO, bd.Dropout(unbiased=True), bd.Dropout()])
def test_probabilities_with_every_mask_written_out(holes, noise):
    X, y = holes
    model = bd.DropoutLogisticRegression(np.array([0.3, 0.6, 0.1]), noise=noise, **GONE).fit(X, y)
    centre, rate = np.zeros(3) if model.centre_ is None else model.centre_, model.rates_
    weight, intercept = model.coef_[0], model.intercept_[0]
    keep = 1 / (1 - rate) if noise.unbiased else np.ones(3)
    expected = np.zeros(len(X))
    for i, row in enumerate(X):
        there = np.flatnonzero(~np.isnan(row))
        for number in range(2 ** len(there)):
            seen, chance = centre.copy(), 1.0
            for k, d in enumerate(there):
                kept = number >> k & 1
                chance *= 1 - rate[d] if kept else rate[d]
                seen[d] += kept * keep[d] * (row[d] - centre[d])
            expected[i] += chance * expit(weight @ seen + intercept)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, atol=1e-10)
    assert np.isclose(model.predict_proba(X)[7, 1], expit(weight @ centre + intercept))
    fit = bd.fit(bd.Model(noise=noise, rates=bd.Fixed(rate), **GONE), X, y)
    np.testing.assert_allclose(fit.predict(X).mean, expected, atol=1e-6)


def test_what_is_missing_is_at_the_centre(holes):
    X, _ = holes
    X = np.column_stack([X, np.full(len(X), NAN)])
    for rows in (X, sparse.csr_array(X), sparse.csc_matrix(X)):
        design = as_design(with_missing(rows))
        some = design[np.arange(len(X)) % 2 == 0]
        np.testing.assert_allclose(some.missing_share(), np.isnan(X[::2]).mean(axis=0))
        np.testing.assert_array_equal(as_dense(design.matrix()), np.nan_to_num(X))
        # Far from the means, for whole numbers and where columns are hardly filled.
        for centre in (np.arange(4.0), np.array([0.3, 0.0, -1e3, 7.1])):
            expected = np.nan_to_num(X - centre)
            np.testing.assert_array_equal(as_dense(design.shifted(centre).matrix()), expected)
            np.testing.assert_allclose(design.shifted(centre).matvec(np.ones(4)), expected.sum(axis=1), rtol=1e-12)


def as_dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def test_storages_agree(holes):
    X, y = holes
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    rows = {
        "float32": X.astype(np.float32),
        "frame": frame,
        "nullable": frame.astype("Float64"),
        "objects of pandas": frame.astype(object).mask(frame.isna(), pandas.NA),
        "arrow": frame.astype("float64[pyarrow]") if pytest.importorskip("pyarrow") else frame,
        "polars": polars.DataFrame({name: [None if np.isnan(v) else v for v in frame[name]] for name in frame}),
        "objects": np.where(np.isnan(X), None, X.astype(object)),
    }
    expected = bd.DropoutSVC(0.2, **GONE).fit(X, y)
    for name, given in rows.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = bd.DropoutSVC(0.2, **GONE).fit(given, y)
        atol = 1e-4 if name == "float32" else 1e-12
        np.testing.assert_allclose(found.coef_, expected.coef_, atol=atol, err_msg=name)
        scores = found.decision_function(given)
        np.testing.assert_allclose(scores, expected.decision_function(X), atol=100 * atol, err_msg=name)
    whole = frame.round().astype("Int64")
    np.testing.assert_allclose(
        bd.DropoutSVC(0.2, **GONE).fit(whole, y).coef_, bd.DropoutSVC(0.2, **GONE).fit(np.round(X), y).coef_
    )


@pytest.mark.parametrize("noise", [ZERO, MEAN, bd.Dropout()])
def test_sparse_rows_with_stored_nan(holes, noise):
    X, y = holes
    X = np.column_stack([X, np.where(RARE, 1.0 + X[:, 2], 0.0)])
    rows = sparse.csr_array(X)
    for kind, rates in ((bd.DropoutSVC, 0.2), (bd.DropoutLogisticRegression, bd.PerFeature())):
        one, two = (kind(rates, noise=noise, **GONE).fit(given, y) for given in (rows, X))
        assert np.isnan(rows.data).sum() == np.isnan(X).sum()  # the caller's matrix stays as it is
        for name in ("coef_", "intercept_", "rates_", "centre_"):
            if getattr(two, name) is not None:
                np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-8, atol=1e-10)
        for model in (one, two):
            for given in (rows, rows.tocsc(), X):
                np.testing.assert_allclose(model.decision_function(given), two.decision_function(X), rtol=1e-8)
                np.testing.assert_allclose(model.predict_proba(given), two.predict_proba(X), rtol=1e-8)


def test_rows_without_labels_and_rows_one_block_at_a_time(holes):
    X, y = holes
    mean = np.nanmean(X[:40], axis=0)
    about = {"noise": bd.Dropout(centre=mean)}
    # The default C follows the variances of the columns, which filling lowers.
    fixed = {"rates": 0.2, "C": 1.0}
    one = bd.DropoutLogisticRegression(**fixed, **GONE).fit(X[:40], y[:40], unlabelled=X[40:])
    two = bd.DropoutLogisticRegression(**fixed, **about)
    two.fit(filled(X[:40], mean), y[:40], unlabelled=filled(X[40:], mean))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-6)
    for kind in (bd.DropoutSVC, bd.DropoutSVR):
        one, two = kind(0.2, **about, **GONE), kind(0.2, **about)
        classes = {"classes": [0, 1]} if kind is bd.DropoutSVC else {}
        for rows in (slice(0, 30), slice(30, 60)):
            one.partial_fit(X[rows], y[rows], **classes)
            two.partial_fit(filled(X, mean)[rows], y[rows], **classes)
        np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-9)


def test_a_column_without_entries_has_no_say(holes):
    X, y = holes
    X = X.copy()
    X[:, 2] = NAN
    for fit in (bd.DropoutSVC(bd.PerFeature(), **GONE).fit, lambda X, y: bd.fit(bd.Model(**GONE), X, y)):
        with pytest.warns(bd.MissingWarning, match="every entry of 'x2' is missing"):
            found = fit(X, y)
        weight = np.ravel(getattr(found, "coef_", getattr(found, "weight", None)))
        assert weight[2] == 0
    assert found.rate_posterior.never_seen == ["x2"]
    new = X.copy()
    new[:, 2] = 100.0
    np.testing.assert_allclose(found.predict(new).mean, found.predict(X).mean)


def test_tables_of_weights_and_effects(holes):
    X, y = holes
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.2), **GONE), X, y)
    other = bd.fit(bd.Model(noise=bd.Dropout(centre=fit.centre), rates=bd.Fixed(0.2)), filled(X, fit.centre), y)
    one, two = bd.weights_table(fit), bd.weights_table(other)
    np.testing.assert_allclose(*(table.select_dtypes("number") for table in (one, two)), rtol=1e-5)
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.0), **GONE), X, y)
    means = np.nanmean(X, axis=0)
    other = bd.fit(bd.Model(rates=bd.Fixed(0.0)), filled(X, means), y)
    one, two = bd.weights_table(fit), bd.weights_table(other)
    np.testing.assert_allclose(one.to_numpy(float), two.to_numpy(float), rtol=1e-5)
    np.testing.assert_allclose(fit.predict(X).mean, other.predict(filled(X, means)).mean, rtol=1e-6)
    model = bd.DropoutLogisticRegression(0.2, class_weight="balanced", **GONE).fit(X, y)
    assert len(bd.weights_table(model)) == 3
    assert np.isfinite(bd.marginal_effects(fit, X)["effect"]).all()
    assert len(bd.marginal_effects(fit, X[[11]])) == 3
