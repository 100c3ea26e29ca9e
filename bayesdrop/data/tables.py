"""Read a table into features, names, groups and a response.

Numeric columns enter as they are, or standardised. Columns of text, categories or truth values enter as one 0/1
indicator per level, named ``column[level]`` as by a formula, and the indicators of one column form one group, so that a
group rate is the probability that the whole answer is dropped. A column that only tells rows apart is left out: text
that differs in all of them, or the numbers of the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .columns import Column, Reading, column_of, decimal_mark, describe, read_texts
from .encoding import Encoding, count_missing, numbers, refuse_missing
from .frames import encode_factor, few_filled, level_name, listed
from .numerals import Numerals, is_missing_mark
from .responses import response_column, response_of
from .table_files import InputError, known_column, read_file

__all__ = ["Table", "encode", "read_table"]

_PLAIN = Reading()

# From so many rows on a column that differs in all of them is none by chance.
_IDENTIFIER_ROWS = 20


@dataclass(frozen=True)
class Table:
    """Features and a response read from a table.

    Attributes
    ----------
    X : array or scipy.sparse.csr_array (n, p)
        Features.
    y : array (n,)
        Labels, or numbers where ``classes`` is 0.
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
    levels : list of p str
        Level of an indicator, empty for a number.
    target : str
        Column of the response.
    identifiers : list of str
        Columns that were left out because they only tell rows apart.
    classes : int
        Number of classes of the response; 0 if it is a number.
    missing : None or "nan"
        Whether NaN in ``X`` is a missing value, or there is none.
    column_types : list of (str, str, str)
        Each column of the table, what it was taken for, and what a reader should know of that.
    numerals : mapping from str to Numerals
        How the columns of numbers are written.
    na : tuple of str
        Cells that stand for missing values.
    header : str
        ``"first"`` if the first line of the file has the names, ``"none"`` if it is a row.
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
    levels: list[str] = field(default_factory=list)
    target: str = ""
    identifiers: list[str] = field(default_factory=list)
    classes: int = 2
    missing: str | None = None
    column_types: list[tuple[str, str, str]] = field(default_factory=list)
    numerals: Mapping[str, Numerals] = field(default_factory=dict)
    na: tuple[str, ...] = ()
    header: str = "first"
    in_blocks: ClassVar[bool] = False

    @property
    def encoding(self) -> Encoding:
        """How other rows become the same features."""
        is_level = np.isin(self.groups, self.categorical)
        return Encoding(
            self.groups, self.levels, is_level, self.centre, self.scale, self.target, self.identifiers,
            self.numerals, self.na, self.header,
        )  # fmt: skip

    @property
    def kinds(self) -> str:
        """Words for the kinds of the columns."""
        scaled = "standardised" if self.standardized else "as they are"
        kinds = [f"{len(self.numeric)} numeric columns {scaled}"] if self.numeric else []
        kinds += [f"{len(self.categorical)} of categories as 0/1 indicators"] if self.categorical else []
        return ", ".join(kinds)


def read_table(
    path: Path,
    target: str,
    drop: Sequence[str] = (),
    *,
    header: str = "auto",
    reading: Reading = _PLAIN,
    **options: Any,
) -> Table:
    """Read a file, as :func:`.read_file` takes ``header``, and encode it; see :func:`encode`."""
    file = read_file(Path(path), header, [target])
    table = encode(file.frame, target, drop, reading=reading, separator=file.separator, **options)
    kept = "none" if header == "none" else "first"
    return replace(table, notes=file.notes + table.notes, header=kept)


