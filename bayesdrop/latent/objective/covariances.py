"""Covariances of the scores of a hidden layer and their slopes, in the cheaper of two orders.

With ``Q = diag(σ'(ū)) W`` of a row, (K, M), and its variances ``V_d = Var(x̃_d)``,

    Cov(s) = Qᵀ (Σ_d V_d α_d α_dᵀ) Q = Σ_d V_d (Qᵀα_d)(Qᵀα_d)ᵀ.

:class:`.pairs.UnitPairs` takes the inner sum, for all rows one product with ``K(K + 1)/2`` pairs of units, dense or
sparse; :class:`EntryScores` the right-hand side, entry by entry of the non-zeros with ``M`` numbers each, compiled.
Both are exact. With few scores, many units or many zeros the latter has less to do.

Covariances of the scores of a hidden layer over the non-zeros of each row, compiled by Numba (the extra ``fast``).

An entry of row ``i`` and feature ``d`` moves the scores by ``g = Q_iᵀα_d`` (M,), ``Q_i = diag(σ'_i) W``; with its
variance ``v = x (a_d x + b_d)`` the covariances are ``Σ_d v g gᵀ``. Sums may be ordered as the processor likes, four
entries at a time share what is read, and everything has the precision of the weights.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..._typing import Float, Int
from ...designs.kernels import available, compiled
from ...moments import ScoreMoments
from .criteria import UnitPairs

__all__ = ["EntryScores", "Route", "ScoreCovariances", "backward", "backward_rows", "forward", "forward_rows"]


@runtime_checkable
class Route(Protocol):
    """Protocol of an order of the sums, at given weights ``α`` (p, K) and ``W`` (K, M)."""

    for_hidden: Float[np.ndarray, "p K"]
    """Slope in ``α`` of the rows so far."""

    for_output: Float[np.ndarray, "K M"]
    """Slope in ``W`` of the rows so far."""

    def forward(self, moments: ScoreMoments, slope: Float[np.ndarray, "m K"]) -> tuple[Float[np.ndarray, "m J"], Any]:
        """Covariances (m, J) of the pairs of scores of some rows, whose ``σ'`` (m, K) are given, and what to keep."""

    def backward(
        self, moments: ScoreMoments, slope: Float[np.ndarray, "m K"], for_cov: Float[np.ndarray, "m J"], kept: Any
    ) -> Float[np.ndarray, "m K"]:
        """Slope in ``σ'`` (m, K) given that in the covariances (m, J); those in ``α`` and ``W`` are added up."""


class ScoreCovariances:
    """Both routes at given weights, each made when it is first taken.

    Parameters
    ----------
    hidden : array (p, K)
        ``α``, without intercepts.
    weight : array (K, M)
        ``W``, without intercepts.
    problems : pair of arrays (J,)
        Scores whose covariances are wanted.
    """

    def __init__(
        self,
        hidden: Float[np.ndarray, "p K"],
        weight: Float[np.ndarray, "K M"],
        problems: tuple[Int[np.ndarray, " J"], Int[np.ndarray, " J"]],
    ) -> None:
        self._arguments = hidden, weight, problems
        self._routes: dict[Any, Route] = {}

    def route(self, moments: ScoreMoments, nonzeros: int) -> Route:
        """The cheaper one for some rows with so many non-zeros."""
        kind: Any = EntryScores if self._by_entries(moments, nonzeros) else UnitPairs
        if kind not in self._routes:
            self._routes[kind] = kind(*self._arguments)
        return self._routes[kind]

    def _by_entries(self, moments: ScoreMoments, nonzeros: int) -> bool:
        if not available():
            return False
        (K, M), J = self._arguments[1].shape, len(self._arguments[2][0])
        rows, features = moments.design.shape
        # Operations, by the time that they take: BLAS does three while a compiled loop over entries does one, and
        # single columns of a sparse product are three times as slow again.
        product = nonzeros * 3 if moments.design.is_sparse else rows * features / 3
        pairs = K * (K + 1) * (2 * product + rows * J)
        return nonzeros * 6 * (K * M + J) + rows * 12 * K * M < pairs

    def gradient(self) -> tuple[Float[np.ndarray, "p K"] | float, Float[np.ndarray, "K M"] | float]:
        """Slopes in ``α`` and ``W`` of all rows."""
        routes = self._routes.values()
        return sum(route.for_hidden for route in routes), sum(route.for_output for route in routes)


