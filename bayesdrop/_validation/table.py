"""Validate tables of any library, the names of their columns and their numbers, for every public function.

A table is a data frame of pandas, polars, pyarrow or another library that narwhals knows, a mapping from name to
column, an array of records, an xarray Dataset of columns, or an xarray DataArray with labels of its columns.

Also convert labels, responses or weights of any kind to a NumPy array with a value per row.
"""

from __future__ import annotations

import numbers
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from .objects import refuse_masked, refuse_scalar, refuse_surrogates, shown, stored_index
from .text_columns import LIMITS, cells_shown, is_number, spoilt_cells

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd

__all__ = [
    "as_numbers",
    "is_table",
    "one_per_row",
    "open_table",
    "plain_column",
    "plain_frame",
    "refuse_dates",
    "table_names",
    "text_names",
]

_DATES = "turn dates into numbers, such as days since the first of them"
_MATRIX = "expected a matrix (n, p) or a table"


def open_table(data: Any, name: str = "X") -> Any:
    """Convert a table to a narwhals data frame, and a DataArray without labels to an array; return the rest unchanged.

    Parameters
    ----------
    data : object
        The value passed.
    name : str
        Argument, for messages.

    Raises
    ------
    TypeError
        If the rows of a table are not in memory.
    ValueError
        If it is one column, or two of its columns have one name, or columns have several dimensions or lengths.

    Examples
    --------
    >>> open_table({"age": [31, 45]}).columns, open_table([[31], [45]])
    (['age'], [[31], [45]])
    """
    if isinstance(data, list | tuple) or (isinstance(data, np.ndarray) and data.dtype.names is None):
        return data
    import narwhals as nw
    import pandas as pd

    data = _from_xarray(data, name)
    if isinstance(data, Mapping):
        try:
            data = pd.DataFrame({key: np.asarray(column) if _is_foreign(column) else column
                                 for key, column in data.items()})  # fmt: skip
        except ValueError as error:
            raise ValueError(f"{name}: expected a dict of columns of one length; {error}.") from None
    elif isinstance(data, np.ndarray):
        data = pd.DataFrame(data)
    pa = sys.modules.get("pyarrow")
    if pa is not None and isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pd.DataFrame) or (pa is not None and isinstance(data, pa.Table)):
        _refuse_repeated(data.columns if isinstance(data, pd.DataFrame) else data.column_names, name)
    if pa is not None and isinstance(data, pa.Table) and stored_index(data.schema):
        data = data.to_pandas()
    table = nw.from_native(data, pass_through=True, allow_series=True)
    if isinstance(table, nw.LazyFrame):
        raise TypeError(
            f"{name}: {_MATRIX} in memory, got {type(data).__name__}, whose rows are read when asked for; collect() "
            "them before."
        )
    if isinstance(table, nw.Series):
        raise ValueError(
            f"{name}: {_MATRIX}, got one column ({type(data).__name__}). Reshape your data: of one feature give a data "
            "frame with one column, as in data[[column]]."
        )
    return table


def _is_foreign(column: Any) -> bool:
    """Whether a column is an array for NumPy but not for pandas."""
    return not isinstance(column, list | tuple | np.ndarray) and type(column).__module__.partition(".")[0] in (
        "polars",
        "pyarrow",
        "xarray",
    )


def _from_xarray(data: Any, name: str) -> Any:
    """Convert a Dataset or a labelled DataArray to a pandas data frame, and a DataArray without labels to an array."""
    xr = sys.modules.get("xarray")
    if xr is None or not isinstance(data, xr.DataArray | xr.Dataset):
        return data
    import pandas as pd

    if data.chunks:
        other = "data, a Dask array" if isinstance(data, xr.DataArray) else "to_dask_dataframe()"
        raise TypeError(f"{name}: {_MATRIX} in memory, got xarray's blocks of Dask; give its {other}, or load() it.")
    if isinstance(data, xr.DataArray):
        if data.ndim != 2:
            raise ValueError(f"{name}: {_MATRIX}, got a DataArray with the dimensions {data.dims}.")
        rows, columns = (data.indexes.get(dim) for dim in data.dims)
        return data.values if columns is None else pd.DataFrame(data.values, index=rows, columns=columns)
    dims = {variable.dims for variable in data.data_vars.values()}
    if len(dims) != 1 or any(len(one) != 1 for one in dims):
        raise ValueError(
            f"{name}: expected a Dataset whose variables lie along one dimension, the rows, got dimensions "
            f"{sorted(dims)}; use one variable, as in X['name']."
        )
    return pd.DataFrame({key: variable.values for key, variable in data.data_vars.items()})


def is_table(value: Any) -> bool:
    """Whether :func:`open_table` found a table.

    Examples
    --------
    >>> is_table(open_table({"age": [31, 45]})), is_table(open_table(np.ones((2, 1))))
    (True, False)
    """
    nw = sys.modules.get("narwhals")
    return nw is not None and isinstance(value, nw.DataFrame)


