"""Average marginal effects and their intervals against closed forms; tests/laws has every loss, noise and input."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import bayesdrop as bd


def slope(score):
    return expit(score) * expit(-score)


def test_without_noise_the_mean_slope(data):
    """And its gradient in the weights, in closed form, for the delta method."""
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), data.X, data.Y)
    table = bd.marginal_effects(fit, data.X, probability=0.8)
    score = data.X @ fit.weight + fit.intercept
    np.testing.assert_allclose(table["effect"], slope(score).mean() * fit.weight, rtol=1e-6)
    M = np.column_stack([data.X, np.ones(50)])
    gradient = np.outer(fit.weight, (slope(score) * (1 - 2 * expit(score))) @ M / 50)
    gradient[:, :3] += slope(score).mean() * np.eye(3)
    covariance = fit.covariance
    np.testing.assert_allclose(table["sd"], np.sqrt(np.diagonal(gradient @ covariance @ gradient.T)), rtol=1e-5)
    np.testing.assert_allclose(table["high"] - table["low"], 2 * 1.2815515655446004 * table["sd"])
    assert table.attrs["interval"].startswith("delta method")


def test_effects_of_draws_have_monte_carlo_errors(data, post):
    """Of a hundred draws, few of them alike; a request for more draws than there are takes all."""
    table = bd.marginal_effects(post, data.X)
    np.testing.assert_allclose(table["mcse"], table["sd"] / 10, rtol=0.5)
    assert bd.marginal_effects(post, data.X, draws=2)["mcse"].isna().all()
    few = bd.marginal_effects(post, data.X, draws=10**6, features=["x2"])
    np.testing.assert_allclose(few["effect"], table["effect"].iloc[2], rtol=1e-12)


def test_weights_of_rows_and_what_is_refused(data, post):
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.2)), data.X, data.Y)
    weight = np.zeros(50)
    weight[:20] = 2.0
    some, few = bd.marginal_effects(fit, data.X, average_weight=weight), bd.marginal_effects(fit, data.X[:20])
    np.testing.assert_allclose(some["effect"], few["effect"], rtol=1e-6)  # the steps are those of other columns
    with pytest.raises(ValueError, match="features: expected a list of different names"):
        bd.marginal_effects(fit, data.X, features=["age"])
    with pytest.raises(ValueError, match="average_weight: expected finite numbers >= 0"):
        bd.marginal_effects(fit, data.X, average_weight=-weight)


@pytest.mark.parametrize("values", [np.full(50, 0.1), np.full(50, 1e5), 1e6 + np.arange(50) % 2, np.zeros(50)])
def test_a_column_that_is_nearly_constant_has_the_slope_of_any_other(data, values):
    """The standard deviation of fifty times 0.1 is 1.4e-17: a step in its size is lost to rounding."""
    fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), data.X, data.NUMBERS)
    X = np.column_stack([values, data.X[:, 1:]])
    np.testing.assert_allclose(bd.marginal_effects(fit, X)["effect"], fit.weight, rtol=1e-3)
    frame = pd.DataFrame(data.X, columns=list("abc")).assign(y=data.NUMBERS)
    fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), "y ~ a + b", frame)
    effect = bd.marginal_effects(fit, frame.assign(a=values))["effect"]
    np.testing.assert_allclose(effect, fit.weight, rtol=1e-3)


def own_slope(estimator, X):
    """Slope of the estimator's own predictions in the first column."""
    step = np.array([1e-4, 0.0, 0.0])
    ask = (lambda X: estimator.predict_proba(X)[:, 1]) if hasattr(estimator, "classes_") else estimator.predict
    return (ask(X + step) - ask(X - step)).mean() / 2e-4


@pytest.mark.parametrize(
    "estimator",
    [
        bd.DropoutRidge(expected_deletion=0.4),
        bd.DropoutRidgeCV(expected_deletion=0.4, Cs=(1.0,)),
        bd.DropoutLogisticRegressionCV([0.5], corrupted_inputs=True, Cs=(1.0,)),
        bd.DropoutSVC(),
        bd.DropoutSVC(expected_deletion=0.3),
        bd.DropoutSVCCV(),
    ],
    ids=str,
)
def test_effects_of_an_estimator_are_those_of_its_predictions(data, estimator):
    """Of a search those of what it chose, and of a support vector machine those of calibrated probabilities."""
    y = data.NUMBERS if "Ridge" in type(estimator).__name__ else data.Y
    estimator.fit(data.X, y)
    effect = bd.marginal_effects(estimator, data.X, features="x0")["effect"]
    np.testing.assert_allclose(effect, own_slope(estimator, data.X), rtol=1e-3)
    if hasattr(estimator, "classes_"):
        grid = bd.predictions_grid(estimator, data.X, {"x0": [1.0]})["prediction"]
        at = estimator.predict_proba(np.column_stack([np.ones(50), data.X[:, 1:]]))[:, 1].mean()
        np.testing.assert_allclose(grid, at, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-9, 1e9, 1e12])
def test_intervals_do_not_depend_on_the_unit_of_the_response(data, unit):
    fits = [bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), data.X, u * data.NUMBERS) for u in (1.0, unit)]
    for function, more in ((bd.marginal_effects, ()), (bd.predictions_grid, ({"x0": [0.0, 5.0]},))):
        plain, scaled = (function(fit, data.X, *more)[["sd", "low", "high"]] for fit in fits)
        np.testing.assert_allclose(scaled / unit, plain, rtol=1e-5, atol=1e-6)
