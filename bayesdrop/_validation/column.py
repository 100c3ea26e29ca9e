"""One value for each row: labels, responses or weights of any kind as an array of NumPy."""

from __future__ import annotations

import numbers
from decimal import Decimal
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .objects import refuse_masked, refuse_scalar
from .words import shown

__all__ = ["one_per_row", "plain_column"]


def plain_column(values: Any, name: str = "y") -> Any:
    """A column as an array of numbers, truth values or text, none of them missing.

    What NumPy makes no vector of is returned as an array of its own, for the checks that come after.

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
    """A column of a data frame as an array; anything else as it is."""
    if isinstance(values, np.ndarray | list | tuple) or type(values).__module__.startswith("dask"):
        return values
    import narwhals as nw

    found = nw.from_native(values, pass_through=True, allow_series=True)
    return found.to_numpy() if isinstance(found, nw.Series | nw.DataFrame) else values


def _is_missing(array: Any) -> Any:
    if array.dtype.kind == "f":
        return np.isnan(array)
    import pandas as pd

    return pd.isna(array)


def _of_one_type(array: Any) -> Any:
    """Objects that are all truth values, or all numbers, as such."""
    if all(isinstance(one, bool | np.bool_) for one in array):
        return array.astype(bool)
    if all(isinstance(one, numbers.Real | Decimal) and not isinstance(one, bool | np.bool_) for one in array):
        whole = all(isinstance(one, numbers.Integral) for one in array)
        return np.array(array.tolist()) if whole else array.astype(np.float64)
    return array


def one_per_row(values: Any, count: int, name: str = "y") -> Any:
    """A column of ``count`` values; of a matrix with one column, whose vector it is, scikit-learn warns.

    Raises
    ------
    TypeError, ValueError
        If it is no vector, of another length, or as :func:`plain_column` has it.

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
