"""What small fits leave out changes nothing: each shortcut is held to the long way."""

from dataclasses import replace

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.fitting.solvers import state
from bayesdrop.fitting.solvers.state import SolverState
from bayesdrop.linalg.systems import factor, solved


def rows(seed=0, n=120, p=6):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, p))
    return X, np.where(X @ generator.normal(size=p) + generator.normal(size=n) > 0, 1.0, -1.0)


def test_factors_solve():
    X, _ = rows()
    matrix = X.T @ X + np.eye(6)
    right = np.arange(12.0).reshape(6, 2)
    np.testing.assert_allclose(solved(factor(matrix.copy()), right), np.linalg.solve(matrix, right), rtol=1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="3-th leading minor"):
        factor(np.diag([1.0, 1.0, -1.0]))


def test_a_changed_state_is_a_replaced_one():
    one = np.ones((2, 1))
    state = SolverState(one, one, one, one[0], one[0], one[0], one[0], None)
    other = state.changed(value=2 * one[0], smoothing=0 * one[0])
    expected = replace(state, value=2 * one[0], smoothing=0 * one[0])
    assert vars(other).keys() == vars(expected).keys()
    assert state.value == 1.0
    for name, part in vars(expected).items():
        np.testing.assert_array_equal(getattr(other, name), part)


def test_zero_weights_that_cannot_end_a_problem_need_no_bound(monkeypatch):
    X, y = rows(n=200)
    asked = []
    bound = state.lower_bound
    monkeypatch.setattr(state, "lower_bound", lambda *args, **options: asked.append(options) or bound(*args, **options))
    bd.fit(bd.Model(bd.Hinge(), rates=bd.Fixed(0.3)), X, y)
    assert not any(options for options in asked)
    assert bd.fit(bd.Model(bd.Hinge(), rates=bd.Fixed(0.9), C=1e-3), X, y).n_iter
    assert asked


def test_arrays_are_checked_as_lists_are():
    X, y = rows()
    for kind in (bd.DropoutLogisticRegression, bd.DropoutSVC, bd.DropoutSVR, bd.DropoutRidge):
        here, there = kind(0.3).fit(X, y), kind(0.3).fit(X.tolist(), y.tolist())
        np.testing.assert_array_equal(here.coef_, there.coef_)
        assert here.n_features_in_ == there.n_features_in_ == 6
        assert not hasattr(here, "feature_names_in_")
