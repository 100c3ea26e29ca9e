"""The language of stored formulas gives formulaic's numbers, on formulas drawn from a grammar, here and in threads."""

import random
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd
from bayesdrop.data.formulas.encoder import FormulaEncoder
from bayesdrop.data.formulas.formula import _parse, _statistics
from bayesdrop.data.formulas.language.encoding import encode, without_intercept

pytest.importorskip("formulaic")

NUMBERS = ["a", "b", "k", "flag", "`two words`", "g"]
ONE = ["exp", "sin", "tanh", "arctan", "sqrt", "abs", "square", "floor", "rint", "log1p", "isnan", "logical_not"]
TWO = ["maximum", "minimum", "hypot", "arctan2", "fmax", "logaddexp", "power"]


def table(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.uniform(0, 4, n),
            "b": rng.uniform(0.1, 5, n),
            "k": rng.integers(-3, 4, n),
            "flag": rng.random(n) > 0.5,
            "site": rng.choice(["n", "s", "w w"], n).astype(object),
            "sex": pd.Categorical(rng.choice(["f", "m"], n), categories=["f", "m", "x"]),
            "two words": rng.uniform(-2, 2, n),
            "g": rng.integers(1, 4, n),
        }
    )


def expression(chance, depth):
    """Arithmetic, comparisons and functions of columns."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice([*NUMBERS, "2", "0.5", "np.pi"])
    one, two, three, four = (expression(chance, depth - 1) for _ in range(4))
    return chance.choice(
        [
            f"({one} {chance.choice(['+', '-', '*', '/', '//', '%'])} {two})",
            f"({one} {chance.choice(['<', '<=', '>', '>=', '==', '!='])} {two})",
            f"np.{chance.choice(ONE)}({one})",
            f"np.{chance.choice(TWO)}({one}, {two})",
            f"np.where({one} > {two}, {three}, {four})",
            f"np.clip({one}, 0, {chance.choice(['1', 'None'])})",
            f"({one}) ** {chance.choice(['2', '3', '0.5'])}",
            "(site == 'n')",
            "('s' != site)",
            f"(({one} > 1) & ({two} < 2) | (k % 2 == 1))" if chance.random() < 0.1 else f"(({one} > 1) | ({two} < 2))",
        ]
    )


def factor(chance):
    x, inner = chance.choice(["a", "b", "k", "`two words`"]), expression(chance, 2)
    beyond = chance.choice(["", ", extrapolation='clip'", ", extrapolation='extend'", ", extrapolation='zero'"])
    centred = chance.choice(["", ", constraints='center'"])
    return chance.choice(
        [
            x,
            f"I({inner})",
            f"{{{inner}}}",
            f"log({x}**2 + 1)",
            f"{chance.choice(['center', 'scale', 'standardize'])}({chance.choice([x, f'{inner} + a'])})",
            f"bs({x}, df={chance.randrange(5, 8)}{chance.choice(['', ', include_intercept=True'])}{beyond})",
            f"bs({x}, df=4, degree=2{beyond})",
            f"{chance.choice(['cr', 'cs'])}({x}, df={chance.randrange(3, 7)}{centred}{beyond})",
            f"cc({x}, df={chance.randrange(3, 6)}{centred})",
            f"poly({x}, {chance.randrange(1, 5)}{chance.choice(['', ', raw=True'])})",
            "site",
            "sex",
            chance.choice(["C(g)", "C(k)", "C(site)", "C(flag)", "C(a > 2)", "C(np.rint(b))", "I(site)", "Q('a')"]),
            chance.choice(["sum", "helmert", "poly", "diff", "treatment('s')", "SAS"]).join(["C(site, contr.", ")"]),
            f"hashed({chance.choice(['site', 'g', 'k'])}, levels=3)",
        ]
    )


def formula(chance):
    terms = [
        chance.choice([":", "*"]).join(factor(chance) for _ in range(chance.choice([1, 1, 2, 3])))
        for _ in range(chance.randrange(1, 4))
    ]
    return f"~ {chance.choice(['', '0 + '])}{' + '.join(terms)}"


def by_formulaic(text, train, new, missing, full_rank, levels):
    """What formulaic gives by itself, without names in backticks, whose statistics it may lose."""
    text, train, new = text.replace("`two words`", "tw"), *(t.rename(columns={"two words": "tw"}) for t in (train, new))
    _, right = _parse(text, train, None, set())
    statistics = _statistics(right, train, {})
    spec = encode(right, train, {}, missing, ensure_full_rank=full_rank, transform_state=statistics).model_spec
    for label, (column, known) in levels.items():
        if column in new:
            new = new.assign(**{column: new[column].where(new[column].isin(known))})
        if column in new and label == column:  # formulaic takes what a column is now for what it was
            new = new.assign(**{column: pd.Categorical(new[column], categories=known)})
    return without_intercept(encode(spec, new, {}, "nan"), spec)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15))
def test_generated_formulas_give_formulaic_s_numbers(seed):
    chance, equal, outside = random.Random(seed), 0, 0
    for number in range(60):
        text, full_rank, missing = formula(chance), chance.random() < 0.5, chance.choice([None, "nan"])
        train, new = table(60, [seed, number]), table(15, [seed, number, 1])
        for name in ("a", "b", "k", "two words"):  # within the knots
            new[name] = new[name].clip(train[name].min(), train[name].max())
        if "hashed(site" not in text:
            new.loc[0, "site"] = "unseen"
        if missing:
            for name in ("a", "two words", "site"):
                train.loc[chance.randrange(60), name] = new.loc[chance.randrange(1, 15), name] = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                design = bd.from_formula(text, train, full_rank=full_rank, missing=missing, unseen="population")
                expected = by_formulaic(text, train, new, missing, full_rank, design.levels)
                again = FormulaEncoder.from_json(design.to_json())
                X = again.transform(new)
            except ValueError:  # as of contrasts without effect, or roots of negative numbers
                continue
            outside += bool(design.outside)
        X = X.toarray() if again.is_sparse else X
        whole = new.notna().all(axis=1).to_numpy()
        size = np.nanmax(np.abs(expected.toarray()[whole]), initial=1.0)  # a root of a negative number is missing
        np.testing.assert_allclose(X[whole], expected.toarray()[whole], rtol=1e-12, atol=1e-12 * size, err_msg=text)
        equal += 1
    assert equal > 33
    assert outside < 0.05 * equal


def test_a_name_in_backticks_that_is_used_twice_keeps_its_statistics():
    """formulaic alone would take the mean of the new rows."""
    data = {"two words": [1.0, 2.0, 6.0], "a": [1.0, 2.0, 4.0]}
    design = bd.from_formula(
        "~ center(`two words` + 0*`two words`) + center(`two words`) + center(`two words`):a", data
    )
    assert not design.outside
    assert design.transform({"two words": [3.0], "a": [2.0]}).tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("kind", ["int8", "uint16", "float32", "float64", "int64"])
def test_numbers_of_every_size_are_doubles_in_a_formula(kind):
    values = np.array([1, 20, 100, 120], dtype=kind)
    design = bd.from_formula("~ I(a * a) + I(a**2) + center(a / 3) + np.exp(a / 100)", {"a": values})
    assert not design.outside
    exact = values.astype(np.float64)
    np.testing.assert_allclose(design.X[:, 0], exact**2, rtol=1e-15)
    np.testing.assert_allclose(design.X[:, -1], np.exp(exact / 100), rtol=1e-15)


def test_functions_of_the_user_s_own_are_not_taken_for_those_of_numpy():
    data = {"a": [1.0, 2.0, 4.0]}
    design = bd.from_formula("~ log(a) + np.exp(a)", data, context={"log": lambda x: 3 * x})
    np.testing.assert_allclose(design.transform(data)[:, 0], [3, 6, 12])
    assert design.outside == "log(a)"
    assert len(design.to_json()) > 0


@pytest.mark.slow
def test_formulas_are_learnt_and_computed_in_several_threads():
    """Python 3.11's parser, which formulaic calls, is not safe in several threads at a time."""
    data = table(40, 0)
    text = "~ center(a) + bs(b, df=5) + np.log(b + 1):site + C(g) + I(a * (k > 0)) + `two words` + a.abs()"
    expected = bd.from_formula(text, data).X

    def encoded(_):
        design = bd.from_formula(text, data)
        return [design.X, design.transform(data), FormulaEncoder.from_json(design.to_json()).transform(data)]

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(encoded, range(16)):
            for X in found:
                np.testing.assert_allclose(X, expected, rtol=1e-15)


