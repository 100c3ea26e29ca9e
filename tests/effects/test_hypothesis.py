"""Statements about weights, rates and effects: their draws, their probabilities, and what they refuse."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm

import bayesdrop as bd
from bayesdrop.data.formulas.language.interpreter import Rows, evaluate
from bayesdrop.description import attributes
from bayesdrop.effects.statements import read_statement

PLAIN = bd.Model(rates=bd.Fixed(0.0))


def drawn(post, name):
    return bd.groups.dataset(post, "posterior")[name].values.reshape(100, -1)


def test_draws_of_a_posterior_are_compared(post):
    weight, rate, intercept = (drawn(post, name) for name in ("weight", "rate", "intercept"))
    cases = {
        "x0 > x1": weight[:, 0] - weight[:, 1],
        "2*x0 - x1/3 >= -0.1": 2 * weight[:, 0] - weight[:, 1] / 3 + 0.1,
        "weight[x2] < exp(intercept)": weight[:, 2] - np.exp(intercept[:, 0]),
        "rate[x0] <= rate[x1] ** 2": rate[:, 0] - rate[:, 1] ** 2,
        "log(rate[x0] / (1 - rate[x0])) > 0": np.log(rate[:, 0] / (1 - rate[:, 0])),
        "min(x0, x1, x2) > -abs(max(x0, 1))": weight.min(axis=1) + np.maximum(weight[:, 0], 1),
        "-x0**2 < 0": -(weight[:, 0] ** 2),
    }
    table = bd.hypothesis(post, list(cases), probability=0.8)
    for text, values in cases.items():
        row = table.loc[text]
        truth = values > 0 if ">" in text else values < 0
        np.testing.assert_allclose(row["estimate"], values.mean(), rtol=1e-12)
        np.testing.assert_allclose(row["sd"], values.std(), rtol=1e-12)
        np.testing.assert_allclose(row[["low", "high"]].tolist(), np.quantile(values, [0.1, 0.9]), rtol=1e-12)
        assert row["posterior_probability"] == truth.mean()
        share = truth.mean()
        assert row["evidence_ratio"] == (share / (1 - share) if share < 1 else np.inf)
    assert "note" not in table
    assert table.attrs == {"interval": "posterior, equal tails of 100 draws", "probability": 0.8}
    median = bd.hypothesis(post, "x0 > x1", estimate="median")
    assert median["estimate"].item() == np.median(cases["x0 > x1"])


def test_no_probability_of_a_point(post):
    table = bd.hypothesis(post, ["x0 = x1", "x0 == x1", "x0 - x1"])
    assert table["posterior_probability"].isna().all()
    assert table["evidence_ratio"].isna().all()
    assert table["note"].iloc[0].startswith("no probability of a point is stated")
    assert table["note"].iloc[2].startswith("nothing is compared")
    assert table["estimate"].nunique() == 1


def test_statements_mean_what_python_would(post):
    """An independent reading of random expressions, by Python on the draws; exact identity to rounding."""
    rng = np.random.default_rng(0)
    leaves = ["x0", "x1", "2", "0.5", "weight[x2]"]
    weight = drawn(post, "weight")
    named = {"x0": weight[:, 0], "x1": weight[:, 1], "x2": "x2", "weight": {"x2": weight[:, 2]}}
    functions = {"abs": np.abs, "exp": lambda v: np.exp(-np.abs(v)), "min": np.minimum, "max": np.maximum}

    def build(depth):
        kind = rng.integers(7) if depth else 0
        if kind == 0:
            return rng.choice(leaves)
        if kind == 1:
            return f"({build(depth - 1)})"
        if kind == 2:
            return f"-{build(depth - 1)}"
        if kind == 3:
            return f"{rng.choice(['min', 'max'])}({build(depth - 1)}, {build(depth - 1)})"
        if kind == 4:
            return f"abs({build(depth - 1)}) ** 2"
        return f"{build(depth - 1)} {rng.choice(['+', '-', '*', '/'])} {build(depth - 1)}"

    frame = pd.DataFrame(weight, columns=["x0", "x1", "weight[x2]"])
    found = 0
    for _ in range(200):
        text = build(4)
        if "x" not in text.replace("max", ""):
            continue
        with np.errstate(all="ignore"):
            expected = np.broadcast_to(eval(text, functions | named), 100)
        got = evaluate(read_statement(text, frame.columns.tolist()).difference, Rows(frame))
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
        found += 1
    assert found > 100


def test_long_statements_are_no_deep_trees(post):
    many = bd.hypothesis(post, "+".join(["x0"] * 1000))
    np.testing.assert_allclose(many["estimate"], 1000 * drawn(post, "weight")[:, 0].mean())
    nested = "x0"
    for _ in range(24):
        nested = f"({nested}{'*x1' * 8}{'+x1' * 8}{'-x2' * 8})"
    read_statement(nested, ["x0", "x1", "x2"])
    frame = pd.DataFrame(np.full((2, 3), 0.5), columns=["x0", "x1", "x2"])
    assert np.isfinite(evaluate(read_statement(nested, list(frame)).difference, Rows(frame))).all()
    for text in ("(" * 60 + "x0" + ")" * 60, "-" * 60 + "x0", "x0" + "**x0" * 60, "abs(" * 60 + "x0" + ")" * 60):
        with pytest.raises(ValueError, match="nested deeper than 25 levels"):
            bd.hypothesis(post, text)
    with pytest.raises(ValueError, match="at most 4,000 characters"):
        bd.hypothesis(post, "x0+" * 2000 + "x0")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x9 > 0", r"nothing is called 'x9'.*Close names: x2, x1, x0"),
        ("rate[x7] > 0", r"nothing is called 'rate\[x7\]'.*Close names: rate\[x2\]"),
        ("sqrt(x0) > 0", r"nothing is called 'sqrt\(x0\)'"),
        ("x0 > ", "ends where a name or a number is expected"),
        ("0 < x0 < 1", "'<' is not expected there"),
        ("(x0 > 0)", "'>' is not expected there"),
        ("(x0 + x1", "a bracket is not closed"),
        ("x0 ^ 2 > 0", r"'\^' is not expected"),
        ("min(x0) > 0", "min takes two expressions or more"),
        ("abs(x0, x1) > 0", "',' is not expected"),
        ("1 > 0", "it names no quantity"),
        ("", "ends where a name or a number is expected"),
        ("x0; x1", "';' is not expected"),
        ("'x0' > 0", "is not expected there"),
        ("x0.__class__ > 0", "nothing is called 'x0.__class__'"),
        ("__import__('os').system('true') > 0", 'nothing is called "__import__'),
        ("log(x0) > 0", r"not a finite number in \d+ of 100 draws"),
        ("1/(x0 - x0) > 0", "not a finite number in 100 of 100 draws"),
        ("exp(1e3*x0*0 + 1e3) > 0", "not a finite number in 100 of 100 draws"),
    ],
)
def test_refusals(post, text, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        bd.hypothesis(post, text)


def test_other_arguments_are_refused(post, data):
    for wrong in (3, [], [1], b"x0 > 0"):
        with pytest.raises((TypeError, ValueError), match="statements: expected"):
            bd.hypothesis(post, wrong)
    with pytest.raises(TypeError, match="result: expected what bd.sample"):
        bd.hypothesis(np.zeros(3), "x0 > 0")
    with pytest.raises(TypeError, match="make the effects with as_draws=True"):
        bd.hypothesis(bd.comparisons(post, data.X, ["x0"]), "x0 > 0")
    with pytest.raises(ValueError, match="no law of its weights, for a fit with noise"):
        bd.hypothesis(bd.fit(bd.Model(), data.X, data.Y), "x0 > 0")
    three = bd.DropoutSVC(0.2).fit(data.X, data.MANY)
    with pytest.raises(ValueError, match="expected one fit, got 3"):
        bd.hypothesis(three, "x0 > 0")


def by_hand(fit):
    """A posterior of draws that have the names of a fit by a formula."""
    rng, names = np.random.default_rng(2), fit.feature_names
    parts = {"weight": (("chain", "draw", "feature"), rng.normal(size=(2, 50, len(names))))}
    parts["intercept"] = (("chain", "draw"), rng.normal(size=(2, 50)))
    draws = xr.Dataset(parts, {"chain": [0, 1], "draw": np.arange(50), "feature": names})
    return bd.groups.assemble({"posterior": draws}, attributes(fit.model, fit.classes, fit.facts, names))


def test_names_of_the_table_of_weights(data):
    pytest.importorskip("formulaic")
    table = pd.DataFrame({"age": data.X[:, 0], "site": np.resize(["n", "s", "w"], 50), "ill": data.Y})
    fit = bd.fit(PLAIN, "ill ~ age * site", table)
    post = by_hand(fit)
    for result, tolerance in ((post, 1e-12), (fit, 2e-3)):
        weights = bd.weights_table(result)
        found = bd.hypothesis(result, [f"`{name}` > 0" for name in weights.index])
        scale = weights["sd"].to_numpy()[:, None]
        for mine, theirs in (("estimate", "weight"), ("sd", "sd"), ("low", "low"), ("high", "high")):
            gap = (found[[mine]].to_numpy() - weights[[theirs]].to_numpy()) / scale
            assert np.abs(gap).max() < tolerance, (mine, gap)
        both = bd.hypothesis(result, ["site[s] - site[n]", "weight[site[s]] - weight[site[n]]", "`site[s]`-`site[n]`"])
        assert np.ptp(both["estimate"]) < 1e-12
        inter = bd.hypothesis(result, ["age:site[s] - age:site[n]", "`age:site[s] vs site[n]`"])
        assert np.ptp(inter["estimate"]) < 1e-12
    exact = norm.cdf(weights["weight"] / weights["sd"])
    np.testing.assert_allclose(found["posterior_probability"], exact, atol=1e-3)
    assert "mcse" not in found


@pytest.mark.parametrize("kind", ["fit", "file", "classes"])
def test_a_level_by_itself_is_refused_with_the_comparison_to_write(data, kind, tmp_path):
    """Every level has a weight, and the intercept is free: a common part of the levels changes no score."""
    pytest.importorskip("formulaic")
    site = np.resize(["n", "s", "w"], 50)
    table = pd.DataFrame({"age": data.X[:, 0], "site": site, "ill": data.MANY if kind == "classes" else data.Y})
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)) if kind == "classes" else PLAIN
    result = bd.fit(model, "ill ~ age * site", table)
    if kind == "file":
        bd.groups.save(by_hand(result), tmp_path / "post.nc")
        result = bd.groups.load(tmp_path / "post.nc")
    if kind == "classes":

        def named(name):
            return f"weight[b, {name}]"

        intercept = "intercept[b]"
    else:
        named, intercept = str, "intercept"
    s, n, age, slope = map(named, ("site[s]", "site[n]", "age", "age:site[s]"))
    for text in (f"{s} > 0", f"2 * {s} - {n} > 0", f"abs({s}) > 1", f"{s} + {n}", f"{s} > {age}"):
        with pytest.raises(
            ValueError, match=r"by itself.*may as well be in 'intercept.*Compare levels, as in '"
        ) as told:
            bd.hypothesis(result, text)
        assert f"'{s} - {n} > 0'" in str(told.value)
    with pytest.raises(ValueError, match=r"may as well be in '(weight\[b, )?age\]?'"):
        bd.hypothesis(result, f"{slope} > 0")
    fine = [f"{s} - {n} > 0", f"{intercept} + {s} > 0", f"{age} + {slope} > 0", f"log(exp({s} - {n})) > 0"]
    fine += [f"min({s} - {n}, {named('site[w]')} - {n}) > 0", f"{s} > {n}", f"{intercept} > 0", f"{age} > 0"]
    assert len(bd.hypothesis(result, fine)) == len(fine)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("formula", ["y ~ site", "y ~ 0 + site + flag"])
def test_a_level_by_itself_is_refused_in_every_unit(unit, formula):
    frame = pd.DataFrame({"site": [*"nsw"] * 10, "flag": [*"abbaa"] * 6})
    frame["y"] = unit * np.random.default_rng(0).normal(size=30)
    fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0), weight_prior=bd.Normal(unit)), formula, frame)
    with pytest.raises(ValueError, match="about 'site.s.' by itself"):
        bd.hypothesis(fit, "site[s] > 0")
    assert 0 < bd.hypothesis(fit, "site[s] - site[n] > 0")["posterior_probability"].item() < 1


def test_levels_that_are_known_by_themselves(data):
    """Without an intercept of the formula or the model, and with columns of full rank."""
    pytest.importorskip("formulaic")
    table = pd.DataFrame({"site": np.resize(["n", "s", "w"], 50), "ill": data.Y})
    no_intercept = bd.Model(rates=bd.Fixed(0.0), fit_intercept=False)
    fits = [bd.fit(PLAIN, "ill ~ 0 + site", table), bd.fit(no_intercept, "ill ~ site", table)]
    for fit in [*fits, bd.fit(PLAIN, "ill ~ site", table, full_rank=True)]:
        assert len(bd.hypothesis(fit, f"{fit.feature_names[-1]} > 0")) == 1


def test_intercepts_and_ratios_of_a_fit(data):
    fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), data.X, data.NUMBERS)
    found = bd.hypothesis(fit, ["intercept > 0", "x0 / x1 > -2.5", "weight[x0] - weight[x1]"])
    sd = np.sqrt(np.diagonal(fit.covariance))
    np.testing.assert_allclose(found["estimate"].iloc[0], fit.intercept, atol=1e-9)
    np.testing.assert_allclose(found["sd"].iloc[0], sd[3], rtol=1e-3)
    rng = np.random.default_rng(0)
    mean = np.append(fit.weight, fit.intercept)
    draws = rng.multivariate_normal(mean, fit.covariance, 400_000)
    # Five standard errors of 400,000 draws: a false alarm in two million runs.
    chance = np.mean(draws[:, 0] / draws[:, 1] > -2.5)
    assert abs(found["posterior_probability"].iloc[1] - chance) < 5 * np.sqrt(0.25 / 400_000) + 5e-4
    difference = np.array([1.0, -1.0, 0.0, 0.0])
    np.testing.assert_allclose(found["sd"].iloc[2], np.sqrt(difference @ fit.covariance @ difference), rtol=1e-3)


def test_classes(data):
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0))
    fit = bd.fit(model, data.X, data.MANY)
    found = bd.hypothesis(fit, ["weight[a, x0] > weight[b, x0]", "intercept[c] > 0"])
    np.testing.assert_allclose(found["estimate"].iloc[0], fit.weight[0, 0] - fit.weight[1, 0], atol=1e-9)
    rows = bd.weights_table(fit).loc["a"]
    single = bd.hypothesis(fit, "weight[a, x2]").iloc[0]
    np.testing.assert_allclose(single["sd"], rows.loc["x2", "sd"], rtol=1e-3)
    rng = np.random.default_rng(3)
    parts = {
        "weight": (("chain", "draw", "class", "feature"), rng.normal(size=(2, 50, 3, 3))),
        "intercept": (("chain", "draw", "class"), rng.normal(size=(2, 50, 3))),
    }
    coords = {"chain": [0, 1], "draw": np.arange(50), "class": ["a", "b", "c"], "feature": ["x0", "x1", "x2"]}
    post = bd.groups.assemble({"posterior": xr.Dataset(parts, coords)}, attributes(model, fit.classes))
    gap = parts["weight"][1][:, :, 0, 0] - parts["weight"][1][:, :, 1, 0]
    assert bd.hypothesis(post, "weight[a, x0] > weight[b, x0]")["posterior_probability"].item() == (gap > 0).mean()
    with pytest.raises(ValueError, match=r"nothing is called 'x0'.*weight\[a, x0\]"):
        bd.hypothesis(post, "x0 > 0")


def test_effects_by_their_labels(data, post):
    steps = bd.comparisons(post, data.X, {"x0": 1, "x1": (0, 1)}, as_draws=True)
    gap = steps.values[..., 0] - steps.values[..., 1]
    found = bd.hypothesis(steps, "x0[+1] > x1[1 - 0]")
    assert found["posterior_probability"].item() == (gap > 0).mean()
    slopes = bd.marginal_effects(post, data.X, as_draws=True)
    assert bd.hypothesis(slopes, "x2 > 0")["posterior_probability"].item() == (slopes.values[..., 2] > 0).mean()
    grid = bd.predictions_grid(post, data.X, {"x0": [0.0, 0.5], "x1": [2.0]}, as_draws=True)
    ratio = bd.hypothesis(grid, "prediction[0.5, 2] / prediction[0, 2] > 1")["estimate"].item()
    np.testing.assert_allclose(ratio, (grid.values[..., 1] / grid.values[..., 0]).mean() - 1)
    with pytest.raises(ValueError, match="expected effects with as_draws=True"):
        bd.hypothesis(grid.mean("chain"), "prediction[0, 2] > 0")


def test_a_feature_with_the_name_of_a_variable(data):
    parts = {
        "weight": (("chain", "draw", "feature"), np.arange(8.0).reshape(1, 4, 2)),
        "intercept": (("chain", "draw"), np.zeros((1, 4))),
    }
    coords = {"chain": [0], "draw": np.arange(4), "feature": ["intercept", "a b"]}
    post = bd.groups.assemble({"posterior": xr.Dataset(parts, coords)}, attributes(bd.Model(rates=bd.Fixed(0.0))))
    with pytest.raises(ValueError, match=r"'intercept' stands for two things; write weight\[intercept\]"):
        bd.hypothesis(post, "intercept > 0")
    found = bd.hypothesis(post, ["weight[intercept]", "`a b` > 0", "weight[a b] > 0"])
    assert found["estimate"].tolist() == [3.0, 4.0, 4.0]


def test_any_posterior_with_draws():
    """Draws of another sampler have names of variables alone."""
    values = np.random.default_rng(0).normal(size=(2, 30, 2))
    other = xr.Dataset(
        {"theta": (("chain", "draw", "k"), values)}, {"chain": [0, 1], "draw": np.arange(30), "k": [0, 1]}
    )
    found = bd.hypothesis(bd.groups.assemble({"posterior": other}), "theta[0] > theta[1]")
    assert found["posterior_probability"].item() == (values[..., 0] > values[..., 1]).mean()


def test_random_terms_scales_and_sigma(random_terms):
    post = random_terms(bd.Squared(), {"1|site": None})
    group = bd.groups.dataset(post, "posterior")
    effects = group["1|site"]
    cases = {
        "`1|site[n]` > `1|site[s]`": effects.sel({"site|level": "n"}) > effects.sel({"site|level": "s"}),
        "`1|site|scale` > 0.5": group["1|site|scale"] > 0.5,
        "x > 1": group["weight"].sel(feature="x") > 1,
        "sigma > 1": group["sigma"] > 1,
    }
    for (text, truth), row in zip(cases.items(), bd.hypothesis(post, list(cases)).itertuples(), strict=True):
        assert row.posterior_probability == float(truth.mean()), text
