"""What posteriors say of counts: expected and simulated responses and log likelihoods, against all masks."""

import numpy as np
import pytest
from scipy import sparse, stats

import bayesdrop as bd

X = np.array([[1.0, -0.5, 2.0], [0.0, 1.5, 0.0], [0.0, 0.0, 0.0], [-1.0, 0.7, 0.3]])
Y = np.array([2, 0, 5, 1])
RATE = np.array([0.3, 0.6, 0.45])
CASES = {
    "poisson": (bd.Poisson(), lambda s: stats.poisson(np.exp(s))),
    "binomial": (bd.Binomial(6), lambda s: stats.binom(6, 1 / (1 + np.exp(-s)))),
    "negative binomial": (bd.NegativeBinomial(2.5), lambda s: stats.nbinom(2.5, 1 / (1 + np.exp(s)))),
}


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_against_all_masks(build, enumerate_masks, name, unbiased, convert):
    """Expected counts of a logarithmic mean are exact, others to 0.002 of a trial, and here enumerated."""
    loss, law = CASES[name]
    weight = np.random.default_rng(0).normal(size=(2, 3, 3))
    model = bd.Model(loss, bd.Dropout(unbiased), bd.PerFeature())
    post = build(model, weight, intercept=0.3, rate=RATE, y=Y)
    flat = weight.reshape(-1, 3)
    each = [[enumerate_masks(model, x, w, 0.3, RATE) for w in flat] for x in X]
    score, chance = (np.array([[pair[j] for pair in row] for row in each]) for j in range(2))
    expected = np.sum(chance * law(score).mean(), axis=2).mean(axis=1)
    found = bd.predict(post, convert(X))
    np.testing.assert_allclose(found.mean, expected, rtol=1e-6)
    assert np.all(found.response_low >= 0)
    logs = np.log(np.sum(chance * law(score).pmf(Y[:, None, None]), axis=2))
    likelihood = bd.groups.dataset(bd.log_likelihood(post, convert(X), Y), "log_likelihood")["y"].values
    np.testing.assert_allclose(likelihood.reshape(-1, 4).T, logs, atol=2e-3)


@pytest.mark.parametrize("name", CASES)
def test_simulated_counts_have_the_moments_of_all_masks(build, enumerate_masks, name):
    """Means, allowed 5 standard errors: a false alarm in fewer than 1e-5 of runs. Counts are whole numbers."""
    loss, law = CASES[name]
    model, weight, draws = bd.Model(loss, rates=bd.PerFeature()), np.array([1.2, -1.0, 0.8]), 20_000
    post = build(model, np.broadcast_to(weight, (1, draws, 3)), intercept=0.3, rate=RATE, y=Y)
    y = bd.groups.dataset(bd.posterior_predictive(post, X), "posterior_predictive")["y"]
    assert y.dtype == np.int64
    for i, x in enumerate(X):
        score, chance = enumerate_masks(model, x, weight, 0.3, RATE)
        first = chance @ law(score).mean()
        second = chance @ (law(score).var() + law(score).mean() ** 2)
        assert abs(float(y[0, :, i].mean()) - first) < 5 * np.sqrt((second - first**2) / draws)


def test_a_noise_without_masks_has_its_own_mean(build):
    """``E e^s`` under Laplace noise, infinite beyond its limit."""
    model = bd.Model(bd.Poisson("gaussian"), bd.LaplaceNoise(0.5))
    weight = np.array([[[1.0, -0.5, 0.3]]])
    post = build(model, weight, intercept=0.1, y=Y, target="marginalised")
    expected = np.exp(X @ weight[0, 0] + 0.1) / np.prod(1 - (0.5 * weight[0, 0]) ** 2)
    np.testing.assert_allclose(bd.predict(post, X).mean, expected, rtol=1e-12)