def test_an_offset_and_a_slope_that_the_language_cannot_compute_are_python_code():
    """Two columns of text are compared by pandas, since the language has numbers alone."""
    data = table(60, 0)
    data["other"], is_same = data["site"].to_numpy()[::-1], data["site"].to_numpy() == data["site"].to_numpy()[::-1]
    design = bd.from_formula("~ a + offset(2 * (site == other))", data)
    np.testing.assert_array_equal(design.offset, 2.0 * is_same)
    np.testing.assert_array_equal(design.offset_of(data[:5]), design.offset[:5])
    by_hand = data.assign(is_same=is_same * 1.0)
    fits = [
        bd.fit(f"flag ~ a + (0 + {slope} | g)", by_hand, random_scale=1.0)
        for slope in ("I((site == other) * 1.0)", "is_same")
    ]
    np.testing.assert_allclose(fits[0].predict(data).mean, fits[1].predict(by_hand).mean)


GAPS = pd.DataFrame(
    {
        "age": [30.0, 60, np.nan, 40, 70, 55],
        "site": ["n", "s", None, "n", "s", "n"],
        "code": [1.0, 2, 3, 1, 2, 3],
        "y": [0.0, 1, 2, 3, 4, 6],
    }
)


@pytest.mark.parametrize(
    "term",
    [
        "I(age > 50)", "{age > 50}", "np.where(age > 50, 1, 0)", "np.logical_and(age > 50, code > 1)", "C(age > 50)",
        "C(site == 'n')", "I(site == 'n')", "I(site != 'n')", "I(age == 30):code", "{age.gt(50)}", "site.isin(['n'])",
        "np.fmax(age, 50)", "C(site.str.upper())", "bs(np.where(age > 50, code, 1), df=4)",
        "I(np.isnan(code) | (age > 5))",
        "hashed(I(site), levels=5)", "hashed(C(site), levels=5)", "hashed(site.str.upper(), levels=5)",
        "hashed(age // 10, levels=5)", "C(hashed(site, levels=5))", "hashed(site, levels=5, hash_func=len)",
        "hashed(Q('site'), levels=5)",
    ],
)  # fmt: skip
def test_a_missing_value_makes_an_expression_missing(term):
    formula, complete = f"y ~ {term}", GAPS.drop(index=2)
    design = bd.from_formula(formula, GAPS, missing="nan")
    assert np.isnan(design.X[2]).all()
    assert np.isfinite(np.delete(design.X, 2, axis=0)).all()
    np.testing.assert_array_equal(design.transform(GAPS), design.X)
    with pytest.raises(ValueError, match="data: missing values in '(age|site)'"):
        bd.from_formula(formula, GAPS)
    with pytest.raises(ValueError, match="data: missing values in '(age|site)'"):
        bd.from_formula(formula, complete).transform(GAPS)
    assert len(bd.from_formula(formula, GAPS, dropna=True).y) == 5


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("np.isnan(age)", 1), ("age.isna()", 1), ("I(~age.notna())", 1), ("np.isfinite(age)", 0), ("age.fillna(9)", 9),
        ("np.nan_to_num(age)", 0), ("np.where(np.isnan(age), code, age)", 3), ("I(site.fillna('n') == 'n')", 1),
        ("age.combine_first(code)", 3),
    ],
)  # fmt: skip
def test_an_expression_may_ask_about_missing_values(term, value):
    design = bd.from_formula(f"y ~ {term}", GAPS, sparse=False)
    assert design.X[2].tolist() == design.transform(GAPS)[2].tolist() == [value]


