"""Posteriors whose classes have masks and rates of their own: exact means with the masks of all classes summed.

False-alarm rate: a mean is allowed 5 standard errors (5.7e-7 under normality); the default suite compares about 40, so
a correct sampler fails with probability below 3e-5.
"""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy import sparse, special

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.models import softmax
from bayesdrop.sampling.protocols import natural
from bayesdrop.sampling.run.runner import as_key, run

LIMIT = 5.0
K, P, N, CHAINS, DRAWS = 3, 2, 10, 64, 300
PRIOR = bd.Beta(2.0, 3.0)
WEIGHTS = np.array([2.0, 1.0, 3.0, 1.0, 1.0] * 2)
MASKS = np.array(list(itertools.product((0.0, 1.0), repeat=K * P))).reshape(-1, K, P)
SOFTMAX = bd.Softmax(class_rates=True)


def problem(seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(N, P)) * (generator.random((N, P)) < 0.9)
    y = (X @ generator.normal(size=(P, K)) * 2 + generator.gumbel(size=(N, K))).argmax(axis=1)
    y[:3] = 0, 1, 2
    return X, y


def log_marginal(model, X, y, row_weight, weight, intercept, rate):
    """``log p(y | w, b, η)`` by the sum over all masks of all classes; weight and rate (S, K, p)."""
    kept = weight * model.noise.coefficients(rate).gain / (1 - rate)
    chance = np.ones((len(weight), len(MASKS)))
    for k, d in np.ndindex(K, P):
        chance *= np.where(MASKS[:, k, d] == 1, 1 - rate[:, k, d, None], rate[:, k, d, None])
    total = np.zeros(len(weight))
    for i in range(N):
        score = np.einsum("skd,mkd->smk", kept * X[i], MASKS) + intercept[:, None]
        mine = score[..., y[i]] - special.logsumexp(score, axis=-1)
        total += row_weight[i] * np.log(np.sum(chance * np.exp(model.C * mine), axis=1))
    return total


def moments(weight, intercept, rate):
    """Moments and products that couple weights and rates, of draws; (S, q)."""
    flat, own = weight.reshape(len(weight), -1), rate.reshape(len(weight), -1)
    bounded = flat / (1 + np.abs(flat))  # a Laplace prior leaves large squares
    columns = [bounded, bounded**2, bounded[:, :P] * bounded[:, P : 2 * P], intercept / (1 + np.abs(intercept))]
    columns += [own, own**2, own[:, :1] * bounded] if own.shape[1] else []
    return np.concatenate(columns, axis=1)


def exact_means(model, X, y, row_weight, draws=60_000, seed=1):
    """Posterior means of ``moments`` and their standard errors, by importance sampling from the prior."""
    generator = np.random.default_rng(seed)
    rate_map = model.bind([f"x{d}" for d in range(P)])
    weight = model.weight_prior.sample_weight(generator, draws * K, P)[0].reshape(draws, K, P)
    contrast = 2.0 * generator.standard_t(5, size=(draws, K - 1))
    log_proposal = -3.0 * np.log1p((contrast / 2.0) ** 2 / 5).sum(axis=1)
    intercept = np.concatenate([np.zeros((draws, 1)), contrast], axis=1)
    intercept -= intercept.mean(axis=1, keepdims=True)
    if rate_map.is_free:
        free = rate_map.prior.law(np.zeros(rate_map.size)).sample(generator, draws * K).reshape(draws, K, -1)
        rate = free[..., rate_map.index]
    else:
        free, rate = np.zeros((draws, K, 0)), np.broadcast_to(rate_map.initial, (draws, K, P))
    log_weight = log_marginal(model, X, y, row_weight, weight, intercept, rate) - log_proposal
    share = special.softmax(log_weight)
    values = moments(weight, intercept, free)
    mean = share @ values
    assert 1 / np.sum(share**2) > 500
    return mean, np.sqrt((share**2) @ (values - mean) ** 2)


CASES = {
    "per feature, unbiased": (bd.Model(SOFTMAX, bd.Dropout(unbiased=True), bd.PerFeature(PRIOR)), None, np.asarray),
    "per feature, sparse": (bd.Model(SOFTMAX), None, sparse.csr_array),
    "one rate, sparse": (bd.Model(SOFTMAX, rates=bd.Shared(PRIOR)), None, sparse.csr_array),
    "one rate, unbiased": (bd.Model(SOFTMAX, bd.Dropout(unbiased=True), bd.Shared(PRIOR)), None, np.asarray),
    "fixed, row weights": (bd.Model(SOFTMAX, rates=bd.Fixed([0.3, 0.6]), C=0.6), WEIGHTS, np.asarray),
    "Laplace": (bd.Model(SOFTMAX, rates=bd.PerFeature(PRIOR), weight_prior=bd.Laplace(0.7)), None, np.asarray),
}


