"""Rates that follow the weights of piecewise-linear losses: the rule's fixed point."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd

P = 40
GROUPS = ["a"] * 15 + ["b"] * (P - 15)
STRUCTURES = [bd.PerFeature(bd.Beta(2, 2)), bd.Shared(), bd.PerGroup(GROUPS, bd.Beta(1, 3))]


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
def test_a_fit_ends_at_a_fixed_point_of_the_rule(structure, classes, C):
    """The rates are what the signs of the weights say, entry by entry, and the weights are the optimum at the rates."""
    X, code = words(classes=classes)
    sample_weight = np.random.default_rng(5).random(len(code)) + 0.5
    fit = bd.DropoutSVC(structure, C=C, tol=1e-9).fit(sparse.csr_array(X), code, sample_weight=sample_weight)
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
