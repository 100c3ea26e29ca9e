"""What a block of rows was at the first pass, so that one that changes between two passes is found."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float, Num
from .checks import check_finite, entries_of, is_sparse, known_binary

__all__ = ["Record", "is_same", "record_of"]

# Rows and columns of a block whose order is part of its record.
_SAMPLE = 64
# Relative difference of two sums of the same numbers, which a source may compute anew, in another order.
_ROUND_OFF = 1e-12


class Record(NamedTuple):
    """What a block must still be when it is read again: its size, its sum, and a sum that depends on the order.

    ``bits`` is the sum of its bits taken for integers: while it is the same the sum of the numbers need not be made.
    ``binary`` is what need not be found out again about a sparse block; see :func:`.blocks.checks.known_binary`.
    """

    rows: int
    stored: int
    bits: int
    sums: Float[np.ndarray, " 2"]
    scale: Float[np.ndarray, " 2"]
    binary: bool | None


def _ordered(block: Any) -> Float[np.ndarray, ...]:
    """Some entries, multiplied by what depends on where they stand."""
    if is_sparse(block):
        step = max(1, block.nnz // _SAMPLE**2)
        some = block.data[::step].astype(np.float64)
        return some * (1.0 + block.indices[::step] + np.arange(len(some)))
    n, p = block.shape
    some = block[:: max(1, n // _SAMPLE), :: max(1, p // _SAMPLE)].astype(np.float64)
    some *= _places(*some.shape)
    return some


@lru_cache(maxsize=8)
def _places(n: int, p: int) -> Float[np.ndarray, "n p"]:
    """A number for each place of a block, no two of them near each other the same."""
    places = 1.0 + np.arange(n)[:, None] + np.sqrt(np.arange(p))
    places.flags.writeable = False
    return places


def _bits(values: Num[np.ndarray, ...]) -> int:
    """Sum of the bits of some numbers, eight bytes at a time; the least of them that fit in 64 bits.

    It goes as fast as memory is read, a fifth of the time of a sum in double precision of single ones.
    """
    raw = values.ravel(order="K").view(np.uint8)
    whole = len(raw) - len(raw) % 8
    return int(raw[:whole].view(np.uint64).sum(dtype=np.uint64)) + int(raw[whole:].sum(dtype=np.uint64))


def record_of(block: Any, where: str, start: int) -> Record:
    """Record of a block; raise ValueError if an entry is not finite."""
    check_finite(block, f"source: {where}", start)
    values = entries_of(block)
    with np.errstate(invalid="ignore", over="ignore"):
        ordered = _ordered(block)
        sums = np.array([values.sum(dtype=np.float64), ordered.sum()])
        scale = np.array([np.abs(values).sum(dtype=np.float64), np.abs(ordered).sum()])
    return Record(block.shape[0], values.size, _bits(values), sums, scale, known_binary(block))


def is_same(record: Record, block: Any, p: int) -> bool:
    """True if a block is still what its record says, ``p`` columns wide and of a sound structure."""
    values = entries_of(block)
    if block.shape != (record.rows, p) or values.size != record.stored:
        return False
    if is_sparse(block) and values.size:
        # Compiled products trust these, and a column that is not there would be memory that is not the matrix's.
        inside = block.indices.min() >= 0 and block.indices.max() < p
        if not inside or block.indptr[-1] != values.size or np.any(np.diff(block.indptr) < 0):
            return False
    with np.errstate(invalid="ignore", over="ignore"):
        found = [float(_ordered(block).sum())]
        if _bits(values) != record.bits:
            # A source that computes its numbers anew may have rounded them otherwise.
            found.append(float(values.sum(dtype=np.float64)))
    known = zip(found, record.sums[::-1].tolist(), record.scale[::-1].tolist(), strict=False)
    # NaN is unequal to everything, as it should be.
    return all(abs(value - sum_) <= _ROUND_OFF * scale for value, sum_, scale in known)
