"""Probabilities of a hinge from the scores of the rows that its search held out."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

import bayesdrop as bd
from bayesdrop.fitting.solvers.driver import Status
from bayesdrop.fitting.tuning.calibration import Calibration


def noisy(n=200, p=6, seed=0):
    """Columns about 0, so that the noise of none is centred: its centre would be that of all rows, not of a fold's."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.7)
    return X, np.where(X[:, :3].sum(axis=1) + rng.normal(size=n) > 0.5, "up", "down")


def smoothed(positive, weight):
    """Targets of Lin, Lin & Weng (2007, equation 2)."""
    above, below = weight[positive].sum(), weight[~positive].sum()
    return np.where(positive, (above + 1) / (above + 2), 1 / (below + 2))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("separable", [False, True])
def test_the_sigmoid_is_logistic_regression_on_smoothed_targets(scale, separable):
    """That of scikit-learn, without penalty: each row once with either class, weighed by its target."""
    rng = np.random.default_rng(0)
    score = scale * (3 + rng.normal(size=80))
    positive = score > 3 * scale if separable else rng.random(80) < expit(2 * score / scale - 5)
    weight = rng.uniform(0, 3, size=80)
    found = Calibration.fitted(score[:, None], np.where(positive, 1.0, -1.0)[:, None], weight)
    t = smoothed(positive, weight)
    peer = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(
        np.tile(score / scale, 2)[:, None], np.repeat([1, 0], 80), sample_weight=np.r_[weight * t, weight * (1 - t)]
    )
    np.testing.assert_allclose(found.slope * scale, peer.coef_[0, 0], rtol=1e-6)
    np.testing.assert_allclose(found.intercept, peer.intercept_[0], rtol=1e-6)


def test_a_slope_is_never_negative():
    """It is the least one that is allowed, with the best intercept beside it, and keeps the order of the scores."""
    rng = np.random.default_rng(1)
    score, weight = rng.normal(size=60), np.ones(60)
    positive = rng.random(60) < expit(-score - 2)
    found = Calibration.fitted(score[:, None], np.where(positive, 1.0, -1.0)[:, None])
    assert found.slope == pytest.approx(1e-3 / score.std())
    t = smoothed(positive, weight)

    def cost(b):
        f = found.slope * score + b
        return np.sum(np.logaddexp(0, f) - t * f)

    assert found.intercept == pytest.approx(minimize(cost, 0.0, tol=1e-12).x[0], abs=1e-5)
    alike = Calibration.fitted(np.full((6, 1), 2.0), np.array([[1.0], [1.0], [1.0], [-1.0], [-1.0], [1.0]]))
    assert alike.slope > 0
    # Lin, Lin & Weng's targets, 5/6 of the four and 1/4 of the two, have this mean.
    np.testing.assert_allclose(alike.probabilities(np.array([[2.0]]))[0, 1], (4 * 5 / 6 + 2 / 4) / 6, rtol=1e-9)


@pytest.mark.parametrize("kind", ["plain", "search"])
def test_probabilities_are_those_of_calibrated_folds(kind):
    """Those of ``CalibratedClassifierCV(ensemble=False)`` on the same folds.

    At a small ``C`` the larger class has all scores on its side, so that the threshold has to move.
    """
    X, y = noisy()
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    rates = bd.Tuned(strengths=(1.0, 0.5, 0.0), cv=folds)
    Cs = 0.001, 0.003
    model = bd.DropoutSVC(rates, C=0.001) if kind == "plain" else bd.DropoutSVCCV([0.1, 0.3], Cs=Cs, cv=folds)
    model.fit(X, y)
    chosen = model.selection_.chosen
    alone = bd.DropoutSVC(chosen.rates, C=chosen.C)
    peer = CalibratedClassifierCV(alone, method="sigmoid", cv=folds, ensemble=False).fit(X, y)
    # The centre of the noise is that of all rows here, and that of each fold there.
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=0.01)
    shift = model.decision_function(X) - alone.fit(X, y).decision_function(X)
    np.testing.assert_allclose(shift, -model.calibration_.threshold, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), np.where(model.decision_function(X) > 0, "up", "down"))
    if kind == "plain":
        np.testing.assert_allclose(model.to_sklearn().decision_function(X), model.decision_function(X), rtol=1e-9)
    # Far from what the pseudo-likelihood says, or there would be nothing to tell apart.
    assert np.abs(alone.predict_proba(X) - model.predict_proba(X)).max() > 0.05


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.5, 2.0])
def test_an_intercept_has_to_gain_a_unit_of_log_likelihood(shift):
    """Otherwise the threshold stays where it is: scores that say little would move it anywhere."""
    rng = np.random.default_rng(2)
    score = rng.normal(size=80)
    positive = rng.random(80) < expit(score + shift)
    found = Calibration.fitted(score[:, None], np.where(positive, 1.0, -1.0)[:, None])
    t = smoothed(positive, np.ones(80))

    def cost(f):
        return np.sum(np.logaddexp(0, f) - t * f)

    both = minimize(lambda x: cost(x[0] * score + x[1]), (1.0, 0.0), tol=1e-12)
    slope = minimize_scalar(lambda a: cost(a * score), (0.1, 2.0), tol=1e-12)
    expected = both.x if slope.fun - both.fun > 1 else (slope.x, 0.0)
    np.testing.assert_allclose((found.slope, found.intercept), expected, rtol=1e-4, atol=1e-12)
    assert (found.intercept != 0) == (shift >= 0.5)


