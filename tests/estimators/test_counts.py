"""Estimators of counts: scikit-learn's manners, the expected count under the noise, and the explained deviance."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import d2_tweedie_score

import bayesdrop as bd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = RNG.poisson(np.exp(X @ [0.9, -0.5, 0.0] + 0.4))
RATES = np.array([0.1, 0.5, 0.7])


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        (lambda **options: bd.DropoutPoissonRegressor(**options), 1.0),
        (lambda **options: bd.DropoutPoissonRegressor(expectation="gaussian", **options), 1.0),
        (lambda **options: bd.DropoutNegativeBinomialRegressor(dispersion=2.5, **options), 2.5),
    ],
    ids=["poisson", "gaussian", "negative binomial"],
)
@pytest.mark.parametrize("centre", [None, (0.4, 0.0, -1.0)])
def test_predictions_average_over_all_masks(kind, factor, centre):
    model = kind(rates=RATES, noise=bd.Dropout(centre=centre)).fit(X, Y)
    masks = np.array(list(itertools.product((0, 1), repeat=3)))
    chance = np.prod(np.where(masks, 1 - RATES, RATES), axis=1)
    c = np.zeros(3) if centre is None else np.array(centre)
    score = (c + masks * (X[:, None] - c)) @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(X), factor * np.exp(score) @ chance, rtol=1e-10)
    assert np.corrcoef(model.predict(X), Y)[0, 1] > 0.5


def test_the_score_is_the_explained_deviance():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    assert bd.DropoutPoissonRegressor(0.2).fit(table, Y).score(table, Y) > 0  # without a warning about names
    weight = RNG.gamma(2.0, size=60)
    model = bd.DropoutPoissonRegressor(0.2).fit(X, Y)
    expected = d2_tweedie_score(Y, model.predict(X), sample_weight=weight, power=1)
    assert model.score(X, Y, weight) == pytest.approx(expected, rel=1e-12)
    many = bd.DropoutNegativeBinomialRegressor(0.2, dispersion=1e7, expectation="gaussian").fit(X, Y)
    near = d2_tweedie_score(Y, many.predict(X), sample_weight=weight, power=1)
    assert many.score(X, Y, weight) == pytest.approx(near, abs=1e-5)
