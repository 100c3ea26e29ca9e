"""Posteriors of many classes: exact means with all masks summed, two classes against the logistic model, calibration.

False-alarm rate: a mean is allowed 5 standard errors (5.7e-7 under normality); the default suite compares about 60, so
a correct sampler fails with probability below 5e-5.
"""

import itertools

import jax
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.mcmc.run.runner import as_key, run
from bayesdrop.mcmc.scales import natural

LIMIT = 5.0
K, P, N = 3, 3, 12
MASKS = np.array(list(itertools.product((0.0, 1.0), repeat=P)))
PRIOR = bd.Beta(2.0, 3.0)
POOLED = bd.Hierarchical(["a", "b", "a"], bd.Beta(2, 3), bd.Gamma(2.0, 4.0))
WEIGHTS = np.array([2.0, 1.0, 0.5] * 4)


def problem(seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(N, P)) * (generator.random((N, P)) < 0.8)
    y = (X @ generator.normal(size=(P, K)) * 2 + generator.gumbel(size=(N, K))).argmax(axis=1)
    y[:3] = 0, 1, 2
    return X, y


def log_marginal(model, X, y, row_weight, weight, intercept, rate):
    """``log p(y | w, b, η)`` by the sum over all masks of each row; weight (S, K, p), rate (S, p)."""
    kept = weight * (model.noise.coefficients(rate).gain / (1 - rate))[:, None]
    with np.errstate(divide="ignore"):
        chance = np.prod(np.where(MASKS[None] == 1, 1 - rate[:, None], rate[:, None]), axis=-1)
    total = np.zeros(len(weight))
    for i in range(len(y)):
        score = np.einsum("skd,md->smk", kept * X[i], MASKS) + intercept[:, None]
        log_chance = score[..., y[i]] - np.logaddexp.reduce(score, axis=-1)
        total += np.log(np.sum(chance * np.exp(model.C * row_weight[i] * log_chance), axis=1))
    return total


def statistics(draws):
    """First and second moments and products that couple weights and rates, of draws by name; (S, q)."""
    weight, rate, intercept = draws["weight"], draws["rate"], draws["intercept"]
    flat = weight.reshape(len(weight), -1)
    columns = [flat, flat**2, weight[:, 0] * weight[:, 1], intercept / (1 + np.abs(intercept)), rate, rate**2]
    if rate.shape[1]:
        columns.append((weight**2).sum(axis=1) * rate[:, -1:])
    if "group_rate" in draws:
        mean, strength = draws["group_rate"], np.log(draws["group_strength"])
        columns += [mean, strength, mean * rate[:, :1]]
    return np.concatenate(columns, axis=1)


def exact_means(model, X, y, row_weight, draws=200_000, seed=1):
    """Posterior means of ``statistics`` and their standard errors, by importance sampling from the prior."""
    generator = np.random.default_rng(seed)
    rate_map, found = model.bind([f"x{d}" for d in range(P)]), {}
    # All K weights, of which the mean over the classes is then taken off.
    weight = generator.normal(size=(draws, K, P)) / np.sqrt(model.weight_prior.precision(P))
    weight -= weight.mean(axis=1, keepdims=True)
    intercept, log_proposal = np.zeros((draws, K)), np.zeros(draws)
    if model.fit_intercept:
        contrast = 2.0 * generator.standard_t(5, size=(draws, K - 1))
        log_proposal = -3.0 * np.log1p((contrast / 2.0) ** 2 / 5).sum(axis=1)
        intercept[:, 1:] = contrast
        intercept -= intercept.mean(axis=1, keepdims=True)
    free = np.zeros((draws, 0))
    if rate_map.hierarchy is not None:
        groups, strength_prior = len(rate_map.hierarchy.names), rate_map.hierarchy.strength_prior
        mean = generator.beta(*rate_map.hierarchy.mean_prior.law(np.zeros(groups)), size=(draws, groups))
        strength = generator.gamma(strength_prior.shape, strength_prior.scale, size=(draws, groups))
        found = {"group_rate": mean, "group_strength": strength}
        a, b = (part[:, rate_map.hierarchy.index] for part in (mean * strength, (1 - mean) * strength))
        free = np.clip(generator.beta(a, b), 1e-12, 1 - 1e-12)
    elif rate_map.is_free:
        law = rate_map.prior.law(np.zeros(rate_map.size))
        free = law.sample(generator, draws)
    rate = free[:, rate_map.index] if rate_map.is_free else np.broadcast_to(rate_map.initial, (draws, P))
    log_weight = log_marginal(model, X, y, row_weight, weight, intercept, rate) - log_proposal
    share = np.exp(log_weight - log_weight.max())
    share /= share.sum()
    values = statistics({"weight": weight, "intercept": intercept, "rate": free, **found})
    mean = share @ values
    assert 1 / np.sum(share**2) > 1000
    return mean, np.sqrt((share**2) @ (values - mean) ** 2)


