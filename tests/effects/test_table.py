"""The table of weights: Laplace's approximation against closed Hessians, and its columns against what they are of."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit
from scipy.stats import binom

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.energy import Energy
from bayesdrop.fitting.problems.many_classes import softmax_energy
from bayesdrop.moments import ScoreMoments


def test_least_squares_has_the_conjugate_posterior(data):
    """``(P + C MᵀM)⁻¹`` in closed form, with weights of rows."""
    X, weight = data.X + [0.0, 7.0, 0.0], np.random.default_rng(3).random(50) + 0.5
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), C=2.0, weight_prior=bd.Normal(0.5))
    fit = bd.fit(model, X, data.NUMBERS, sample_weight=weight)
    M = np.column_stack([X, np.ones(50)])
    expected = np.linalg.inv(np.diag([4.0, 4.0, 4.0, 0.0]) + 2 * (M.T * weight) @ M)
    np.testing.assert_allclose(fit.covariance, expected, rtol=1e-7, atol=1e-10)
    table = bd.weights_table(fit, probability=0.8)
    np.testing.assert_allclose(table["sd"], np.sqrt(np.diagonal(expected)[:3]), rtol=1e-7)
    np.testing.assert_allclose(table["high"] - table["weight"], 1.2815515655446004 * table["sd"], rtol=1e-7)
    np.testing.assert_allclose(table["weight"] - table["low"], table["high"] - table["weight"])


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0, 1e6])
def test_an_unknown_variance_widens_intervals_at_every_C_and_door(data, C):
    """``σ̂² (P/C + MᵀSM)⁻¹`` of ``bd.fit``, of rows in blocks and of estimators; at a large ``C`` least squares."""
    X, y, weight = data.X, 3.0 * data.NUMBERS, np.random.default_rng(3).random(50) + 0.5
    M = np.column_stack([X, np.ones(50)])
    gram, ridge = (M.T * weight) @ M, np.diag([1.0, 1.0, 1.0, 0.0]) / C
    best = np.linalg.solve(gram + ridge, (M.T * weight) @ y)
    variance = weight @ (y - M @ best) ** 2 / (weight.sum() - np.trace(np.linalg.solve(gram + ridge, gram)))
    expected = np.sqrt(np.diagonal(variance * np.linalg.inv(gram + ridge)))
    model = bd.Model(bd.Squared(), rates=bd.Fixed(0.0), C=C)
    for rows in (X, bd.Blocks([X[:20], X[20:]])):
        fit = bd.fit(model, rows, y, sample_weight=weight)
        np.testing.assert_allclose(np.sqrt(np.diagonal(fit.covariance)), expected, rtol=1e-6)
    for estimator in (bd.DropoutRidge(0.0, C=C), bd.DropoutRidgeCV([0.0], Cs=(C,), cv=2)):
        table = bd.weights_table(estimator.fit(X, y, sample_weight=weight))
        np.testing.assert_allclose(table["sd"], expected[:3], rtol=1e-6)
    if C == 1e6:
        variance = weight @ (y - M @ np.linalg.solve(gram, (M.T * weight) @ y)) ** 2 / (weight.sum() - 4)
        np.testing.assert_allclose(expected, np.sqrt(np.diagonal(variance * np.linalg.inv(gram))), rtol=1e-4)


def test_rows_that_do_not_show_the_variance_get_no_intervals():
    fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), np.eye(3), np.arange(3.0), sample_weight=np.full(3, 0.1))
    table = bd.weights_table(fit)
    assert fit.covariance is None
    assert set(table["interval"]) == {"use bd.sample"}
    assert "variance of the responses" in table.attrs["weight_interval"]


def test_a_prior_in_units_of_the_columns_is_that_of_the_fit(data):
    """The same table as under the absolute scales that it stands for."""
    X = data.X * [1.0, 30.0, 0.2]
    prior = bd.Normal(0.5, relative=True)
    one = bd.Model(rates=bd.Fixed(0.0), weight_prior=prior)
    two = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Normal(0.5 / X.std(axis=0)))
    tables = [bd.weights_table(bd.fit(model, X, data.Y)) for model in (one, two)]
    pd.testing.assert_frame_equal(*tables, rtol=1e-5)


LOSSES = {
    "augmentation": bd.Logistic(),
    "gaussian": bd.Logistic("gaussian"),
    "taylor": bd.Logistic("taylor"),
    "counts": bd.Poisson("gaussian"),
    "binomial": bd.Binomial(1),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_curvature_is_the_closed_hessian(data, name):
    """Differences of the gradient against the exact product that Newton's method has."""
    y = data.COUNTS if name == "counts" else (data.Y == "yes").astype(int)
    fit = bd.fit(bd.Model(LOSSES[name], rates=bd.Fixed(0.0)), data.X, y, method=bd.Newton(tol=1e-12))
    moments = ScoreMoments(as_design(data.X), fit.model.noise, fit.rates[:, None])
    loss = fit.model.loss.plain
    target = np.where(y == 1, 1.0, -1.0) if loss.binary else y.astype(float)
    energy = Energy(moments, loss, target[:, None], np.ones((50, 1)), np.array([[1.0], [1.0], [1.0], [0.0]]))
    weights, still = np.append(fit.weight, fit.intercept)[:, None], np.zeros((1, 1))
    slopes = energy.derivatives(*moments.scores(weights), still)
    curvature = energy.curvature(slopes, energy.gradient(weights, slopes)[1])
    hessian = np.column_stack([energy.product(weights, curvature, unit[:, None])[0][:, 0] for unit in np.eye(4)])
    np.testing.assert_allclose(fit.covariance, np.linalg.inv(hessian), rtol=1e-5, atol=1e-9)


