"""A formula goes with fits and posteriors, into other processes too, and encodes tables there as it did at first."""

import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop import from_formula
from bayesdrop.data.formulas.encoder import FormulaEncoder
from bayesdrop.description import attributes

pytest.importorskip("formulaic")

N, DRAWS = 90, ("chain", "draw")
FORMULAS = (
    "~ center(age) + scale(dose) + bs(age, df=5) + poly(dose, 2) + C(grade)*site + `two words`:site + flag",
    "~ np.log(dose)*site + I(age**2) + cr(age, df=4) + cc(dose, df=3)",
    "~ 0 + site + age:site + offset(np.log(days))",
    "~ grade + C(grade) + hashed(site, levels=4)",
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, N),
            "dose": rng.gamma(2, size=N),
            "site": rng.choice(["north", "south", "west"], N),
            "grade": rng.integers(1, 4, N),
            "two words": rng.normal(size=N),
            "flag": rng.random(N) > 0.5,
            "days": rng.integers(1, 30, N),
        }
    )
    frame["ill"] = np.where(rng.random(N) < 1 / (1 + np.exp((40 - frame["age"]) / 10)), "yes", "no")
    frame["events"] = rng.poisson(0.1 * frame["days"])
    return frame


def dense(X):
    return X.toarray() if hasattr(X, "toarray") else X


@pytest.mark.parametrize("full_rank", [False, True])
@pytest.mark.parametrize("formula", FORMULAS)
def test_text_says_all_of_it(data, formula, full_rank):
    design = from_formula(formula, data, full_rank=full_rank)
    for again in (FormulaEncoder.from_json(design.to_json()), pickle.loads(pickle.dumps(design))):
        assert again.feature_names == design.feature_names
        assert again.groups == design.groups
        for rows in (slice(None), [3]):
            new = data.iloc[rows].drop(columns=["ill", "events"])
            np.testing.assert_array_equal(dense(again.transform(new)), dense(design.X)[rows])
            if design.offset is not None:
                np.testing.assert_array_equal(again.offset_of(new), design.offset[rows])
        assert again.to_json() == design.to_json()


@pytest.mark.slow
def test_an_offset_is_read_from_the_table(data):
    with pytest.warns(bd.warnings.DefaultModelWarning, match="taken for counts"):
        fit = bd.fit("events ~ site + offset(np.log(days))", data)
    assert isinstance(fit.model.loss, bd.Poisson)
    new = data.assign(days=2 * data["days"])
    np.testing.assert_allclose(fit.predict(new).mean, 2 * fit.predict(data).mean, rtol=1e-12)


def test_rows_with_missing_values_are_left_out(data):
    holes = data.assign(age=data["age"].where(data.index != 3), grade=data["grade"].where(data.index != 5))
    weight = np.arange(1.0, N + 1)
    fit = bd.fit("ill ~ age + site", holes, dropna=True, sample_weight=weight)
    kept = np.delete(np.arange(N), 3)
    expected = bd.fit("ill ~ age + site", data.iloc[kept], sample_weight=weight[kept])
    np.testing.assert_array_equal(fit.weight, expected.weight)
    with pytest.raises(ValueError, match="missing values in 'age' .*dropna=True"):
        bd.fit("ill ~ age + site", holes)
    with pytest.raises(ValueError, match="dropna: it says how a formula is encoded"):
        bd.fit(bd.Model(), data[["age"]], data["ill"], dropna=True)


def test_statistics_are_those_of_the_values_that_are_there(data):
    holes = data.assign(age=data["age"].where(data.index > 4))
    design = from_formula("~ scale(age) + bs(age, df=4) + site", holes, missing="nan")
    there = from_formula("~ scale(age) + bs(age, df=4) + site", holes.iloc[5:], missing="nan", sparse=False)
    numbers = [j for j, name in enumerate(design.feature_names) if "age" in name]
    np.testing.assert_allclose(design.X[5:][:, numbers], there.X[:, numbers], rtol=1e-12)
    assert np.all(np.isnan(design.X[:5][:, numbers]))
    again = FormulaEncoder.from_json(design.to_json())
    np.testing.assert_array_equal(again.transform(holes), design.X)


def test_a_factor_with_one_level_is_refused(data):
    with pytest.raises(ValueError, match="'site' has one level, 'north', in all rows"):
        bd.fit("ill ~ age + site", data[data["site"] == "north"])
    declared = pd.Categorical(["north"] * 20, categories=["north", "south"])
    design = from_formula("~ age + site", data[:20].assign(site=declared))
    assert design.feature_names == ["age", "site[north]", "site[south]"]


