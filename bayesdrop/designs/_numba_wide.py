"""Products of compressed rows with many vectors, eight at a time, compiled by Numba (the extra ``fast``).

Eight vectors lie side by side, so that an entry of the matrix is read once for them and their sums stay in a register
(:mod:`._lanes`).
Of the eight four meet X and four X², or all of them one of the two. ``Xᵀ r`` is the same over compressed columns: sums
that stay where they are take half the time of sums that are scattered. Up to four vectors that all meet one of the two
go by themselves. Each sum is made by one thread, whatever their number: many entries go in threads, a part of the lines
for each core.
"""

from __future__ import annotations

from functools import cache, partial
from inspect import unwrap
from itertools import product
from typing import Any

import numpy as np

from .._typing import Float, Int, Num
from .block_threads import cores, in_a_thread, shares, side_by_side

__all__ = ["gather_many", "worthwhile"]

_WIDTH, _HALF = 8, 4
# Of fewer columns than this the loops of :mod:`._numba` are as quick.
_MANY = 4
# Entries up to which a second copy, in compressed columns, is a small matter.
_COPIED = 1 << 27
# Entries from which on there is work for threads, which takes some ten microseconds to hand over.
_THREADED = 1 << 18
# Rows whose columns are put side by side, or back, at once.
_ROWS = 256


def worthwhile(linear: int, square: int, entries: int) -> bool:
    """Whether so many columns for X and for X² are better taken eight at a time.

    Examples
    --------
    >>> worthwhile(10, 10, 10**6), worthwhile(1, 1, 10**6), worthwhile(10, 3, 10**6)
    (True, False, False)
    """
    return linear + square >= _MANY and (linear == square or not linear * square) and entries <= _COPIED


def gather_many(
    matrix: tuple[Any, Any, Any], binary: bool, w: Num[np.ndarray, "p K"], w_sq: Num[np.ndarray, "p L"], size: int
) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]:
    """``(X w, X² w_sq)`` for (pointers, indices, data) of ``size`` rows, where :func:`worthwhile` holds."""
    parts = [part for part in (w, w_sq) if part.shape[1]]
    few = len(parts) == 1 and parts[0].shape[1] <= _HALF
    width = _HALF if few else _WIDTH
    share = width // len(parts)
    groups = -(-parts[0].shape[1] // share)
    block, result = np.zeros((groups, len(w), width)), np.empty((groups, size, width))
    for rows, g in product(_slices(len(w)), range(groups)):
        for k, part in enumerate(parts):
            some = part[rows, g * share : (g + 1) * share]
            block[g, rows, k * share : k * share + some.shape[1]] = some
    squares = (not w.shape[1],) if few else (not w.shape[1], bool(w_sq.shape[1]))
    _in_parts(_compiled()[few], matrix[0], (*matrix, binary, *squares, block, result))
    whole = np.empty((len(parts), size, parts[0].shape[1]))
    for rows, g in product(_slices(size), range(groups)):
        for k in range(len(parts)):
            place = whole[k, rows, g * share : (g + 1) * share]
            place[:] = result[g, rows, k * share : k * share + place.shape[1]]
    if len(parts) == 2:
        return whole[0], whole[1]
    nothing = np.zeros((size, 0))
    return (whole[0], nothing) if w.shape[1] else (nothing, whole[0])


def _slices(size: int) -> list[slice]:
    """Rows a few at a time: those of hundreds of columns stay in the cache while their eights are copied."""
    return [slice(start, start + _ROWS) for start in range(0, size, _ROWS)]


def _in_parts(loop: Any, pointers: Num[np.ndarray, " pointers"], arguments: tuple[Any, ...]) -> None:
    """Run a loop over all lines, in threads where there are many entries and the caller is not one of several."""
    count = 1 if int(pointers[-1]) < _THREADED or in_a_thread() else cores()
    side_by_side([partial(loop, *arguments, some.start, some.stop) for some in shares(pointers, count)])


@cache
def _compiled() -> tuple[Any, Any]:
    """The loops over eight and over four columns; sums may be ordered as the processor likes, several taken at once."""
    import numba

    from ._lanes import gather_eight

    compile_ = numba.njit(cache=True, nogil=True, boundscheck=False, fastmath={"reassoc", "contract"})
    return gather_eight, compile_(unwrap(gather_four))


def gather_four(
    pointers: Int[np.ndarray, " pointers"],
    indices: Int[np.ndarray, " m"],
    data: Float[np.ndarray, " m"],
    binary: bool,
    square: bool,
    block: Float[np.ndarray, "groups inside 4"],
    result: Float[np.ndarray, "groups outside 4"],
    start: int,
    stop: int,
) -> None:
    """Write the products of some lines; all columns meet X², or X."""
    columns, sums = block[0], result[0]
    for i in range(start, stop):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for j in range(pointers[i], pointers[i + 1]):
            w = columns[indices[j]]
            x = 1.0
            if not binary:
                x = np.float64(data[j])
                x = x * x if square else x
            a += x * w[0]
            b += x * w[1]
            c += x * w[2]
            d += x * w[3]
        sums[i, 0], sums[i, 1], sums[i, 2], sums[i, 3] = a, b, c, d
