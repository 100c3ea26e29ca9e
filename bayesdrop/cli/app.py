"""The command line: ``bayesdrop demo``, ``bayesdrop fit TABLE --target COLUMN`` and ``bayesdrop predict MODEL TABLE``.

The commands need the extra ``cli`` (typer, rich, pandas, pyarrow and matplotlib); without it ``main`` says so.
"""

# Annotations are evaluated here, not kept as text: typer reads them, and its names are local to build_app.

import os
import sys
from enum import Enum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from .._progress import Ended, ended_by_signals, heard
from .screen import complain, console, plain

__all__ = ["build_app", "main"]

_EXTRAS = ("typer", "rich", "pandas", "pyarrow", "matplotlib")


class LossName(Enum):
    """Losses of the command line."""

    auto = "auto"
    logistic = "logistic"
    hinge = "hinge"
    squared = "squared"
    epsilon = "epsilon"


class UnseenName(Enum):
    """What becomes of a level that no row had when a model was fitted."""

    error = "error"
    population = "population"


class HeaderName(Enum):
    """What the first line of a file of text is."""

    auto = "auto"
    first = "first"
    none = "none"


def _fail(command: str, error: BaseException, code: int) -> Any:
    import typer

    complain(f"bayesdrop {command}: {' '.join(str(error).split())}")
    raise typer.Exit(code) from None


def _run(command: str, out: Path, work: Any) -> None:
    """Do ``work(output)``, and once its files lie where they belong print what it returns, and where that is."""

    def write() -> Any:
        import matplotlib

        from .report import Output

        matplotlib.use("Agg")
        output = Output(out)
        with output:
            return output, work(output)

    def report(done: Any) -> None:
        output, tell = done
        if tell is not None:
            tell()
        for line in output.summary():
            console().print(plain(line), soft_wrap=True, markup=False)

    _work_and_tell(command, out, write, report)


def _work_and_tell(command: str, out: Path, work: Any, tell: Any) -> None:
    """Do ``work()``, whose results are written then, and ``tell`` of what it returned."""
    done = _guard(command, work, "nothing was written")
    _guard(command, lambda: tell(done), f"the results are in {out}")


def _guard(command: str, work: Any, done: str) -> Any:
    """Do ``work()`` and return its result; errors become one line on stderr and an exit code."""
    try:
        from ..data.table_files import InputError

        with heard():
            return work()
    except KeyboardInterrupt:  # first, for it may come while the name of the next is imported
        _fail(command, KeyboardInterrupt(f"interrupted; {done}."), 130)
    except Ended as error:
        _fail(command, KeyboardInterrupt(f"ended by signal {error.number}; {done}."), 128 + error.number)
    except InputError as error:
        _fail(command, error, 2)
    except (OSError, ValueError) as error:  # the library's errors say what to do
        _fail(command, error, 1)
    except MemoryError as error:
        _fail(command, MemoryError(f"there is not enough memory ({error or 'none left'}); {done}."), 1)


