"""Without a ``C`` the classifier chooses it together with the strength of the noise, "nothing" among the candidates."""

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.fitting.tuning.search import candidate_Cs


def table(seed, spread, p=10):
    """Rows of a logistic model whose weights have the standard deviation ``spread``."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, p))
    return X, (X @ rng.normal(0, spread, p) + rng.logistic(size=200) > 0).astype(int)


def test_strong_weights_get_a_larger_C_than_none():
    strong, nothing = (bd.DropoutLogisticRegression().fit(*table(0, spread, 20)) for spread in (3.0, 0.0))
    assert strong.C_ > 1 > nothing.C_
    assert strong.C_ == strong.selection_.chosen.C
    again = bd.DropoutLogisticRegression(strong.selection_.chosen.rates, C=strong.C_).fit(*table(0, 3.0, 20))
    np.testing.assert_allclose(again.coef_, strong.coef_, rtol=1e-5)


def test_nothing_is_always_among_the_candidates():
    """A search that climbs need not come there step by step."""
    X, y = table(1, 2.0)
    tried = {one.C for one in bd.DropoutLogisticRegression().fit(X, y).selection_.candidates}
    assert candidate_Cs(1.0)[0] in tried


def test_given_rates_or_a_given_C_choose_nothing():
    X, y = table(2, 3.0)
    assert bd.DropoutLogisticRegression(0.1).fit(X, y).C_ == 1
    assert bd.DropoutLogisticRegression(C=0.5).fit(X, y).C_ == 0.5
    cv = bd.DropoutLogisticRegressionCV().fit(X, y)
    assert cv.C_ == bd.DropoutLogisticRegression().fit(X, y).C_


@pytest.mark.slow_cases("SVRCV")
@pytest.mark.parametrize("kind", [bd.DropoutRidgeCV, bd.DropoutSVRCV])
@pytest.mark.parametrize("rates", [None, [0.0, 0.2]])
@pytest.mark.parametrize("units", [(1e-5, 1.0), (1e5, 1.0), (1.0, 1e-5), (1e-5, 1e5)])
def test_a_search_of_a_regression_does_not_depend_on_units(kind, rates, units):
    """At a start of C = 1 a search over columns of size 1e-5 ended at the mean of the response."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(0, 0.5, 60)
    columns, response = units
    tube = {"epsilon": 0.1} if kind is bd.DropoutSVRCV else {}
    model = kind(rates, cv=3, **tube).fit(X, y)
    other = kind(rates, cv=3, **{name: value * response for name, value in tube.items()}).fit(columns * X, response * y)
    assert other.best_rates_ == model.best_rates_
    # Fits of a search are approximate, so that the next C may be chosen.
    assert 0.3 < other.C_ / model.C_ * columns**2 / response ** (kind is bd.DropoutSVRCV) < 3.2
    np.testing.assert_allclose(other.predict(columns * X), response * model.predict(X), rtol=0, atol=0.3 * response)


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_default_C_follows_columns_of_any_size(unit):
    X, y = table(4, 1.0)
    model, other = (bd.DropoutLogisticRegression(0.1).fit(rows, y) for rows in (X, unit * X))
    np.testing.assert_allclose(other.C_ * unit**2, model.C_)
    np.testing.assert_allclose(other.coef_ * unit, model.coef_, rtol=1e-6)
