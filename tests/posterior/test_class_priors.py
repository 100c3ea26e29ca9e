"""Draws from the priors of many classes: their moments, and responses against all masks.

False-alarm rate: each Kolmogorov-Smirnov test has 1e-6 and each mean 5 standard errors (5.7e-7), about 30 of them.
"""

import itertools

import numpy as np
from scipy import special, stats

import bayesdrop as bd

DRAWS, LEAST, LIMIT = 20_000, 1e-6, 5.0
CLASSES = ["blue", "green", "red"]
X = np.array([[1.0, -2.0], [0.5, 1.5], [0.0, 0.0]])


def groups(model, **options):
    tree = bd.prior_draws(model, X, draws=DRAWS, seed=1, classes=CLASSES, **options)
    return [bd.groups.dataset(tree, name) for name in ("prior", "prior_predictive")]


def test_weights_rates_and_responses():
    """Shares of the classes against the softmax averaged over the drawn weights, with all masks summed."""
    model = bd.Model(bd.Softmax(), bd.Dropout(centre=None), weight_prior=bd.Normal(1.5))
    prior, predictive = groups(model, intercept_scale=0.7)
    weight, rate, intercept = (prior[name].values[0] for name in ("weight", "rate", "intercept"))
    assert prior["weight"].dims == ("chain", "draw", "class", "feature")
    assert prior["rate"].dims == ("chain", "draw", "feature")
    assert prior["class"].values.tolist() == CLASSES
    shrunk = (2 / 3) ** 0.5  # the mean of the classes is taken off
    for k, d in np.ndindex(3, 2):
        assert stats.kstest(weight[:, k, d] / (1.5 * shrunk), "norm").pvalue > LEAST
        assert stats.kstest(rate[:, d], "uniform").pvalue > LEAST
    np.testing.assert_allclose(intercept.sum(axis=1), 0, atol=1e-12)
    assert stats.kstest(intercept[:, 0] / (0.7 * (2 / 3) ** 0.5), "norm").pvalue > LEAST
    chance = np.zeros((DRAWS, 3, 3))
    for mask in itertools.product((0.0, 1.0), repeat=2):
        kept = np.array(mask)
        share = np.prod(np.where(kept == 1, 1 - rate, rate), axis=1)
        score = np.einsum("id,skd->sik", X, weight * kept) + intercept[:, None]
        chance += share[:, None, None] * special.softmax(score, axis=2)
    y = predictive["y"].values[0]
    assert predictive["y"].dims == ("chain", "draw", "obs_id")
    for k in range(3):
        gap = (y == k) - chance[:, :, k]
        assert np.max(np.abs(gap.mean(axis=0)) / (gap.std(axis=0) / DRAWS**0.5)) < LIMIT


def test_scale_mixtures_and_pooled_rates():
    """Every weight follows its prior as it is; each class has a global scale, and all share the groups of rates."""
    model = bd.Model(bd.Softmax(), rates=bd.Hierarchical(["a", "b"]), weight_prior=bd.Laplace(0.5))
    prior, _ = groups(model, intercept_scale=1.0)
    weight = prior["weight"].values[0]
    for k, d in np.ndindex(3, 2):
        assert stats.kstest(weight[:, k, d] / 0.5, "laplace").pvalue > LEAST
    assert prior["group_rate"].dims == ("chain", "draw", "group")
    model = bd.Model(
        bd.Softmax(), rates=bd.Hierarchical(["a", "b"]), weight_prior=bd.Horseshoe(0.5), fit_intercept=False
    )
    prior, _ = groups(model)
    assert prior["global_scale"].dims == ("chain", "draw", "class")
    assert prior["group_rate"].dims == ("chain", "draw", "group")
    for k in range(3):
        assert stats.kstest(prior["global_scale"].values[0, :, k] / 0.5, "halfcauchy").pvalue > LEAST
