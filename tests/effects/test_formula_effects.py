"""Effects of the variables of a formula: against finite differences of predictions, and against regression's own."""

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd
from bayesdrop.effects.contrasts import contrasts_of

pytest.importorskip("formulaic")

N = 150
FORMULA = "ill ~ bs(dose, df=4) + scale(age)*site + flag"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, N),
            "dose": rng.gamma(2, size=N),
            "site": rng.choice(["north", "south", "west"], N),
            "flag": rng.random(N) > 0.5,
            "grade": rng.integers(1, 4, N),
        }
    )
    score = (frame["age"] - 40) / 10 + (frame["site"] == "south")
    frame["ill"] = np.where(rng.random(N) < 1 / (1 + np.exp(-score)), "yes", "no")
    return frame


@pytest.fixture(scope="module")
def fit(data):
    return bd.fit(bd.Model(rates=bd.Fixed(0.0)), FORMULA, data)


@pytest.mark.parametrize(
    "formula",
    ["~ age*site", "~ site*C(grade)", "~ age*site*flag", "~ C(grade)*site + age:flag", "~ 0 + site + age:site"],
)
def test_contrasts_are_the_coefficients_of_a_regression_of_full_rank(data, formula):
    """Least squares on the columns of all levels and on reference levels are one function."""
    every, some = (bd.from_formula(formula, data, full_rank=full, sparse=False) for full in (False, True))
    weight = np.random.default_rng(0).normal(size=every.X.shape[1])
    ones = [np.ones((N, 1))] if every.has_intercept else []
    expected = np.linalg.lstsq(np.hstack([some.X, *ones]), every.X @ weight, rcond=None)[0][: some.X.shape[1]]
    found = contrasts_of(every, "reference")
    values = weight if found is None else found.matrix @ weight
    np.testing.assert_allclose(np.sort(values), np.sort(expected), atol=1e-10)
    mean = contrasts_of(every, "mean")
    if mean is not None:  # the same function of the rows, but for a constant
        change = every.X @ weight - every.X @ (mean.matrix @ weight)
        np.testing.assert_allclose(change, change[0], atol=1e-10)
        top = [
            j for j, name in enumerate(mean.names) if name.startswith("site[") and name.endswith(" vs the mean of site")
        ]
        if top:
            np.testing.assert_allclose(mean.matrix[top].sum(axis=0) @ weight, 0, atol=1e-10)


def test_intervals_of_levels_are_those_of_differences(data, fit):
    table = bd.weights_table(fit)
    names = fit.feature_names
    one, other = names.index("site[south]"), names.index("site[north]")
    covariance = fit.covariance
    row = table.loc["site[south] vs site[north]"]
    np.testing.assert_allclose(row["weight"], fit.weight[one] - fit.weight[other])
    variance = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
    np.testing.assert_allclose(row["sd"], np.sqrt(variance))
    np.testing.assert_allclose(row["odds_ratio_high"], np.exp(row["high"]))
    assert table.columns.name == "yes against no"
    plain = bd.weights_table(fit, contrasts=None)
    assert list(plain.index) == names
    assert row["sd"] < plain.loc["site[south]", "sd"]
    west = bd.weights_table(fit, reference={"site": "west"})
    assert "site[north] vs site[west]" in west.index


def test_contrasts_are_named_and_averaged_by_group(data, fit):
    """Their values are held by tests/laws/test_effects.py."""
    table = bd.comparisons(fit, data, {"age": 10, "dose": (1.0, 2.0), "site": "pairwise", "flag": (False, True)})
    assert list(table["contrast"]) == [
        "+10", "2 - 1", "south - north", "west - north", "west - south", "True - False"
    ]  # fmt: skip
    assert (table["low"] < table["effect"]).all()
    by = bd.comparisons(fit, data, ["flag"], by="site")
    for _, row in by.iterrows():
        inside = data[data["site"] == row["site"]]
        ends = [bd.predict(fit, inside.assign(flag=flag)).mean.mean() for flag in (True, False)]
        np.testing.assert_allclose(row["effect"], ends[0] - ends[1], atol=1e-12)


