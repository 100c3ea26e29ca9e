"""What is looked at once, where a matrix enters, before anything goes through its entries.

Compiled products trust the structure of a sparse matrix: an index out of range is a read of foreign memory, which ends
the process. Masks and dates would be read as numbers that they are not. Entries themselves (NaN, text, shape) are the
business of scikit-learn's checks, which come after.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._validation import refuse_masked, refuse_surrogates, shown

__all__ = ["admit", "check_structure", "text_entry"]


def admit(X: Any, name: str = "X") -> Any:
    """Return ``X``, or refuse what would be misread: O(non-zeros), or O(columns) for a data frame.

    A sparse matrix with entries in parts is copied, and has them summed; all else is returned as it is.

    Raises
    ------
    TypeError
        If it is a masked array, or columns hold dates, times or time zones.
    ValueError
        If it is a sparse matrix whose indices or pointers do not fit its shape, or names cannot be written.

    Examples
    --------
    >>> admit(np.array([["2020-01-01"]], dtype="datetime64[D]"))
    Traceback (most recent call last):
    TypeError: X: expected numbers, got datetime64[D]; turn dates into numbers, such as days since the first of them.
    """
    if type(X) is np.ndarray and X.dtype.kind in "biuf" and X.ndim:
        return X
    refuse_masked(X, name)
    if isinstance(X, numbers.Number | str | bytes):
        raise ValueError(f"{name}: expected a matrix (n, p), got {shown(X)}; Reshape your data into rows and columns.")
    if issparse(X):
        check_structure(X, name)
        if X.format in ("csr", "csc") and not X.has_canonical_format:
            # Some of SciPy's methods, such as min, would sum entries in parts in the caller's own matrix.
            X = X.copy()
            X.sum_duplicates()
        return X
    columns = getattr(X, "columns", None)
    if columns is not None and not callable(columns):
        refuse_surrogates(list(columns), name)
    _refuse_dates(X, name)
    return X


def text_entry(X: Any, name: str = "X") -> ValueError | None:
    """The error that names the first column of text of a matrix that would not turn into numbers, if there is one.

    Examples
    --------
    >>> print(text_entry(np.array([["1", "red"]])))
    X: expected numbers, got the text 'red' in column 1; encode it, as sklearn.preprocessing.OneHotEncoder does, or name
    the columns in a formula, which encodes them: bd.fit("outcome ~ age + site", data).
    >>> text_entry(np.array([["1", "2"]])) is None
    True
    """
    labels = getattr(X, "columns", None)
    if labels is None or callable(labels):
        X = np.asarray(X, dtype=object)
        if X.ndim != 2:
            return None
        labels, columns = range(X.shape[1]), X.T
    else:
        columns = (X[label] for label in labels) if len(set(labels)) == len(labels) else ()
    for label, column in zip(labels, columns, strict=False):
        if getattr(getattr(column, "dtype", None), "kind", "O") in "biuf":
            continue
        for value in column:
            if isinstance(value, str) and not _is_number(value):
                where = f"column {label!r}" if isinstance(label, str) else f"column {label}"
                return ValueError(
                    f"{name}: expected numbers, got the text {shown(value)} in {where}; encode it, as "
                    "sklearn.preprocessing.OneHotEncoder does, or name the columns in a formula, which encodes them: "
                    'bd.fit("outcome ~ age + site", data).'
                )
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_structure(X: Any, name: str = "X") -> None:
    """Raise ValueError unless pointers and indices of a scipy sparse matrix fit its shape, in one pass over them.

    ``scipy.sparse`` has a check of its own that also prunes and sorts the caller's matrix in place, and none of COO.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> broken = csr_array(np.eye(2))
    >>> broken.indices[0] = 7
    >>> check_structure(broken)
    Traceback (most recent call last):
    ValueError: X: the sparse matrix is damaged: expected column indices from 0 to 1, got 7; build it anew, as in
    scipy.sparse.csr_array((data, (rows, columns)), shape=shape).
    """
    if X.format in ("csr", "csc", "bsr"):
        _check_compressed(X, name)
    elif X.format == "coo":
        if len({len(X.data), *map(len, X.coords)}) > 1:
            raise _damaged(name, f"expected an index for each of {len(X.data)} entries")
        for axis, (size, index) in enumerate(zip(X.shape, X.coords, strict=True)):
            _check_range(index, size, name, "row" if axis == 0 else "column")
    elif X.format == "lil":
        for columns, values in zip(X.rows, X.data, strict=False):
            if len(columns) != len(values):
                raise _damaged(name, "expected an index for each entry of a row")
            _check_range(np.asarray(columns, dtype=np.int64), X.shape[1], name, "column")


def _check_compressed(X: Any, name: str) -> None:
    major, minor, kind, other = (0, 1, "row", "column") if X.format != "csc" else (1, 0, "column", "row")
    height, width = X.blocksize if X.format == "bsr" else (1, 1)
    lines, size = X.shape[major] // height, X.shape[minor] // width
    pointers, index = X.indptr, X.indices
    if pointers.dtype.kind not in "iu" or index.dtype.kind not in "iu":
        raise _damaged(name, f"expected whole numbers as indices, got {pointers.dtype} and {index.dtype}")
    if pointers.shape != (lines + 1,):
        raise _damaged(name, f"expected {lines + 1} pointers (indptr), one more than {kind}s, got {len(pointers)}")
    if pointers[0] != 0 or np.any(pointers[1:] < pointers[:-1]):
        raise _damaged(name, "expected pointers (indptr) that begin at 0 and never fall")
    if not pointers[-1] <= min(len(index), len(X.data)):
        raise _damaged(
            name,
            f"expected {pointers[-1]} entries, as the last pointer (indptr) says, got {len(index)} indices and "
            f"{len(X.data)} values",
        )
    _check_range(index[: pointers[-1]], size, name, other)


def _check_range(index: Any, size: int, name: str, kind: str) -> None:
    if len(index) == 0:
        return
    least, most = int(index.min()), int(index.max())
    if least < 0 or most >= size:
        raise _damaged(name, f"expected {kind} indices from 0 to {size - 1}, got {least if least < 0 else most}")


def _damaged(name: str, what: str) -> ValueError:
    return ValueError(
        f"{name}: the sparse matrix is damaged: {what}; build it anew, as in scipy.sparse.csr_array((data, (rows, "
        "columns)), shape=shape)."
    )


def _refuse_dates(X: Any, name: str) -> None:
    """Raise TypeError on dates, times, durations and time zones, which a cast would turn into numbers or nonsense."""
    dtypes = getattr(X, "dtypes", None)
    kinds = [getattr(X, "dtype", None)] if dtypes is None else list(dtypes)
    labels = [None] * len(kinds) if dtypes is None else list(getattr(X, "columns", [None] * len(kinds)))
    for label, dtype in zip(labels, kinds, strict=False):
        if _is_date(dtype):
            where = "" if label is None else f" in column {str(label)!r}"
            raise TypeError(
                f"{name}: expected numbers, got {dtype}{where}; turn dates into numbers, such as days since the first "
                "of them."
            )


def _is_date(dtype: Any) -> bool:
    # NumPy's kinds of dates and durations, pandas' and Arrow's with a time zone, and polars' own.
    temporal = getattr(dtype, "is_temporal", None)
    if callable(temporal):
        return bool(temporal())
    return getattr(dtype, "kind", "O") in "mM" or str(dtype).startswith("period")
