"""What the columns of a matrix look like: means, standard deviations, and which of them are far from zero.

All sums are weighted as the rows are, so that a row of weight 2 is the row twice. Dense rows are read a block at a
time, and of a sparse matrix the stored entries alone. Rows that are read when needed or lie elsewhere are not looked at
before a fit, but for the sums of a relative prior; the counts of the fit tell of them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse

from .._typing import AnyArray, Bool, Float, Int, MatrixLike, Num, PerRow
from .block_threads import side_by_side
from .compiled.entries import column_ends, weighted_sums
from .compiled.jit import available
from .distinct import DistinctColumns

__all__ = [
    "ColumnsElsewhere",
    "ColumnsInMemory",
    "always_one_signed",
    "column_means",
    "column_spread",
    "differing_scales",
    "extreme_scales",
    "some_rows",
    "sparse_means",
    "usually_one_signed",
]

Result = TypeVar("Result")

# Entries of a block of dense rows.
_BLOCK = 1 << 20
# Entries from which on they are gone through by a compiled loop.
_COMPILED = 1 << 20
# Rows of the first block, and those in which columns mostly show already that they are of both signs, or have zeros.
_FIRST = 1 << 10
_HEAD = 1 << 6
# Rows that the scales of columns are compared on.
_SOME = 2000
# A standard deviation below it, relative to the root mean square, is rounding.
_ROUNDING = 1e-12
# The same where it is the difference of two mean squares, each of which is rounded.
_ROUNDING_ABOUT_ZERO = 1e-6


def _row_blocks(X: Num[np.ndarray, "n p"], first: int = _FIRST) -> Iterator[tuple[slice, Float[np.ndarray, "rows p"]]]:
    """Dense rows in double precision, a block at a time: first a small one, to decide early."""
    n, p = X.shape
    start, size = 0, min(first, max(1, _BLOCK // max(p, 1)))
    while start < n:
        rows = slice(start, min(start + size, n))
        yield rows, X[rows].astype(np.float64, copy=False)
        start, size = rows.stop, max(1, _BLOCK // max(p, 1))


def _in_blocks(
    X: Num[np.ndarray, "n p"], columns: Int[np.ndarray, " some"], function: Callable[[slice, Any], Result]
) -> list[Result]:
    """What a function makes of the rows in some columns, a block at a time, in their order; in threads."""
    n, p = X.shape
    size = max(1, _BLOCK // max(p, 1))
    found: list[Any] = [None] * -(-n // size)

    def one(k: int) -> None:
        rows = slice(k * size, (k + 1) * size)
        block = X[rows] if len(columns) == p else X[rows][:, columns]
        found[k] = function(rows, block.astype(np.float64, copy=False))

    side_by_side([partial(one, k) for k in range(len(found))])
    return found


def column_means(X: Num[np.ndarray, "n p"], weight: Num[np.ndarray, " n"]) -> Float[np.ndarray, " p"]:
    """Weighted means of the columns of a dense matrix, (p,), exact for a column of one value.

    Examples
    --------
    >>> column_means(np.array([[0.0, 0.1], [3.0, 0.1]]), np.array([2.0, 1.0])).tolist()
    [1.0, 0.1]
    """
    # About the first row, so that neither a large mean nor rounding blurs a column that hardly varies.
    origin = np.asarray(X[0], dtype=np.float64)
    total = np.zeros(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        if _is_large(X):
            total += weighted_sums(X, origin, weight)
        else:
            for rows, block in _row_blocks(X):
                total += weight[rows] @ (block - origin)
        return origin + total / weight.sum()


def column_spread(X: MatrixLike, weight: Num[np.ndarray, " n"]) -> Float[np.ndarray, " p"]:
    """Standard deviations of the columns of a dense or sparse matrix about their means, (p,); 1 where one is constant.

    That is what scikit-learn's ``StandardScaler`` divides by, of dense and sparse rows alike.

    Examples
    --------
    >>> column_spread(np.array([[0.0, 5.0], [2.0, 5.0]]), np.ones(2)).tolist()
    [1.0, 1.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        _, variance, square = _moments(X, weight)
        return _deviations(variance, square, _ROUNDING)[0]


def _moments(X: MatrixLike, weight: Num[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " p"], ...]:
    """Means, variances and mean squares of the columns of a dense or sparse matrix, (p,) each."""
    if issparse(X):
        return _sparse_moments(X, weight)
    mean = column_means(X, weight)
    variance = np.zeros(X.shape[1])
    for rows, part in _row_blocks(X):
        variance += weight[rows] @ (part - mean) ** 2
    variance /= weight.sum()
    return mean, variance, variance + mean**2


def _deviations(
    variance: Float[np.ndarray, " p"], square: Float[np.ndarray, " p"], rounding: float
) -> tuple[Float[np.ndarray, " p"], Bool[np.ndarray, " p"]]:
    """Roots of variances, 1 where a variance is rounding beside the mean square; and where it is more than that."""
    varies = np.sqrt(np.maximum(variance, 0.0)) > rounding * np.sqrt(square)
    return np.where(varies, np.sqrt(np.where(varies, variance, 1.0)), 1.0), varies


def sparse_means(X: MatrixLike, weight: Num[np.ndarray, " n"]) -> Float[np.ndarray, " p"]:
    """Weighted means of the columns of compressed rows, (p,)."""
    return _sparse_moments(X, weight)[0]


def _sparse_moments(X: MatrixLike, weight: Num[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " p"], ...]:
    """Means, variances and mean squares of the columns of compressed rows."""
    X = _canonical(X)
    p, total = X.shape[1], weight.sum()
    of_entry = np.repeat(weight, np.diff(X.indptr))
    stored = np.bincount(X.indices, weights=of_entry, minlength=p)
    if np.all(X.data == 1):
        mean = stored / total
        return mean, mean * (1 - mean), mean
    value = X.data.astype(np.float64, copy=False)
    mean = np.bincount(X.indices, weights=of_entry * value, minlength=p) / total
    about = np.bincount(X.indices, weights=of_entry * (value - mean[X.indices]) ** 2, minlength=p)
    square = np.bincount(X.indices, weights=of_entry * value**2, minlength=p) / total
    return mean, (about + (total - stored) * mean**2) / total, square


def _canonical(X: MatrixLike) -> MatrixLike:
    """Compressed rows with every entry stored once."""
    if not X.has_canonical_format:
        X = X.copy()  # the caller's matrix stays as it is
        X.sum_duplicates()
    return X


def _is_large(X: Num[np.ndarray, "n p"]) -> bool:
    """True if there are entries enough for a compiled loop."""
    return X.size >= _COMPILED and X.flags.c_contiguous and available()


def _one_signed(X: Num[np.ndarray, "n p"]) -> Int[np.ndarray, " some"]:
    """Columns of a dense matrix without entries of both signs, as numbers."""
    left = np.arange(X.shape[1])
    above, below = np.zeros(len(left), bool), np.zeros(len(left), bool)
    for _, block in _row_blocks(X, first=_HEAD):
        block = block if len(left) == X.shape[1] else block[:, left]
        above |= (block > 0).any(axis=0)
        below |= (block < 0).any(axis=0)
        keep = ~(above & below)
        left, above, below = left[keep], above[keep], below[keep]
        if not len(left):
            break
    return left


def usually_one_signed(X: Num[np.ndarray, "n p"], weight: Num[np.ndarray, " n"]) -> Bool[np.ndarray, " p"]:
    """Which columns of a dense matrix zero is no usual value of, (p,) bool.

    They are of one sign, non-zero in more than half of the weight of the rows, and have more than one value other than
    zero: no dummy, no constant.

    Examples
    --------
    >>> X = np.array([[5.0, 1.0, -1.0, 2.0], [6.0, 0.0, 1.0, 2.0], [7.0, 1.0, 3.0, 2.0]])
    >>> usually_one_signed(X, np.ones(3)).tolist()
    [True, False, False, False]
    """
    left = _one_signed(X[:_HEAD] if _is_large(X) else X) if len(X) else np.empty(0, dtype=int)
    if not len(left):
        return np.zeros(X.shape[1], bool)
    if _is_large(X):
        present, low, high, least = column_ends(X, weight)
        one_signed = (low >= 0) | (high <= 0)
        return one_signed & (2 * present > weight.sum()) & (np.maximum(high, -low) > least)
    share = sum(_in_blocks(X, left, lambda rows, block: weight[rows] @ (block != 0)))
    left = left[2 * share > weight.sum()]

    def ends(_: slice, block: Float[np.ndarray, "rows some"]) -> Float[np.ndarray, "2 some"]:
        size = np.abs(block)
        return np.stack([np.where(size > 0, -size, -np.inf).max(axis=0), size.max(axis=0)])

    least, most = np.max(_in_blocks(X, left, ends), axis=0) * [[-1.0], [1.0]]
    result = np.zeros(X.shape[1], bool)
    result[left] = most > least
    return result


def always_one_signed(X: MatrixLike) -> Int[np.ndarray, " some"]:
    """Columns, as numbers, that are never zero, of one sign and not constant; of a dense or a sparse matrix.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> X = np.array([[5.0, 1.0, 2.0], [6.0, 0.0, 2.0]])
    >>> always_one_signed(X).tolist(), always_one_signed(csr_array(X)).tolist()
    ([0], [0])
    """
    n, p = X.shape
    if not issparse(X):
        head = X[:_HEAD]
        left = np.flatnonzero((head > 0).all(axis=0) | (head < 0).all(axis=0))
        columns = [X[:, d] for d in left]
    else:
        # The first rows show of most columns that they have zeros.
        first = min(n, _HEAD)
        left = np.flatnonzero(np.bincount(X.indices[: X.indptr[first]], minlength=p) >= first)
        if len(left):
            left = np.flatnonzero(np.bincount(X.indices[X.data != 0], minlength=p) >= n)
        columns = [] if not len(left) else [X[:, [d]].toarray()[:, 0] for d in left]
    kept = [
        (np.all(column > 0) or np.all(column < 0)) and bool(column.max() > column.min()) if n else False
        for column in columns
    ]
    return left[np.array(kept, dtype=bool)]


def differing_scales(X: MatrixLike, weight: Num[np.ndarray, " n"]) -> tuple[float, int, int]:
    """Largest ratio of two columns' standard deviations on some of the rows, and the two columns, smaller one first.

    Columns that do not vary there have no say; 1 if there are none.

    Examples
    --------
    >>> differing_scales(np.array([[0.0, 5.0, 0.0], [2.0, 5.0, 400.0]]), np.ones(2))
    (200.0, 0, 2)
    """
    rows = some_rows(X.shape[0])
    if rows.step > 1:
        X, weight = X[rows], weight[rows]
    with np.errstate(over="ignore", invalid="ignore"):
        _, variance, square = _moments(X, weight)
        return extreme_scales(*_deviations(variance, square, _ROUNDING))


def some_rows(n: int) -> slice:
    """Rows that scales are compared on, spread over all of them."""
    return slice(None, None, max(1, n // _SOME))


def extreme_scales(spread: Float[np.ndarray, " p"], varies: Bool[np.ndarray, " p"]) -> tuple[float, int, int]:
    """Largest ratio of two standard deviations of columns that vary, and the two, smaller one first.

    Examples
    --------
    >>> extreme_scales(np.array([2.0, 1.0, 6.0]), np.array([True, False, True]))
    (3.0, 0, 2)
    """
    varies = np.flatnonzero(np.isfinite(spread) & varies)
    if not len(varies):
        return 1.0, 0, 0
    low, high = varies[np.argmin(spread[varies])], varies[np.argmax(spread[varies])]
    return float(spread[high] / spread[low]), int(low), int(high)


class ColumnsInMemory:
    """What the designs share that can look at every column before a fit: those of one array or sparse matrix."""

    columns: list[str] | None = None
    scans_columns = True
    is_streamed = False
    matrix: Callable[[], Any]
    shape: tuple[int, int]

    @property
    def distinct(self) -> DistinctColumns | None:
        """None: columns of dense rows are hardly ever alike."""
        return None

    def check_stackable(self) -> None:
        """Rows in memory can be put below others."""

    def missing_share(self) -> Float[np.ndarray, " p"]:
        """Nothing is missing, (p,)."""
        return np.zeros(self.shape[1])

    def column_spread(self, weight: Num[AnyArray, " n"]) -> Float[np.ndarray, " p"]:
        """Standard deviations (p,), as :func:`column_spread` has them."""
        return column_spread(self.matrix(), weight)

    def far_from_zero(
        self, columns: Int[AnyArray, " some"], weight: Num[AnyArray, " n"], deviations: float
    ) -> Bool[np.ndarray, " some"]:
        """Whether the means of some columns are more than so many standard deviations from zero."""
        some = self.matrix()[:, columns]
        mean = np.abs(np.asarray(weight @ some).ravel() / weight.sum())
        return mean > deviations * column_spread(some, weight)

    def always_one_signed(self) -> Int[np.ndarray, " some"]:
        """Columns that are never zero, of one sign and not constant, as numbers."""
        return always_one_signed(self.matrix())

    def differing_scales(self, weight: Num[AnyArray, " n"]) -> tuple[float, int, int]:
        """Largest ratio of two standard deviations, and the two columns; see :func:`differing_scales`."""
        return differing_scales(self.matrix(), weight)


class ColumnsElsewhere:
    """What the designs share whose rows are read when needed or lie elsewhere: nothing is looked at before a fit."""

    is_sparse = False
    distinct: DistinctColumns | None = None
    fixed_origin: str | None = "rows that are not in memory"
    scans_columns = False
    is_streamed = True
    shape: tuple[int, int]
    total: Callable[..., Any]
    rmatvec: Callable[..., Any]
    sq_rmatvec: Callable[..., Any]

    def column_spread(self, weight: PerRow) -> Float[np.ndarray, " p"]:
        """Standard deviations (p,), from sums of squares about zero.

        That leaves half of the digits at a mean of 1e4 deviations, and a column counts as one that does not vary at a
        mean of 1e6.
        """
        block = weight[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            total = self.total(block)[0]
            mean = np.asarray(self.rmatvec(block))[:, 0] / total
            square = np.asarray(self.sq_rmatvec(block))[:, 0] / total
            return _deviations(square - mean**2, square, _ROUNDING_ABOUT_ZERO)[0]

    def compressed(self, full: bool = False) -> None:
        """None: they are elsewhere."""

    def missing_share(self) -> Float[np.ndarray, " p"]:
        """Nothing is missing, for that is refused, (p,)."""
        return np.zeros(self.shape[1])

    def column_means(self, weight: PerRow) -> Float[np.ndarray, " p"]:
        """Weighted means (p,)."""
        block = weight[:, None]
        return np.asarray(self.rmatvec(block))[:, 0] / self.total(block)[0]

    def usually_one_signed(self, weight: PerRow) -> Bool[np.ndarray, " p"]:
        """None that are known, (p,) bool."""
        return np.zeros(self.shape[1], bool)

    def always_one_signed(self) -> Int[np.ndarray, " some"]:
        """None that are known."""
        return np.empty(0, dtype=int)

    def far_from_zero(
        self, columns: Int[AnyArray, " some"], weight: PerRow, deviations: float
    ) -> Bool[np.ndarray, " some"]:
        """None that are known."""
        return np.zeros(len(columns), bool)

    def differing_scales(self, weight: PerRow) -> tuple[float, int, int]:
        """Not looked at: 1."""
        return 1.0, 0, 0

    def stacked(self, below: Any) -> Any:
        """Refused."""
        self.check_stackable()

    def check_stackable(self) -> None:
        """Refused."""
        raise TypeError(
            "unlabelled: rows without labels join rows in memory only; for both of them pass an array or a scipy "
            "sparse matrix."
        )

    def shifted(self, centre: Float[np.ndarray, " p"]) -> Any:
        """Refused."""
        raise ValueError(f"centre: expected a dense X in memory, got {self.fixed_origin}; subtract it before.")
