"""What a file says of a formula has no effect but numbers, whichever function reads it."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop._netcdf import read_netcdf, write_netcdf
from bayesdrop.data.formulas.encoder import StoredFormula
from bayesdrop.data.formulas.language.limits import LIMITS, Limits
from bayesdrop.description import attributes

pytest.importorskip("formulaic")
ATTACKER = Path(__file__).with_name("formula_attacker.py")


@pytest.mark.parametrize("count", [1_000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_stored_formulas_that_a_stranger_changed_have_no_effect_but_numbers(count, tmp_path):
    command = [sys.executable, str(ATTACKER), str(count), str(count)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-2000:]
    result = json.loads(run.stdout)
    assert result["encoded"] > count / 10
    assert result["encoded"] + result["refused"] == count
    assert result["slowest"] < 1, "seconds of the processor"
    assert not list(tmp_path.iterdir())


HIDDEN = 'I(a + 0*(("`", __import__("pathlib").Path("harm").touch(), "`") == 0))'
HARMFUL = [
    HIDDEN, 'I(a + 0*(contr.to_csv("harm") == 0))', "I(a + 0*contr.map(eval))", "I(a + 0*contr.map(print))",
    "np.power(9, np.power(9, 9, dtype=object), dtype=object)*a", "I((1 << 10**10)*a)", "I(len([0]*10**9)*a)",
    "poly(a, degree=10**6)", "poly(a, degree=1000000)", "bs(a, df=10**7)", "bs(a, df=10000000)",
    "hashed(a, levels=10**9)", "hashed(a, levels=1000000000)",
]  # fmt: skip


def with_code(expression):
    """A stored formula with a term of Python code."""
    known = json.loads(bd.from_formula("~ I(a + 1)", {"a": [1.0, 2.0]}).to_json())
    return json.dumps(known | {"terms": [["Term", expression, [expression], [["Product", [
        ["Factor", expression, ["Outside", expression, 1, ["a"]]]]]]]]})  # fmt: skip


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"a": rng.normal(size=40), "contr": rng.normal(size=40)})
    data["y"] = np.where(data["a"] > 0, "yes", "no")
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), "y ~ I(a + 1)", data)
    draws = xr.Dataset(
        {
            "weight": (("chain", "draw", "feature"), rng.normal(size=(2, 10, 1))),
            "intercept": (("chain", "draw"), rng.normal(size=(2, 10))),
        },
        coords={"chain": [0, 1], "draw": range(10), "feature": fit.feature_names},
    )
    post = bd.groups.assemble({"posterior": draws}, attributes(fit.model, fit.classes, fit.facts))
    return fit, post, data


@pytest.mark.slow
@pytest.mark.parametrize("door", ["fit", "posterior", "arviz"])
def test_every_door_refuses_what_no_file_may_run(results, door, tmp_path, monkeypatch):
    fit, post, data = results
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (bd.groups.save(post, "r.nc") if door in ("posterior", "arviz") else fit.save("r.nc"))
    whole = read_netcdf(Path("r.nc"))
    for number, expression in enumerate(HARMFUL if door == "fit" else HARMFUL[:4]):
        path = f"{number}.nc"
        for group in whole.values():
            if "formula_encoding" in group.attrs:
                group.attrs |= {"formula_encoding": with_code(expression), "formula": "y ~ harm"}
        write_netcdf(whole, path)
        files = sorted(tmp_path.iterdir())
        with pytest.raises(ValueError, match="cannot encode a table here: "):
            bd.predict(opened(door, path), data[["a", "contr"]])
        assert sorted(tmp_path.iterdir()) == files


def test_the_command_line_runs_nothing(results, command, tmp_path):
    results[2].to_csv(tmp_path / "rows.csv", index=False)
    assert command("fit", "rows.csv", "--target", "y", "--out", "model").exit_code == 0
    whole = read_netcdf(tmp_path / "model" / "fit.nc")
    for expression in HARMFUL[:4]:
        whole["/"].attrs |= {"formula_encoding": with_code(expression), "formula": "y ~ harm"}
        write_netcdf(whole, tmp_path / "model" / "fit.nc")
        result = command("predict", "model", "rows.csv")
        assert (result.exit_code, "cannot encode a table here: " in result.stderr) == (2, True)
        assert not list(tmp_path.rglob("harm"))


def opened(door, path):
    if door == "arviz":
        import arviz as az

        return az.from_netcdf(path)
    return bd.Fit.load(path) if door == "fit" else bd.groups.load(path)


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "text",
    ["", "7", "null", "[]", "{}", nested(100_000), "{" * 10**6, '{"version": 2}', " " * (LIMITS.text + 1),
     "[1," * 10**6, '{"version": 2, "terms": ' + nested(900) + "}", '{"version": 2, "formula": 1e999}', "\0", "\ud800",
     '{"version": NaN}', json.dumps(json.loads(with_code("a")) | {"version": 1})],
)  # fmt: skip
def test_text_that_is_no_formula_or_of_another_version_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match="cannot encode a table here: "):
        StoredFormula("a formula", text).encoder.transform({"a": [1.0]})


def stored(encoding, names=("x",), facts=("a",)):
    """A formula of one term."""
    known = json.loads(with_code("x"))
    factor = ["Factor", "x", encoding]
    number = {"low": 0.0, "high": 1.0, "mean": 0.5, "whole": False}
    known["terms"] = [["Term", "x", list(names), [["Product", [factor]]]]]
    return json.dumps(known | {"columns": dict.fromkeys(facts, number)})


A = ["Column", "a"]


def deep(depth):
    return A if depth == 0 else ["Apply", "exp", [deep(depth - 1)]]


@pytest.mark.parametrize(
    ("limit", "encoding", "names"),
    [
        ("name", ["Apply", "exp", [["Column", "a" * (LIMITS.name + 1)]]], ["x"]),
        ("depth", deep(LIMITS.depth + 1), ["x"]),
        ("degree", ["Polynomial", A, *[[1.0] * (LIMITS.degree + 1)] * 3], [f"x{k}" for k in range(LIMITS.degree + 1)]),
        ("degree", ["BSpline", A, [0.0, 1.0], 10**9, True, "extend"], ["x"]),
        ("knots", ["BSpline", A, [float(k) for k in range(LIMITS.knots + 1)], 0, True, "extend"],
         [f"x{k}" for k in range(LIMITS.knots)]),
        ("levels", ["Hashed", "a", 10**9, ["Coding", [0], []]], ["x"]),
        ("columns", ["Outside", "x", 10**9, []], ["x"]),
    ],
)  # fmt: skip
def test_sizes_are_refused_before_anything_is_made(limit, encoding, names):
    with pytest.raises(ValueError, match=f"for {limit!r}, got "):
        StoredFormula("a formula", stored(encoding, names)).encoder.transform({"a": [1.0]})


def test_work_of_many_products_is_refused_before_it_is_done():
    known = json.loads(stored(A))
    spline = ["BSpline", A, [0.0] * 51 + [1.0] * 51, 50, True, "extend"]
    factor, names = ["Factor", "s", spline], [f"x{j}" for j in range(51**3)]
    known["terms"] = [["Term", "x", names, [["Product", [factor] * 3]]]]
    with pytest.raises(ValueError, match="for 'work', got"):
        StoredFormula("a formula", json.dumps(known)).encoder.transform({"a": [1.0]})
    known["terms"][0][3] = [["Product", [factor] * (LIMITS.factors + 1)]]
    with pytest.raises(ValueError, match="for 'factors', got"):
        StoredFormula("a formula", json.dumps(known)).encoder.transform({"a": [1.0]})
    for change in ({"response": [["Factor", "x", A]] * 21}, {"random": [["1", ["a"], ["u", "v"], None, ""]] * 21}):
        with pytest.raises(ValueError, match="for 'factors', got"):
            StoredFormula("a formula", json.dumps(json.loads(stored(A)) | change)).encoder.transform({"a": [1.0]})
    many = {"random": [["1", ["a"] * 21, ["u", "v"], None, ""]]}
    with pytest.raises(ValueError, match="expected texts in a random term"):
        StoredFormula("a formula", json.dumps(json.loads(stored(A)) | many)).encoder.transform({"a": [1.0]})
    assert Limits() == LIMITS


@pytest.mark.parametrize(
    "encoding",
    [
        ["Apply", "__import__", [A]], ["Apply", "add", [A]], ["Apply", "log", [A, A]], ["Apply", "log", A], ["log", A],
        ["Column", 3], ["Column", ["a"]], ["Number", "9"], ["Number", 10**400], ["Number", None],
        ["Match", "a", "b", 1], ["Polynomial", A, [1.0], [1.0], [0.0]], ["BSpline", A, [1.0, 0.0], 0, True, "extend"],
        ["Coding", [], []],
        ["BSpline", A, [0.0, 1.0], 0, True, "eval"], ["Levels", A, ["u", "u"], ["Coding", [0], []]],
        ["Levels", A, ["u"], ["Coding", [3], []]], ["Levels", A, [[1]], ["Coding", [0], []]], ["Factor", "x", A],
        ["CubicSpline", A, [0.0, 0.0], [[1.0], [1.0]], [[0.0], [0.0]], False, "extend"], ["Apply", "exp", [["Factor"]]],
        ["Levels", ["Levels", A, ["u"], ["Coding", [0], []]], ["u"], ["Coding", [0], []]],
    ],
)  # fmt: skip
def test_nodes_that_are_none_are_refused(encoding):
    with pytest.raises(ValueError, match="cannot encode a table here: "):
        StoredFormula("a formula", stored(encoding)).encoder.transform({"a": [1.0]})


def test_a_text_or_an_object_in_the_place_of_a_number_is_refused():
    """Arithmetic is on doubles and truth values: no text is repeated, no whole number grows, nothing is called."""

    class Trap:
        def __getattr__(self, name):
            raise AssertionError(name)

        def __mul__(self, other):
            raise AssertionError("called")

    power = ["Apply", "power", [A, ["Apply", "power", [A, A]]]]
    grown = StoredFormula("f", stored(["Apply", "minimum", [power, ["Number", 7.0]]]))
    assert grown.encoder.transform({"a": [10**9]}).tolist() == [[7.0]]
    for values in (["a", "b"], [Trap(), Trap()], [[1], [2]], [b"a", b"b"], [1j, 2j]):
        with pytest.raises(ValueError, match="column 'a'"):
            grown.encoder.transform(pd.DataFrame({"a": pd.Series(values, dtype=object)}))
