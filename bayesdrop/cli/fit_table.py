"""``bayesdrop fit``: read a table, fit it, draw its posterior on request, and write the results."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..data.columns import KINDS, Reading
from ..data.table_files import InputError
from . import report
from .screen import console, plain

__all__ = ["fit_table", "read"]

_NUMBERS = ("squared", "epsilon")
# Of a loss for numbers no rule learns rates: the rate that DropoutRidge and DropoutSVR have by default.
_FIXED = "0.1"


def read(
    path: Path,
    target: str | None,
    labels: Path | None,
    drop: list[str],
    memory: str | None,
    *,
    keep: list[str],
    standardize: bool,
    loss: str,
    page: bool,
    missing: bool = False,
    cells: dict[str, Any] | None = None,
) -> Any:
    """Table in memory, or features that are read in blocks; the arguments are the options of the command.

    ``cells`` are those that say how a file of text is read: ``header``, ``types``, ``na``, ``decimal`` and
    ``drop_missing_target``.
    """
    from ..data.files import parse_memory, read_large, takes_blocks
    from ..data.tables import read_table

    cells = cells or {}

    if memory is None and not takes_blocks(path):
        if target is None:
            raise InputError("--target: expected the name of the column with the response, classes or numbers.")
        if labels is not None:
            raise InputError("--labels: a table has its labels in the column --target; leave the option out.")
        wanted = "auto" if loss == "auto" else "number" if loss in _NUMBERS else "classes"
        settings: dict[str, Any] = {"standardize": standardize, "missing": "nan" if missing else None}
        settings |= {name: cells[name] for name in ("header", "drop_missing_target") if name in cells}
        settings["reading"] = _reading(cells.get("types", []), cells.get("na", []), cells.get("decimal", ""))
        return read_table(path, target, drop, keep=keep, response=wanted, **settings)
    refused = {"--report": page, "--keep": bool(keep), f"--loss {loss}": loss in _NUMBERS, "--missing": missing}
    refused |= {f"--{name.replace('_', '-')}": value not in ("", "auto", [], False) for name, value in cells.items()}
    for option in (name for name, given in refused.items() if given):
        raise InputError(
            f"{option}: features that are read in blocks have two classes, no missing values and no page; leave it out."
        )
    cap = None if memory is None else parse_memory(memory)
    return read_large(path, target, labels, drop, cap, standardize=standardize, progress=True)


def _reading(types: list[str], na: list[str], decimal: str) -> Reading:
    """What the options say of the cells; ``types`` are as ``age=number``."""
    stated = {}
    for one in types:
        name, mark, kind = one.rpartition("=")
        found = [known for known in KINDS if kind and known[:3] == kind.strip().lower()[:3]]
        if not mark or not found:
            raise InputError(f"--types: expected COLUMN=KIND, where KIND is {', '.join(KINDS)}; got {one!r}.")
        stated[name] = found[0]
    if decimal not in ("", ".", ","):
        raise InputError(f"--decimal: expected . or , got {decimal!r}.")
    return Reading(stated, tuple(mark.strip() for mark in na), decimal)


def fit_table(
    out: report.Output,
    table: Any,
    name: str,
    loss: str,
    choice: str | None,
    C: float,
    chain: dict[str, Any] | None,
    *,
    page: bool = False,
) -> Callable[[], None]:
    """Fit a table and write what came; sample if ``chain`` holds the options of the sampler.

    Returns
    -------
    callable
        Prints the report, once the files are where they belong.
    """
    from ..fitting.results.result import PLUG_IN_CAVEAT

    model, notes = _model(table, loss, choice, C, sampled=chain is not None)
    if chain and chain["seed"] >= 2**32:
        raise InputError(f"--seed: expected a whole number below 2**32, got {chain['seed']}.")
    screen, messages, later = console(), list[str](), list[Callable[[], None]]()

    def say(line: str) -> None:
        messages.append(plain(line))
        later.append(partial(screen.print, messages[-1], markup=False))

    n, p = table.X.shape
    screen.print(plain(f"{name}: {n} rows, {p} features ({table.kinds})."), markup=False)
    _print_columns(screen, table.column_types)
    for note in [*table.notes, *notes]:
        screen.print(plain(f"Note: {note}"), markup=False)
    messages += [plain(f"{name}: {n} rows, {p} features ({table.kinds}).")]
    messages += [plain(f"  {column}: {kind}; {remark}") for column, kind, remark in table.column_types]
    messages += [plain(f"Note: {note}") for note in [*table.notes, *notes]]
    fit = _fit(model, table)
    target = table.target or "the label"
    if table.classes == 2:
        say(f"{target}: positive weights support {fit.classes[1]}, negative ones {fit.classes[0]}.")
    elif table.classes:
        say(f"{target}: {table.classes} classes; what all share counts for none, so weights sum to 0 over them.")
    else:
        say(f"{target}: a number; a weight is what one unit of the feature adds.")
    kind = _spelt(type(model.loss).__name__)
    say(f"Fit: {fit.status.value} ({fit.n_iter} iterations, {kind} loss, C = {C:g})")
    if fit.selection is not None:
        say(str(fit.selection))
    if chain is not None and table.in_blocks:
        say("Note: rows that are read in blocks are sampled by HMC; masks are integrated as if scores were normal.")
    post = None if chain is None else _sample(model, table, chain)
    later.append(partial(report.print_rates, screen, fit, post))
    unseen = [] if fit.rate_posterior is None else fit.rate_posterior.never_seen
    unseen = [one for one in unseen if one not in table.constant]
    if unseen:
        say(f"Never seen, so at their prior: {', '.join(unseen[:8])}{' …' if len(unseen) > 8 else ''}")
    if chain is not None:
        later.append(partial(report.print_sample, screen, fit, post, chain["draws"], "Raise --draws and --tune."))
    elif fit.rate_posterior is not None:
        say(f"{PLUG_IN_CAVEAT.removesuffix('bd.sample gives the posterior.')}--sample gives the posterior.")
    columns = {"group": table.groups, "subtracted": table.centre, "divided_by": table.scale}
    report.write_fit(out, fit, post, columns, table.encoding)
    if post is not None:
        report.write_posterior(out, post)
    if page:
        from .page import write_page

        write_page(out, table, fit, post, messages)

    def tell() -> None:
        for line in later:
            line()

    return tell


def _print_columns(screen: Any, messages: list[tuple[str, str, str]], *, most: int = 40) -> None:
    """Print what each column of a table was taken for."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not messages:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("column", max_width=30)
    table.add_column("taken for", no_wrap=True)
    table.add_column("values")
    for row in messages[:most]:
        table.add_row(*(Text(plain(word)) for word in row))
    screen.print(table)
    if len(messages) > most:
        kinds = Counter(kind for _, kind, _ in messages[most:])
        screen.print(
            f"and {len(messages) - most} more columns: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}."
        )


