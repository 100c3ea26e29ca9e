"""Fit a table by a formula, and predict another, for ``bayesdrop fit`` and ``bayesdrop predict``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._atomic_files import replacing
from ..data.frames import no_column
from .output import show, tell, write_results, write_table

__all__ = ["fit_table", "formula_of", "predict_table", "read_table"]

_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_table(path: Path, texts: list[str] | None = None, **options: Any) -> Any:
    """Read a .csv, .tsv or .parquet file with pandas, of which ``options`` are arguments; None is pandas' default.

    The columns ``texts`` of a file of text are read letter by letter: 007 stays 007, and NA is no missing value.

    Raises
    ------
    ValueError
        If there is no such file, pandas cannot read it, or its rows have more cells than columns.
    """
    import pandas as pd

    settings = {name: value for name, value in options.items() if value is not None}
    suffix = next((part for part in reversed(path.suffixes) if part not in (".gz", ".bz2", ".xz", ".zip")), "").lower()
    if not path.is_file():
        raise ValueError(f"TABLE: {path} does not exist; check the path (the current folder is {Path.cwd()}).")
    if suffix not in (*_SEPARATORS, ".parquet") or (suffix == ".parquet" and settings):
        raise ValueError(
            f"TABLE: expected a .csv or .tsv file, or .parquet without options of text such as --sep, got {path.name}."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            if suffix == ".parquet":
                return pd.read_parquet(path)
            # Without index_col=False the first column of rows with a cell too many would become their index.
            defaults = {"sep": _SEPARATORS[suffix], "index_col": False, "low_memory": False}
            literally = {"dtype": dict.fromkeys(texts, str), "na_filter": False} if texts else {}
            return pd.read_csv(path, **(defaults | settings | literally))
    except MemoryError:
        raise
    except Exception as error:  # of pandas, pyarrow and decompressors, which have no class in common
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"TABLE: {path.name} cannot be read: {reason}") from None


def formula_of(frame: Any, formula: str | None, target: str | None, drop: list[str]) -> tuple[str, Any]:
    """The formula of ``--formula``, or of ``--target`` by all other columns, and the data frame without ``drop``.

    The text contains no names of columns but the response: ``.`` stands for the others.

    Examples
    --------
    >>> import pandas as pd
    >>> formula_of(pd.DataFrame({"age": [3.0], "ill": [1]}), None, "ill", [])[0]
    '`ill` ~ .'
    """
    for option, name in [("--drop", name) for name in drop] + ([] if target is None else [("--target", target)]):
        if name not in frame:
            raise ValueError(f"{option}: {no_column(name, frame.columns)}")
    if target is not None and "`" in target:
        raise ValueError(f"--target: expected a name without backticks, in which a formula sets it, got {target!r}.")
    if (formula is None) == (target is None):
        raise ValueError(
            'expected either --formula, such as "ill ~ age + C(site)", or --target, the column of the response.'
        )
    return formula or f"`{target}` ~ .", frame.drop(columns=drop)


def fit_table(
    stage: Path, frame: Any, formula: str, loss: str | None, rates: str | None, C: float, sampler: Any, **how: Any
) -> Callable[[], None]:
    """Fit a formula, or sample its posterior with the options in ``sampler``, and write the results to ``stage``.

    Returns
    -------
    callable
        Prints the results.

    Raises
    ------
    ValueError
        If the formula, a column or an option cannot be used; or if the formula has Python code, which no file holds.
    """
    from ..data.formulas.formula import encode_formula
    from ..fitting.fit import fit
    from ..posterior.diagnostics.diagnosis import diagnose
    from ..posterior.sampling import sample

    missing = how.pop("missing")
    design = encode_formula(formula, frame, missing=missing, **how)
    if design.y is None:
        raise ValueError(f"--formula: expected a response, as in 'y ~ {formula.strip().lstrip('~').strip()}'.")
    if design.outside:
        raise ValueError(
            f"--formula: {design.outside!r} is Python code, which no file holds for predict; make a column of it in "
            "the table."
        )
    model = replace(_model(design, loss, rates), C=C, missing=missing)
    tell(design)
    result = fit(model, formula, frame, **how) if sampler is None else sample(model, formula, frame, **how, **sampler)
    table = write_results(stage, result)

    def report() -> None:
        tell(result if sampler is None else diagnose(result))
        if table is not None:
            show(table)

    return report


def _model(design: Any, loss: str | None, rates: str | None) -> Any:
    """The model of ``--loss`` and ``--rates``, with priors in units of the columns and of a response of numbers."""
    from .. import losses
    from ..fitting.by_formula import default_model
    from ..priors import Normal
    from ..rates import Fixed, PerFeature, PerGroup, Shared, Tuned

    model = default_model(design, None if loss is None else getattr(losses, loss)())
    named = {"tuned": Tuned, "feature": PerFeature, "group": PerGroup, "shared": Shared}
    if rates in named:
        model = replace(model, rates=named[rates]())
    elif rates is not None:
        try:
            model = replace(model, rates=Fixed(float(rates)))
        except ValueError:
            raise ValueError(
                f"--rates: expected tuned, feature, group, shared or a number in [0, 1), got {rates!r}."
            ) from None
    return replace(model, weight_prior=Normal(1.0, relative=True, of_response=True))


def predict_table(model: Path, path: Path, marks: dict[str, Any], out: Path, keep: list[str]) -> Callable[[], None]:
    """Predict the rows of a table by a file that ``bayesdrop fit`` wrote, and write them as .csv or .parquet.

    Returns
    -------
    callable
        Prints the predictions.

    Raises
    ------
    ValueError
        If there is no such file, it cannot predict these rows, or a column to keep has the name of another.
    """
    from ..fitting.results.result import Fit
    from ..posterior.arviz_groups.groups import load
    from ..posterior.prediction import predict

    frame = read_table(path, **marks)
    files = [model / name for name in ("fit.nc", "posterior.nc")] if model.is_dir() else [model]
    files_present = [file for file in files if file.is_file()]
    if len(files_present) != 1:
        came = "both are there" if files_present else "there is none"
        raise ValueError(
            f"FIT: expected a file {' or '.join(map(str, files))} that bayesdrop fit wrote, and {came}; name one."
        )
    if out.suffix not in (".csv", ".parquet"):
        raise ValueError(f"--out: expected a .csv or .parquet file, got {out.name!r}.")
    for name in keep:
        if name not in frame:
            raise ValueError(f"--keep: {no_column(name, frame.columns)}")
    try:
        result = load(files_present[0]) if _has_draws(files_present[0]) else Fit.load(files_present[0])
    except ValueError as error:
        raise ValueError(f"FIT: {files_present[0]} was not written by bayesdrop fit: {error}") from None
    frame.index = np.arange(1, len(frame) + 1)
    prediction = predict(result, frame)
    table = prediction.to_frame()
    if prediction.classes is not None and "mean" in table:
        table = table.rename(columns={"mean": f"probability_{prediction.classes[1]}"})
    for name in keep:
        if name in ("row", *table.columns) or keep.count(name) > 1:
            raise ValueError(
                f"--keep: expected columns whose names the predictions do not have, each once, got {name!r}; the "
                f"predictions have {', '.join(['row', *table.columns[:8]])}; rename the column in the table."
            )
    # As the table has them: read as numbers, 007 would be 7.
    copied = read_table(path, keep, **marks) if keep else frame
    for name in reversed(keep):
        table.insert(0, name, copied[name].to_numpy())
    number = "row"
    while number in table:  # a class of this name
        number += "_"
    table.insert(0, number, table.index)
    with replacing(out) as temporary:
        write_table(table, temporary, out.suffix)
    return lambda: tell(prediction)


def _has_draws(file: Path) -> bool:
    """Whether a file is a posterior; a damaged one is not."""
    import h5py

    return bool(h5py.is_hdf5(file)) and "posterior" in h5py.File(file)
