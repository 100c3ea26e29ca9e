"""Simulation-based calibration of correlated random effects, ``y ~ x + (x | g)``, under stated priors.

Parameters are drawn from the prior and responses from the model, by NumPy alone, and ``bd.sample`` runs on them, point
fit, pilots and adaptation included (Talts et al. 2018). The rank of the true parameter among 63 thinned draws is then
uniform: 256 replications, tested in 16 cells and by the first two Legendre polynomials, as in ``test_calibration``. The
false-alarm rate is 1e-5, shared by its quantities and tests.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd

FALSE_ALARM, REPLICATIONS = 1e-5, 256
DRAWS = 63
GROUPS, ROWS = 8, 6
TERM = "1+x|g"
GROUP = np.repeat(np.arange(GROUPS), ROWS)
X = np.random.default_rng(0).normal(size=GROUPS * ROWS)
FORMULA = "y ~ x + (x | g)"
ETA = 2.0


def simulated(generator):
    """Parameters by their names in a posterior, and the table."""
    truth = {"weight": 0.8 * generator.normal(), "r": 2 * generator.beta(ETA, ETA) - 1}
    level = 0.9 * generator.normal()  # of the score at the mean of x
    truth["intercept"] = level - truth["weight"] * X.mean()
    scale = np.abs(generator.normal(size=2))
    truth["1|g|scale"], truth["x|g|scale"] = scale
    z, r = generator.normal(size=(2, GROUPS)), truth["r"]
    effect = scale[:, None] * [z[0], r * z[0] + np.sqrt(1 - r * r) * z[1]]
    truth["first"], truth["last"] = effect[0, 0], effect[1, -1]
    score = truth["intercept"] + truth["weight"] * X + effect[0, GROUP] + effect[1, GROUP] * X
    truth["sigma"] = np.abs(generator.normal())
    y = score + truth["sigma"] * generator.normal(size=len(X))
    return truth, pd.DataFrame({"y": y, "x": X, "g": [f"g{k}" for k in GROUP]})


def ranks(seed):
    """Rank of each true parameter among the thinned draws."""
    truth, table = simulated(np.random.default_rng([7, seed]))
    priors = {"weight_prior": bd.Normal(0.8), "intercept_prior": bd.Normal(0.9)}
    model = bd.Model(bd.Squared(variance=bd.HalfNormal(1.0)), rates=bd.Fixed(0.0), **priors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.MixingWarning)
        post = bd.sample(
            model, FORMULA, table, random_scale=bd.HalfNormal(1.0), correlation_shape=ETA, draws=16 * 16, tune=500,
            chains=4, seed=seed, progress=False,
        )  # fmt: skip
    found = bd.groups.dataset(post, "posterior").isel(draw=slice(15, None, 16))
    drawn = {name: found[name].values for name in truth if name in found}
    drawn["weight"] = drawn["weight"][..., 0]
    drawn |= {"r": found[f"{TERM}|correlation"].values[..., 0]}
    drawn |= {"first": found["1|g"].values[..., 0], "last": found["x|g"].values[..., -1]}
    return {name: int(np.sum(drawn[name].ravel()[:DRAWS] < value)) for name, value in truth.items()}


@pytest.mark.slow
def test_ranks_are_uniform(least):
    each = [ranks(seed) for seed in range(REPLICATIONS)]
    assert least([np.array([one[name] for one in each]) for name in each[0]], DRAWS) > FALSE_ALARM
