"""Missing entries: what NaN becomes where a matrix enters, and what a matrix with such entries says of its columns.

A missing entry is one whose mask is known to be zero: it takes the value that the noise gives to a dropped entry, which
is the centre ``c`` of its column, and has no variance there. In ``X − c`` that is an entry of 0, which products leave
out and noise leaves alone, so that nothing after the door need know of it. The centre may be the mean of the column,
and that is the mean of the entries that are there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._typing import AnyArray, Bool, Float, Int, Num
from .admission import text_entry
from .columns import always_one_signed, column_means, column_spread, extreme_scales, some_rows, usually_one_signed
from .dense import DenseDesign

__all__ = ["FOR_MISSING", "IncompleteDesign", "checking", "with_missing", "without_na"]

FOR_MISSING = (
    'If these entries are missing, missing="nan" takes them for dropped ones; or fill them in before, as '
    "sklearn.impute.SimpleImputer does."
)


def checking(
    check: Callable[..., Any],
    missing: str | None,
    centre: Float[np.ndarray, " p"] | None = None,
    advice: str = FOR_MISSING,
) -> Callable[[Any], Any]:
    """A check of features in memory that takes NaN for missing entries if ``missing`` is "nan", or refuses it in words.

    Parameters
    ----------
    check : function
        ``check_array`` or ``validate_data`` of scikit-learn with all its arguments but the features.
    missing : None or "nan"
        The setting of the model or of the estimator.
    centre : array (p,), optional
        Where the noise is centred, as far as it is known.
    advice : str
        What to do about NaN, for the message.

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
            if missing == "nan":
                return with_missing(check(without_na(X), ensure_all_finite="allow-nan"), centre)
            return check(X)
        except ValueError as error:
            first = str(error).partition("\n")[0].rstrip(".")
            if first.startswith("could not convert string"):
                raise text_entry(X) or error from None
            if missing == "nan" or not first.endswith("contains NaN"):
                raise
            raise ValueError(f"{first}.\n{advice}") from None

    return checked


def without_na(X: Any) -> Any:
    """A pandas data frame whose columns of objects are numbers, ``pandas.NA`` being NaN; anything else as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> without_na(pd.DataFrame({"age": [20, pd.NA]}))["age"].tolist()
    [20.0, nan]
    """
    objects = [j for j, dtype in enumerate(getattr(X, "dtypes", [])) if dtype == np.dtype(object)]
    if not (objects and hasattr(X, "isetitem")):
        return X
    X = X.copy()  # the caller's frame stays as it is
    for j in objects:
        X.isetitem(j, X.iloc[:, j].to_numpy(dtype=np.float64, na_value=np.nan))
    return X


def with_missing(X: Any, centre: Float[np.ndarray, " p"] | None = None) -> Any:
    """Features as they are, or, if some are NaN, a design or a sparse matrix that takes them for dropped.

    Sparse rows cannot be shifted to a centre, so that a missing entry is the centre itself: an entry that is not
    stored if that is 0.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> with_missing(csr_array([[np.nan, 2.0]])).toarray().tolist()
    [[0.0, 2.0]]
    >>> with_missing(csr_array([[np.nan, 2.0]]), np.array([3.0, 1.0])).toarray().tolist()
    [[3.0, 2.0]]
    """
    if not issparse(X):
        gone = np.isnan(X)
        return IncompleteDesign(np.where(gone, X.dtype.type(0), X), gone) if gone.any() else X
    gone = np.isnan(X.data)
    if not gone.any():
        return X
    X = X.copy() if centre is None else X.astype(np.float64)  # the caller's matrix stays as it is
    X.data[gone] = 0.0 if centre is None else centre[X.indices[gone]]
    X.eliminate_zeros()
    return X


class IncompleteDesign(DenseDesign):
    """Dense matrix with missing entries, which products take for 0 and statistics of columns leave out.

    Parameters
    ----------
    X : array (n, p)
        Features, 0 where they are missing.
    missing : bool array (n, p)
        Where they are.

    Examples
    --------
    >>> X = with_missing(np.array([[1.0, 4.0], [3.0, np.nan]]))
    >>> X.column_means(np.ones(2)).tolist(), X.shifted(np.array([2.0, 4.0])).matrix().tolist()
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

    def column_means(self, weight: Num[AnyArray, " n"]) -> Float[np.ndarray, " p"]:
        """Weighted means (p,) of what is there; 0 where nothing is."""
        return self._of_present(column_means, weight, 0.0)

    def column_spread(self, weight: Num[AnyArray, " n"]) -> Float[np.ndarray, " p"]:
        """Standard deviations (p,) of what is there; 1 where it does not vary."""
        return self._of_present(column_spread, weight, 1.0)

    def usually_one_signed(self, weight: Num[AnyArray, " n"]) -> Bool[np.ndarray, " p"]:
        """Which columns zero is no usual value of, (p,) bool, by what is there."""
        return self._of_present(usually_one_signed, weight, 0.0) > 0

    def always_one_signed(self) -> Int[np.ndarray, " some"]:
        """Columns that are never zero, of one sign and not constant, by what is there, as numbers."""
        ones = np.ones(self.shape[0])
        return np.flatnonzero(self._of_present(lambda x, _: [len(always_one_signed(x))], ones, 0.0))

    def far_from_zero(
        self, columns: Int[AnyArray, " some"], weight: Num[AnyArray, " n"], deviations: float
    ) -> Bool[np.ndarray, " some"]:
        """Whether the means of some columns are more than so many standard deviations from zero."""
        far = np.abs(self.column_means(weight)) > deviations * self.column_spread(weight)
        return np.asarray(far[columns])

    def differing_scales(self, weight: Num[AnyArray, " n"]) -> tuple[float, int, int]:
        """Largest ratio of two standard deviations, and the two columns; see :func:`.columns.differing_scales`."""
        rows = some_rows(self.shape[0])
        some: Any = self[rows]
        ones = np.ones(some.shape[0])
        varies = some._of_present(lambda x, _: [x.max() > x.min()], ones, 0.0) > 0
        return extreme_scales(some.column_spread(weight[rows]), varies)

    def _of_present(
        self, statistic: Callable[..., Any], weight: Num[AnyArray, " n"], otherwise: float
    ) -> Float[np.ndarray, " p"]:
        """A statistic of one column and the weights of its rows, of the entries of some weight that are there, (p,)."""
        result, X = np.full(self.shape[1], otherwise), self.matrix()
        for d in range(self.shape[1]):
            there = ~self._missing[:, d] & (weight > 0)
            if there.any():
                result[d] = statistic(X[there, d, None], weight[there])[0]
        return result
