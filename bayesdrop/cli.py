"""The command line: ``bayesdrop demo`` and ``bayesdrop fit TABLE --target COLUMN``.

The commands need the extra ``cli`` (typer, rich, pandas, pyarrow and matplotlib); without it ``main`` says so.
"""

# Annotations are evaluated here, not kept as text: typer reads them, and its names are local to build_app.

import sys
from enum import Enum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

__all__ = ["build_app", "main"]

_EXTRAS = ("typer", "rich", "pandas", "pyarrow", "matplotlib")


class LossName(Enum):
    """Losses of the command line."""

    hinge = "hinge"
    logistic = "logistic"


def _fail(command: str, error: BaseException, code: int) -> Any:
    import typer

    print(f"bayesdrop {command}: {' '.join(str(error).split())}", file=sys.stderr)
    raise typer.Exit(code) from None


def _run(command: str, out: Path, work: Any) -> None:
    """Do ``work(output)`` and print where its files lie; errors become one line on stderr and an exit code."""
    import matplotlib
    import typer

    from .report import Output, console
    from .table import InputError

    matplotlib.use("Agg")
    try:
        with Output(out) as output:
            work(output)
        for line in output.summary():
            console().print(line, soft_wrap=True, markup=False)
    except InputError as error:
        _fail(command, error, 2)
    except OSError as error:
        _fail(command, error, 1)
    except KeyboardInterrupt:
        print(f"\nbayesdrop {command}: interrupted before there was a result; nothing was written.", file=sys.stderr)
        raise typer.Exit(130) from None


def _rates(choice: str, table: Any) -> Any:
    """Rates object of ``--rates``."""
    from .rates import Fixed, PerFeature, PerGroup, Shared
    from .table import InputError

    if choice == "feature":
        return PerFeature()
    if choice == "group":
        return PerGroup(table.groups)
    if choice == "shared":
        return Shared()
    try:
        return Fixed(float(choice))
    except ValueError:
        raise InputError(
            f"--rates: expected feature, group, shared or a number in [0, 1), got {choice!r}; a number is the "
            "probability that a feature is dropped."
        ) from None


