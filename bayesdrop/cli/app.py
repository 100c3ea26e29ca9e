"""The command line: ``bayesdrop fit TABLE --formula FORMULA``, ``bayesdrop predict FIT TABLE`` and ``bayesdrop demo``.

The commands need the extra ``cli``; without it ``main`` says so.
"""

# Annotations are evaluated here, not kept as text: typer reads them, and its names are local to build_app.

import os
import sys
import warnings
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from .._progress import Ended, ended_by_signals, heard
from ..warnings import MixingWarning
from .output import complain, staged, tell

__all__ = ["build_app", "main"]

_EXTRAS = ("typer", "rich", "pandas", "pyarrow", "matplotlib", "formulaic")


LossName = StrEnum("LossName", ["Logistic", "Softmax", "Hinge", "Squared", "EpsilonInsensitive", "Quantile", "Poisson"])


def _run(command: str, out: Path, work: Any) -> None:
    """Do ``work()``, whose results are written then, and the printing that it returns.

    Warnings, errors and signals become one line on standard error, the latter two an exit code.
    """
    import matplotlib
    import typer

    matplotlib.use("Agg")
    state, written = "nothing was written", ""
    try:
        with heard(), warnings.catch_warnings():
            warnings.simplefilter("ignore", MixingWarning)  # the report has the diagnosis
            warnings.showwarning = lambda message, *_, **__: complain(f"Note: {message}")
            report = work()
            state = f"the results are in {out}"
            written = f" ({state})"
            report()
            tell(f"Written to {out}.")
        return
    except KeyboardInterrupt:
        said, code = f"interrupted; {state}.", 130
    except Ended as error:
        said, code = f"ended by signal {error.number}; {state}.", 128 + error.number
    except ValueError as error:  # the library's errors say what to do
        said, code = f"{error}{written}", 2
    except OSError as error:
        said, code = f"{error}{written}", 1
    except MemoryError as error:
        said, code = f"there is not enough memory ({error or 'none left'}); {state}.", 1
    complain(f"bayesdrop {command}: {said}")
    raise typer.Exit(code) from None


