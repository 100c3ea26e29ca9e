"""Formulas: what the columns are, that new rows are encoded alike, and what is refused."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop import from_formula

pytest.importorskip("formulaic")

N = 80


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(0, 10, N),
            "dose": rng.gamma(2.0, size=N),
            "site": rng.choice(["north", "south", "west"], N),
            "sex": rng.choice(["f", "m"], N),
            "grade": rng.integers(1, 4, N),
            "two words": rng.normal(size=N),
        }
    )
    frame["ill"] = np.where(frame["age"] + 10 * rng.normal(size=N) > 0, "yes", "no")
    frame["cost"] = 3.0 * frame["dose"] + rng.normal(size=N)
    return frame


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def test_columns_are_those_written_by_hand(data):
    design = from_formula("ill ~ age + C(site) + age:sex + site:sex", data)
    sites, sexes = ["north", "south", "west"], ["f", "m"]
    at = [(data["site"] == site).to_numpy(float) for site in sites]
    of = [(data["sex"] == sex).to_numpy(float) for sex in sexes]
    age = data["age"].to_numpy()
    expected = [age, *at, *(age * one for one in of), *(one * other for other in of for one in at)]
    np.testing.assert_array_equal(dense(design.X), np.column_stack(expected))
    assert design.feature_names == [
        "age", *(f"C(site)[{site}]" for site in sites), *(f"age:sex[{sex}]" for sex in sexes),
        *(f"site[{site}]:sex[{sex}]" for sex in sexes for site in sites),
    ]  # fmt: skip
    assert design.groups == ["age"] + ["C(site)"] * 3 + ["age:sex"] * 2 + ["site:sex"] * 6
    assert design.y.tolist() == data["ill"].tolist()
    assert design.X.dtype == np.float64
    assert str(design).startswith("ill ~ age + C(site) + age:sex + site:sex: 80 rows, 12 features, dense; ")


def test_full_rank_has_reference_levels_and_contrasts(data):
    design = from_formula("~ age * site + C(sex, contr.sum)", data, full_rank=True)
    assert design.feature_names == [
        "age", "site[T.south]", "site[T.west]", "C(sex, contr.sum)[S.f]", "age:site[T.south]", "age:site[T.west]",
    ]  # fmt: skip
    with_intercept = np.column_stack([np.ones(N), dense(design.X)])
    assert np.linalg.matrix_rank(with_intercept) == 7
    assert set(dense(design.X)[:, 3]) == {-1.0, 1.0}
    all_levels = from_formula("~ age * site + sex", data)
    assert np.linalg.matrix_rank(np.column_stack([np.ones(N), dense(all_levels.X)])) < 1 + all_levels.X.shape[1]


def test_a_factor_of_numbers_stays_a_factor(data):
    """Left to itself, formulaic would write the number into every column of the factor."""
    design = from_formula("~ grade", data.assign(grade=data["grade"].astype("category")))
    assert design.feature_names == ["grade[1]", "grade[2]", "grade[3]"]
    np.testing.assert_array_equal(dense(design.transform(data.assign(grade=[2] * N)))[0], [0, 1, 0])


def test_declared_levels_keep_their_columns(data):
    site = pd.Categorical(data["site"], categories=["east", "north", "south", "west"])
    design = from_formula("ill ~ site", data.assign(site=site))
    assert design.feature_names[0] == "site[east]"
    assert design.transform({"site": ["east"]}).toarray().tolist() == [[1, 0, 0, 0]]
    fit = bd.fit(bd.Model(rates=bd.PerGroup(design.groups)), design.X, design.y, feature_names=design.feature_names)
    assert fit.weight[0] == 0


def test_interactions_of_factors_stay_sparse():
    rng = np.random.default_rng(1)
    codes = {name: [f"{name}{j}" for j in rng.integers(0, 40, 500)] for name in ("one", "two")}
    design = from_formula("~ one * two", codes)
    assert isinstance(design.X, sparse.csr_array)
    p = sum(len(set(codes[name])) for name in codes) + len(set(codes["one"])) * len(set(codes["two"]))
    assert design.X.shape == (500, p)
    assert design.X.nnz == 3 * 500
    assert isinstance(design.transform({name: codes[name][:2] for name in codes}), sparse.csr_array)
    frame = design.frame()
    assert all(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes)
    assert frame.sparse.density == pytest.approx(3 / p)


def test_sparse_only_with_factors_or_on_demand(data):
    assert isinstance(from_formula("~ age + dose", data).X, np.ndarray)
    assert isinstance(from_formula("~ age + site", data, sparse=False).X, np.ndarray)
    wanted = from_formula("~ age + dose", data, sparse=True)
    assert isinstance(wanted.X, sparse.csr_array)
    assert isinstance(wanted.transform(data), sparse.csr_array)
    assert isinstance(from_formula("~ age + dose", data).transform(data), np.ndarray)


@pytest.mark.parametrize(
    "kind", ["polars", "polars categorical", "dict", "string", "pyarrow", "dictionary", "nullable", "odd index"]
)
def test_any_table_gives_the_same_design(data, kind):
    expected = from_formula("ill ~ age + site + C(grade):sex", data)
    if kind.startswith("polars"):
        pl = pytest.importorskip("polars")
        pytest.importorskip("pyarrow")
        table = pl.from_pandas(data)
        if kind.endswith("categorical"):
            table = table.with_columns(pl.col("site").cast(pl.Enum(["north", "south", "west"])))
    elif kind == "dict":
        table = {name: column.tolist() for name, column in data.items()}
    elif kind == "dictionary":
        pa = pytest.importorskip("pyarrow")
        words = ["site", "sex", "ill"]
        arrays = {name: pa.array(data[name]).dictionary_encode() for name in words}
        table = data.assign(**{name: pd.array(one, pd.ArrowDtype(one.type)) for name, one in arrays.items()})
        expected = from_formula("ill ~ age + site + C(grade):sex", data.assign(**{
            name: pd.Categorical(data[name], one.dictionary.to_pylist()) for name, one in arrays.items()
        }))  # fmt: skip
    elif kind == "odd index":
        table = data.set_axis([7] * N, axis=0)
    else:
        if kind == "pyarrow":
            pytest.importorskip("pyarrow")
        numbers = {"pyarrow": "float64[pyarrow]", "nullable": "Float64", "string": "float64"}[kind]
        text = "string[pyarrow]" if kind == "pyarrow" else "string[python]"
        whole = {"pyarrow": "int64[pyarrow]", "nullable": "Int64", "string": "int64"}[kind]
        table = data.astype({"age": numbers, "site": text, "sex": text, "ill": text, "grade": whole})
    design = from_formula("ill ~ age + site + C(grade):sex", table)
    assert design.feature_names == expected.feature_names
    np.testing.assert_array_equal(dense(design.X), dense(expected.X))
    assert design.y.tolist() == expected.y.tolist()
    np.testing.assert_array_equal(dense(design.transform(data)), dense(expected.X))


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ("cost", lambda data: data["cost"]),
        ("grade", lambda data: data["grade"]),
        ("np.log(dose)", lambda data: np.log(data["dose"])),
        ("ill", lambda data: data["ill"]),
        ("{ill == 'yes'}", lambda data: data["ill"] == "yes"),
        ("`two words`", lambda data: data["two words"]),
    ],
)
def test_the_response_is_what_the_left_side_says(data, left, expected):
    y = from_formula(f"{left} ~ age", data).y
    assert y.shape == (N,)
    assert np.all(y == expected(data).to_numpy())
    assert y.dtype.kind in "Uif"


def test_labels_of_other_kinds(data):
    assert from_formula("ill ~ age", data.assign(ill=data["ill"] == "yes")).y.dtype == bool
    assert from_formula("ill ~ age", data.assign(ill=data["ill"].astype("category"))).y.tolist() == data["ill"].tolist()
    assert from_formula("age", data).y is None


@pytest.mark.parametrize(
    ("formula", "missing"),
    [
        ("ill ~ .", "ill"),
        ("np.log(cost + 9) ~ .", "cost"),
        ("scale(cost, center=False) ~ .", "cost"),
        ("`two words` ~ .", "two words"),
        ("np.exp(`two words`) ~ .", "two words"),
        ("{sex == 'site'} ~ .", "sex"),
    ],
)
def test_all_other_columns_leave_the_response_out(data, formula, missing):
    table = data.assign(center=1.0, log=2.0)
    assert list(dict.fromkeys(from_formula(formula, table).groups)) == [name for name in table if name != missing]


@pytest.mark.parametrize("formula", ["ill ~ 0 + site + sex", "ill ~ site + sex - 1"])
def test_no_intercept(data, formula):
    design = from_formula(formula, data)
    assert not design.has_intercept
    assert design.groups == ["site"] * 3 + ["sex"] * 2
    design = from_formula(formula, data, full_rank=True)
    assert design.feature_names == ["site[north]", "site[south]", "site[west]", "sex[T.m]"]
    assert from_formula("ill ~ 1 + site", data).has_intercept
    assert bd.fit(formula, data).intercept == 0
    assert bd.fit(bd.Model(rates=bd.Fixed(0.1)), "ill ~ site", data).intercept != 0


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("ill ~ aeg", "no column 'aeg'; did you mean 'age'"),
        ("np.log(csot) ~ age", "no column 'csot'; did you mean 'cost'"),
        ("ill ~ f(age)", r"context=\{'f': ...\}"),
        ("ill ~ age +* site", r"'ill ~ age \+\* site' cannot be read. Operator `\+\*` is incorrectly used"),
        ("ill ~ two words", "backticks"),
        ("ill ~ (age", "cannot be read"),
        ("ill ~ age | site", "several parts"),
        ("ill + cost ~ age", r"expected one response on the left side, or two columns of counts, .* got 'ill \+ cost'"),
        ("ill ~ age + ill", "'ill' is among the terms"),
        ("C(ill) ~ age", "gives 2 columns, expected one"),
        ("ill ~ C(site, contr.sum)", "pass full_rank=True"),
        ("ill ~ log(age - 50)", r"'log\(age - 50\)' is not a number in some rows"),
        ("ill ~ dose + I(1 / (sex == 'x'))", r"infinite or not numeric in the terms .*I\(1 / \(sex == .*\(80\)"),
        ("ill ~ C(site, levels=['north'])", "levels that the formula has not seen"),
    ],
)
def test_formulas_that_are_refused(data, formula, message):
    with pytest.raises(ValueError, match=message) as caught:
        from_formula(formula, data)
    assert "\x1b" not in str(caught.value)


def test_the_variables_of_the_caller_are_not_looked_up(data):
    weight = np.ones(N)
    assert len(weight) == N
    with pytest.raises(ValueError, match="no column 'weight'"):
        from_formula("ill ~ weight", data)
    design = from_formula("~ double(age) + shift:age", data, context={"double": lambda x: 2 * x, "shift": weight})
    np.testing.assert_array_equal(design.X, np.column_stack([2 * data["age"], data["age"]]))
    np.testing.assert_array_equal(design.transform(data), design.X)


@pytest.mark.parametrize(
    ("changes", "formula", "message"),
    [
        ({"age": [None, None] + [1.0] * (N - 2)}, "ill ~ age + site", r"missing values in 'age' \(2 of 80 rows\)"),
        ({"site": [None] + ["a", "b"] * 39 + ["a"]}, "~ site", r"missing values in 'site' \(1 of 80 rows\)"),
        ({"ill": [None] + ["a", "b"] * 39 + ["a"]}, "ill ~ age", r"missing values in 'ill' \(1 of 80 rows\)"),
        ({"two words": [np.nan] * N}, "~ `two words`", r"missing values in 'two words' \(80 of 80 rows\)"),
        ({"age": [np.inf] * N}, "~ age", r"infinite or not numeric in the terms 'age' \(80\)"),
        ({"cost": [np.inf] * N}, "cost ~ age", "the response 'cost' has infinite values"),
        ({"age": pd.date_range("2020", periods=N)}, "~ age", "column 'age' holds datetime64 values"),
        ({"ill": pd.date_range("2020", periods=N)}, "ill ~ age", "the response 'ill' holds datetime64 values"),
        ({"site": ["one"] * N}, None, "every factor has one level only"),
    ],
)
def test_data_that_are_refused(data, changes, formula, message):
    with pytest.raises(ValueError, match=message):
        from_formula(formula or "~ site", data.assign(**changes), full_rank=formula is None)


def test_missing_values_elsewhere_do_not_matter(data):
    design = from_formula("ill ~ age", data.assign(dose=np.nan))
    np.testing.assert_array_equal(design.X, from_formula("ill ~ age", data).X)


def test_tables_that_are_refused(data):
    with pytest.raises(TypeError, match="got ndarray"):
        from_formula("a ~ b", np.ones((3, 2)))
    with pytest.raises(TypeError, match="formula: expected text"):
        from_formula(3, data)
    with pytest.raises(ValueError, match="one length"):
        from_formula("a ~ b", {"a": [1, 2], "b": [1]})
    with pytest.raises(ValueError, match="at least one row"):
        from_formula("ill ~ age", data.iloc[:0])
    with pytest.raises(ValueError, match="more than one column is called 'age'"):
        from_formula("ill ~ age", pd.concat([data, data[["age"]]], axis=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"site": "east"},
            "80 of 80 rows have levels of 'site' that the formula has not seen: 'east'; known are 'north'",
        ),
        ({"sex": 1}, "levels of 'sex' that the formula has not seen: 1;"),
        ({"age": np.nan}, r"missing values in 'age' \(80 of 80 rows\)"),
        ({"site": None}, r"missing values in 'site' \(80 of 80 rows\)"),
        ({"age": -np.inf}, r"infinite or not numeric in the terms 'center\(age\)' \(80\)|is not a number in some rows"),
        ({"dose": "much"}, "cannot be worked out"),
    ],
)
def test_new_rows_that_are_refused(data, changes, message):
    design = from_formula("ill ~ center(age) + site:sex + C(grade) + dose", data)
    with pytest.raises(ValueError, match=message):
        design.transform(data.assign(**changes))


def test_new_rows_without_a_column_or_rows(data):
    design = from_formula("ill ~ center(age) + site", data)
    with pytest.raises(ValueError, match=r"no column 'age'; did you mean 'agee'\?.*needs 'age', 'site'"):
        design.transform({"agee": [1.0], "sites": ["north"]})
    with pytest.raises(ValueError, match="at least one row"):
        design.transform(data.iloc[:0])
    with pytest.raises(ValueError, match=r"X: expected a matrix with the 4 columns of this design, got shape \(3, 2\)"):
        design.frame(np.ones((3, 2)))


def test_a_missing_formulaic_is_named(data, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ImportError, match=r"pip install 'bayesdrop\[formula\]'"):
        from_formula("ill ~ age", data)


def test_a_formula_in_the_place_of_features(data):
    """The fit is that to the rows of the formula, and goes on with data frames."""
    design = from_formula("ill ~ scale(age) + site", data)
    model = bd.Model(rates=bd.PerFeature(bd.Beta(1, 3)))
    plain = bd.fit(model, design.X, design.y, feature_names=design.feature_names)
    fit = bd.fit(model, "ill ~ scale(age) + site", data)
    np.testing.assert_array_equal(fit.weight, plain.weight)
    assert fit.feature_names == design.feature_names
    new = data[::-1].drop(columns="ill")
    expected = plain.predict(design.transform(new)).mean
    for predicted in (fit.predict(new), bd.predict(fit, new), fit.predict(design.frame(design.transform(new)))):
        np.testing.assert_array_equal(predicted.mean, expected)
    with pytest.raises(ValueError, match="expected the .* columns"):
        plain.predict(new)


@pytest.mark.parametrize(
    ("formula", "loss"),
    [("ill ~ age", bd.Logistic()), ("site ~ age", bd.Softmax()), ("age ~ site", bd.Squared())],
)
def test_the_response_chooses_the_loss(data, formula, loss):
    fit = bd.fit(formula, data)
    assert type(fit.model.loss) is type(loss)
    assert bd.fit(formula, data).predict(data).mean.shape[0] == len(data)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda data: bd.fit("ill ~ (1|site)", data), "random_scale"),
        (lambda data: bd.fit("ill ~ age:offset(dose)", data), r"offset\(dose\) cannot be combined with other terms"),
        (lambda data: bd.fit("ill ~ age - offset(dose)", data), "add it by itself"),
        (lambda data: bd.fit("ill + offset(dose) ~ age", data), "add it by itself"),
        (lambda data: bd.fit("ill ~ age + offset(dose", data), "bracket is not closed"),
        (lambda data: bd.fit("ill ~ age + offset(np.log(0 * dose))", data), "infinite or not a number in 80 of 80"),
        (lambda data: bd.fit("ill ~ age + offset(dose)", data, offset=1.0), "the formula has an offset"),
        (lambda data: bd.FormulaTransformer("age + offset(dose)").fit(data), "features only"),
        (lambda data: bd.fit("~ age", data), "expected a response, as in 'y ~ age'"),
        (lambda data: bd.fit("ill ~ age", data, data["ill"]), "the formula names the response"),
        (lambda data: bd.fit(bd.Model(), data[["age"]]), "expected a response with X"),
        (lambda data: bd.fit("ill ~ age", np.eye(3)), "X: expected a .*data frame .*, for model is a formula, got nd"),
        (
            lambda data: bd.fit(bd.Model(), "a text", [1, 0]),
            "y: expected .* data frame .*, for X is a formula, got li",
        ),
        (
            lambda data: bd.sample(bd.Model(), "", {"a": [1], "b": [1, 2]}),
            "a dict of columns of one length;",
        ),
        (lambda data: bd.fit("ill ~ age", data, feature_names=["age"]), "a formula names its columns"),
    ],
)
def test_calls_that_are_refused(data, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(data)


def test_a_step_of_a_pipeline_learns_on_its_own_rows(data):
    from sklearn.base import clone
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(bd.FormulaTransformer("ill ~ scale(age) + site"), bd.DropoutLogisticRegression(0.1))
    half = data[: len(data) // 2]
    fitted = clone(pipeline).fit(half.drop(columns="ill"), half["ill"])
    design = from_formula("~ scale(age) + site", half)
    assert fitted[0].get_feature_names_out().tolist() == design.feature_names
    assert fitted[0].groups_ == design.groups
    rest = data[len(data) // 2 :]
    expected = bd.DropoutLogisticRegression(0.1).fit(design.X, half["ill"]).predict_proba(design.transform(rest))
    np.testing.assert_array_equal(fitted.predict_proba(rest.drop(columns="ill")), expected)
    assert np.all(np.isfinite(cross_val_score(pipeline, data.drop(columns="ill"), data["ill"], cv=3)))


def test_an_offset_is_no_term(data):
    """``offset(...)``, wherever it stands among the terms, is the argument of that name."""
    model = bd.Model(bd.Squared(), rates=bd.Fixed(0.1))
    known = np.log(data["dose"].to_numpy() + 3) + data["age"].to_numpy()
    by_hand = bd.fit(model, "cost ~ site + `two words`", data, offset=known)
    for terms in (
        "site + `two words` + offset(np.log(dose + 3) + age)",
        "offset(np.log(dose + 3)) + site + offset(age) + `two words`",
        "site + offset( (np.log((dose + 3))) ) + offset(age)+`two words`",
    ):
        fit = bd.fit(model, f"cost ~ {terms}", data)
        assert fit.feature_names == by_hand.feature_names
        np.testing.assert_allclose(fit.weight, by_hand.weight, rtol=1e-9)
        np.testing.assert_allclose(fit.offset, known)
    new = data[:3]
    np.testing.assert_allclose(fit.predict(new).mean, by_hand.predict(new, offset=known[:3]).mean)
    np.testing.assert_allclose(fit.predict(new, offset=0.0).mean + known[:3], fit.predict(new).mean)
    np.testing.assert_allclose(fit.formula.offset_of(new), known[:3])
    with pytest.raises(ValueError, match="dose"):
        fit.predict(new[["site", "two words", "age"]])


def test_an_offset_learns_on_the_first_rows_and_is_no_other_column(data):
    design = bd.from_formula("cost ~ . - ill - sex - site - grade + offset(center(age))", data)
    assert design.groups == ["dose", "two words"]
    np.testing.assert_allclose(design.offset, data["age"] - data["age"].mean())
    np.testing.assert_allclose(design.offset_of(data[:2]), design.offset[:2])
    assert bd.from_formula("cost ~ age", data).offset_of(data) is None


@pytest.mark.parametrize(
    ("formula", "name"),
    [
        ("y ~ a + b", "b"), ("y ~ C(b)", "b"), ("y ~ a:b", "b"), ("y ~ a + I(a * 1j)", "I(a * 1j)"),
        ("y ~ a + offset(b)", "b"), ("y ~ a + offset(a * 1j)", "offset(a * 1j)"), ("y ~ a + (0 + b | g)", "b"),
    ],
)  # fmt: skip
def test_complex_numbers_are_refused(formula, name):
    """Their imaginary part was left out, without a word."""
    table = pd.DataFrame({"y": [0, 1] * 10, "a": np.arange(20.0), "b": np.arange(20.0) + 1j, "g": [*"xy"] * 10})
    with pytest.raises(
        ValueError, match=rf"complex numbers in .*{re.escape(name)}|slope of .*{name}.* is not a number"
    ):
        bd.from_formula(formula, table)
    if formula == "y ~ a + b":
        with pytest.raises(ValueError, match="complex"):
            bd.from_formula(formula, table.assign(b=table.a)).transform(table)
