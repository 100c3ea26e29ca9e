"""Loops over compressed lines for two vectors and for eight that lie side by side (:mod:`.lanes`), compiled by Numba.

Gather is ``X B`` over rows, or ``Xᵀ B`` over compressed columns; scatter is ``Xᵀ B`` over rows. Imported only where
Numba is (the extra ``fast``).
"""

from __future__ import annotations

import numpy as np

from ..._typing import Float, Int
from .jit import compiled
from .lanes import (
    eight_sums,
    eight_sums_of_ones,
    scatter_to_eight,
    scatter_to_eight_ones,
    scatter_to_two,
    scatter_to_two_ones,
    two_sums,
    two_sums_of_ones,
)

__all__ = ["gather_eight", "gather_two", "scatter_eight", "scatter_two"]


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
            two_sums_of_ones(block, indices, data, pointers[i], pointers[i + 1], 1, False, False, result[i])
        else:
            two_sums(block, indices, data, pointers[i], pointers[i + 1], 1, left, right, result[i])


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


def _gather_eight(
    pointers: Int[np.ndarray, " pointers"],
    indices: Int[np.ndarray, " m"],
    data: Float[np.ndarray, " m"],
    binary: bool,
    left: bool,
    right: bool,
    block: Float[np.ndarray, "groups inside 8"],
    result: Float[np.ndarray, "groups outside 8"],
    start: int,
    stop: int,
) -> None:
    """Write the products of some lines; the left four of each eight columns meet X², or X, and so do the right four."""
    for g in range(block.shape[0]):
        columns, sums = block[g], result[g]
        for i in range(start, stop):
            a, b = pointers[i], pointers[i + 1]
            if binary:
                eight_sums_of_ones(columns, indices, data, a, b, 1, False, False, sums[i])
            else:
                eight_sums(columns, indices, data, a, b, 1, left, right, sums[i])


def _scatter_eight(
    pointers: Int[np.ndarray, " pointers"],
    indices: Int[np.ndarray, " m"],
    data: Float[np.ndarray, " m"],
    binary: bool,
    left: bool,
    right: bool,
    block: Float[np.ndarray, "groups inside 8"],
    result: Float[np.ndarray, "groups outside 8"],
    start: int,
    stop: int,
) -> None:
    """Write the sums of some lines times their columns, the same way."""
    result[:] = 0.0
    for g in range(block.shape[0]):
        slopes, sums = block[g], result[g]
        for i in range(start, stop):
            a, b = pointers[i], pointers[i + 1]
            if binary:
                scatter_to_eight_ones(sums, indices, data, a, b, False, False, slopes[i])
            else:
                scatter_to_eight(sums, indices, data, a, b, left, right, slopes[i])


gather_two, scatter_two, gather_eight, scatter_eight = (
    compiled(loop) for loop in (_gather_two, _scatter_two, _gather_eight, _scatter_eight)
)