class EntryScores:
    """What each non-zero entry does to the scores; see :class:`Route`.

    Noise of entries that are zero is the same for all rows: ``Qᵀ S₀ Q``, ``S₀ = Σ_d c_d α_d α_dᵀ``, without a sum over
    entries.
    """

    def __init__(
        self,
        hidden: Float[np.ndarray, "p K"],
        weight: Float[np.ndarray, "K M"],
        problems: tuple[Int[np.ndarray, " J"], Int[np.ndarray, " J"]],
    ) -> None:
        self._hidden, self._weight = np.ascontiguousarray(hidden), np.ascontiguousarray(weight.T)
        self._first, self._second = problems
        self.for_hidden = np.zeros(hidden.shape)
        self._for_weight = np.zeros(self._weight.shape)

    @property
    def for_output(self) -> Float[np.ndarray, "K M"]:
        """See :class:`Route`."""
        return self._for_weight.T

    def _entries(self, moments: ScoreMoments) -> tuple[Any, ...]:
        """Rows, noise and weights as the compiled loops take them."""
        csr, p = moments.design.compressed(full=True), len(self._hidden)
        parts = (moments.coefficients.quadratic, moments.coefficients.linear)
        square, linear = (np.ascontiguousarray(np.broadcast_to(part, (p, 1))[:, 0]) for part in parts)
        # Unsigned columns spare a check for negative ones.
        indices = csr.indices.view(np.uint32 if csr.indices.dtype.itemsize == 4 else np.uint64)
        return (csr.indptr.astype(np.int64), indices, csr.data, square, linear, self._hidden, self._weight)

    def forward(
        self, moments: ScoreMoments, slope: Float[np.ndarray, "m K"]
    ) -> tuple[Float[np.ndarray, "m J"], Float[np.ndarray, " _"]]:
        """See :class:`Route`; kept are the scores of the entries."""
        cov = np.zeros((len(slope), len(self._first)))
        if not moments.leaves_zeros:
            both = slope[:, None, :] * self._weight
            level = (both @ self._level(moments)) @ both.transpose(0, 2, 1)
            cov += level[:, self._first, self._second]
        entries = self._entries(moments)
        pull = np.empty(len(entries[2]) * len(self._weight))
        forward(*entries, slope, self._first, self._second, pull, cov)
        return cov, pull

    def backward(
        self,
        moments: ScoreMoments,
        slope: Float[np.ndarray, "m K"],
        for_cov: Float[np.ndarray, "m J"],
        kept: Float[np.ndarray, " _"],
    ) -> Float[np.ndarray, "m K"]:
        """See :class:`Route`."""
        for_slope, for_cov = np.zeros(slope.shape), np.ascontiguousarray(for_cov)
        backward(
            *self._entries(moments), slope, self._first, self._second, kept, for_cov,
            for_slope, self._for_weight, self.for_hidden,
        )  # fmt: skip
        if not moments.leaves_zeros:
            both = slope[:, None, :] * self._weight
            M = len(self._weight)
            turn = np.zeros((len(slope), M, M))
            turn[:, self._first, self._second] += for_cov
            turn[:, self._second, self._first] += for_cov
            turned = turn @ both
            for_both = turned @ self._level(moments)
            for_slope += (for_both * self._weight).sum(axis=1)
            self._for_weight += (for_both * slope[:, None, :]).sum(axis=0)
            square = np.tensordot(both, turned, axes=((0, 1), (0, 1)))
            self.for_hidden += moments.coefficients.constant * (self._hidden @ square)
        return for_slope

    def _level(self, moments: ScoreMoments) -> Float[np.ndarray, "K K"]:
        return self._hidden.T @ (moments.coefficients.constant * self._hidden)


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
