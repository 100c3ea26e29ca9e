"""Covariances of the scores of a hidden layer over the non-zeros of each row, compiled by Numba (the extra ``fast``).

An entry of row ``i`` and feature ``d`` moves the scores by ``g = Q_iᵀα_d`` (M,), ``Q_i = diag(σ'_i) W``; with its
variance ``v = x (a_d x + b_d)`` the covariances are ``Σ_d v g gᵀ``. Sums may be ordered as the processor likes, four
entries at a time share what is read, and everything has the precision of the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import Float, Int
from ...designs.jit import compiled

__all__ = ["backward", "backward_rows", "forward", "forward_rows"]


def forward(*arguments: Any) -> None:
    """:func:`forward_rows`, compiled."""
    compiled(forward_rows, "reassoc", "contract")(*arguments)


def backward(*arguments: Any) -> None:
    """:func:`backward_rows`, compiled."""
    compiled(backward_rows, "reassoc", "contract")(*arguments)


def forward_rows(
    pointers: Int[np.ndarray, " _"],
    indices: Int[np.ndarray, " _"],
    data: Float[np.ndarray, " _"],
    square: Float[np.ndarray, " p"],
    linear: Float[np.ndarray, " p"],
    hidden: Float[np.ndarray, "p K"],
    weight: Float[np.ndarray, "M K"],
    slope: Float[np.ndarray, "m K"],
    first: Int[np.ndarray, " J"],
    second: Int[np.ndarray, " J"],
    pull: Float[np.ndarray, " _"],
    cov: Float[np.ndarray, "m J"],
) -> None:
    """Write ``g`` of all entries, (M, entries) row after row, and add the covariances of the pairs of scores."""
    units, scores = hidden.shape[1], weight.shape[0]
    both = np.empty((scores, units), hidden.dtype)
    longest = 0
    for i in range(slope.shape[0]):
        longest = max(longest, pointers[i + 1] - pointers[i])
    scaled = np.empty(longest, hidden.dtype)
    for i in range(slope.shape[0]):
        start = pointers[i]
        size = pointers[i + 1] - start
        g = pull[start * scores : (start + size) * scores].reshape(scores, size)
        for m in range(scores):
            for k in range(units):
                both[m, k] = slope[i, k] * weight[m, k]
        whole = size - size % 4
        for e in range(0, whole, 4):
            d0, d1, d2, d3 = (
                indices[start + e],
                indices[start + e + 1],
                indices[start + e + 2],
                indices[start + e + 3],
            )
            for m in range(scores):
                one = two = three = four = hidden.dtype.type(0)
                for k in range(units):
                    q = both[m, k]
                    one += q * hidden[d0, k]
                    two += q * hidden[d1, k]
                    three += q * hidden[d2, k]
                    four += q * hidden[d3, k]
                g[m, e] = one
                g[m, e + 1] = two
                g[m, e + 2] = three
                g[m, e + 3] = four
        for e in range(whole, size):
            d0 = indices[start + e]
            for m in range(scores):
                one = hidden.dtype.type(0)
                for k in range(units):
                    one += both[m, k] * hidden[d0, k]
                g[m, e] = one
        last = -1
        for j in range(len(first)):
            if first[j] != last:
                last = first[j]
                for e in range(size):
                    d, x = indices[start + e], data[start + e]
                    scaled[e] = x * (square[d] * x + linear[d]) * g[last, e]
            other = second[j]
            one = hidden.dtype.type(0)
            for e in range(size):
                one += scaled[e] * g[other, e]
            cov[i, j] += one


def backward_rows(
    pointers: Int[np.ndarray, " _"],
    indices: Int[np.ndarray, " _"],
    data: Float[np.ndarray, " _"],
    square: Float[np.ndarray, " p"],
    linear: Float[np.ndarray, " p"],
    hidden: Float[np.ndarray, "p K"],
    weight: Float[np.ndarray, "M K"],
    slope: Float[np.ndarray, "m K"],
    first: Int[np.ndarray, " J"],
    second: Int[np.ndarray, " J"],
    pull: Float[np.ndarray, " _"],
    for_cov: Float[np.ndarray, "m J"],
    for_slope: Float[np.ndarray, "m K"],
    for_weight: Float[np.ndarray, "M K"],
    for_hidden: Float[np.ndarray, "p K"],
) -> None:
    """Add the slopes in ``σ'``, in the output weights and in the hidden weights, given those in the covariances."""
    units, scores = hidden.shape[1], weight.shape[0]
    both, for_both = np.empty((scores, units), hidden.dtype), np.empty((scores, units), hidden.dtype)
    turn = np.empty((scores, scores), hidden.dtype)
    longest = 0
    for i in range(slope.shape[0]):
        longest = max(longest, pointers[i + 1] - pointers[i])
    var, space = np.empty(longest, hidden.dtype), np.empty(longest * scores, hidden.dtype)
    for i in range(slope.shape[0]):
        start = pointers[i]
        size = pointers[i + 1] - start
        g = pull[start * scores : (start + size) * scores].reshape(scores, size)
        h = space[: size * scores].reshape(scores, size)
        for e in range(size):
            d, x = indices[start + e], data[start + e]
            var[e] = x * (square[d] * x + linear[d])
        turn[:] = 0
        for j in range(len(first)):
            turn[first[j], second[j]] += for_cov[i, j]
            turn[second[j], first[j]] += for_cov[i, j]
        # Slopes in g: h = v T g.
        for m in range(scores):
            for k in range(units):
                both[m, k] = slope[i, k] * weight[m, k]
            for e in range(size):
                h[m, e] = 0
            for n in range(0, scores - 1, 2):
                t0, t1 = turn[m, n], turn[m, n + 1]
                if t0 != 0 or t1 != 0:
                    for e in range(size):
                        h[m, e] += t0 * g[n, e] + t1 * g[n + 1, e]
            if scores % 2 == 1 and turn[m, scores - 1] != 0:
                t0 = turn[m, scores - 1]
                for e in range(size):
                    h[m, e] += t0 * g[scores - 1, e]
            for e in range(size):
                h[m, e] *= var[e]
        for_both[:] = 0
        whole = size - size % 4
        for e in range(0, whole, 4):
            d0, d1, d2, d3 = (
                indices[start + e],
                indices[start + e + 1],
                indices[start + e + 2],
                indices[start + e + 3],
            )
            for m in range(scores):
                h0, h1, h2, h3 = h[m, e], h[m, e + 1], h[m, e + 2], h[m, e + 3]
                for k in range(units):
                    for_both[m, k] += h0 * hidden[d0, k] + h1 * hidden[d1, k] + h2 * hidden[d2, k] + h3 * hidden[d3, k]
        for e in range(whole, size):
            d0 = indices[start + e]
            for m in range(scores):
                h0 = h[m, e]
                for k in range(units):
                    for_both[m, k] += h0 * hidden[d0, k]
        for m in range(scores):
            for k in range(units):
                for_slope[i, k] += for_both[m, k] * weight[m, k]
                for_weight[m, k] += for_both[m, k] * slope[i, k]
        fives = scores - scores % 5
        for e in range(size):
            d0 = indices[start + e]
            for m in range(0, fives, 5):
                h0, h1, h2, h3, h4 = h[m, e], h[m + 1, e], h[m + 2, e], h[m + 3, e], h[m + 4, e]
                for k in range(units):
                    for_hidden[d0, k] += (
                        h0 * both[m, k]
                        + h1 * both[m + 1, k]
                        + h2 * both[m + 2, k]
                        + h3 * both[m + 3, k]
                        + h4 * both[m + 4, k]
                    )
            for m in range(fives, scores):
                h0 = h[m, e]
                for k in range(units):
                    for_hidden[d0, k] += h0 * both[m, k]
