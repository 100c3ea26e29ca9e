"""Loops over compressed lines for two vectors and for more that lie side by side (:mod:`.lanes`), compiled by Numba.

Gather is ``X B`` over rows, or ``Xᵀ B`` over compressed columns; scatter is ``Xᵀ B`` over rows. Imported only where
Numba is (the extra ``fast``).
"""

from __future__ import annotations

import numpy as np

from ..._typing import Float, Int
from .jit import compiled
from .lanes import (
    LANES,
    eight_sums,
    eight_sums_of_ones,
    four_sums,
    four_sums_of_ones,
    scatter_to_eight,
    scatter_to_eight_ones,
    scatter_to_two,
    scatter_to_two_ones,
    two_sums,
    two_sums_of_ones,
)

__all__ = ["gather_two", "gather_wide", "scatter_eight", "scatter_two"]


def _gather_two(
    pointers: Int[np.ndarray, " pointers"],
    indices: Int[np.ndarray, " m"],
    data: Float[np.ndarray, " m"],
    binary: bool,
    block: Float[np.ndarray, "inside 2"],
    linear: int,
    result: Float[np.ndarray, "outside 2"],
) -> None:
    """Write the products of lines with two columns, of which the first ``linear`` meet X and the others X²."""
    left, right = linear < 1, linear < 2
    for i in range(result.shape[0]):
        if binary:
            two_sums_of_ones(block, indices, data, pointers[i], pointers[i + 1], 2, False, False, result[i])
        else:
            two_sums(block, indices, data, pointers[i], pointers[i + 1], 2, left, right, result[i])


def _scatter_two(
    pointers: Int[np.ndarray, " pointers"],
    indices: Int[np.ndarray, " m"],
    data: Float[np.ndarray, " m"],
    binary: bool,
    block: Float[np.ndarray, "inside 2"],
    linear: int,
    result: Float[np.ndarray, "outside 2"],
) -> None:
    """Write the sums of lines times two columns, the same way."""
    left, right = linear < 1, linear < 2
    result[:] = 0.0
    for i in range(block.shape[0]):
        if binary:
            scatter_to_two_ones(result, indices, data, pointers[i], pointers[i + 1], False, False, block[i])
        else:
            scatter_to_two(result, indices, data, pointers[i], pointers[i + 1], left, right, block[i])


def _gather_wide(
    pointers: Int[np.ndarray, " pointers"],
    indices: Int[np.ndarray, " m"],
    data: Float[np.ndarray, " m"],
    binary: bool,
    squared: bool,
    block: Float[np.ndarray, "inside K"],
    result: Float[np.ndarray, "outside K"],
    start: int,
    stop: int,
) -> None:
    """Write the products of some lines with two columns or more, all of which meet X², or X.

    They are taken by eights, or fewer where there are not so many; the last ones may have some of those before among
    them, whose sums are then made twice.
    """
    step = block.shape[1]
    lanes = LANES if step >= LANES else 4 if step >= 4 else 2
    for some in range(0, step, lanes):
        at = min(some, step - lanes)
        columns = block[:, at:]
        for i in range(start, stop):
            a, b, sums = pointers[i], pointers[i + 1], result[i, at:]
            if lanes == LANES:
                if binary:
                    eight_sums_of_ones(columns, indices, data, a, b, step, False, False, sums)
                else:
                    eight_sums(columns, indices, data, a, b, step, squared, squared, sums)
            elif lanes == 4:
                if binary:
                    four_sums_of_ones(columns, indices, data, a, b, step, False, False, sums)
                else:
                    four_sums(columns, indices, data, a, b, step, squared, squared, sums)
            elif binary:
                two_sums_of_ones(columns, indices, data, a, b, step, False, False, sums)
            else:
                two_sums(columns, indices, data, a, b, step, squared, squared, sums)


def _scatter_eight(
    pointers: Int[np.ndarray, " pointers"],
    indices: Int[np.ndarray, " m"],
    data: Float[np.ndarray, " m"],
    binary: bool,
    left: bool,
    right: bool,
    first: Float[np.ndarray, "inside K"],
    second: Float[np.ndarray, "inside L"],
    result: Float[np.ndarray, "groups outside 8"],
    start: int,
    stop: int,
) -> None:
    """Write the sums of some lines times eights: four columns of each block, or eight of the first alone.

    The left four of each eight meet X², or X, and so do the right four.
    """
    result[:] = 0.0
    share = LANES // 2 if second.shape[1] > 0 else LANES
    slopes = np.empty(LANES)
    for g in range(result.shape[0]):
        sums, begin = result[g], g * share
        for i in range(start, stop):
            for k in range(share):
                slopes[k] = first[i, begin + k] if begin + k < first.shape[1] else 0.0
            for k in range(share, LANES):
                slopes[k] = second[i, begin + k - share] if begin + k - share < second.shape[1] else 0.0
            a, b = pointers[i], pointers[i + 1]
            if binary:
                scatter_to_eight_ones(sums, indices, data, a, b, False, False, slopes)
            else:
                scatter_to_eight(sums, indices, data, a, b, left, right, slopes)


gather_two, scatter_two, gather_wide, scatter_eight = (
    compiled(loop) for loop in (_gather_two, _scatter_two, _gather_wide, _scatter_eight)
)
