"""What cannot be printed costs no result; what is written harms no spreadsheet; errors are one plain line."""

import csv
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

FILES = {"fit.nc", "weights.csv", "weights.png", "rates.png"}


@pytest.fixture
def table(shop, tmp_path):
    shop.to_csv(tmp_path / "shop.csv", index=False)
    return tmp_path / "shop.csv"


def run(folder, shell, **environment):
    """Run a line of shell in which BD is the command."""
    line = shell.replace("BD", f"{sys.executable} -m bayesdrop.cli")
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=folder, capture_output=True, text=True, errors="replace",
        check=False, env=os.environ | environment,
    )  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "said"),
    [("| true", ""), ("> /dev/full", "cannot be printed: "), (">&-", ""), (">&- 2>&-", ""), ("&> /dev/full", "")],
    ids=["cut", "full", "output closed", "closed", "both full"],
)
def test_a_report_that_cannot_be_printed_costs_no_result(table, tmp_path, end, said):
    """Before, the files were removed again."""
    done = run(tmp_path, f"BD fit shop.csv --target bought {end}")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "bayesdrop-output").iterdir()} == FILES
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == bool(said)
    if end == "> /dev/full":  # a process takes seconds; predictions are reported in the same way
        return
    done = run(tmp_path, f"BD predict bayesdrop-output shop.csv {end}")
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == 120


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_that_knows_few_letters(shop, tmp_path, encoding):
    shop.rename(columns={"age": "âge ≥ 1 – 五"}).to_csv(tmp_path / "shop.csv", index=False)
    done = run(tmp_path, "BD fit shop.csv --target bought", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert "Written to bayesdrop-output." in done.stdout
    assert {path.name for path in (tmp_path / "bayesdrop-output").iterdir()} == FILES


@pytest.mark.slow
def test_an_interruption_while_it_prints_costs_no_result(command, table, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bayesdrop.cli.tables.show", interrupted)
    result = command("fit", table, "--target", "bought")
    assert result.exit_code == 130
    assert result.stderr == "bayesdrop fit: interrupted; the results are in bayesdrop-output.\n"
    assert {path.name for path in (tmp_path / "bayesdrop-output").iterdir()} == FILES


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")
@pytest.mark.parametrize(
    ("options", "pictures"),
    [
        (["--formula", "bought ~ age", "--chains", 1], {"weights.png"}),
        (["--formula", "bought ~ age", "--draws", 8], {"weights.png"}),
        (["--formula", "bought ~ 1"], {"weights.png", "ranks.png"}),
    ],
    ids=["one chain", "few draws", "no features"],
)
def test_a_posterior_is_written_without_the_pictures_that_it_does_not_allow(
    command, table, tmp_path, options, pictures
):
    """Before, the draws were discarded when the last picture was refused."""
    short = ["--draws", 30, "--tune", 20, "--chains", 2, "--rates", 0]
    result = command("fit", table, "--sample", *short, *options)
    assert result.exit_code == 0, result.stderr
    assert {path.name for path in (tmp_path / "bayesdrop-output").iterdir()} == pictures | {
        "posterior.nc", "weights.csv"
    }  # fmt: skip
    said = "ranks.png is left out: ranks: expected at least two chains of 20 draws" in result.stderr
    assert said == ("ranks.png" not in pictures)


@pytest.mark.parametrize(
    ("function", "absent"),
    [
        ("bayesdrop.plots.rates_forest", {"rates.png"}),
        ("bayesdrop.effects.table.weights_table", {"weights.csv", "weights.png"}),
    ],
)
def test_a_table_or_picture_that_fails_costs_no_result(command, table, tmp_path, monkeypatch, function, absent):
    def broken(*_, **__):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(function, broken)
    result = command("fit", table, "--target", "bought")
    assert result.exit_code == 0
    assert f"Note: {min(absent)} is left out: division by zero" in result.stderr
    assert {path.name for path in (tmp_path / "bayesdrop-output").iterdir()} == FILES - absent


@pytest.mark.slow
def test_a_report_that_fails_says_where_the_results_are(command, table, monkeypatch):
    def broken(*_, **__):
        raise ValueError("no such column")

    monkeypatch.setattr("bayesdrop.cli.tables.show", broken)
    result = command("fit", table, "--target", "bought")
    assert (result.exit_code, result.stderr) == (
        2, "bayesdrop fit: no such column (the results are in bayesdrop-output)\n"
    )  # fmt: skip


FORMULAS = ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0"]


def cells(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [cell for row in csv.reader(file) for cell in row]


def is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_no_cell_is_a_formula(command, tmp_path):
    """Names of columns, levels, labels and rows that a spreadsheet would run; numbers below zero stay numbers."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, len(FORMULAS))), columns=FORMULAS)
    frame["-who"] = [f"={row}+1" for row in range(60)]
    frame["@level"] = rng.choice(FORMULAS[:4], 60)
    frame["+target"] = rng.choice(FORMULAS[:2], 60)
    frame.to_parquet(tmp_path / "table.parquet")
    result = command("fit", "table.parquet", "--target", "+target", "--drop", "-who", "--out", "out")
    assert result.exit_code == 0, result.stderr
    result = command("predict", "out", "table.parquet", "--keep", "-who")
    assert result.exit_code == 0, result.stderr
    for path in ("out/weights.csv", "predictions.csv"):
        written = cells(tmp_path / path)
        assert not [cell for cell in written if cell[:1] in tuple("=+-@\t\r\n") and cell and not is_number(cell)]
        assert any(cell.startswith("'=") for cell in written)
    assert any(cell.startswith("-") for cell in cells(tmp_path / "out" / "weights.csv"))


def test_errors_move_no_cursor(command, tmp_path):
    pd.DataFrame({"\x1b[2Jname": [1.0, 2.0], "y": [0, 1]}).to_csv(tmp_path / "table.csv", index=False)
    result = command("fit", "table.csv", "--target", "absent")
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr
    assert "[2Jname" in result.stderr


def test_what_the_library_refuses_is_one_line(command, table, tmp_path, monkeypatch):
    def refusing(*_, **__):
        raise ValueError("X: expected something else, got\nthis; do that.")

    monkeypatch.setattr("bayesdrop.fitting.fit.fit", refusing)
    result = command("fit", table, "--target", "bought")
    assert (result.exit_code, result.stderr) == (2, "bayesdrop fit: X: expected something else, got this; do that.\n")
    assert {path.name for path in tmp_path.iterdir()} == {"shop.csv"}


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
from bayesdrop.cli.app import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of file sizes here")
@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 3000, 20_000])
def test_a_full_disk_is_one_line_and_leaves_nothing(table, tmp_path, most):
    """The first file, or a later one."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(most), "fit", "shop.csv", "--target", "bought"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ | {"MPLCONFIGDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("bayesdrop fit: ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "bayesdrop-output").exists()
