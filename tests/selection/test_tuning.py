"""Choosing the strength of learnt rates, and C with it, on folds that are problems of one block."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, StratifiedKFold, cross_val_score

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.problems.block import Task
from bayesdrop.fitting.solvers.newton import Newton
from bayesdrop.fitting.tuning.blocks import BlockSolver, families_of, scaled
from bayesdrop.fitting.tuning.folds import Fold, Rows, few_rows, make_folds
from bayesdrop.fitting.tuning.scores import RowLosses, Table
from bayesdrop.fitting.tuning.search import Search, SearchRules

STRENGTHS = (1.0, 0.5, 0.0)
LOSSES = [bd.Logistic(), bd.Hinge()]


def noisy(n=120, p=6, seed=0):
    """Three features of six speak for the class; a third of the entries are zero, so that no column is centred."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.7)
    return X, np.where(X[:, :3].sum(axis=1) + rng.normal(size=n) > 0, "up", "down")


def rows_of(n, code=None):
    return Rows(np.ones(n), n, code=code)


def signs_of(y):
    return np.where(y[:, None] == "up", 1.0, -1.0)


@pytest.mark.parametrize("loss", LOSSES, ids=["logistic", "hinge"])
@pytest.mark.parametrize("candidate", [(bd.PerFeature(), 0.5), bd.Shared(bd.Beta(2, 2)), bd.Fixed(0.3)])
def test_a_fold_of_a_block_is_the_fit_to_its_rows(loss, candidate):
    """Weight 0 in a block, no row in a fit of its own: the same optimum, to the root of twice the gap in energy."""
    X, y = noisy()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    folds = make_folds(3, rows_of(len(y), (y == "up").astype(int)))
    names = [f"x{d}" for d in range(X.shape[1])]
    (family,) = families_of([candidate], names)
    # Two members of a family in one block, so that rates of several strengths stand beside each other.
    if isinstance(candidate, tuple):
        (family,) = families_of([(candidate[0], 1.0), candidate], names)
    solver = BlockSolver(Task(bd.Model(loss), as_design(X), signs_of(y), weight, names, Newton(tol=1e-13)))
    found = {}
    solver.solve(family, range(len(family.members)), 2.0, folds, None, lambda f, m, held: found.update({(f, m): held}))
    for (f, m), held in found.items():
        train = folds[f].count > 0
        model = bd.Model(loss, rates=family.members[m], C=2.0)
        alone = bd.fit(model, X[train], y[train], method=Newton(tol=1e-13), sample_weight=weight[train])
        gap = 2 * np.sqrt(2e-13 * alone.objective_trace[-1])
        np.testing.assert_allclose(held.weights[:-1, 0], alone.weight, atol=20 * gap)
        np.testing.assert_allclose(held.rates[:, 0], alone.rates, atol=1e-12)
        row = X[folds[f].test]
        gain = 1 - alone.rates
        mean = row @ (gain * alone.weight) + alone.intercept
        var = row**2 @ (alone.rates * gain * alone.weight**2)
        np.testing.assert_allclose(held.mean[:, 0], mean, atol=1e-4)
        np.testing.assert_allclose(held.var[:, 0], var, atol=1e-4)


def test_a_small_fit_is_the_same_without_a_choice_before_it():
    X, y = noisy()
    fit = bd.DropoutLogisticRegression().fit(X, y)
    alone = bd.DropoutLogisticRegression(fit.selection_.chosen.rates).fit(X, y)
    np.testing.assert_array_equal(fit.coef_, alone.coef_)


def test_blocks_in_parts_are_the_block(monkeypatch):
    X, y = noisy()
    whole = bd.DropoutLogisticRegressionCV(Cs=(0.1, 1.0), cv=3).fit(X, y)
    monkeypatch.setattr(BlockSolver, "room", 2 * len(y))
    parts = bd.DropoutLogisticRegressionCV(Cs=(0.1, 1.0), cv=3).fit(X, y)
    for key in ("split0_test_score", "split2_test_score"):
        # As far apart as fits that end within the tolerance of a comparison, here or there.
        np.testing.assert_allclose(whole.cv_results_[key], parts.cv_results_[key], atol=5e-3)


