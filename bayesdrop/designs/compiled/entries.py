"""What goes once through all entries of a dense matrix, compiled by Numba (the extra ``fast``).

Compressed rows of a matrix of mostly zeros, or of what is left of it when a centre is subtracted, and how the entries
of each column lie. Parts of the rows go in threads; how many parts there are does not depend on how many threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float, Int, Num
from ..block_threads import side_by_side
from .jit import compiled

__all__ = ["ROUNDING", "ColumnEnds", "column_ends", "compress", "row_counts", "weighted_sums"]

# Entries so near a centre, relative to it, are at it: the mean of equal numbers is one of them but for rounding.
ROUNDING = 1e-12
# Entries of a part.
_PART = 1 << 20
# Entries are finite, so that several columns may be taken at once; sums of them may overflow, and are NaN then.
_FAST = ("nnan", "nsz", "contract")


class ColumnEnds(NamedTuple):
    """Of each column (p,): the weight of rows that are not zero, least and greatest entry, least size but zero."""

    present: Float[np.ndarray, " p"]
    low: Float[np.ndarray, " p"]
    high: Float[np.ndarray, " p"]
    least: Float[np.ndarray, " p"]


def _parts(X: Num[np.ndarray, "n p"]) -> Iterator[slice]:
    step = max(1, _PART // max(X.shape[1], 1))
    return (slice(start, start + step) for start in range(0, len(X), step))


def row_counts(X: Float[np.ndarray, "n p"], centre: Float[np.ndarray, " p"]) -> Int[np.ndarray, " n"]:
    """Non-zeros of each row of ``X − c``, (n,), entries at ``c`` but for rounding being zero."""
    result = np.empty(len(X), dtype=np.int64)
    loop = compiled(count_entries, *_FAST)
    side_by_side([partial(loop, X[rows], centre, result[rows]) for rows in _parts(X)])
    return result


def compress(X: Float[np.ndarray, "n p"], centre: Float[np.ndarray, " p"], counts: Int[np.ndarray, " n"]) -> Any:
    """Compressed rows of ``X − c``, in the precision of ``X``, with so many non-zeros in each row."""
    from scipy import sparse

    pointers = np.append(0, np.cumsum(counts))
    small = max(int(pointers[-1]), *X.shape) < np.iinfo(np.int32).max
    index = np.int32 if small else np.int64
    indices, data = np.empty(pointers[-1], dtype=index), np.empty(pointers[-1], dtype=X.dtype)
    loop = compiled(write_entries, *_FAST)
    side_by_side(
        [partial(loop, X[rows], centre, pointers[rows.start : rows.stop + 1], indices, data) for rows in _parts(X)]
    )
    return sparse.csr_array((data, indices, pointers.astype(index)), shape=X.shape)


def column_ends(X: Float[np.ndarray, "n p"], weight: Float[np.ndarray, " n"]) -> ColumnEnds:
    """How the entries of every column lie, under weights of the rows."""
    rows, p = list(_parts(X)), X.shape[1]
    found = np.zeros((4, len(rows), p))
    found[1:] = [[[np.inf]], [[-np.inf]], [[np.inf]]]
    loop = compiled(look_at_columns, *_FAST)
    side_by_side([partial(loop, X[part], weight[part], *found[:, k]) for k, part in enumerate(rows)])
    return ColumnEnds(found[0].sum(axis=0), found[1].min(axis=0), found[2].max(axis=0), found[3].min(axis=0))


def weighted_sums(
    X: Float[np.ndarray, "n p"], origin: Float[np.ndarray, " p"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " p"]:
    """``(X − o)ᵀ s``, (p,)."""
    rows = list(_parts(X))
    found = np.zeros((len(rows), X.shape[1]))
    loop = compiled(add_rows, "contract")
    side_by_side([partial(loop, X[part], origin, weight[part], total) for part, total in zip(rows, found, strict=True)])
    return np.asarray(found.sum(axis=0))


def count_entries(X: Float[np.ndarray, "n p"], centre: Float[np.ndarray, " p"], counts: Int[np.ndarray, " n"]) -> None:
    """Write how many entries of each row are not at the centre."""
    for i in range(X.shape[0]):
        count = 0
        for d in range(X.shape[1]):
            count += abs(np.float64(X[i, d]) - centre[d]) > ROUNDING * abs(centre[d])
        counts[i] = count


def write_entries(
    X: Float[np.ndarray, "n p"],
    centre: Float[np.ndarray, " p"],
    pointers: Int[np.ndarray, " pointers"],
    indices: Int[np.ndarray, " m"],
    data: Float[np.ndarray, " m"],
) -> None:
    """Write columns and values of the entries that are not at the centre, row by row."""
    for i in range(X.shape[0]):
        place, end = pointers[i], pointers[i + 1]
        # An entry that does not count is written over by the next; behind the last row that would be another thread's.
        spare = end < pointers[X.shape[0]]
        for d in range(X.shape[1]):
            x = np.float64(X[i, d]) - centre[d]
            if spare or place < end:
                indices[place] = d
                data[place] = x
            place += abs(x) > ROUNDING * abs(centre[d])


def add_rows(
    X: Float[np.ndarray, "n p"],
    origin: Float[np.ndarray, " p"],
    weight: Float[np.ndarray, " n"],
    total: Float[np.ndarray, " p"],
) -> None:
    """Add some rows, about an origin, times their weights."""
    for i in range(X.shape[0]):
        for d in range(X.shape[1]):
            total[d] += weight[i] * (np.float64(X[i, d]) - origin[d])


def look_at_columns(
    X: Float[np.ndarray, "n p"],
    weight: Float[np.ndarray, " n"],
    present: Float[np.ndarray, " p"],
    low: Float[np.ndarray, " p"],
    high: Float[np.ndarray, " p"],
    least: Float[np.ndarray, " p"],
) -> None:
    """Bring what is known of the columns up to date with some rows."""
    for i in range(X.shape[0]):
        for d in range(X.shape[1]):
            x = np.float64(X[i, d])
            size = abs(x) if x != 0 else np.inf
            present[d] += weight[i] if x != 0 else 0.0
            low[d] = min(low[d], x)
            high[d] = max(high[d], x)
            least[d] = min(least[d], size)
