"""Posterior means against the exact ones, all masks summed, for every structure of the rates.

False-alarm rate: each statistic is allowed 5 standard errors (5.7e-7 each under normality); the default suite compares
about 100 of them, so a correct sampler fails with probability below 1e-4.
"""

import itertools

import jax
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data import prepare
from bayesdrop.inference.runner import as_key, run

LIMIT = 5.0


def problem(n=12, p=3, seed=0):
    """Small data with zeros in them."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, p))
    X[generator.random((n, p)) < 0.2] = 0.0
    y = np.where(X @ np.linspace(2, -1, p) + generator.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


def statistics(weight, intercept, rate):
    """Statistics compared: first and second moments and the products that couple weights and rates; (draws, q)."""
    columns = [weight, weight**2, rate, rate**2, intercept[:, None]]
    if rate.shape[1]:
        columns += [weight**2 * rate[:, -1:], weight[:, :1] * rate]
    return np.concatenate(columns, axis=1)


def log_marginal(model, X, y, row_weight, weight, intercept, rate):
    """``log p(y | w, b, η)`` by the sum over all masks of each row; ``rate`` (draws, p), result (draws,)."""
    n, p = X.shape
    kept_value = model.noise.coefficients(rate).gain / (1 - rate)
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=p)))
    with np.errstate(divide="ignore"):
        log_mask = (
            np.log1p(-rate) @ masks.T + np.log(rate) @ (1 - masks).T
            if np.all(rate > 0)
            else np.log(np.prod(np.where(masks[None] == 1, 1 - rate[:, None], rate[:, None]), axis=-1))
        )
    total = np.zeros(len(weight))
    for i in range(n):
        score = (weight * kept_value * X[i]) @ masks.T + intercept[:, None]
        sign = np.full(score.shape, float(y[i]))
        terms = log_mask - model.C * row_weight[i] * model.loss.value(sign, score, np.zeros_like(score))
        top = terms.max(axis=1)
        total += top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
    return total


def exact_means(model, X, y, row_weight, draws=400_000, seed=1):
    """Posterior means of ``statistics`` and their standard errors."""
    generator = np.random.default_rng(seed)
    n, p = X.shape
    rate_map = model.bind([f"x{d}" for d in range(p)])
    weight = generator.normal(size=(draws, p)) / np.sqrt(model.weight_prior.precision(p))
    intercept, log_proposal = np.zeros(draws), np.zeros(draws)
    if model.fit_intercept:
        intercept = 2.5 * generator.standard_t(4, size=draws)
        log_proposal = -2.5 * np.log1p((intercept / 2.5) ** 2 / 4)
    if rate_map.is_free:
        count = np.bincount(rate_map.index, weights=row_weight @ (X != 0), minlength=rate_map.size)
        a, b = rate_map.prior.concentrations(count)
        free = np.clip(generator.beta(a, b, size=(draws, rate_map.size)), 1e-12, 1 - 1e-12)
        rate = free[:, rate_map.index]
    else:
        free, rate = np.zeros((draws, 0)), np.broadcast_to(rate_map.initial, (draws, p))
    log_weight = log_marginal(model, X, y, row_weight, weight, intercept, rate) - log_proposal
    share = np.exp(log_weight - log_weight.max())
    share /= share.sum()
    values = statistics(weight, intercept, free)
    mean = share @ values
    error = np.sqrt((share**2) @ (values - mean) ** 2)
    return mean, error, 1 / np.sum(share**2)


def chain_means(model, X, y, method, *, sample_weight=None, chains=64, tune=300, draws=600, seed=0):
    data = prepare(X, y, sample_weight)
    rate_map = model.bind(data.feature_names)
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = method.bind(model, data, rate_map, tune)
        result = run(kernel, operands, as_key(seed), tune=tune, draws=draws, chains=chains, progress=False)
    drawn = {
        name: value.astype(float).reshape(chains * draws, *value.shape[2:]) for name, value in result.draws.items()
    }
    intercept = drawn.get("intercept", np.zeros(chains * draws))
    rate = drawn.get("rate", np.zeros((chains * draws, 0)))
    values = statistics(drawn["weight"], intercept, rate).reshape(chains, draws, -1).mean(axis=1)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(chains), result


def compare(model, method, sample_weight=None, X=None, y=None, **options):
    if X is None:
        X, y = problem()
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
    exact, exact_error, size = exact_means(model, X, y, weight)
    assert size > 1000
    drawn, error, result = chain_means(model, X, y, method, sample_weight=sample_weight, **options)
    total = np.sqrt(error**2 + exact_error**2)
    np.testing.assert_array_equal(drawn[total == 0], exact[total == 0])  # an absent intercept is 0 in both
    z = (drawn - exact)[total > 0] / total[total > 0]
    assert np.max(np.abs(z)) < LIMIT, np.round(z, 1)
    return result


WEIGHTS = np.array([2.0, 1.0, 0.5] * 4)
GIBBS, BOTH = bd.Gibbs(joint_moves=0), bd.Gibbs()
FAST = [
    pytest.param(bd.Model(bd.Hinge()), BOTH, None, id="hinge, per feature"),
    pytest.param(bd.Model(bd.Logistic(), rates=bd.PerGroup(["a", "b", "a"])), BOTH, None, id="logistic, groups"),
    pytest.param(bd.Model(bd.Logistic(), rates=bd.Fixed([0.3, 0.0, 0.6])), BOTH, None, id="logistic, fixed"),
]
SLOW = [
    pytest.param(bd.Model(bd.Logistic(), fit_intercept=False), BOTH, None, id="logistic, no intercept"),
    pytest.param(bd.Model(bd.Hinge()), GIBBS, None, id="hinge, no joint moves"),
    pytest.param(bd.Model(bd.Logistic()), GIBBS, None, id="logistic, no joint moves"),
    pytest.param(
        bd.Model(bd.Hinge(), rates=bd.PerGroup(["a", "b", "a"])), GIBBS, None, id="hinge, groups, no joint moves"
    ),
    pytest.param(bd.Model(bd.Hinge(), rates=bd.Shared(bd.Beta(2, 3))), BOTH, None, id="hinge, shared"),
    pytest.param(bd.Model(bd.Hinge(), rates=bd.Fixed(0.4)), GIBBS, None, id="hinge, fixed"),
    pytest.param(bd.Model(bd.Hinge(), C=2.0), BOTH, WEIGHTS, id="hinge, row weights"),
    pytest.param(bd.Model(bd.Logistic(), C=2.0), BOTH, WEIGHTS, id="logistic, integer and real row weights"),
    pytest.param(
        bd.Model(noise=bd.Dropout(unbiased=True), rates=bd.PerFeature(bd.Beta(2, 3))), BOTH, None, id="unbiased"
    ),
    pytest.param(
        bd.Model(noise=bd.Dropout(unbiased=True), rates=bd.Shared(bd.Beta(2, 3))), GIBBS, None, id="unbiased, shared"
    ),
    pytest.param(
        bd.Model(rates=bd.PerFeature(bd.Beta.from_mode(0.2, relative_strength=0.5))), BOTH, None, id="relative prior"
    ),
    pytest.param(bd.Model(bd.Hinge()), bd.Gibbs(dtype="float64"), None, id="hinge, double"),
    pytest.param(bd.Model(bd.Hinge(), weight_prior=bd.Normal([2.0, 0.5, 1.0])), BOTH, None, id="hinge, prior scales"),
]


@pytest.mark.parametrize(("model", "method", "weights"), FAST)
def test_posterior_means_are_exact(model, method, weights):
    compare(model, method, weights)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "method", "weights"), SLOW)
def test_posterior_means_are_exact_at_length(model, method, weights):
    compare(model, method, weights, tune=400, draws=2000)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [bd.Hinge(), bd.Logistic()])
def test_sparse_input_has_the_same_posterior(loss):
    from scipy import sparse

    X, y = problem()
    model = bd.Model(loss)
    exact, exact_error, _ = exact_means(model, X, y, np.ones(len(y)))
    drawn, error, _ = chain_means(model, sparse.csr_array(X), y, BOTH, draws=1000)
    assert np.max(np.abs(drawn - exact) / np.hypot(error, exact_error)) < LIMIT


@pytest.mark.slow
def test_more_features_than_rows():
    X, y = problem(n=4, p=6, seed=3)
    compare(bd.Model(bd.Hinge()), BOTH, X=X, y=y)


def test_a_feature_that_never_occurs_keeps_its_prior():
    X, y = problem()
    X[:, 1] = 0.0
    model = bd.Model(bd.Hinge(), rates=bd.PerFeature(bd.Beta(2, 5)))
    _, _, result = chain_means(model, X, y, BOTH, draws=300, tune=100)
    drawn = result.draws["rate"][:, :, 1].astype(float).mean(axis=1)
    assert abs(drawn.mean() - 2 / 7) < LIMIT * drawn.std() / np.sqrt(len(drawn))
