"""Average marginal effects and their intervals against closed forms; tests/laws has every loss, noise and input."""

import numpy as np
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
