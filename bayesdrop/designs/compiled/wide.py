"""Products of compressed rows with many vectors, eight at a time, compiled by Numba (the extra ``fast``).

Eight vectors lie side by side, so that an entry of the matrix is read once for them and their sums stay in a register
(:mod:`.lines`). Of the eight four meet X and four X², or all of them one of the two. ``Xᵀ r`` is the same over
compressed columns, where sums stay where they are; where they fit into a core's cache, they are scattered over the rows
instead, which are read in their order, and no copy is made. Many entries go in threads.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from ..._typing import Float, Num
from ..block_threads import Scratch, cores, in_a_thread, shares, side_by_side

__all__ = ["gather_many", "is_narrow", "scatter_many", "worthwhile"]

_WIDTH = 8
# Bytes of a line of the cache.
_LINE = 64
# Bytes of what is given and what is made that are used again by the next product: the system is asked for fresh memory
# page by page, which takes as long as the product.
_KEPT = 1 << 23
_GIVEN, _MADE = Scratch(), Scratch()
# Of fewer columns than this the loops of :mod:`.products` are as quick.
_MANY = 4
# Entries up to which a second copy, in compressed columns, is a small matter.
_COPIED = 1 << 27
# Entries from which on there is work for threads, which takes some ten microseconds to hand over.
_THREADED = 1 << 18
# Columns up to which sums are scattered, and the parts that these are made in.
_NARROW, _PARTS = 1 << 11, 4
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


def is_narrow(columns: int) -> bool:
    """Whether sums over the rows of eight vectors stay in a core's cache, so that they may be scattered there.

    Examples
    --------
    >>> is_narrow(784), is_narrow(20_000)
    (True, False)
    """
    return columns <= _NARROW


def gather_many(
    matrix: tuple[Any, Any, Any], binary: bool, w: Num[np.ndarray, "p K"], w_sq: Num[np.ndarray, "p L"], size: int
) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]:
    """``(X w, X² w_sq)`` for (pointers, indices, data) of ``size`` rows, where :func:`worthwhile` holds."""
    from .lines import gather_eight

    block = _eights(w, w_sq)
    result = _room(_MADE, len(block), size, _WIDTH)
    squares = not w.shape[1], bool(w_sq.shape[1])
    side_by_side(
        [
            partial(gather_eight, *matrix, binary, *squares, block, result, some.start, some.stop)
            for some in shares(matrix[0], _threads(matrix[0]))
        ]
    )
    return _apart(result, w.shape[1], w_sq.shape[1])


def scatter_many(
    matrix: tuple[Any, Any, Any], binary: bool, r: Num[np.ndarray, "n K"], r_sq: Num[np.ndarray, "n L"], size: int
) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
    """``(Xᵀ r, X²ᵀ r_sq)`` of ``size`` columns, few enough (:func:`is_narrow`).

    Parts are summed by themselves, as many as the sizes tell, so that no bit depends on how many threads there are.
    """
    from .lines import scatter_eight

    block = _eights(r, r_sq)
    squares = not r.shape[1], bool(r_sq.shape[1])
    parts = shares(matrix[0], _PARTS if int(matrix[0][-1]) >= _THREADED else 1)
    sums = _room(_MADE, len(parts), len(block), size, _WIDTH)
    side_by_side(
        [
            partial(scatter_eight, *matrix, binary, *squares, block, part, some.start, some.stop)
            for part, some in zip(sums, parts, strict=True)
        ]
    )
    return _apart(sums.sum(axis=0), r.shape[1], r_sq.shape[1])


def _threads(pointers: Num[np.ndarray, " pointers"]) -> int:
    """How many threads there is work for, which are none of several."""
    return 1 if int(pointers[-1]) < _THREADED or in_a_thread() else cores()


def _room(scratch: Scratch, *shape: int) -> Float[np.ndarray, ...]:
    """Room for eights that begin where a line of the cache does, which reads and writes them at once."""
    size = 8 * math.prod(shape)
    room = scratch.empty(size + _LINE, np.uint8) if size <= _KEPT else np.empty(size + _LINE, dtype=np.uint8)
    start = -room.ctypes.data % _LINE
    return room[start : start + size].view(np.float64).reshape(shape)


def _share(K: int, L: int) -> int:
    """How many of each eight columns are of one kind."""
    return _WIDTH // 2 if K and L else _WIDTH


def _eights(first: Num[np.ndarray, "rows K"], second: Num[np.ndarray, "rows L"]) -> Float[np.ndarray, "groups rows 8"]:
    """Columns of two blocks in groups of eight, four of each block; or eight of the one that has some."""
    kinds, share = [part for part in (first, second) if part.shape[1]], _share(first.shape[1], second.shape[1])
    block = _room(_GIVEN, -(-kinds[0].shape[1] // share), len(first), _WIDTH)
    if kinds[0].shape[1] % share:
        block[-1] = 0.0
    for rows, g in product(_slices(len(first)), range(len(block))):
        for k, part in enumerate(kinds):
            some = part[rows, g * share : (g + 1) * share]
            block[g, rows, k * share : k * share + some.shape[1]] = some
    return block


def _apart(
    result: Float[np.ndarray, "groups rows 8"], K: int, L: int
) -> tuple[Float[np.ndarray, "rows K"], Float[np.ndarray, "rows L"]]:
    """The two blocks again."""
    share, size = _share(K, L), result.shape[1]
    whole = np.empty((1 + bool(K and L), size, max(K, L)))
    for rows, g in product(_slices(size), range(len(result))):
        for k, part in enumerate(whole):
            place = part[rows, g * share : (g + 1) * share]
            place[:] = result[g, rows, k * share : k * share + place.shape[1]]
    if K and L:
        return whole[0], whole[1]
    nothing = np.zeros((size, 0))
    return (whole[0], nothing) if K else (nothing, whole[0])


def _slices(size: int) -> list[slice]:
    """Rows a few at a time: those of hundreds of columns stay in the cache while their eights are copied."""
    return [slice(start, start + _ROWS) for start in range(0, size, _ROWS)]
