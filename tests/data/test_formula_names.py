"""Formulas over columns that no Python name fits, terms that are no columns, and levels of other types."""

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd
from bayesdrop.data.formulas.encoder import FormulaEncoder

pytest.importorskip("formulaic")
N = 24
NAMES = [
    "a.b", "T.x", "two words", "age (years)", "share %", "2nd", "x[1]", "naïve", "a:b", "class", "log", "it's", "a, b",
]  # fmt: skip


def _frame(name, text=False):
    generator = np.random.default_rng(1)
    column = generator.choice(["n", "s"], N) if text else generator.normal(size=N)
    return pd.DataFrame({name: column, "z": generator.normal(size=N), "ill": np.arange(N) % 2})


def _dense(X):
    return X.toarray() if hasattr(X, "toarray") else X


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pattern", ["{}", "C({})", "{}:z", "I({})", "center({})"])
def test_a_name_is_a_name(name, text, pattern):
    """The features are those of the same column under a plain name, of new rows too, with the response gone."""
    if text and pattern in ("I({})", "center({})"):
        return
    data, quoted = _frame(name, text), f"`{name}`"
    if name == "class" and "(" in pattern:
        with pytest.raises(ValueError, match="Rename 'class', a word of Python's, which no function takes"):
            bd.from_formula("ill ~ " + pattern.format(quoted), data)
        return
    plain = bd.from_formula("ill ~ " + pattern.format("v"), data.rename(columns={name: "v"}))
    design = bd.from_formula("ill ~ " + pattern.format(quoted), data)
    np.testing.assert_array_equal(_dense(design.X), _dense(plain.X))
    new = data[5:9].drop(columns="ill")
    np.testing.assert_array_equal(_dense(design.transform(new)), _dense(plain.X)[5:9])
    with pytest.raises(ValueError, match="data: no column"):
        design.transform(new.drop(columns=name))
    if pattern == "{}":
        fit = bd.fit(bd.Model(rates=bd.Fixed(0.1)), f"ill ~ {quoted}", data)
        assert fit.predict(new).mean.shape == (4,)


@pytest.mark.parametrize("pattern", ["{}", "C({})", "np.abs({}) + z", "I({} + 1)", "z + offset({})", "z*{}"])
def test_points_need_no_quotes(pattern):
    """As in R; a column is meant where one is called so, an attribute elsewhere."""
    data = _frame("site.id").assign(site=1.0)
    design = bd.from_formula("ill ~ " + pattern.format("site.id"), data)
    quoted = bd.from_formula("ill ~ " + pattern.format("`site.id`"), data)
    np.testing.assert_array_equal(_dense(design.X), _dense(quoted.X))
    np.testing.assert_array_equal(_dense(design.transform(data[:3].drop(columns="ill"))), _dense(quoted.X)[:3])
    labels = data.rename(columns={"ill": "is.ill"})
    assert bd.from_formula("is.ill['1'] ~ z.abs()", labels).y.tolist() == (labels["is.ill"] == 1).tolist()


