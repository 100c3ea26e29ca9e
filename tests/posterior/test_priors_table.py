"""The table of priors has the numbers that the fits take, in the units of the columns."""

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"age": RNG.normal(size=30) * 7, "site": ["n", "s", "e"] * 10, "ill": [0, 1] * 15})


def test_names_have_their_numbers_and_say_where_these_are_from():
    prior = bd.Normal({"age": 0.5, "site[e]": 3.0, "default": 2.5}, mean={"site": 1.0})
    table = bd.priors_table(
        bd.Model(weight_prior=prior, intercept_prior=bd.Normal(2.0, mean=-1.0)), "ill ~ age + site", TABLE
    )
    assert table.index.tolist() == ["age", "site[e]", "site[n]", "site[s]", "Intercept"]
    assert table.term.tolist() == ["age", "site", "site", "site", "1"]
    assert table["mean"].tolist() == [0.0, 1.0, 1.0, 1.0, -1.0]
    assert table.sd.tolist() == [0.5, 3.0, 2.5, 2.5, 2.0]
    assert table.source.tolist() == ["stated", "stated", "default", "default", "stated"]
    assert set(table.family) == {"normal"}


def test_units_of_columns_are_resolved():
    stated = bd.Model(weight_prior=bd.Normal(2.0, mean=1.0, relative=True))
    table = bd.priors_table(stated, TABLE[["age"]])
    spread = TABLE.age.std(ddof=0)
    np.testing.assert_allclose(table.loc["age", ["mean", "sd"]].astype(float), [1 / spread, 2 / spread])
    assert table.loc["Intercept", ["family", "source"]].tolist() == ["flat", "default"]


def test_scales_that_are_learnt_are_named():
    learnt = bd.Model(weight_prior=bd.Normal(bd.HalfNormal(1.5), unit=[1.0, 0.25]), fit_intercept=False)
    table = bd.priors_table(learnt, RNG.normal(size=(5, 2)))
    assert table.scale.tolist() == ["HalfNormal(scale=1.5)", "HalfNormal(scale=1.5) × 0.25"]
    assert table.source.tolist() == ["learnt", "learnt"]
    assert table.sd.isna().all()
    table = bd.priors_table(bd.Model(weight_prior=bd.Laplace(0.5)), TABLE[["age"]])
    assert table.loc["age", ["family", "scale"]].tolist() == ["laplace", "Laplace(scale=0.5)"]


@pytest.mark.parametrize("scale", [0.5, None])
def test_effects_of_random_terms_have_theirs(scale):
    table = bd.priors_table("ill ~ age + (1 | site)", TABLE, random_scale=scale)
    assert table.term.tolist() == ["age", *["1|site"] * 3, "1"]
    assert table.source.tolist() == ["default", *["stated" if scale else "learnt"] * 3, "default"]
    assert table.sd.iloc[1:4].fillna(0).tolist() == [scale or 0.0] * 3
    assert table.scale.iloc[1] == ("" if scale else "HalfNormal(scale=1.0)")


def test_names_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="Normal scale: 'sex' is not there; the terms are 'age'"):
        bd.priors_table(bd.Model(weight_prior=bd.Normal({"sex": 1.0})), "ill ~ age", TABLE)


def test_features_may_have_the_names_of_parameters():
    names = ["sigma", "Intercept"]
    table = bd.priors_table(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), RNG.normal(size=(9, 2)), feature_names=names)
    assert table.index.tolist() == [*names, "Intercept", "sigma"]
    assert table.family.tolist() == ["normal", "normal", "flat", "halfnormal"]
    assert table["mean"].dtype == table.sd.dtype == float
