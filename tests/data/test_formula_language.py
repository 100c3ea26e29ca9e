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


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 15))])
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
