"""Fits that end where the noise vanishes on many rows: the optimum is that of another method, and the bound is one."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.energy import Energy
from bayesdrop.fitting.solvers.dual_problem import best_constant, lower_bound
from bayesdrop.fitting.solvers.interior_points import has_steps
from bayesdrop.fitting.solvers.state import SolverState, end_at_zero
from bayesdrop.moments import ScoreMoments

RATE, ROWS, COLUMNS = 0.9, 150, 25


def data(rare=0.15):
    """Few rows of one class; some columns that it has nearly for itself, which keep their weights."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(ROWS) < rare, 1.0, -1.0)
    X = rng.random((ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.2)
    X[:, :4] *= (y[:, None] > 0) | (rng.random((ROWS, 4)) < 0.02)
    return X, y


def energy(X, y, C, weight, intercept, rate=RATE):
    """The hinge of the augmentation bound with dropout noise of rows ``X`` on average, and a unit normal prior."""
    slack, var = 1 - y * (X @ weight + intercept), rate / (1 - rate) * X**2 @ weight**2
    return 0.5 * weight @ weight + 0.5 * C * np.sum(slack + np.sqrt(slack**2 + var))


def reweighted(X, y, C, rounds=1500, rate=RATE):
    """Weights by iterated least squares, each root below a quadratic: slow, but without smoothing or Newton steps."""
    whole = np.column_stack([X, np.ones(len(y))])
    theta = np.zeros(X.shape[1] + 1)
    for _ in range(rounds):
        slack, var = 1 - y * (whole @ theta), rate / (1 - rate) * X**2 @ theta[:-1] ** 2
        omega = 0.5 * C / np.maximum(np.sqrt(slack**2 + var), 1e-12)
        matrix = (whole.T * omega) @ whole
        matrix[np.diag_indices(X.shape[1])] += 1 + rate / (1 - rate) * omega @ X**2
        theta = np.linalg.solve(matrix, whole.T @ (y * (omega + 0.5 * C)))
    return theta[:-1], theta[-1]


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_the_optimum_is_that_of_reweighted_least_squares(C):
    X, y = data()
    fit = bd.fit(bd.Model(bd.Hinge(), rates=bd.Fixed(RATE), C=C), X, y, method=bd.Newton(tol=1e-7))
    assert not fit.status.is_unfinished
    X = (1 - RATE) * X
    found, best = energy(X, y, C, fit.weight, fit.intercept), energy(X, y, C, *reweighted(X, y, C))
    assert abs(found - best) <= 1e-6 * best


def problem(X, y, C):
    moments = ScoreMoments(as_design(X), bd.Dropout(), np.full((X.shape[1], 1), RATE), True)
    precision = np.append(np.ones(X.shape[1]), 0.0)[:, None]
    return Energy(moments, bd.Hinge(), y[:, None], np.full((len(y), 1), C), precision)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_bound_is_below_the_energy_wherever_it_is_taken(elsewhere):
    rng = np.random.default_rng(1)
    X, y = data()
    for C in (0.1, 1.0, 10.0):
        block = problem(X, y, C)
        least = bd.fit(bd.Model(bd.Hinge(), rates=bd.Fixed(RATE), C=C), X, y, method=bd.Newton(tol=1e-7))
        at = np.append(least.weight, least.intercept)[:, None]
        best = block.value(at, *block.moments.scores(at), np.zeros(1))
        for scale, smooth in itertools.product([1e-4, 1e-2, 1.0], [0.0, 1e-3, 0.1]):
            weights = at + scale * rng.normal(size=at.shape)
            bound = lower_bound(block, weights, *block.moments.scores(weights), np.array([smooth]), elsewhere)
            assert bound <= best * (1 + 1e-12)


def test_what_is_put_at_zero_is_put_there_by_the_bound_alone():
    """Of a wrong point nothing ends, however large its smoothing."""
    X, y = data()
    block = problem(X, y, 10.0)
    state = SolverState.at(block, np.append(np.full(COLUMNS, 1e-3), -1.0)[:, None], None)
    ended = end_at_zero(block, state, 1e-6 * state.value, 0 * state.value)
    assert ended is state


@pytest.mark.parametrize("loss", [bd.Hinge(margin=0.8), bd.EpsilonInsensitive(0.3), bd.Quantile(0.8)], ids=repr)
def test_the_best_constant_is_that_of_all_kinks(loss):
    rng = np.random.default_rng(2)
    y = np.where(rng.random((40, 3)) < [0.1, 0.5, 0.9], -1.0, 1.0) if loss.binary else rng.normal(size=(40, 3))
    weight = rng.integers(0, 3, size=(40, 1)).astype(float)
    moments = ScoreMoments(as_design(rng.normal(size=(40, 2))), bd.Dropout(), np.full((2, 1), 0.5), True)
    task = Energy(moments, loss, y, weight, np.array([[1.0], [1.0], [0.0]]))

    def cost(intercept):
        zero = np.zeros((3, 3))
        return task.value(zero, np.broadcast_to(intercept, (40, 3)), np.zeros((40, 3)), np.zeros(3))

    kinks = np.concatenate(task.kinks[0])
    least = np.min([cost(kink) for kink in kinks], axis=0)
    np.testing.assert_allclose(cost(best_constant(task)), least, rtol=1e-12)


def test_dense_rows_that_say_nothing_end_at_zero_weights_soon():
    """No column is zero in any row, so that no row's noise vanishes but where all weights do."""
    n, p, rate = 800, 20, 0.3
    rng, y = np.random.default_rng(0), np.where(np.arange(n) < 16, 1.0, -1.0)
    X = rng.normal(size=(n, p)) + 0.7 * rng.normal(size=p) * (y[:, None] > 0)
    fit = bd.fit(bd.Model(bd.Hinge(), rates=bd.Fixed(rate), C=1.0), X, y, method=bd.Newton(tol=1e-7))
    assert not np.any(fit.weight)
    assert (fit.status.name, fit.intercept) == ("ALL_ZERO", -1.0)
    assert fit.n_iter < 40
    best = energy((1 - rate) * X, y, 1.0, *reweighted((1 - rate) * X, y, 1.0, rate=rate), rate=rate)
    assert fit.objective_trace[-1] == energy(X, y, 1.0, fit.weight, fit.intercept) <= best * (1 + 1e-7)


def test_rows_of_other_processes_are_nobodys_to_sum(monkeypatch):
    """Where this process has some of the rows alone, bounds, zero weights and interior points would be of those."""
    X, y = np.random.default_rng(4).normal(size=(40, 3)), np.where(np.arange(40) % 2, 1.0, -1.0)
    whole = problem(X, y, 1.0)
    start = SolverState.at(whole, np.array([[0.3], [-0.2], [0.1], [0.0]]), None)
    scores = start.weights, start.mean, start.var, start.smoothing
    assert lower_bound(whole, *scores) is not None
    assert has_steps(replace(whole, moments=whole.moments.without_variance()))
    monkeypatch.setattr(whole.moments.design, "shape", (80, 3))
    assert not whole.has_all_rows
    assert lower_bound(whole, *scores) is None
    assert end_at_zero(whole, start, np.ones(1), np.zeros(1)) is start
    assert not has_steps(replace(whole, moments=whole.moments.without_variance()))


@pytest.mark.slow
@pytest.mark.parametrize("loss", [bd.Hinge(), bd.Hinge(expectation="gaussian"), bd.EpsilonInsensitive()], ids=repr)
def test_fits_end_on_both_sides_of_the_rate_at_which_weights_vanish(loss):
    """Rounding grew as the weights shrank: steps ended at max_iter, or at 0 where that is not the optimum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X @ [1, -0.5, 0.2] + 0.7 * rng.normal(size=60) > 0, 1.0, -1.0)

    def fit(rate):
        return bd.fit(bd.Model(loss, rates=bd.Fixed(rate)), X, y)

    low, high = 0.3, 0.9
    sizes = {rate: np.abs(fit(rate).weight).max() for rate in np.linspace(low, high, 13)}
    low = max(rate for rate, size in sizes.items() if size > 1e-3)
    high = min(rate for rate, size in sizes.items() if rate > low)
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if np.abs(fit(middle).weight).max() > 1e-6 else (low, middle)
    for gap in (0.01, 1e-3, 1e-4, 1e-6):
        before, after = fit(high - gap), fit(high + gap)
        assert before.status.name in ("CONVERGED", "ROUND_OFF", "ALL_ZERO")
        assert after.status.name == "ALL_ZERO"
        assert gap < 1e-5 or np.abs(before.weight).max() > 0.3 * gap


@pytest.mark.parametrize("loss", [bd.EpsilonInsensitive(0.1), bd.Quantile(0.5)], ids=["tube", "median"])
@pytest.mark.parametrize("shift", [1e6, 1e8, 1e10])
def test_responses_far_from_zero_keep_their_weights(loss, shift):
    """The energy at the start exceeds that of the optimum by far, and a share of it what the weights gain."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 0.5] + rng.normal(size=60)
    model = bd.Model(loss, rates=bd.Fixed(0.3))
    plain, moved = bd.fit(model, X, y), bd.fit(model, X, y + shift)
    np.testing.assert_allclose(moved.weight, plain.weight, atol=1e-4)
    if isinstance(loss, bd.EpsilonInsensitive):
        loose = bd.DropoutSVR(0.3, tol=1e-4)
        np.testing.assert_allclose(loose.fit(X, y + shift).coef_, loose.fit(X, y).coef_, atol=0.03)
