"""Rows of weight zero below the others, so that data of nearly as many rows share a compiled program.

A program is compiled for the shapes of its operands, and the folds of a cross-validation differ by a row. Up to a size
at which a run takes longer than its compilation, dense rows are padded to one of eight lengths an octave, at most an
eighth more than there are. A padding row is zero, has the response of the last row and the weight zero: its cost and
its slopes are zero exactly, and all other sums are what they were, but for round-off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.sharding import SingleDeviceSharding

from ..placing import placed
from .density import DensityOperands

__all__ = ["lengthened", "missing_rows", "padded_length", "padded_rows"]

# Entries of a matrix up to which it is padded, and lengths an octave as a power of two.
_LARGEST, _LENGTHS = 1 << 18, 3


def padded_length(n: int) -> int:
    """Least of the lengths that hold ``n`` rows.

    Examples
    --------
    >>> padded_length(455), padded_length(456), padded_length(569), padded_length(7)
    (480, 480, 576, 7)
    """
    step = 1 << max(n.bit_length() - 1 - _LENGTHS, 0)
    return -(-n // step) * step


def missing_rows(transpose: Any) -> int | None:
    """Rows that a matrix, given as its transpose (p, n), is short of its length; None where it is left as it is."""
    if transpose.size > _LARGEST or not isinstance(transpose.sharding, SingleDeviceSharding):
        return None
    return padded_length(transpose.shape[1]) - transpose.shape[1]


def lengthened(part: Any, more: int, mode: Any = "constant", **options: Any) -> Any:
    """An array with ``more`` entries along its last axis, zeros or as ``numpy.pad`` has it; None stays None."""
    if part is None or not more:
        return part
    return placed(np.pad(np.asarray(part), [(0, 0)] * (part.ndim - 1) + [(0, more)], mode, **options))


def padded_rows(operands: DensityOperands) -> DensityOperands:
    """Operands with padding rows; as they are where rows are sparse, streamed, many or on devices of the user's choice.

    Examples
    --------
    >>> from bayesdrop.mcmc.matrix import samplers_matrix
    >>> ones = placed(np.ones(17), "float32")
    >>> given = DensityOperands(samplers_matrix(np.ones((17, 2)), "float32", False), *7 * [ones])
    >>> padded_rows(given).matrix.dense.shape, int(padded_rows(given).row_weight.sum())
    ((2, 18), 17)
    """
    dense, square = operands.matrix.dense, operands.matrix.square
    more = None if dense is None else missing_rows(dense)
    if more is None:
        return operands
    return operands._replace(
        matrix=operands.matrix._replace(dense=lengthened(dense, more), square=lengthened(square, more)),
        target=lengthened(operands.target, more, "edge"),
        row_weight=lengthened(operands.row_weight, more),
        width=lengthened(operands.width, more, constant_values=1.0),
        offset=lengthened(operands.offset, more),
    )