def _fit(
    out: Any,
    path: Path,
    target: str,
    loss: LossName,
    choice: str,
    drop: list[str],
    C: float,
    standardize: bool,
    chain: dict[str, Any] | None,
) -> None:
    """Fit a table, and sample if ``chain`` holds the options of the sampler."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from . import inference, report
    from .losses import Hinge, Logistic
    from .model import Model
    from .table import InputError, read_table

    table = read_table(path, target, drop, standardize=standardize)
    rates = _rates(choice, table)
    try:
        model = Model(loss=Hinge() if loss is LossName.hinge else Logistic(), rates=rates, C=C)
    except ValueError as error:
        raise InputError(f"--{error}") from None
    if chain and chain["seed"] >= 2**32:
        raise InputError(f"--seed: expected a whole number below 2**32, got {chain['seed']}.")
    screen = report.console()

    def say(line: str) -> None:
        screen.print(line, markup=False)

    n, p = table.X.shape
    scaled = "standardised" if standardize else "as they are"
    kinds = [f"{len(table.numeric)} numeric columns {scaled}"] if table.numeric else []
    kinds += [f"{len(table.categorical)} of categories as 0/1 indicators"] if table.categorical else []
    say(f"{path.name}: {n} rows, {p} features ({', '.join(kinds)}).")
    for note in table.notes:
        say(f"Note: {note}")
    with warnings.catch_warnings():
        # The status printed below says the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = inference.fit(model, table.X, table.y, feature_names=table.feature_names)
    negative, positive = fit.classes if fit.classes is not None else ("", "")
    say(f"{target}: positive weights speak for {positive}, negative ones for {negative}.")
    say(f"Fit: {fit.status.value} ({fit.n_iter} iterations, {type(model.loss).__name__.lower()} loss, C = {C:g})")
    post = None
    if chain:
        options = {**chain, "feature_names": table.feature_names, "progress": sys.stderr.isatty()}
        try:
            post = report.sample_quietly(model, table.X, table.y, **options)
        except ValueError as error:
            if not str(error).startswith("checkpoint: "):
                raise
            raise InputError(f"--{error}") from None
    report.print_rates(screen, fit, post)
    unseen = [] if fit.rate_posterior is None else fit.rate_posterior.never_seen
    unseen = [name for name in unseen if name not in table.constant]
    if unseen:
        say(f"Never seen, so at their prior: {', '.join(unseen[:8])}{' …' if len(unseen) > 8 else ''}")
    if chain:
        report.print_sample(screen, fit, post, chain["draws"], "Raise --draws and --tune.")
    elif fit.rate_posterior is not None:
        say("The plug-in intervals take the fitted weights as known; --sample gives the posterior.")
    report.write_fit(out, fit, post, {"group": table.groups, "subtracted": table.center, "divided_by": table.scale})
    if post is not None:
        report.write_posterior(out, post)


@cache
def build_app() -> Any:
    """Build the typer application."""
    import typer

    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Linear classifiers regularised by feature dropout: learn the dropout rates, and sample their posterior.",
    )

    def version(wanted: bool) -> None:
        if wanted:
            from . import __version__

            print(__version__)
            raise typer.Exit()

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
        """Show it at work on data that comes with scikit-learn (one to two minutes).

        Counts test errors without dropout, with fixed and with learnt rates. Then samples the posterior of the
        rates on the breast-cancer data: one per feature, of which it writes posterior.nc, fit.nc, rates.csv,
        weights.csv and plots, and one for all.
        """
        from .demo import run_demo

        _run("demo", out, lambda output: run_demo(output, quick=quick, progress=sys.stderr.isatty()))

    @app.command(short_help="Fit a two-class table and write the results.")
    def fit(
        table: Annotated[
            Path, typer.Argument(metavar="TABLE", help="A .csv, .tsv or .parquet file.", show_default=False)
        ],
        target: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the two classes.", show_default=False)],
        loss: Annotated[
            LossName, typer.Option(metavar="hinge|logistic", help="Support vector machine or logistic regression.")
        ] = LossName.logistic,
        rates: Annotated[
            str,
            typer.Option(
                metavar="feature|group|shared|FLOAT",
                help="Learn one dropout rate per feature, per column of the table (group: the 0/1 indicators of a "
                "text column share one), or one for all (shared); or fix it, such as 0.3.",
            ),
        ] = "feature",
        drop: Annotated[
            list[str] | None,
            typer.Option(metavar="COLUMN", help="Column to leave out; repeat for more.", show_default=False),
        ] = None,
        C: Annotated[
            float,
            typer.Option("--C", metavar="FLOAT", help="Weight of the loss, as in scikit-learn: smaller shrinks more."),
        ] = 1.0,
        standardize: Annotated[
            bool, typer.Option(metavar="", help="Give numeric columns mean 0 and standard deviation 1.")
        ] = True,
        sample: Annotated[
            bool, typer.Option("--sample", help="Also sample the posterior of weights and rates by MCMC.")
        ] = False,
        draws: Annotated[int, typer.Option(min=4, metavar="INTEGER", help="Draws kept of each chain.")] = 1000,
        tune: Annotated[
            int, typer.Option(min=1, metavar="INTEGER", help="Draws of each chain thrown away first.")
        ] = 1000,
        chains: Annotated[int, typer.Option(min=1, metavar="INTEGER", help="Chains; R-hat compares them.")] = 4,
        seed: Annotated[int, typer.Option(min=0, metavar="INTEGER", help="Same seed, same draws.")] = 0,
        checkpoint: Annotated[
            Path | None,
            typer.Option(
                metavar="FOLDER",
                help="Keep finished draws here; the same command goes on from them if it was killed.",
                show_default=False,
            ),
        ] = None,
        out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the files.")] = Path("bayesdrop-output"),
    ) -> None:
        """Fit a two-class TABLE, learn how often each feature should be dropped, and write the results.

        Numeric columns are standardised; columns of text or truth values become 0/1 indicators, named column=level.
        Dropping a standardised number sets it to its mean. Writes fit.nc, rates.csv, weights.csv and plots; with
        --sample also posterior.nc and a rank plot.

        Example: bayesdrop fit patients.csv --target relapsed --rates group --sample
        """
        options = {"draws": draws, "tune": tune, "chains": chains, "seed": seed, "checkpoint": checkpoint}
        chain = options if sample else None
        _run("fit", out, lambda output: _fit(output, table, target, loss, rates, drop or [], C, standardize, chain))

    return app


def main() -> None:
    """Entry point; see the module."""
    missing = [name for name in _EXTRAS if find_spec(name) is None]
    if missing:
        print(f'bayesdrop: the command line needs {", ".join(missing)}: pip install "bayesdrop[cli]"', file=sys.stderr)
        sys.exit(1)
    build_app()()


if __name__ == "__main__":
    main()
