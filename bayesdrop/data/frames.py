"""Convert data frames to pandas with plain types and text names, for formulas and the command line.

Errors name the columns, count the rows and say what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import numpy as np

from .._validation import LIMITS, cells_shown, is_table, listed, open_table, spoilt_cells, text_names

__all__ = [
    "SHOWN",
    "Limits",
    "as_frame",
    "mostly_zeros",
    "no_column",
    "refuse_kinds",
    "refuse_missing",
    "refuse_text",
    "to_pandas",
]


@dataclass(frozen=True)
class Limits:
    """Numbers of what messages show, and when features are sparse.

    Attributes
    ----------
    names, levels, few : int
        Names of columns, known levels, and unknown names or levels that a message shows.
    filled : float
        Share of non-zero entries below which features are stored as compressed rows.
    effects : int
        Numbers of the columns of random terms above which features are: dense ones save more time than the zeros of
        few effects cost.
    """

    names: int = 20
    levels: int = 12
    few: int = 5
    filled: float = 0.3
    effects: int = 10**7


SHOWN = Limits()


def mostly_zeros(X: Any) -> bool:
    """Whether at least seven in ten entries of compressed rows are zero, so that an array would waste time and memory.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> mostly_zeros(csr_array([[0.0, 0, 0, 1]])), mostly_zeros(csr_array([[0.0, 1]]))
    (True, False)
    """
    return bool(X.nnz < SHOWN.filled * X.shape[0] * X.shape[1])


def no_column(name: str, columns: Iterable[str]) -> str:
    """Message for an unknown column, with a similar name and the known names."""
    close = get_close_matches(name, list(columns), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"no column {name!r}{hint} The columns are {listed(columns)}."


def as_frame(data: Any, name: str = "data", why: str = "") -> Any:
    """Convert any table to a pandas data frame with its names and types; raise TypeError for other objects.

    Parameters
    ----------
    data : table
        The value passed; see :mod:`bayesdrop._validation.table`.
    name, why : str
        Argument, and the reason why it must be a table, for the message.

    Examples
    --------
    >>> as_frame([1.0], "y", "for X is a formula")
    Traceback (most recent call last):
    TypeError: y: expected a data frame or a dict of columns, for X is a formula, got list; name the columns of an array
    by pandas.DataFrame(array, columns=names).
    """
    table = open_table(data, name)
    if not is_table(table):
        raise TypeError(
            f"{name}: expected a data frame or a dict of columns{', ' if why else ''}{why}, got {type(data).__name__}; "
            "name the columns of an array by pandas.DataFrame(array, columns=names)."
        )
    return table.to_pandas()


def to_pandas(data: Any) -> Any:
    """Convert any table to a pandas data frame with text names and plain types; raise an error otherwise."""
    import pandas as pd
    from pandas.api import types

    frame = as_frame(data)
    text_names(frame.columns, "data")
    frame = frame.rename(columns=str).reset_index(drop=True)
    if len(frame) == 0:
        raise ValueError("data: expected at least one row, got none.")
    plain: dict[str, Any] = {}
    for name, objects in frame.items():
        column = _of_numbers(objects)
        if column is not objects:
            plain[str(name)] = column
        # formulaic knows only NumPy's types: it would read other text as numbers, and numbers of Arrow as objects.
        if isinstance(column.dtype, np.dtype | pd.CategoricalDtype):
            # Small integers would overflow in the arithmetic of a formula, and statistics would be in single precision.
            if column.dtype.kind in "iuf" and column.dtype not in (np.int64, np.float64, np.uint64):
                plain[str(name)] = column.astype(np.float64 if column.dtype.kind == "f" else np.int64)
            continue
        if types.is_string_dtype(column.dtype) or (types.is_bool_dtype(column.dtype) and column.hasnans):
            plain[str(name)] = column.astype(object)
        elif types.is_bool_dtype(column.dtype):
            plain[str(name)] = column.astype(bool)
        elif types.is_numeric_dtype(column.dtype):
            whole = types.is_integer_dtype(column.dtype) and not column.hasnans
            plain[str(name)] = column.astype(np.int64 if whole else np.float64)
        elif str(column.dtype).startswith("dictionary<"):  # categories of Arrow
            plain[str(name)] = import_module("pyarrow").array(column.array).to_pandas()
    for name, column in plain.items():  # assign() does not accept a column called self
        frame[name] = column
    return frame


def _of_numbers(column: Any) -> Any:
    """Convert numbers and truth values that are stored as objects; others, and long integers with gaps, are unchanged.

    They would be levels of a factor, one for each row of a measurement.

    Examples
    --------
    >>> import pandas as pd
    >>> _of_numbers(pd.Series([1, 2.5, None], dtype=object)).tolist()
    [1.0, 2.5, nan]
    """
    import pandas as pd

    kind = pd.api.types.infer_dtype(column, skipna=True) if column.dtype == object else ""
    if kind == "boolean" and not column.hasnans:
        return column.astype(bool)
    if kind not in ("integer", "floating", "mixed-integer-float"):
        return column
    numbers = pd.to_numeric(column)
    is_exact = numbers.dtype.kind in "iu" or (numbers.dtype.kind == "f" and not abs(numbers).max() >= 2.0**53)
    return numbers if is_exact or kind != "integer" else column


def refuse_missing(names: list[str], frame: Any, more: str = "") -> None:
    """Raise ValueError if one of these columns has missing values, with their numbers and ``more`` advice."""
    missing = frame[names].isna().sum()
    missing = missing[missing > 0]
    if len(missing):
        counts = ", ".join(f"{name!r} ({count} of {len(frame)} rows)" for name, count in missing.items())
        raise ValueError(f"data: missing values in {counts}; fill them in, or leave those rows out{more}.")


def refuse_kinds(names: list[str], frame: Any) -> None:
    """Raise ValueError if one of these columns holds neither numbers nor text, truth values or categories."""
    from pandas.api import types

    for name in names:
        kind = types.infer_dtype(frame[name], skipna=True)
        if kind not in {"string", "boolean", "categorical", "integer", "floating", "mixed-integer-float"}:
            raise ValueError(
                f"data: column {name!r} holds {kind} values, neither numbers nor text; turn it into numbers or text."
            )


def refuse_complex(values: Any, names: list[str]) -> None:
    """Raise ValueError if a matrix with columns ``names`` holds complex numbers.

    Examples
    --------
    >>> refuse_complex(np.array([[1j, 0]]), ["a", "b"])
    Traceback (most recent call last):
    ValueError: data: complex numbers in 'a'; give their real and imaginary parts as two columns.
    """
    if values.dtype.kind == "c":
        wrong = np.flatnonzero(abs(values.imag).sum(axis=0)) if abs(values.imag).sum() else range(len(names))
        raise ValueError(
            f"data: complex numbers in {listed([names[j] for j in wrong])}; give their real and imaginary parts as two "
            "columns."
        )


def refuse_text(name: str, frame: Any, advice: str) -> None:
    """Raise ValueError if a text column holds mostly numbers, or has a level for nearly every row.

    ``advice`` says how to declare that it is a factor.
    """
    from pandas.api import types

    column = frame[name].dropna()
    if types.infer_dtype(column) not in ("string", "mixed", "mixed-integer") or not len(column):
        return
    cells, levels = column.tolist(), len(set(column.map(str)))
    odd = spoilt_cells(cells)
    if odd or (odd is not None and levels > LIMITS.few_levels):
        where = f" but for {len(odd)} of {len(cells)} cells, {cells_shown(cells, column.index, odd)}" if odd else ""
        coerce = ", errors='coerce'" if odd else ""
        raise ValueError(
            f"data: column {name!r} is text, and holds numbers{where}; make numbers of it by "
            f"pd.to_numeric(data[{name!r}]{coerce}), or, {advice}."
        )
    if levels > LIMITS.few_levels and levels >= LIMITS.level_share * len(cells):
        raise ValueError(
            f"data: column {name!r} is text, and has {levels} levels in {len(cells)} rows, such as "
            f"{cells_shown(cells, column.index, [0, 1])}; leave it out if it tells rows apart, turn it into numbers by "
            f"pd.to_numeric(data[{name!r}]) if it holds some, or, {advice}."
        )
