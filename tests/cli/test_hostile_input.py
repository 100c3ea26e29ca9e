"""Names that are markup, formulas, code or commands to a terminal."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.cli.output import plain
from bayesdrop.plots.style import literal

NAMES = ["<b>loud</b>", "[/red]", "[/]", "[red]loud[/red]", "$_$", "a$b", ":smile:", "\x1b[31mescape", "_hidden"]
NAMES += ["x^2_{3}"]


CODE = "__import__('pathlib').Path('harm').touch()"
# Names that would be code if they were put into the text of a formula.
NAMES += [f"I({CODE})", f"` + I({CODE}) + `", f"{{{CODE}}}", "C(0)", "1 | a", "offset(a)", "."]


def test_names_are_printed_and_drawn_letter_by_letter_and_never_run(command, tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, len(NAMES)))
    frame = pd.DataFrame(X, columns=NAMES)
    frame["[/bold]"] = np.where(X[:, 0] > 0, "$_$", "[/]")
    frame.to_csv(tmp_path / "hostile.csv", index=False)
    result = command("fit", "hostile.csv", "--target", "[/bold]", "--out", "out")
    assert result.exit_code == 0, result.stderr
    for name in NAMES:
        assert plain(name)[:20] in result.stdout, name
    assert "\x1b" not in result.stdout  # neither a colour of rich nor one of the table
    assert pd.read_csv(tmp_path / "out" / "weights.csv")["feature"].tolist() == NAMES
    assert (tmp_path / "out" / "rates.png").stat().st_size > 1000
    assert command("predict", "out", "hostile.csv").exit_code == 0
    assert not list(tmp_path.rglob("harm"))


def test_a_target_that_would_end_its_quotes_is_refused(command, tmp_path):
    name = f"y` ~ I({CODE}) + `y"
    pd.DataFrame({name: [0, 1, 1], "y": [0, 1, 0]}).to_csv(tmp_path / "hostile.csv", index=False)
    result = command("fit", "hostile.csv", "--target", name)
    assert (result.exit_code, "--target: expected a name without backticks" in result.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["hostile.csv"]


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
