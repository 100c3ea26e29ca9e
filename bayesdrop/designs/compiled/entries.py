"""What goes once through all entries of a dense matrix, compiled by Numba (the extra ``fast``).

Compressed rows of a matrix of mostly zeros, or of what is left of it when a centre is subtracted, and how the entries
of each column lie. Parts of the rows go in threads; how many parts there are does not depend on how many threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..._typing import Float, Int, Num
from ..block_threads import side_by_side
from .jit import compiled

__all__ = ["ROUNDING", "compress", "look_at_columns", "row_counts"]

# Entries so near a centre, relative to it, are at it: the mean of equal numbers is one of them but for rounding.
ROUNDING = 1e-12
# Entries of a part.
_PART = 1 << 20
# Entries are finite, so that several columns may be taken at once.
_FAST = ("nnan", "nsz", "contract")


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


def look_at_columns(
    X: Num[np.ndarray, "n p"],
    weight: Float[np.ndarray, " n"],
    origin: Float[np.ndarray, " p"],
    sums: Float[np.ndarray, "3 p"],
    ends: Float[np.ndarray, "3 p"],
) -> None:
    """Bring what is known of the columns up to date with some rows.

    ``sums`` are the weight of entries that are not zero and the sums of ``x − o`` and of its square; ``ends`` are the
    smallest and the largest entry, and the smallest size of one that is not zero.
    """
    for i in range(X.shape[0]):
        s = weight[i]
        for d in range(X.shape[1]):
            x = np.float64(X[i, d])
            apart, size = x - origin[d], abs(x) if x != 0 else np.inf
            sums[0, d] += s if x != 0 else 0.0
            sums[1, d] += s * apart
            sums[2, d] += s * apart * apart
            ends[0, d] = x if x < ends[0, d] else ends[0, d]
            ends[1, d] = x if x > ends[1, d] else ends[1, d]
            ends[2, d] = size if size < ends[2, d] else ends[2, d]