def test_rows_twice_in_a_fold_count_twice():
    X, y = noisy(40)
    pairs = [(np.r_[0:30, 0:10], np.arange(30, 40)), (np.arange(10, 40), np.arange(10))]
    folds = make_folds(pairs, rows_of(40, (y == "up").astype(int)))
    assert folds[0].count.tolist() == [2.0] * 10 + [1.0] * 20 + [0.0] * 10
    assert folds[1].test.tolist() == list(range(10))


def test_scaled_rates_are_the_published_ones_times_the_strength():
    """Where the signs of the weights are the same; and the prior is that of the relative strength of Zhuo et al."""
    X, y = noisy(400)
    whole, half = (bd.fit(bd.Model(rates=scaled(bd.PerFeature(), s)), X, y) for s in (1.0, 0.5))
    same = np.sign(whole.weight) == np.sign(half.weight)
    assert same.sum() >= 4
    np.testing.assert_allclose(half.rates[same], 0.5 * whole.rates[same], rtol=1e-12)
    assert scaled(bd.PerFeature(), 0.25).prior == bd.Beta.from_mode(0, relative_strength=3.0)
    assert scaled(bd.Shared(), 0) == bd.Fixed(0.0)


def test_losses_of_rows_are_log_losses():
    """Without noise those of scikit-learn; with a normal score those of its expected probability."""
    rng, loss = np.random.default_rng(0), bd.Logistic()
    mean, code = rng.normal(size=(50, 1)), rng.integers(2, size=50)
    found = RowLosses(loss, np.where(code[:, None] == 1, 1.0, -1.0), np.ones(50))
    rows = np.arange(50)
    np.testing.assert_allclose(
        found(rows, mean, 0 * mean, 0.7).mean(), log_loss(code, loss.probability(mean[:, 0], 0.7)), rtol=1e-10
    )
    var = rng.uniform(0, 2, size=mean.shape)
    expected = log_loss(code, loss.expected_probability(mean[:, 0], var[:, 0], 0.7))
    np.testing.assert_allclose(found(rows, mean, var, 0.7).mean(), expected, rtol=2e-3)
    several = RowLosses(loss, np.where(np.arange(50)[:, None] % 3 == np.arange(3), 1.0, -1.0), np.ones(50))
    scores = rng.normal(size=(50, 3))
    chance = loss.probability(scores, 0.7)
    expected = log_loss(rows % 3, chance / chance.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(several(rows, scores, 0 * scores, 0.7).mean(), expected, rtol=1e-10)


@pytest.mark.parametrize("number", [3, np.int64(3)])
def test_a_number_of_folds_is_of_shuffled_rows(number):
    """The same at every call, stratified by class; what is given as folds is followed as it is."""
    X, code = noisy(90)[0], np.repeat([0, 1], 45)
    folds = make_folds(number, rows_of(90, code))
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    for fold, (train, test) in zip(folds, splitter.split(X, code), strict=True):
        assert fold.test.tolist() == test.tolist()
        assert np.flatnonzero(fold.count).tolist() == train.tolist()
        assert all(np.ptp(fold.test[code[fold.test] == k]) > 25 for k in (0, 1))  # unshuffled it is 14
    plain = make_folds(number, rows_of(90))
    assert np.sort(np.concatenate([fold.test for fold in plain])).tolist() == list(range(90))
    assert all(np.ptp(fold.test) > 60 for fold in plain)
    of_sites = list(GroupKFold(3).split(X, code, np.arange(90) % 9))
    for cv, given in ((of_sites, of_sites), (StratifiedKFold(3), StratifiedKFold(3).split(X, code))):
        followed = make_folds(cv, rows_of(90, code))
        assert [fold.test.tolist() for fold in followed] == [test.tolist() for _, test in given]


def test_differences_are_those_of_pairs():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 30))
    table = Table([np.ones(10), np.ones(20)], [np.ones(10), np.ones(20)])
    for key, losses in (((1.0, 0), one), ((1.0, 1), other)):
        table.add(key, 0, losses[:10])
        table.add(key, 1, losses[10:])
    mean, error = table.difference((1.0, 0), (1.0, 1))
    d = one - other
    assert mean == pytest.approx(d.mean())
    assert error == pytest.approx(d.std(ddof=1) / np.sqrt(30))
    assert table.mean((1.0, 0)) == pytest.approx(one.mean())  # the losses that the difference compares
    # A row of weight 2 that is one observation says no more than one of weight 1; one that is two says as a row twice.
    once = Table([np.full(10, 2.0), np.full(20, 2.0)], [np.full(10, 2.0), np.full(20, 2.0)], table.losses)
    assert once.difference((1.0, 0), (1.0, 1)) == pytest.approx((mean, error))
    heavy = Table([np.full(10, 2.0), np.full(20, 2.0)], table.units, table.losses)
    twice = Table([np.ones(20), np.ones(40)], [np.ones(20), np.ones(40)])
    for key, known in table.losses.items():
        for fold, losses in known.items():
            twice.add(key, fold, np.repeat(losses, 2))
    assert heavy.difference((1.0, 0), (1.0, 1)) == pytest.approx(twice.difference((1.0, 0), (1.0, 1)))


