"""``bayesdrop predict``: predict the rows of a table by a model that ``bayesdrop fit`` wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._atomic_files import replacing
from ..data.encoding import Encoding
from ..data.files import read_new, takes_blocks
from ..data.table_files import InputError, read_file
from .report import write_csv
from .screen import console, plain

if TYPE_CHECKING:
    from ..fitting.results.result import Fit

__all__ = ["predict_table"]

# Cells of features that are made at a time.
_CELLS = 10_000_000
# What the labels of files without names of columns are called.
_LABEL = "label"


def predict_table(
    model: Path, path: Path, out: Path, *, from_draws: bool = False, unseen: str = "error"
) -> Callable[[], None]:
    """Predict the rows of a table and write them next to the columns that identify rows.

    Parameters
    ----------
    model : Path
        The folder that ``bayesdrop fit`` wrote, or its ``fit.nc``.
    path : Path
        A .csv, .tsv or .parquet file; or features in .npy, .npz or .svmlight, or a folder of them, which are read a
        block at a time.
    out : Path
        The .csv to write.
    from_draws : bool
        Average over the draws in ``posterior.nc``.

    Returns
    -------
    callable
        Prints what was predicted, once the file is where it belongs.

    Raises
    ------
    InputError
        If a file is not there or is none of these, or the columns do not fit.
    """
    from ..posterior.prediction import predict

    file, screen = _fit_file(model), console()
    fit, result, encoding = _load(file, from_draws=from_draws)
    if out.suffix.lower() != ".csv":
        raise InputError(f"--out: expected a .csv file, got {out.name!r}.")
    if not out.parent.is_dir():
        raise InputError(f"--out: the folder {out.parent} does not exist; make it first.")
    if takes_blocks(path):
        frame, parts, notes = _of_files(path, fit, result, encoding)
        encoding = replace(encoding, target=encoding.target or _LABEL)
    else:
        file_read = read_file(path, encoding.header, encoding.columns)
        frame = file_read.frame.rename(columns=str)
        X, notes = encoding.apply(frame, fit.model.missing, unseen)
        notes = file_read.notes + notes
        step = max(1, _CELLS // max(X.shape[1], 1))
        parts = [predict(result, X[first : first + step]) for first in range(0, len(X), step)]
    screen.print(plain(f"{path.name}: {len(frame)} rows."), markup=False)
    for note in notes:
        screen.print(plain(f"Note: {note}"), markup=False)
    table = _columns(frame, encoding, parts, from_draws=from_draws)
    messages = [f"Predicted is {_what(parts[0], from_draws)}.", _compared(frame, encoding, parts)]
    messages.append(f"Written to {out}: {', '.join(map(str, table.columns))}")
    with replacing(out) as temporary:
        write_csv(table, temporary)

    def tell() -> None:
        for line in filter(None, messages):
            screen.print(plain(line), markup=False, soft_wrap=line == messages[-1])

    return tell


def _of_files(path: Path, fit: Fit, result: Any, encoding: Encoding) -> tuple[Any, list[Any], list[str]]:
    """The labels of files of features as far as they are known, predictions of all rows, and no notes."""
    import pandas as pd

    from ..posterior.prediction import predict

    X, labels = read_new(path, encoding, fit.facts)
    try:
        found = predict(result, X)
    except ValueError as error:
        raise InputError(f"TABLE: {str(error).removeprefix('source: ').removeprefix('X: ')}") from None
    frame = pd.DataFrame(index=range(X.shape[0]))
    # Rows without labels often have one number in their place.
    given: Any = [] if labels is None else np.unique(labels)
    if len(given) > 1 and np.isin(given, np.asarray(fit.classes)).all():
        frame[encoding.target or _LABEL] = labels
    return frame, [found], []


def _fit_file(model: Path) -> Path:
    file = model / "fit.nc" if model.is_dir() else model
    if not file.is_file():
        raise InputError(
            f"MODEL: there is no {file}; give the folder that bayesdrop fit wrote (the current folder is {Path.cwd()})."
        )
    return file


def _load(file: Path, *, from_draws: bool) -> tuple[Fit, Any, Encoding]:
    """The fit, itself again or its posterior, and the encoding of the columns."""
    from ..fitting.results.result import Fit
    from ..fitting.results.saved import load_dataset
    from ..posterior.arviz_groups.builder import THINNED, not_kept
    from ..posterior.arviz_groups.groups import dataset, load

    try:
        data = load_dataset(file)
        encoding = Encoding.of(data)
        fit = Fit.from_dataset(data)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            f"MODEL: {file} was not written by bayesdrop fit: {str(error).removeprefix('path: ')}"
        ) from None
    if not from_draws:
        return fit, fit, encoding
    draws = file.with_name("posterior.nc")
    if not draws.is_file():
        raise InputError(f"--posterior: there is no {draws}; bayesdrop fit --sample writes it.")
    try:
        post = load(draws)
        few = dataset(post, THINNED if not_kept(post) else "posterior")
        names = [str(name) for name in few["feature"].values]
    except (ValueError, KeyError) as error:
        raise InputError(f"--posterior: {draws} has no posterior: {error}") from None
    if names != fit.feature_names:
        raise InputError(
            f"--posterior: {draws} belongs to another fit than {file.name}, as its features differ; fit again."
        )
    return fit, post, encoding


def _columns(frame: Any, encoding: Encoding, parts: list[Any], *, from_draws: bool) -> Any:
    """Columns that tell rows apart, or else the number of the row, and the predictions."""
    import pandas as pd

    first = parts[0]
    names = {"label": f"predicted_{encoding.target or 'label'}", "mean": f"predicted_{encoding.target or 'mean'}"}
    if _is_binary(first):
        names["mean"] = f"probability_{first.classes[1]}"
    elif first.classes is not None:
        names |= {str(label): f"probability_{label}" for label in first.classes}
    found = pd.concat([part.to_frame() for part in parts], ignore_index=True).rename(columns=names)
    if not from_draws:  # the noise of the features alone, which is no interval for a response
        found = found.drop(columns=["response_low", "response_high"], errors="ignore")
    known = [name for name in encoding.identifiers if name in frame.columns]
    left = frame[known].reset_index(drop=True) if known else pd.DataFrame({"row": np.arange(1, len(frame) + 1)})
    return pd.concat([left, found], axis=1)


def _what(prediction: Any, from_draws: bool) -> str:
    kind = "the mean response" if prediction.classes is None else "the probability of each class"
    kind = f"the probability of {prediction.classes[1]}" if _is_binary(prediction) else kind
    return f"{kind}, averaged over the {'draws of the posterior' if from_draws else 'noise'}"


def _is_binary(prediction: Any) -> bool:
    return prediction.classes is not None and len(prediction.classes) == 2


def _compared(frame: Any, encoding: Encoding, parts: list[Any]) -> str:
    """How the predictions did where the response is known; empty where it is not."""
    target, classes = encoding.target, parts[0].classes
    if target not in frame.columns:
        return ""
    numbers = classes is None or np.asarray(classes).dtype.kind in "iuf"
    truth, odd = encoding.response(frame[target], classes)
    if odd:
        cell = frame[target].iloc[odd[0]]
        return f"Not compared with {target!r}, for that was a number when the model was fitted and now is {cell!r}."
    known = truth.notna().to_numpy()
    if not known.any():
        return ""
    n = f"{known.sum()} rows" if known.all() else f"{known.sum()} of {len(known)} rows, where it is known"
    if classes is None:
        y = truth[known].to_numpy(dtype=float)
        mean = np.concatenate([part.mean for part in parts])[known]
        spread = float(np.std(y))
        share = f", {1 - np.mean((y - mean) ** 2) / spread**2:.3f} of the variance explained" if spread > 0 else ""
        return f"Compared with {target!r}: RMSE {np.sqrt(np.mean((y - mean) ** 2)):.4g}{share} ({n})."
    label = np.concatenate([part.label for part in parts])[known]
    wrong = (
        label.astype(float) != truth[known].to_numpy(float)
        if numbers
        else label.astype(str) != truth[known].to_numpy(str)
    )
    return f"Compared with {target!r}: {100 * np.mean(wrong):.2f} % of {n} predicted wrong."
