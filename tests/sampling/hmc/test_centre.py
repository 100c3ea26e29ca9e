"""The centre of the normal approximation is the mode."""

import jax
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_sampling_design

N, P = 4000, 3


@pytest.mark.parametrize("storage", [np.asarray, lambda X: bd.Blocks([X[:1500], X[1500:]])], ids=["memory", "blocks"])
def test_the_gradient_vanishes(storage):
    """To 1e-3 posterior standard deviations."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    y = X @ np.array([2.0, -1.0, 0.5]) + rng.logistic(size=N) > 0
    model, found = bd.Model(rates=bd.Fixed(0.0)), []
    with jax.enable_x64(True):
        for features in (X, storage(X)):
            data = as_dataset(features, y, None, None, True, as_sampling_design).with_weight()
            method = bd.HMC(dtype="float64")
            bind = method.bind_streamed if data.design.is_streamed else method.bind
            kernel, operands = bind(model, data, model.bind(data.feature_names), 10, marginalised=True)
            found.append((getattr(kernel, "inner", kernel), getattr(operands, "chains", operands)))
        density, operands = found[0][0].density, found[0][1].density
        centre, factor = (np.asarray(part) for part in (found[1][1].centre, found[1][1].factor))
        slope = factor.T @ np.asarray(density.evaluate(operands, centre[None]).gradient)[0]
    assert np.linalg.norm(slope) < 1e-3
