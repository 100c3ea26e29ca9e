"""Gram matrices of compressed rows, dense, compiled by Numba (the extra ``fast``).

A row adds the products of its entries two by two; that asks for no sparse matrix of the result, most of which is there.
Parts of the rows go in threads, as many as the sizes tell, so that no bit depends on how many threads there are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..._typing import Float, Int, Num
from ..block_threads import shares, side_by_side
from .jit import compiled

__all__ = ["gram_of_rows"]

# Parts at most, and entries for each number of a part from which on it is worth its room.
_PARTS, _WORTH = 4, 8


def gram_of_rows(csr: Any, omega: Num[np.ndarray, " n"]) -> Float[np.ndarray, "p p"]:
    """``Xᵀ diag(ω) X`` of canonical compressed rows.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> gram_of_rows(csr_array([[1.0, 2.0], [0.0, 3.0]]), np.array([1.0, 2.0])).tolist()
    [[1.0, 2.0], [2.0, 22.0]]
    """
    p = csr.shape[1]
    count = int(np.clip(csr.nnz // max(_WORTH * p * p, 1), 1, _PARTS))
    parts = shares(csr.indptr, count)
    totals = np.zeros((max(len(parts), 1), p, p))
    loop = compiled(add_products, "contract")
    weight = np.ascontiguousarray(omega, dtype=np.float64)
    side_by_side(
        [
            partial(loop, csr.indptr[part.start : part.stop + 1], csr.indices, csr.data, weight[part], total)
            for part, total in zip(parts, totals, strict=False)
        ]
    )
    lower = totals.sum(axis=0)
    return np.asarray(lower + np.tril(lower, -1).T)


def add_products(
    pointers: Int[np.ndarray, " pointers"],
    indices: Int[np.ndarray, " m"],
    data: Float[np.ndarray, " m"],
    omega: Float[np.ndarray, " n"],
    total: Float[np.ndarray, "p p"],
) -> None:
    """Add the lower triangle; columns ascend within a row."""
    for i in range(omega.shape[0]):
        if omega[i] != 0.0:
            first = pointers[i]
            for j in range(first, pointers[i + 1]):
                scaled = omega[i] * np.float64(data[j])
                row = total[indices[j]]
                for k in range(first, j + 1):
                    row[indices[k]] += scaled * np.float64(data[k])
