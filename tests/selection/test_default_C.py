"""Without a ``C`` the classifier chooses it together with the strength of the noise, "nothing" among the candidates."""

import numpy as np

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
