"""Write the results of a command: all files or none, and text that any terminal can show."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._atomic_files import replace_file
from .._progress import is_terminal, say, uninterrupted

__all__ = ["complain", "console", "in_options", "plain", "show", "staged", "tell", "write_results", "write_table"]

# Letters beyond ASCII in printed results, for terminals that show ASCII alone.
_ASCII = str.maketrans({"–": "-", "−": "-", "…": "...", "±": "+-", "≥": ">=", "≤": "<=", "×": "x"})
# First characters of a cell that a spreadsheet runs as a formula, unless it is a number.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
_NUMBER = re.compile(r"[+-][0-9.,]*[0-9](?:[eE][+-]?[0-9]+)?")
_NAMES = {"fit.nc", "posterior.nc", "weights.csv", "weights.png", "rates.png", "ranks.png", "demo.png"}


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give a hidden folder to write to, whose files move to ``folder`` at the end.

    After an error or a signal nothing is left, not even ``folder`` if it is new.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp()) / "result"
    >>> with staged(folder) as stage:
    ...     _ = (stage / "a.txt").write_text("done")
    >>> [path.name for path in folder.iterdir()]
    ['a.txt']
    """
    stage, created = None, [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        try:
            with uninterrupted():
                folder.mkdir(parents=True, exist_ok=True)
                stage = Path(tempfile.mkdtemp(prefix=".bayesdrop-", dir=folder))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ValueError(
                f"--out: cannot write to {folder}: {reason}; name a folder that you may write to."
            ) from None
        _refuse_folders(folder, _NAMES)
        yield stage
        files = sorted(stage.iterdir())
        _refuse_folders(folder, {path.name for path in files})
        for path in files:
            with open(path, "r+b") as file:
                os.fsync(file.fileno())
        with uninterrupted():
            for path in files:
                replace_file(path, folder / path.name)
            created = []
        written = {path.name for path in files}
        if old := sorted(path.name for path in folder.iterdir() if path.name in _NAMES - written):
            complain(f"Note: left in {folder} from an earlier run: {', '.join(old)}")
    finally:
        with uninterrupted():
            if stage is not None:
                shutil.rmtree(stage, ignore_errors=True)
            for path in created:
                if path.is_dir() and not any(path.iterdir()):
                    path.rmdir()


def _refuse_folders(folder: Path, names: set[str]) -> None:
    """Raise ValueError if a folder has the name of a file that is to be written: nothing could take its place."""
    for name in sorted(names):
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            raise ValueError(
                f"--out: expected a file or nothing at {folder / name}, got a folder; rename it, or name another --out."
            )


def write_results(stage: Path, result: Any, fit: Any = None) -> Any:
    """Write a fit or a posterior with its table of weights and its pictures, and return the table.

    ``fit`` is a point fit of the same rows, whose rates are drawn with those of a posterior. A table or a picture
    that cannot be made is left out with a note; the table is then None.
    """
    from .. import plots
    from ..effects.table import weights_table
    from ..fitting.results.result import Fit
    from ..posterior.arviz_groups.groups import dataset, save

    post, fit = (None, result) if isinstance(result, Fit) else (result, fit)
    if post is None:
        fit.save(stage / "fit.nc")
        has_rates, sampled = fit.rate_posterior is not None, None
    else:
        save(post, stage / "posterior.nc")
        draws = dataset(post, "posterior")
        has_rates = "rate" in draws
        sampled = next((name for name in ("rate", "weight") if name in draws and draws[name].size), "intercept")
    table = None
    with _left_out_if_it_fails(stage / "weights.csv"):
        table = weights_table(result)
        write_table(table.reset_index(), stage / "weights.csv")
    if table is not None:
        _draw(stage / "weights.png", lambda: plots.weights_forest(table))
    if has_rates:
        _draw(stage / "rates.png", lambda: plots.rates_forest(post, fit))
    if sampled:
        _draw(stage / "ranks.png", lambda: plots.ranks(post, sampled).flat[0])
    return table


@contextmanager
def _left_out_if_it_fails(path: Path) -> Iterator[None]:
    """Report an error in making a file, except one of the disk: a picture must not cost the draws of an hour."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # of matplotlib and of the statistics that a plot computes, which share no class
        path.unlink(missing_ok=True)
        complain(f"Note: {path.name} is left out: {error}")


def _draw(path: Path, plot: Callable[[], Any]) -> None:
    """Save the picture that ``plot`` draws on new axes."""
    import matplotlib.pyplot as plt

    with _left_out_if_it_fails(path):
        figure = plot().figure
        figure.savefig(path, dpi=150, bbox_inches="tight")
        plt.close(figure)


def write_table(frame: Any, path: Path, suffix: str = ".csv") -> None:
    """Write a data frame without its index, as .csv or .parquet.

    In a .csv, text that a spreadsheet would run as a formula gets an apostrophe before it.

    Examples
    --------
    >>> import pandas as pd
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> write_table(pd.DataFrame({"feature": ["=1+1", "age"], "weight": [-1.5, 2.0]}), path)
    >>> print(path.read_text())
    feature,weight
    '=1+1,-1.5
    age,2.0
    <BLANKLINE>
    """

    def harmless(cell: Any) -> Any:
        if not isinstance(cell, str):
            return cell
        # A carriage return is not quoted, and would begin a new row.
        runs = cell[:1] in _FORMULA and not _NUMBER.fullmatch(cell)
        return (f"'{cell}" if runs else cell).replace("\r", "\n")

    if suffix == ".parquet":
        frame.to_parquet(path, index=False)
        return
    safe = frame.copy()
    for position in [k for k, kind in enumerate(frame.dtypes) if kind.kind not in "biufcmM"]:
        safe.isetitem(position, frame.iloc[:, position].astype(object).map(harmless))
    safe.rename(columns=harmless).to_csv(path, index=False)


class _Output(io.TextIOBase):
    """Standard output without errors: a closed pipe or a full disk costs the printed text, not the fit."""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read by rich
        return getattr(sys.stdout, "encoding", None) or "ascii"

    def write(self, text: str) -> int:
        stream = sys.stdout
        if stream is None:  # closed before the process began
            return len(text)
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                stream.write(text.translate(_ASCII).encode(self.encoding, "replace").decode(self.encoding))
            stream.flush()
        except (OSError, ValueError) as error:
            # Text left in the buffer would fail again when the process ends.
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
            if not isinstance(error, OSError) or error.errno != errno.EPIPE:  # such as `| head`
                complain(f"bayesdrop: the rest of the report cannot be printed: {error}")
        return len(text)


def console() -> Any:
    """A rich console that is as wide as the terminal, or 100 columns wide without one."""
    from rich.console import Console

    terminal = is_terminal(sys.stdout)
    stream: Any = _Output()
    return Console(file=stream, width=None if terminal else 100, force_terminal=terminal, highlight=False, emoji=False)


# Columns of a table of weights that fit side by side on a screen; files have all.
_SHOWN = ["weight", "low", "high", "odds_ratio", "rate_ratio", "rate", "rate_low", "rate_high"]


def show(weights: Any, maximum: int = 20) -> None:
    """Print a table of weights, at most ``maximum`` of its rows."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    rows = weights[[name for name in _SHOWN if name in weights]].reset_index().iloc[:maximum]
    for name in rows.columns:
        table.add_column(Text(plain(name)), max_width=40, justify="right" if rows[name].dtype.kind == "f" else "left")
    for row in rows.itertuples(index=False):
        table.add_row(*(Text(f"{cell:.4g}" if isinstance(cell, float) else plain(cell)) for cell in row))
    console().print(table)
    if len(weights) > maximum:
        console().print(f"and {len(weights) - maximum} more rows")


def tell(text: Any) -> None:
    """Print text of the library on standard output."""
    console().print(plain(in_options(text)), soft_wrap=True, markup=False)


def complain(text: Any) -> None:
    """Print text as one line on standard error, if it can be written to."""
    say(plain(in_options(" ".join(str(text).split()))))


def in_options(text: Any) -> str:
    """Text of the library with the options of the command line in place of functions and arguments.

    Examples
    --------
    >>> in_options('take dropna=True, or missing="nan"; or unseen="population"')
    'take --dropna, or --missing; or --unseen population'
    """
    flags = re.sub(r'\b(dropna|missing)=(?:True|"nan")', r"--\1", str(text).replace("bd.sample", "--sample"))
    return re.sub(r'\bunseen="(\w+)"', r"--unseen \1", flags)


def plain(text: Any) -> str:
    r"""Text from data as a terminal may show it: a letter that moves the cursor, rings or colours becomes a mark.

    Examples
    --------
    >>> print(plain("\x1b[31mred"))
    �[31mred
    """
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in str(text))
