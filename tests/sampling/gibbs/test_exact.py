"""Posterior means against the exact ones, all masks summed, for every structure of the rates.

False-alarm rate: each statistic is allowed 5 standard errors (5.7e-7 each under normality); the default suite compares
about 100 of them, so a correct sampler fails with probability below 1e-4.
"""

import itertools
from functools import partial

import jax
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.gibbs.moves import columns as gibbs_columns
from bayesdrop.gibbs.moves import interweaving
from bayesdrop.sampling.protocols import natural
from bayesdrop.sampling.run.runner import as_key, run

LIMIT = 5.0


def problem(n=12, p=3, seed=0):
    """Small data with zeros in them."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, p))
    X[generator.random((n, p)) < 0.2] = 0.0
    y = np.where(X @ np.linspace(2, -1, p) + generator.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


def squash(value):
    """Between −1 and 1: moments exist whatever the tails."""
    return value / (1 + np.abs(value))


def statistics(model, draws):
    """Statistics compared: first and second moments and the products that couple weights and rates; (draws, q).

    ``draws`` holds what the sampler records, by name. Laws with heavy tails are squashed.
    """
    weight, rate = draws["weight"], draws["rate"]
    intercept = draws["intercept"][:, None]
    heavy = isinstance(model.weight_prior, bd.Horseshoe) or "sigma" in draws
    if heavy:
        weight, intercept = squash(weight), squash(intercept)
    columns = [weight, weight**2, rate, rate**2, intercept]
    if rate.shape[1]:
        columns += [weight**2 * rate[:, -1:], weight[:, :1] * rate]
    for name in ("global_scale", "sigma", "weight_scale"):
        if name in draws:
            value = squash(draws[name]).reshape(len(weight), -1)[:, :1]
            columns += [value, value * np.abs(weight)]
    if "group_rate" in draws:
        mean, strength = draws["group_rate"], np.log(draws["group_strength"])
        columns += [mean, mean**2, strength, strength**2, mean * rate[:, :1]]
    return np.concatenate(columns, axis=1)


def log_marginal(model, X, y, row_weight, weight, intercept, rate, noise_precision):
    """``log p(y | w, b, η, σ)`` by the sum over all masks of each row; ``rate`` (draws, p), result (draws,)."""
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
        target = np.full(score.shape, float(y[i]))
        cost = noise_precision[:, None] * model.loss.value(target, score, np.zeros_like(score))
        terms = log_mask - model.C * cost
        top = terms.max(axis=1)
        # A row of weight s is the row s times, its masks drawn apart, normalising constants included.
        total += row_weight[i] * (top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))
        total += 0.5 * model.C * row_weight[i] * np.log(noise_precision)
    return total


def prior_weights(prior, generator, draws, p):
    """Weights (draws, p) by the definition of their prior, and what else of it is recorded."""
    if isinstance(prior, bd.Laplace):
        return generator.laplace(size=(draws, p)) * np.asarray(prior.scale), {}
    if isinstance(prior, bd.Horseshoe):
        shared = prior.scale * np.abs(generator.standard_cauchy(draws))
        local = np.abs(generator.standard_cauchy((draws, p)))
        return generator.normal(size=(draws, p)) * local * shared[:, None], {"global_scale": shared}
    if not prior.gaussian:
        learnt = prior.learnt_scale(p)
        scale = np.abs(generator.normal(size=(draws, learnt.groups))) * prior.scale.scale
        named = {"weight_scale": scale if learnt.names else scale[:, 0]}
        return generator.normal(size=(draws, p)) * scale[:, learnt.index], named
    return generator.normal(size=(draws, p)) / np.sqrt(prior.precision(p)), {}


def prior_rates(rate_map, generator, draws, count):
    """Free rates (draws, k) by the definition of their prior, and what else of it is recorded."""
    if not rate_map.is_free:
        return np.zeros((draws, 0)), {}
    hierarchy, found = rate_map.hierarchy, {}
    if hierarchy is None:
        a, b = rate_map.prior.law(count)
    else:
        groups = len(hierarchy.names)
        mean = generator.beta(*hierarchy.mean_prior.law(np.zeros(groups)), size=(draws, groups))
        prior = hierarchy.strength_prior
        strength = generator.gamma(prior.shape, prior.scale, size=(draws, groups))
        found = {"group_rate": mean, "group_strength": strength}
        a, b = (part[:, hierarchy.index] for part in (mean * strength, (1 - mean) * strength))
    return np.clip(generator.beta(a, b, size=(draws, rate_map.size)), 1e-12, 1 - 1e-12), found


def exact_means(model, X, y, row_weight, draws=400_000, seed=1):
    """Posterior means of ``statistics`` and their standard errors."""
    generator = np.random.default_rng(seed)
    n, p = X.shape
    rate_map = model.bind([f"x{d}" for d in range(p)])
    weight, found = prior_weights(model.weight_prior, generator, draws, p)
    intercept, log_proposal = np.zeros(draws), np.zeros(draws)
    if model.fit_intercept:
        intercept = 2.5 * generator.standard_t(4, size=draws)
        log_proposal = -2.5 * np.log1p((intercept / 2.5) ** 2 / 4)
    count = np.bincount(rate_map.index, weights=row_weight @ (X != 0), minlength=rate_map.size)[: rate_map.size]
    free, more = prior_rates(rate_map, generator, draws, count)
    rate = free[:, rate_map.index] if rate_map.is_free else np.broadcast_to(rate_map.initial, (draws, p))
    noise_precision = np.ones(draws)
    prior = getattr(model.loss, "variance", None)
    if isinstance(prior, bd.InverseGamma):
        noise_precision = generator.gamma(prior.shape, 1 / prior.scale, size=draws)
        more["sigma"] = noise_precision**-0.5
    likelihood = log_marginal(model, X, y, row_weight, weight, intercept, rate, noise_precision)
    log_weight = likelihood - log_proposal
    share = np.exp(log_weight - log_weight.max())
    share /= share.sum()
    values = statistics(model, {"weight": weight, "intercept": intercept, "rate": free, **found, **more})
    mean = share @ values
    error = np.sqrt((share**2) @ (values - mean) ** 2)
    return mean, error, 1 / np.sum(share**2)


def chain_means(model, X, y, method, *, sample_weight=None, chains=64, tune=300, draws=600, seed=0):
    data = as_dataset(X, y, sample_weight, binary=model.loss.binary)
    rate_map = model.bind(data.feature_names)
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = method.bind(model, data, rate_map, tune)
        result = run(kernel, operands, as_key(seed), tune=tune, draws=draws, chains=chains, progress=False)
    drawn = {
        name: value.astype(float).reshape(chains * draws, *value.shape[2:])
        for name, value in natural(result.draws).items()
    }
    nothing = {"intercept": np.zeros(chains * draws), "rate": np.zeros((chains * draws, 0))}
    values = statistics(model, {**nothing, **drawn}).reshape(chains, draws, -1).mean(axis=1)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(chains), result


def compare(model, method, sample_weight=None, X=None, y=None, size=400_000, **options):
    if X is None:
        X, y = problem()
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
    exact, exact_error, effective = exact_means(model, X, y, weight, size)
    assert effective > 1000
    drawn, error, result = chain_means(model, X, y, method, sample_weight=sample_weight, **options)
    total = np.sqrt(error**2 + exact_error**2)
    np.testing.assert_array_equal(drawn[total == 0], exact[total == 0])  # an absent intercept is 0 in both
    z = (drawn - exact)[total > 0] / total[total > 0]
    assert np.max(np.abs(z)) < LIMIT, np.round(z, 1)
    return result


WEIGHTS = np.array([2.0, 1.0, 3.0] * 4)
GIBBS, BOTH = bd.Gibbs(joint_moves=0), bd.Gibbs()
# Of normalised likelihoods the joint tests of tests/sampling/test_geweke.py have the other structures and priors.
POOLED = bd.Hierarchical(["a", "b", "a"], bd.Beta(2, 3), bd.Gamma(2.0, 4.0))
CASES = {
    "hinge, per feature": (bd.Model(bd.Hinge()), BOTH, None),
    "logistic, groups": (bd.Model(bd.Logistic(), rates=bd.PerGroup(["a", "b", "a"])), BOTH, None),
    "logistic, fixed": (bd.Model(bd.Logistic(), rates=bd.Fixed([0.3, 0.0, 0.6])), BOTH, None),
    # Without an intercept: weights with tails like Cauchy's and a flat one have no proper posterior on separable data.
    "horseshoe, hierarchy": (bd.Model(weight_prior=bd.Horseshoe(0.5), rates=POOLED, fit_intercept=False), BOTH, None),
    "hinge, laplace, no joint moves": (bd.Model(bd.Hinge(), weight_prior=bd.Laplace(0.7)), GIBBS, None),
    "hinge, horseshoe, double, no joint moves": (
        bd.Model(bd.Hinge(), weight_prior=bd.Horseshoe(0.5), fit_intercept=False),
        bd.Gibbs(joint_moves=0, dtype="float64"),
        None,
    ),
    "hinge, groups, learnt scales, no joint moves": (
        bd.Model(
            bd.Hinge(),
            rates=bd.PerGroup(["a", "b", "a"]),
            weight_prior=bd.Normal(bd.HalfNormal([1.0, 0.5]), groups=["a", "b", "b"]),
        ),
        GIBBS,
        None,
    ),
    "hinge, unbiased, hierarchy, no joint moves": (
        bd.Model(bd.Hinge(), noise=bd.Dropout(unbiased=True), rates=POOLED),
        GIBBS,
        None,
    ),
    "logistic, no intercept": (bd.Model(bd.Logistic(), fit_intercept=False), BOTH, None),
    "hinge, groups, no joint moves": (bd.Model(bd.Hinge(), rates=bd.PerGroup(["a", "b", "a"])), GIBBS, None),
    "hinge, shared": (bd.Model(bd.Hinge(), rates=bd.Shared(bd.Beta(2, 3))), BOTH, None),
    "hinge, fixed": (bd.Model(bd.Hinge(), rates=bd.Fixed(0.4)), GIBBS, None),
    "hinge, row weights": (bd.Model(bd.Hinge(), C=0.5), BOTH, WEIGHTS),
    "logistic, row weights": (bd.Model(bd.Logistic(), C=0.5), BOTH, WEIGHTS),
    "relative prior": (bd.Model(rates=bd.PerFeature(bd.Beta.from_mode(0.2, relative_strength=0.5))), BOTH, None),
    "hinge, prior scales": (bd.Model(bd.Hinge(), weight_prior=bd.Normal([2.0, 0.5, 1.0])), BOTH, None),
}


@pytest.mark.default_cases("hinge, per feature")
@pytest.mark.parametrize("name", CASES)
def test_posterior_means_are_exact(name):
    # The error of the exact means is larger than that of so many draws of the case that runs by default.
    length = (
        {"chains": 32, "tune": 150, "draws": 300, "size": 100_000}
        if name == "hinge, per feature"
        else {"tune": 400, "draws": 2000}
    )
    compare(*CASES[name], **length)


NOISY = bd.Squared(variance=bd.InverseGamma(3.0, 2.0))
REGRESSIONS = {
    "row weights": (bd.Model(NOISY), BOTH, WEIGHTS),
    "row weights, no joint moves": (bd.Model(NOISY, rates=bd.Fixed(0.3)), GIBBS, WEIGHTS),
    "row weights, groups": (
        bd.Model(NOISY, rates=bd.PerGroup(["a", "b", "a"]), fit_intercept=False),
        BOTH,
        WEIGHTS,
    ),
}


def regression():
    X, _ = problem()
    return X, X @ [0.7, -0.5, 0.3] + 1.2 * np.random.default_rng(3).normal(size=len(X)) + 0.3


@pytest.mark.slow
@pytest.mark.parametrize("name", REGRESSIONS)
def test_unknown_variance_is_exact(name):
    X, y = regression()
    compare(*REGRESSIONS[name], X=X, y=y, tune=400, draws=2000)


def unequal():
    """Columns of 12, 4 and 1 entries, and the method's blocks of columns."""
    X, y = problem()
    X[np.arange(12) % 3 > 0, 1] = 0
    X[:11, 2] = 0
    X[11, 2], X[X[:, 0] == 0, 0] = 1.5, 0.3
    return X, y


