"""Record each block of rows in the first pass, to detect changes between passes, for :mod:`.design`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from ..._typing import Float, Num
from ..admission import admit
from ..kernels import ROUNDING
from ..threads import LIMITS

__all__ = ["Record", "as_matrix", "check_finite", "entries_of", "is_same", "record_of"]


class Record(NamedTuple):
    """Size of a block, its sum and a sum that depends on the order, and their scales, which later passes compare."""

    rows: int
    stored: int
    sums: Float[np.ndarray, " 2"]
    scale: Float[np.ndarray, " 2"]


def _ordered(block: Any) -> Float[np.ndarray, ...]:
    """Sample of the entries, multiplied by numbers that depend on their positions."""
    sample = LIMITS.sample
    if issparse(block):
        step = max(1, block.nnz // sample**2)
        entries = block.data[::step].astype(np.float64)
        return entries * (1.0 + block.indices[::step] + np.arange(len(entries)))
    n, p = block.shape
    entries = block[:: max(1, n // sample), :: max(1, p // sample)].astype(np.float64)
    # The factors of adjacent positions differ.
    return entries * (1.0 + np.arange(len(entries))[:, None] + np.sqrt(np.arange(entries.shape[1])))


def record_of(block: Any, where: str, start: int) -> Record:
    """Record of a block; raise ValueError if an entry is not finite, or the sums overflow."""
    check_finite(block, f"source: {where}", start)
    values = entries_of(block)
    with np.errstate(invalid="ignore", over="ignore"):
        ordered = _ordered(block)
        sums = np.array([values.sum(dtype=np.float64), ordered.sum()])
        scale = np.array([np.abs(values).sum(dtype=np.float64), np.abs(ordered).sum()])
    if not np.all(np.isfinite(scale)):
        raise ValueError(
            f"source: {where} has entries of size {np.max(np.abs(values)):.2g}, whose sums overflow; divide their "
            "columns by it, or leave them out."
        )
    return Record(block.shape[0], values.size, sums, scale)


def is_same(record: Record, block: Any, p: int) -> bool:
    """True if a block agrees with its record and has ``p`` columns."""
    values = entries_of(block)
    if block.shape != (record.rows, p) or values.size != record.stored:
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.array([values.sum(dtype=np.float64), _ordered(block).sum()])
        # A source that computes its numbers anew may round them differently. A comparison with NaN is False.
        return bool(np.all(np.abs(sums - record.sums) <= ROUNDING * record.scale))


def entries_of(matrix: Any) -> Num[np.ndarray, ...]:
    """Stored entries as an array."""
    return matrix.data if issparse(matrix) else matrix


def as_matrix(block: Any, where: str) -> Any:
    """Matrix of real numbers, in compressed rows if sparse; other input raises an error that names ``where``.

    Examples
    --------
    >>> as_matrix([[1, 2]], "X: block 0").shape
    (1, 2)
    """
    block = admit(block, where)
    matrix = csr_array(block) if issparse(block) else np.asarray(block)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(
            f"{where} must be a matrix of real numbers, (rows, columns); got shape {matrix.shape} of {matrix.dtype}."
        )
    return matrix


def check_finite(matrix: Any, where: str, start: int | None = None) -> None:
    """Raise ValueError if an entry is not finite; ``start`` is the number of the first row, if known."""
    if np.all(np.isfinite(entries_of(matrix))):
        return
    row, column = _first_bad_entry(matrix)
    whole = "" if start is None else f" (row {start + row} of all)"
    raise ValueError(
        f"{where} has a NaN or infinite entry in its row {row}{whole}, column {column}; fill in or leave out such rows "
        "before the fit."
    )


def _first_bad_entry(matrix: Any) -> tuple[int, int]:
    if issparse(matrix):
        place = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        return int(np.searchsorted(matrix.indptr, place, side="right")) - 1, int(matrix.indices[place])
    row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
    return row, int(np.flatnonzero(~np.isfinite(matrix[row]))[0])
