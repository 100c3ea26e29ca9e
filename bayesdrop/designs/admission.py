"""What is looked at once, where a matrix enters, before anything goes through its entries.

Compiled products trust the structure of a sparse matrix: an index out of range is a read of foreign memory, which ends
the process. Masks and dates would be read as numbers that they are not. Tables of any kind become data frames of plain
numbers. Entries themselves (NaN, shape) are the business of scikit-learn's checks, which come after.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._validation import as_numbers, is_table, open_table, plain_frame, refuse_masked, shown

__all__ = ["admit", "check_structure"]


def admit(X: Any, name: str = "X") -> Any:
    """Return features as numbers: an array, a scipy sparse matrix, or a pandas data frame of NumPy's types.

    An array of numbers is returned as it is, and so is a sparse matrix, whose structure is checked in one pass; one
    with entries in parts is copied, and has them summed. Anything that NumPy makes an array of is left to the checks
    that come after.

    Raises
    ------
    TypeError
        If it is a masked array, holds dates, times or time zones, or its rows are not in memory.
    ValueError
        If entries are text or something else that is no number, columns have no names of their own or names that
        cannot be written, or indices or pointers of a sparse matrix do not fit its shape.

    Examples
    --------
    >>> admit(np.array([["2020-01-01"]], dtype="datetime64[D]"))
    Traceback (most recent call last):
    TypeError: X: expected numbers, got datetime64[D]; turn dates into numbers, such as days since the first of them.
    >>> admit({"age": [31, None]})["age"].tolist()
    [31.0, nan]
    """
    if type(X) is np.ndarray and X.dtype.kind in "biuf" and X.ndim:
        with np.errstate(over="ignore"):  # of long doubles, which are infinite then
            return X.astype(np.float64) if X.dtype.itemsize > 8 else X
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
    found = open_table(X, name)
    if is_table(found):
        return plain_frame(found, name)
    if isinstance(found, list | tuple):
        try:
            found = np.asarray(found)
        except ValueError:
            raise ValueError(f"{name}: expected a matrix (n, p), got rows of different lengths.") from None
    return as_numbers(found, name) if isinstance(found, np.ndarray) else found


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
