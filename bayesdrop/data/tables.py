"""Read a table into features, names, groups and a response.

Numeric columns enter as they are, or standardised. Columns of text, categories or truth values enter as one 0/1
indicator per level, named ``column[level]`` as by a formula, and the indicators of one column form one group, so that a
group rate is the probability that the whole answer is dropped. A column that only tells rows apart is left out: text
that differs in all of them, or the numbers of the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .encoding import Encoding, count_missing, numbers, refuse_missing
from .frames import encode_factor, level_name, listed
from .table_files import InputError, known_column, read_frame

__all__ = ["Table", "check_target", "encode", "read_table"]

# Above this many cells the indicators stay sparse.
_DENSE_CELLS = 5_000_000
# From so many rows on a column that differs in all of them is none by chance.
_IDENTIFIER_ROWS = 20
# Whole numbers of so many values are classes unless a loss for numbers is asked for.
_MOST_CODES = 10


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
    in_blocks: ClassVar[bool] = False

    @property
    def encoding(self) -> Encoding:
        """How other rows become the same features."""
        is_level = np.isin(self.groups, self.categorical)
        return Encoding(self.groups, self.levels, is_level, self.centre, self.scale, self.target, self.identifiers)

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
    keep: Sequence[str] = (),
    standardize: bool = True,
    response: str = "auto",
    missing: str | None = None,
) -> Table:
    """Read a file and encode it; see :func:`encode`."""
    frame = read_frame(Path(path))
    return encode(frame, target, drop, keep=keep, standardize=standardize, response=response, missing=missing)


def encode(
    frame: Any,
    target: str,
    drop: Sequence[str] = (),
    *,
    keep: Sequence[str] = (),
    standardize: bool = True,
    response: str = "auto",
    missing: str | None = None,
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
        Columns to keep although they look like identifiers.
    standardize : bool
        Subtract the mean of each numeric column and divide by its standard deviation. Indicators stay 0/1.
    response : str
        ``"classes"``, ``"number"``, or ``"auto"``: text, truth values, numbers of two values and whole numbers of at
        most ten are classes, other numbers are numbers.
    missing : None or "nan"
        None: missing values are an error. ``"nan"``: those of features are NaN, in all indicators of their column, for
        models that take them (:class:`bayesdrop.Model`); a number is standardised by the others.

    Raises
    ------
    InputError
        On unknown columns, no rows, missing or infinite values, columns of an unusable kind, or a target that has one
        class only or is no number where one is wanted.

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
    for option, names in (("--drop", drop), ("--keep", keep)):
        for name in names:
            known_column(name, columns, option)
    if target in drop:
        raise InputError(f"--drop: {target!r} is the target; drop other columns.")
    frame = frame.drop(columns=list(drop))
    if len(frame) == 0:
        raise InputError("TABLE: no rows, only a header; expected at least one row of each class.")
    features = [name for name in frame.columns if name != target]
    if not features:
        raise InputError(f"TABLE: no column is left beside the target {target!r}; expected at least one feature.")
    identifiers = [name for name in features if name not in keep and _tells_rows_apart(frame[name])]
    if len(identifiers) == len(features):
        raise InputError(
            f"TABLE: {listed(identifiers, 8)} only tell rows apart, and no other column is left beside the target; "
            "keep such a column as a feature by --keep."
        )
    frame = frame.drop(columns=identifiers)
    refuse_missing(frame[[target]], "remove those rows, for what is missing cannot be explained")
    if missing is None:
        advice = "--missing takes them for dropped entries; or fill them in, remove those rows, or --drop those columns"
        refuse_missing(frame, advice)
    y, classes, notes = _response(frame[target], target, response)
    table = _features(frame.drop(columns=target), y, standardize, missing)
    if identifiers:
        them, they = ("it", "it only tells") if len(identifiers) == 1 else ("one", "they only tell")
        notes.append(f"{listed(identifiers, 8)} left out, for {they} rows apart; --keep NAME makes {them} a feature.")
    if counts := count_missing(frame):
        notes.append(f"missing entries, taken for dropped ones: {counts}.")
    return replace(
        table, target=target, identifiers=identifiers, classes=classes, notes=notes + table.notes, missing=missing
    )


def _tells_rows_apart(column: Any) -> bool:
    """True of text that differs in all rows, and of whole numbers that count them in any order."""
    from pandas.api import types

    n, whole = len(column), types.is_integer_dtype(column.dtype)
    if n < _IDENTIFIER_ROWS or not (whole or types.infer_dtype(column) in ("string", "categorical")):
        return False
    return column.nunique(dropna=True) == n and (not whole or int(column.max()) - int(column.min()) == n - 1)


def _response(column: Any, target: str, wanted: str) -> tuple[np.ndarray, int, list[str]]:
    """The response, its number of classes (0 of a number), and notes."""
    from pandas.api import types

    numeric = types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype)
    if wanted == "number" and not numeric:
        raise InputError(f"--target: a loss for numbers needs a column of numbers, got {target!r} of {column.dtype}.")
    if not numeric:
        y = check_target(np.array([str(label) for label in column]), "--target", target, several=True)
        return y, len(np.unique(y)), []
    y = column.to_numpy(dtype=float if types.is_float_dtype(column.dtype) else None)
    values = np.unique(y[np.isfinite(y.astype(float))])
    codes = len(values) <= 2 or (len(values) <= _MOST_CODES and bool(np.all(values == np.round(values))))
    if wanted == "number" or (wanted == "auto" and not codes):
        y = numbers(column, target)
        if np.all(y == y[0]):
            raise InputError(f"--target: {target!r} is {y[0]:g} in every row, so there is nothing to explain.")
        return y, 0, []
    y = check_target(y, "--target", target, several=True)
    notes = []
    if wanted == "auto" and len(values) > 2:
        notes = [f"{target!r} has {len(values)} whole numbers: classes. --loss squared takes it for a number."]
    return y, len(values), notes


def check_target(y: np.ndarray, option: str, name: str = "the labels", *, several: bool = False) -> np.ndarray:
    """Return the labels, as text unless they are numbers; raise InputError unless there are two classes, or several."""
    numeric = y.dtype.kind in "iuf"
    y = y if numeric else np.array([str(label) for label in y])
    if numeric and not np.all(np.isfinite(y)):
        raise InputError(f"{option}: {name} has missing values; leave out such rows.")
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) == 2 or (several and 2 < len(classes) <= max(len(y) // 2, 2)):
        return y
    pairs = zip(classes[:6], counts[:6], strict=True)
    found = ", ".join(f"{label} ({count} row{'s' if count > 1 else ''})" for label, count in pairs)
    more = "" if len(classes) <= 6 else f" and {len(classes) - 6} more"
    if len(classes) == 1:
        advice = "give a table with rows of both classes."
    elif several:
        advice = "most rows have a class of their own; name the column of the response."
    elif numeric and len(classes) > 20:
        advice = "it looks like a measurement: cut it into two classes first."
    else:
        advice = (
            "write a column that is true for one class, or use DropoutSVC or DropoutLogisticRegression in Python, "
            "which solve one class against the rest."
        )
    wanted = "classes of several rows each" if several and len(classes) > 2 else "two classes"
    raise InputError(f"{option}: expected {wanted} in {name!r}, got {len(classes)}: {found}{more}; {advice}")


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


def _features(frame: Any, y: np.ndarray, standardize: bool, missing: str | None) -> Table:
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
    every_level: list[str] = []
    for name in frame.columns:
        column = frame[name]
        if types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
            values = numbers(column, name, missing)
            known = values[~np.isnan(values)]
            if not len(known):
                raise InputError(f"TABLE: column {name!r} has no value in any row; leave it out with --drop.")
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
        try:
            block, levels = _factor(column)
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
        every_level += levels
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
        notes.append(f"constant, so without weight and with the rate at its prior: {listed(constant, 8)}.")
    if len(constant) == len(names):
        raise InputError("TABLE: every feature is constant, so there is nothing to fit; give columns that vary.")
    if len(y) * len(names) <= _DENSE_CELLS or not categorical:
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
