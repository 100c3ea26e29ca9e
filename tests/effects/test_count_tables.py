"""Counts with an exposure and three factors: differences of levels, their spreads and their coverage.

The table has the shape of an insurer's: 64 cells, expected counts from 3 to 300.
"""

import itertools

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd

pytest.importorskip("formulaic")

FORMULA = "claims ~ district + car + age + offset(np.log(holders))"
EFFECTS = {
    "district[b] vs district[a]": 0.1, "district[c] vs district[a]": -0.2, "district[d] vs district[a]": 0.3,
    "car[q] vs car[p]": 0.16, "car[r] vs car[p]": 0.4, "car[s] vs car[p]": 0.5,
    "age[w] vs age[v]": -0.2, "age[x] vs age[v]": -0.35, "age[y] vs age[v]": -0.55,
}  # fmt: skip


def simulate(seed):
    rng = np.random.default_rng(seed)
    cells = list(itertools.product("abcd", "pqrs", "vwxy"))
    frame = pd.DataFrame(cells, columns=["district", "car", "age"])
    frame["holders"] = np.round(np.exp(rng.uniform(np.log(30), np.log(2000), 64)))
    score = np.full(64, -1.8)
    for name, value in EFFECTS.items():
        column, level = name.split("[")[0], name.split("[")[1][0]
        score += np.where(frame[column] == level, value, 0.0)
    frame["claims"] = rng.poisson(frame["holders"] * np.exp(score))
    return frame


def regression(frame):
    """Coefficients and standard errors of Poisson regression with reference levels, by Newton's method."""
    levels = {"district": "bcd", "car": "qrs", "age": "wxy"}
    others = [frame[column] == level for column in levels for level in levels[column]]
    X = np.column_stack([np.ones(64), *others]).astype(float)
    y, exposure = frame["claims"].to_numpy(), frame["holders"].to_numpy()
    b = np.zeros(X.shape[1])
    b[0] = np.log(y.sum() / exposure.sum())
    for _ in range(50):
        mean = exposure * np.exp(X @ b)
        b = b + np.linalg.solve(X.T @ (mean[:, None] * X), X.T @ (y - mean))
    covariance = np.linalg.inv(X.T @ ((exposure * np.exp(X @ b))[:, None] * X))
    return b[1:], np.sqrt(np.diagonal(covariance))[1:]


MODEL = bd.Model(bd.Poisson(), rates=bd.Fixed(0.0), weight_prior=bd.Normal(10.0))


def test_differences_and_spreads_are_those_of_a_regression():
    frame = simulate(0)
    table = bd.weights_table(bd.fit(MODEL, FORMULA, frame))
    assert list(table.index) == list(EFFECTS)
    weight, sd = regression(frame)
    np.testing.assert_allclose(table["weight"], weight, atol=0.03 * sd.max())
    np.testing.assert_allclose(table["sd"], sd, rtol=0.03)
    np.testing.assert_allclose(table["rate_ratio"], np.exp(table["weight"]))
    assert not set(table.columns) & {"odds_ratio", "interval"}