def test_the_default_chooses_by_held_out_log_loss():
    """The strength is that of the smallest log loss by scikit-learn's cross-validation of the candidates."""
    X, y = noisy(300)
    folds = StratifiedKFold(4)
    model = bd.DropoutLogisticRegression(bd.Tuned(strengths=STRENGTHS, cv=folds), C=1.0).fit(X, y)
    manual = [
        -cross_val_score(
            bd.DropoutLogisticRegression(scaled(bd.PerFeature(), s)), X, y, cv=folds, scoring="neg_log_loss"
        )
        for s in STRENGTHS
    ]
    # Probabilities of a normal score there are exact averages over masks here, and fits end earlier.
    np.testing.assert_allclose([one.losses for one in model.selection_.candidates], manual, atol=0.01)
    assert model.selection_.chosen.strength == STRENGTHS[np.argmin(np.mean(manual, axis=1))]
    alone = bd.DropoutLogisticRegression(model.selection_.chosen.rates).fit(X, y)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    assert alone.selection_ is None
    default = bd.DropoutLogisticRegression(C=1.0).fit(X, y)
    assert len(default.selection_.candidates) == 5


def test_a_dense_table_is_not_spoilt():
    """What the choice is for: a weak feature of a table speaks against its weight in nearly half of the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = X @ [1.0, 1.0, 1.0, 1.0, -1.0, -1.0] + 0.1 * rng.normal(size=300) > 0
    tuned, published = (bd.DropoutLogisticRegression(rates, C=1.0).fit(X, y) for rates in (None, bd.PerFeature()))
    found = tuned.selection_
    assert found.chosen.loss < found.rival(1.0).loss - 2 * found.rival(1.0).worse_error
    assert np.mean(tuned.rates_) < 0.5 * np.mean(published.rates_)
    text = str(found)
    assert "Chosen by the log loss of rows left out one at a time" in text
    assert "the full learnt noise" in text
    assert found.to_dataset()["loss"].sizes == {"candidate": 5, "fold": 1}


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True])
def test_sparse_blocks_and_dense_choose_alike(several):
    X, y = noisy()
    y = np.arange(len(y)) % 3 if several else y
    dense, thin, blocks = (
        bd.DropoutLogisticRegression(bd.Tuned(strengths=STRENGTHS, cv=3)).fit(rows, y)
        for rows in (X, sparse.csr_array(X), bd.Blocks([X[:50], X[50:]]))
    )
    for other in (thin, blocks):
        np.testing.assert_allclose(
            [one.losses for one in other.selection_.candidates],
            [one.losses for one in dense.selection_.candidates],
            atol=2e-3,
        )
    np.testing.assert_allclose(thin.coef_, dense.coef_, atol=1e-3)


def test_the_model_takes_it_as_the_estimator_does():
    X, y = noisy()
    rates = bd.Tuned(bd.Shared(), STRENGTHS, 3)
    fit, estimator = bd.fit(bd.Model(rates=rates), X, y), bd.DropoutLogisticRegression(rates).fit(X, y)
    np.testing.assert_allclose(fit.weight, estimator.coef_[0], rtol=1e-10)
    assert fit.model.rates == fit.selection.chosen.rates == estimator.selection_.chosen.rates
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * X[:, 0]))
    assert bd.fit(bd.Model(bd.Poisson(), rates=rates), X, counts).selection.scoring == "Poisson loss"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["softmax", "one_vs_rest"])
def test_many_classes(form):
    X, y = (np.delete(part, 142, axis=0) for part in load_iris(return_X_y=True))  # which is a row twice
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    options, folds = {"multiclass": form, "C": 1.0}, StratifiedKFold(3, shuffle=True, random_state=0)
    model = bd.DropoutLogisticRegression(bd.Tuned(strengths=STRENGTHS, cv=3), **options).fit(X, y)
    manual = [
        -cross_val_score(
            bd.DropoutLogisticRegression(scaled(bd.PerFeature(), s), **options), X, y, cv=folds, scoring="neg_log_loss"
        )
        for s in STRENGTHS
    ]
    tried = [STRENGTHS.index(one.strength) for one in model.selection_.candidates]
    assert len(tried) == 3
    np.testing.assert_allclose([one.losses for one in model.selection_.candidates], np.array(manual)[tried], atol=0.02)
    searched = bd.DropoutLogisticRegressionCV(
        [0.2, bd.PerFeature()], Cs=(1.0,), cv=3, scoring="neg_log_loss", multiclass=form
    )
    np.testing.assert_allclose(searched.fit(X, y).cv_results_["mean_test_score"][1], -np.mean(manual[0]), atol=1e-4)


def test_unlabelled_rows_are_in_every_fold():
    X, y = noisy()
    rates = bd.Tuned(strengths=STRENGTHS, cv=3)
    model = bd.DropoutLogisticRegression(rates, C=1.0).fit(X[::2], y[::2], unlabelled=X[1::2], unlabelled_weight=0.5)
    without = bd.DropoutLogisticRegression(rates, C=1.0).fit(X[::2], y[::2])
    mine, theirs = (np.array([one.losses for one in m.selection_.candidates]) for m in (model, without))
    assert np.abs(mine[:2] - theirs[:2]).max() > 1e-4
    # Without noise they say nothing, but that a fit with them ends elsewhere within the tolerance of a comparison.
    np.testing.assert_allclose(mine[2], theirs[2], atol=5e-3)


@pytest.mark.slow
def test_the_climb_finds_the_choice_of_the_complete_search():
    """Within a standard error, in pairs; and tries fewer candidates."""
    X, y = noisy(200)
    climbed = bd.DropoutLogisticRegressionCV(cv=4).fit(X, y)
    complete = bd.DropoutLogisticRegressionCV([scaled(bd.PerFeature(), s) for s in bd.Tuned().strengths], cv=4).fit(
        X, y
    )
    tried, all_of_them = (len(m.cv_results_["params"]) for m in (climbed, complete))
    assert all_of_them == 70
    assert tried < 35
    here = complete.cv_results_["params"].index(climbed.cv_results_["params"][climbed.best_index_])
    candidate = complete.selection_.candidates[here]
    assert candidate.worse <= candidate.worse_error + 1e-9


def test_a_first_fold_dismisses(monkeypatch):
    """With many rows what is clearly worse on a fold is not tried on others."""
    monkeypatch.setattr(Search, "rules", SearchRules(large=0))
    X, y = noisy(2000)
    model = bd.DropoutLogisticRegressionCV(Cs=(1e-4, 1.0)).fit(X, y)
    tried = [int(np.sum(~np.isnan(one.losses))) for one in model.selection_.candidates]
    assert min(tried) == 1
    assert tried[model.best_index_] == max(tried) <= 3
    assert model.cv_results_["rank_test_score"][model.best_index_] == 1
    assert model.n_splits_ == max(tried)


def test_ridge_search_is_that_of_scikit_learn():
    X, y = load_diabetes(return_X_y=True)
    X, Cs, folds = X / X.std(axis=0), np.array([0.01, 0.1, 1.0, 10.0]), KFold(4)
    ours = bd.DropoutRidgeCV([0.0], Cs=Cs, cv=folds, scoring="neg_mean_squared_error").fit(X, y)
    theirs = np.array([cross_val_score(Ridge(alpha=1 / C), X, y, cv=folds, scoring=ours.scoring) for C in Cs])
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.mean(axis=1), rtol=1e-6)
    assert ours.C_ == Cs[np.argmax(theirs.mean(axis=1))]
    own = bd.DropoutRidgeCV([0.0], Cs=Cs, cv=folds).fit(X, y)
    np.testing.assert_allclose(442 * 2 * own.cv_results_["mean_test_score"], theirs @ [111, 111, 110, 110], rtol=1e-6)
    assert "no noise" in str(own.selection_)
    tube = bd.DropoutSVRCV(Cs=(1.0, 10.0), cv=3).fit(X, y)
    assert tube.score(X, y) > 0.45
    assert clone(tube).get_params()["epsilon"] == 0.1


@pytest.mark.slow
def test_classes_with_few_rows_are_held_out_as_often_as_they_can():
    X, y = noisy(40)
    y = np.r_[["up"] * 3, ["down"] * 37]
    assert len(bd.DropoutSVC().fit(X, y).selection_.chosen.losses) == 5
    assert bd.DropoutSVCCV(Cs=(1.0,)).fit(X, y).n_splits_ == 5
    with pytest.warns(bd.SelectionWarning, match="cv: 3 rows of the rarest class allow 3 folds"):
        assert bd.DropoutSVCCV(Cs=(1.0,), scoring="neg_log_loss").fit(X, y).n_splits_ == 3
    with pytest.warns(bd.SelectionWarning, match="3 rows of the largest class allow 3 folds, which are used instead"):
        assert len(bd.DropoutSVC().fit(X[:6], np.tile(["up", "down"], 3)).selection_.chosen.losses) == 3
    y[1:3] = "down"
    with pytest.warns(bd.SelectionWarning, match="because cross-validation needs two rows.*the full learnt noise"):
        alone = bd.DropoutSVC().fit(X, y)
    assert alone.selection_ is None
    np.testing.assert_array_equal(alone.coef_, bd.DropoutSVC(bd.PerFeature()).fit(X, y).coef_)
    with pytest.raises(ValueError, match="cv: expected at least two rows of each of two classes.*DropoutSVC"):
        bd.DropoutSVCCV().fit(X, y)
    assert few_rows(True, rows_of(1)) is None


@pytest.mark.slow
@pytest.mark.parametrize("model", [bd.DropoutSVC(), bd.DropoutLogisticRegression()])
def test_a_row_that_is_all_of_its_class_is_fitted_and_not_held_out(model):
    X, _ = noisy(40)
    code = np.r_[0, 1, 1, np.tile([2, 3], 20)[:37]]
    for folds in (make_folds(5, rows_of(40, code)), make_folds("loo", rows_of(40, code))):
        held = np.concatenate([fold.test for fold in folds])
        assert sorted(held) == list(range(1, 40))
        for fold in folds:
            assert set(code[fold.count > 0]) == {0, 1, 2, 3}
            assert fold.alone or not np.any(fold.count[fold.test])
    assert model.fit(X, code).selection_.chosen.strength in bd.Tuned().strengths


def test_folds_that_will_not_do():
    X, y = noisy(30)
    code = np.repeat([0, 1], 15)
    with pytest.raises(ValueError, match="cv: fold 1 has training rows of 1 of 2 classes"):
        bd.DropoutSVCCV(cv=KFold(2)).fit(X, code)
    empty = PredefinedSplit(np.repeat([0, 1, 2], 10))
    weight = np.repeat([1.0, 1.0, 0.0], 10)
    with pytest.raises(ValueError, match="cv: fold 3 has no test row of some weight"):
        bd.DropoutSVCCV(cv=empty).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="cv: expected a number of folds, .loo., a splitter"):
        bd.DropoutLogisticRegression(bd.Tuned(cv=[(0, 1)])).fit(X, y)
    with pytest.raises(ValueError, match="cv: expected a number of folds, .loo., a splitter"):
        bd.DropoutSVCCV(cv=b"text").fit(X, y)
    with pytest.raises(ValueError, match="every row of class 1 has weight zero"):
        bd.DropoutSVCCV().fit(X, code, sample_weight=1.0 - code)
    assert isinstance(make_folds(2, rows_of(30))[0], Fold)


def test_where_there_are_no_folds_it_is_refused_with_advice():
    X, y = noisy(30)
    with pytest.raises(ValueError, match=r"bd.Tuned chooses .* by cross-validation of point fits.*bd.PerFeature\(\)"):
        bd.sample(bd.Model(rates=bd.Tuned()), X, y, draws=2, tune=2, progress=False)
    with pytest.raises(ValueError, match="bd.Tuned chooses"):
        bd.DropoutSVC(bd.Tuned()).partial_fit(X, y, classes=["down", "up"])
    with pytest.raises(ValueError, match="sign rule"):
        bd.DropoutRidge(bd.Tuned()).fit(X, np.arange(30.0))
    # The default of partial_fit, which sees no folds, is the published rule, and after a fit its choice.
    online = bd.DropoutSVC().partial_fit(X, y, classes=["down", "up"])
    assert online.rate_posterior_ is not None
    other = bd.DropoutSVC(bd.Tuned(strengths=(0.0,), cv=2)).fit(X, y)
    assert other.partial_fit(X, y).rates_.tolist() == [0.0] * 6


@pytest.mark.slow
def test_picture():
    from matplotlib import pyplot as plt

    X, y = noisy(60)
    one = bd.plots.selection(bd.DropoutSVC(bd.Tuned(strengths=STRENGTHS, cv=3), C=1.0).fit(X, y))
    assert one.get_xlabel().startswith("Strength")
    both = [bd.Tuned(bd.Shared(), strengths=STRENGTHS), bd.Tuned(strengths=STRENGTHS)]
    shapes = [
        ([0.3, 0.1, 0.2], "Dropout rate", [[0.1, 0.2, 0.3]]),
        (both, "Strength", [[0.0, 0.5, 1.0]] * 2),
        ([0.1, bd.PerFeature()], "Error", []),
    ]
    for rates, label, places in shapes:
        model = bd.DropoutSVCCV(rates, Cs=[1.0], cv=3).fit(X, y)
        ax = bd.plots.selection(model)
        losses = sorted(one.loss for one in model.selection_.candidates)
        assert ax.get_xlabel().startswith(label)
        lines = [container.lines[0].get_xydata() for container in ax.containers]
        if places:
            assert [sorted(set(line[:, 0])) for line in lines] == places
            assert set(np.concatenate(lines)[:, 1]) == set(losses)
        else:
            assert sorted(lines[0][:, 0]) == losses
            assert [text.get_text().split()[0] for text in ax.get_yticklabels()] == ["fixed", "learnt"]
    searched = bd.DropoutSVCCV(bd.Tuned(strengths=STRENGTHS), Cs=(0.1, 1.0), cv=3).fit(X, y)
    several = bd.plots.selection(searched)
    assert several.get_xscale() == "log"
    assert any("no noise" in text.get_text() for text in several.get_legend().get_texts())
    with pytest.raises(ValueError, match="this one has no such choice"):
        bd.plots.selection(bd.DropoutSVC(0.3).fit(X, y))
    plt.close("all")
