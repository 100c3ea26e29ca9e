"""Words and marks of R, brms and bambi in formulas mean what they mean there, or are refused with what to write."""

import re

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd
from bayesdrop.data.formulas.formula import encode_formula
from bayesdrop.data.formulas.tokens import tokenised

GENERATOR = np.random.default_rng(8)
N = 40
TABLE = pd.DataFrame(
    {
        "y": GENERATOR.normal(size=N),
        "age": GENERATOR.integers(20, 60, N),
        "x": GENERATOR.uniform(1, 2, N),
        "k": GENERATOR.integers(0, 3, N),
        "g": GENERATOR.choice(["a", "b"], N),
        "h": GENERATOR.choice(["u", "v"], N),
        "s": GENERATOR.integers(0, 5, N),
        "n": 5,
        "p": GENERATOR.normal(size=N),
        "sqrt": GENERATOR.normal(size=N),
        "a^2": GENERATOR.normal(size=N) + 3,
        "k.v": GENERATOR.normal(size=N) + 9,
    }
)


def dense(formula, table=TABLE):
    X = bd.from_formula(formula, table).X
    return X.toarray() if hasattr(X, "toarray") else X


@pytest.mark.parametrize(
    ("formula", "plain"),
    [
        ("I(age^2)", lambda t: t.age**2),
        ("I(age ^ 2)", lambda t: t.age**2),
        ("I(age**2)", lambda t: t.age**2),
        ("{age^2}", lambda t: t.age**2),
        ("I(-x^2)", lambda t: -(t.x**2)),
        ("I(age^-1)", lambda t: 1 / t.age),
        ("I((100000 * age)^3)", lambda t: (1e5 * t.age) ** 3),
        ("I(age^0.5)", lambda t: t.age**0.5),
        ("np.log(age^2)", lambda t: np.log(t.age**2)),
        ("I(`a^2`^2)", lambda t: t["a^2"] ** 2),
        ("`a^2`", lambda t: t["a^2"]),
        ("I(k.v^2)", lambda t: t["k.v"] ** 2),
        ("I((g == 'a^2') + x)", lambda t: t.x),
        ("sqrt(age)", lambda t: np.sqrt(t.age)),
        ("log1p(age)", lambda t: np.log1p(t.age)),
        ("log2(age)", lambda t: np.log2(t.age)),
        ("I(age %% 7)", lambda t: t.age % 7),
        ("I(age %/% 7)", lambda t: t.age // 7),
        ("I(x * TRUE)", lambda t: t.x),
        ("ifelse(age > 40, 1, 0)", lambda t: 1 * (t.age > 40)),
        ("pmin(x, 1.5)", lambda t: np.minimum(t.x, 1.5)),
    ],
)
def test_expressions_mean_what_they_mean_in_r(formula, plain):
    np.testing.assert_allclose(dense(formula)[:, 0], plain(TABLE), rtol=1e-14)
    if formula.startswith("{"):
        return  # braces are of terms alone
    offset = bd.from_formula(f"y ~ age + offset({formula})", TABLE).offset
    np.testing.assert_allclose(offset, plain(TABLE), rtol=1e-14)


def test_whole_numbers_are_doubles_in_arithmetic_and_levels_elsewhere():
    table = TABLE.assign(big=10**7 * TABLE.age, code=TABLE.k)
    for formula in ("big * big * big", "big^3", "np.power(big, 3)"):
        design = bd.from_formula(f"y ~ I({formula}) + C(code)", table)
        np.testing.assert_allclose(dense(f"I({formula})", table)[:, 0], table.big.astype(float) ** 3, rtol=1e-14)
        power = next(k for k, name in enumerate(design.feature_names) if not name.startswith("C"))
        np.testing.assert_allclose(design.transform(table)[:, power], table.big.astype(float) ** 3, rtol=1e-14)
        assert sorted(design.feature_names)[:3] == ["C(code)[0]", "C(code)[1]", "C(code)[2]"]
    assert bd.from_formula("k ~ I(age^2)", TABLE).y.dtype.kind == "i"
    assert bd.from_formula("~ I(age^2)", TABLE).columns["age"]["whole"]
    np.testing.assert_array_equal(dense("I(age & 4)")[:, 0], TABLE.age & 4)


def test_factors_are_those_of_c():
    for formula in ("factor(k)", "as.factor(k)", "as.character(k)"):
        np.testing.assert_array_equal(dense(formula), dense("C(k)"))
    assert bd.from_formula("factor(k)", TABLE).feature_names == ["C(k)[0]", "C(k)[1]", "C(k)[2]"]


def test_words_in_quotes_and_backticks_are_left_alone():
    table = TABLE.assign(**{"factor(k)^2": TABLE.x, "TRUE": TABLE.p})
    np.testing.assert_array_equal(dense("`factor(k)^2` + TRUE", table), TABLE[["x", "p"]])
    design = bd.from_formula("C(g == 'as.factor(k)^2', levels=[True, False])", table)
    np.testing.assert_array_equal(design.X, np.tile([0, 1], (N, 1)))
    own = {"factor": lambda column: column * 2}
    np.testing.assert_array_equal(bd.from_formula("factor(k)", TABLE, context=own).X[:, 0], 2 * TABLE.k)


@pytest.mark.parametrize(
    "left", ["cbind(s, n - s)", "s + {n - s}", "s | trials(n)", "s|trials(5)", "p(s, n)", "prop(s, n)"]
)
def test_successes_and_trials_are_two_counts(left):
    np.testing.assert_array_equal(bd.from_formula(f"{left} ~ x", TABLE).y, np.column_stack([TABLE.s, 5 - TABLE.s]))
    assert isinstance(bd.fit(f"{left} ~ x", TABLE).model.loss, bd.Binomial)


REFUSED = {
    "y ~ age^2": r"'age\^2' is the term 'age' again.*I\(age\*\*2\)",
    "y ~ age**2": r"I\(age\*\*2\)",
    "y ~ age + age ^ 2 + x": r"I\(age\*\*2\)",
    "y ~ x + (age)^3": r"I\(age\*\*3\)",
    "y ~ log(age)^2": r"I\(log\(age\)\*\*2\)",
    "y ~ (age:x)^2": r"'\(age:x\)\^2' is the term 'age:x' again",
    "y ~ x + `a^2`^2": r"I\(`a\^2`\*\*2\)",
    "y ~ g^2": "write g. The power",
    "y ~ age:age": r"'age' twice.*I\(age \* age\)",
    "y ~ age*x*age": r"'age' twice",
    "y ~ (age + x*x)": r"I\(x \* x\)",
    "y^2 ~ x": r"write I\(y\*\*2\) ~",
    "y - x ~ age": r"write I\(y - x\) ~",
    "y/n ~ age": r"write I\(y/n\) ~",
    "s + s ~ age": r"'s' twice",
    "cbind(s, s) ~ age": r"'s' twice",
    "cbind(s, n, k) ~ age": "two columns of counts",
    "p(s) ~ age": "two columns of counts",
    "s | weights(n) ~ age": r"sample_weight",
    "y ~ ns(x, df=3)": r"write cr\(x, df=4\)",
    "y ~ s(x)": r"write bs\(x, df=5\)",
    "y ~ exp10(x)": r"write I\(10.0\^x\)",
    "y ~ log(age, x)": r"log\(...\) takes 1 of the 2 arguments; write I\(log\(age\) / log\(x\)\)",
    "y ~ np.exp(age, out=x)": "takes 1 of the 2 arguments; leave the others out",
    "y ~ pmin(age, x, k)": r"takes 2 of the 3 arguments; nest the calls, as in pmin\(a, pmin\(b, c\)\)",
    "y ~ as.numeric(k)": "pd.to_numeric",
    "y ~ relevel(g, ref='b')": "write g",
    "y ~ cut(x, 3)": "pd.cut",
    "y ~ 2^x": r"I\(2\*\*x\)",
    "y ~ g %in% h": "write g:h",
    "y ~ I(x > 0 & k == 1)": r"\(a > 0\) & \(b == 1\)",
    "y ~ x + (age^2 | g)": r"I\(age\*\*2\)",
    "y ~ x + (0 + x*age | g)": r"write \(0 \+ I\(x\*age\) \| g\)",
    "y ~ x + (0 + x - age | g)": "not one variable",
    "y ~ x + (0 | g)": "no effects",
    "y ~ x + (0 + h | g)": r"those of \(1 \| h:g\)",
    "y ~ x + (1 | g | h)": "several bars",
    "y ~ (x + (1 | g))": "by itself",
    "y ~ (x + offset(x))": "by itself",
    "y ~ x + (0 + x:age | g)": r"I\(x \* age\)",
    "y ~ x + (1 | C(g))": "without C",
    "y ~ x + 2:age": r"write I\(2 \* age\)",
}


def advised(message):
    """Every piece of formula that a message tells its reader to write."""
    found = []
    for part in re.split(r"\bwrite ", message)[1:]:
        depth, text = 0, ""
        for token in tokenised(part):
            depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "mark" else 0
            if depth == 0 and (token.text in (",", ";", ".") or token.text in ("for", "or", "in", "as", "which")):
                break
            text += token.text
        found.append(text.strip())
    return found


@pytest.mark.parametrize(("formula", "words"), REFUSED.items())
def test_what_is_refused_says_what_to_write_and_that_is_taken(formula, words):
    with pytest.raises(ValueError, match=words) as error:
        encode_formula(formula, TABLE)
    for advice in advised(str(error.value)):
        whole = f"{advice} x" if advice.endswith("~") else f"y ~ {advice}"
        encode_formula(whole, TABLE)
