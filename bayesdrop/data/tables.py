"""Read a table into features, names, groups and labels.

Numeric columns enter as they are, or standardised. Columns of text, categories or truth values enter as one 0/1
indicator per level, named ``column[level]`` as by a formula, and the indicators of one column form one group, so that a
group rate is the probability that the whole answer is dropped.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from .frames import encode_factor, level_name

__all__ = ["InputError", "Table", "check_target", "encode", "known_column", "read_frame", "read_table"]

_READERS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"}
# Above this many cells the indicators stay sparse.
_DENSE_CELLS = 5_000_000


class InputError(ValueError):
    """What the user gave cannot be used; the message names it and says what to do."""


@dataclass(frozen=True)
class Table:
    """A two-class problem read from a table.

    Attributes
    ----------
    X : array or scipy.sparse.csr_array (n, p)
        Features.
    y : array (n,)
        Labels.
    feature_names : list of p str
        Column names, ``column[level]`` for indicators.
    groups : list of p str
        Original column of each feature.
    numeric, categorical : list of str
        Original columns by kind.
    centre, scale : array (p,)
        What was subtracted from and divided out of each feature.
    constant : list of str
        Features with one value only. They enter as zeros: weight 0, rate at its prior.
    notes : list of str
        What a reader should know.
    standardized : bool
        Whether numeric columns were standardised.
    """

    X: Any
    y: np.ndarray
    feature_names: list[str]
    groups: list[str]
    numeric: list[str]
    categorical: list[str]
    centre: np.ndarray
    scale: np.ndarray
    constant: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    standardized: bool = True

    @property
    def kinds(self) -> str:
        """Words for the kinds of the columns."""
        scaled = "standardised" if self.standardized else "as they are"
        kinds = [f"{len(self.numeric)} numeric columns {scaled}"] if self.numeric else []
        kinds += [f"{len(self.categorical)} of categories as 0/1 indicators"] if self.categorical else []
        return ", ".join(kinds)


def _listed(names: Sequence[Any], limit: int = 8) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def read_frame(path: Path) -> Any:
    """Read a CSV, TSV or Parquet file into a pandas data frame, or raise InputError."""
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
        separator = "," if kind == "csv" else "\t"
        # The header is read by itself, because pandas would rename a repeated column.
        header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
        _no_duplicates(header.iloc[0].tolist())
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(path, sep=separator, low_memory=False, index_col=False)
    except InputError:
        raise
    except pd.errors.EmptyDataError:
        raise InputError(f"TABLE: {path.name} is empty; expected a header line and rows.") from None
    except pd.errors.ParserWarning:
        raise InputError(f"TABLE: rows of {path.name} have more fields than its header; name every column.") from None
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"TABLE: {path.name} cannot be read as {kind}: {reason}") from None


def _no_duplicates(columns: Sequence[Any]) -> None:
    repeated = sorted(str(name) for name, count in Counter(columns).items() if count > 1)
    if repeated:
        raise InputError(f"TABLE: the column name {_listed(repeated)} occurs more than once; rename the columns.")


def known_column(name: str, columns: Sequence[str], option: str) -> None:
    """Raise InputError unless there is a column of that name."""
    if name not in columns:
        close = get_close_matches(name, columns, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"{option}: no column {name!r} in the table; {hint}The columns are {_listed(columns, 20)}.")


def read_table(path: Path, target: str, drop: Sequence[str] = (), *, standardize: bool = True) -> Table:
    """Read a file and encode it; see :func:`encode`."""
    return encode(read_frame(Path(path)), target, drop, standardize=standardize)


def encode(frame: Any, target: str, drop: Sequence[str] = (), *, standardize: bool = True) -> Table:
    """Turn a data frame into features, names, groups and labels.

    Parameters
    ----------
    frame : pandas.DataFrame (n, ·)
        Table with unique column names.
    target : str
        Column with the two classes.
    drop : sequence of str
        Columns to leave out.
    standardize : bool
        Subtract the mean of each numeric column and divide by its standard deviation. Indicators stay 0/1.

    Raises
    ------
    InputError
        On unknown columns, no rows, missing or infinite values, columns of an unusable kind, or a target that does
        not have two classes.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": [1.0, 3.0], "color": ["red", "blue"], "sold": ["no", "yes"]})
    >>> table = encode(frame, "sold")
    >>> table.feature_names, table.groups
    (['size', 'color[blue]', 'color[red]'], ['size', 'color', 'color'])
    >>> table.X.tolist()
    [[-1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    frame = frame.rename(columns=str)
    columns = list(frame.columns)
    known_column(target, columns, "--target")
    for name in drop:
        known_column(name, columns, "--drop")
    if target in drop:
        raise InputError(f"--drop: {target!r} is the target; drop other columns.")
    frame = frame.drop(columns=list(drop))
    if len(frame) == 0:
        raise InputError("TABLE: no rows, only a header; expected at least one row of each class.")
    features = [name for name in frame.columns if name != target]
    if not features:
        raise InputError(f"TABLE: no column is left beside the target {target!r}; expected at least one feature.")
    missing = frame.isna().sum()
    missing = missing[missing > 0]
    if len(missing):
        counts = ", ".join(f"{name!r} ({count} of {len(frame)})" for name, count in missing.items())
        raise InputError(
            f"TABLE: missing values in {counts}; fill them in, remove those rows, or leave columns out with --drop."
        )
    y = _labels(frame[target], target)
    return _features(frame[features], y, standardize)


def _labels(column: Any, target: str) -> np.ndarray:
    from pandas.api import types

    numeric = types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype)
    y = column.to_numpy(dtype=float if types.is_float_dtype(column.dtype) else None) if numeric else None
    return check_target(np.array([str(label) for label in column]) if y is None else y, "--target", target)


def check_target(y: np.ndarray, option: str, name: str = "the labels") -> np.ndarray:
    """Return the labels, as text unless they are numbers; raise InputError unless there are two classes."""
    numeric = y.dtype.kind in "iuf"
    y = y if numeric else np.array([str(label) for label in y])
    if numeric and not np.all(np.isfinite(y)):
        raise InputError(f"{option}: {name} has missing values; leave out such rows.")
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) == 2:
        return y
    pairs = zip(classes[:6], counts[:6], strict=True)
    found = ", ".join(f"{label} ({count} row{'s' if count > 1 else ''})" for label, count in pairs)
    more = "" if len(classes) <= 6 else f" and {len(classes) - 6} more"
    if len(classes) == 1:
        advice = "give a table with rows of both classes."
    elif numeric and len(classes) > 20:
        advice = "it looks like a measurement: cut it into two classes first."
    else:
        advice = (
            "write a column that is true for one class, or use DropoutSVC or DropoutLogisticRegression in Python, "
            "which solve one class against the rest."
        )
    raise InputError(f"{option}: expected two classes in {name!r}, got {len(classes)}: {found}{more}; {advice}")


