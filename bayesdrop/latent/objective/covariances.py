r"""Covariances of the scores of a hidden layer and their slopes, in the cheaper of two orders.

With ``Q = diag(σ'(ū)) W`` of a row, (K, M), and its variances ``V_d = Var(x̃_d)``,

    Cov(s) = Qᵀ (Σ_d V_d α_d α_dᵀ) Q = Σ_d V_d (Qᵀα_d)(Qᵀα_d)ᵀ.

:class:`.pairs.UnitPairs` takes the inner sum, for all rows one product with ``K(K + 1)/2`` pairs of units, dense or
sparse; :class:`EntryScores` the right-hand side, entry by entry of the non-zeros with ``M`` numbers each, compiled.
Both are exact. With few scores, many units or many zeros the latter has less to do.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..._typing import Float, Int
from ...designs.jit import available
from ...moments import ScoreMoments
from . import _numba
from .pairs import UnitPairs

__all__ = ["EntryScores", "Route", "ScoreCovariances"]


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
        _numba.forward(*entries, slope, self._first, self._second, pull, cov)
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
        _numba.backward(
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