@cache
def build_app() -> Any:
    """Build the typer application."""
    import typer

    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Linear models regularised by feature dropout: learn the dropout rates, sample their posterior, predict.",
    )

    def version(wanted: bool) -> bool:
        if wanted:
            from .. import __version__

            print(__version__)
            raise typer.Exit()
        return wanted

    @app.callback()
    def root(
        version: Annotated[
            bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version and leave.")
        ] = False,
    ) -> None:
        pass

    @app.command(short_help="Show it at work on bundled data.")
    def demo(
        out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the files.")] = Path("bayesdrop-output"),
        quick: Annotated[bool, typer.Option("--quick", help="Half a minute; too few draws to trust.")] = False,
    ) -> None:
        """Show it at work on simulated data and data that comes with scikit-learn (one to two minutes).

        Three acts: rare words against tuned ridge, digits with missing pixels, and the posterior of the rates of
        sensors whose reliability is known. Writes demo.png, a picture of all three, and of the sensors
        posterior.nc, fit.nc, rates.csv, weights.csv and plots.
        """

        def work(output: Any) -> None:
            from .demo import run_demo

            run_demo(output, quick=quick)

        _run("demo", out, work)

    @app.command(short_help="Fit a table and write the results.")
    def fit(
        table: Annotated[
            Path,
            typer.Argument(
                metavar="TABLE",
                help="A .csv, .tsv or .parquet file; or features in .npy, .npz or .svmlight, or a folder of them.",
                show_default=False,
            ),
        ],
        target: Annotated[
            str | None,
            typer.Option(metavar="COLUMN", help="Column of a table with the classes or numbers.", show_default=False),
        ] = None,
        labels: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="The labels of .npy and .npz features, in .npy.", show_default=False),
        ] = None,
        memory: Annotated[
            str | None,
            typer.Option(
                metavar="SIZE",
                help="Read the features in blocks and stay below this, such as 4GB; numbers only.",
                show_default=False,
            ),
        ] = None,
        loss: Annotated[
            LossName,
            typer.Option(
                metavar="auto|logistic|hinge|squared|epsilon",
                help="Logistic regression or support vector machine of classes; squared or epsilon-insensitive loss of "
                "numbers. By default logistic for classes, squared for numbers.",
            ),
        ] = LossName.auto,
        rates: Annotated[
            str | None,
            typer.Option(
                metavar="tuned|feature|group|shared|FLOAT",
                help="Learn one dropout rate per feature, at a strength that held-out rows choose (tuned, the default) "
                "or by the published rule (feature, the default with --sample and --memory); or one per column of the "
                "table (group: the 0/1 indicators of a text column share one), or one for all (shared); or fix it, "
                "such as 0.3. Numbers: 0.1 by default.",
                show_default=False,
            ),
        ] = None,
        drop: Annotated[
            list[str] | None,
            typer.Option(metavar="COLUMN", help="Column to leave out; repeat for more.", show_default=False),
        ] = None,
        keep: Annotated[
            list[str] | None,
            typer.Option(
                metavar="COLUMN",
                help="Column to keep although it looks like an identifier; repeat for more.",
                show_default=False,
            ),
        ] = None,
        types: Annotated[
            list[str] | None,
            typer.Option(
                metavar="COLUMN=KIND",
                help="What a column is, number, categories or identifier, where its values are not to decide; repeat "
                "for more.",
                show_default=False,
            ),
        ] = None,
        na: Annotated[
            list[str] | None,
            typer.Option(
                metavar="TEXT",
                help="Cell that stands for a missing value, as empty ones do and, among numbers, NA, -, ? and the "
                "like; repeat for more.",
                show_default=False,
            ),
        ] = None,
        decimal: Annotated[
            str,
            typer.Option(
                metavar=".|,", help="Mark of the decimals, where the numbers do not show it.", show_default=False
            ),
        ] = "",
        header: Annotated[
            HeaderName,
            typer.Option(
                metavar="auto|first|none",
                help="Whether the first line has the names of the columns; with none they are x0, x1, and so on. By "
                "default it has, and is refused if it looks like a row.",
            ),
        ] = HeaderName.auto,
        drop_missing_target: Annotated[
            bool, typer.Option("--drop-missing-target", help="Leave out rows without a value of the target.")
        ] = False,
        C: Annotated[
            float,
            typer.Option("--C", metavar="FLOAT", help="Weight of the loss, as in scikit-learn: smaller shrinks more."),
        ] = 1.0,
        missing: Annotated[
            bool,
            typer.Option(
                "--missing", help="Take missing values of features for dropped entries; predict then takes them too."
            ),
        ] = False,
        standardize: Annotated[
            bool, typer.Option(metavar="", help="Give numeric columns mean 0 and standard deviation 1.")
        ] = True,
        sample: Annotated[
            bool, typer.Option("--sample", help="Also sample the posterior of weights and rates by MCMC.")
        ] = False,
        draws: Annotated[int, typer.Option(min=4, metavar="INTEGER", help="Draws kept of each chain.")] = 1000,
        tune: Annotated[
            int | None,
            typer.Option(
                min=1,
                metavar="INTEGER",
                help="Draws of each chain discarded first; by default what the sampler needs.",
                show_default=False,
            ),
        ] = None,
        chains: Annotated[int, typer.Option(min=1, metavar="INTEGER", help="Chains; R-hat compares them.")] = 4,
        seed: Annotated[int, typer.Option(min=0, metavar="INTEGER", help="Same seed, same draws.")] = 0,
        variables: Annotated[
            list[str] | None,
            typer.Option(
                metavar="NAME",
                help="Keep every draw of this variable alone, such as rate or intercept, for posteriors that outgrow "
                "memory; repeat for more. The others have summaries and a few draws.",
                show_default=False,
            ),
        ] = None,
        checkpoint: Annotated[
            Path | None,
            typer.Option(
                metavar="FOLDER",
                help="Keep finished draws here; the same command goes on from them if it was killed.",
                show_default=False,
            ),
        ] = None,
        report: Annotated[
            bool, typer.Option("--report", help="Also write report.html, one page with all of it that opens anywhere.")
        ] = False,
        out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the files.")] = Path("bayesdrop-output"),
    ) -> None:
        """Fit a TABLE of classes or numbers, learn how often each feature should be dropped, and write the results.

        The values of a column decide what it is, and a table of what each was taken for is printed. Where nine tenths
        of the cells are numbers the column is a number, also as 1.234,5 or 12,345.0 and with a currency, % or a unit;
        cells that are none are refused, with their lines. Numbers are standardised; text and truth values become 0/1
        indicators, named column[level]; dates, and columns that only tell rows apart, are left out. Separator,
        encoding and comment lines of a .csv are found. predict reads other tables in the same way.

        Dropping a standardised number sets it to its mean. Writes fit.nc, rates.csv, weights.csv and plots; with
        --sample also posterior.nc and a rank plot.

        Files of features alone, and any Parquet file with --memory, are read a block at a time and need not fit in
        memory.

        No formula is read and nothing in a TABLE is run: names and cells are text. (In Python bayesdrop.fit takes
        formulas, which run what they hold.) Text that a spreadsheet would run as a formula has an apostrophe before it
        in the .csv files.

        Example: bayesdrop fit patients.csv --target relapsed --rates group --sample
        """
        options: dict[str, Any] = {
            "draws": draws,
            "tune": tune,
            "chains": chains,
            "seed": seed,
            "checkpoint": checkpoint,
        }
        options |= {"variables": variables} if variables else {}
        chain = options if sample else None
        cells = {
            "types": types or [], "na": na or [], "decimal": decimal, "header": header.value,
            "drop_missing_target": drop_missing_target,
        }  # fmt: skip

        def work(output: Any) -> Any:
            from .fit_table import fit_table, read

            data = read(
                table, target, labels, drop or [], memory,
                keep=keep or [], standardize=standardize, loss=loss.value, page=report, missing=missing, cells=cells,
            )  # fmt: skip
            return fit_table(output, data, table.name, loss.value, rates, C, chain, page=report)

        _run("fit", out, work)

    @app.command(short_help="Predict the rows of a table by a model that fit wrote.")
    def predict(
        model: Annotated[
            Path,
            typer.Argument(
                metavar="MODEL", help="The folder that bayesdrop fit wrote, or its fit.nc.", show_default=False
            ),
        ],
        table: Annotated[
            Path,
            typer.Argument(
                metavar="TABLE",
                help="A .csv, .tsv or .parquet file; or features in .npy, .npz or .svmlight, or a folder of them.",
                show_default=False,
            ),
        ],
        posterior: Annotated[
            bool, typer.Option("--posterior", help="Average over the draws in posterior.nc, which --sample wrote.")
        ] = False,
        unseen: Annotated[
            UnseenName,
            typer.Option(help="Levels that no row had at the fit: refuse them, or count them as none of the levels."),
        ] = UnseenName.error,
        out: Annotated[Path, typer.Option(metavar="FILE", help="Table to write, a .csv.")] = Path("predictions.csv"),
    ) -> None:
        """Predict the rows of TABLE: probabilities of the classes, or numbers with intervals.

        The columns that the model was fitted to are read and encoded as they were then (decimal mark, units, missing
        values, header), by name and in any order; cells that cannot be are refused by their lines, and so are levels
        that were not there then, unless --unseen population counts them as none. What was fitted with --missing takes
        missing values. If the response is among the columns the predictions are compared with it.

        Example: bayesdrop predict bayesdrop-output new-patients.csv
        """

        def work() -> Any:
            from .predict_table import predict_table

            return predict_table(model, table, out, from_draws=posterior, unseen=unseen.value)

        _work_and_tell("predict", out, work, lambda tell: tell())

    return app


def main() -> None:
    """Entry point; see the module."""
    missing = [name for name in _EXTRAS if find_spec(name) is None]
    if missing:
        print(f'bayesdrop: the command line needs {", ".join(missing)}: pip install "bayesdrop[cli]"', file=sys.stderr)
        sys.exit(1)
    try:
        with ended_by_signals():
            build_app()()
    except (KeyboardInterrupt, SystemExit) as end:
        code: Any = end.code if isinstance(end, SystemExit) else 130
        if isinstance(end, KeyboardInterrupt):  # typer is not there yet
            complain("bayesdrop: interrupted; nothing was written.")
        elif not isinstance(code, int) or code <= 128:
            raise
        os._exit(code)  # at once: interrupted while it compiles, JAX may crash when Python takes its modules down