@pytest.fixture
def _no_overhead(monkeypatch):
    """Small columns are cut into blocks as long ones are."""
    for module in (gibbs_columns, interweaving):
        monkeypatch.setattr(module, "partition", partial(gibbs_columns.partition, overhead=0))


@pytest.mark.slow
@pytest.mark.parametrize("rates", [bd.PerFeature(), bd.PerGroup(["a", "b", "a"]), bd.Shared(), bd.Fixed(0.3)])
@pytest.mark.parametrize("loss", [bd.Hinge(), bd.Logistic()])
@pytest.mark.usefixtures("_no_overhead")
def test_sparse_columns_of_unequal_length(loss, rates):
    X, y = unequal()
    assert len(gibbs_columns.partition(np.count_nonzero(X, axis=0))) == 3
    compare_sparse(bd.Model(loss, rates=rates), X, y, draws=2000)


def compare_sparse(model, X, y, **options):
    exact, exact_error, _ = exact_means(model, X, y, np.ones(len(y)))
    drawn, error, _ = chain_means(model, sparse.csr_array(X), y, BOTH, **options)
    assert np.max(np.abs(drawn - exact) / np.hypot(error, exact_error)) < LIMIT


@pytest.mark.slow
def test_more_features_than_rows():
    X, y = problem(n=4, p=6, seed=3)
    compare(bd.Model(bd.Hinge()), BOTH, X=X, y=y)


