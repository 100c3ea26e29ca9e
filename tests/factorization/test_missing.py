"""Missing entries: NaN or not stored, one answer; a sparse matrix stays sparse; a baseline that beats the means."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.factorization.entries import Observed

MF = bd.DropoutMatrixFactorization


def ratings(n=60, p=40, share=0.4, noise=0.1, seed=0):
    """Rank 2 about 3, and which of it is seen; no row or column is empty."""
    rng = np.random.default_rng(seed)
    X = 3 + rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) + noise * rng.normal(size=(n, p))
    seen = rng.random((n, p)) < share
    seen[np.arange(n), np.arange(n) % p] = True
    return X, seen


def stored(X, seen):
    return sparse.csr_array(sparse.coo_array((X[seen], np.nonzero(seen)), shape=X.shape))


def test_both_ways_agree_where_nothing_is_missing():
    """What entries state of their own is in ``test_solvers.py``."""
    X, _ = ratings()
    plain, marked = (MF(missing=missing).fit(X) for missing in (None, "nan"))
    np.testing.assert_array_equal(plain.components_, marked.components_)
    stored_all = MF(missing="zeros").fit(sparse.csr_array(X))
    np.testing.assert_allclose(stored_all.components_, plain.components_, atol=1e-9)
    for solver, steps in (("deterministic", 2000), ("stochastic", 300)):
        settings = {"n_components": 5, "solver": solver, "random_state": 0, "max_iter": steps}
        plain = MF(**settings).fit(X)
        other = MF(**settings, missing="zeros").fit(sparse.csr_array(X))
        np.testing.assert_allclose(other.singular_values_, plain.singular_values_, rtol=1e-5)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize(("solver", "steps"), [("deterministic", 3000), ("stochastic", 200)])
def test_not_stored_equals_nan(solver, steps, centre):
    X, seen = ratings()
    settings = {"solver": solver, "centre": centre, "max_iter": steps, "random_state": 0, "n_components": 4}
    marked = MF(**settings, missing="nan").fit(np.where(seen, X, np.nan))
    absent = MF(**settings, missing="zeros").fit(stored(X, seen))
    zeros = MF(**settings, missing="zeros").fit(np.where(seen, X, 0))
    for other, same in ((absent, stored(X, seen)), (zeros, np.where(seen, X, 0))):
        assert other.objective_ == pytest.approx(marked.objective_, rel=1e-6)
        np.testing.assert_allclose(other.singular_values_, marked.singular_values_, rtol=1e-4)
        scores = marked.transform(np.where(seen, X, np.nan)), other.transform(same)
        rows = marked.inverse_transform(scores[0]), other.inverse_transform(scores[1])
        np.testing.assert_allclose(rows[1], rows[0], atol=1e-2)
    assert np.isnan(absent.shrinkage_)
    if centre:
        np.testing.assert_allclose(marked.mean_, np.nanmean(np.where(seen, X, np.nan), axis=0), rtol=1e-12)
        np.testing.assert_allclose(absent.mean_, marked.mean_, rtol=1e-12)


def test_a_stored_zero_is_observed():
    X = sparse.csr_array((np.array([0.0, 1.0, 2.0]), (np.array([0, 0, 1]), np.array([0, 1, 0]))), shape=(2, 2))
    assert X.nnz == 3
    entries = Observed(X)
    assert entries.count == 3
    one = np.ones((2, 1))
    assert entries.objective(one, one, 0.5) == pytest.approx(1 + 0 + 1 + 3)


def test_entries_stored_in_parts_are_one():
    columns = np.array([0, 0, 1, 1, 0])
    parts = sparse.csr_array((np.array([1.0, 2.0, 3.0, 4.0, 5.0]), columns, np.array([0, 3, 4, 5])), shape=(3, 2))
    assert not parts.has_canonical_format
    for settings in ({}, {"missing": "zeros", "solver": "deterministic", "random_state": 0, "tol": 1e-4}):
        split, whole = MF(**settings).fit(parts), MF(**settings).fit(sparse.csr_array(parts.toarray()))
        np.testing.assert_allclose(split.singular_values_, whole.singular_values_, rtol=1e-9)
    assert parts.nnz == 5, "the input is as it was"


def test_new_rows_are_solved_over_their_observed_entries():
    X, seen = ratings()
    model = MF(4, solver="deterministic", missing="nan", centre=True, random_state=0).fit(np.where(seen, X, np.nan))
    row = np.full((2, 40), np.nan)
    row[0, :7] = X[3, :7]
    V, theta = model.loadings_[:7], model.retain_
    gram = V.T @ V + (1 - theta) / theta * np.diag(np.sum(V**2, axis=0))
    factor = np.linalg.solve(gram, V.T @ (row[0, :7] - model.mean_[:7]))
    filled = model.inverse_transform(model.transform(row))
    np.testing.assert_allclose(filled[0], model.mean_ + factor @ model.loadings_.T, atol=1e-8)
    np.testing.assert_allclose(filled[1], model.mean_, err_msg="nothing is known of the row")


@pytest.mark.parametrize("solver", ["deterministic", "stochastic"])
def test_unseen_entries_are_predicted(solver):
    X, seen = ratings()
    model = MF(6, retain=0.98, solver=solver, missing="nan", centre=True, random_state=0, tol=1e-6)
    filled = model.fit(np.where(seen, X, np.nan)).inverse_transform(model.transform(np.where(seen, X, np.nan)))
    error = np.sqrt(np.mean((filled - X)[~seen] ** 2))
    means = np.sqrt(np.mean((model.mean_ - X)[~seen] ** 2))
    assert error < 0.4 * means


@pytest.mark.parametrize("solver", ["closed_form", "deterministic", "stochastic"])
def test_a_sparse_matrix_is_never_made_dense(solver):
    rng = np.random.default_rng(4)
    n, p, count = 6000, 4000, 30_000
    rows = np.concatenate([np.arange(n), rng.integers(n, size=count)])
    columns = np.concatenate([np.arange(n) % p, rng.integers(p, size=count)])
    X = sparse.csr_array((np.ones(n + count) + rng.random(n + count), (rows, columns)), shape=(n, p))
    missing = None if solver == "closed_form" else "zeros"
    settings = {"retain": 0.5, "missing": missing, "tol": 1e-2, "random_state": 0}
    model = MF(5, solver=solver, **settings, max_iter=None if solver == "deterministic" else 20)
    tracemalloc.start()
    model.fit(X)
    model.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * p * 8 / 8, "a dense copy has eight times as many bytes"
