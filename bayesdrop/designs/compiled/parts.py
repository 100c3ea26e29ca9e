"""Products of compressed rows with a vector or two, a part of the lines for each thread where there are many entries.

A sum over a line is made by one thread. Sums over lines are made of parts whose number the sizes tell, and then added
up, so that no bit depends on how many threads there are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..._typing import Float, Num
from ..block_threads import cores, shares, side_by_side

__all__ = ["gather_in_parts", "scatter_in_parts"]

# Numbers that entries meet from which on there is work for threads.
_THREADED = 1 << 19
# Parts that are summed by themselves at most, each of so many entries for each column.
_PARTS = 8
_PER_COLUMN = 16


def gather_in_parts(
    loop: Any, matrix: tuple[Any, ...], w: Num[np.ndarray, "p K"], w_sq: Num[np.ndarray, "p L"]
) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]:
    """``(X w, X² w_sq)`` by a compiled loop over (pointers, indices, data), and what else it takes of the matrix."""
    pointers, entries = matrix[0], len(matrix[1])
    K, columns = w.shape[1], w.shape[1] + w_sq.shape[1]
    block, result = _side_by_side(w, w_sq), np.empty((len(pointers) - 1, columns))
    if entries * columns < _THREADED:
        loop(*matrix, block, K, _vector(result))
        return result[:, :K], result[:, K:]
    side_by_side(
        [
            partial(loop, pointers[part.start : part.stop + 1], *matrix[1:], block, K, _vector(result[part]))
            for part in shares(pointers, cores())
        ]
    )
    return result[:, :K], result[:, K:]


def scatter_in_parts(
    loop: Any, matrix: tuple[Any, ...], r: Num[np.ndarray, "n K"], r_sq: Num[np.ndarray, "n L"], size: int
) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
    """``(Xᵀ r, X²ᵀ r_sq)`` of ``size`` columns by such a loop."""
    pointers, entries = matrix[0], len(matrix[1])
    K, columns = r.shape[1], r.shape[1] + r_sq.shape[1]
    block = _side_by_side(r, r_sq)
    count = min(_PARTS, entries // (_PER_COLUMN * size + 1)) if entries * columns >= _THREADED else 1
    if count <= 1:
        total = np.empty((size, columns))
        loop(*matrix, block, K, _vector(total))
        return total[:, :K], total[:, K:]
    parts = shares(pointers, count)
    result = np.empty((len(parts), size, columns))
    side_by_side(
        [
            partial(loop, pointers[part.start : part.stop + 1], *matrix[1:], block[part], K, _vector(sums))
            for part, sums in zip(parts, result, strict=True)
        ]
    )
    total = result.sum(axis=0)
    return total[:, :K], total[:, K:]


def _side_by_side(first: Num[np.ndarray, "rows K"], second: Num[np.ndarray, "rows L"]) -> Float[np.ndarray, ...]:
    """Two blocks side by side, (rows, K + L); a single column as a vector."""
    K, L = first.shape[1], second.shape[1]
    both = np.empty((first.shape[0], K + L))
    both[:, :K] = first
    both[:, K:] = second
    return _vector(both)


def _vector(block: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, ...]:
    """The column of a block that has one, as a vector; else the block."""
    return block[:, 0] if block.shape[1] == 1 else block