def test_two_classes_of_a_softmax_are_a_logistic_loss(data):
    """Without noise: ``w₁ − w₀`` under a unit prior of each is a weight of variance 2."""
    plain = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Normal(np.sqrt(2)))
    method = bd.Newton(tol=1e-12)
    one = bd.fit(plain, data.X, data.Y, method=method).covariance
    joint = bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), data.X, data.Y, method=method)
    contrast = np.kron([-1.0, 1.0], np.eye(4))
    two = joint.covariance
    np.testing.assert_allclose(contrast @ two @ contrast.T, one, rtol=1e-5, atol=1e-8)


def test_many_classes_against_second_differences_of_the_energy(data):
    """Along random directions in the plane: ``uᵀΣ⁻¹u`` is how the energy curves."""
    fit = bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), data.X, data.MANY)
    covariance = fit.covariance
    code = np.searchsorted(fit.classes, data.MANY)
    energy = softmax_energy(fit.model, as_design(data.X), fit.rates.T, code, 3, np.ones(50), np.ones(50))
    weights = np.vstack([fit.weight.T, fit.intercept])
    precision = np.linalg.pinv(covariance, hermitian=True, rcond=1e-9)
    rng = np.random.default_rng(4)
    for _ in range(3):
        u = rng.normal(size=(4, 3))
        u -= u.mean(axis=-1, keepdims=True)
        ends = [energy.value(weights + step * u) for step in (-1e-3, 0.0, 1e-3)]
        flat = u.T.ravel()
        assert flat @ precision @ flat == pytest.approx((ends[0] - 2 * ends[1] + ends[2]) / 1e-6, rel=1e-4)
    table = bd.weights_table(fit)
    assert table.index.names == ["class", "feature"]
    assert "odds_ratio" not in table
    sd = np.sqrt(np.diagonal(covariance).reshape(3, 4)[:, :3])
    np.testing.assert_allclose(table["sd"].to_numpy().reshape(3, 3), sd)


