"""A support vector machine chooses its ``C`` and noise by held-out rows, and what is chosen is then calibrated.

A row is judged by its error and by the log loss of its score at the best slope, which does not depend on the size of
the scores, as a hinge does.
"""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.model_selection import StratifiedKFold

import bayesdrop as bd
from bayesdrop.fitting.tuning.scores import RowLosses

# Fits of a search are then as accurate as they are elsewhere.
EXACT = bd.EM(tol=1e-9, max_iter=2000)


def centred(n=240, p=8, seed=0, classes=2):
    """Columns about 0, so that the noise of none is centred: its centre would be that of all rows, not of a fold's."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.7)
    score = X[:, :classes] if classes > 2 else np.stack([0 * X[:, 0], X[:, :3].sum(axis=1)], axis=1)
    return X, (score + 0.5 * rng.gumbel(size=score.shape)).argmax(axis=1)


def signs(y):
    return np.where(y[:, None] == np.arange(y.max() + 1), 1.0, -1.0)


def reviews(n, seed, p=150):
    """Rows of 0/1 words, each of which speaks for a class a little."""
    rng = np.random.default_rng(seed)
    words = np.random.default_rng(0)
    odds = 0.8 * words.normal(size=p)
    common = 0.02 + 0.3 * words.random(p) ** 3
    y = rng.integers(2, size=n)
    chance = common / (common + (1 - common) * np.exp(-np.outer(2 * y - 1, odds) / 2))
    return (rng.random((n, p)) < chance).astype(float), y


def judged(score, y, weight):
    """Losses of rows by scores (m, K) of their classes, each at the slope of the others, without derivatives.

    Also what it changes at most that a row has no part in its slope: a step of Newton's method may miss a tenth of it.
    """
    score, K = score / np.sqrt(np.mean(score**2)), score.shape[1]
    own = y[:, None] == np.arange(K)
    count = weight @ own
    target = np.where(own, (count[y] + 1)[:, None], 1 / (K - 1)) / (count[y] + 2)[:, None]

    def slope(rows):
        def cost(a):
            return -weight[rows] @ (target[rows] * log_softmax(a * score[rows], axis=1)).sum(axis=1)

        return minimize_scalar(cost, bounds=(0, 50), method="bounded", options={"xatol": 1e-10}).x

    slopes = np.array([[slope(np.arange(len(y)) != i) for i in range(len(y))], [slope(slice(None))] * len(y)])
    best = score.max(axis=1)
    tied, lost = (score == best[:, None]).sum(axis=1) > 1, score[own] < best
    losses, within = np.where(lost, 1.0, 0.5 * tied) - log_softmax(slopes[..., None] * score, axis=2)[:, own]
    return losses, np.abs(losses - within).max()


@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_a_row_is_judged_by_its_error_and_the_log_loss_of_its_score(size):
    """A score of 0 is half an error. The size of the scores, that is ``C``, does not matter."""
    rng = np.random.default_rng(0)
    y, weight = rng.integers(2, size=60), rng.uniform(0.5, 2.0, size=60)
    score = rng.normal(size=(60, 1)).round(1) + 0.3 * (2 * y[:, None] - 1)
    score[:3] = 0.0
    sign, rows = np.where(y[:, None] == 1, 1.0, -1.0), np.arange(60)
    found = RowLosses(bd.Hinge(), sign, weight)(rows, size * score, rng.random((60, 1)), 7.0)
    expected, change = judged(np.hstack([-score, score]), y, weight)
    np.testing.assert_allclose(found, expected, atol=0.1 * change)
    y, score = rng.integers(3, size=60), rng.normal(size=(60, 3))
    score[:, 0] += y == 0
    several = RowLosses(bd.Hinge(), signs(y), weight)(rows, size * score, np.zeros((60, 3)), 1.0)
    expected, change = judged(score, y, weight)
    np.testing.assert_allclose(several, expected, atol=0.1 * change)
    np.testing.assert_array_equal(several >= 1 + np.log(2), score.argmax(axis=1) != y)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["plain", "search"])
def test_the_stated_loss_is_that_of_estimators_on_the_folds(kind, classes):
    X, y = centred(120, 5, classes=classes)
    folds = StratifiedKFold(4, shuffle=True, random_state=1)
    rates = bd.Tuned(strengths=(1.0, 0.5), cv=folds)
    if kind == "plain":
        model = bd.DropoutSVC(rates, C=0.3, method=EXACT)
    else:
        model = bd.DropoutSVCCV([0.1, 0.3], Cs=(0.3,), cv=folds, method=EXACT)
    found = model.fit(X, y).selection_
    assert found.scoring == "error + log loss"
    for one in found.candidates:
        losses = []
        for train, test in folds.split(X, y):
            alone = bd.DropoutSVC(one.rates, C=0.3, method=EXACT).fit(X[train], y[train])
            score = alone.decision_function(X[test])
            score = score if classes > 2 else np.stack([-score, score], axis=1)
            expected, change = judged(score, y[test], np.ones(len(test)))
            losses.append((expected.mean(), 0.1 * change))
        expected, miss = np.transpose(losses)
        assert np.all(np.abs(one.losses - expected) < miss)


@pytest.mark.slow
def test_noise_that_errs_less_is_chosen_at_a_small_C():
    """A small C makes all scores small, and the log loss of a pseudo-likelihood then prefers the larger ones.

    The published rule errs less than no noise on these rows. The chosen strength, without a threshold of its own, has
    to err less too: by more than two standard errors of eight tables in pairs, a false alarm in 23 if it did not.
    """
    X_new, y_new = reviews(4000, 99)
    errors = []
    for seed in range(1, 9):
        X, y = reviews(240, seed)
        chosen = bd.DropoutSVC(C=0.1).fit(X, y).selection_.chosen.rates
        models = [bd.DropoutSVC(rates, C=0.1).fit(X, y) for rates in (chosen, 0.0, bd.PerFeature())]
        errors.append([np.mean(model.predict(X_new) != y_new) for model in models])
    chosen, none, full = np.transpose(errors)
    for gain in (none - full, none - chosen):
        assert gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(len(gain)), errors


@pytest.mark.parametrize("kind", ["plain", "search"])
def test_a_margin_is_a_scale_of_the_weights(kind):
    """The hinge of margin ℓ at ℓ times the weights is ℓ times that of margin 1: at ℓ times the ``C``.

    By EM, as fits that Newton's method only compares may put a row on either side of 0.
    """
    X, y = centred(120, 5)

    def fitted(margin):
        C, options = abs(margin), {"margin": margin, "method": EXACT}
        if kind == "plain":
            return bd.DropoutSVC(bd.Tuned(strengths=(1.0, 0.5)), C=C, **options).fit(X, y)
        return bd.DropoutSVCCV([0.1, 0.3], Cs=(0.1 * C, C), cv=3, **options).fit(X, y)

    one, two = fitted(1.0), fitted(3.0)
    np.testing.assert_allclose(two.coef_, 3 * one.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(two.predict_proba(X), one.predict_proba(X), atol=1e-3)
    np.testing.assert_allclose(two.selection_.chosen.loss, one.selection_.chosen.loss, rtol=1e-4)
    with pytest.raises(ValueError, match="margin: expected"):
        fitted(-1.0)


@pytest.mark.slow
def test_the_choice_of_C_is_that_of_the_search_and_given_rates_choose_nothing():
    X, y = reviews(240, 1)
    model = bd.DropoutSVC().fit(X, y)
    assert model.C_ == model.selection_.chosen.C == bd.DropoutSVCCV().fit(X, y).C_
    again = bd.DropoutSVC(model.selection_.chosen.rates, C=model.C_).fit(X, y)
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-4, atol=1e-8)
    assert bd.DropoutSVC(0.1).fit(X / 10, y).C_ == 100 * bd.DropoutSVC(0.1).fit(X, y).C_
