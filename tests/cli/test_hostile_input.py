"""Names that are markup, formulas or commands to a terminal; a sample too short to judge; files whose headers lie."""

import html
import io

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.cli import report
from bayesdrop.plots.style import literal

NAMES = ["<b>loud</b>", "[/red]", "[/]", "[red]loud[/red]", "$_$", "a$b", ":smile:", "\x1b[31mescape", "_hidden"]
NAMES += ["x^2_{3}"]


def test_names_are_printed_and_drawn_letter_by_letter(command, tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, len(NAMES)))
    frame = pd.DataFrame(X, columns=NAMES)
    frame["[/bold]"] = np.where(X[:, 0] > 0, "$_$", "[/]")
    frame.to_csv(tmp_path / "hostile.csv", index=False)
    result = command("fit", "hostile.csv", "--target", "[/bold]", "--rates", "feature", "--report", "--out", "out")
    assert result.exit_code == 0, result.stderr
    for name in NAMES:
        assert report.plain(name) in result.stdout, name
    assert "positive weights support [/]" in result.stdout or "positive weights support $_$" in result.stdout
    assert "\x1b" not in result.stdout  # neither a colour of rich nor one of the table
    assert pd.read_csv(tmp_path / "out" / "rates.csv")["feature"].tolist() == NAMES
    assert (tmp_path / "out" / "rates.png").stat().st_size > 1000
    page = (tmp_path / "out" / "report.html").read_text()
    for name in NAMES:
        assert html.escape(report.plain(name)) in page, name
    assert "<b>" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize(
    "text", ["$_$", "$$", r"\$", r"a\$b$c", "$x$ and $y$", "_a", "tab\there", "x_{", "half \ud800"]
)
def test_labels_are_no_formulas(text):
    """What matplotlib makes of the label is the text itself, marks for what cannot be drawn aside."""
    import matplotlib.pyplot as plt
    from matplotlib.cbook import is_math_text

    label = literal(text)
    assert not is_math_text(label)
    ax = plt.figure().subplots()
    ax.plot([0, 1], label=label)
    assert ax.get_legend_handles_labels()[1] == [label]
    ax.set_title(label)
    ax.legend()
    ax.figure.canvas.draw()
    plt.close("all")


def test_two_dollars_beside_a_formula_of_our_own():
    """The rank plot sets its R-hat as a formula below the name."""
    import matplotlib.pyplot as plt

    draws = np.random.default_rng(0).random((2, 20, 2))
    names = ["$_$", "cost in $"]
    post = xr.Dataset({"rate": (("chain", "draw", "feature"), draws)}, coords={"feature": names})
    bd.plots.ranks(post, bins=5)[0].figure.canvas.draw()
    plt.close("all")


def _posterior(names, chains, draws):
    values = np.random.default_rng(0).random((chains, draws, len(names)))
    steps = {"chain": np.arange(chains), "draw": np.arange(draws)}
    data = xr.Dataset(
        {"rate": (("chain", "draw", "feature"), values), "weight": (("chain", "draw", "feature"), values)},
        coords={**steps, "feature": names},
    )
    return bd.groups.assemble({"posterior": data})


@pytest.mark.parametrize(("chains", "draws"), [(1, 1), (4, 1), (1, 3), (2, 3)])
def test_a_sample_too_short_to_judge(chains, draws):
    """Before, it said that the largest R-hat was nan."""
    from rich.console import Console

    X = np.random.default_rng(1).normal(size=(40, 3))
    fit = bd.fit(bd.Model(), X, X[:, 0] > 0, feature_names=["[/]", "b", "c"])
    post = _posterior(fit.feature_names, chains, draws)
    screen = Console(file=io.StringIO(), width=100, emoji=False)
    report.print_rates(screen, fit, post)
    report.print_sample(screen, fit, post, draws, "Raise --draws and --tune.")
    said = " ".join(screen.file.getvalue().split())
    assert "nan" not in said
    assert "[/]" in said
    assert "are too few for any diagnostic" in said
    assert "Raise --draws and --tune." in said


def test_labels_whose_header_lies(command, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(8, 2)))
    with (tmp_path / "y.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
        np.lib.format.write_array_header_1_0(file, header)
    result = command("fit", "x.npy", "--labels", "y.npy")
    assert result.exit_code == 2
    assert (
        "--labels: y.npy cannot be read as .npy: the file ends early: its header declares 8,000,000,000,000 bytes"
        in result.stderr
    )


def test_features_whose_header_lies(command, tmp_path):
    np.save(tmp_path / "y.npy", np.arange(8) % 2)
    with (tmp_path / "x.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (8, 10**11)}
        np.lib.format.write_array_header_1_0(file, header)
    for options in ((), ("--memory", "4GB")):
        result = command("fit", "x.npy", "--labels", "y.npy", *options)
        assert result.exit_code == 2
        assert "its header declares 6,400,000,000,000 bytes" in result.stderr
