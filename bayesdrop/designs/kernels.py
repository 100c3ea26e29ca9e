"""The loops behind :mod:`.compiled`, in the subset of Python that Numba compiles.

Every one takes ``(pointers, indices, data, block, linear, result)``: a matrix in compressed rows, a block whose first
``linear`` columns meet ``X`` and whose others meet ``X²``, and where to write. *Gather* is ``X @ block``, *scatter*
``Xᵀ @ block``. Loops over two columns, the usual case, keep both sums in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "compress_rows",
    "gather_binary",
    "gather_one_binary",
    "gather_one_real",
    "gather_real",
    "scatter_binary",
    "scatter_one_binary",
    "scatter_one_real",
    "scatter_real",
]

Array = Any


def gather_one_binary(pointers: Array, indices: Array, data: Array, vector: Array, linear: int, result: Array) -> None:
    """One column, every entry 1."""
    for i in range(result.shape[0]):
        total = 0.0
        for j in range(pointers[i], pointers[i + 1]):
            total += vector[indices[j]]
        result[i] = total


def gather_one_real(pointers: Array, indices: Array, data: Array, vector: Array, linear: int, result: Array) -> None:
    """One column."""
    for i in range(result.shape[0]):
        total = 0.0
        if linear == 1:
            for j in range(pointers[i], pointers[i + 1]):
                total += np.float64(data[j]) * vector[indices[j]]
        else:
            for j in range(pointers[i], pointers[i + 1]):
                x = np.float64(data[j])
                total += x * x * vector[indices[j]]
        result[i] = total


def gather_binary(pointers: Array, indices: Array, data: Array, block: Array, linear: int, result: Array) -> None:
    """Several columns, every entry 1."""
    columns = block.shape[1]
    if columns == 2:
        for i in range(result.shape[0]):
            first, second = 0.0, 0.0
            for j in range(pointers[i], pointers[i + 1]):
                d = indices[j]
                first += block[d, np.uint32(0)]
                second += block[d, np.uint32(1)]
            result[i, 0] = first
            result[i, 1] = second
        return
    result[:] = 0.0
    for i in range(result.shape[0]):
        for j in range(pointers[i], pointers[i + 1]):
            d = indices[j]
            for k in range(columns):
                result[i, k] += block[d, np.uint32(k)]


def gather_real(pointers: Array, indices: Array, data: Array, block: Array, linear: int, result: Array) -> None:
    """Several columns."""
    columns = block.shape[1]
    if columns == 2 and linear == 1:
        for i in range(result.shape[0]):
            first, second = 0.0, 0.0
            for j in range(pointers[i], pointers[i + 1]):
                d = indices[j]
                x = np.float64(data[j])
                first += x * block[d, np.uint32(0)]
                second += x * x * block[d, np.uint32(1)]
            result[i, 0] = first
            result[i, 1] = second
        return
    result[:] = 0.0
    for i in range(result.shape[0]):
        for j in range(pointers[i], pointers[i + 1]):
            d = indices[j]
            x = np.float64(data[j])
            for k in range(linear):
                result[i, k] += x * block[d, np.uint32(k)]
            for k in range(linear, columns):
                result[i, k] += x * x * block[d, np.uint32(k)]


def scatter_one_binary(pointers: Array, indices: Array, data: Array, vector: Array, linear: int, result: Array) -> None:
    """One column, every entry 1."""
    result[:] = 0.0
    for i in range(vector.shape[0]):
        value = vector[i]
        for j in range(pointers[i], pointers[i + 1]):
            result[indices[j]] += value


def scatter_one_real(pointers: Array, indices: Array, data: Array, vector: Array, linear: int, result: Array) -> None:
    """One column."""
    result[:] = 0.0
    for i in range(vector.shape[0]):
        value = vector[i]
        if linear == 1:
            for j in range(pointers[i], pointers[i + 1]):
                result[indices[j]] += np.float64(data[j]) * value
        else:
            for j in range(pointers[i], pointers[i + 1]):
                x = np.float64(data[j])
                result[indices[j]] += x * x * value


def scatter_binary(pointers: Array, indices: Array, data: Array, block: Array, linear: int, result: Array) -> None:
    """Several columns, every entry 1."""
    columns = block.shape[1]
    result[:] = 0.0
    if columns == 2:
        for i in range(block.shape[0]):
            first, second = block[i, 0], block[i, 1]
            for j in range(pointers[i], pointers[i + 1]):
                d = indices[j]
                result[d, np.uint32(0)] += first
                result[d, np.uint32(1)] += second
        return
    for i in range(block.shape[0]):
        for j in range(pointers[i], pointers[i + 1]):
            d = indices[j]
            for k in range(columns):
                result[d, np.uint32(k)] += block[i, k]


def scatter_real(pointers: Array, indices: Array, data: Array, block: Array, linear: int, result: Array) -> None:
    """Several columns."""
    columns = block.shape[1]
    result[:] = 0.0
    if columns == 2 and linear == 1:
        for i in range(block.shape[0]):
            first, second = block[i, 0], block[i, 1]
            for j in range(pointers[i], pointers[i + 1]):
                d = indices[j]
                x = np.float64(data[j])
                result[d, np.uint32(0)] += x * first
                result[d, np.uint32(1)] += x * x * second
        return
    for i in range(block.shape[0]):
        for j in range(pointers[i], pointers[i + 1]):
            d = indices[j]
            x = np.float64(data[j])
            for k in range(linear):
                result[d, np.uint32(k)] += x * block[i, k]
            for k in range(linear, columns):
                result[d, np.uint32(k)] += x * x * block[i, k]


def compress_rows(X: Array, pointers: Array, indices: Array, data: Array) -> None:
    """Write the non-zeros of a dense matrix, row by row."""
    for i in range(X.shape[0]):
        place = pointers[i]
        for d in range(X.shape[1]):
            if X[i, d] != 0:
                indices[place] = d
                data[place] = X[i, d]
                place += 1
