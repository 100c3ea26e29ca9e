"""Classifiers with a hidden layer: scikit-learn's manners, and what noise and rates do."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning

import bayesdrop as bd

BOTH = [bd.LatentDropoutSVC, bd.LatentDropoutLogisticRegression]


def moons(n=200):
    X, y = make_moons(n, noise=0.15, random_state=0)
    return X, np.array(["left", "right"])[y]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("bound", ["augmentation", "gaussian"])
def test_it_separates_what_no_line_does(kind, bound):
    X, y = moons()
    model = kind(0.02, n_hidden=8, C=10.0, expectation=bound, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.97
    assert model.hidden_coef_.shape == (8, 2)
    assert model.coef_.shape == (1, 8)
    chance = model.predict_proba(X)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    assert np.array_equal(model.classes_[chance.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(expit(model.decision_function(X)), chance[:, 1], rtol=1e-6)
    np.testing.assert_allclose(expit(-model.decision_function(X)), chance[:, 0], rtol=1e-6, atol=1e-14)
    quiet = model.set_params(corrupted_inputs=True)
    scores = quiet.transform(X) @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(quiet.predict_proba(X)[:, 1], model._loss().probability(scores, model.C), rtol=1e-6)
    names = model.get_feature_names_out()
    assert len(names) == 8
    assert names[0] == f"{kind.__name__.lower()}0"


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("options", [{"rates": 0.3}, {"rates": bd.PerFeature()}])
def test_sparse_is_dense(kind, options):
    """After few steps: rounding differs, the way down is chaotic, and the ends have nothing to say."""
    X, y = load_iris(return_X_y=True)
    X = np.where(X > 1, X, 0.0)
    extra = {"multiclass": "one_vs_rest"} if kind is bd.LatentDropoutLogisticRegression else {}
    model = kind(n_hidden=3, n_init=1, tol=1e-9, max_iter=2, random_state=0, **options, **extra)
    with np.errstate(all="raise"), pytest.warns(ConvergenceWarning):
        dense, thin = clone(model).fit(X, y), clone(model).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.objective_trace_, thin.objective_trace_, rtol=1e-8)
    np.testing.assert_allclose(dense.coef_, thin.coef_, rtol=1e-6)
    np.testing.assert_allclose(dense.decision_function(sparse.csr_array(X)), dense.decision_function(X), rtol=1e-10)
    np.testing.assert_allclose(dense.rates_, thin.rates_, rtol=1e-12)


def test_softmax_and_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for multiclass, rates in (("softmax", 0.1), ("one_vs_rest", 0.1), ("one_vs_rest", bd.PerFeature(bd.Beta(1, 9)))):
        model = bd.LatentDropoutLogisticRegression(rates, n_hidden=4, C=5.0, multiclass=multiclass, random_state=0)
        assert model.fit(X, y).score(X, y) > 0.96
        assert model.coef_.shape == (3, 4)
        assert model.decision_function(X).shape == (150, 3)
    assert model.rate_posterior_.names == ["x0", "x1", "x2", "x3"]
    assert np.all((model.rates_ > 0) & (model.rates_ < 1))
    with pytest.raises(ValueError, match="multiclass"):
        bd.LatentDropoutLogisticRegression(bd.PerFeature()).fit(X, y)


def test_seeds_starts_and_warm_starts():
    X, y = moons()
    model = bd.LatentDropoutSVC(0.1, n_hidden=3, n_init=1, random_state=1)
    first, again = clone(model).fit(X, y), clone(model).fit(X, y)
    np.testing.assert_array_equal(first.coef_, again.coef_)
    other = clone(model).set_params(random_state=2).fit(X, y)
    assert not np.allclose(first.coef_, other.coef_)
    many = clone(model).set_params(n_init=8).fit(X, y)
    assert many.objective_trace_[-1] <= first.objective_trace_[-1] * 1.05
    warm = clone(model).set_params(warm_start=True).fit(X, y)
    steps = warm.n_iter_
    assert warm.fit(X, y).n_iter_ < steps


def test_corrupted_rows_are_taken_as_they_are():
    X, y = moons()
    model = bd.LatentDropoutLogisticRegression(0.4, n_hidden=4, random_state=0).fit(X, y)
    mean, _ = model._scores(X)
    model.corrupted_inputs = True
    np.testing.assert_allclose(model.decision_function(0.6 * X), mean[:, 0], rtol=1e-8)


@pytest.mark.parametrize("method", [bd.Alternating(), bd.LBFGS(tol=1e-4)])
def test_methods_fit(method):
    X, y = moons()
    model = bd.LatentDropoutSVC(0.02, n_hidden=8, C=10.0, method=method, n_init=1, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.93


@pytest.mark.parametrize("labels", [2, 3])
def test_dask_arrays_are_taken_by_every_prediction(labels):
    """Lazy, a block at a time, and equal to the same rows in memory."""
    import dask.array as da

    X, y = moons()
    y = y if labels == 2 else np.arange(len(y)) % 3
    model = bd.LatentDropoutLogisticRegression(0.1, n_hidden=3, n_init=1, tol=1e-2, random_state=0).fit(X, y)
    rows = da.from_array(X[:20], chunks=(7, -1))
    for name in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        lazy = getattr(model, name)(rows)
        assert isinstance(lazy, da.Array)
        found, expected = lazy.compute(scheduler="synchronous"), getattr(model, name)(X[:20])
        if name == "predict":
            np.testing.assert_array_equal(found, expected)
        else:  # products of fewer rows may be summed in another order
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