def test_odds_ratios_are_of_logistic_losses(data):
    y = (data.Y == "yes").astype(int)
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), data.X, y)
    table = bd.weights_table(fit)
    np.testing.assert_allclose(table["odds_ratio"], np.exp(fit.weight))
    np.testing.assert_allclose(table["odds_ratio_low"], np.exp(table["low"]))
    noised = bd.weights_table(bd.fit(bd.Model(bd.Binomial(1), rates=bd.Fixed(0.2)), data.X, y))
    np.testing.assert_allclose(noised["odds_ratio"], np.exp(noised["scaled_weight"]))
    np.testing.assert_allclose(noised["odds_ratio_if_kept"], np.exp(noised["weight"]))
    for loss in (bd.Hinge(), bd.Squared(variance=1.0)):
        assert not [
            name for name in bd.weights_table(bd.fit(bd.Model(loss, rates=bd.Fixed(0.2)), data.X, y)) if "ratio" in name
        ]
    for loss in (bd.Poisson(), bd.NegativeBinomial(2.0)):
        counts = bd.weights_table(bd.fit(bd.Model(loss, rates=bd.Fixed(0.2)), data.X, y))
        np.testing.assert_allclose(counts["rate_ratio"], np.exp(0.8 * counts["weight"]))
        assert "odds_ratio" not in counts


def test_columns_are_those_that_are_known(data):
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), data.X, data.Y)
    noised = bd.fit(bd.Model(rates=bd.Fixed(0.2)), data.X, data.Y)
    plain, whole = bd.weights_table(noised), bd.weights_table(fit)
    ratios = ["odds_ratio", "odds_ratio_low", "odds_ratio_high"]
    assert list(plain) == ["weight", "odds_ratio", "interval", "scaled_weight", "odds_ratio_if_kept", "rate"]
    assert list(whole) == ["weight", *ratios, "sd", "low", "high", "scaled_weight", "rate"]
    assert whole.attrs["weight_interval"] == "Laplace approximation"
    pd.testing.assert_frame_equal(
        plain[["weight", "scaled_weight", "rate"]], noised.summary(), check_like=True, check_names=False
    )
    assert plain.columns.name == "yes against no"


