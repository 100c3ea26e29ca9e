"""Summarise the columns of a matrix, in the same way for every storage, for centres, scales and defaults of fits.

Sums are weighted: a row of weight 2 counts as two rows, and a row of weight 0 as none. Blocks of rows are summarised
where they are stored, and the summaries merged (Chan, Golub & LeVeque 1983). For a sparse matrix only the stored
entries are read; the others are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from .._memory import BLOCK
from .._typing import Bool, Float, MatrixLike, Num
from .kernels import ROUNDING
from .threads import LIMITS, side_by_side

__all__ = ["ColumnSummary", "merge_summaries", "summarise"]


class ColumnSummary(NamedTuple):
    """Summary of each column over the observed entries in rows of positive weight; arrays are (p,).

    Attributes
    ----------
    rows : int
        Number of rows of positive weight.
    total : array
        Weight of the rows in which the column is observed.
    nonzero : array
        Weight of the rows in which the column is not zero.
    mean, scatter : array
        Weighted mean, and weighted sum of squared deviations from it.
    low, high : array
        Smallest and largest entry; infinite without entries.
    smallest : array
        Smallest absolute value of a non-zero entry.
    """

    rows: int
    total: Float[np.ndarray, " p"]
    nonzero: Float[np.ndarray, " p"]
    mean: Float[np.ndarray, " p"]
    scatter: Float[np.ndarray, " p"]
    low: Float[np.ndarray, " p"]
    high: Float[np.ndarray, " p"]
    smallest: Float[np.ndarray, " p"]

    @classmethod
    def empty(cls, p: int) -> ColumnSummary:
        """Summary of no rows."""
        zero, infinite = np.zeros(p), np.full(p, np.inf)
        return cls(0, zero, zero, zero, zero, infinite, -infinite, infinite)

    @property
    def varies(self) -> Bool[np.ndarray, " p"]:
        """Whether each column has more than one value, (p,) bool: a spread above rounding."""
        with np.errstate(over="ignore", invalid="ignore"):
            variance = self.scatter / np.where(self.total > 0, self.total, 1.0)
            return np.asarray(np.sqrt(variance) > ROUNDING * np.sqrt(variance + self.mean**2))

    @property
    def spread(self) -> Float[np.ndarray, " p"]:
        """Standard deviations (p,), 1 for constant columns, as in scikit-learn's ``StandardScaler``.

        Examples
        --------
        >>> summarise(np.array([[0.0, 5.0], [2.0, 5.0]]), np.ones(2)).spread.tolist()
        [1.0, 1.0]
        """
        varies = self.varies
        return np.where(varies, np.sqrt(np.where(varies, self.scatter, 1.0) / np.where(varies, self.total, 1.0)), 1.0)

    @property
    def usually_one_signed(self) -> Bool[np.ndarray, " p"]:
        """Whether zero is not a usual value of each column, (p,) bool.

        Such a column has one sign, is non-zero in rows with more than half of the weight, and has more than one
        non-zero value: it is neither a dummy nor a constant.

        Examples
        --------
        >>> X = np.array([[5.0, 1.0, -1.0, 2.0], [6.0, 0.0, 1.0, 2.0], [7.0, 1.0, 3.0, 2.0]])
        >>> summarise(X, np.ones(3)).usually_one_signed.tolist()
        [True, False, False, False]
        """
        one_signed = (self.low >= 0) | (self.high <= 0)
        # The margin exceeds the rounding of sums of the same weights in another order.
        mostly = 2 * self.nonzero > self.total * (1 + 1000 * ROUNDING)
        return one_signed & mostly & (np.maximum(self.high, -self.low) > self.smallest)

    @property
    def always_one_signed(self) -> Bool[np.ndarray, " p"]:
        """Whether each column is never zero, of one sign and not constant, (p,) bool."""
        return ((self.low > 0) | (self.high < 0)) & (self.high > self.low)

    @property
    def usual_square(self) -> float:
        """Mean square of the entries of the median column; 1 if all are zero.

        For a column that is ``usually_one_signed`` it is the variance. For other columns it is the mean over non-zero
        entries, on which noise and weights act: 1 for 0/1 words, 1 over the number of words for rows of norm 1.

        Examples
        --------
        >>> words = np.array([[0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
        >>> summarise(words, np.ones(2)).usual_square
        0.25
        """
        about = np.where(self.usually_one_signed, self.mean, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            square = self.scatter + self.total * (self.mean - about) ** 2
            count = np.where(self.usually_one_signed, self.total, self.nonzero)
            square = square[count > 0] / count[count > 0]
        square = square[np.isfinite(square) & (square > 0)]
        return float(np.median(square)) if len(square) else 1.0

    def far_from_zero(self, deviations: float) -> Bool[np.ndarray, " p"]:
        """Whether the mean of each column is more than ``deviations`` standard deviations from zero, (p,) bool."""
        return np.asarray(np.abs(self.mean) > deviations * self.spread)

    def extreme_spreads(self) -> tuple[float, int, int]:
        """Largest ratio of the spreads of two columns that vary, and their numbers, smaller spread first; 1 if none.

        Examples
        --------
        >>> summarise(np.array([[0.0, 5.0, 0.0], [2.0, 5.0, 400.0]]), np.ones(2)).extreme_spreads()
        (200.0, 0, 2)
        """
        spread = self.spread
        varies = np.flatnonzero(np.isfinite(spread) & self.varies)
        if not len(varies):
            return 1.0, 0, 0
        low, high = varies[np.argmin(spread[varies])], varies[np.argmax(spread[varies])]
        return float(spread[high] / spread[low]), int(low), int(high)


def merge_summaries(parts: Sequence[ColumnSummary]) -> ColumnSummary:
    """Merge the summaries of blocks of rows, in their order, to the summary of all rows.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [5.0]])
    >>> parts = [summarise(X[:1], np.ones(1)), summarise(X[1:], np.ones(2))]
    >>> merge_summaries(parts).mean.tolist(), merge_summaries(parts).scatter.tolist()
    ([2.0], [14.0])
    """
    return reduce(_merged, parts)


def _merged(one: ColumnSummary, other: ColumnSummary) -> ColumnSummary:
    with np.errstate(over="ignore", invalid="ignore"):
        total = one.total + other.total
        share = other.total / np.where(total > 0, total, 1.0)
        apart = other.mean - one.mean
        return ColumnSummary(
            rows=one.rows + other.rows,
            total=total,
            nonzero=one.nonzero + other.nonzero,
            mean=one.mean + share * apart,
            scatter=one.scatter + other.scatter + one.total * share * apart**2,
            low=np.minimum(one.low, other.low),
            high=np.maximum(one.high, other.high),
            smallest=np.minimum(one.smallest, other.smallest),
        )


def summarise(X: MatrixLike, weight: Num[np.ndarray, " n"], missing: Any = None) -> ColumnSummary:
    """Summarise the columns of a dense matrix or of compressed rows.

    Parameters
    ----------
    X : array or csr (n, p)
        Features, 0 where they are missing.
    weight : array (n,)
        Row weights.
    missing : bool array or csr (n, p), optional
        Indicator of the missing entries, in the same storage.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> X = np.array([[0.0, 0.1], [3.0, 0.1]])
    >>> [summarise(rows, np.array([2.0, 1.0])).mean.tolist() for rows in (X, csr_array(X))]
    [[1.0, 0.1], [1.0, 0.1]]
    """
    has_weight = weight > 0
    if not np.all(has_weight):
        X, weight, missing = X[has_weight], weight[has_weight], None if missing is None else missing[has_weight]
    if issparse(X) and not X.has_canonical_format:
        X = X.copy()  # the caller's matrix is unchanged
        X.sum_duplicates()
    one: Callable[..., ColumnSummary] = _of_sparse if issparse(X) else _of_dense

    def make(rows: slice) -> ColumnSummary:
        return one(X[rows], weight[rows], None if missing is None else missing[rows])

    with np.errstate(over="ignore", invalid="ignore"):
        summaries = side_by_side([partial(make, rows) for rows in _blocks(X)])
    return merge_summaries(summaries) if summaries else ColumnSummary.empty(X.shape[1])


def _blocks(X: MatrixLike) -> list[slice]:
    """Slices of the rows, for blocks of a bounded number of stored entries."""
    n, p = X.shape
    step = max(1, BLOCK * n // max(X.nnz, 1)) if issparse(X) else max(LIMITS.fewest, LIMITS.cached // max(p, 1))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _of_dense(
    X: Num[np.ndarray, "n p"], weight: Num[np.ndarray, " n"], missing: Bool[np.ndarray, "n p"] | None
) -> ColumnSummary:
    block, nonzero = X.astype(np.float64, copy=False), X != 0
    # Deviations from an entry lose no digits even if the column hardly varies about a large mean.
    origin, total = block[0], np.full(X.shape[1], weight.sum())
    if missing is not None:
        origin, total = block[np.argmin(missing, axis=0), np.arange(X.shape[1])], weight @ ~missing
        block = np.where(missing, origin, block)
    apart = block - origin
    move = (weight @ apart) / np.where(total > 0, total, 1.0)
    apart -= move
    if missing is not None:
        apart[missing] = 0.0
    apart *= apart
    summary = ColumnSummary(
        rows=len(X),
        total=total,
        nonzero=weight @ nonzero,
        mean=origin + move,
        scatter=weight @ apart,
        low=block.min(axis=0),
        high=block.max(axis=0),
        smallest=np.min(np.where(nonzero, np.abs(block), np.inf), axis=0),
    )
    return summary if missing is None else _of_present(summary)


def _of_present(summary: ColumnSummary) -> ColumnSummary:
    """Replace the summary of each column without observed entries by the empty summary."""
    empty = ColumnSummary.empty(len(summary.total))
    return ColumnSummary(
        summary.rows, *(np.where(summary.total > 0, *both) for both in zip(summary[1:], empty[1:], strict=True))
    )


def _of_sparse(X: Any, weight: Num[np.ndarray, " n"], missing: Any) -> ColumnSummary:
    n, p = X.shape
    total, n_observed = np.full(p, weight.sum()), np.full(p, n)
    if missing is not None:
        weight_of_entry = np.repeat(weight, np.diff(missing.indptr))
        total = total - np.bincount(missing.indices, weights=weight_of_entry, minlength=p)
        n_observed = n_observed - np.bincount(missing.indices, minlength=p)
        total = np.where(n_observed > 0, total, 0.0)
    columns = X.tocsc()  # with adjacent entries, sums take a third of the time
    count, of_entry, value = (
        np.diff(columns.indptr),
        weight[columns.indices],
        columns.data.astype(np.float64, copy=False),
    )
    has_entries = count > 0
    first, size = columns.indptr[:-1][has_entries], np.where(value != 0, np.abs(value), np.inf)

    def by_column(reduce: np.ufunc, values: Float[np.ndarray, " m"], start: Any = 0.0) -> Float[np.ndarray, " p"]:
        result = np.full(p, start)
        if len(first):
            result[has_entries] = reduce(result[has_entries], reduce.reduceat(values, first))
        return result

    zeros = np.maximum(total - by_column(np.add, of_entry), 0.0)
    safe = np.where(total > 0, total, 1.0)
    mean = by_column(np.add, of_entry * value) / safe
    # A second step, so that the mean of equal numbers is exactly that number.
    mean += (by_column(np.add, of_entry * (value - np.repeat(mean, count))) - zeros * mean) / safe
    summary = ColumnSummary(
        rows=n,
        total=total,
        nonzero=by_column(np.add, of_entry * (value != 0)),
        mean=mean,
        scatter=by_column(np.add, of_entry * (value - np.repeat(mean, count)) ** 2) + zeros * mean**2,
        low=by_column(np.minimum, value, np.where(count < n_observed, 0.0, np.inf)),
        high=by_column(np.maximum, value, np.where(count < n_observed, 0.0, -np.inf)),
        smallest=by_column(np.minimum, size, np.inf),
    )
    return summary if missing is None else _of_present(summary)
