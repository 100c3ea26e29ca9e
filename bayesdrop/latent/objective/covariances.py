"""Compute covariances of the scores of a hidden layer, and their slopes, for :mod:`.energy`.

With ``Q = diag(σ'(ū)) W`` (K, M) for a row, and its variances ``V_d = Var(x̃_d)``,

    Cov(s) = Qᵀ A,        A = S Q,        S = Σ_d V_d α_d α_dᵀ.

One product of the matrix with ``K(K + 1)/2`` columns, the pairs of units, gives ``S`` for all rows. A single score
needs only ``A = Σ_d V_d (Qᵀα_d) α_d``, at ``K`` operations per entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...moments import ScoreMoments
from .criteria import HiddenWeights, OutputWeights, PairCovariances, Pairs, Units, unpack

__all__ = ["ScoreCovariances"]


class ScoreCovariances:
    """Covariances at given weights; ``for_hidden`` (p, K) and ``for_output`` (K, M) are the slopes, summed over rows.

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
        self._hidden, self._weight = hidden, weight.T
        self._first, self._second = problems
        self._units = np.triu_indices(hidden.shape[1])
        self.for_hidden, self.for_output = np.zeros(hidden.shape), np.zeros(weight.shape)

    def forward(self, moments: ScoreMoments, slope: Units) -> tuple[PairCovariances, Any]:
        """Covariances (m, J) of pairs of scores of some rows, given ``σ'`` (m, K), and products for ``backward``."""
        pull = slope[:, None, :] * self._weight
        if len(self._weight) == 1:
            image = moments.sampled_products(pull[:, 0], self._hidden)[0][:, None]
            image += pull @ (self._hidden.T @ (moments.coefficients.constant * self._hidden))
        else:
            first, second = self._units
            cov = moments.covariance(self._hidden[:, first] * self._hidden[:, second])
            image = pull @ unpack(cov, first, second)
        return np.einsum("ijk,ijk->ij", pull[:, self._first], image[:, self._second]), (pull, image)

    def backward(self, moments: ScoreMoments, slope: Units, for_cov: PairCovariances, products: Any) -> Units:
        """Slope in ``σ'`` (m, K), given the slope in the covariances (m, J); adds the slopes in ``α`` and ``W``."""
        pull, image = products
        turn = np.zeros((len(slope), len(self._weight), len(self._weight)))
        turn[:, self._first, self._second] += for_cov
        turn[:, self._second, self._first] += for_cov
        for_pull = turn @ image
        if len(self._weight) == 1:
            for sign in (1, -1):
                root = np.sqrt(np.maximum(sign * turn[:, 0], 0.0)) * pull[:, 0]
                if np.any(root):
                    self.for_hidden += sign * moments.sampled_products(root, self._hidden)[1]
                    self.for_hidden += sign * moments.coefficients.constant * (self._hidden @ (root.T @ root))
        else:
            first, second = self._units
            for_units = (pull.transpose(0, 2, 1) @ (turn @ pull))[:, first, second]
            self.for_hidden += np.einsum("pkl,pl->pk", unpack(moments.spread(for_units), first, second), self._hidden)
        self.for_output += np.einsum("imk,ik->km", for_pull, slope)
        return np.einsum("imk,mk->ik", for_pull, self._weight)
