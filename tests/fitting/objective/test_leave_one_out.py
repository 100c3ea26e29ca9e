"""Scores of rows by fits that leave them out, from one fit, beside those of fits without them."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.leave_one_out import left_out_scores
from bayesdrop.fitting.problems.block import fit_block
from bayesdrop.fitting.solvers.newton import Newton
from bayesdrop.fitting.tuning.blocks import scaled
from bayesdrop.fitting.tuning.scores import RowLosses


def table(n=60, p=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return X, X[:, :3].sum(axis=1, keepdims=True) + rng.normal(size=(n, 1))


def fit(model, X, y, weight):
    names = [f"x{d}" for d in range(X.shape[1])]
    return fit_block(model, as_design(X), model.bind(names), y, weight, Newton(tol=1e-14))


def both(model, X, y, weight=None, corrupted=False):
    """Mean and variance of the score of each row without it: approximately, and by as many fits as rows."""
    weight = np.ones(len(y)) if weight is None else weight
    whole = fit(model, X, y, weight)
    quick = left_out_scores(whole.energy, whole.weights, whole.mean, whole.var, corrupted)
    slow = []
    for i in range(len(y)):
        alone = fit(model, X, y, np.where(np.arange(len(y)) == i, 0.0, weight))
        plain = X[i] @ alone.weights[:-1] + alone.weights[-1], np.zeros(y.shape[1])
        slow.append(plain if corrupted else (alone.mean[i], alone.var[i]))
    return whole, quick, tuple(np.array(part) for part in zip(*slow, strict=True))


@pytest.mark.parametrize(("intercept", "corrupted"), [(True, False), (False, False), (True, True)])
def test_without_noise_a_quadratic_energy_is_exact(intercept, corrupted):
    X, y = table()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    model = bd.Model(bd.Squared(), rates=bd.Fixed(0.0), C=0.3, fit_intercept=intercept)
    whole, quick, slow = both(model, X, y, weight, corrupted)
    np.testing.assert_allclose(quick[0], slow[0], rtol=1e-8)
    assert np.abs(slow[0] - whole.mean).max() > 0.05
    assert not quick[1].any()


def test_in_parts():
    X, y = table()
    whole = fit(bd.Model(rates=bd.Fixed(0.3)), X, np.sign(y), np.ones(len(y)))
    given = whole.energy, whole.weights, whole.mean, whole.var
    at_once = left_out_scores(*given)
    np.testing.assert_allclose(left_out_scores(*given, room=100), at_once, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_moments_are_those_of_refits(rate):
    """Row by row to a tenth of what leaving the row out does to them; two problems beside each other."""
    X, y = table()
    y = np.concatenate([np.sign(y), -np.sign(y + 1)], axis=1)
    whole, quick, slow = both(bd.Model(rates=bd.Fixed(rate)), X, y)
    for one, two, none in zip(quick, slow, (whole.mean, whole.var), strict=True):
        assert np.linalg.norm(one - two) <= 0.1 * np.linalg.norm(two - none)
    assert (np.linalg.norm(slow[1] - whole.var) > 0.1) == (rate > 0)


@pytest.mark.slow
@pytest.mark.parametrize(("learnt", "errors"), [(False, 0.1), (True, 0.5)])
def test_differences_of_losses_are_those_of_refits(learnt, errors):
    """Between candidates, in standard errors of the difference; refits learn their rates anew."""
    X, y = table()
    y, losses = np.sign(y), []
    for strength in (1.0, 1 / 3, 0.0):
        model = bd.Model(rates=scaled(bd.PerFeature(), strength) if learnt else bd.Fixed(0.4 * strength))
        _, *found = both(model, X, y)
        losses.append(
            [RowLosses(model.loss, y, np.ones(len(y)))(np.arange(len(y)), *moments, 1.0) for moments in found]
        )
    for k in range(2):
        quick, slow = (losses[k][j] - losses[k + 1][j] for j in range(2))
        assert abs(np.mean(quick - slow)) < errors * slow.std(ddof=1) / np.sqrt(len(y))


@pytest.mark.slow
def test_where_it_is_the_default():
    X, y = table()
    y = y[:, 0] > 0
    for kind, alone in ((bd.DropoutLogisticRegression, True), (bd.DropoutSVC, False)):
        assert kind().fit(X, y).selection_.alone == alone
    assert bd.DropoutLogisticRegression().fit(sparse.csr_array(X), y).selection_.alone
    found = bd.DropoutRidgeCV(Cs=(1.0,)).fit(X, 2 * X[:, 0])
    assert found.selection_.alone
    assert found.cv_results_["standard_error_test_score"].shape == (5,)
    assert np.all(found.cv_results_["standard_error_test_score"] > 0)
    assert "rows left out one at a time" in str(found.selection_)
    assert not bd.DropoutRidgeCV(Cs=(1.0,), scoring="r2").fit(X, 2 * X[:, 0]).selection_.alone


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (bd.DropoutSVCCV(cv="loo"), "Hinge has no second derivatives"),
        (bd.DropoutLogisticRegressionCV(cv="loo", scoring="accuracy"), "scoring= is that of a fitted estimator"),
        (bd.DropoutLogisticRegression(bd.Tuned(cv="loo")), "there are 2001 columns"),
    ],
)
def test_where_it_is_refused(model, message):
    X, y = table()
    X = np.hstack([X, np.eye(len(X), 1995) + 1.0]) if "columns" in message else X
    with pytest.raises(ValueError, match=f'"loo" leaves out rows one at a time, and {message}.*give a number of folds'):
        model.fit(X, y[:, 0] > 0)
