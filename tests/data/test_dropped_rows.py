"""After ``dropna=True`` every function takes the table of the fit, and leaves out the same rows."""

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd

N = 50
GENERATOR = np.random.default_rng(3)
TABLE = pd.DataFrame(
    {
        "y": GENERATOR.poisson(2, N).astype(float),
        "x": GENERATOR.normal(size=N),
        "word": GENERATOR.choice(["a", "b"], N),
        "site": GENERATOR.choice(["u", "v", "w"], N),
        "days": GENERATOR.uniform(1, 2, N),
        "idle": np.nan,
    },
    index=[f"r{k}" for k in range(N)],
)
TABLE.loc["r3", "x"] = np.nan
TABLE.loc["r5", "word"] = None
TABLE.loc["r8", "site"] = None
TABLE.loc["r9", "days"] = np.nan
TABLE.loc["r20", "y"] = np.nan
COMPLETE = TABLE.drop(index=["r3", "r5", "r8", "r9", "r20"])
FORMULA = "y ~ x + word + (1 | site) + offset(np.log(days))"
MODEL = bd.Model(bd.Poisson(), rates=bd.Fixed(0.1))
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def fit():
    return bd.fit(MODEL, FORMULA, TABLE, dropna=True, random_scale=0.5)


@pytest.fixture(scope="module")
def post():
    return bd.sample(MODEL, FORMULA, TABLE, dropna=True, draws=40, tune=40, chains=2, progress=False)


FUNCTIONS = {
    "elpd": lambda result, table, _: bd.elpd(result, table).pointwise,
    "elpd with y": lambda result, table, _: bd.elpd(result, table, table.y).pointwise,
    "effects": lambda result, table, _: bd.marginal_effects(result, table).to_numpy(),
    "effects with weights": lambda result, table, w: bd.marginal_effects(result, table, average_weight=w).to_numpy(),
    "comparisons": lambda result, table, _: bd.comparisons(result, table).effect.to_numpy(),
    "grid": lambda result, table, _: bd.predictions_grid(result, table, ["x"]).prediction.to_numpy(),
}
OF_POSTERIORS = {
    "log_likelihood": lambda result, table, _: bd.log_likelihood(result, table).log_likelihood.y.values,
    "log_likelihood with y": lambda r, table, _: bd.log_likelihood(r, table, table.y).log_likelihood.y.values,
    "loo": lambda result, table, _: bd.loo(bd.log_likelihood(result, table)).elpd_loo,
    "predictive": lambda result, table, _: bd.posterior_predictive(result, table).posterior_predictive.y.values,
}


def equal(function, result):
    weight = np.arange(1.0, N + 1)
    kept = TABLE.index.isin(COMPLETE.index)
    found, expected = function(result, TABLE, weight), function(result, COMPLETE, weight[kept])
    assert np.shape(found) == np.shape(expected)
    assert repr(np.asarray(found).tolist()) == repr(np.asarray(expected).tolist())  # NaN and texts too


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_fit_takes_its_own_table(fit, name):
    equal(FUNCTIONS[name], fit)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FUNCTIONS, *OF_POSTERIORS])
def test_a_posterior_takes_its_own_table(post, name):
    equal((FUNCTIONS | OF_POSTERIORS)[name], post)


@pytest.mark.slow
def test_predictions_are_of_the_rows_that_can_be_predicted_and_name_them(fit, post, tmp_path):
    fit.save(tmp_path / "fit.nc")
    post.to_netcdf(tmp_path / "post.nc")
    for result in (fit, post, bd.Fit.load(tmp_path / "fit.nc"), bd.groups.load(tmp_path / "post.nc")):
        found = bd.predict(result, TABLE)
        assert found.rows.tolist() == [row for row in TABLE.index if row not in ("r3", "r5", "r8", "r9")]
        np.testing.assert_array_equal(found.mean, bd.predict(result, TABLE.drop(index=["r3", "r5", "r8", "r9"])).mean)
    with pytest.raises(ValueError, match="every row has a missing value"):
        bd.predict(fit, TABLE.loc[["r3"]])


@pytest.mark.parametrize("dropna", [True, False])
@pytest.mark.parametrize("name", ["sample_weight", "offset", "groups"])
def test_values_of_other_numbers_of_rows_are_refused(name, dropna):
    table, n = (TABLE, len(COMPLETE)) if dropna else (COMPLETE, len(COMPLETE))
    for count in {n - 1, n + 1, len(table) + 1, len(table) - 1} - {n}:
        with pytest.raises(ValueError, match=f"{name}: expected {n}"):
            bd.fit(MODEL, "y ~ x + word + site + days", table, dropna=dropna, **{name: np.ones(count)})
    bd.fit(MODEL, "y ~ x + word + site + days", table, dropna=dropna, **{name: np.ones(len(table))})


def test_without_dropna_a_missing_value_is_refused_as_before(fit):
    other = bd.fit(MODEL, FORMULA, COMPLETE, random_scale=0.5)
    np.testing.assert_allclose(other.weight, fit.weight, rtol=1e-8)
    with pytest.raises(ValueError, match="missing"):
        bd.predict(other, TABLE)


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["y ~ x + days", "y ~ x + days + offset(np.log(days))"])
def test_a_table_of_the_columns_alone_is_read_as_one_with_more(formula, tmp_path):
    fit = bd.fit(MODEL, formula, TABLE, dropna=True)
    fit.save(tmp_path / "fit.nc")
    for result in (fit, bd.Fit.load(tmp_path / "fit.nc")):
        more = TABLE.drop(columns="y")
        whole = bd.predict(result, more)
        for table in (TABLE[["x", "days"]], TABLE[["days", "x"]]):
            found = bd.predict(result, table)
            np.testing.assert_array_equal(found.mean, whole.mean)
            np.testing.assert_array_equal(found.rows, whole.rows)
            np.testing.assert_array_equal(bd.marginal_effects(result, table), bd.marginal_effects(result, more))


@pytest.mark.slow
def test_features_by_their_names_need_no_formula(tmp_path):
    fit = bd.fit(MODEL, "y ~ x + scale(x) + x:days + offset(days)", COMPLETE)
    design = bd.from_formula("~ x + scale(x) + x:days", COMPLETE, sparse=False)
    expected = bd.predict(fit, COMPLETE).mean
    np.testing.assert_allclose(bd.predict(fit, design.frame(), offset=COMPLETE.days).mean, expected, rtol=1e-12)
    plain = bd.fit(MODEL, "y ~ x + days", COMPLETE)
    blocks = bd.Blocks([COMPLETE[["x", "days"]].iloc[:20], COMPLETE[["x", "days"]].iloc[20:]])
    np.testing.assert_allclose(bd.predict(plain, blocks).mean, bd.predict(plain, COMPLETE).mean, rtol=1e-12)
