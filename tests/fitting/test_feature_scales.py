"""Features in other units: the same predictions, rates and status, from 1e-12 to 1e12, column by column."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design

RNG = np.random.default_rng(0)
N, P = 150, 5
X = RNG.normal(size=(N, P)) + np.array([0.0, 0.0, 3.0, 0.0, 8.0])
SCORE = (X - X.mean(axis=0)) @ RNG.normal(size=P)
SIGNS = (SCORE + RNG.logistic(size=N) > 0).astype(int)
NUMBERS = SCORE + RNG.normal(size=N)
RESPONSES = {
    "signs": SIGNS,
    "classes": np.digitize(SCORE + RNG.logistic(size=N), [-1.0, 1.0]),
    "numbers": NUMBERS,
    "counts": RNG.poisson(np.exp(0.3 * SCORE)),
}
LEARNT, FIXED, NONE = bd.PerFeature(bd.Beta(2, 2)), bd.Fixed(0.2), bd.Fixed(0.0)
CASES = [
    (bd.Logistic(), LEARNT, "signs"),
    (bd.Logistic(), NONE, "signs"),
    (bd.Logistic("taylor"), FIXED, "signs"),
    (bd.Hinge(), LEARNT, "signs"),
    (bd.Hinge(), NONE, "signs"),
    (bd.Hinge(expectation="gaussian"), FIXED, "signs"),
    (bd.Softmax(), LEARNT, "classes"),
    (bd.Softmax(), FIXED, "classes"),
    (bd.Squared(), FIXED, "numbers"),
    (bd.EpsilonInsensitive(0.1), FIXED, "numbers"),
    (bd.Quantile(0.3), FIXED, "numbers"),
    (bd.Poisson(), LEARNT, "counts"),
    (bd.Poisson(), FIXED, "counts"),
]
SCALES = [1e-12, 1e-9, 1e6, 1e9, 1e12, np.array([1e-12, 1e12, 1.0, 1e-6, 1e9])]


def scores(fit, scale):
    return X * scale @ np.atleast_2d(fit.weight).T + fit.intercept


@pytest.mark.parametrize(("loss", "rates", "kind"), CASES, ids=str)
def test_predictions_do_not_depend_on_the_units(loss, rates, kind):
    model = bd.Model(loss, rates=rates, weight_prior=bd.Normal(1.0, relative=True))
    # Steps of many classes converge linearly: at the default tolerance scores are known to 1e-4.
    method = bd.Newton(tol=1e-12) if kind == "classes" else None
    expected = bd.fit(model, X, RESPONSES[kind], method=method)
    for k, scale in enumerate(SCALES):
        storage = sparse.csr_array if k % 2 else np.asarray
        found = bd.fit(model, storage(X * scale), RESPONSES[kind], method=method)
        assert found.status is expected.status is type(expected.status).CONVERGED
        np.testing.assert_allclose(found.rates, expected.rates, rtol=1e-9)
        np.testing.assert_allclose(scores(found, scale), scores(expected, 1.0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("loss", [bd.Logistic(), bd.Hinge(), bd.Softmax(), bd.Squared()], ids=str)
def test_features_that_say_nothing_are_told_at_any_scale(loss, scale):
    """Every combination of signs with every label, so that the optimum is at weights of zero."""
    rows = scale * np.tile([[1.0, 3.0], [1.0, -3.0], [-1.0, 3.0], [-1.0, -3.0]], (2, 1))
    y = np.repeat([0, 1], 4)
    for prior in (bd.Normal(1.0), bd.Normal(1.0, relative=True)):
        fit = bd.fit(bd.Model(loss, rates=FIXED, weight_prior=prior), rows, y)
        assert fit.status.name == "ALL_ZERO"
        assert np.abs(fit.weight * scale).max() < 1e-9


def test_weights_that_are_small_beside_a_prior_are_zero():
    """Features so small that no weight the prior allows has a say: every prediction is that of the intercept."""
    small = bd.fit(bd.Model(rates=FIXED), X * 1e-13, SIGNS)
    assert small.status.name == "ALL_ZERO"
    assert np.ptp(small.predict(X * 1e-13).mean) < 1e-9
    assert bd.fit(bd.Model(rates=FIXED), X * 1e13, SIGNS).status.name == "CONVERGED"


def test_steps_by_exact_moments_do_not_depend_on_the_units():
    """The curvature of a Newton step is had by differences, whose steps are in the units of each column."""
    rows, y = X - X.mean(axis=0), RESPONSES["counts"]
    prior = bd.Normal(1.0, relative=True)
    for noise in (bd.Dropout(), bd.Dropout(unbiased=True), bd.MultiplicativeNoise(0.4)):
        model = bd.Model(bd.Poisson(), noise, FIXED if noise.has_rate else None, weight_prior=prior)
        first, *others = (bd.fit(model, rows * scale, y) for scale in (1.0, 1e-11, 1e11))
        for other in others:
            np.testing.assert_allclose(other.objective_trace, first.objective_trace, rtol=1e-7)


@pytest.mark.parametrize(
    ("loss", "kind"), [(bd.Logistic(), "signs"), (bd.Squared(), "numbers"), (bd.Softmax(), "classes")], ids=str
)
def test_covariances_of_weights_are_in_the_units_of_the_columns(loss, kind):
    model, y = bd.Model(loss, rates=NONE, weight_prior=bd.Normal(1.0, relative=True)), RESPONSES[kind]
    scale = np.array([1e-9, 1e9, 1.0, 1e-6, 1e6])
    classes = 3 if kind == "classes" else 1
    one, other = (bd.fit(model, rows, y).covariance for rows in (X, X * scale))
    unit = np.tile(np.append(scale, 1.0), classes)
    size = np.sqrt(np.outer(one.diagonal(), one.diagonal()))
    np.testing.assert_allclose(unit[:, None] * other * unit / size, one / size, atol=1e-5)


WORDS = (RNG.random((120, 60)) < 0.1) * RNG.poisson(0.5, (120, 60)).clip(1)
TOPIC = (WORDS[:, :30].sum(axis=1) > WORDS[:, 30:].sum(axis=1)).astype(int)


@pytest.mark.slow
def test_untouched_defaults_do_not_depend_on_the_units():
    """Columns multiplied by u: the chosen C divided by u², and the same scores."""
    for rows, y in ((X, SIGNS), (sparse.csr_array(WORDS.astype(float)), TOPIC)):
        first, *others = (bd.DropoutLogisticRegression().fit(rows * scale, y) for scale in (1.0, 1e-3, 1e2))
        for scale, other in zip((1e-3, 1e2), others, strict=True):
            assert other.C_ == pytest.approx(first.C_ * scale**-2, rel=1e-12)
            expected = first.decision_function(rows)
            np.testing.assert_allclose(other.decision_function(rows * scale), expected, rtol=1e-4, atol=1e-4)


def test_the_default_C_is_what_the_columns_ask_for():
    binary, counts = (WORDS > 0).astype(float), WORDS.astype(float)
    normed = counts / np.maximum(np.sqrt((counts**2).sum(axis=1, keepdims=True)), 1e-300)
    table = (X - X.mean(axis=0)) / X.std(axis=0)
    for rows, expected in ((binary, 1), (counts, 1), (table, 1), (X, 1), (normed, 10), (binary / 100, 1e4)):
        y = SIGNS if len(rows) == N else TOPIC
        assert bd.DropoutLogisticRegression(0.1).fit(rows, y).C_ == expected
        assert bd.DropoutLogisticRegression(0.1, C=1.0).fit(rows, y).C_ == 1
        assert bd.DropoutLogisticRegression(0.1, weight_prior=bd.Normal(2.0)).fit(rows, y).C_ == 1


def test_the_usual_square_by_its_definition_in_every_storage():
    weight = RNG.integers(1, 3, size=len(WORDS)).astype(float)
    rows = np.column_stack([WORDS * 0.3, np.zeros(len(WORDS)), RNG.normal(40.0, 2.0, len(WORDS))])
    squares = []
    for d, column in enumerate(np.repeat(rows, weight.astype(int), axis=0).T):
        if d == 61:  # never zero: its spread
            squares.append(np.var(column))
        elif np.any(column):
            squares.append(np.mean(column[column != 0] ** 2))
    for stored in (rows, sparse.csr_array(rows), bd.Blocks([rows[:50], rows[50:]])):
        summary = as_design(stored).column_summary(weight)
        assert summary.usual_square == pytest.approx(np.median(squares), rel=1e-12)


def test_settings_that_are_given_stay():
    small = sparse.csr_array(WORDS / 30)
    given = bd.DropoutLogisticRegression(0.3, C=2.0).fit(small, TOPIC)
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.3), C=2.0), small, TOPIC)
    np.testing.assert_array_equal(given.coef_[0], fit.weight)
    model = bd.DropoutLogisticRegression(0.3).partial_fit(small, TOPIC, classes=[0, 1])
    assert model.C_ == 1.0
    assert bd.DropoutLogisticRegression(0.3).fit(small, TOPIC).partial_fit(small, TOPIC).C_ == 1000.0


def test_the_search_begins_where_the_units_say():
    """Of small columns every weight is held back at C = 1, where no noise is best and no way leads on."""
    small = sparse.csr_array(WORDS / 30)
    unit = bd.DropoutLogisticRegressionCV().fit(small * 30, TOPIC)
    found = bd.DropoutLogisticRegressionCV().fit(small, TOPIC)
    assert 1000.0 in found.cv_results_["param_C"]
    assert found.best_score_ == pytest.approx(unit.best_score_, abs=0.02)


def test_a_prior_that_holds_small_columns_back_is_told():
    small = sparse.csr_array(WORDS / 30)
    with pytest.warns(bd.UnscaledWarning, match=r"entries are of size 0\.0\d+, as where rows have norm 1.*use C=1000"):
        bd.fit(bd.Model(rates=FIXED), small, TOPIC)
    for model in (bd.Model(rates=FIXED, C=1000.0), bd.Model(rates=FIXED, weight_prior=bd.Normal(30.0))):
        bd.fit(model, small, TOPIC)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("fit", ["fit", "sample"])
def test_columns_whose_squares_leave_double_precision_are_named(make, fit):
    """Their weights were 0, or their prior had the scale of another column, without a word."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.repeat([0, 1], 30)
    run = {"fit": bd.fit, "sample": partial(bd.sample, draws=2, tune=2, chains=1, progress=False)}[fit]
    for size in (1e155, 1e305):
        with pytest.raises(ValueError, match="columns whose squares double precision holds.*'x1'; divide"):
            run(bd.Model(rates=bd.Fixed(0.1)), make(X * [1, size]), y)
    relative = bd.Model(rates=bd.Fixed(0.1), weight_prior=bd.Normal(relative=True))
    for size in (1e-160, 1e-310):
        with pytest.raises(ValueError, match="columns whose squares double precision holds.*'x1'; divide"):
            run(relative, make(X * [1, size]), y)
    small, one = (bd.fit(relative, make(X * [1, size]), y).weight for size in (1e-130, 1))
    np.testing.assert_allclose(small * [1, 1e-130], one, rtol=1e-6)
