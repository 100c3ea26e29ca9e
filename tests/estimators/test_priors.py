"""Prior modes and strengths, one for each feature or group: the learnt rates are the closed forms of the rule."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd

KINDS = [bd.DropoutSVC, bd.DropoutLogisticRegression]


def problem(n=90, p=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < [0.9, 0.5, 0.3, 0.7, 1.0])
    return X, np.where(X[:, 0] + 0.7 * X[:, 1] + rng.normal(size=n) > 0, 1, 0)


def counts(model, X, y):
    """Occurrences and entries that speak against their weight, entry by entry."""
    occur, against = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for row, label in zip(X, y, strict=True):
        for d, x in enumerate(row):
            occur[d] += x != 0
            against[d] += (2 * label - 1) * model.coef_[0, d] * x < 0
    return occur, against


MODE = np.array([0.1, 0.3, 0.5, 0.7, 0.9])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_strength_per_feature(kind, storage):
    """``(n⁻ + μ m)/(n + m)``, with a mode and a strength of each feature's own."""
    X, y = problem()
    strength = np.array([0.0, 5.0, 20.0, 100.0, 1e4])
    model = kind(bd.PerFeature(bd.Beta.from_mode(MODE, strength=strength))).fit(storage(X), y)
    occur, against = counts(model, X, y)
    np.testing.assert_allclose(model.rates_, (against + MODE * strength) / (occur + strength), rtol=1e-12)
    np.testing.assert_allclose(model.rate_posterior_.law.a, 1 + MODE * strength + against, rtol=1e-12)
    np.testing.assert_allclose(model.rate_posterior_.law.b, 1 + (1 - MODE) * strength + occur - against, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ratio", [0.0, 0.5, 3.0, np.array([0.0, 0.1, 1.0, 10.0, 1e6])], ids=str)
def test_relative_strength(kind, ratio):
    """``(η̂ + λμ)/(1 + λ)`` whatever the frequency of the feature, with one λ or one for each."""
    X, y = problem()
    model = kind(bd.PerFeature(bd.Beta.from_mode(MODE, relative_strength=ratio))).fit(X, y)
    occur, against = counts(model, X, y)
    np.testing.assert_allclose(model.rates_, (against / occur + ratio * MODE) / (1 + ratio), rtol=1e-12)


@pytest.mark.parametrize("relative", [False, True])
def test_groups_have_their_own_modes(relative):
    X, y = problem()
    groups, mode, size = np.array([0, 0, 1, 1, 1]), np.array([0.2, 0.6]), np.array([0.5, 4.0])
    options = {"relative_strength": size} if relative else {"strength": 30 * size}
    model = bd.DropoutSVC(bd.PerGroup(list("aabbb"), bd.Beta.from_mode(mode, **options))).fit(X, y)
    occur, against = (np.bincount(groups, part) for part in counts(model, X, y))
    strength = size * occur if relative else 30 * size
    np.testing.assert_allclose(model.rates_, ((against + mode * strength) / (occur + strength))[groups], rtol=1e-12)


ADAPTIVE = {"rates": bd.Hierarchical(["all"] * 3), "weight_prior": bd.Normal(bd.HalfNormal(1.0))}


@pytest.mark.parametrize(
    ("settings", "options", "shape", "drawn"),
    [
        ({}, {}, (40, 3), ADAPTIVE),
        ({}, {"classes": 4}, (40, 3), {**ADAPTIVE, "loss": bd.Softmax()}),
        ({"rates": bd.Shared()}, {"classes": 4}, (40, 3), {"rates": bd.Shared(), "loss": bd.Softmax()}),
        ({}, {"classes": 4}, (40, 60), {"loss": bd.Softmax()}),
        ({"weight_prior": bd.Normal(2.0)}, {}, (40, 3), {**ADAPTIVE, "weight_prior": bd.Normal(2.0)}),
        ({"rates": bd.PerFeature()}, {}, (40, 3), {}),
        ({}, {"method": bd.HMC()}, (40, 3), {}),
        ({}, {"target": "noising"}, (40, 3), {}),
        ({}, {}, (40, 60), {}),
        ({"noise": bd.GaussianNoise(0.3)}, {}, (40, 3), {"rates": None}),
    ],
)
def test_draws_without_rates_learn_their_strength(monkeypatch, settings, options, shape, drawn):
    """Of logistic regression with fewer features than rows, where nothing else was said."""
    monkeypatch.setattr("bayesdrop.posterior.sampling.sample", lambda model, X, y, **_: model)
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=shape), np.arange(shape[0]) % options.pop("classes", 2)
    model = bd.DropoutLogisticRegression(**settings).sample(X, y, **options)
    expected = {"rates": bd.PerFeature(), "weight_prior": bd.Normal()} | drawn
    assert {name: getattr(model, name) for name in expected} == expected
    assert bd.DropoutSVC().sample(X, y % 2).rates == bd.PerFeature()


def test_draws_without_C_have_weights_in_units_of_the_columns(monkeypatch):
    """The scale of the weights is the root of the default C of a fit, and no row counts more than once."""
    monkeypatch.setattr("bayesdrop.posterior.sampling.sample", lambda model, X, y, **_: model)
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    for scale in (1.0, 0.01):
        model = bd.DropoutLogisticRegression().sample(X * scale, y)
        assert (model.C, model.weight_prior) == (1.0, bd.Normal(bd.HalfNormal(1 / scale)))
        assert bd.DropoutLogisticRegression(0.3).sample(X * scale, y).weight_prior == bd.Normal(1 / scale)
        given = bd.DropoutLogisticRegression(0.3, C=2.0).sample(X * scale, y)
        assert (given.C, given.weight_prior) == (2.0, bd.Model().weight_prior)


@pytest.mark.default_cases("3")
@pytest.mark.parametrize("classes", [2, 3])
def test_draws_without_rates(classes):
    X = np.random.default_rng(1).normal(size=(40, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.MixingWarning)
        post = bd.DropoutLogisticRegression().sample(
            X, np.arange(40) % classes, draws=10, tune=10, chains=2, progress=False
        )
    posterior = bd.groups.dataset(post, "posterior")
    assert {"weight_scale", "group_rate", "group_strength", "rate"} <= set(posterior)
    assert posterior["weight_scale"].dims == ("chain", "draw")
    assert np.all(np.isfinite(bd.predict(post, X).mean))
