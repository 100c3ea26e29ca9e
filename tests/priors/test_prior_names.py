"""Priors by name of a term or column equal priors by position, at every door; names that are not there are refused."""

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd
from bayesdrop.description import describe, rebuild

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {"age": RNG.normal(size=60), "rx": RNG.choice(list("abc"), 60), "y": RNG.normal(size=60), "site": ["n", "s"] * 30}
)
FORMULA = "y ~ age + rx + age:rx"
BY_NAME = {"rx": 0.1, "age": 0.4, "age:rx": 2.5, "age:rx[b]": 3.0, "default": 9.0}
BY_POSITION = [0.4, 0.1, 0.1, 0.1, 2.5, 3.0, 2.5]
FEATURES = TABLE[["age"]].assign(weight=RNG.normal(size=60))


def model(scale):
    return bd.Model(bd.Squared(), rates=bd.Fixed(0.1), weight_prior=bd.Normal(scale))


def test_a_term_has_one_scale_for_all_its_columns_and_a_column_its_own_first():
    named, placed = (bd.fit(model(scale), FORMULA, TABLE) for scale in (BY_NAME, BY_POSITION))
    assert named.feature_names == ["age", "rx[a]", "rx[b]", "rx[c]", "age:rx[a]", "age:rx[b]", "age:rx[c]"]
    np.testing.assert_array_equal(named.weight, placed.weight)
    assert abs(named.weight - bd.fit(model(1.0), FORMULA, TABLE).weight).max() > 0.01


def test_names_of_columns_serve_data_frames_arrays_and_estimators():
    named, placed = model({"weight": 0.1, "default": 2.0}), model([2.0, 0.1])
    expected = bd.fit(placed, FEATURES, TABLE.y).weight
    np.testing.assert_array_equal(bd.fit(named, FEATURES, TABLE.y).weight, expected)
    array = FEATURES.to_numpy()
    np.testing.assert_array_equal(bd.fit(named, array, TABLE.y, feature_names=["age", "weight"]).weight, expected)
    ridge = bd.DropoutRidge(0.1, weight_prior=named.weight_prior)
    by_place = bd.DropoutRidge(0.1, weight_prior=placed.weight_prior)
    np.testing.assert_array_equal(ridge.fit(FEATURES, TABLE.y).coef_, by_place.fit(FEATURES, TABLE.y).coef_)
    np.testing.assert_array_equal(
        ridge.partial_fit(FEATURES, TABLE.y).coef_, by_place.partial_fit(FEATURES, TABLE.y).coef_
    )


def test_scales_in_units_of_the_columns_follow_their_names():
    named, placed = (
        bd.Model(bd.Squared(), rates=bd.Fixed(0.1), weight_prior=bd.Normal(scale, relative=True))
        for scale in ({"weight": 0.1, "default": 2.0}, [2.0, 0.1])
    )
    data = FEATURES * [100.0, 1.0], TABLE.y
    np.testing.assert_array_equal(bd.fit(named, *data).weight, bd.fit(placed, *data).weight)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")
def test_samples_and_prior_draws_take_names():
    few = {"draws": 20, "tune": 20, "chains": 2, "progress": False}
    named, placed = (
        bd.sample(model(scale), FORMULA + " + (1 | site)", TABLE, random_scale=1.0, **few)
        for scale in (BY_NAME, BY_POSITION)
    )
    np.testing.assert_array_equal(named.posterior.weight, placed.posterior.weight)
    np.testing.assert_allclose(named.constant_data.weight_precision, np.array(BY_POSITION) ** -2.0)
    draws = bd.prior_draws(model(BY_NAME), FORMULA, TABLE, draws=4000, intercept_scale=1.0)
    np.testing.assert_allclose(draws.prior.weight.std(("chain", "draw")), BY_POSITION, rtol=0.06)  # five deviations


def test_a_model_with_names_is_stored():
    stated = model(BY_NAME)
    assert rebuild(describe(stated)) == stated


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ({"rx": 1.0, "sex": 1.0}, r"Normal scale: 'sex' is not there; the terms are 'age', 'rx', 'age:rx', and the"),
        ({"rx": 1.0, "age": 1.0}, r"Normal scale: 'age:rx\[a\]', .* have none; name every term or column"),
        ({"rx": -1.0, "default": 1.0}, r"Normal scale\['rx'\]: expected a finite number above 0, got -1.0"),
        ({"rx": float("nan")}, r"Normal scale\['rx'\]: expected a finite number above 0, got nan"),
        ({"rx": [1.0, 2.0]}, r"Normal scale\['rx'\]: expected one number, got \[1.0, 2.0\]"),
        ({"rx": bd.HalfNormal(1.0)}, r"Normal scale\['rx'\]: .* groups="),
        ({"a:b": 1.0, "a: b": 2.0}, r"differ by spaces only"),
        ({}, r"Normal scale: expected a number for each term or column"),
    ],
)
def test_names_that_do_not_fit_are_refused(scale, message):
    with pytest.raises(ValueError, match=message):
        bd.fit(model(scale), FORMULA, TABLE)


def test_a_key_that_is_no_text_and_a_table_without_terms_are_refused():
    with pytest.raises(TypeError, match="Normal scale: expected names of terms or columns as keys, got 3"):
        bd.Normal({3: 1.0})
    with pytest.raises(ValueError, match="Normal scale: 'rx' is not there; the columns are 'age', 'weight'"):
        bd.fit(model({"rx": 1.0, "default": 1.0}), FEATURES, TABLE.y)
    with pytest.raises(ValueError, match="names of the columns are not known here"):
        bd.Normal({"rx": 1.0}).precision(2)
