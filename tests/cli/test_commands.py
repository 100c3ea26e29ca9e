"""``fit`` and ``predict``: results of the library, files that load again, one line after an error, all or nothing."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd
from bayesdrop.cli.output import staged

FILES = {"fit.nc", "weights.csv", "weights.png", "rates.png"}
BY_TARGET = ["--target", "bought"]
CHAIN = ["--sample", "--draws", 30, "--tune", 20, "--chains", 2, "--seed", 3]
RELATIVE = {"weight_prior": bd.Normal(relative=True, of_response=True)}


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def table(shop, tmp_path):
    shop.to_csv(tmp_path / "shop.csv", index=False)
    return "shop.csv"


CASES = {
    "classes": (["--formula", "bought ~ age + C(visits)"], bd.Model(**RELATIVE), "bought ~ age + C(visits)"),
    "all columns": (BY_TARGET, bd.Model(**RELATIVE), "bought ~ ."),
    "number": (["--target", "age"], bd.Model(bd.Squared(), rates=bd.Fixed(0.0), **RELATIVE), "age ~ ."),
    "many classes": (["--target", "color"], bd.Model(bd.Softmax(), **RELATIVE), "color ~ ."),
    "options": (
        [*BY_TARGET, "--loss", "hinge", "--C", "0.2", "--rates", "group"],
        bd.Model(bd.Hinge(), rates=bd.PerGroup(), C=0.2, **RELATIVE), "bought ~ .",
    ),
    "fixed rate": ([*BY_TARGET, "--rates", "0.3"], bd.Model(rates=bd.Fixed(0.3), **RELATIVE), "bought ~ ."),
    "one rate": ([*BY_TARGET, "--rates", "shared"], bd.Model(rates=bd.Shared(), **RELATIVE), "bought ~ ."),
    "tuned": ([*BY_TARGET, "--rates", "tuned"], bd.Model(rates=bd.Tuned(), **RELATIVE), "bought ~ ."),
    "counts": (
        ["--formula", "visits ~ age", "--loss", "poisson"],
        bd.Model(bd.Poisson(), rates=bd.Fixed(0.0), **RELATIVE), "visits ~ age",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_fit_and_predict_are_those_of_the_library(command, table, tmp_path, case):
    options, model, formula = CASES[case]
    result = command("fit", table, *options, "--out", "result")
    assert result.exit_code == 0, result.stderr
    frame = pd.read_csv(tmp_path / table)
    expected, written = bd.fit(model, formula, frame), bd.Fit.load(tmp_path / "result" / "fit.nc")
    np.testing.assert_array_equal(written.weight, expected.weight)
    np.testing.assert_array_equal(written.rates, expected.rates)
    assert names(tmp_path / "result") == FILES - (set() if expected.rate_posterior else {"rates.png"})
    weights = pd.read_csv(tmp_path / "result" / "weights.csv")
    np.testing.assert_allclose(weights["weight"], bd.weights_table(expected)["weight"])
    for name in names(tmp_path / "result"):
        if name.endswith(".png"):
            assert (tmp_path / "result" / name).read_bytes().startswith(b"\x89PNG")
    # Columns by name, in any order and among others.
    frame[frame.columns[::-1]].assign(other=1.0).to_parquet(tmp_path / "new.parquet")
    result = command("predict", "result", "new.parquet", "--keep", "age", "--out", "p.parquet")
    assert result.exit_code == 0, result.stderr
    predicted = pd.read_parquet(tmp_path / "p.parquet")
    first, prediction = predicted.columns[2], expected.predict(frame)
    assert predicted.columns[:2].tolist() == ["row", "age"]
    assert first == {"many classes": "blue", "number": "mean", "counts": "mean"}.get(case, "probability_yes")
    np.testing.assert_allclose(
        predicted[first], prediction.mean if prediction.mean.ndim == 1 else prediction.mean[:, 0]
    )


@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")
@pytest.mark.parametrize("case", ["number", pytest.param("classes", marks=pytest.mark.slow)])
def test_a_posterior_is_that_of_the_library(command, table, tmp_path, case):
    options, model, formula = CASES[case]
    frame = pd.read_csv(tmp_path / table)
    result = command("fit", table, *options, *CHAIN, "--out", "result")
    assert result.exit_code == 0, result.stderr
    assert "largest R-hat" in result.stdout
    assert "MixingWarning" not in result.stderr
    assert "…" not in result.stdout  # no cell of the table is cut
    assert names(tmp_path / "result") == {"posterior.nc", "weights.csv", "weights.png", "ranks.png"} | (
        {"rates.png"} if case == "classes" else set()
    )
    expected = bd.sample(model, formula, frame, draws=30, tune=20, chains=2, seed=3, progress=False)
    written = bd.groups.load(tmp_path / "result" / "posterior.nc")
    np.testing.assert_array_equal(*(bd.groups.dataset(post, "posterior")["weight"] for post in (written, expected)))
    assert command("predict", "result", table).exit_code == 0
    predicted = pd.read_csv(tmp_path / "predictions.csv")
    name = "mean" if case == "number" else "probability_yes"
    np.testing.assert_allclose(predicted[name], bd.predict(expected, frame).mean)
    assert (predicted["low"] < predicted[name]).all()


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--missing"], ["--dropna"]])
def test_missing_values(command, shop, tmp_path, options):
    shop["age"] = shop["age"].where(shop.index % 7 > 0)
    shop["color"] = shop["color"].where(shop.index % 5 > 0, "unknown")
    shop.to_csv(tmp_path / "shop.csv", index=False)
    refused = command("fit", "shop.csv", *BY_TARGET, "--na-values", "unknown")
    assert refused.exit_code == 2
    assert "missing values in 'age' (18 of 120 rows), 'color' (24 of 120 rows)" in refused.stderr
    assert "--dropna, or --missing" in refused.stderr
    result = command("fit", "shop.csv", *BY_TARGET, "--na-values", "unknown", *options)
    assert result.exit_code == 0, result.stderr
    frame = pd.read_csv(tmp_path / "shop.csv", na_values="unknown")
    model = bd.Model(missing="nan" if options == ["--missing"] else None, **RELATIVE)
    expected = bd.fit(model, "bought ~ .", frame, dropna=options == ["--dropna"])
    written = bd.Fit.load(tmp_path / "bayesdrop-output" / "fit.nc")
    np.testing.assert_array_equal(written.weight, expected.weight)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_are_copied_letter_by_letter(command, shop, tmp_path, suffix):
    texts = ["000", "-1.50", "NA", "", "1,5", "1e5", " a ", "True", "=1+1", "99999999999999999999"]
    shop = shop[:10].assign(number=np.arange(10) - 0.5)
    shop["id"], shop["id.1"] = texts, texts[::-1]
    shop.rename(columns={"id.1": "id"}).to_csv(tmp_path / "shop.csv", index=False)
    assert command("fit", "shop.csv", "--formula", "number ~ age", "--rates", 0).exit_code == 0
    kept = ["--keep", "id", "--keep", "number", "--keep", "id.1"]
    result = command("predict", "bayesdrop-output", "shop.csv", *kept, "--na-values", "1e5", "--out", f"p.{suffix}")
    assert result.exit_code == 0, result.stderr
    path = tmp_path / f"p.{suffix}"
    written = pd.read_csv(path, dtype=str, na_filter=False) if suffix == "csv" else pd.read_parquet(path)
    texts = [text.replace("=", "'=") for text in texts] if suffix == "csv" else texts
    assert written["id"].tolist() == texts
    assert written["id.1"].tolist() == texts[::-1]
    assert written["number"].tolist() == [f"{k - 0.5}" for k in range(10)]
    assert written.columns[:4].tolist() == ["row", "id", "number", "id.1"]


def test_classes_called_row_and_label(command, shop, tmp_path):
    shop["color"] = shop["color"].replace({"red": "row", "blue": "label"})
    shop.to_csv(tmp_path / "shop.csv", index=False)
    assert command("fit", "shop.csv", "--formula", "color ~ age", "--rates", 0).exit_code == 0
    assert command("predict", "bayesdrop-output", "shop.csv", "--out", "p.parquet").exit_code == 0
    assert pd.read_parquet(tmp_path / "p.parquet").columns.tolist() == ["row_", "green", "label", "row", "label_"]


@pytest.mark.slow
def test_levels_that_are_new(command, shop, table, tmp_path):
    shop[:9].assign(color="mauve").to_csv(tmp_path / "new.csv", index=False)
    assert command("fit", table, *BY_TARGET).exit_code == 0
    refused = command("predict", "bayesdrop-output", "new.csv")
    assert refused.exit_code == 2
    assert "mauve" in refused.stderr
    assert not (tmp_path / "predictions.csv").exists()
    assert command("fit", table, *BY_TARGET, "--unseen", "population").exit_code == 0
    assert command("predict", "bayesdrop-output", "new.csv").exit_code == 0


WAYS = {
    "german": (
        "csv", {"sep": ";", "decimal": ",", "encoding": "cp1252"},
        ["--sep", ";", "--decimal", ",", "--encoding", "cp1252"],
    ),
    "tabs": ("tsv", {"sep": "\t"}, []),
    "packed": ("csv.gz", {}, []),
    "bars": ("csv", {"sep": "|", "encoding": "utf-16"}, ["--sep", "|", "--encoding", "utf-16"]),
    "parquet": ("parquet", None, []),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_tables_as_pandas_writes_them(command, shop, tmp_path, way):
    suffix, options, given = WAYS[way]
    shop = shop.rename(columns={"age": "Größe in cm"})
    path = tmp_path / f"table.{suffix}"
    shop.to_parquet(path) if options is None else shop.to_csv(path, index=False, **options)
    result = command("fit", path.name, *BY_TARGET, *given)
    assert result.exit_code == 0, result.stderr
    written = bd.Fit.load(tmp_path / "bayesdrop-output" / "fit.nc")
    np.testing.assert_allclose(written.weight, bd.fit(bd.Model(**RELATIVE), "bought ~ .", shop).weight)
    assert command("predict", "bayesdrop-output", path.name, *given).exit_code == 0


@pytest.mark.slow
def test_thousands(command, shop, tmp_path):
    text = shop.assign(age=[f"{1000 * age:,.0f}" for age in shop["age"]])
    text.to_csv(tmp_path / "table.csv", index=False)
    result = command("fit", "table.csv", "--target", "bought", "--thousands", ",")
    assert result.exit_code == 0, result.stderr
    weights = pd.read_csv(tmp_path / "bayesdrop-output" / "weights.csv", index_col="feature")
    assert "age" in weights.index


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.csv", *BY_TARGET], "TABLE: absent.csv does not exist"),
        (["shop.txt", *BY_TARGET], "TABLE: expected a .csv or .tsv file, or .parquet"),
        (["long.csv", *BY_TARGET], "TABLE: long.csv cannot be read: "),
        (["broken.parquet", *BY_TARGET], "TABLE: broken.parquet cannot be read: "),
        (["header.csv", *BY_TARGET], "data: expected at least one row"),
        (["shop.csv"], "expected either --formula"),
        (["shop.csv", *BY_TARGET, "--formula", "bought ~ age"], "expected either --formula"),
        (["shop.csv", "--target", "boght"], "--target: no column 'boght'; did you mean 'bought'?"),
        (["shop.csv", *BY_TARGET, "--drop", "nothing"], "--drop: no column 'nothing'"),
        (["shop.csv", "--formula", "bought ~ agee"], "no column 'agee'; did you mean 'age'?"),
        (["shop.csv", "--formula", "bought ~ age.abs()"], "'age.abs()' is Python code, which no file holds"),
        (["shop.csv", "--target", "color", "--loss", "Hinge"], "y: expected two classes, got 3"),
        (["shop.csv", *BY_TARGET, "--rates", "some"], "--rates: expected tuned, feature, group"),
        (["shop.csv", *BY_TARGET, "--sample", "--seed", 2**32], "seed: expected"),
        (["shop.csv", *BY_TARGET, "--draws", 1000], "--draws: expected with --sample alone, got a point fit; add --s"),
        (["shop.csv", *BY_TARGET, "--tune", 5], "--tune: expected with --sample alone"),
        (["shop.csv", *BY_TARGET, "--chains", 2], "--chains: expected with --sample alone"),
        (["shop.csv", *BY_TARGET, "--seed", 0], "--seed: expected with --sample alone"),
        (["shop.csv", *BY_TARGET, "--checkpoint", "parts"], "--checkpoint: expected with --sample alone"),
        (["shop.csv", *BY_TARGET, "--sample", "--checkpoint", "shop.csv"], "checkpoint: shop.csv is a file"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(command, shop, table, tmp_path, arguments, message):
    (tmp_path / "shop.txt").write_text("a\n1\n")
    (tmp_path / "long.csv").write_text("a,bought\n1,yes,3\n2,no,4\n")
    (tmp_path / "header.csv").write_text("a,bought\n")
    shop.to_parquet(tmp_path / "broken.parquet")
    (tmp_path / "broken.parquet").write_bytes((tmp_path / "broken.parquet").read_bytes()[:-20])
    before = names(tmp_path)
    result = command("fit", *arguments, "--out", "new/folder")
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert result.stderr.startswith("bayesdrop fit: ")
    assert len(result.stderr.splitlines()) == 1
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "shop.csv"], "FIT: expected a file nowhere that bayesdrop fit wrote, and there is none"),
        (["empty", "shop.csv"], "FIT: expected a file empty/fit.nc or empty/posterior.nc"),
        (["shop.csv", "shop.csv"], "FIT: shop.csv was not written by bayesdrop fit"),
        (["bayesdrop-output", "absent.csv"], "TABLE: absent.csv does not exist"),
        (["bayesdrop-output", "few.csv"], "no column 'age'"),
        (["bayesdrop-output", "shop.csv", "--keep", "name"], "--keep: no column 'name'"),
        (
            ["bayesdrop-output", "shop.csv", "--keep", "label"],
            "--keep: expected columns whose names the predictions do",
        ),
        (
            ["bayesdrop-output", "shop.csv", "--keep", "row"],
            "not have, each once, got 'row'; the predictions have row,",
        ),
        (["bayesdrop-output", "shop.csv", "--keep", "age", "--keep", "age"], "each once, got 'age'"),
        (["bayesdrop-output", "shop.csv", "--out", "p.txt"], "--out: expected a .csv or .parquet file, got 'p.txt'"),
        (["bayesdrop-output", "shop.csv", "--out", "no/p.csv"], "the folder 'no' does not exist"),
    ],
)
def test_bad_rows_are_one_line_and_write_nothing(command, table, shop, tmp_path, arguments, message):
    shop.assign(label="as observed", row=1).to_csv(tmp_path / table, index=False)
    assert command("fit", table, "--formula", "bought ~ age + color", "--rates", "0.1").exit_code == 0
    (tmp_path / "few.csv").write_text("color\nred\n")
    (tmp_path / "empty").mkdir()
    before = names(tmp_path)
    result = command("predict", *arguments)
    said = result.stderr.replace(str(tmp_path) + "/", "")
    assert (result.exit_code, message in said) == (
        2 if "--out" not in arguments or "p.txt" in arguments else 1,
        True,
    ), said
    assert len(result.stderr.splitlines()) == 1
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    "arguments", [[], ["shop.csv", "--loss", "cubic"], ["shop.csv", "--chains", "0"], ["shop.csv", "--C", "much"]]
)
def test_wrong_usage(command, table, tmp_path, arguments):
    result = command("fit", *arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert names(tmp_path) == {"shop.csv"}


def test_a_folder_with_a_fit_and_a_posterior_is_ambiguous(command, table, tmp_path):
    command("fit", table, *BY_TARGET, "--rates", "0.1")
    (tmp_path / "bayesdrop-output" / "posterior.nc").write_bytes(b"")
    result = command("predict", "bayesdrop-output", table)
    assert (result.exit_code, "both are there; name one" in result.stderr) == (2, True)
    assert command("predict", "bayesdrop-output/fit.nc", table).exit_code == 0


@pytest.mark.slow
def test_files_of_an_earlier_run_are_named(command, table):
    command("fit", table, *BY_TARGET)
    result = command("fit", table, *BY_TARGET, "--rates", "0.1")
    assert result.stderr == "Note: left in bayesdrop-output from an earlier run: rates.png\n"


def test_output_that_cannot_be_written_is_found_before_the_work(command, table, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("worked before the folder was checked")

    monkeypatch.setattr("bayesdrop.fitting.fit.fit", never)
    for out in ("shop.csv", "shop.csv/below"):
        for arguments in (["fit", table, *BY_TARGET], ["demo"]):
            result = command(*arguments, "--out", out)
            assert result.exit_code == 2
            assert f"--out: cannot write to {out}" in result.stderr
    (tmp_path / "out" / "weights.csv").mkdir(parents=True)
    result = command("fit", table, *BY_TARGET, "--out", "out")
    assert result.exit_code == 2
    assert "--out: expected a file or nothing at out/weights.csv, got a folder; rename it" in result.stderr
    assert names(tmp_path / "out") == {"weights.csv"}
    assert names(tmp_path) == {"shop.csv", "out"}


def test_no_file_is_replaced_where_one_cannot_be(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "b.txt").mkdir()

    def write():
        with staged(tmp_path) as stage:
            for name in ("a.txt", "b.txt"):
                (stage / name).write_text("new")

    with pytest.raises(ValueError, match=r"at .*b\.txt, got a folder"):
        write()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == {"a.txt", "b.txt"}


@pytest.mark.slow
@pytest.mark.parametrize(("error", "code"), [(OSError(28, "No space left on device"), 1), (KeyboardInterrupt(), 130)])
def test_failure_late_leaves_earlier_results_as_they_were(command, table, tmp_path, monkeypatch, error, code):
    command("fit", table, *BY_TARGET)
    before = {path.name: path.read_bytes() for path in (tmp_path / "bayesdrop-output").iterdir()}

    def broken(*_, **__):
        raise error

    monkeypatch.setattr("bayesdrop.plots.rates_forest", broken)
    result = command("fit", table, *BY_TARGET, "--C", "0.01")
    assert result.exit_code == code
    assert "Traceback" not in result.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "bayesdrop-output").iterdir()} == before
    command("fit", table, *BY_TARGET, "--out", "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_note_of_the_library_is_one_line(command, table, monkeypatch):
    from bayesdrop.fitting.fit import fit

    def warned(*arguments, **options):
        warnings.warn("the\nfit is odd; take dropna=True", UserWarning, stacklevel=1)
        return fit(*arguments, **options)

    monkeypatch.setattr("bayesdrop.fitting.fit.fit", warned)
    result = command("fit", table, *BY_TARGET)
    assert result.exit_code == 0
    assert result.stderr == "Note: the fit is odd; take --dropna\n"


@pytest.mark.slow
def test_demo(command, tmp_path):
    result = command("demo", "--quick", "--out", "here")
    assert result.exit_code == 0
    printed = " ".join(result.stdout.split())
    for phrase in ("Three acts, half a minute", "ridge, tuned", "pixels missing", "In three sentences"):
        assert phrase in printed
    # No act on data where nothing is gained.
    assert printed.count("Gained: ") == 3
    assert "Gained: nothing" not in printed
    assert names(tmp_path / "here") == FILES - {"fit.nc"} | {"posterior.nc", "ranks.png", "demo.png"}
    post = bd.groups.dataset(bd.groups.load(tmp_path / "here" / "posterior.nc"), "posterior")
    assert post["feature"].size == 16


def test_help_and_version(command):
    assert command("--version").stdout.strip() == bd.__version__
    for arguments in (["--help"], ["fit", "--help"], ["predict", "--help"], ["demo", "--help"]):
        result = command(*arguments)
        assert result.exit_code == 0
        assert "<" not in result.stdout.replace("<path>", "")


@pytest.mark.parametrize("absent", [["typer"], ["pandas", "matplotlib", "formulaic"]])
def test_missing_extra_gives_advice(absent):
    program = (
        f"import sys\nfor name in {absent!r}: sys.modules[name] = None\nfrom bayesdrop.cli.app import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f'bayesdrop: the command line needs {", ".join(absent)}: pip install "bayesdrop[cli]"\n'


def test_runs_as_a_module():
    command = [sys.executable, "-W", "error", "-m", "bayesdrop.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == bd.__version__