@pytest.mark.default_cases
@pytest.mark.parametrize(("model", "sample_weight", "storage"), CASES.values(), ids=CASES)
def test_posterior_means_are_exact(model, sample_weight, storage):
    X, y = problem()
    exact, exact_error = exact_means(model, X, y, np.ones(N) if sample_weight is None else sample_weight)
    data = as_dataset(storage(X), y, sample_weight, multiclass=True)
    kernel, operands = bd.Gibbs().bind(model, data, model.bind(data.feature_names), 150)
    result = run(kernel, operands, as_key(0), tune=150, draws=DRAWS, chains=CHAINS, progress=False)
    found = {name: value.astype(float).reshape(CHAINS * DRAWS, K, -1) for name, value in natural(result.draws).items()
             if name != "lp"}  # fmt: skip
    np.testing.assert_allclose(found["intercept"].sum(axis=1), 0, atol=1e-4)
    rate = found.get("rate", np.zeros((CHAINS * DRAWS, K, 0)))
    means = moments(found["weight"], found["intercept"][..., 0], rate).reshape(CHAINS, DRAWS, -1).mean(axis=1)
    error = np.hypot(means.std(axis=0, ddof=1) / np.sqrt(CHAINS), exact_error)
    z = (means.mean(axis=0) - exact) / error
    assert np.max(np.abs(z)) < LIMIT, np.round(z, 1)


def test_recorded_density_is_that_of_the_program():
    """``lp`` of random states, masks included, against the NumPyro program ``bayesdrop.models.softmax.noising``."""
    X, y = problem()
    model = bd.Model(SOFTMAX, rates=bd.PerFeature(PRIOR), C=0.7)
    data = as_dataset(X, y, multiclass=True)
    with jax.enable_x64(True):
        kernel, operands = bd.Gibbs(dtype="float64").bind(model, data, model.bind(data.feature_names), 0)

        @jax.jit
        def start(operands, key):
            state = kernel.init(operands, key, 4)
            return state, kernel.record(operands, state)

        state, found = start(operands, jax.random.key(1))
        rate = special.expit(np.asarray(found["logit_rate"]))
        kept = np.asarray(state.classes.kept[0])  # (K, p, C, n)
        expected = []
        constants = {"n_classes": K, "C": 0.7, "A": 2.0, "B": 3.0, "intercept_scale": None, "class_rates": True}
        density = jax.jit(lambda values: log_density(softmax.noising, (X, y), constants, values)[0])
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            for c in range(4):
                mask = np.where(X.T[None] != 0, kept[:, :, c], True)
                values = {
                    "weight": found["weight"][c], "intercept": found["intercept"][c], "rate": jnp.asarray(rate[c]),
                    "kept": jnp.asarray(np.moveaxis(mask, 2, 0).astype(float)),
                }  # fmt: skip
                expected.append(float(density(values)))
    lp = np.asarray(found["lp"])
    np.testing.assert_allclose(lp - lp[0], np.array(expected) - expected[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("pooled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_public_way(pooled):
    """Dims, labels and groups of a run; what has no sampler says what to use."""
    X, y = problem()
    y = np.array(["one", "two", "three"])[y]
    settings = {"rates": bd.Hierarchical(["a", "b"]), "weight_prior": bd.Laplace(1.0)} if pooled else {}
    options = {"chains": 2, "draws": 8, "tune": 8, "method": bd.Gibbs(joint_moves=0), "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws
        post = bd.sample(bd.Model(SOFTMAX, **settings), X, y, **options)
    group = bd.groups.dataset(post, "posterior")
    assert group["rate"].dims == ("chain", "draw", "class", "feature")
    assert not pooled or group["group_rate"].dims == ("chain", "draw", "class", "group")
    assert group["intercept"].dims == ("chain", "draw", "class")
    assert group["class"].values.tolist() == ["one", "three", "two"]
    fixed = bd.Model(SOFTMAX, rates=bd.Fixed(0.2))
    with pytest.raises(ValueError, match="bd.Gibbs"):
        bd.sample(fixed, X, y, target="marginalised", progress=False)