@cache
def build_app() -> Any:
    """Build the typer application."""
    import typer

    option = typer.Option
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
        help="Linear models regularised by feature dropout: learn the dropout rates, sample their posterior, predict.",
    )  # fmt: skip
    table = typer.Argument(metavar="TABLE", help="A .csv, .tsv or .parquet file.", show_default=False)
    folder = option(metavar="FOLDER", help="Folder for the files.")
    Sep = Annotated[str | None, option(metavar="TEXT", help="What separates the cells; by default , or a tab in .tsv.")]
    Decimal = Annotated[str | None, option(metavar="TEXT", help="Decimal mark, by default a point.")]
    Thousands = Annotated[str | None, option(metavar="TEXT", help="Mark between thousands, by default none.")]
    NaValues = Annotated[
        list[str] | None,
        option("--na-values", metavar="TEXT", help="Text of a missing value besides pandas' own; repeat for more."),
    ]
    Encoding = Annotated[str | None, option(metavar="NAME", help="Encoding, by default utf-8.")]

    def version(wanted: bool) -> None:
        if wanted:
            from .. import __version__

            print(__version__)
            raise typer.Exit()

    @app.callback()
    def root(
        version: Annotated[
            bool, option("--version", callback=version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        pass

    @app.command(short_help="Show it at work on bundled data.")
    def demo(
        out: Annotated[Path, folder] = Path("bayesdrop-output"),
        quick: Annotated[bool, option("--quick", help="Half a minute; too few draws to trust.")] = False,
    ) -> None:
        """Show it at work on simulated data and data that comes with scikit-learn (one to two minutes).

        Three acts: rare words against tuned ridge, digits with missing pixels, and the posterior of the rates of
        sensors whose reliability is known. Writes demo.png, a picture of all three, and of the sensors
        posterior.nc, weights.csv and plots.
        """

        def work() -> Any:
            from .demo import run_demo

            with staged(out) as stage:
                return run_demo(stage, quick=quick)

        _run("demo", out, work)

    @app.command(short_help="Fit a table and write the results.")
    def fit(
        context: typer.Context,
        path: Annotated[Path, table],
        formula: Annotated[str | None, option(metavar="TEXT", help='Such as "ill ~ scale(age) + site".')] = None,
        target: Annotated[str | None, option(metavar="COLUMN", help="Response, of all other columns.")] = None,
        drop: Annotated[
            list[str] | None, option(metavar="COLUMN", help="Column to leave out; repeat for more.")
        ] = None,
        loss: Annotated[
            LossName | None,
            option(
                metavar="NAME",
                case_sensitive=False,
                help="By default Logistic or Softmax for classes, Squared for numbers; or Hinge, "
                "EpsilonInsensitive, Quantile, Poisson.",
            ),
        ] = None,
        rates: Annotated[
            str | None,
            option(
                metavar="tuned|feature|group|shared|FLOAT",
                help="Dropout rates: at a strength that held-out rows choose, or one per feature, one per term of the "
                "formula, or one for all, by a rule; or the rate itself. By default feature, and 0.1 for numbers.",
            ),
        ] = None,
        C: Annotated[
            float, option("--C", metavar="FLOAT", help="Weight of the loss, as in scikit-learn: smaller shrinks more.")
        ] = 1.0,
        missing: Annotated[bool, option("--missing", help="Take missing values for dropped entries.")] = False,
        dropna: Annotated[bool, option("--dropna", help="Omit the rows with a missing value.")] = False,
        unseen: Annotated[
            str, option(metavar="error|population|draw", help="How predict takes a level of which the fit had no row.")
        ] = "error",
        sample: Annotated[bool, option("--sample", help="Sample the posterior of weights and rates by MCMC.")] = False,
        draws: Annotated[int, option(min=4, metavar="INTEGER", help="Draws kept of each chain.")] = 1000,
        tune: Annotated[
            int | None, option(min=1, metavar="INTEGER", help="Draws of each chain discarded first, by default enough.")
        ] = None,
        chains: Annotated[int, option(min=1, metavar="INTEGER", help="Chains, which R-hat compares.")] = 4,
        seed: Annotated[int, option(min=0, metavar="INTEGER", help="The same seed gives the same draws.")] = 0,
        checkpoint: Annotated[
            Path | None, option(metavar="FOLDER", help="Keep finished draws here, for the same command to go on.")
        ] = None,
        sep: Sep = None,
        decimal: Decimal = None,
        thousands: Thousands = None,
        na_values: NaValues = None,
        encoding: Encoding = None,
        out: Annotated[Path, folder] = Path("bayesdrop-output"),
    ) -> None:
        """Fit a TABLE by a formula, learn how often each feature should be dropped, and write the results.

        pandas reads the table; text columns become one 0/1 column for each level. Writes fit.nc, weights.csv and
        plots; with --sample posterior.nc instead of fit.nc. The prior of a weight is for a change of its column by one
        standard deviation, whatever its unit.

        Example: bayesdrop fit patients.csv --formula "relapsed ~ age + C(site)" --rates group --sample
        """
        marks: Any = {"decimal": decimal, "thousands": thousands, "na_values": na_values, "encoding": encoding}
        sampler = {"draws": draws, "tune": tune, "chains": chains, "seed": seed, "checkpoint": checkpoint}

        def work() -> Any:
            from .tables import fit_table, formula_of, read_table

            for name in () if sample else sampler:
                source = context.get_parameter_source(name)
                if source is not None and source.name != "DEFAULT":
                    raise ValueError(f"--{name}: expected with --sample alone, got a point fit; add --sample.")
            frame = read_table(path, sep=sep, **marks)
            text, frame = formula_of(frame, formula, target, drop or [])
            with staged(out) as stage:
                return fit_table(
                    stage, frame, text, None if loss is None else loss.name, rates, C, sampler if sample else None,
                    missing="nan" if missing else None, dropna=dropna, unseen=unseen,
                )  # fmt: skip

        _run("fit", out, work)

    @app.command(short_help="Predict the rows of a table by a file that fit wrote.")
    def predict(
        model: Annotated[
            Path,
            typer.Argument(
                metavar="FIT", help="The folder that bayesdrop fit wrote, or a file in it.", show_default=False
            ),
        ],
        path: Annotated[Path, table],
        keep: Annotated[
            list[str] | None,
            option(metavar="COLUMN", help="Column to copy unchanged to the predictions; repeat for more."),
        ] = None,
        sep: Sep = None,
        decimal: Decimal = None,
        thousands: Thousands = None,
        na_values: NaValues = None,
        encoding: Encoding = None,
        out: Annotated[Path, option(metavar="FILE", help="A .csv or .parquet to write.")] = Path("predictions.csv"),
    ) -> None:
        """Predict the rows of TABLE: probabilities of the classes, or numbers with intervals.

        Columns are found by name, in any order; nothing that the file of the fit holds is run.

        Example: bayesdrop predict bayesdrop-output new-patients.csv --keep patient
        """
        marks = {
            "sep": sep, "decimal": decimal, "thousands": thousands, "na_values": na_values, "encoding": encoding,
        }  # fmt: skip

        def work() -> Any:
            from .tables import predict_table

            return predict_table(model, path, marks, out, keep or [])

        _run("predict", out, work)

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
        if isinstance(end, KeyboardInterrupt):  # before typer was imported
            complain("bayesdrop: interrupted; nothing was written.")
        elif not isinstance(code, int) or code <= 128:
            raise
        os._exit(code)  # at once: interrupted while it compiles, JAX may crash when Python unloads its modules
