"""Rows of weight zero below the others, so that data of nearly as many rows share a compiled program.

A program is compiled for the shapes of its operands, and the folds of a cross-validation differ by a row. Up to a size
at which a run takes longer than its compilation, dense rows are padded to one of eight lengths an octave, at most an
eighth more than there are. A padding row is zero, has the response of the last row and the weight zero: its cost and
its slopes are zero exactly, and all other sums are what they were, but for round-off.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from .density import DensityOperands

__all__ = ["padded_length", "padded_rows"]

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


def padded_rows(operands: DensityOperands) -> DensityOperands:
    """Operands with padding rows; as they are where rows are sparse, streamed, many or on devices of the user's choice.

    Examples
    --------
    >>> from bayesdrop.mcmc.matrix import samplers_matrix
    >>> given = DensityOperands(samplers_matrix(np.ones((17, 2)), "float32", False), *6 * [jnp.ones(17)])
    >>> padded_rows(given).matrix.dense.shape, int(padded_rows(given).row_weight.sum())
    ((2, 18), 17)
    """
    dense, square = operands.matrix.dense, operands.matrix.square
    if dense is None or dense.size > _LARGEST or not isinstance(dense.sharding, SingleDeviceSharding):
        return operands
    more = padded_length(dense.shape[1]) - dense.shape[1]

    def below(part: Any, mode: Any = "constant", **options: float) -> Any:
        """The part with ``more`` entries along its last axis."""
        if part is None or not more:
            return part
        # By NumPy, for JAX would compile a program for each length.
        return jnp.asarray(np.pad(np.asarray(part), [(0, 0)] * (part.ndim - 1) + [(0, more)], mode, **options))

    return operands._replace(
        matrix=operands.matrix._replace(dense=below(dense), square=below(square)),
        target=below(operands.target, "edge"),
        row_weight=below(operands.row_weight),
        width=below(operands.width, constant_values=1.0),
        offset=below(operands.offset),
    )