def text_names(columns: Iterable[Any], name: str = "X") -> list[str] | None:
    """Names of columns as text; None for the integers from 0 in order, which stand for missing names.

    Examples
    --------
    >>> text_names(["age", 3]), text_names([0, 1, 2]), text_names([1, 0])
    (['age', '3'], None, ['1', '0'])
    """
    columns = list(columns)
    refuse_surrogates(columns, name)
    if all(isinstance(one, int | np.integer) and one == place for place, one in enumerate(columns)):
        return None
    names = [str(one) for one in columns]
    _refuse_repeated(names, name)
    return names


def table_names(data: Any, name: str = "X") -> list[str] | None:
    """Names of the columns of a table; None for anything else, and for a table without names.

    Examples
    --------
    >>> table_names({"age": [31.0], 2020: [1.0]}), table_names(np.ones((1, 2)))
    (['age', '2020'], None)
    """
    table: Any = None if issparse(data) else open_table(data, name)
    return text_names(table.columns, name) if is_table(table) else None


def _refuse_repeated(columns: Iterable[Any], name: str) -> None:
    repeated = [str(column) for column, count in Counter(columns).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{name}: more than one column is called {', '.join(map(repr, repeated[: LIMITS.names]))}; rename them, or "
            "give the numbers alone, as in X.to_numpy()."
        )


def plain_frame(table: nw.DataFrame[Any], name: str = "X") -> pd.DataFrame:
    """Convert a table of numbers to a pandas data frame of NumPy's types with text names, where NaN is missing.

    Such a frame, and one whose columns are all sparse, is returned unchanged.

    Raises
    ------
    TypeError
        If a column holds dates, times or durations.
    ValueError
        If a column holds text that is not a number, or other things.

    Examples
    --------
    >>> plain_frame(open_table({"age": [31, None], "well": [True, False]})).to_numpy().tolist()
    [[31.0, 1.0], [nan, 0.0]]
    """
    import pandas as pd

    frame, names = table.to_native(), text_names(table.columns, name)
    if isinstance(frame, pd.DataFrame) and (names is None or all(isinstance(one, str) for one in frame.columns)):
        plain = all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in frame.dtypes)
        if plain or all(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes):
            return frame
    columns = []
    for column in table.iter_columns():  # a name that is a number would select a row
        label, dtype = column.name, column.dtype
        if dtype.is_temporal():
            raise TypeError(f"{name}: expected numbers, got {dtype} in column {str(label)!r}; {_DATES}.")
        values, where = column.to_numpy(), f" in column {str(label)!r}"
        if values.dtype.kind == "c":
            raise ValueError(f"{name}: Complex data not supported, got {dtype}{where}; give its parts as two columns.")
        columns.append(as_numbers(values, name, where))
    single = columns and all(column.dtype == np.float32 for column in columns)
    matrix = np.empty((len(table), len(columns)), dtype=np.float32 if single else np.float64)
    for place, column in enumerate(columns):
        matrix[:, place] = column
    return pd.DataFrame(matrix, columns=names, index=frame.index if isinstance(frame, pd.DataFrame) else None)


def as_numbers(values: Any, name: str = "X", where: str = "") -> Any:
    """Convert an array of objects or text to numbers, where NaN is missing; return an array of numbers unchanged.

    Raises
    ------
    TypeError, ValueError
        If some are dates, or are not numbers; the message shows the first, and ``where`` it is.

    Examples
    --------
    >>> as_numbers(np.array([1, "2.5", None, True], dtype=object)).tolist()
    [1.0, 2.5, nan, 1.0]
    >>> as_numbers(np.array(["1", "red"]), "X", " in column 'size'")
    Traceback (most recent call last):
    ValueError: X: expected numbers, got the text 'red' in column 'size', row 1; encode it, as
    sklearn.preprocessing.OneHotEncoder does, or name the columns in a formula, which encodes them:
    bd.fit("outcome ~ age + site", data).
    """
    if values.dtype.kind in "biufc":
        return values
    refuse_dates(values.dtype, name, where)
    import pandas as pd

    converted = np.full(values.shape, np.nan)
    is_present = ~np.asarray(pd.isna(values))
    try:
        converted[is_present] = values[is_present].astype(np.float64)
    except (TypeError, ValueError):
        place = next(place for place in zip(*np.nonzero(is_present), strict=True) if not is_number(values[place]))
        column = (slice(None), *place[1:])
        rows, cells = np.flatnonzero(is_present[column]).tolist(), values[column][is_present[column]].tolist()
        if isinstance(values[place], str) and (odd := spoilt_cells(cells)):
            raise ValueError(
                f"{name}: expected numbers{where or f' in column {place[-1]}'}, got text in {len(odd)} of {len(cells)} "
                f"cells: {cells_shown(cells, rows, odd)}; correct them, or make them missing by "
                "pd.to_numeric(column, errors='coerce')."
            ) from None
        raise _no_number(values[place], name, where or f" in column {place[-1]}", int(place[0])) from None
    return converted


def refuse_dates(dtype: Any, name: str = "X", where: str = "") -> None:
    """Raise TypeError on NumPy's dates and durations, which a cast would turn into numbers.

    Examples
    --------
    >>> refuse_dates(np.dtype("datetime64[D]"))
    Traceback (most recent call last):
    TypeError: X: expected numbers, got datetime64[D]; turn dates into numbers, such as days since the first of them.
    """
    if dtype.kind in "mM":
        raise TypeError(f"{name}: expected numbers, got {dtype}{where}; {_DATES}.")


