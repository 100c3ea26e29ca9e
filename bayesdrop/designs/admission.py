"""Validate a matrix once, before any computation uses its entries, and store its missing entries.

Compiled products trust the structure of a sparse matrix: an index out of range would read memory outside the arrays and
could crash the process. Masked values and dates would be read as numbers. Tables of any kind become data frames of
plain numbers. scikit-learn's checks, made later, examine the entries (NaN) and the shape.

A missing entry has a mask known to be zero: its value is that of a dropped entry, the centre ``c`` of its column, and
its variance is 0. In ``X − c`` it is an entry of 0, which products omit and noise does not change, so that later code
needs no special case. If the centre is the mean of the column, it is the mean of the observed entries.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from .._typing import AnyArray, Bool, Float, Num
from .._validation import as_numbers, is_table, open_table, plain_frame, refuse_masked, shown
from .columns import ColumnSummary, summarise
from .dense import DenseDesign
from .sparse import SparseDesign

__all__ = [
    "IncompleteDesign",
    "IncompleteSparseDesign",
    "admit",
    "check_structure",
    "checking",
    "with_missing",
    "FOR_MISSING",
]


def admit(X: Any, name: str = "X") -> Any:
    """Return features as numbers: an array, a scipy sparse matrix, or a pandas data frame of NumPy's types.

    An array of numbers is returned unchanged. So is a sparse matrix, after a check of its structure in one pass, unless
    it has duplicate entries, which are summed in a copy. Anything that NumPy converts to an array is left to the later
    checks.

    Raises
    ------
    TypeError
        If ``X`` is a masked array, holds dates, times or time zones, or its rows are not in memory.
    ValueError
        If entries are not numbers, two columns have the same name, a name cannot be encoded as UTF-8, or indices or
        pointers of a sparse matrix do not fit its shape.

    Examples
    --------
    >>> admit(np.array([["2020-01-01"]], dtype="datetime64[D]"))
    Traceback (most recent call last):
    TypeError: X: expected numbers, got datetime64[D]; turn dates into numbers, such as days since the first of them.
    >>> admit({"age": [31, None]})["age"].tolist()
    [31.0, nan]
    """
    if type(X) is np.ndarray and X.dtype.kind in "biuf" and X.ndim:
        with np.errstate(over="ignore"):  # long doubles may become infinite
            return X.astype(np.float64) if X.dtype.itemsize > 8 else X
    refuse_masked(X, name)
    if isinstance(X, numbers.Number | str | bytes):
        raise ValueError(f"{name}: expected a matrix (n, p), got {shown(X)}; Reshape your data into rows and columns.")
    if issparse(X):
        check_structure(X, name)
        if X.format in ("csr", "csc") and not X.has_canonical_format:
            # Some SciPy methods, such as min, would sum duplicate entries in the caller's own matrix.
            X = X.copy()
            X.sum_duplicates()
        return X
    table = open_table(X, name)
    if is_table(table):
        return plain_frame(table, name)
    if isinstance(table, list | tuple):
        try:
            table = np.asarray(table)
        except ValueError:
            raise ValueError(f"{name}: expected a matrix (n, p), got rows of different lengths.") from None
    return as_numbers(table, name) if isinstance(table, np.ndarray) else table


def check_structure(X: Any, name: str = "X") -> None:
    """Raise ValueError unless pointers and indices of a scipy sparse matrix fit its shape.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> broken = csr_array(np.eye(2))
    >>> broken.indices[0] = 7
    >>> check_structure(broken)
    Traceback (most recent call last):
    ValueError: X: the sparse matrix is damaged (indices must be < 2); build it again, as in
    scipy.sparse.csr_array((data, (rows, columns)), shape=shape).
    """
    try:
        if X.format in ("csr", "csc", "bsr"):
            if X.indptr.dtype.kind not in "iu" or X.indices.dtype.kind not in "iu":
                raise ValueError(f"indices of {X.indptr.dtype} and {X.indices.dtype}")
            # Check a second matrix with the same arrays, because the check drops data beyond the last entry.
            type(X)((X.data, X.indices, X.indptr), shape=X.shape).check_format(full_check=True)
        elif X.format == "coo":
            type(X)((X.data, X.coords), shape=X.shape)
        elif X.format == "lil":
            for columns, values in zip(X.rows, X.data, strict=True):
                if len(columns) != len(values) or not all(0 <= column < X.shape[1] for column in columns):
                    raise ValueError("a row without a column for each entry")
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"{name}: the sparse matrix is damaged ({error}); build it again, as in "
            "scipy.sparse.csr_array((data, (rows, columns)), shape=shape)."
        ) from None


FOR_MISSING = (
    'If these entries are missing, missing="nan" takes them for dropped ones; or fill them in before, as '
    "sklearn.impute.SimpleImputer does."
)


def checking(
    check: Callable[..., Any],
    missing: str | None,
    advice: str = FOR_MISSING,
) -> Callable[[Any], Any]:
    """Return a check of features in memory that accepts NaN as missing if ``missing`` is "nan", or raises with advice.

    Parameters
    ----------
    check : function
        ``check_array`` or ``validate_data`` of scikit-learn with all arguments except the features.
    missing : None or "nan"
        Setting of the model or of the estimator.
    advice : str
        Advice on NaN, for the message.

    Examples
    --------
    >>> from sklearn.utils import check_array
    >>> checking(check_array, "nan")([[1.0, np.nan]]).missing_share().tolist()
    [0.0, 1.0]
    >>> checking(check_array, None)([[1.0, np.nan]])
    Traceback (most recent call last):
    ValueError: Input contains NaN.
    If these entries are missing, missing="nan" takes them for dropped ones; ...
    """

    def checked(X: Any) -> Any:
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # the check sums infinite entries
                if missing == "nan":
                    return with_missing(check(X, ensure_all_finite="allow-nan"))
                return check(X)
        except ValueError as error:
            first_line = str(error).partition("\n")[0].rstrip(".")
            if missing == "nan" or not first_line.endswith("contains NaN"):
                raise
            raise ValueError(f"{first_line}.\n{advice}") from None

    return checked


def with_missing(X: Any) -> Any:
    """Return features unchanged or, if some entries are NaN, as a design that treats these as dropped.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> for rows in (np.array([[np.nan, 2.0]]), csr_array([[np.nan, 2.0]])):
    ...     design = with_missing(rows)
    ...     print(design.missing_share().tolist(), design.matvec(np.ones(2)).tolist())
    [1.0, 0.0] [2.0]
    [1.0, 0.0] [2.0]
    """
    is_missing = np.isnan(X.data if issparse(X) else X)
    if not is_missing.any():
        return X
    if not issparse(X):
        return IncompleteDesign(np.where(is_missing, X.dtype.type(0), X), is_missing)
    X = csr_array(X).copy()  # the caller's matrix is unchanged
    X.sum_duplicates()
    missing = X.astype(np.float64)
    missing.data = np.isnan(missing.data).astype(np.float64)
    missing.eliminate_zeros()
    X.data[np.isnan(X.data)] = 0
    X.eliminate_zeros()
    return IncompleteSparseDesign(X, missing)


class IncompleteDesign(DenseDesign):
    """Dense matrix with missing entries, which are 0 in products and left out of summaries of columns.

    Parameters
    ----------
    X : array (n, p)
        Features, 0 where they are missing.
    missing : bool array (n, p)
        Indicator of the missing entries.

    Examples
    --------
    >>> X = with_missing(np.array([[1.0, 4.0], [3.0, np.nan]]))
    >>> X.column_summary(np.ones(2)).mean.tolist(), X.shifted(np.array([2.0, 4.0])).matrix().tolist()
    ([2.0, 4.0], [[-1.0, 0.0], [1.0, 0.0]])
    """

    def __init__(self, X: Num[np.ndarray, "n p"], missing: Bool[np.ndarray, "n p"]) -> None:
        super().__init__(X)
        self._missing = missing

    def __getitem__(self, rows: Any) -> DenseDesign:
        """Rows that a mask, numbers or a slice selects."""
        return IncompleteDesign(self.matrix()[rows], self._missing[rows])

    def missing_share(self) -> Float[np.ndarray, " p"]:
        """Share of the rows in which each column is missing, (p,)."""
        return self._missing.mean(axis=0)

    def shifted(self, centre: Float[np.ndarray, " p"]) -> DenseDesign:
        """``X − c``, 0 where entries are missing."""
        whole = super().shifted(centre).matrix()
        return DenseDesign(np.where(self._missing, whole.dtype.type(0), whole))

    def column_summary(self, weight: Num[AnyArray, " n"]) -> ColumnSummary:
        """Summary of the observed entries; see :func:`.columns.summarise`."""
        return summarise(self.matrix(), weight, self._missing)


class IncompleteSparseDesign(SparseDesign):
    """Sparse matrix with missing entries, which are 0 in products and left out of summaries of columns.

    Parameters
    ----------
    X : csr (n, p)
        Features; missing entries are not stored.
    missing : csr (n, p)
        Indicator of the missing entries, 1 each.
    """

    def __init__(self, X: Any, missing: Any) -> None:
        super().__init__(X)
        self._missing = missing

    def __getitem__(self, rows: Any) -> SparseDesign:
        """Rows that a mask, numbers or a slice selects."""
        return IncompleteSparseDesign(self._given[rows], self._missing[rows])

    def missing_share(self) -> Float[np.ndarray, " p"]:
        """Share of the rows in which each column is missing, (p,)."""
        return np.asarray(self._missing.sum(axis=0)).ravel() / max(self.shape[0], 1)

    def shifted(self, centre: Float[np.ndarray, " p"]) -> SparseDesign:
        """``X − c``, 0 where entries are missing."""
        filled = self._missing.copy()
        filled.data = centre[filled.indices]
        return SparseDesign(self._given + filled).shifted(centre)

    def column_summary(self, weight: Num[AnyArray, " n"]) -> ColumnSummary:
        """Summary of the observed entries; see :func:`.columns.summarise`."""
        return summarise(self._given, weight, self._missing)