@pytest.mark.slow
def test_several_classes_have_one_slope():
    """That of scikit-learn's logistic regression with one coefficient: differences of scores, pair by pair."""
    X, _ = noisy()
    y = np.random.default_rng(0).integers(3, size=len(X)) + (X[:, 0] > 0)
    model = bd.DropoutSVC(bd.Tuned(strengths=(1.0, 0.5), cv=3)).fit(X, y)
    score, found = model.decision_function(X), model.calibration_
    np.testing.assert_allclose(model.predict_proba(X), softmax(found.slope * score, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), model.predict(X))
    rng = np.random.default_rng(1)
    for times in (1.0, 1e4, -1.0):
        score, weight = rng.normal(size=(70, 3)), rng.uniform(0, 2, size=70)
        own = (score + rng.gumbel(size=score.shape)).argmax(axis=1)[:, None] == np.arange(3)
        tempered = Calibration.fitted(times * score, np.where(own, 1.0, -1.0), weight)
        # As if one more of all rows were right, and one wrong.
        target = np.where(own, weight.sum() + 1, 0.5) / (weight.sum() + 2)

        def cost(a, score=score, weight=weight, target=target):
            return -weight @ (target * log_softmax(a * score, axis=1)).sum(axis=1)

        best = minimize_scalar(cost, (0.1, 2.0), tol=1e-12).x
        least = 1e-3 / np.sqrt(weight @ (score**2).mean(axis=1) / weight.sum())
        assert tempered.slope * abs(times) == pytest.approx(best if times > 0 else least, rel=1e-6)


@pytest.mark.slow
def test_a_fit_without_weights_has_the_shares_of_the_classes():
    """Fits of folds have some: the threshold of their scores once put all rows of new data into the rare class."""
    X, _ = noisy(n=400)
    y = np.where(np.arange(400) % 16 == 0, "up", "down")
    model = bd.DropoutSVC(bd.Tuned(strengths=(0.5,), cv=3)).fit(X, y)
    held_out, sign = np.linspace(-1.3, -1.0, 400)[:, None], np.where(y == "up", 1.0, -1.0)[:, None]
    model.calibration_ = Calibration.fitted(held_out, sign)
    model.status_, model.coef_, model.intercept_ = Status.ALL_ZERO, 0 * model.coef_, np.array([-1.0])
    share = smoothed(y == "up", np.ones(400)).mean()
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], share, rtol=2e-3)
    assert np.all(model.predict(X) == "down")


def test_where_no_rows_were_held_out_it_is_the_pseudo_likelihood():
    X, y = noisy()
    given, tuned = bd.DropoutSVC(0.3).fit(X, y), bd.DropoutSVC(bd.Tuned(strengths=(0.5,), cv=3)).fit(X, y)
    assert given.calibration_ is None
    alone = bd.DropoutSVC(tuned.selection_.chosen.rates, C=tuned.C_).fit(X, y)
    assert np.abs(tuned.predict_proba(X) - alone.predict_proba(X)).max() > 0.05
    # Scores of another kind than those that were held out.
    for model in (tuned, alone):
        model.set_params(corrupted_inputs=True)
    np.testing.assert_allclose(tuned.predict_proba(X), alone.predict_proba(X), rtol=1e-12)
    tuned.set_params(corrupted_inputs=False).partial_fit(X[:9], y[:9])
    assert tuned.calibration_ is None
    assert bd.DropoutLogisticRegression(bd.Tuned(strengths=(0.5,), cv=3)).fit(X, y).selection_.calibration is None


def test_weights_are_rows_and_the_log_loss_falls():
    """A search whose C is far too large for the size of the pseudo-likelihood says less than its scores do."""
    X, y = noisy(n=300)
    weight = np.where(np.arange(300) % 7 == 0, 0.0, 1.0)
    folds = [(np.arange(0, 300) % 3 != k, np.arange(0, 300) % 3 == k) for k in range(3)]
    kept = weight > 0
    few = [(train[kept], test[kept]) for train, test in folds]
    rates = {cv: bd.Tuned(strengths=(0.5,), cv=pairs) for cv, pairs in (("all", folds), ("few", few))}
    whole = bd.DropoutSVCCV(rates["all"], Cs=(1.0,), cv=folds).fit(X, y, sample_weight=weight)
    part = bd.DropoutSVCCV(rates["few"], Cs=(1.0,), cv=few).fit(X[kept], y[kept])
    np.testing.assert_allclose(whole.calibration_.slope, part.calibration_.slope, rtol=0.02)
    X_new, y_new = noisy(n=2000, seed=1)
    steep = bd.DropoutSVC(bd.Tuned(strengths=(0.5,), cv=3), C=30.0).fit(X, y)
    alone = bd.DropoutSVC(steep.selection_.chosen.rates, C=30.0).fit(X, y)
    assert log_loss(y_new, steep.predict_proba(X_new)) < log_loss(y_new, alone.predict_proba(X_new)) - 0.1