WITHOUT = {
    "fixed rates": (bd.Model(rates=bd.Fixed([0.0, 0.0, 0.2])), "noise"),
    "learnt rates": (bd.Model(), "noise"),
    "additive noise": (bd.Model(noise=bd.GaussianNoise(0.5)), "noise"),
    "a kink": (bd.Model(bd.Hinge(), rates=bd.Fixed(0.0)), "kink"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_fit_without_intervals_says_so_in_their_place(data, name):
    """Of weights, of odds ratios, of learnt rates and of effects, in tables and their forest."""
    model, why = WITHOUT[name]
    fit = bd.fit(model, data.X, data.Y)
    tables = bd.weights_table(fit), bd.marginal_effects(fit, data.X)
    for table, attribute in zip(tables, ("weight_interval", "interval"), strict=True):
        assert set(table["interval"]) == {"use bd.sample"}
        assert not {"sd", "low", "high"} & set(table)
        assert not any(column.endswith(("_low", "_high")) for column in table)
        assert why in table.attrs[attribute]
        assert "bd.sample" in bd.plots.weights_forest(table).get_legend().get_texts()[0].get_text()
    assert fit.covariance is None


def test_a_posterior_has_quantiles(post):
    draws = bd.groups.dataset(post, "posterior")
    weight, rate = draws["weight"].values.reshape(-1, 3), draws["rate"].values.reshape(-1, 3)
    table = bd.weights_table(post, probability=0.5)
    np.testing.assert_allclose(table["weight"], weight.mean(axis=0))
    np.testing.assert_allclose(table[["low", "high"]].T, np.quantile(weight, [0.25, 0.75], axis=0))
    np.testing.assert_allclose(table["scaled_weight"], (weight * (1 - rate)).mean(axis=0))
    np.testing.assert_allclose(table["odds_ratio"], np.exp(table["scaled_weight"]))
    np.testing.assert_allclose(table["odds_ratio_if_kept"], np.exp(table["weight"]))
    np.testing.assert_allclose(table[["rate_low", "rate_high"]].T, np.quantile(rate, [0.25, 0.75], axis=0))
    assert table.attrs["weight_interval"] == "posterior, equal tails of 100 draws"


def test_medians_are_in_one_table_with_medians(data, post):
    draws = bd.groups.dataset(post, "posterior")
    weight, rate = draws["weight"].values.reshape(-1, 3), draws["rate"].values.reshape(-1, 3)
    table = bd.weights_table(post, estimate="median")
    ratio = np.exp(weight * (1 - rate))  # of an even number of draws the middle is between two of them
    middle = np.exp(np.mean(np.sort(np.log(ratio), axis=0)[49:51], axis=0))
    np.testing.assert_allclose(table["weight"], np.median(weight, axis=0))
    np.testing.assert_allclose(table["scaled_weight"], np.median(weight * (1 - rate), axis=0))
    np.testing.assert_allclose(table["odds_ratio"], middle)
    np.testing.assert_allclose(table["odds_ratio_if_kept"], np.exp(np.median(weight, axis=0)))
    np.testing.assert_allclose(table["rate"], np.median(rate, axis=0))
    calls = (
        (bd.marginal_effects, ()), (bd.comparisons, ({"x0": 1},)), (bd.predictions_grid, ({"x0": [0.0, 1.0]},)),
    )  # fmt: skip
    for call, more in calls:
        each = call(post, data.X, *more, as_draws=True).values.reshape(100, -1)
        found = call(post, data.X, *more, estimate="median")
        np.testing.assert_allclose(found.filter(regex="effect|prediction").iloc[:, 0], np.median(each, axis=0))
        with pytest.raises(ValueError, match='estimate: expected "mean" or "median"'):
            call(post, data.X, *more, estimate="mode")


def test_a_baseline_class(data):
    fit = bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), data.X, data.MANY)
    table = bd.weights_table(fit, baseline="b")
    assert table.index.get_level_values("class").unique().tolist() == ["a", "c"]
    np.testing.assert_allclose(table.loc["a", "weight"], fit.weight[0] - fit.weight[1])
    np.testing.assert_allclose(table["relative_risk_ratio"], np.exp(table["weight"]))
    np.testing.assert_allclose(table["relative_risk_ratio_high"], np.exp(table["high"]))
    one = bd.hypothesis(fit, "weight[c, x1] - weight[b, x1]").iloc[0]
    np.testing.assert_allclose(table.loc[("c", "x1"), "sd"], one["sd"], rtol=1e-3)
    chance = fit.predict(np.vstack([np.zeros(3), [0.0, 1.0, 0.0]])).mean
    risks = chance[:, 2] / chance[:, 1]
    np.testing.assert_allclose(table.loc[("c", "x1"), "relative_risk_ratio"], risks[1] / risks[0])

    rng = np.random.default_rng(3)
    weight = rng.normal(size=(2, 50, 3, 3))
    parts = {
        "weight": (("chain", "draw", "class", "feature"), weight),
        "intercept": (("chain", "draw", "class"), rng.normal(size=(2, 50, 3))),
        "rate": (("chain", "draw", "feature"), rng.random((2, 50, 3))),
    }
    coords = {"chain": [0, 1], "draw": np.arange(50), "class": ["a", "b", "c"], "feature": ["x0", "x1", "x2"]}
    model = bd.Model(bd.Softmax())
    post = bd.groups.assemble({"posterior": xr.Dataset(parts, coords)}, attributes(model, fit.classes))
    table = bd.weights_table(post, baseline="c", estimate="median")
    gap = (weight[:, :, :2] - weight[:, :, 2:]).reshape(100, 6)
    scaled = gap.reshape(100, 2, 3) * (1 - parts["rate"][1].reshape(100, 1, 3))
    np.testing.assert_allclose(table["weight"], np.median(gap, axis=0))
    np.testing.assert_allclose(table[["low", "high"]].T, np.quantile(gap, [0.05, 0.95], axis=0))
    np.testing.assert_allclose(table["relative_risk_ratio"], np.exp(np.median(scaled, axis=0).ravel()))
    np.testing.assert_allclose(table["relative_risk_ratio_if_kept"], np.exp(table["weight"]))
    assert "relative_risk_ratio" not in bd.weights_table(post)
    with pytest.raises(ValueError, match=r"baseline: expected one of the classes \['a', 'b', 'c'\], got 'd'"):
        bd.weights_table(post, baseline="d")
    with pytest.raises(ValueError, match="baseline: expected a softmax loss"):
        bd.weights_table(bd.fit(bd.Model(), data.X, data.Y), baseline="yes")


