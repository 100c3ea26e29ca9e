"""The centre of the normal approximation: the mode, from wherever the fit had stopped."""

import jax
import numpy as np

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_sampling_design
from bayesdrop.fitting.minimisers.newton import Newton
from bayesdrop.mcmc.hmc.approximations import normal

N, P = 400, 3


def test_the_gradient_of_streamed_rows_vanishes(monkeypatch):
    """To 1e-3 standard deviations, though the fit stops at a tenth."""
    monkeypatch.setattr(normal, "Newton", lambda tol: Newton(tol=1e-3))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    y = X @ np.array([2.0, -1.0, 0.5]) + rng.logistic(size=N) > 0
    model, found = bd.Model(rates=bd.Fixed(0.0)), []
    with jax.enable_x64(True):
        for features in (X, bd.Blocks([X[:150], X[150:]])):
            data = as_dataset(features, y, None, None, True, as_sampling_design).with_weight()
            method = bd.HMC(dtype="float64")
            bind = method.bind_streamed if data.design.is_streamed else method.bind
            kernel, operands = bind(model, data, model.bind(data.feature_names), 10, marginalised=True)
            found.append((getattr(kernel, "inner", kernel), getattr(operands, "chains", operands)))
        density, operands = found[0][0].density, found[0][1].density
        centre, factor = (np.asarray(part) for part in (found[1][1].centre, found[1][1].factor))
        slope = factor.T @ np.asarray(density.evaluate(operands, centre[None]).gradient)[0]
    assert np.linalg.norm(slope) < 1e-3