def _model(table: Any, loss: str, choice: str | None, C: float, *, sampled: bool) -> tuple[Any, list[str]]:
    """The model of the options, and notes on what was chosen."""
    from ..losses import EpsilonInsensitive, Hinge, Logistic, Softmax, Squared
    from ..model import Model
    from ..priors import InverseGamma, Normal

    loss = ("logistic" if table.classes else "squared") if loss == "auto" else loss
    many = table.classes > 2
    if loss == "hinge" and many:
        raise InputError(
            f"--loss: a hinge has two classes, and {table.target!r} has {table.classes}; use logistic, or "
            "DropoutSVC in Python, which solves one class against the rest."
        )
    rates, notes = _rates(choice, table, sampled=sampled)
    made: dict[str, Any] = {
        "logistic": Softmax if many else Logistic, "hinge": Hinge, "squared": Squared, "epsilon": EpsilonInsensitive,
    }  # fmt: skip
    settings: dict[str, Any] = {"loss": made[loss](), "missing": table.missing}
    if sampled and loss == "squared":
        # On the scale of the response, whatever it is measured in.
        spread = float(np.std(table.y))
        settings |= {"loss": Squared(variance_prior=InverseGamma(2.0, spread**2)), "weight_prior": Normal(spread)}
        notes.append(f"prior standard deviation of a weight: that of {table.target!r}, {spread:.4g}; noise unknown.")
    try:
        return Model(rates=rates, C=C, **settings), notes
    except ValueError as error:
        raise InputError(f"--{error}") from None


def _rates(choice: str | None, table: Any, *, sampled: bool) -> tuple[Any, list[str]]:
    """Rates object of ``--rates``, and notes."""
    from ..rates import Fixed, PerFeature, PerGroup, Shared, Tuned

    made: dict[str, Any] = {"tuned": Tuned, "feature": PerFeature, "group": PerGroup, "shared": Shared}
    notes = []
    if choice is None and not table.classes:
        choice, notes = _FIXED, [f"rates are learnt from classes, and this is a number: --rates {_FIXED}."]
    elif choice is None:
        choice = "feature" if sampled or table.in_blocks else "tuned"
    elif choice in made and not table.classes:
        raise InputError(
            f"--rates: rates are learnt from classes, and {table.target!r} is a number; give a rate such as {_FIXED}, "
            "or draw rates in Python, by bayesdrop.sample."
        )
    elif choice == "tuned" and sampled:
        raise InputError("--rates: a posterior weighs all strengths of the noise; with --sample take feature.")
    if choice in made:
        return made[choice](*([table.groups] if choice == "group" else [])), notes
    try:
        return Fixed(float(choice)), notes
    except ValueError:
        raise InputError(
            f"--rates: expected tuned, feature, group, shared or a number in [0, 1), got {choice!r}; a number is the "
            "probability that a feature is dropped."
        ) from None


def _fit(model: Any, table: Any) -> Any:
    from sklearn.exceptions import ConvergenceWarning

    from ..fitting.fit import fit

    if model.loss.variance_prior is not None:  # which a point fit takes for known
        model = replace(model, loss=model.loss.plain)
    with warnings.catch_warnings():
        # The status that is printed says the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(model, table.X, table.y, feature_names=_given_names(table))


def _sample(model: Any, table: Any, chain: dict[str, Any]) -> Any:
    options = {**chain, "feature_names": _given_names(table)}
    if table.in_blocks:
        from ..hmc.method import HMC

        options["method"] = HMC()
    try:
        return report.sample_quietly(model, table.X, table.y, **options)
    except ValueError as error:
        if not str(error).startswith(("checkpoint: ", "variables: ")):
            raise
        raise InputError(f"--{error}") from None


def _given_names(table: Any) -> list[str] | None:
    """Names of the features, None of files that have none."""
    return table.X.columns if table.in_blocks else table.feature_names


def _spelt(name: str) -> str:
    """Name of a class as words: ``EpsilonInsensitive`` is epsilon-insensitive."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