def test_estimators_have_the_tables_of_their_fits(data):
    y, weight = data.Y, np.where(data.Y == "yes", 3.0, 1.0)
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), data.X, y, sample_weight=weight, method=bd.Newton(tol=1e-8))
    expected = bd.weights_table(fit)
    for estimator in (
        bd.DropoutLogisticRegression(0.0, class_weight={"yes": 3.0, "no": 1.0}),
        bd.DropoutLogisticRegressionCV([0.0], Cs=(1.0,), cv=2, class_weight={"yes": 3.0, "no": 1.0}),
    ):
        table = bd.weights_table(estimator.fit(data.X, y))
        pd.testing.assert_frame_equal(table, expected, rtol=1e-5)
    many = bd.DropoutLogisticRegression(bd.PerFeature(), multiclass="one_vs_rest").fit(data.X, data.MANY)
    table = bd.weights_table(many)
    assert table.index.get_level_values("class").unique().tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(table["weight"].to_numpy().reshape(3, 3), many.coef_)
    np.testing.assert_array_equal(table["rate"].to_numpy().reshape(3, 3), many.rates_)
    apart = bd.DropoutLogisticRegression(0.0, multiclass="one_vs_rest").fit(data.X, data.MANY)
    table = bd.weights_table(apart)
    single = bd.DropoutLogisticRegression(0.0).fit(data.X, data.MANY == "b")
    one = bd.weights_table(single)
    np.testing.assert_allclose(table.loc["b", "sd"], one["sd"], rtol=1e-4)
    joint = bd.DropoutLogisticRegression(0.0, multiclass="softmax").fit(data.X, data.MANY)
    again = bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), data.X, data.MANY)
    pd.testing.assert_frame_equal(bd.weights_table(joint), bd.weights_table(again), rtol=1e-4)
    assert bd.weights_table(bd.DropoutRidge(0.0).fit(data.X, data.NUMBERS))["sd"].gt(0).all()


@pytest.mark.slow
def test_laplace_intervals_cover(data):
    """Weights from their prior, labels from the model: 90 % intervals hold 90 % of 3 × 600 weights; false alarm 1e-6.

    Within what 1,800 independent weights may miss; those of one fit are nearly so. The bias of the approximation is
    of the order of 1/n, three thousandths here.
    """
    rng, held = np.random.default_rng(5), 0
    model = bd.Model(rates=bd.Fixed(0.0), fit_intercept=False)
    for _ in range(600):
        X, weight = rng.normal(size=(300, 3)), rng.normal(size=3)
        y = rng.random(300) < expit(X @ weight)
        if y.all() or not y.any():
            continue
        table = bd.weights_table(bd.fit(model, X, y))
        held += int(((table["low"] <= weight) & (weight <= table["high"])).sum())
    low, high = binom.ppf([5e-7, 1 - 5e-7], 1800, 0.9)
    assert low <= held <= high