def _no_number(value: Any, name: str, where: str, row: int) -> TypeError | ValueError:
    """Error for a value that is not a number."""
    value, place = value.item() if isinstance(value, np.character) else value, f"{where}, row {row}"
    # Periods of pandas have a start time.
    if isinstance(value, date | time | timedelta | np.datetime64 | np.timedelta64) or hasattr(value, "start_time"):
        return TypeError(f"{name}: expected numbers, got {shown(value)}{place}; {_DATES}.")
    if isinstance(value, str | bytes):
        return ValueError(
            f"{name}: expected numbers, got the text {shown(value)}{place}; encode it, as "
            "sklearn.preprocessing.OneHotEncoder does, or name the columns in a formula, which encodes them: "
            'bd.fit("outcome ~ age + site", data).'
        )
    return TypeError(
        f"{name}: expected numbers, got {shown(value)}{place}; an argument must be a string or a real number: give "
        "each number a column of its own."
    )


def plain_column(values: Any, name: str = "y") -> Any:
    """Convert a column to an array of numbers, truth values or text, without missing values.

    A value that is not a vector for NumPy is returned as an array, for later checks.

    Parameters
    ----------
    values : sequence (n,)
        A column of any data frame, an array, a list, or an array of Arrow or xarray.
    name : str
        Argument, for messages.

    Raises
    ------
    TypeError
        If it is a masked array, or of bytes.
    ValueError
        If some values are missing or complex numbers, or there is one value and no column.

    Examples
    --------
    >>> import pandas as pd
    >>> plain_column(pd.Series([1, 0], dtype="Int64")).tolist(), plain_column([True, False]).dtype.name
    ([1, 0], 'bool')
    >>> plain_column([1, None, 3])
    Traceback (most recent call last):
    ValueError: y: expected a value in each row, got none (NaN, None or NA) in 1 of 3, the first of them row 1; leave
    those rows out.
    """
    if type(values) is np.ndarray and values.dtype.kind in "biuU":
        return values
    refuse_masked(values, name)
    refuse_scalar(values, name)
    if issparse(values):
        return values
    array = np.asarray(_opened(values))
    if array.ndim == 0:
        raise ValueError(f"{name}: expected one value for each row, got {shown(values)}; {name} should be a 1d array.")
    if array.dtype.kind == "T":
        array = np.array(array.tolist())
    if array.dtype.kind == "c":
        raise ValueError(f"{name}: Complex data not supported, got {array.dtype}; give real numbers or labels.")
    if array.dtype.kind == "S" or (array.dtype.kind == "O" and any(isinstance(one, bytes) for one in array.flat)):
        raise TypeError(f"{name}: expected numbers or text, got bytes, such as {array.flat[0]!r:.80}; decode them.")
    if array.ndim != 1 or array.dtype.kind not in "fO":
        return array
    missing = np.flatnonzero(_is_missing(array))
    if len(missing):
        raise ValueError(
            f"{name}: expected a value in each row, got none (NaN, None or NA) in {len(missing)} of {len(array)}, the "
            f"first of them row {missing[0]}; leave those rows out."
        )
    return _of_one_type(array) if array.dtype.kind == "O" else array


def _opened(values: Any) -> Any:
    """Convert a column of a data frame to an array; return anything else unchanged."""
    if isinstance(values, np.ndarray | list | tuple) or type(values).__module__.startswith("dask"):
        return values
    import narwhals as nw

    column = nw.from_native(values, pass_through=True, allow_series=True)
    return column.to_numpy() if isinstance(column, nw.Series | nw.DataFrame) else values


def _is_missing(array: Any) -> Any:
    if array.dtype.kind == "f":
        return np.isnan(array)
    import pandas as pd

    return pd.isna(array)


def _of_one_type(array: Any) -> Any:
    """Convert objects that are all truth values, or all numbers, to that type."""
    if all(isinstance(one, bool | np.bool_) for one in array):
        return array.astype(bool)
    if all(isinstance(one, numbers.Real | Decimal) and not isinstance(one, bool | np.bool_) for one in array):
        whole = all(isinstance(one, numbers.Integral) for one in array)
        return np.array(array.tolist()) if whole else array.astype(np.float64)
    return array


def one_per_row(values: Any, count: int, name: str = "y") -> Any:
    """Convert a column to an array of ``count`` values; for a matrix with one column scikit-learn warns.

    Raises
    ------
    TypeError, ValueError
        If it is not a vector, has another length, or :func:`plain_column` raises.

    Examples
    --------
    >>> one_per_row(["no", "yes"], 2).tolist()
    ['no', 'yes']
    """
    column = plain_column(values, name)
    if not (type(column) is np.ndarray and column.ndim == 1):
        from sklearn.utils import column_or_1d

        column = column_or_1d(column, warn=True)
    if len(column) != count:
        raise ValueError(f"{name}: expected {count} values, one for each row of X, got {len(column)}.")
    return column
