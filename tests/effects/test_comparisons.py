"""Ways to compare two averaged predictions, of draws and of fits, and names of variables as a text."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import bayesdrop as bd

PLAIN = bd.Model(rates=bd.Fixed(0.0))


def odds(chance):
    return chance / (1 - chance)


FORMS = {
    "difference": lambda high, low: high - low,
    "ratio": lambda high, low: high / low,
    "odds_ratio": lambda high, low: odds(high) / odds(low),
    "log_odds_ratio": lambda high, low: np.log(odds(high) / odds(low)),
}


@pytest.mark.parametrize("comparison", FORMS)
def test_averages_are_compared_draw_by_draw(data, post, comparison):
    ends = bd.predictions_grid(post, data.X, {"x0": [0.0, 1.0]}, corrupted_inputs=True, as_draws=True).values
    expected = FORMS[comparison](ends[..., 1], ends[..., 0])
    for one in (comparison, FORMS[comparison]):
        found = bd.comparisons(post, data.X, {"x0": (0, 1)}, comparison=one, corrupted_inputs=True, as_draws=True)
        np.testing.assert_allclose(found.values[..., 0], expected, rtol=1e-12)


@pytest.mark.parametrize("comparison", FORMS)
def test_delta_method_of_a_function_is_that_of_its_name(data, comparison):
    fit = bd.fit(PLAIN, data.X, data.Y)
    named, called = (
        bd.comparisons(fit, data.X, {"x0": (-1, 1), "x1": 1}, comparison=one) for one in (comparison, FORMS[comparison])
    )
    for column in ("effect", "sd", "low", "high"):
        np.testing.assert_allclose(named[column], called[column], rtol=1e-7, atol=1e-9)
    assert (named["sd"] > 0).all()


def test_a_function_that_is_not_analytic(data):
    fit = bd.fit(PLAIN, data.X, data.Y)
    plain = bd.comparisons(fit, data.X, {"x0": (1, -1)})
    found = bd.comparisons(fit, data.X, {"x0": (1, -1)}, comparison=lambda high, low: np.abs(high - low))
    np.testing.assert_allclose(found["effect"], -plain["effect"], rtol=1e-12)
    np.testing.assert_allclose(found["sd"], plain["sd"], rtol=1e-7)


def test_odds_ratio_of_one_binary_feature_without_others_is_that_of_its_weight():
    X, y = np.repeat([[0.0], [1.0]], 20, axis=0), np.r_[np.resize([0, 1, 1, 0, 1], 20), np.resize([0, 1, 0, 0], 20)]
    fit = bd.fit(PLAIN, X, y)
    found = bd.comparisons(fit, X, {"x0": (0, 1)}, comparison="log_odds_ratio")
    table = bd.weights_table(fit)
    np.testing.assert_allclose(found["effect"], table["weight"], rtol=1e-9)
    np.testing.assert_allclose(found["sd"], table["sd"], rtol=1e-6)
    assert found["contrast"].tolist() == ["1 / 0"]


def test_refusals(data, post):
    numbers = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), data.X, data.NUMBERS)
    for comparison in ("odds_ratio", "log_odds_ratio"):
        with pytest.raises(ValueError, match="are not probabilities; use 'difference'"):
            bd.comparisons(numbers, data.X, comparison=comparison)
    certain = bd.fit(PLAIN, data.X, data.Y)
    object.__setattr__(certain, "weight", 1e5 * np.abs(certain.weight))
    with pytest.raises(ValueError, match="above 0 and below 1, and some are 0 or 1"):
        bd.comparisons(certain, np.abs(data.X) + 1, {"x0": (1, 2)}, comparison="odds_ratio")
    with pytest.raises(ValueError, match=r'"log_odds_ratio", got \'lift\'; or a function of \(high, low\)'):
        bd.comparisons(post, data.X, comparison="lift")
    for wrong, words in ((lambda high, low: 1.0, r"got shape \(\)"), (lambda high, low: high * np.nan, "not finite")):
        with pytest.raises(ValueError, match=f"expected a function of .*{words}"):
            bd.comparisons(post, data.X, "x0", comparison=wrong)


def test_a_probability_that_rounds_to_0_or_1_has_the_widest_interval():
    """Separated classes, a wide prior: a score of 30 has a standard deviation of 20, and the slope is rounded to 0."""
    X = np.random.default_rng(0).normal(size=(10, 1))
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Normal(10.0))
    fit = bd.fit(model, X, (X[:, 0] > 0).astype(int))
    table = bd.predictions_grid(fit, X, {"x0": [-9.0, 0.0, 1.0, 3.0, 9.0]})
    is_widest = (table["low"] == 0) & (table["high"] == 1)
    assert is_widest.tolist() == [True, False, False, True, True]
    score = fit.weight[0] + fit.intercept
    low = score - 1.6448536 * np.sqrt(np.ones(2) @ np.asarray(fit.covariance) @ np.ones(2))
    np.testing.assert_allclose(table["low"][2], 1 / (1 + np.exp(-low)), rtol=1e-3)


@pytest.mark.slow
def test_one_variable_as_a_text(data, post):
    for call in (bd.comparisons, bd.predictions_grid):
        pd.testing.assert_frame_equal(call(post, data.X, "x1"), call(post, data.X, ["x1"]))
    one, several = (bd.marginal_effects(post, data.X, features=names) for names in ("x1", ["x1"]))
    pd.testing.assert_frame_equal(one, several)
    with pytest.raises(ValueError, match="variables: expected a list of different names"):
        bd.comparisons(post, data.X, "x9")


@pytest.mark.parametrize("change", ["sd", "iqr", "minmax", "typical", "points"])
@pytest.mark.parametrize("storage", [np.asarray, csr_array])
def test_weights_of_the_average_weigh_the_values_of_a_variable(change, storage):
    """A row of weight 2 counts as two rows, and one of weight 0 as none."""
    rng = np.random.default_rng(1)
    X, offset = rng.gamma(1.0, size=(31, 2)), rng.normal(size=31)
    X[3, 1] = X[4, 0] = np.nan
    model = bd.Model(rates=bd.Fixed(0.0), missing="nan")
    fit = bd.fit(model, X, np.resize([0, 1, 1], 31), offset=offset)
    weight = np.resize([0.0, 0.0, 1.0], 31) if change == "iqr" else np.resize([0.0, 1.0, 2.0, 1.0, 1.0], 31)
    rows = np.repeat(np.arange(31), weight.astype(int))

    def of(place, **more):
        few = storage(X[place])
        if change in ("typical", "points"):
            how = {"others": "typical"} if change == "typical" else {}
            return bd.predictions_grid(fit, few, {"x0": 3}, offset=offset[place], **how, **more)
        return bd.comparisons(fit, few, {"x0": change, "x1": change}, offset=offset[place], **more)

    weighed, repeated = of(np.arange(31), average_weight=weight), of(rows)
    pd.testing.assert_frame_equal(weighed, repeated, rtol=1e-9)


def test_quartiles_of_weighted_rows_are_values_of_rows():
    X, weight = np.arange(6.0)[:, None], [1.0, 1.0, 1.0, 1.0, 1.0, 8.0]
    fit = bd.fit(PLAIN, X, [0, 1, 0, 1, 1, 1])
    assert bd.comparisons(fit, X, {"x0": "iqr"}, average_weight=weight)["contrast"].tolist() == ["iqr (3 to 5)"]
