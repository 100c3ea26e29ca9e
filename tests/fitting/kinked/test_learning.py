"""Rates that follow the weights within the rounds of the dual: the rule's fixed point, and that of Newton's method."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.kinked import dual, dual_rounds
from bayesdrop.fitting.kinked.problem import KinkedProblem
from bayesdrop.fitting.minimisers import newton
from bayesdrop.fitting.objective.energy import Energy
from bayesdrop.moments import ScoreMoments

P = 40
GROUPS = ["a"] * 15 + ["b"] * (P - 15)
STRUCTURES = [bd.PerFeature(bd.Beta(2, 2)), bd.Shared(), bd.PerGroup(GROUPS, bd.Beta(1, 3))]


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """The dual pays at no fewer entries, and at any noise."""
    pytest.importorskip("numba")
    monkeypatch.setattr(dual, "_WORTHWHILE", 0)
    monkeypatch.setattr(dual, "_HEAVY_OF_FEW", (np.inf, np.inf))


def words(n=150, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    code = np.arange(n) % classes
    X = rng.poisson(0.15 + 0.6 * (np.arange(P) % classes == code[:, None]), size=(n, P)).astype(float)
    X[:, -3:] *= rng.choice([-1.0, 1.0], size=(n, 3))
    X[7] = 0.0
    return X, code


def opposed_and_all(X, y, weight, sample_weight, ratio):
    """What speaks against each weight and what occurs, weighed, of one class against the rest."""
    s = np.where(y > 0, 1.0, ratio) * sample_weight
    against = s @ ((y[:, None] * X * weight) < 0)
    # A weight of zero has no sign: half of what occurs counts each way.
    occurs = s @ (X != 0)
    return np.where(weight == 0, 0.5 * occurs, against), occurs


def places(structure):
    """The free rate of each feature, (P,)."""
    if isinstance(structure, bd.PerGroup):
        return np.unique(GROUPS, return_inverse=True)[1]
    return np.arange(P) if isinstance(structure, bd.PerFeature) else np.zeros(P, dtype=int)


@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("C", [0.1, 3.0])
def test_dual_ends_at_a_fixed_point_of_the_rule(structure, classes, C):
    """The rates are what the signs of the weights say, entry by entry, and the weights are the optimum at the rates."""
    X, code = words(classes=classes)
    sample_weight = np.random.default_rng(5).random(len(code)) + 0.5
    fit = bd.DropoutSVC(structure, C=C, tol=1e-9).fit(sparse.csr_array(X), code, sample_weight=sample_weight)
    assert fit.n_iter_ == 1, "the dual alone should have ended"
    place = places(structure)
    prior, objectives = structure.prior, np.atleast_2d(fit.objective_trace_.T)[:, -1]
    for k, (weight, rate) in enumerate(zip(fit.coef_, np.atleast_2d(fit.rates_), strict=True)):
        y = np.where(code == (1 if classes == 2 else k), 1.0, -1.0)
        ratio = 1.0 if classes == 2 else sample_weight[y > 0].sum() / sample_weight[y < 0].sum()
        opposed, occurs = (np.bincount(place, part) for part in opposed_and_all(X, y, weight, sample_weight, ratio))
        expected = (opposed + prior.a - 1) / (occurs + prior.a + prior.b - 2)
        np.testing.assert_allclose(rate, expected[place], rtol=1e-12)
        fixed = bd.Model(bd.Hinge(), rates=bd.Fixed(rate), C=C)
        there = bd.fit(fixed, sparse.csr_array(X), y, sample_weight=sample_weight, method=bd.Newton(tol=1e-10))
        best = there.objective_trace[-1]
        assert -1e-10 * best <= objectives[k] - best <= 2e-9 * best


@pytest.mark.parametrize("classes", [2, 5])
def test_dual_and_newton_have_one_fixed_point(classes, monkeypatch):
    X, code = words(classes=classes, seed=1)
    estimator = bd.DropoutSVC(STRUCTURES[0], tol=1e-10)
    here = clone(estimator).fit(sparse.csr_array(X), code)
    monkeypatch.setattr(newton, "solve_dual", lambda *given: None)
    there = clone(estimator).fit(sparse.csr_array(X), code)
    assert here.n_iter_ == 1 < there.n_iter_
    np.testing.assert_allclose(here.rates_, there.rates_, rtol=1e-12)
    np.testing.assert_allclose(here.objective_trace_[-1], there.objective_trace_[-1], rtol=2e-10)


@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_a_loose_fit_has_the_rates_of_its_signs(structure, C):
    """It may end before the signs stand: with the rates of those that it has, and an energy within the tolerance."""
    X, code = words(seed=4)
    tol, y = 1e-3, np.where(code == 1, 1.0, -1.0)
    fit = bd.DropoutSVC(structure, C=C, tol=tol).fit(sparse.csr_array(X), code)
    assert fit.n_iter_ == 1
    place = places(structure)
    opposed, occurs = (np.bincount(place, part) for part in opposed_and_all(X, y, fit.coef_[0], np.ones(len(y)), 1.0))
    expected = (opposed + structure.prior.a - 1) / (occurs + structure.prior.a + structure.prior.b - 2)
    np.testing.assert_allclose(fit.rates_, expected[place], rtol=1e-12)
    best = bd.DropoutSVC(bd.Fixed(fit.rates_), C=C, tol=1e-10).fit(sparse.csr_array(X), code).objective_trace_[-1]
    assert 0 <= fit.objective_trace_[-1] - best <= tol * best


def test_what_few_rounds_leave_newton_ends(monkeypatch):
    """The rates go on from where they were, and a problem whose rates have just changed is not taken to have ended."""
    X, code = words(classes=5, seed=2)
    estimator = bd.DropoutSVC(STRUCTURES[0], tol=1e-9)
    whole = clone(estimator).fit(sparse.csr_array(X), code)
    found = []
    descend = dual_rounds.descend

    def short(task, rows, begun, tol, most, follow):
        found.append(descend(task, rows, begun, tol, 6, follow))
        return found[-1]

    monkeypatch.setattr(dual, "descend", short)
    fit = clone(estimator).fit(sparse.csr_array(X), code)
    assert np.any(found[0].gap > 1e-9 * whole.objective_trace_[-1])
    assert fit.n_iter_ > 1
    np.testing.assert_allclose(fit.rates_, whole.rates_, rtol=1e-12)
    np.testing.assert_allclose(fit.objective_trace_[-1], whole.objective_trace_[-1], rtol=2e-9)


def energy_of(X, code, rate):
    y = np.where(code == 1, 1.0, -1.0)[:, None]
    moments = ScoreMoments(as_design(sparse.csr_array(X)), bd.Dropout(), np.full((P, 1), rate), True)
    return Energy(moments, bd.Hinge(), y, np.ones_like(y), np.append(np.linspace(0.5, 2, P), 0.0)[:, None])


def test_near_is_not_the_end_where_the_rates_have_just_changed():
    X, code = words()
    first, second = (energy_of(X, code, rate) for rate in (0.2, 0.3))
    task, tol, seen = KinkedProblem.of(first, slice(0, 1)), 1e-6, []

    def follow(weights, near, value):
        seen.append(bool(near[0]))
        return (np.ones(1, dtype=bool), task.at(second)) if sum(seen) == 1 and near[0] else None

    found = dual_rounds.descend(task, dual._rows_of(first), np.zeros((P + 1, 1)), tol, 1000, follow)
    assert sum(seen) == 2
    alone = dual.solve_dual(second, np.zeros((P + 1, 1)), 1e-10)
    here, best = dual._value(second, found.weights), dual._value(second, alone.weights)
    assert -1e-10 * best <= here - best <= found.gap <= tol * here


def test_a_problem_at_other_rates_is_that_of_its_energy():
    X, code = words()
    first, second = (energy_of(X, code, rate) for rate in (0.2, 0.6))
    moved, made = KinkedProblem.of(first, slice(0, 1)).at(second), KinkedProblem.of(second, slice(0, 1))
    for name, part in made._asdict().items():
        if isinstance(part, np.ndarray):
            np.testing.assert_array_equal(getattr(moved, name), part, err_msg=name)
