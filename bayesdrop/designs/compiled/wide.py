"""Products of compressed rows with many vectors, several at a time, compiled by Numba (the extra ``fast``).

The numbers that a block of vectors has for a column lie side by side, so that an entry of the matrix is read once for
eight of them (four or two of a narrow block) and their sums stay in a register (:mod:`.lines`). ``Xᵀ r`` is the same
over compressed columns, where sums stay where they are; where they fit into a core's cache, they are scattered over the
rows instead, which are read in their order, and no copy is made: eight vectors, or four and four that meet X². Many
entries go in threads.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ..._typing import Float, Num
from ..block_threads import Scratch, cores, in_a_thread, shares, side_by_side

__all__ = ["gather_many", "is_narrow", "scatter_many", "worthwhile"]

_WIDTH = 8
# Bytes of a line of the cache.
_LINE = 64
# Bytes of sums that are used again by the next product: the system is asked for fresh memory page by page, which takes
# as long as the product.
_KEPT = 1 << 23
_MADE = Scratch()
# Of fewer columns than this the loops of :mod:`.products` are as quick.
_MANY = 4
# Entries up to which a second copy, in compressed columns, is a small matter.
_COPIED = 1 << 27
# Entries, times eights of columns, from which on there is work for threads, which takes some ten microseconds to hand
# over.
_THREADED = 1 << 18
# Columns up to which sums are scattered, and the parts that these are made in.
_NARROW, _PARTS = 1 << 11, 4


def worthwhile(linear: int, square: int, entries: int) -> bool:
    """Whether so many columns for X and for X² are better taken several at a time.

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
    from .lines import gather_wide

    found = np.empty((size, w.shape[1])), np.empty((size, w_sq.shape[1]))
    side_by_side(
        [
            partial(gather_wide, *matrix, binary, squared, _in_rows(block), made, some.start, some.stop)
            for block, made, squared in ((w, found[0], False), (w_sq, found[1], True))
            if block.shape[1]
            for some in shares(matrix[0], _threads(matrix[0], block.shape[1]))
        ]
    )
    return found


def scatter_many(
    matrix: tuple[Any, Any, Any], binary: bool, r: Num[np.ndarray, "n K"], r_sq: Num[np.ndarray, "n L"], size: int
) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
    """``(Xᵀ r, X²ᵀ r_sq)`` of ``size`` columns, few enough (:func:`is_narrow`).

    Parts are summed by themselves, as many as the sizes tell, so that no bit depends on how many threads there are.
    """
    from .lines import scatter_eight

    K, L = r.shape[1], r_sq.shape[1]
    first, second = (_in_rows(block) for block in ((r, r_sq) if K else (r_sq, r)))
    squares, share = (not K, bool(L)), _WIDTH // 2 if K and L else _WIDTH
    parts = shares(matrix[0], _PARTS if int(matrix[0][-1]) >= _THREADED else 1)
    sums = _room(len(parts), -(-first.shape[1] // share), size, _WIDTH)
    side_by_side(
        [
            partial(scatter_eight, *matrix, binary, *squares, first, second, part, some.start, some.stop)
            for part, some in zip(sums, parts, strict=True)
        ]
    )
    total = sums.sum(axis=0)
    one, other = (
        np.ascontiguousarray(half.transpose(1, 0, 2).reshape(size, -1)[:, :count])
        for half, count in ((total[..., :share], K or L), (total[..., share:], L if K else 0))
    )
    return (one, other) if K else (other, one)


def _threads(pointers: Num[np.ndarray, " pointers"], columns: int) -> int:
    """How many threads there is work for, which are none of several."""
    return 1 if int(pointers[-1]) * -(-columns // _WIDTH) < _THREADED or in_a_thread() else cores()


def _in_rows(block: Num[np.ndarray, "rows K"]) -> Float[np.ndarray, "rows K"]:
    """A block as the loops read it: the numbers of a row side by side, in double precision."""
    return np.ascontiguousarray(block, dtype=np.float64)


def _room(*shape: int) -> Float[np.ndarray, ...]:
    """Room for eights that begin where a line of the cache does, which reads and writes them at once."""
    size = 8 * math.prod(shape)
    room = _MADE.empty(size + _LINE, np.uint8) if size <= _KEPT else np.empty(size + _LINE, dtype=np.uint8)
    start = -room.ctypes.data % _LINE
    return room[start : start + size].view(np.float64).reshape(shape)
