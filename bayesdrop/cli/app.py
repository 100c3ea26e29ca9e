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

    from ..data.tables import InputError
    from .report import Output, console

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
    from ..data.tables import InputError
    from ..rates import Fixed, PerFeature, PerGroup, Shared

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
    table: Any,
    name: str,
    target: str,
    loss: LossName,
    choice: str,
    C: float,
    chain: dict[str, Any] | None,
) -> None:
    """Fit a table, and sample if ``chain`` holds the options of the sampler."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from ..data.tables import InputError
    from ..designs import as_streamed_design
    from ..fitting.fit import fit as fit_model
    from ..fitting.result import PLUG_IN_CAVEAT
    from ..losses import Hinge, Logistic
    from ..mcmc.hmc.method import HMC
    from ..model import Model
    from . import report

    rates = _rates(choice, table)
    try:
        model = Model(loss=Hinge() if loss is LossName.hinge else Logistic(), rates=rates, C=C)
    except ValueError as error:
        raise InputError(f"--{error}") from None
    if chain and chain["seed"] >= 2**32:
        raise InputError(f"--seed: expected a whole number below 2**32, got {chain['seed']}.")
    screen = report.console()

    def say(line: str) -> None:
        screen.print(report.plain(line), markup=False)

    n, p = table.X.shape
    say(f"{name}: {n} rows, {p} features ({table.kinds}).")
    for note in table.notes:
        say(f"Note: {note}")
    with warnings.catch_warnings():
        # The status printed below says the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = fit_model(model, table.X, table.y, feature_names=table.feature_names)
    negative, positive = fit.classes if fit.classes is not None else ("", "")
    say(f"{target}: positive weights speak for {positive}, negative ones for {negative}.")
    say(f"Fit: {fit.status.value} ({fit.n_iter} iterations, {type(model.loss).__name__.lower()} loss, C = {C:g})")
    post = None
    if chain:
        options = {**chain, "feature_names": table.feature_names, "progress": sys.stderr.isatty()}
        if as_streamed_design(table.X) is not None:
            options["method"] = HMC()
            say("Note: rows that are read in blocks are sampled by HMC; masks are integrated as if scores were normal.")
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
        say(f"{PLUG_IN_CAVEAT.removesuffix('bd.sample gives the posterior.')}--sample gives the posterior.")
    report.write_fit(out, fit, post, {"group": table.groups, "subtracted": table.centre, "divided_by": table.scale})
    if post is not None:
        report.write_posterior(out, post)


def _read(
    path: Path,
    target: str | None,
    labels: Path | None,
    drop: list[str],
    memory: str | None,
    *,
    standardize: bool,
) -> Any:
    """Table in memory, or features that are read in blocks."""
    from ..data.files import parse_memory, read_large, takes_blocks
    from ..data.tables import InputError, read_table

    if memory is None and not takes_blocks(path):
        if target is None:
            raise InputError("--target: expected the name of the column with the two classes.")
        if labels is not None:
            raise InputError("--labels: a table has its labels in the column --target; leave the option out.")
        return read_table(path, target, drop, standardize=standardize)
    cap = None if memory is None else parse_memory(memory)
    return read_large(path, target, labels, drop, cap, standardize=standardize, progress=sys.stderr.isatty())


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
            Path,
            typer.Argument(
                metavar="TABLE",
                help="A .csv, .tsv or .parquet file; or features in .npy, .npz or .svmlight, or a folder of them.",
                show_default=False,
            ),
        ],
        target: Annotated[
            str | None,
            typer.Option(metavar="COLUMN", help="Column of a table with the two classes.", show_default=False),
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
            int | None,
            typer.Option(
                min=1,
                metavar="INTEGER",
                help="Draws of each chain thrown away first; by default what the sampler needs.",
                show_default=False,
            ),
        ] = None,
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

        Numeric columns are standardised; columns of text or truth values become 0/1 indicators, named column[level].
        Dropping a standardised number sets it to its mean. Writes fit.nc, rates.csv, weights.csv and plots; with
        --sample also posterior.nc and a rank plot.

        Files of features alone, and any Parquet file with --memory, are read a block at a time and need not fit in
        memory.

        Example: bayesdrop fit patients.csv --target relapsed --rates group --sample
        """
        options = {"draws": draws, "tune": tune, "chains": chains, "seed": seed, "checkpoint": checkpoint}
        chain = options if sample else None

        def work(output: Any) -> None:
            data = _read(table, target, labels, drop or [], memory, standardize=standardize)
            _fit(output, data, table.name, target or "the label", loss, rates, C, chain)

        _run("fit", out, work)

    return app


def main() -> None:
    """Entry point; see the module."""
    missing = [name for name in _EXTRAS if find_spec(name) is None]
    if missing:
        print(f'bayesdrop: the command line needs {", ".join(missing)}: pip install "bayesdrop[cli]"', file=sys.stderr)
        sys.exit(1)
    build_app()()