def drawn(model, X, y, method, sample_weight=None, chains=64, tune=200, draws=400, target=None):
    """What a sampler records, by name, (chains · draws, …)."""
    data = as_dataset(X, y, sample_weight, multiclass=True)
    rate_map = model.bind(data.feature_names)
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = method.bind(model, data, rate_map, tune, marginalised=target == "marginalised")
        result = run(kernel, operands, as_key(0), tune=tune, draws=draws, chains=chains, progress=False)
    flat = {k: v.astype(float).reshape(chains * draws, *v.shape[2:]) for k, v in natural(result.draws).items()}
    return {"intercept": np.zeros((chains * draws, K)), "rate": np.zeros((chains * draws, 0)), **flat}


def compare(model, method, sample_weight=None, storage=np.asarray, chains=64, **options):
    X, y = problem()
    exact, exact_error = exact_means(model, X, y, np.ones(N) if sample_weight is None else sample_weight)
    found = drawn(model, storage(X), y, method, sample_weight, chains, **options)
    np.testing.assert_allclose(found["weight"].sum(axis=1), 0, atol=1e-4)
    means = statistics(found).reshape(chains, -1, len(exact)).mean(axis=1)
    error = np.hypot(means.std(axis=0, ddof=1) / np.sqrt(chains), exact_error)
    there = error > 1e-9
    z = (means.mean(axis=0) - exact)[there] / error[there]
    assert np.max(np.abs(z)) < LIMIT, np.round(z, 1)


UNBIASED = bd.Dropout(unbiased=True)
GIBBS = bd.Gibbs()
CASES = {
    "per feature, sparse": (bd.Model(bd.Softmax()), GIBBS, None, sparse.csr_array),
    "per feature, unbiased": (bd.Model(bd.Softmax(), UNBIASED, bd.PerFeature(PRIOR)), GIBBS, None, np.asarray),
    "groups": (bd.Model(bd.Softmax(), rates=bd.PerGroup(["a", "b", "a"])), GIBBS, None, np.asarray),
    "groups, sparse, unbiased": (
        bd.Model(bd.Softmax(), UNBIASED, bd.PerGroup(["a", "b", "a"], PRIOR)), GIBBS, None, sparse.csr_array,
    ),
    "shared, double": (bd.Model(bd.Softmax(), rates=bd.Shared(PRIOR)), bd.Gibbs(dtype="float64"), None, np.asarray),
    "hierarchy": (bd.Model(bd.Softmax(), rates=POOLED), GIBBS, None, np.asarray),
    "fixed, row weights": (
        bd.Model(bd.Softmax(), rates=bd.Fixed([0.3, 0.0, 0.6]), C=1.5), GIBBS, WEIGHTS, np.asarray,
    ),
    "logit-normal, no intercept, prior scales": (
        bd.Model(
            bd.Softmax(), rates=bd.PerFeature(bd.LogitNormal(-0.5, 1.0)), weight_prior=bd.Normal([2.0, 0.5, 1.0]),
            fit_intercept=False,
        ),
        bd.Gibbs(weights="woodbury"), None, np.asarray,
    ),
}  # fmt: skip


@pytest.mark.default_cases("per feature, unbiased")
@pytest.mark.parametrize(("model", "method", "weights", "storage"), CASES.values(), ids=CASES)
def test_posterior_means_are_exact(model, method, weights, storage):
    compare(model, method, weights, storage)
