"""The learnt rates: the counts, the fixed point, the start, the structures."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.solvers.learning import SignCounts

LOSSES = [bd.Hinge(), bd.Logistic()]


def data(n=120, p=15, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.5)
    y = np.where(X[:, :4].sum(axis=1) + rng.normal(size=n) > 0.4, 1, 0)
    return X, y


def counts(X, y, weight, s):
    """The counts of the rule, entry by entry."""
    occur, opposed = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for i in range(len(y)):
        for d in range(X.shape[1]):
            occur[d] += s[i] * (X[i, d] != 0)
            opposed[d] += s[i] * (y[i] * weight[d] * X[i, d] < 0)
    return occur, opposed


# Priors, and their modes and strengths from how often each feature occurs; one of all features, or one of each.
MODES, SIZES = np.linspace(0.1, 0.9, 15), np.append(0.0, np.geomspace(0.1, 1e5, 14))
PRIORS = {
    "flat": (bd.Beta(1, 1), 0.5, lambda occur: 0.0),
    "given": (bd.Beta(2, 5), 0.2, lambda occur: 5.0),
    "each": (bd.Beta.from_mode(MODES, strength=SIZES), MODES, lambda occur: SIZES),
    "relative": (bd.Beta.from_mode(0.2, relative_strength=0.5), 0.2, lambda occur: 0.5 * occur),
    "relative, each": (bd.Beta.from_mode(MODES, relative_strength=SIZES), MODES, lambda occur: SIZES * occur),
}


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("ratio", [False, True])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_rates_are_a_fixed_point_of_the_rule(loss, prior, ratio, storage):
    (prior, mode, strength_of), (X, y) = PRIORS[prior], data()
    weight = np.random.default_rng(1).random(len(y)) + 0.5
    fit = bd.fit(bd.Model(loss, rates=bd.PerFeature(prior, class_ratio=ratio)), storage(X), y, sample_weight=weight)
    assert fit.status.name == "CONVERGED"
    sign = 2.0 * y - 1
    s = weight.copy()
    if ratio:
        s[y == 0] *= weight[y == 1].sum() / weight[y == 0].sum()
    occur, opposed = counts(X, sign, fit.weight, s)
    strength = strength_of(occur)
    np.testing.assert_allclose(fit.rates, (opposed + mode * strength) / (occur + strength), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fit.rate_posterior.law.a, 1 + mode * strength + opposed)
    np.testing.assert_allclose(fit.rate_posterior.law.b, 1 + (1 - mode) * strength + occur - opposed)
    # Given the rates, the weights are the optimum of the convex energy.
    at_rates = bd.fit(bd.Model(loss, rates=bd.Fixed(fit.rates)), X, y, sample_weight=weight)
    assert fit.objective_trace[-1] == pytest.approx(at_rates.objective_trace[-1], rel=2e-8)


@pytest.mark.parametrize("method", [bd.Newton, bd.EM])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_loose_fit_has_the_rates_of_its_signs(method, C, storage):
    """It may end before the signs stand: with the rates of those that it has, and an energy within the tolerance."""
    X, y = data(p=60, seed=3)
    tol = 1e-3
    model = bd.Model(bd.Logistic(), rates=bd.PerFeature(bd.Beta(2, 2)), C=C)
    fit = bd.fit(model, storage(X), y, method=method(tol=tol))
    occur, opposed = counts(X, 2.0 * y - 1, fit.weight, np.ones(len(y)))
    np.testing.assert_allclose(fit.rates, (opposed + 1) / (occur + 2), rtol=1e-12)
    at_rates = bd.Model(bd.Logistic(), rates=bd.Fixed(fit.rates), C=C)
    best = bd.fit(at_rates, X, y, method=bd.Newton(tol=1e-12)).objective_trace[-1]
    assert 0 <= fit.objective_trace[-1] - best <= tol * best


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("method", [bd.Newton(tol=1e-12), bd.EM(tol=1e-12, max_iter=20_000)], ids=["newton", "em"])
def test_the_start_does_not_matter(loss, method):
    X, y = data(seed=2)
    fits = [bd.fit(bd.Model(loss, rates=bd.PerFeature(start=start)), X, y, method=method) for start in (0.1, 0.5, 0.9)]
    for other in fits[1:]:
        np.testing.assert_allclose(other.rates, fits[0].rates, atol=1e-12)
        np.testing.assert_allclose(other.weight, fits[0].weight, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_groups_pool_and_a_shared_rate_is_one_group(loss):
    X, y = data(seed=3)
    groups, mode, size = np.repeat([0, 1], [5, 10]), np.array([0.2, 0.6]), np.array([0.5, 4.0])
    for options in ({"strength": 30 * size}, {"relative_strength": size}):
        prior = bd.Beta.from_mode(mode, **options)
        fit = bd.fit(bd.Model(loss, rates=bd.PerGroup(["a"] * 5 + ["b"] * 10, prior)), X, y)
        found = counts(X, 2.0 * y - 1, fit.weight, np.ones(len(y)))
        occur, opposed = (np.bincount(groups, part) for part in found)
        strength = options.get("strength", size * occur)
        expected = (opposed + mode * strength) / (occur + strength)
        np.testing.assert_allclose(fit.rates, expected[groups], rtol=1e-12)
        assert fit.rate_posterior.names == ["a", "b"]
    shared = bd.fit(bd.Model(loss, rates=bd.Shared()), X, y)
    grouped = bd.fit(bd.Model(loss, rates=bd.PerGroup(["all"] * 15)), X, y)
    np.testing.assert_allclose(shared.rates, grouped.rates, rtol=1e-12)
    singles = bd.fit(bd.Model(loss, rates=bd.PerGroup([f"x{d}" for d in range(15)])), X, y)
    each = bd.fit(bd.Model(loss, rates=bd.PerFeature()), X, y)
    np.testing.assert_allclose(singles.rates, each.rates, atol=1e-12)


@pytest.mark.parametrize(
    ("prior", "expected"), [(bd.Beta(1, 1), 0.5), (bd.Beta(2, 4), 0.25), (bd.Beta.from_mode(0.2, strength=8), 0.2)]
)
def test_a_feature_that_never_occurs_takes_its_priors_mode(prior, expected):
    X, y = data(seed=4)
    X[:, 3] = 0
    fit = bd.fit(bd.Model(rates=bd.PerFeature(prior)), X, y)
    assert fit.rates[3] == pytest.approx(expected)
    assert fit.rate_posterior.never_seen == ["x3"]
    assert fit.weight[3] == 0
    assert "never seen" in str(fit)
    assert np.all(np.isfinite(fit.rates))


def test_a_sign_that_keeps_changing_becomes_undecided():
    X, y = data()
    rate_map = bd.PerFeature().bind([f"x{d}" for d in range(15)])
    learner = SignCounts.of_votes(as_design(X), (y[:, None] > 0, y[:, None] == 0), np.ones((120, 1))).learner(
        rate_map, many=False
    )
    settled = np.array([True])
    weights = np.ones((15, 1))
    learner.observe(weights, settled, np.zeros(1))
    for _ in range(10):
        weights[0] *= -1
        moved = learner.observe(weights, settled, np.zeros(1))
    assert not moved[0]
    assert learner.undecided[0, 0]
    assert learner.undecided.sum() == 1
    total = learner.agree[0, 0] + learner.against[0, 0]
    assert learner.rates()[0, 0] == pytest.approx(0.5 * total / total)


def test_class_ratio_is_the_default_only_in_one_vs_rest():
    X, _ = data(n=200, seed=6)
    y = np.digitize(X[:, 0] + X[:, 1], [-0.5, 1.0])
    estimator = partial(bd.DropoutLogisticRegression, multiclass="one_vs_rest")
    default = estimator(bd.PerFeature()).fit(X, y)
    on = estimator(bd.PerFeature(class_ratio=True)).fit(X, y)
    off = estimator(bd.PerFeature(class_ratio=False)).fit(X, y)
    np.testing.assert_array_equal(default.rates_, on.rates_)
    assert not np.allclose(default.rates_, off.rates_)
    two = y == 2
    default = bd.DropoutLogisticRegression(bd.PerFeature()).fit(X, two)
    off = bd.DropoutLogisticRegression(bd.PerFeature(class_ratio=False)).fit(X, two)
    np.testing.assert_array_equal(default.rates_, off.rates_)
