"""Binomial counts of rows with different numbers of trials: two columns, or both sides of a formula."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

import bayesdrop as bd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
TRIALS = RNG.integers(0, 9, 40)
SUCCESSES = RNG.binomial(TRIALS, 1 / (1 + np.exp(-X @ [1.0, -0.5])))
COUNTS = np.column_stack([SUCCESSES, TRIALS - SUCCESSES])
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "up": COUNTS[:, 0], "down": COUNTS[:, 1]})


def test_without_noise_it_is_logistic_regression_of_the_trials():
    fit = bd.fit(bd.Model(bd.Binomial(), rates=bd.Fixed(0.0)), X, COUNTS, method=bd.Newton(tol=1e-12))
    rows, labels = np.repeat(X, TRIALS, axis=0), np.concatenate([[1] * s + [0] * f for s, f in COUNTS])
    peer = LogisticRegression(tol=1e-10, max_iter=1000).fit(rows, labels)
    np.testing.assert_allclose(fit.weight, peer.coef_[0], rtol=1e-4)
    table = bd.weights_table(fit)
    other = bd.fit(bd.Model(rates=bd.Fixed(0.0)), rows, labels, method=bd.Newton(tol=1e-12))
    np.testing.assert_allclose(table["sd"], bd.weights_table(other)["sd"], rtol=1e-4)
    np.testing.assert_allclose(fit.predict(X).mean, peer.predict_proba(X)[:, 1], atol=1e-4)


@pytest.mark.parametrize("rates", [bd.Fixed(0.3), bd.PerFeature()])
def test_of_equal_numbers_of_trials_it_is_the_loss_of_so_many(rates):
    counts = RNG.binomial(12, 0.4, 40)
    pairs = np.column_stack([counts, 12 - counts])
    one, other = (
        bd.fit(bd.Model(loss, rates=rates), X, y, method=bd.Newton(tol=1e-12))
        for loss, y in ((bd.Binomial(12), counts), (bd.Binomial(), pairs))
    )
    np.testing.assert_allclose(one.weight, other.weight, atol=1e-9)
    np.testing.assert_allclose(one.rates, other.rates, atol=1e-12)


def _variable(post, name, group="posterior"):
    return bd.groups.dataset(post, group)[name].values


SHORT = {"draws": 40, "tune": 20, "chains": 2, "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning")


@pytest.mark.slow
@pytest.mark.parametrize("method", [bd.Gibbs(), bd.HMC(correct=False)], ids=["Gibbs", "HMC"])
@pytest.mark.filterwarnings("ignore::bayesdrop.ApproximationWarning")
def test_with_masks_each_trial_has_its_own(method):
    """The same draws as from weighted rows of one trial, and the same likelihoods as from all trials."""
    model, n = bd.Model(bd.Binomial(), rates=bd.PerFeature()), len(X)
    post = bd.sample(model, X, COUNTS, method=method, **SHORT)
    rows = bd.sample(
        model, np.vstack([X, X]), np.repeat([1, 0], n), sample_weight=COUNTS.T.ravel(), method=method, **SHORT
    )
    np.testing.assert_array_equal(_variable(post, "weight"), _variable(rows, "weight"))
    found = _variable(bd.log_likelihood(post, X, COUNTS), "y", "log_likelihood")
    up, down = (
        np.stack([bd.elpd(_one_draw(post, c, s), X, np.full(n, y)).pointwise for c, s in ((0, 3), (1, 7))])
        for y in (1, 0)
    )
    orders = stats.binom.logpmf(COUNTS[:, 0], TRIALS, 0.5) + TRIALS * np.log(2)
    expected = COUNTS[:, 0] * up + COUNTS[:, 1] * down + orders
    np.testing.assert_allclose(found[[0, 1], [3, 7]], expected, rtol=1e-6, atol=1e-9)


def _one_draw(post, chain, draw):
    group = bd.groups.dataset(post, "posterior").isel(chain=[chain], draw=[draw])
    return bd.groups.assemble({"posterior": group}, group.attrs)


@pytest.mark.slow
def test_a_predictive_check_compares_numbers_of_successes():
    """Means of simulated successes within 4.5 standard errors: a false alarm in 3,600 runs of 40 rows."""
    post = bd.sample(bd.Model(bd.Binomial(), rates=bd.PerFeature()), X, COUNTS, method=bd.Gibbs(), **SHORT)
    np.testing.assert_array_equal(_variable(post, "y", "observed_data"), SUCCESSES)
    np.testing.assert_array_equal(_variable(post, "trials", "constant_data"), TRIALS)
    # Each draw 25 times: given the draws, counts are independent.
    draws = bd.groups.dataset(post, "posterior").isel(draw=np.arange(1000) % 40).assign_coords(draw=np.arange(1000))
    post = bd.groups.extend(post, {"posterior": draws})
    y = _variable(bd.posterior_predictive(post, X), "y", "posterior_predictive").reshape(-1, len(X))
    assert np.all((y >= 0) & (y <= TRIALS))
    chance = bd.predict(post, X).mean
    error = np.sqrt(np.maximum(TRIALS * chance * (1 - chance), 1e-9) / len(y))
    assert np.all(np.abs(y.mean(axis=0) - TRIALS * chance) <= 4.5 * error + TRIALS * 0.002)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: bd.fit(bd.Model(bd.Binomial()), X, COUNTS - 0.5), "y: expected numbers of successes and of failures"),
        (lambda: bd.fit(bd.Model(bd.Binomial()), X, -COUNTS), "two whole numbers of at least 0 in each row, got -"),
        (lambda: bd.fit("up + a ~ b", FRAME), "two whole numbers of at least 0"),
        (lambda: bd.fit("up + down + a ~ b", FRAME), "formula: expected one response on the left side"),
        (lambda: bd.fit("up + down ~ down", FRAME), "formula: the response 'down' is among the terms"),
        (lambda: bd.Binomial([3, 4]), "where rows differ give y as two columns"),
        (lambda: bd.fit(bd.Model(bd.Binomial(2)), X, COUNTS), "y should be a 1d array"),
        (lambda: bd.fit(bd.Model(bd.Binomial()), X, SUCCESSES), "two columns, successes and failures, where trials"),
    ],
)
def test_what_is_no_pair_of_counts_is_refused(fit, message):
    with pytest.raises(ValueError, match=message):
        fit()