def test_a_missing_value_in_a_response_an_offset_and_a_slope_is_an_error():
    complete = GAPS.drop(index=2)
    for formula in ("{age > 50} ~ code", "{site == 'n'} ~ code", "{age.gt(50)} ~ code"):
        with pytest.raises(ValueError, match="data: missing values in '(age|site)'"):
            bd.from_formula(formula, GAPS)
        with pytest.raises(ValueError, match="data: missing values in '(age|site)'"):
            bd.from_formula(formula, complete).response_of(GAPS)
    for offset in ("np.where(age > 50, 1.0, 0.0)", "age.gt(50)"):
        formula = f"y ~ code + offset({offset})"
        for missing in (None, "nan"):
            with pytest.raises(ValueError, match="data: missing values in 'age'"):
                bd.from_formula(formula, GAPS, missing=missing)
        with pytest.raises(ValueError, match="data: missing values in 'age'"):
            bd.from_formula(formula, complete).offset_of(GAPS)


def test_columns_that_are_levels_and_numbers_do_not_overflow():
    data = pd.DataFrame({"a": [3_000_000, 3_000_001, 3_100_000] * 4, "y": np.arange(12.0)})
    cube = data.a.astype(float) ** 3
    for formula in ("y ~ C(a) + I(a**3)", "y ~ I(a & 4) + I(a**3)", "y ~ C(a) + {a.abs()**3}", "y ~ {a.abs()**3}"):
        design = bd.from_formula(formula, data, sparse=False)
        for X in (design.X, design.transform(data)):
            np.testing.assert_allclose(X[:, -1], cube, rtol=1e-15)
    design = bd.from_formula("y ~ C(a) + I(a**3) + offset(a**3)", data)
    assert design.feature_names[0] == "C(a)[3000000]"
    assert not design.outside
    np.testing.assert_allclose(design.offset, cube, rtol=1e-15)
    np.testing.assert_allclose(bd.from_formula("{a**3} ~ y", data).y, cube, rtol=1e-15)
    assert bd.from_formula("{a + 1} ~ y", data).y.dtype.kind == "i"


@pytest.mark.parametrize(
    "term", ["I(a - a.mean())", "I(a / a.max())", "a.rank()", "C(a > np.median(a))", "a.shift(fill_value=0)"]
)
def test_code_that_computes_from_other_rows_warns(term):
    data = table(20, 0)
    with pytest.warns(bd.FormulaWarning, match="depends on the other rows.*center"):
        bd.from_formula(f"b ~ {term}", data)
    with pytest.warns(bd.FormulaWarning, match="depends on the other rows"):
        bd.from_formula("b ~ k + offset(a - a.mean())", data)
    if not term.startswith("C("):
        with pytest.warns(bd.FormulaWarning, match="depends on the other rows"):
            bd.from_formula(f"{{{term}}} ~ b", data)


def test_code_that_computes_row_by_row_does_not_warn():
    terms = "a.abs() + center(a.abs()) + scale(a.abs()) + poly(a.abs(), 2) + bs(a.abs(), df=4) + C(k.abs())"
    assert bd.from_formula(f"b ~ {terms}", table(20, 0)).outside
    assert not bd.from_formula("{a.abs()} ~ b", table(20, 0)).outside