def _features(frame: Any, y: np.ndarray, standardize: bool) -> Table:
    from pandas.api import types
    from scipy import sparse

    blocks: list[Any] = []
    names: list[str] = []
    groups: list[str] = []
    numeric: list[str] = []
    categorical: list[str] = []
    centre: list[float] = []
    scale: list[float] = []
    constant: list[str] = []
    notes: list[str] = []
    for name in frame.columns:
        column = frame[name]
        if types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
            values = _numbers(column, name)
            numeric.append(name)
            same = bool(np.all(values == values[0]))
            middle = float(values.mean()) if standardize else 0.0
            spread = float(values.std()) if standardize and not same else 1.0
            blocks.append(np.zeros((len(values), 1)) if same else ((values - middle) / spread)[:, None])
            names.append(name)
            groups.append(name)
            centre.append(middle)
            scale.append(spread)
            constant += [name] if same else []
            continue
        try:
            block, levels = encode_factor(column)
        except ValueError as kind:
            raise InputError(
                f"TABLE: column {name!r} holds {kind} values, neither numbers nor text; turn it into numbers or text, "
                "or leave it out with --drop."
            ) from None
        categorical.append(name)
        blocks.append(block if len(levels) > 1 else sparse.csr_array(block.shape))
        new = [level_name(name, level) for level in levels]
        constant += new if len(levels) == 1 else []
        names += new
        groups += [name] * len(levels)
        centre += [0.0] * len(levels)
        scale += [1.0] * len(levels)
        if len(levels) > max(20, len(column) // 2):
            notes.append(
                f"{name!r} has {len(levels)} levels in {len(column)} rows: if it is an identifier, leave it out "
                f"with --drop {name!r}."
            )
    _distinct(names)
    if constant:
        notes.append(f"constant, so without weight and with the rate at its prior: {_listed(constant)}.")
    if len(constant) == len(names):
        raise InputError("TABLE: every feature is constant, so there is nothing to fit; give columns that vary.")
    if len(y) * len(names) <= _DENSE_CELLS or not categorical:
        X: Any = np.hstack([block.toarray() if hasattr(block, "toarray") else block for block in blocks])
    else:
        X = sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr")
        notes.append(f"{X.shape[1]} features are kept sparse ({X.nnz / (X.shape[0] * X.shape[1]):.1%} non-zero).")
    return Table(
        X, y, names, groups, numeric, categorical, np.array(centre), np.array(scale), constant, notes, standardize
    )


def _numbers(column: Any, name: str) -> np.ndarray:
    if np.issubdtype(np.asarray(column).dtype, np.complexfloating):
        raise InputError(f"TABLE: column {name!r} holds complex numbers; split it into real columns, or --drop it.")
    values = column.to_numpy(dtype=float)
    bad = int(np.sum(~np.isfinite(values)))
    if bad:
        raise InputError(
            f"TABLE: column {name!r} has {bad} infinite value{'s' if bad > 1 else ''}; replace them by finite numbers, "
            "or leave the column out with --drop."
        )
    return values


def _distinct(names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise InputError(f"TABLE: two features would both be called {_listed(repeated)}; rename one of the columns.")
