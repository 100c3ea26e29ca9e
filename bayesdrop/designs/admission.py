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
    """Raise ValueError unless pointers and indices of a scipy sparse matrix fit its shape.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> broken = csr_array(np.eye(2))
    >>> broken.indices[0] = 7
    >>> check_structure(broken)
    Traceback (most recent call last):
    ValueError: X: the sparse matrix is damaged (indices must be < 2); build it anew, as in
    scipy.sparse.csr_array((data, (rows, columns)), shape=shape).
    """
    try:
        if X.format in ("csr", "csc", "bsr"):
            if X.indptr.dtype.kind not in "iu" or X.indices.dtype.kind not in "iu":
                raise ValueError(f"indices of {X.indptr.dtype} and {X.indices.dtype}")
            # Of another matrix with the same arrays, for the check drops what is beyond the last entry.
            type(X)((X.data, X.indices, X.indptr), shape=X.shape).check_format(full_check=True)
        elif X.format == "coo":
            type(X)((X.data, X.coords), shape=X.shape)
        elif X.format == "lil":
            for columns, values in zip(X.rows, X.data, strict=True):
                if len(columns) != len(values) or not all(0 <= column < X.shape[1] for column in columns):
                    raise ValueError("a row without a column for each entry")
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"{name}: the sparse matrix is damaged ({error}); build it anew, as in "
            "scipy.sparse.csr_array((data, (rows, columns)), shape=shape)."
        ) from None