def encode(
    frame: Any,
    target: str,
    drop: Sequence[str] = (),
    *,
    keep: Sequence[str] = (),
    standardize: bool = True,
    response: str = "auto",
    missing: str | None = None,
    reading: Reading = _PLAIN,
    drop_missing_target: bool = False,
    separator: str = "",
    dense_cells: int = 5_000_000,
) -> Table:
    """Turn a data frame into features, names, groups and a response.

    Parameters
    ----------
    frame : pandas.DataFrame (n, ·)
        Table with unique column names.
    target : str
        Column of the response.
    drop : sequence of str
        Columns to leave out.
    keep : sequence of str
        Columns to keep although they look like identifiers or hold dates.
    standardize : bool
        Subtract the mean of each numeric column and divide by its standard deviation. Indicators stay 0/1.
    response : str
        ``"classes"``, ``"number"``, or ``"auto"``: text, truth values, numbers of two values and whole numbers of at
        most ten are classes, other numbers are numbers.
    missing : None or "nan"
        None: missing values are an error. ``"nan"``: those of features are NaN, in all indicators of their column, for
        models that take them (:class:`bayesdrop.Model`); a number is standardised by the others.
    reading : Reading
        What the user says of the cells.
    drop_missing_target : bool
        Leave out the rows without a response, which are an error otherwise.
    separator : str
        What stood between the columns of a file.
    dense_cells : int
        Above this many cells the indicators stay sparse.

    Raises
    ------
    InputError
        On unknown columns, no rows, missing or infinite values, columns of an unusable kind or with cells of another,
        or a target that has one class only or is not a number where one is wanted.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": ["1,5", "3"], "color": ["red", "blue"], "sold": ["no", "yes"]})
    >>> table = encode(frame, "sold")
    >>> table.feature_names, table.groups
    (['size', 'color[blue]', 'color[red]'], ['size', 'color', 'color'])
    >>> table.X.tolist()
    [[-1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    frame = frame.rename(columns=str)
    columns = list(frame.columns)
    known_column(target, columns, "--target")
    for option, names in (("--drop", drop), ("--keep", keep), ("--types", reading.types)):
        for name in names:
            known_column(name, columns, option)
    if target in drop:
        raise InputError(f"--drop: {target!r} is the target; drop other columns.")
    frame = frame.drop(columns=list(drop))
    if len(frame) == 0:
        raise InputError("TABLE: no rows, only a header; expected at least one row of each class.")
    if len(frame.columns) == 1:
        raise InputError(f"TABLE: no column is left besides the target {target!r}; expected at least one feature.")
    mark = decimal_mark(frame, reading)
    outcome = response_column(frame[target], target, reading, mark, separator)
    notes = []
    gone = outcome.values.isna().to_numpy()
    if drop_missing_target and gone.any():
        notes.append(f"{gone.sum()} of {len(frame)} rows without a value of {target!r} left out.")
        frame = frame[~gone]
        if len(frame) == 0:
            raise InputError(f"--target: {target!r} has no value in any row.")
        outcome = response_column(frame[target].infer_objects(), target, reading, mark, separator)
    advice = "remove those rows, as --drop-missing-target does, for what is missing cannot be explained"
    refuse_missing({target: outcome}, advice)
    parsed = {name: column_of(frame[name], name, reading, mark, separator) for name in frame.columns if name != target}
    parsed = {name: _kept(frame[name], column, name in keep, reading) for name, column in parsed.items()}
    used = {name: column for name, column in parsed.items() if column.kind in ("number", "categories")}
    identifiers = [name for name, column in parsed.items() if name not in used and _differs(column)]
    if not used:
        raise InputError(
            f"TABLE: {listed(parsed, 8)} only tell rows apart or hold dates, and no other column is left besides the "
            "target; keep such a column as a feature by --keep."
        )
    if missing is None:
        advice = "--missing takes them for dropped entries; or fill them in, remove those rows, or --drop those columns"
        refuse_missing(used, advice)
    y, classes, more = response_of(outcome, target, response)
    table = _features(used, y, standardize, missing, dense_cells)
    notes += more + _remarks(parsed, keep)
    if counts := count_missing(used):
        notes.append(f"missing entries, taken for dropped ones: {counts}.")
    column_types = {
        target: (outcome, "number" if classes == 0 else f"{classes} classes"),
        **{n: (c, "") for n, c in parsed.items()},
    }
    return replace(
        table, target=target, identifiers=identifiers, classes=classes, notes=notes + table.notes, missing=missing,
        numerals={name: column.numerals for name, (column, _) in column_types.items() if column.kind == "number"},
        na=reading.na, column_types=[(name, *describe(*column_types[name])) for name in frame.columns],
    )  # fmt: skip


def _kept(column: Any, found: Column, keep: bool, reading: Reading) -> Column:
    """A column as a feature, or as one that tells rows apart; raise InputError if it has no values."""
    if found.kind == "empty":
        raise InputError(f"TABLE: column {column.name!r} has no value in any row; leave it out with --drop.")
    if found.kind == "date" and keep:
        texts, marks = read_texts(column, reading.na)
        return Column("categories", texts, marks=marks)
    has_type = column.name in reading.types
    return replace(found, kind="identifier") if not keep and not has_type and _tells_rows_apart(found) else found


def _tells_rows_apart(found: Column) -> bool:
    """True of text that differs in all rows, and of whole numbers that count them in any order."""
    from pandas.api import types

    column = found.values
    n, whole = len(column), types.is_integer_dtype(column.dtype)
    if n < _IDENTIFIER_ROWS or found.kind == "date" or (found.kind == "number" and not whole):
        return False
    return _differs(found) and (not whole or int(column.max()) - int(column.min()) == n - 1)


def _differs(found: Column) -> bool:
    """True if no two rows have the same value."""
    return bool(found.kind == "identifier" or found.values.nunique(dropna=True) == len(found.values))


def _remarks(columns: dict[str, Column], keep: Sequence[str]) -> list[str]:
    """Notes on columns that are left out, and on levels that may stand for missing values."""
    notes = []
    identifiers = [name for name, column in columns.items() if column.kind == "identifier"]
    if identifiers:
        them, they = ("it", "it only tells") if len(identifiers) == 1 else ("one", "they only tell")
        notes.append(f"{listed(identifiers, 8)} left out, for {they} rows apart; --keep NAME makes {them} a feature.")
    if dates := [name for name, column in columns.items() if column.kind == "date"]:
        notes.append(
            f"{listed(dates, 8)} left out, for dates are no features; turn them into numbers, such as days since an "
            "event, or --keep NAME takes each for a level."
        )
    for name, column in columns.items():
        if column.kind != "categories":
            continue
        levels = sorted(level for level in column.values.dropna().unique() if is_missing_mark(level))
        if levels:
            notes.append(f"{listed(levels, 3)} of {name!r} is a level as others; --na {levels[0]} makes it missing.")
        if column.why.startswith("numbers but"):
            notes.append(f"{name!r} was taken for categories: {column.why}.")
    return notes


def _factor(column: Any) -> tuple[Any, list[str]]:
    """Indicators (n, levels) and levels of a factor; a row without a value has NaN in all of them."""
    from scipy import sparse

    there = column.notna().to_numpy()
    block, levels = encode_factor(column[there])
    known, gone = np.flatnonzero(there), np.flatnonzero(~there)
    rows = np.concatenate([known, np.repeat(gone, len(levels))])
    columns = np.concatenate([block.indices, np.tile(np.arange(len(levels)), len(gone))])
    values = np.where(np.arange(len(rows)) < len(known), 1.0, np.nan)
    return sparse.csr_array((values, (rows, columns)), shape=(len(there), len(levels))), levels


def _features(
    columns: Mapping[str, Column], y: np.ndarray, standardize: bool, missing: str | None, dense_cells: int
) -> Table:
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
    every_level: list[str] = []
    for name, column in columns.items():
        if column.kind == "number":
            values = numbers(column.values, name, missing)
            known = values[~np.isnan(values)]
            numeric.append(name)
            same = bool(np.all(known == known[0]))
            middle = float(known[0] if same else known.mean()) if same or standardize else 0.0
            spread = float(known.std()) if standardize and not same else 1.0
            blocks.append(np.zeros((len(values), 1)) if same else ((values - middle) / spread)[:, None])
            names.append(name)
            groups.append(name)
            centre.append(middle)
            scale.append(spread)
            constant += [name] if same else []
            every_level.append("")
            continue
        block, levels = _factor(column.values)
        categorical.append(name)
        blocks.append(block if len(levels) > 1 else sparse.csr_array(block.shape))
        new = [level_name(name, level) for level in levels]
        constant += new if len(levels) == 1 else []
        names += new
        every_level += levels
        groups += [name] * len(levels)
        centre += [0.0] * len(levels)
        scale += [1.0] * len(levels)
        if len(levels) > max(20, len(y) // 2):
            notes.append(
                f"{name!r} has {len(levels)} levels in {len(y)} rows: if it is an identifier, leave it out "
                f"with --drop {name!r}."
            )
    _distinct(names)
    if constant:
        notes.append(f"constant, so without weight and with the rate at its prior: {listed(constant, 8)}.")
    if len(constant) == len(names):
        raise InputError("TABLE: every feature is constant, so there is nothing to fit; give columns that vary.")
    filled = sum(block.nnz if hasattr(block, "nnz") else block.size for block in blocks)
    cells = len(y) * len(names)
    if cells <= dense_cells or not few_filled(filled, cells):
        X: Any = np.hstack([block.toarray() if hasattr(block, "toarray") else block for block in blocks])
    else:
        X = sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr")
        notes.append(f"{X.shape[1]} features are kept sparse ({X.nnz / (X.shape[0] * X.shape[1]):.1%} non-zero).")
    return Table(
        X, y, names, groups, numeric, categorical, np.array(centre), np.array(scale), constant, notes, standardize,
        every_level,
    )  # fmt: skip


def _distinct(names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise InputError(f"TABLE: two features would both be called {listed(repeated, 8)}; rename one of the columns.")
