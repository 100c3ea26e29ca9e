"""What ``sample`` of a classifier draws where neither rates nor ``C`` were given."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import bayesdrop as bd

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


def test_rows_of_weight_zero_and_the_kind_of_table_leave_the_model(monkeypatch):
    """The scale of the weights and the choice of the rates are those of the rows that count."""
    monkeypatch.setattr("bayesdrop.posterior.sampling.sample", lambda model, X, y, **_: model)
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 20)), np.arange(60) % 2
    for count in (10, 40):
        wild = np.where(np.arange(60)[:, None] < count, X, 1000 * X)
        some = bd.DropoutLogisticRegression().sample(wild, y, sample_weight=1.0 * (np.arange(60) < count))
        assert some == bd.DropoutLogisticRegression().sample(X[:count], y[:count])
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(20)])
    for table in (frame, dict(frame), frame.to_xarray(), X.tolist(), sparse.csr_array(X)):
        assert bd.DropoutLogisticRegression().sample(table, y) == bd.DropoutLogisticRegression().sample(X, y)


@pytest.mark.slow
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
