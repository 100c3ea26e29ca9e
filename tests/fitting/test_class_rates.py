"""Fits whose classes have rates of their own: the energy by hand, derivatives, two classes, counts by definition."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.problems.many_classes import softmax_energy

N, P, K = 60, 4, 3


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.8)
    return X, (X @ rng.normal(size=(P, K)) + rng.gumbel(size=(N, K))).argmax(axis=1)


def energy_of(X, y, form, rate, unbiased=False, storage=np.asarray):
    model = bd.Model(bd.Softmax(form, class_rates=True), bd.Dropout(unbiased=unbiased), C=0.7)
    weight = 0.7 * np.linspace(0.5, 2.0, N)
    return softmax_energy(model, as_design(storage(X)), rate, y, K, weight, weight), weight


@pytest.mark.slow_cases("gaussian")
@pytest.mark.parametrize("form", ["taylor", "gaussian"])
@pytest.mark.parametrize("unbiased", [False, True])
def test_energy_by_definition(form, unbiased):
    """Independent scores, each with its own mean and variance; normal expectations by 100,000 draws, 6 errors of them.

    The Gaussian form's 128 points are within 2 % of what the noise adds (its module).
    """
    X, y = problem()
    rng = np.random.default_rng(1)
    rate, weights = rng.uniform(0.1, 0.7, (P, K)), rng.normal(size=(P + 1, K))
    energy, row = energy_of(X, y, form, rate, unbiased)
    gain, spread = (1.0, rate / (1 - rate)) if unbiased else (1 - rate, rate * (1 - rate))
    mean = X @ (gain * weights[:-1]) + weights[-1]
    var = X**2 @ (spread * weights[:-1] ** 2)
    level = np.logaddexp.reduce(mean, axis=1)
    chance = np.exp(mean - level[:, None])
    extra, error = 0.5 * np.sum(chance * (1 - chance) * var, axis=1), 0.0
    if form == "gaussian":
        drawn = np.zeros((N, 2))
        for i in range(N):
            values = np.logaddexp.reduce(mean[i] + np.sqrt(var[i]) * rng.normal(size=(100_000, K)), axis=1)
            drawn[i] = values.mean() - level[i], values.std() / 100_000**0.5
        extra = drawn[:, 0]
        error = 6 * np.sqrt(row**2 @ drawn[:, 1] ** 2) + 0.02 * row @ extra
    expected = 0.5 * np.sum(weights[:-1] ** 2) + row @ (level - mean[np.arange(N), y] + extra)
    assert energy.value(weights) == pytest.approx(expected, rel=1e-12, abs=error)


@pytest.mark.parametrize("form", ["taylor", "gaussian"])
def test_gradient_and_curvature(form):
    """Central differences of the energy, and the model's Hessian of a plain loss with the curvature of ``V``."""
    X, y = problem()
    rng = np.random.default_rng(2)
    rate, weights = rng.uniform(0.1, 0.7, (P, K)), rng.normal(size=(P + 1, K))
    energy, _ = energy_of(X, y, form, rate, storage=sparse.csr_array)
    _, gradient, chance, curve = energy.evaluate(weights)
    for d, k in np.ndindex(weights.shape):
        step = np.zeros_like(weights)
        step[d, k] = 1e-5
        slope = (energy.value(weights + step) - energy.value(weights - step)) / 2e-5
        assert slope == pytest.approx(gradient[d, k], rel=2e-6, abs=2e-6)
        product = energy.product(chance, curve, 1e5 * step)
        assert product[d, k] == pytest.approx(energy.diagonal(chance, curve)[d, k], rel=1e-9)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_two_classes_are_the_binary_fit_at_a_smaller_rate(storage):
    """The difference of two independent scores has half the variance: unbiased dropout has ``a/2`` at ``r/(2 − r)``."""
    X, y = problem()
    y, rate, method = (y > 0).astype(int), np.array([0.3, 0.6, 0.0, 0.5]), bd.Newton(tol=1e-13)
    noise = bd.Dropout(unbiased=True, centre=None)
    joint = bd.fit(bd.Model(bd.Softmax(class_rates=True), noise, bd.Fixed(rate)), storage(X), y, method=method)
    plain = bd.Model(bd.Logistic("taylor"), noise, bd.Fixed(rate / (2 - rate)), weight_prior=bd.Normal(2**0.5))
    plain = bd.fit(plain, storage(X), y, method=method)
    np.testing.assert_allclose(joint.weight[1] - joint.weight[0], plain.weight, atol=1e-5)
    np.testing.assert_allclose(joint.intercept[1] - joint.intercept[0], plain.intercept, atol=1e-5)
    assert joint.rates.shape == (2, P)


@pytest.mark.parametrize("ratio", [None, False], ids=["ratio", "no ratio"])
def test_learnt_rates_count_what_speaks_against_each_weight(ratio):
    """The rule of one class against the rest, entry by entry; the rest counts by the ratio of the classes."""
    X, y = problem()
    rates = bd.PerFeature(bd.Beta(2, 3), class_ratio=ratio)
    fit = bd.fit(bd.Model(bd.Softmax(class_rates=True), bd.Dropout(centre=None), rates), X, y)
    assert fit.status.name == "CONVERGED"
    assert fit.intercept.sum() == pytest.approx(0, abs=1e-12)
    for k in range(K):
        own = y == k
        share = np.where(own, 1.0, own.sum() / (~own).sum() if ratio is None else 1.0)
        against = share @ (np.where(own, 1, -1)[:, None] * X * fit.weight[k] < 0)
        total = share @ (X != 0)
        np.testing.assert_allclose(fit.rates[k], (against + 1) / (total + 3), rtol=1e-12)
        np.testing.assert_allclose(fit.rate_posterior.occurrences[:, k], total)
    data = fit.to_dataset()
    assert data["rate"].dims == ("class", "feature")
    assert data["rate_a"].dims == ("feature", "class")
    assert "x0 (2)" in str(fit)
    assert len(bd.plots.rate_against_weight(fit).lines) > 1
    assert len(bd.plots.rates_forest(fit=fit).get_yticks()) == K * P


def test_rates_of_groups_and_one_rate():
    X, y = problem()
    for rates, size in ((bd.Shared(), 1), (bd.PerGroup(["a", "b", "a", "b"]), 2)):
        fit = bd.fit(bd.Model(bd.Softmax(class_rates=True), rates=rates), X, y)
        assert fit.rate_posterior.mode.shape == (size, K)
        assert all(len(np.unique(part)) == size for part in fit.rates)


def test_what_has_no_masks_has_none_for_each_class():
    with pytest.raises(ValueError, match="class_rates: .*bd.Dropout"):
        bd.Model(bd.Softmax(class_rates=True), bd.GaussianNoise(0.5))
    with pytest.raises(TypeError, match="class_rates"):
        bd.Softmax(class_rates="yes")