@pytest.mark.slow
def test_a_feature_that_never_occurs_keeps_its_prior():
    X, y = problem()
    X[:, 1] = 0.0
    model = bd.Model(bd.Hinge(), rates=bd.PerFeature(bd.Beta(2, 5)))
    _, _, result = chain_means(model, X, y, BOTH, chains=32, tune=150, draws=300)  # the program of the means above
    drawn = natural(result.draws)["rate"][:, :, 1].mean(axis=1)
    assert abs(drawn.mean() - 2 / 7) < LIMIT * drawn.std() / np.sqrt(len(drawn))


@pytest.mark.slow
def test_a_small_known_variance_freezes_no_chain():
    """A response of standard deviation 2.7, noise of 0.1, and nothing dropped: every chain must find that.

    Without a tempered warm-up the masks of the first sweeps stay, with rates of .1 to .8 that differ between chains.
    """
    generator = np.random.default_rng(0)
    X = generator.normal(size=(100, 4))
    y = X @ [2.0, -1.0, 1.5, 0.5] + 0.1 * generator.normal(size=100)
    model = bd.Model(bd.Squared(variance=1.0), C=100.0, fit_intercept=False)
    data = as_dataset(X, y, binary=False)
    kernel, operands = bd.Gibbs().bind(model, data, model.bind(data.feature_names), 300)
    assert kernel.tempered
    draws = run(kernel, operands, as_key(0), tune=300, draws=200, chains=4, progress=False).draws
    assert np.all(natural(draws)["rate"].mean(axis=1) < 0.1)