def test_dot_stands_for_columns_of_any_name():
    data = _frame("T.x").assign(**{"my site": ["n", "s"] * (N // 2)})
    design = bd.from_formula("ill ~ .", data)
    np.testing.assert_array_equal(_dense(design.transform(data[:4].drop(columns="ill"))), _dense(design.X)[:4])


def test_missing_levels_of_a_name_with_brackets():
    data = _frame("site (id)", text=True)
    data.loc[3, "site (id)"] = None
    design = bd.from_formula("ill ~ C(`site (id)`)", data, missing="nan")
    assert np.isnan(design.X[3]).all()


def test_a_missing_level_has_no_hash():
    data = _frame("site", text=True)
    data.loc[3, "site"] = None
    with pytest.raises(ValueError, match="site.*missing"):
        bd.from_formula("ill ~ hashed(site, levels=3)", data)
    design = bd.from_formula("ill ~ hashed(site, levels=3)", data, missing="nan")
    assert np.isnan(design.X[3]).all()
    assert np.isfinite(np.delete(design.X, 3, axis=0)).all()
    assert not design.outside
    complete = bd.from_formula("ill ~ hashed(site, levels=3)", data.drop(index=3))
    with pytest.raises(ValueError, match="site.*missing"):
        complete.transform(data)


@pytest.mark.parametrize(
    "term",
    ["z.mean()", "len(z)", "np.mean(z)", "max(z)", "I(3)", "{3}", "{'x'}", "z:z.mean()", "{[1, 2]}"],
)
def test_a_term_that_is_one_number_is_refused_by_name(term):
    data = _frame("v")
    for formula in (f"ill ~ {term}", f"ill ~ v + {term}"):
        with pytest.raises(ValueError, match="formula: expected terms with a value for each row, got others in"):
            bd.from_formula(formula, data)
    with pytest.raises(ValueError, match="formula: "):
        bd.from_formula(f"{term} ~ v", data)


def test_one_number_beside_a_column_is_none():
    data = _frame("v")
    with pytest.warns(bd.FormulaWarning):
        design = bd.from_formula("ill ~ I(v - v.mean())", data)
    np.testing.assert_allclose(_dense(design.X)[:, 0], data["v"] - data["v"].mean())


def test_a_formula_that_is_no_python():
    with pytest.raises(ValueError, match="formula: 'ill ~ {v [+]}' cannot be read"):
        bd.from_formula("ill ~ {v +}", _frame("v"))


@pytest.mark.parametrize("formula", ["ill ~ k", "ill ~ C(k)", "ill ~ k:z", "ill ~ C(code)", "ill ~ C(code):z"])
@pytest.mark.parametrize("more", [["zz"], []])
def test_another_pool_of_categories(formula, more):
    """What other levels are declared for new rows is no matter, nor is their order."""
    data = _frame("v").assign(k=list("nsw") * (N // 3), code=[1, 2, 3] * (N // 3))
    data["k"] = pd.Categorical(data["k"])
    design, new = bd.from_formula(formula, data), data[:6].copy()
    new["k"] = pd.Categorical(new["k"].astype(object), categories=["w", "s", "n", *more])
    new["code"] = pd.Categorical(new["code"], categories=[3, 2, 1, *([9] if more else [])])
    np.testing.assert_array_equal(_dense(design.transform(new)), _dense(design.X)[:6])


def test_numbers_and_their_texts_are_one_level():
    data = _frame("v").assign(code=["1", "2"] * (N // 2), number=[1, 2] * (N // 2), ill=[1.0, 2.0] * (N // 2))
    design = bd.from_formula("ill ~ code + C(number)", data)
    np.testing.assert_array_equal(design.transform(data.assign(code=data.number, number=data.code)), design.X)
    with pytest.raises(ValueError, match=r"levels of 'code' that the formula has not seen: 3; known are '1', '2'\."):
        design.transform(data.assign(code=data["number"] + 1))
    with pytest.raises(ValueError, match=r"levels of 'number' that the formula has not seen: '1x'; known are 1, 2\."):
        design.transform(data.assign(number=["1x", "2"] * (N // 2)))
    for formula in ("ill['1'] ~ v", "ill[1] ~ v", "code['1'] ~ v", "number[1] ~ v", "number['1'] ~ v", "code[1] ~ v"):
        assert bd.from_formula(formula, data).y.tolist() == [True, False] * (N // 2), formula
    with pytest.raises(ValueError, match=r"no row has the label '3'; the labels are 1\.0, 2\.0\."):
        bd.from_formula("ill['3'] ~ v", data)
    ids = data.assign(code=2**60 + np.arange(N) % 3)
    design = bd.from_formula(f"code[{2**60 + 1}] ~ v", ids)
    assert design.y.tolist() == [place % 3 == 1 for place in range(N)]
    assert design.classes.tolist() == [f"not {2**60 + 1}", str(2**60 + 1)]
    assert FormulaEncoder.from_json(design.to_json()).response_of(ids).tolist() == design.response_of(ids).tolist()


@pytest.mark.parametrize("name", ["type", "id", "max", "hash", "exp", "lag", "scale", "np"])
def test_a_column_named_like_a_function_is_a_column(name):
    data = pd.DataFrame({name: [1.0, 2, 3, np.nan, 1, 2], "y": np.arange(6.0)})
    for term in (f"C({name})", f"I({name}**2)", f"center({name})"):
        assert len(bd.from_formula(f"y ~ {term}", data, dropna=True).y) == 5
        X = bd.from_formula(f"y ~ {term}", data, missing="nan").X
        np.testing.assert_array_equal(np.isnan(X).any(axis=1), data[name].isna())
    whole = pd.DataFrame({name: [3_000_000, 3_100_000], "y": [0.0, 1.0]})
    np.testing.assert_allclose(_dense(bd.from_formula(f"y ~ I({name}**3)", whole).X)[:, 0], [2.7e19, 2.9791e19])
