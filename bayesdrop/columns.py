"""What the columns of a matrix look like: means, standard deviations, and which of them are far from zero.

All sums are weighted as the rows are, so that a row of weight 2 is the row twice. Dense rows are read a block at a
time, and of a sparse matrix the stored entries alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .designs import as_design, is_elsewhere

__all__ = ["always_one_signed", "column_means", "column_spread", "differing_scales", "usually_one_signed"]

Array = Any

# Entries of a block of dense rows.
_BLOCK = 1 << 20
# Rows that one column's sign is looked at in before all of them are.
_FIRST = 1 << 10
# Rows that the scales of columns are compared on.
_SOME = 2000
# A standard deviation below it, relative to the root mean square, is rounding.
_ROUNDING = 1e-12
# The same where it is the difference of two mean squares, each of which is rounded.
_ROUNDING_ABOUT_ZERO = 1e-6


def _is_sparse(X: Any) -> bool:
    return hasattr(X, "tocsr")


def _row_blocks(X: Array, columns: Array | None = None) -> Iterator[tuple[slice, Array]]:
    """Dense rows in double precision, a block at a time: first a small one, to decide early."""
    n, p = X.shape
    start, size = 0, min(_FIRST, max(1, _BLOCK // max(p, 1)))
    while start < n:
        rows = slice(start, min(start + size, n))
        block = X[rows] if columns is None else X[rows][:, columns]
        yield rows, block.astype(np.float64, copy=False)
        start, size = rows.stop, max(1, _BLOCK // max(p, 1))


def column_means(X: Array, weight: Array) -> Array:
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
        for rows, block in _row_blocks(X):
            total += weight[rows] @ (block - origin)
        return origin + total / weight.sum()


def column_spread(X: Any, weight: Array) -> Array:
    """Standard deviations of the columns about their means, (p,); 1 where a column does not vary.

    That is what scikit-learn's ``StandardScaler`` divides by, of dense, sparse and distributed rows alike. Of the last
    the sums of squares are taken about zero, which leaves half of the digits at a mean of 1e4 deviations, and a column
    counts as one that does not vary at a mean of 1e6.

    Examples
    --------
    >>> column_spread(np.array([[0.0, 5.0], [2.0, 5.0]]), np.ones(2)).tolist()
    [1.0, 1.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if is_elsewhere(X):
            design, block = as_design(X), weight[:, None]
            total = design.total(block)[0]
            mean = np.asarray(design.rmatvec(block))[:, 0] / total
            square = np.asarray(design.sq_rmatvec(block))[:, 0] / total
            variance, rounding = square - mean**2, _ROUNDING_ABOUT_ZERO
        elif _is_sparse(X):
            mean, variance, square = _sparse_moments(X, weight)
            rounding = _ROUNDING
        else:
            mean = column_means(X, weight)
            variance = np.zeros(X.shape[1])
            for rows, part in _row_blocks(X):
                variance += weight[rows] @ (part - mean) ** 2
            variance /= weight.sum()
            square, rounding = variance + mean**2, _ROUNDING
        constant = ~(np.sqrt(np.maximum(variance, 0.0)) > rounding * np.sqrt(square))
        return np.where(constant, 1.0, np.sqrt(np.where(constant, 1.0, variance)))


def _sparse_moments(X: Any, weight: Array) -> tuple[Array, Array, Array]:
    """Means, variances and mean squares of the columns of compressed rows."""
    if not X.has_canonical_format:
        X = X.copy()  # the caller's matrix stays as it is
        X.sum_duplicates()
    p, total = X.shape[1], weight.sum()
    of_entry = np.repeat(weight, np.diff(X.indptr))
    value = X.data.astype(np.float64, copy=False)
    mean = np.bincount(X.indices, weights=of_entry * value, minlength=p) / total
    stored = np.bincount(X.indices, weights=of_entry, minlength=p)
    about = np.bincount(X.indices, weights=of_entry * (value - mean[X.indices]) ** 2, minlength=p)
    square = np.bincount(X.indices, weights=of_entry * value**2, minlength=p) / total
    return mean, (about + (total - stored) * mean**2) / total, square


def _one_signed(X: Array) -> Array:
    """Columns of a dense matrix without entries of both signs, as numbers."""
    left = np.arange(X.shape[1])
    above, below = np.zeros(len(left), bool), np.zeros(len(left), bool)
    for _, block in _row_blocks(X):
        block = block if len(left) == X.shape[1] else block[:, left]
        above |= (block > 0).any(axis=0)
        below |= (block < 0).any(axis=0)
        keep = ~(above & below)
        left, above, below = left[keep], above[keep], below[keep]
        if not len(left):
            break
    return left


def usually_one_signed(X: Array, weight: Array) -> Array:
    """Which columns of a dense matrix zero is no usual value of, (p,) bool.

    They are of one sign, non-zero in more than half of the weight of the rows, and have more than one value other than
    zero: no dummy, no constant.

    Examples
    --------
    >>> X = np.array([[5.0, 1.0, -1.0, 2.0], [6.0, 0.0, 1.0, 2.0], [7.0, 1.0, 3.0, 2.0]])
    >>> usually_one_signed(X, np.ones(3)).tolist()
    [True, False, False, False]
    """
    left = _one_signed(X)
    share = np.zeros(len(left))
    least, most = np.full(len(left), np.inf), np.zeros(len(left))
    for rows, block in _row_blocks(X, left):
        size = np.abs(block)
        share += weight[rows] @ (size > 0)
        np.minimum(least, np.where(size > 0, size, np.inf).min(axis=0, initial=np.inf), out=least)
        np.maximum(most, size.max(axis=0, initial=0.0), out=most)
    result = np.zeros(X.shape[1], bool)
    result[left] = (2 * share > weight.sum()) & (most > least)
    return result


def always_one_signed(X: Any) -> Array:
    """Columns, as numbers, that are never zero, of one sign and not constant; of a dense or a sparse matrix.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> X = np.array([[5.0, 1.0, 2.0], [6.0, 0.0, 2.0]])
    >>> always_one_signed(X).tolist(), always_one_signed(csr_array(X)).tolist()
    ([0], [0])
    """
    n, p = X.shape
    if not _is_sparse(X):
        left = _one_signed(X)
        columns = [X[:, d] for d in left]
    else:
        full = np.bincount(X.indices[X.data != 0], minlength=p) >= n
        left = np.flatnonzero(full)
        columns = [] if not len(left) else [X[:, [d]].toarray()[:, 0] for d in left]
    kept = [
        (np.all(column > 0) or np.all(column < 0)) and bool(column.max() > column.min()) if n else False
        for column in columns
    ]
    return left[np.array(kept, dtype=bool)]


def differing_scales(X: Any, weight: Array) -> tuple[float, int, int]:
    """Largest ratio of two columns' standard deviations on some of the rows, and the two columns, smaller one first.

    Columns that do not vary there have no say; 1 if there are none.

    Examples
    --------
    >>> differing_scales(np.array([[0.0, 5.0, 0.0], [2.0, 5.0, 400.0]]), np.ones(2))
    (200.0, 0, 2)
    """
    step = max(1, X.shape[0] // _SOME)
    some = X[::step]
    spread = column_spread(some, weight[::step])
    varies = np.flatnonzero(np.isfinite(spread) & _varies(some))
    if not len(varies):
        return 1.0, 0, 0
    low, high = varies[np.argmin(spread[varies])], varies[np.argmax(spread[varies])]
    return float(spread[high] / spread[low]), int(low), int(high)


def _varies(X: Any) -> Array:
    """Which columns have two values at least, (p,) bool."""
    high, low = X.max(axis=0), X.min(axis=0)
    high, low = (part.toarray().ravel() if hasattr(part, "toarray") else np.asarray(part) for part in (high, low))
    return high > low
