"""FDROP: the worst deletion by enumeration, the smoothing by its definition, optima by a quadratic program."""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from bayesdrop.baselines import FDROP
from bayesdrop.baselines.fdrop import WorstDeletion, top_sum
from bayesdrop.designs import as_design


def _data(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.8)
    y = np.where(X @ np.linspace(1, -0.5, p) + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def _deletions(p, most):
    return [list(subset) for size in range(most + 1) for subset in combinations(range(p), size)]


def _worst_losses(X, y, w, most):
    """Hinge losses under the worst of all deletions of at most so many features."""
    losses = []
    for subset in _deletions(X.shape[1], most):
        left = X.copy()
        left[:, subset] = 0.0
        losses.append(np.maximum(0.0, 1 - y * (left @ w[:-1] + w[-1])))
    return np.max(losses, axis=0)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("most", [0, 1, 2, 4, 6])
def test_loss_by_enumeration_of_the_deletions(storage, most):
    X, y = _data(15, 4)
    X[5] = 0.0
    rng = np.random.default_rng(1)
    weight = rng.random(15)
    total = WorstDeletion(as_design(storage(X)), y, weight, most)
    for _ in range(5):
        w = rng.normal(size=5)
        np.testing.assert_allclose(total(w, 0.0)[0], weight @ _worst_losses(X, y, w, min(most, 4)), rtol=1e-12)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("smoothing", [0.0, 0.05, 0.5])
def test_gradient_by_differences(storage, smoothing):
    """At a generic point; the smoothed loss has kinks in its slope, which central differences at 1e-6 miss."""
    X, y = _data(30, 6)
    w, h = np.random.default_rng(2).normal(size=7), 1e-6
    total = WorstDeletion(as_design(storage(X)), y, np.ones(30), 2)
    differences = [(total(w + h * e, smoothing)[0] - total(w - h * e, smoothing)[0]) / (2 * h) for e in np.eye(7)]
    np.testing.assert_allclose(total(w, smoothing)[1], differences, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("smoothing", [1e-6, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_smoothed_sum_is_its_definition(k, smoothing):
    """The maximiser is the projection of ``u/μ`` onto the capped simplex; ties and signs of all kinds."""
    rng = np.random.default_rng(3)
    u = np.vstack([rng.normal(size=(40, 5)), np.round(rng.normal(size=(40, 5))), np.ones((1, 5)), -np.ones((1, 5))])
    value, share = top_sum(u, k, smoothing)
    assert np.all((share >= 0) & (share <= 1))
    assert np.all(share.sum(axis=1) <= k * (1 + 1e-9))
    # A share is (u − θ)/μ, exact to ε|u|/μ; the value is stationary in it and exact to rounding.
    error = 1e-14 * np.max(np.abs(u)) ** 2 / smoothing + 1e-13
    np.testing.assert_allclose(value, (share * u - 0.5 * smoothing * share**2).sum(axis=1), rtol=0, atol=error)
    exact = np.sort(np.maximum(u, 0.0), axis=1)[:, -k:].sum(axis=1)
    assert np.all(value <= exact + 1e-12)
    assert np.all(value >= exact - 0.5 * smoothing * k - 1e-12)
    # Optimality: no vertex of the feasible set lies uphill of the maximiser.
    slope = u - smoothing * share
    best = np.sort(np.maximum(slope, 0.0), axis=1)[:, -k:].sum(axis=1)
    np.testing.assert_allclose((slope * share).sum(axis=1), best, rtol=0, atol=100 * error)


def _quadratic_program(X, y, C, most):
    """``½‖w‖² + C Σ ξ`` with a constraint for each row and deletion, over ``(w, b, ξ)``."""
    n, p = X.shape
    rows = []
    for i in range(n):
        for subset in _deletions(p, most):
            left = X[i].copy()
            left[subset] = 0.0
            rows.append(np.concatenate([y[i] * left, [y[i]], np.eye(n)[i]]))
    A = np.array(rows)
    penalty = np.concatenate([np.ones(p), np.zeros(n + 1)])
    linear = np.concatenate([np.zeros(p + 1), np.full(n, C)])
    result = minimize(
        lambda z: (0.5 * penalty @ (z * z) + linear @ z) / C,
        np.concatenate([np.zeros(p + 1), np.ones(n)]),
        jac=lambda z: (penalty * z + linear) / C,
        method="SLSQP",
        bounds=[(None, None)] * (p + 1) + [(0, None)] * n,
        constraints=[{"type": "ineq", "fun": lambda z: A @ z - 1, "jac": lambda z: A}],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert result.success
    return C * result.fun


@pytest.mark.parametrize("most", [0, 1, 2])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_the_minimum_is_that_of_the_quadratic_program(C, most):
    for seed in range(3):
        X, y = _data(10, 3, seed)
        model = FDROP(most, C=C).fit(X, y)
        w = np.append(model.coef_[0], model.intercept_)
        value = 0.5 * w[:-1] @ w[:-1] + C * _worst_losses(X, y, w, most).sum()
        np.testing.assert_allclose(model.objective_[0], value, rtol=1e-12)
        np.testing.assert_allclose(value, _quadratic_program(X, y, C, most), rtol=2e-5)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_lower_bound_is_one(fit_intercept, most):
    """At any weights and smoothing it is below the minimum; that it comes near is what ends every fit."""
    X, y = _data(30, 4)
    rng = np.random.default_rng(8)
    weight = rng.random(30)
    model = FDROP(most, C=0.5, fit_intercept=fit_intercept).fit(X, y, weight)
    total, least = WorstDeletion(as_design(X), y, weight, most), model.objective_[0]
    for smoothing in (1e-3, 0.1, 1.0):
        for _ in range(10):
            w = rng.normal(size=5) * ([1] * 4 + [fit_intercept])
            assert total.lower_bound(w, smoothing, 0.5, fit_intercept) <= least * (1 + 1e-12)


def test_row_weights_count_rows():
    X, y = _data(30, 4)
    weight = np.random.default_rng(9).integers(0, 3, size=30)
    weighted = FDROP(1).fit(X, y, weight).objective_
    repeated = FDROP(1).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).objective_
    np.testing.assert_allclose(weighted, repeated, rtol=2e-5)


@pytest.mark.slow
def test_sparse_equals_dense_and_classes_stand_alone():
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    X = np.where(np.abs(X - X.mean(axis=0)) < 0.3, 0.0, X - X.mean(axis=0))
    together = FDROP(C=0.1).fit(X, y)
    assert together.coef_.shape == (3, 4)
    np.testing.assert_allclose(FDROP(C=0.1).fit(sparse.csr_matrix(X), y).objective_, together.objective_, rtol=2e-5)
    for k in range(3):
        alone = FDROP(C=0.1).fit(X, y == k)
        np.testing.assert_allclose(alone.objective_[0], together.objective_[k], rtol=2e-5)
    score = together.decision_function(X)
    np.testing.assert_allclose(score, X @ together.coef_.T + together.intercept_)
    assert np.array_equal(together.predict(X), together.classes_[score.argmax(axis=1)])


def test_rows_of_very_different_lengths_take_little_room():
    from bayesdrop.baselines.fdrop import _padded

    rng = np.random.default_rng(5)
    lengths = np.concatenate([rng.integers(1, 8, size=200), [900, 1000]])
    X = np.zeros((202, 1000))
    for i, length in enumerate(lengths):
        X[i, rng.choice(1000, size=length, replace=False)] = rng.normal(size=length)
    blocks = list(_padded(as_design(sparse.csr_array(X))))
    assert sum(block.values.size for block in blocks) <= 2 * np.count_nonzero(X)
    again = np.zeros(X.shape)
    for block in blocks:
        np.add.at(again, (block.rows[:, None], block.columns), block.values)
    np.testing.assert_array_equal(again, X)


def test_too_few_iterations_warn():
    X, y = _data(20, 3)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        FDROP(max_iter=1).fit(X, y)
