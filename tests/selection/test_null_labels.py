"""Folds must not know the outcome: on labels that say nothing the stated score is the true one.

The stated score of one candidate is that of fits on the other folds, so its expectation is the expected loss of a fit
on as many random rows, at random rows with labels of even odds. Labels are balanced where folds are stratified, as
shares of a class would otherwise be those of the rows that are scored; for rows left out one at a time they are drawn.

Each cell compares means of 40 tables to 3.5 standard errors: a false alarm in 850 cells.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

import bayesdrop as bd
from bayesdrop.fitting.tuning.calibration import RULES, best_slope, by_class

TABLES, C = 40, 10.0


def indicators(rng, n, p=5):
    """Rows of 0/1 columns, which repeat each other."""
    return (rng.random((n, p)) < 0.5).astype(float)


ESTIMATORS = {
    "DropoutSVC": lambda cv: bd.DropoutSVC(bd.Tuned(strengths=(0.0,), cv=cv), C=C),
    "DropoutSVCCV": lambda cv: bd.DropoutSVCCV([0.0], Cs=[C], cv=cv),
    "DropoutLogisticRegression": lambda cv: bd.DropoutLogisticRegression(bd.Tuned(strengths=(0.0,), cv=cv), C=C),
    "DropoutLogisticRegressionCV": lambda cv: bd.DropoutLogisticRegressionCV([0.0], Cs=[C], cv=cv),
    "score of folds": lambda cv: bd.DropoutLogisticRegressionCV([0.0], Cs=[C], cv=cv, scoring="neg_log_loss"),
    "RatePath": lambda cv: bd.RatePath(bd.DropoutLogisticRegression(0.0, C=C), [0.0], cv=cv, scoring="neg_log_loss"),
}
NUMBERS = {
    "DropoutRidgeCV": (bd.DropoutRidgeCV, bd.DropoutRidge, lambda residual: residual**2 / 2),
    "DropoutSVRCV": (bd.DropoutSVRCV, bd.DropoutSVR, lambda residual: np.maximum(0, np.abs(residual) - 0.1)),
}
SPLITTERS = {
    "5": (5, 5, False),
    "3": (3, 3, False),
    "stratified": (StratifiedKFold(5, shuffle=True, random_state=1), 5, False),
    "in order": (KFold(5), 5, True),
    "groups": (GroupKFold(5), 5, True),
}


def stated(model, X, y, groups):
    fitted = model.fit(X, y, groups=groups) if groups is not None else model.fit(X, y)
    return -fitted.scores_[0] if hasattr(fitted, "scores_") else fitted.selection_.chosen.loss


def true_loss(name, X, y, rng, held):
    """Expected loss, at rows with labels of even odds, of a plain fit; its slope is that of ``held`` rows but one."""
    rows = indicators(rng, 4000)
    if name in NUMBERS:
        _, plain, loss = NUMBERS[name]
        score = plain(0.0, C=C).fit(X, y).predict(rows)
        return loss(np.stack([score, 1 - score])).mean()
    if "SVC" in name:
        model = bd.DropoutSVC(0.0, C=C).fit(X, y)
        score, others = (model.decision_function(part)[:, None] for part in (rows, indicators(rng, held - 1)))
        truth = 2.0 * rng.integers(0, 2, (held - 1, 1)) - 1
        slope = best_slope(*by_class(others, truth), np.ones(held - 1)) if held >= RULES.rows else 0.0
        margin = np.stack([score, -score])
        return ((1 - np.sign(margin)) / 2 + np.logaddexp(0, -slope * margin)).mean()
    score = bd.DropoutLogisticRegression(0.0, C=C).fit(X, y).decision_function(rows)
    chance = bd.Logistic().probability(np.stack([score, -score]), C)
    return -np.log(chance).mean()


def gap(name, make, n, folds, *, drawn=False, groups=None):
    """Mean of stated less true loss, and its standard error."""
    found = np.empty((TABLES, 2))
    for table in range(TABLES):
        rng = np.random.default_rng([7, table])
        X = indicators(rng, n)
        y = rng.integers(0, 2, n) if drawn else rng.permutation(n) % 2
        found[table, 0] = stated(make(), X, y, groups)
        few = n - n // folds
        again = rng.integers(0, 2, few) if drawn else rng.permutation(few) % 2
        found[table, 1] = true_loss(name, indicators(rng, few), again, rng, n // folds)
    difference = found[:, 0] - found[:, 1]
    return difference.mean(), difference.std(ddof=1) / np.sqrt(TABLES)


# Scores of a path on the folds of a splitter are those of `cross_val_score` (`test_path.py`).
CASES = [(name, split) for name in ESTIMATORS for split in SPLITTERS if name != "RatePath" or split in ("5", "groups")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "split"), CASES)
def test_the_stated_score_is_the_true_one(name, split):
    cv, folds, drawn = SPLITTERS[split]
    groups = np.arange(150) % 30 if split == "groups" else None
    mean, error = gap(name, lambda: ESTIMATORS[name](cv), 150, folds, drawn=drawn, groups=groups)
    assert abs(mean) < 3.5 * error, (mean, error)


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("split", ["5", "in order", "groups"])
def test_the_stated_score_of_numbers_is_the_true_one(name, split):
    """The numbers 0 and 1, drawn; folds of numbers are not stratified."""
    cv, folds, _ = SPLITTERS[split]
    groups = np.arange(150) % 30 if split == "groups" else None
    make = NUMBERS[name][0]
    mean, error = gap(name, lambda: make([0.0], Cs=[C], cv=cv), 150, folds, drawn=True, groups=groups)
    assert abs(mean) < 3.5 * error, (mean, error)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DropoutLogisticRegression", "DropoutLogisticRegressionCV"])
@pytest.mark.parametrize("weight", [None, 1.5])
def test_rows_left_out_one_at_a_time_state_the_true_score(name, weight):
    mean, error = gap(name, lambda: Weighted(ESTIMATORS[name]("loo"), weight), 150, 150, drawn=True)
    assert abs(mean) < 3.5 * error, (mean, error)


class Weighted:
    """An estimator whose rows all weigh the same, at the same total weight of the loss."""

    def __init__(self, model, weight):
        self.model, self.weight = model, weight

    def fit(self, X, y):
        weight = None if self.weight is None else np.full(len(y), self.weight)
        name = "C" if hasattr(self.model, "C") else "Cs"
        self.model.set_params(**{name: C / (self.weight or 1.0) if name == "C" else [C / (self.weight or 1.0)]})
        return self.model.fit(X, y, sample_weight=weight)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DropoutSVC", "DropoutLogisticRegressionCV"])
def test_few_rows_state_the_true_score(name):
    mean, error = gap(name, lambda: ESTIMATORS[name](5), 20, 5)
    assert abs(mean) < 3.5 * error, (mean, error)


MODELS = [
    lambda cv: bd.DropoutSVC(bd.Tuned(cv=cv)),
    lambda cv: bd.DropoutLogisticRegression(bd.Tuned(cv=cv)),
    lambda cv: bd.DropoutSVCCV(Cs=(0.1, 1.0), cv=cv),
    lambda cv: bd.DropoutLogisticRegressionCV(Cs=(0.1, 1.0), cv=cv),
]


@pytest.mark.parametrize("make", MODELS, ids=["SVC", "LR", "SVCCV", "LRCV"])
@pytest.mark.parametrize("weight", [None, np.arange(200) % 3 + 1.0])
def test_a_number_of_folds_is_that_of_shuffled_stratified_rows(make, weight):
    """The same choice and the same losses, to every digit, whether or not rows repeat each other."""
    X = pd.get_dummies(pd.Series(np.random.default_rng(0).integers(0, 6, 200))).to_numpy(float)
    y = np.random.default_rng(1).integers(0, 2, 200)
    one, other = (
        make(cv).fit(X, y, sample_weight=weight).selection_
        for cv in (5, StratifiedKFold(5, shuffle=True, random_state=0))
    )
    assert one.best == other.best
    for mine, theirs in zip(one.candidates, other.candidates, strict=True):
        np.testing.assert_array_equal(mine.losses, theirs.losses)
