"""All draws, the draws themselves, and the two kinds of row weights: of the average, and of the fit's likelihood."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.description import attributes

PLAIN = bd.Model(rates=bd.Fixed(0.0))


def test_all_draws_count_and_tables_say_how_many(data, post):
    draws = bd.groups.dataset(post, "posterior")
    table = bd.predictions_grid(post, data.X, {"x0": [0.5]}, corrupted_inputs=True)
    weight, intercept = draws["weight"].values.reshape(100, 3), draws["intercept"].values.reshape(100)
    score = np.column_stack([np.full(50, 0.5), data.X[:, 1:]]) @ weight.T + intercept
    each = (1 / (1 + np.exp(-score))).mean(axis=0)
    np.testing.assert_allclose(table["prediction"], each.mean(), rtol=1e-12)
    np.testing.assert_allclose(table[["low", "high"]].iloc[0], np.quantile(each, [0.05, 0.95]), rtol=1e-12)
    assert table.attrs["draws"] == 100
    assert table.attrs["average_weight"] == "equal"
    some = bd.comparisons(post, data.X, ["x0"], draws=5, average_weight=np.ones(50))
    assert (some.attrs["draws"], some.attrs["average_weight"]) == (10, "as given")
    assert "draws" not in bd.comparisons(bd.fit(PLAIN, data.X, data.Y), data.X, ["x0"]).attrs


def test_draws_are_those_of_the_table(data, post):
    calls = (
        (bd.marginal_effects, (), "feature", "effect"),
        (bd.comparisons, ({"x0": (0, 1), "x2": "sd"},), "comparison", "effect"),
        (bd.predictions_grid, ({"x0": [0.0, 1.0], "x1": [2.0]},), "point", "prediction"),
    )
    for function, more, dim, name in calls:
        table, found = (function(post, data.X, *more, as_draws=flag) for flag in (False, True))
        assert isinstance(found, xr.DataArray)
        assert found.dims == ("chain", "draw", dim)
        assert found.sizes["draw"] == 50
        np.testing.assert_allclose(found.mean(("chain", "draw")), table[name], rtol=1e-12)
        np.testing.assert_allclose(found.quantile(0.05, ("chain", "draw")), table["low"], rtol=1e-12)
    assert found["x0"].values.tolist() == [0.0, 1.0]
    steps = bd.comparisons(post, data.X, {"x0": (0, 1)}, as_draws=True)
    assert steps["contrast"].values.tolist() == ["1 - 0"]
    with pytest.raises(ValueError, match="as_draws: a point fit has no draws"):
        bd.marginal_effects(bd.fit(PLAIN, data.X, data.Y), data.X, as_draws=True)


def test_draws_of_classes_and_groups(data):
    pytest.importorskip("formulaic")
    rng, both = np.random.default_rng(1), ("chain", "draw", "class")
    table = pd.DataFrame(data.X, columns=["a", "b", "chain"]).assign(kind=data.MANY, group=np.repeat(["u", "v"], 25))
    fit = bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.2)), "kind ~ a + b", table)
    parts = {
        "weight": ((*both, "feature"), rng.normal(size=(2, 6, 3, 2))),
        "intercept": (both, rng.normal(size=(2, 6, 3))),
    }
    coords = {"chain": [0, 1], "draw": np.arange(6), "class": ["a", "b", "c"], "feature": ["a", "b"]}
    post = bd.groups.assemble({"posterior": xr.Dataset(parts, coords)}, attributes(fit.model, fit.classes, fit.facts))
    found = bd.comparisons(post, table, {"a": 1}, by="group", as_draws=True)
    assert found.dims == ("chain", "draw", "class", "comparison")
    assert found["group"].values.tolist() == ["u", "v"]
    expected = bd.comparisons(post, table, {"a": 1}, by="group")["effect"].to_numpy().reshape(3, 2)
    np.testing.assert_allclose(found.mean(("chain", "draw")), expected, rtol=1e-12)
    alone = bd.comparisons(post, table[table["group"] == "v"], {"a": 1}, as_draws=True)
    np.testing.assert_allclose(found.values[..., 1], alone.values[..., 0], rtol=1e-9)
    named = bd.comparisons(post, table, {"a": 1}, by="chain", as_draws=True)
    assert "chain_" in named.coords


@pytest.mark.parametrize("kind", ["formula", "matrix", "estimator"])
def test_the_likelihoods_weights_are_those_of_the_fit(data, kind):
    """An unsaturated model: its gradient under other weights is not zero, so that the rows alone would not do."""
    weight = np.random.default_rng(2).integers(1, 5, 50).astype(float)
    table = pd.DataFrame(data.X, columns=["a", "b", "c"])
    repeated, labels = table.loc[np.repeat(table.index, weight.astype(int))], np.repeat(data.Y, weight.astype(int))
    if kind == "formula":
        table, repeated = table.assign(y=data.Y), repeated.assign(y=labels)
        fits = bd.fit(PLAIN, "y ~ a + b", table, sample_weight=weight), bd.fit(PLAIN, "y ~ a + b", repeated)
    elif kind == "matrix":
        fits = bd.fit(PLAIN, table, data.Y, sample_weight=weight), bd.fit(PLAIN, repeated, labels)
    else:
        make = bd.DropoutLogisticRegression
        fits = make(0.0).fit(table, data.Y, sample_weight=weight), make(0.0).fit(repeated, labels)
    tables = [bd.weights_table(fit)[["weight", "sd", "low", "high"]] for fit in fits]
    pd.testing.assert_frame_equal(*tables, rtol=1e-4)
    one = bd.marginal_effects(fits[0], table, average_weight=weight)
    np.testing.assert_allclose(one, bd.marginal_effects(fits[1], repeated), rtol=1e-4)
    assert (one["sd"] > 0).all()


def test_weights_of_the_average_leave_the_sd(data):
    """Constant weights change nothing, whatever their size."""
    fit = bd.fit(PLAIN, data.X, data.Y)
    for function, more in ((bd.marginal_effects, ()), (bd.comparisons, ()), (bd.predictions_grid, ({"x0": [0.0]},))):
        tables = [function(fit, data.X, *more, average_weight=weight) for weight in (None, np.full(50, 1000.0))]
        pd.testing.assert_frame_equal(*tables, rtol=1e-9)
        assert (tables[0]["sd"] > 0).all()


@pytest.mark.slow
def test_intervals_come_from_the_file(data, tmp_path):
    for model, y in ((PLAIN, data.Y), (bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), data.MANY)):
        fit = bd.fit(model, data.X, y, sample_weight=np.linspace(0.5, 2, 50))
        fit.save(tmp_path / "fit.nc")
        again = bd.Fit.load(tmp_path / "fit.nc")
        pd.testing.assert_frame_equal(bd.weights_table(again), bd.weights_table(fit))
        pd.testing.assert_frame_equal(bd.marginal_effects(again, data.X), bd.marginal_effects(fit, data.X))
    stored = fit.to_dataset()
    older = bd.weights_table(bd.Fit.from_dataset(stored.drop_vars("covariance")))
    assert set(older["interval"]) == {"fit again"}
    assert "files of earlier releases" in older.attrs["weight_interval"]
    with pytest.raises(ValueError, match="expected a covariance of 12 weights and intercepts"):
        bd.Fit.from_dataset(stored.assign(covariance=-stored["covariance"]))


def test_fits_without_a_covariance_say_why(data):
    from bayesdrop.fitting.results.laplace import LAPLACE_LIMITS

    wide = np.random.default_rng(0).normal(size=(20, LAPLACE_LIMITS.weights))
    table = bd.weights_table(bd.fit(PLAIN, wide, np.repeat(["no", "yes"], 10)))
    assert "at most 1,000 weights" in table.attrs["weight_interval"]
    with pytest.warns(UserWarning, match="max_iter"):
        fit = bd.fit(PLAIN, data.X, data.Y, method=bd.Newton(max_iter=1, tol=1e-14))
    assert set(bd.marginal_effects(fit, data.X)["interval"]) == {"fit again"}
    online = bd.DropoutLogisticRegression(0.0).fit(data.X, data.Y)
    assert "sd" in bd.weights_table(online)
    assert set(bd.weights_table(online.partial_fit(data.X, data.Y))["interval"]) == {"fit again"}


@pytest.mark.parametrize("loss", [bd.Logistic(), bd.Softmax(), bd.Poisson()], ids=str)
def test_every_storage_has_the_covariance_of_dense_rows(data, loss):
    from scipy import sparse

    X, model = data.X + [0.0, 5.0, 0.0], bd.Model(loss, rates=bd.Fixed(0.0))
    y = data.MANY if loss.multiclass else data.Y if loss.binary else data.COUNTS
    expected = bd.fit(model, X, y).covariance
    for rows in (sparse.csr_array(X), bd.Blocks([X[:20], X[20:]])):
        np.testing.assert_allclose(bd.fit(model, rows, y).covariance, expected, rtol=1e-6, atol=1e-12)