def test_python_code_runs_in_the_session_that_made_it_and_in_no_other(data, tmp_path):
    """Fits and posteriors predict here; a file says when saved, and when asked, that its readers encode rows."""
    own = {"twice": lambda values: 2 * values}
    assert from_formula("~ twice(age)", data, context=own).transform(data)[0, 0] == 2 * data["age"][0]
    model = bd.Model(rates=bd.Fixed(0.0))
    fit = bd.fit(model, "ill ~ age.abs() + site", data)
    parts = {"weight": ((*DRAWS, "feature"), fit.weight[None, None]), "intercept": (DRAWS, [[fit.intercept]])}
    draws = xr.Dataset(parts, coords={"chain": [0], "draw": [0], "feature": fit.feature_names})
    post = bd.groups.assemble({"posterior": draws}, attributes(fit.model, fit.classes, fit.facts))
    encoded = fit.formula.transform(data)
    np.testing.assert_array_equal(encoded[:, 0], data["age"].abs())
    features = pd.DataFrame(encoded, columns=fit.feature_names)
    # A data frame holds columns, an encoded matrix rows: their products are summed in other orders.
    for result in (fit, post):
        np.testing.assert_allclose(bd.predict(result, data).mean, bd.predict(result, features).mean, rtol=1e-14)
    for save, name in ((fit.save, "fit.nc"), (lambda path: bd.groups.save(post, path), "post.nc")):
        with pytest.warns(bd.FormulaWarning, match=r"'age.abs\(\)' is Python code.*design.transform\(rows\)"):
            save(tmp_path / name)
    features.to_csv(tmp_path / "features.csv", index=False)
    code = (
        "import sys, pandas as pd, bayesdrop as bd\n"
        "folder = sys.argv[1]\n"
        "features = pd.read_csv(folder + '/features.csv')\n"
        "for result in (bd.Fit.load(folder + '/fit.nc'), bd.groups.load(folder + '/post.nc')):\n"
        "    bd.predict(result, features)\n"
        "    try:\n"
        "        bd.predict(result, {'age': [1.0], 'site': ['west']})\n"
        "    except ValueError as error:\n"
        "        print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.count("'age.abs()' is Python code, which no file holds and none runs. Encode the rows yours") == 2


def test_formulas_of_one_text_keep_their_own_functions(data):
    """Two posteriors by functions of one name differ, though their formulas are the same text."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        for factor in (2, 3):
            model, own = bd.Model(rates=bd.Fixed(0.0)), {"own": lambda values, factor=factor: factor * values}
            design = from_formula("ill ~ own(age)", data, context=own)
            facts = bd.fit(model, design.X, design.y, feature_names=design.feature_names).to_dataset()
            facts.attrs |= {"formula": design.formula, "formula_encoding": design.to_json()}
            found.append(bd.Fit.from_dataset(facts))
    for factor, fit in zip((2, 3), found, strict=True):
        assert fit.formula.transform(data)[0, 0] == factor * data["age"][0]


@pytest.mark.parametrize(
    "change",
    [{"terms": 3}, {"terms": [["Term"]]}, {"columns": {}}, {"offset": ["q"]}, {"random": 7}, {"label": [1]},
     {"unseen": 1}, {"version": 1}, {"version": 2}, {"is_sparse": "no"}, {"columns": 3},
     {"columns": {"age": {"low": "x"}}}],
)  # fmt: skip
def test_damaged_text_is_refused(data, change):
    known = json.loads(from_formula("~ scale(age) + site", data).to_json())
    with pytest.raises(ValueError, match=".+"):
        FormulaEncoder.from_json(json.dumps(known | change))


def test_the_prior_and_groups_take_a_formula(data):
    model = bd.Model(rates=bd.PerGroup(), fit_intercept=False)
    drawn = bd.prior_draws(model, "ill ~ 0 + scale(age) + site", data, draws=3)
    assert bd.groups.dataset(drawn, "prior")["rate"].sizes["group"] == 2
    again = bd.prior_draws(model, "~ 0 + scale(age) + site", data, draws=3)
    assert bd.groups.dataset(again, "prior").equals(bd.groups.dataset(drawn, "prior"))
    fit = bd.fit(bd.Model(rates=bd.PerGroup()), "ill ~ scale(age) + site", data)
    assert fit.rate_posterior.names == ["scale(age)", "site"]
    with pytest.raises(ValueError, match="without any they are the terms of a formula"):
        bd.fit(bd.Model(rates=bd.PerGroup()), data[["age"]], data["ill"])
    plain = bd.Model(rates=bd.Fixed(0.1), fit_intercept=False)
    for some in (data, data[["age", "ill"]], data[["age", "days"]], dict(data)):
        with pytest.raises(ValueError, match="y: expected 90 labels .* a table only where X or model is a formula"):
            bd.prior_draws(plain, data[["age"]], some)


def test_a_pipeline_has_the_same_policy(data):
    rows = data[data["site"] != "west"]
    with pytest.raises(ValueError, match="has not seen: 'west'"):
        bd.FormulaTransformer("age + site").fit(rows).transform(data)
    found = bd.FormulaTransformer("age + site", unseen="population").fit(rows).transform(data)
    assert not found[(data["site"] == "west").to_numpy(), 1:].any()
