"""Levels of random terms in comparisons and grids, and typical values, which have effects of 0."""

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd

pytest.importorskip("formulaic")
RNG = np.random.default_rng(3)
TABLE = pd.DataFrame(
    {"age": RNG.normal(40, 10, 80), "site": RNG.choice(["n", "s", "w"], 80), "ward": RNG.integers(1, 4, 80)}
).assign(ill=RNG.random(80) > 0.5)
FIT = bd.fit(
    bd.Model(rates=bd.Fixed(0.0)),
    "ill ~ age + (1 | site) + (1 | ward) + (0 + age | site:ward)",
    TABLE,
    random_scale=0.5,
)


def weight(name):
    return FIT.weight[FIT.feature_names.index(name)]


def test_levels_of_a_random_term_are_compared():
    """By name alone; differences of predictions are held by tests/laws/test_effects.py."""
    found = bd.comparisons(FIT, TABLE, {"site": "pairwise", "ward": (1, 3)})
    assert found["contrast"].tolist() == ["s - n", "w - n", "w - s", "3 - 1"]
    assert (found["sd"] > 0).all()
    assert set(bd.comparisons(FIT, TABLE)["variable"]) == {"age"}
    few = TABLE[TABLE["site"] == "n"]
    assert bd.comparisons(FIT, few, {"site": ("n", "w")})["effect"].abs().iloc[0] > 0  # a level of the fit alone
    with pytest.raises(ValueError, match="'moon' is not a level of 'site'"):
        bd.comparisons(FIT, TABLE, {"site": ("n", "moon")})


def test_typical_values_have_effects_of_zero():
    typical = bd.predictions_grid(FIT, TABLE, {"age": [50.0]}, others="typical")["prediction"].iloc[0]
    score = weight("age") * 50.0 + FIT.intercept
    np.testing.assert_allclose(typical, 1 / (1 + np.exp(-score)), rtol=1e-12)
    named = bd.predictions_grid(FIT, TABLE, {"age": [50.0], "site": ["s"]}, others="typical")["prediction"].iloc[0]
    np.testing.assert_allclose(named, 1 / (1 + np.exp(-score - weight("1|site[s]"))), rtol=1e-12)
    both = bd.predictions_grid(FIT, TABLE, {"site": ["s"], "ward": [2]}, others="typical")["prediction"].iloc[0]
    mean = TABLE["age"].mean()
    score = (weight("age") + weight("age|site:ward[s:2]")) * mean + FIT.intercept
    score += weight("1|site[s]") + weight("1|ward[2]")
    np.testing.assert_allclose(both, 1 / (1 + np.exp(-score)), rtol=1e-12)
