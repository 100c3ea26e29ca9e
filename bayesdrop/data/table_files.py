"""Read a table from a file: CSV with any usual separator, TSV or Parquet, with an error that says what to do."""

from __future__ import annotations

import csv
import gzip
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .frames import listed

__all__ = ["InputError", "known_column", "read_frame"]

_READERS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"}
_SEPARATORS = ",;\t|"
# A header longer than this is no line of a table.
_HEADER = 1 << 20
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*|\s*[-+]?\d+\s*")


class InputError(ValueError):
    """What the user gave cannot be used; the message names it and says what to do."""


def read_frame(path: Path) -> Any:
    r"""Read a file into a pandas data frame, or raise InputError.

    The separator of a ``.csv`` file is the one of comma, semicolon, tab and bar that its header has most often outside
    of quotes. Where that is a semicolon a column may have decimal commas.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "export.csv"
    >>> _ = path.write_text("size;color\n1,5;red\n2,5;blue\n")
    >>> read_frame(path)["size"].tolist()
    [1.5, 2.5]
    """
    import pandas as pd

    name = path.name.lower()
    kind = _READERS.get(Path(name.removesuffix(".gz")).suffix if name.endswith(".gz") else Path(name).suffix)
    if path.is_dir():
        raise InputError(f"TABLE: {path} is a folder; give a .csv, .tsv or .parquet file.")
    if not path.exists():
        raise InputError(f"TABLE: {path} does not exist; check the path (the current folder is {Path.cwd()}).")
    if kind is None or (kind == "parquet" and name.endswith(".gz")):
        raise InputError(f"TABLE: unknown format of {path.name}; expected .csv, .tsv (also .gz) or .parquet.")
    try:
        if kind == "parquet":
            from pyarrow import parquet

            columns = parquet.read_schema(path).names
            _no_duplicates(columns)
            return pd.read_parquet(path)
        separator = _separator(path) if kind == "csv" else "\t"
        # The header is read by itself, because pandas would rename a repeated column.
        header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
        _no_duplicates(header.iloc[0].tolist())
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(path, sep=separator, low_memory=False, index_col=False)
        return _with_decimal_commas(frame) if separator == ";" else frame
    except InputError:
        raise
    except pd.errors.EmptyDataError:
        raise InputError(f"TABLE: {path.name} is empty; expected a header line and rows.") from None
    except pd.errors.ParserWarning:
        raise InputError(f"TABLE: rows of {path.name} have more fields than its header; name every column.") from None
    except (OSError, ValueError, csv.Error) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"TABLE: {path.name} cannot be read as {kind}: {reason}") from None


def known_column(name: str, columns: Sequence[str], option: str) -> None:
    """Raise InputError unless there is a column of that name."""
    if name not in columns:
        close = get_close_matches(name, columns, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"{option}: no column {name!r} in the table; {hint}The columns are {listed(columns, 20)}.")


def _separator(path: Path) -> str:
    """Separator of the header line of a CSV file."""
    with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
        header = file.readline(_HEADER).decode("utf-8", errors="replace")
    counts = {mark: len(next(csv.reader([header], delimiter=mark), [])) for mark in _SEPARATORS}
    return max(counts, key=lambda mark: counts[mark])


def _with_decimal_commas(frame: Any) -> Any:
    """Columns of text that are numbers with a decimal comma, as numbers."""
    from pandas.api import types

    numbers = {}
    for name, column in frame.items():
        if types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype):
            continue
        text = column.dropna().astype(str)
        if len(text) and text.map(lambda value: _DECIMAL_COMMA.fullmatch(value) is not None).all():
            numbers[name] = column.astype(object).map(_number, na_action="ignore").astype(float)
    return frame.assign(**numbers)


def _number(text: Any) -> float:
    return float(str(text).replace(",", "."))


def _no_duplicates(columns: Sequence[Any]) -> None:
    repeated = sorted(str(name) for name, count in Counter(columns).items() if count > 1)
    if repeated:
        raise InputError(f"TABLE: the column name {listed(repeated, 8)} occurs more than once; rename the columns.")
