"""Compute covariances of the scores of a hidden layer, and slopes, in the cheaper of two orders, for :mod:`.energy`.

With ``Q = diag(σ'(ū)) W`` of a row, (K, M), and its variances ``V_d = Var(x̃_d)``,

    Cov(s) = Qᵀ (Σ_d V_d α_d α_dᵀ) Q = Σ_d V_d (Qᵀα_d)(Qᵀα_d)ᵀ.

:class:`.criteria.UnitPairs` takes the inner sum, for all rows one product with ``K(K + 1)/2`` pairs of units, dense or
sparse; :class:`EntryScores` the right-hand side, entry by entry of the non-zeros with ``M`` numbers each, compiled.
Both are exact. With few scores, many units or many zeros :class:`EntryScores` needs fewer operations; its loops are
compiled by Numba (the extra ``fast``).

An entry of row ``i`` and feature ``d`` moves the scores by ``g = Q_iᵀα_d`` (M,), ``Q_i = diag(σ'_i) W``; with its
variance ``v = x (a_d x + b_d)`` the covariances are ``Σ_d v g gᵀ``. Sums may be made in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import Float, Int
from ...designs.kernels import available, compiled
from ...moments import ScoreMoments
from .criteria import HiddenWeights, OutputWeights, PairCovariances, Pairs, UnitPairs, Units
from .rules import RULES

__all__ = ["EntryScores", "ScoreCovariances", "backward_rows", "forward_rows"]


class ScoreCovariances:
    """Both algorithms at given weights, each made at its first use.

    Parameters
    ----------
    hidden : array (p, K)
        ``α``, without intercepts.
    weight : array (K, M)
        ``W``, without intercepts.
    problems : pair of arrays (J,)
        Pairs of scores whose covariances are computed.
    """

    def __init__(self, hidden: HiddenWeights, weight: OutputWeights, problems: Pairs) -> None:
        self._arguments = hidden, weight, problems
        self._routes: dict[Any, EntryScores | UnitPairs] = {}

    def route(self, moments: ScoreMoments, nonzeros: int) -> EntryScores | UnitPairs:
        """Cheaper algorithm for some rows with a number of non-zeros."""
        kind: Any = EntryScores if self._by_entries(moments, nonzeros) else UnitPairs
        if kind not in self._routes:
            self._routes[kind] = kind(*self._arguments)
        return self._routes[kind]

    def _by_entries(self, moments: ScoreMoments, nonzeros: int) -> bool:
        if not available():
            return False
        (K, M), J = self._arguments[1].shape, len(self._arguments[2][0])
        rows, features = moments.design.shape
        # Operations by their time: BLAS does three while a compiled loop over entries does one, and a column of a
        # sparse product is three times slower than that.
        product = nonzeros * RULES.product if moments.design.is_sparse else rows * features / RULES.product
        pairs = K * (K + 1) * (2 * product + rows * J)
        return nonzeros * RULES.entry * (K * M + J) + rows * RULES.row * K * M < pairs

    def gradient(self) -> tuple[HiddenWeights | float, OutputWeights | float]:
        """Slopes in ``α`` and ``W`` of all rows."""
        routes = self._routes.values()
        return sum(route.for_hidden for route in routes), sum(route.for_output for route in routes)


class EntryScores:
    """Effect of each non-zero entry on the scores, at given weights ``α`` (p, K) and ``W`` (K, M).

    ``for_hidden`` (p, K) and ``for_output`` (K, M) are the slopes in the weights of the rows so far.

    The noise of zero entries is the same for all rows: ``Qᵀ S₀ Q``, ``S₀ = Σ_d c_d α_d α_dᵀ``, without a sum over
    entries.
    """

    def __init__(self, hidden: HiddenWeights, weight: OutputWeights, problems: Pairs) -> None:
        self._hidden, self._weight = np.ascontiguousarray(hidden), np.ascontiguousarray(weight.T)
        self._first, self._second = problems
        self.for_hidden = np.zeros(hidden.shape)
        self._for_weight = np.zeros(self._weight.shape)

    @property
    def for_output(self) -> OutputWeights:
        """Slope in ``W`` of the rows so far."""
        return self._for_weight.T

    def _entries(self, moments: ScoreMoments) -> tuple[Any, ...]:
        """Rows, noise and weights in the form of the compiled loops."""
        csr, p = moments.design.compressed(), len(self._hidden)
        parts = (moments.coefficients.quadratic, moments.coefficients.linear)
        square, linear = (np.ascontiguousarray(np.broadcast_to(part, (p, 1))[:, 0]) for part in parts)
        # For unsigned columns Numba does not check for negative ones.
        indices = csr.indices.view(np.uint32 if csr.indices.dtype.itemsize == 4 else np.uint64)
        return csr.indptr.astype(np.int64), indices, csr.data, square, linear, self._hidden, self._weight

    def forward(self, moments: ScoreMoments, slope: Units) -> tuple[PairCovariances, Any]:
        """Covariances (m, J) of pairs of scores of some rows with given ``σ'`` (m, K), and values for ``backward``.

        These values are the entries, their variances and their effects on the scores.
        """
        cov = np.zeros((len(slope), len(self._first)))
        if not moments.leaves_zeros:
            both = slope[:, None, :] * self._weight
            level = (both @ self._level(moments)) @ both.transpose(0, 2, 1)
            cov += level[:, self._first, self._second]
        entries = self._entries(moments)
        variance = np.empty(len(entries[2]))
        pull = np.empty(len(variance) * len(self._weight))
        loop = compiled(forward_rows, "reassoc", "contract")
        loop(*entries, slope, self._first, self._second, variance, pull, cov)
        return cov, (*entries[:2], variance, pull)

    def backward(self, moments: ScoreMoments, slope: Units, for_cov: PairCovariances, kept: Any) -> Units:
        """Slope in ``σ'`` (m, K), given the slope in the covariances (m, J); adds the slopes in ``α`` and ``W``."""
        for_slope, for_cov = np.zeros(slope.shape), np.ascontiguousarray(for_cov)
        compiled(backward_rows, "reassoc", "contract")(
            *kept, self._hidden, self._weight, slope, self._first, self._second, for_cov,
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


def forward_rows(
    pointers: Int[np.ndarray, " _"],
    indices: Int[np.ndarray, " _"],
    data: Float[np.ndarray, " _"],
    square: Float[np.ndarray, " p"],
    linear: Float[np.ndarray, " p"],
    hidden: HiddenWeights,
    weight: Float[np.ndarray, "M K"],
    slope: Units,
    first: Int[np.ndarray, " J"],
    second: Int[np.ndarray, " J"],
    variance: Float[np.ndarray, " _"],
    pull: Float[np.ndarray, " _"],
    cov: PairCovariances,
) -> None:
    """Write ``v`` and ``g`` of all entries, ``g`` (M, entries) row after row, and add the covariances of the pairs."""
    units, scores = hidden.shape[1], weight.shape[0]
    both = np.empty((scores, units))
    for i in range(slope.shape[0]):
        start = pointers[i]
        size = pointers[i + 1] - start
        g = pull[start * scores : (start + size) * scores].reshape(scores, size)
        for m in range(scores):
            for k in range(units):
                both[m, k] = slope[i, k] * weight[m, k]
        for e in range(size):
            d, x = indices[start + e], data[start + e]
            variance[start + e] = x * (square[d] * x + linear[d])
            for m in range(scores):
                total = 0.0
                for k in range(units):
                    total += both[m, k] * hidden[d, k]
                g[m, e] = total
        for j in range(len(first)):
            one, other, total = g[first[j]], g[second[j]], 0.0
            for e in range(size):
                total += variance[start + e] * one[e] * other[e]
            cov[i, j] += total


def backward_rows(
    pointers: Int[np.ndarray, " _"],
    indices: Int[np.ndarray, " _"],
    variance: Float[np.ndarray, " _"],
    pull: Float[np.ndarray, " _"],
    hidden: HiddenWeights,
    weight: Float[np.ndarray, "M K"],
    slope: Units,
    first: Int[np.ndarray, " J"],
    second: Int[np.ndarray, " J"],
    for_cov: PairCovariances,
    for_slope: Units,
    for_weight: Float[np.ndarray, "M K"],
    for_hidden: HiddenWeights,
) -> None:
    """Add the slopes in ``σ'``, in the output and in the hidden weights, given the slopes in the covariances."""
    units, scores = hidden.shape[1], weight.shape[0]
    both, for_both, turn = np.empty((scores, units)), np.empty((scores, units)), np.empty((scores, scores))
    for i in range(slope.shape[0]):
        start = pointers[i]
        size = pointers[i + 1] - start
        g = pull[start * scores : (start + size) * scores].reshape(scores, size)
        turn[:] = 0
        for j in range(len(first)):
            turn[first[j], second[j]] += for_cov[i, j]
            turn[second[j], first[j]] += for_cov[i, j]
        for m in range(scores):
            for k in range(units):
                both[m, k] = slope[i, k] * weight[m, k]
        for_both[:] = 0
        for e in range(size):
            d = indices[start + e]
            for m in range(scores):
                # The slope in g is v T g.
                total = 0.0
                for n in range(scores):
                    total += turn[m, n] * g[n, e]
                total *= variance[start + e]
                for k in range(units):
                    for_both[m, k] += total * hidden[d, k]
                    for_hidden[d, k] += total * both[m, k]
        for m in range(scores):
            for k in range(units):
                for_slope[i, k] += for_both[m, k] * weight[m, k]
                for_weight[m, k] += for_both[m, k] * slope[i, k]
