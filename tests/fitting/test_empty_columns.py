"""Columns without an entry are left out of fits: the numbers of the others do not change, nor do those of the empty."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd

N, USED, P = 120, 6, 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, USED)) * (RNG.random((N, USED)) < 0.6)
Y = (X @ RNG.normal(size=USED) + RNG.logistic(size=N) > 0).astype(int)
MANY = np.digitize(X @ RNG.normal(size=USED) + RNG.logistic(size=N), [-0.7, 0.7])
WHERE = np.sort(RNG.choice(P, USED, replace=False))
STORAGES = {"dense": np.asarray, "sparse": sparse.csr_matrix}
FITS = {
    "fixed": (bd.Model(rates=bd.Fixed(0.3)), Y),
    "learnt": (bd.Model(rates=bd.PerFeature()), Y),
    "shared": (bd.Model(rates=bd.Shared()), Y),
    "tuned": (bd.Model(rates=bd.Tuned()), Y),
    "relative": (bd.Model(rates=bd.Fixed(0.3), weight_prior=bd.Normal(2.0, relative=True)), Y),
    "hinge": (bd.Model(bd.Hinge(), rates=bd.PerFeature()), Y),
    "softmax": (bd.Model(bd.Softmax(), rates=bd.PerFeature()), MANY),
    "numbers": (bd.Model(bd.Squared(), rates=bd.Fixed(0.2)), X @ np.ones(USED)),
}
ESTIMATORS = {
    "logistic": (bd.DropoutLogisticRegression(), Y),
    "one against the rest": (bd.DropoutLogisticRegression(bd.PerFeature(), multiclass="one_vs_rest"), MANY),
    "svm": (bd.DropoutSVC(), Y),
    "ridge": (bd.DropoutRidge(0.2), X @ np.ones(USED)),
}


def wide(storage, shift=0.0):
    whole = np.zeros((N, P))
    whole[:, WHERE] = X + shift
    return STORAGES[storage](whole)


@pytest.mark.slow_cases("numbers")
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", FITS)
def test_a_fit_is_that_of_the_used_columns(case, storage):
    model, y = FITS[case]
    whole = bd.fit(model, wide(storage), y)
    # One empty column stays, whose results are those of all.
    used = bd.fit(model, STORAGES[storage](np.column_stack([X, np.zeros(N)])), y)
    weight, rates = np.atleast_2d(whole.weight), np.atleast_2d(whole.rates)
    np.testing.assert_allclose(weight[:, WHERE], np.atleast_2d(used.weight)[:, :-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rates[:, WHERE], np.atleast_2d(used.rates)[:, :-1], rtol=1e-12)
    empty = np.setdiff1d(np.arange(P), WHERE)
    assert not np.any(weight[:, empty])
    np.testing.assert_allclose(
        rates[:, empty], np.broadcast_to(np.atleast_2d(used.rates)[:, -1:], (len(rates), len(empty)))
    )
    assert (whole.n_iter, whole.status, len(whole.feature_names)) == (used.n_iter, used.status, P)
    if whole.rate_posterior is not None and whole.rate_posterior.dim == "feature":
        assert len(whole.rate_posterior.names) == P
        assert not np.any(np.asarray(whole.rate_posterior.occurrences)[empty])
        np.testing.assert_allclose(
            whole.rate_posterior.interval()[0][WHERE], used.rate_posterior.interval()[0][:-1], rtol=1e-9
        )
    np.testing.assert_allclose(whole.predict(wide(storage)).mean, used.predict(np.column_stack([X, 0 * X[:, :1]])).mean)


@pytest.mark.slow_cases("svm")
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ESTIMATORS)
def test_an_estimator_is_that_of_the_used_columns(case, storage):
    from sklearn.base import clone

    estimator, y = ESTIMATORS[case]
    whole = clone(estimator).fit(wide(storage), y)
    used = clone(estimator).fit(STORAGES[storage](np.column_stack([X, np.zeros(N)])), y)
    coef, rates = np.atleast_2d(whole.coef_), np.atleast_2d(whole.rates_)
    np.testing.assert_allclose(coef[:, WHERE], np.atleast_2d(used.coef_)[:, :-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rates[:, WHERE], np.atleast_2d(used.rates_)[:, :-1], rtol=1e-12)
    assert (whole.n_features_in_, whole.n_iter_) == (P, used.n_iter_)
    again = whole.set_params(warm_start=True).fit(wide(storage), y) if hasattr(whole, "warm_start") else whole
    np.testing.assert_allclose(np.atleast_2d(again.coef_), coef, atol=1e-3)


@pytest.mark.parametrize("case", ["learnt", "tuned", "softmax"])
def test_the_solver_is_chosen_by_the_used_columns(case):
    """Of 2²⁰ hashed columns a fit took 32 times as long as of the 23,000 used ones."""
    model, y = FITS[case]
    huge = sparse.csr_matrix(X)
    huge = sparse.csr_matrix((huge.data, 5000 * huge.indices, huge.indptr), (N, 30_000))
    whole = bd.fit(model, huge, y)
    used = bd.fit(model, sparse.csr_matrix(np.column_stack([X, np.zeros(N)])), y)
    assert whole.solver == used.solver
    np.testing.assert_allclose(np.atleast_2d(whole.weight)[:, ::5000], np.atleast_2d(used.weight)[:, :-1], rtol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_settings_of_each_column_keep_their_columns(shift):
    rates, scale = RNG.random(P) * 0.5, 1 + RNG.random(P)
    for model in (
        bd.Model(rates=bd.Fixed(rates)),
        bd.Model(rates=bd.Fixed(0.2), weight_prior=bd.Normal(scale)),
        bd.Model(rates=bd.PerGroup([*"ab"] * (P // 2))),
    ):
        fits = [bd.fit(model, wide(storage, shift), Y, method=bd.Newton(1e-12)) for storage in STORAGES]
        np.testing.assert_allclose(fits[0].weight, fits[1].weight, rtol=1e-6, atol=1e-9)
        assert fits[0].model.weight_prior == model.weight_prior or shift
    one = bd.fit(
        bd.Model(rates=bd.Fixed(0.2), weight_prior=bd.Normal(scale)), wide("dense"), Y, method=bd.Newton(1e-12)
    )
    part = bd.fit(bd.Model(rates=bd.Fixed(0.2), weight_prior=bd.Normal(scale[WHERE])), X, Y, method=bd.Newton(1e-12))
    np.testing.assert_allclose(one.weight[WHERE], part.weight, rtol=1e-6)


def test_a_fit_without_noise_keeps_its_covariance():
    """Weights of empty columns have the variance of their prior."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(50, 2)), np.zeros((50, 3))])
    y = (X[:, 0] + rng.normal(size=50) > 0).astype(int)
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Normal(0.7))
    whole, few = bd.fit(model, X, y).covariance, bd.fit(model, X[:, :2], y).covariance
    np.testing.assert_allclose(whole[np.ix_([0, 1, 5], [0, 1, 5])], few, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(whole.diagonal()[2:5], 0.49, rtol=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["logistic", "svm", "ridge", "given"])
def test_a_search_is_that_of_the_used_columns(case, storage, monkeypatch):
    """The same table of losses and the same choice, from blocks of the used columns and one empty one alone."""
    from bayesdrop.fitting.tuning.blocks import BlockSolver

    make, y = {
        "logistic": (bd.DropoutLogisticRegressionCV, Y),
        "svm": (bd.DropoutSVCCV, Y),
        "ridge": (bd.DropoutRidgeCV, X @ np.ones(USED)),
        "given": (lambda **options: bd.DropoutLogisticRegressionCV([0.2, bd.PerFeature()], **options), Y),
    }[case]
    used = make(Cs=(0.1, 1.0), cv=3).fit(STORAGES[storage](np.column_stack([X, np.zeros(N)])), y)
    solve, widths = BlockSolver.solve, []

    def watched(self, *arguments):
        widths.append(self.task.design.shape[1])
        return solve(self, *arguments)

    monkeypatch.setattr(BlockSolver, "solve", watched)
    whole = make(Cs=(0.1, 1.0), cv=3).fit(wide(storage), y)
    assert set(widths) == {USED + 1}
    for mine, theirs in zip(whole.selection_.candidates, used.selection_.candidates, strict=True):
        np.testing.assert_allclose(mine.losses, theirs.losses, rtol=1e-9)
    assert (whole.C_, whole.n_features_in_, whole.coef_.shape[-1]) == (used.C_, P, P)
    np.testing.assert_allclose(np.ravel(whole.coef_)[WHERE], np.ravel(used.coef_)[:-1], rtol=1e-9, atol=1e-12)


def test_candidates_of_each_column_keep_their_columns():
    rates = bd.Fixed(RNG.random(P) * 0.5)
    search = bd.DropoutLogisticRegressionCV([0.2, rates], Cs=(1.0,), cv=3).fit(wide("dense"), Y)
    assert len(search.selection_.candidates) == 2
