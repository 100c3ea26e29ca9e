"""Rows left out one at a time leave a copy, so that weight 2 is the row twice; rows of weight 0 are none; groups."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, LeaveOneGroupOut, LeaveOneOut, PredefinedSplit

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.leave_one_out import left_out_scores
from bayesdrop.fitting.objective.softmax_leave_one_out import left_out_classes
from bayesdrop.fitting.problems.block import fit_block
from bayesdrop.fitting.problems.many_classes import fit_classes, softmax_energy
from bayesdrop.fitting.solvers.newton import Newton
from bayesdrop.fitting.tuning.folds import Rows, make_folds


def table(n=60, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).round(1) * (rng.random((n, p)) < 0.8)
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int), rng.integers(0, 4, size=n)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_a_copy_left_out_of_several_is_one_of_the_rows(rate):
    """The same scores from a row of weight ``s`` as from it ``s`` times: an identity."""
    X, code, weight = table(30)
    weight = 1 + weight
    many = np.repeat(np.arange(30), weight)
    model, names = bd.Model(rates=bd.Fixed(rate)), list("abc")
    found = []
    for rows, own in ((np.arange(30), weight.astype(float)), (many, np.ones(len(many)))):
        target = np.where(code[rows] == 1, 1.0, -1.0)[:, None]
        whole = fit_block(model, as_design(X[rows]), model.bind(names), target, own, Newton(tol=1e-14))
        found.append(left_out_scores(whole.energy, whole.weights, whole.mean, whole.var, share=1 / own))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one[many], other, rtol=1e-6, atol=1e-9)


def test_a_copy_left_out_of_several_classes_is_one_of_the_rows():
    X, _, weight = table(30)
    code, weight = np.arange(30) % 3, 1 + weight
    many = np.repeat(np.arange(30), weight)
    model, names = bd.Model(bd.Softmax(), rates=bd.Fixed(0.3)), list("abc")
    found = []
    for rows, own in ((np.arange(30), weight.astype(float)), (many, np.ones(len(many)))):
        design = as_design(X[rows])
        whole = fit_classes(model, design, model.bind(names), code[rows], own, 3, tol=1e-14, max_iter=200)
        energy = softmax_energy(model, design, whole.rates, code[rows], 3, own, own)
        found.append(left_out_classes(energy, whole.weights, share=1 / own))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one[many], other, rtol=1e-6, atol=1e-9)


ALONE = [bd.DropoutLogisticRegression(), bd.DropoutLogisticRegressionCV(Cs=(0.1, 1.0))]
CHOICES = [*ALONE, bd.DropoutSVC(), bd.DropoutSVCCV(Cs=(0.1, 1.0), cv=3)]


def agree(one, other, X):
    for mine, theirs in zip(one.selection_.candidates, other.selection_.candidates, strict=True):
        assert (mine.C, mine.strength) == (theirs.C, theirs.strength)
        np.testing.assert_allclose(mine.losses, theirs.losses, rtol=2e-3)
    assert one.selection_.best == other.selection_.best
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", ALONE, ids=lambda model: type(model).__name__)
def test_a_choice_by_rows_left_out_alone_is_that_of_repeated_rows(model):
    X, code, weight = table()
    order = np.random.default_rng(1).permutation(60)
    once = type(model)(**model.get_params()).fit(X[order], code[order], sample_weight=weight[order])
    often = type(model)(**model.get_params()).fit(np.repeat(X, weight, axis=0), np.repeat(code, weight))
    agree(once, often, X)


@pytest.mark.slow_cases("cv1-DropoutLogisticRegression", "pairs-DropoutSVC", "predefined-DropoutLogisticRegression")
@pytest.mark.parametrize("model", CHOICES, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("cv", [None, KFold(3, shuffle=True, random_state=0), "pairs", "predefined"])
def test_rows_of_weight_zero_are_none(model, cv):
    """Where they lie among the others; pairs of rows, and a splitter of its own rows, name those that were given."""
    X, code, _ = table()
    weight = np.where(np.arange(60) % 4 == 1, 0.0, 1.0)
    kept, options = np.flatnonzero(weight), model.get_params()
    group = np.arange(60) % 3
    given = list(LeaveOneGroupOut().split(X, groups=group)) if cv == "pairs" else cv
    left = list(LeaveOneGroupOut().split(X[kept], groups=group[kept])) if cv == "pairs" else cv
    if cv == "predefined":
        given, left = PredefinedSplit(group), PredefinedSplit(group[kept])

    def made(cv):
        if cv is None:
            return type(model)(**options)
        if "cv" in options:
            return type(model)(**{**options, "cv": cv})
        return type(model)(bd.Tuned(cv=cv))

    agree(made(given).fit(X, code, sample_weight=weight), made(left).fit(X[kept], code[kept]), X)


def test_weights_of_classes_are_no_counts():
    """A row of a class of weight 5 is one row: it is left out with all that it weighs."""
    X, code, _ = table(50)
    weights = {0: 1.0, 1: 5.0}
    fit = bd.DropoutLogisticRegression(bd.Tuned(strengths=(0.0,), cv="loo"), class_weight=weights).fit(X, code)
    losses = []
    for i in range(50):
        rest = np.arange(50) != i
        alone = LogisticRegression(class_weight=weights, tol=1e-9, max_iter=1000).fit(X[rest], code[rest])
        losses.append(-alone.predict_log_proba(X[[i]])[0, code[i]])
    expected = np.average(losses, weights=np.where(code == 1, 5.0, 1.0))
    chosen = fit.selection_.chosen
    assert abs(chosen.loss - expected) < 0.2 * chosen.error


@pytest.mark.parametrize("cv", [3, None, "splitter"])
def test_rows_that_belong_together_are_held_out_together(cv):
    """Copies of a row in two groups would tell of each other; several forms of the same folds give the same choice."""
    from sklearn.model_selection import GroupKFold

    X, code, _ = table(90)
    groups = np.random.default_rng(3).integers(0, 12, 90)
    splitter = GroupKFold(3)
    given = splitter if cv == "splitter" else cv
    search = bd.DropoutLogisticRegressionCV(Cs=(0.1, 1.0), cv=given).fit(X, code, groups=groups)
    plain = bd.DropoutLogisticRegression(bd.Tuned(cv=given), C=1.0).fit(X, code, groups=groups)
    fit = bd.fit(bd.Model(rates=bd.Tuned(cv=given)), X, code, groups=groups)
    np.testing.assert_allclose(fit.weight, plain.coef_[0], rtol=1e-6)
    assert search.n_splits_ == len(plain.selection_.chosen.losses) == (3 if cv else 5)
    if cv == "splitter":
        pairs = list(splitter.split(X, code, groups))
        agree(search, bd.DropoutLogisticRegressionCV(Cs=(0.1, 1.0), cv=pairs).fit(X, code), X)
        agree(plain, bd.DropoutLogisticRegression(bd.Tuned(cv=pairs), C=1.0).fit(X, code), X)
        path = bd.RatePath(bd.DropoutLogisticRegression(), [0.1, 0.5], cv=splitter).fit(X, code, groups=groups)
        other = bd.RatePath(bd.DropoutLogisticRegression(), [0.1, 0.5], cv=pairs).fit(X, code)
        np.testing.assert_allclose(path.scores_, other.scores_)
    else:
        folds = make_folds(cv or 5, Rows(np.ones(90), 90, groups=groups, code=code))
        for fold in folds:
            assert not set(groups[fold.test]) & set(groups[fold.count > 0])


def test_groups_that_will_not_do():
    X, code, _ = table()
    for groups, told in (
        (np.zeros(59), "expected 60 values, one for each row"),
        ([None] * 60, r"expected a value in each row, got none \(NaN, None or NA\)"),
        (np.array(["a", 1] * 30, dtype=object), "expected labels of one kind"),
    ):
        with pytest.raises(ValueError, match=f"groups: {told}"):
            bd.DropoutLogisticRegressionCV().fit(X, code, groups=groups)
    with pytest.raises(ValueError, match="cv: .loo. leaves out rows one at a time, and groups= says which rows belong"):
        bd.DropoutLogisticRegression(bd.Tuned(cv="loo")).fit(X, code, groups=np.arange(60) % 7)
    with pytest.warns(bd.SelectionWarning, match="rates: 2 rows of the largest class allow 2 folds"):
        bd.DropoutLogisticRegression().fit(X, code, groups=np.arange(60) % 2)


@pytest.mark.parametrize("cv", [LeaveOneOut(), 7, "loo"])
def test_the_choice_is_by_the_weighted_mean_over_rows_whatever_the_folds(cv):
    """Half of the rows contradict the others, with a hundredth of the weight."""
    rng = np.random.default_rng(11)
    X, good = rng.normal(size=(60, 4)), np.arange(60) < 30
    score = X @ [2.0, -2.0, 1.0, 0.0]
    y, weight = np.where(good, score > 0, score + 4 * rng.logistic(size=60) < 0), np.where(good, 1.0, 0.01)
    model = bd.Model(noise=bd.Dropout(centre=None), rates=bd.Tuned(strengths=(1.0, 0.0), cv=cv))
    found = bd.fit(model, X, y, sample_weight=weight).selection
    noisy, plain = sorted(found.candidates, key=lambda one: one.strength, reverse=True)
    assert found.chosen is plain
    np.testing.assert_array_equal(found.to_dataset()["mean_loss"], [one.loss for one in found.candidates])
    assert noisy.loss - plain.loss == pytest.approx(noisy.worse)
    assert noisy.worse > 2 * noisy.worse_error
    if isinstance(cv, LeaveOneOut):
        mean = np.average(noisy.losses, weights=weight)
        spread = np.sqrt(60 / 59 * np.sum(weight**2 * (noisy.losses - mean) ** 2)) / weight.sum()
        assert (noisy.loss, noisy.error) == (pytest.approx(mean), pytest.approx(spread))


@pytest.mark.slow
def test_losses_of_rows_left_out_alone_are_checked_in_any_unit():
    """The refits without the most influential rows are those of the response in another unit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 4)) * (rng.random((24, 4)) > 0.4)
    X[0] *= 30
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.standard_t(2, size=24)
    y[0] += 40
    one, *others = (bd.DropoutRidgeCV(cv="loo").fit(X, k * y) for k in (1.0, 1e-3, 1e-6, 1e6))
    exact = bd.DropoutRidgeCV([0.1], Cs=(1.0,), cv=LeaveOneOut()).fit(X, y).selection_.chosen.loss
    checked = [bd.DropoutRidgeCV([0.1], Cs=(1.0,), cv="loo").fit(X, k * y) for k in (1.0, 1e-6)]
    for k, model in zip((1.0, 1e-6), checked, strict=True):
        assert model.selection_.chosen.loss / k**2 == pytest.approx(exact, rel=0.1)
    for other in others:
        assert (other.C_, other.best_rates_) == (one.C_, one.best_rates_)