@pytest.mark.slow
def test_a_grid_has_intervals_of_its_predictions(data, fit):
    grid = bd.predictions_grid(fit, data, {"age": [30.0, 50.0], "site": None})
    low, high = (np.log(grid[end] / (1 - grid[end])) for end in ("low", "high"))
    middle = np.log(grid["prediction"] / (1 - grid["prediction"]))
    np.testing.assert_allclose(high - middle, middle - low)
    slope = grid["prediction"] * (1 - grid["prediction"])
    np.testing.assert_allclose(high - middle, 1.6448536269514722 * grid["sd"] / slope)
    typical = bd.predictions_grid(fit, data, {"age": [30.0]}, others="typical")
    usual = {"dose": data["dose"].mean(), "site": data["site"].mode()[0], "flag": data["flag"].mode()[0], "age": 30.0}
    np.testing.assert_allclose(typical["prediction"], bd.predict(fit, pd.DataFrame([usual])).mean, atol=1e-12)
    ax = bd.plots.effects(bd.predictions_grid(fit, data, {"dose": 12, "site": None}))
    assert len(ax.get_lines()) == 3
    assert len(ax.collections) == 3
    assert [text.get_text() for text in bd.plots.effects(bd.predictions_grid(fit, data, "site")).get_xticklabels()] == [
        "north", "south", "west"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "arguments", "options", "message"),
    [
        (bd.weights_table, (), {"reference": {"site": "moon"}}, "'moon' is not a level of 'site'; the levels"),
        (bd.weights_table, (), {"reference": {"age": 3}}, "'age' is not a factor of the formula"),
        (bd.weights_table, (), {"contrasts": "mean", "reference": {"site": "west"}}, "have no reference"),
        (bd.marginal_effects, (), {"reference": {"site": "moon"}}, "'moon' is not a level of 'site'"),
        (bd.comparisons, ({"age": "much"},), {}, "expected a number that is added to 'age'"),
        (bd.comparisons, ({"site": ("north", "moon")},), {}, "'moon' is not a level"),
        (bd.comparisons, (), {"by": "moon"}, "by: expected a column of the table"),
        (bd.predictions_grid, ({"site": ["moon"]},), {}, "'moon' is not a level"),
    ],
)
def test_what_is_refused(data, fit, function, arguments, options, message):
    rows = () if function is bd.weights_table else (data,)
    with pytest.raises(ValueError, match=message):
        function(fit, *rows, *arguments, **options)


def test_a_column_without_groups_is_refused(data, fit):
    half = np.arange(len(data)) % 2
    for group, weight in (([np.nan] * len(data), None), (np.where(half, "odd", None), 1 - half)):
        with pytest.raises(ValueError, match="by: expected values of 'group' in rows of positive weight"):
            bd.comparisons(fit, data.assign(group=group), "age", by="group", average_weight=weight)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["dose", "site"])
def test_columns_may_have_any_name(data, column):
    """``self`` is an argument of ``DataFrame.assign``, and others are columns of tables."""
    found = []
    for name in ("self", "low", "effect", "prediction", "class", "interval"):
        table = data[[column, "age", "ill"]].rename(columns={column: name})
        fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), f"ill ~ {name} + age", table)
        typical = bd.predictions_grid(fit, table, "age", others="typical")["prediction"]
        slopes = bd.marginal_effects(fit, table)["effect"]
        steps = bd.comparisons(fit, table, name)["effect"]
        grid, values = bd.predictions_grid(fit, table, {name: None, "age": [30.0, 50.0]}), sorted(set(table[name]))
        assert grid.columns[0] == name + "_" * (name in ("prediction", "low"))
        assert sorted({grid.iloc[0, 0], grid.iloc[-1, 0]}) == [values[0], values[-1]]
        assert bd.plots.effects(grid).get_xlabel() == grid.columns[0]
        found.append(np.concatenate([slopes, steps, grid["prediction"], grid["low"], typical]))
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0])


@pytest.mark.parametrize("kind", ["reference", "mean"])
@pytest.mark.parametrize(
    "formula",
    [
        "~ 0 + site + flag", "~ 0 + site*age*flag", "~ 0 + site*flag + C(grade)", "~ 0 + age + site", "~ 0 + site:flag",
        "~ 0 + site:flag + C(grade)", "~ site:flag + age", "~ site:flag + C(grade)", "~ site + age:flag",
        "~ site*flag*age + C(grade)", "~ site + site:flag",
    ],
)  # fmt: skip
def test_the_data_inform_all_combinations(data, formula, kind):
    """What changes no score changes none of them; without penalties they are as many as the data determine."""
    design = bd.from_formula(formula, data)
    X = design.X.toarray() if hasattr(design.X, "toarray") else np.asarray(design.X)
    names = design.feature_names
    if "0" not in formula:
        X = np.column_stack([X, np.ones(len(X))])
    _, size, directions = np.linalg.svd(X)
    rank = int(np.sum(size > 1e-8 * size[0]))
    found = contrasts_of(design, kind)
    np.testing.assert_allclose(found.matrix @ directions[rank:, : len(names)].T, 0, atol=1e-10)
    if kind == "reference":
        assert len(found.names) == rank - ("0" not in formula)


def test_binomial_predictions_stay_between_0_and_1():
    frame = pd.DataFrame({"x": np.arange(6.0), "s": [9, 9, 10, 10, 10, 10], "f": [1, 1, 0, 0, 0, 0]})
    fit = bd.fit(bd.Model(bd.Binomial(), rates=bd.Fixed(0.0)), "s + f ~ x", frame)
    grid = bd.predictions_grid(fit, frame, {"x": np.int64(3)})  # three points
    assert len(grid) == 3
    assert ((grid["low"] > 0) & (grid["low"] < grid["prediction"]) & (grid["high"] < 1)).all()
