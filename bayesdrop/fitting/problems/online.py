r"""Fitting row block by row block (Wager, Wang & Liang 2013: dropout as AdaGrad's cousin).

    w ← w − H_t⁻¹ g_t,      H_t = diag(P + Σ_{i <= t} ∇² U_i(w_i))

``g_t`` is the gradient of the marginalised energy of the block at the current weights and ``H_t`` the running sum of
its diagonal curvature: steps shrink as ``1/t``, and a rare feature keeps larger ones than a frequent one. The penalty
``½wᵀPw`` is spread over the ``N`` rows of one pass over the data, so that many passes approach the batch optimum; where
``N`` is not given it is the number of rows seen so far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._typing import PerRow
from ...designs import Design
from ...losses.protocols import Curved, require
from ...model import Model
from ...moments import ScoreMoments
from ...rates import RateMap
from ..objective.energy import Energy, FeatureBlock, WeightBlock
from ..objective.exponential_moments import exponential_moments
from ..objective.softmax_energy import SoftmaxEnergy
from ..solvers.learning import RateLearner, SignCounts

__all__ = ["Online"]


@dataclass
class Online:
    """State of an online fit of ``K`` problems.

    Attributes
    ----------
    weights, curvature : array (p + 1, K)
        Current weights and the running ``H``.
    rows : float
        Weight of the rows seen.
    counts : SignCounts or None
        What the rates follow from.
    learner : RateLearner or None
        Rates of the last step where they are learnt.
    steps : int
        Blocks seen.
    """

    weights: WeightBlock
    curvature: WeightBlock
    rows: float = 0.0
    counts: SignCounts | None = None
    learner: RateLearner | None = None
    steps: int = 0

    @classmethod
    def start(
        cls, model: Model, p: int, K: int, weights: WeightBlock | None = None, counts: SignCounts | None = None
    ) -> Online:
        """Begin at ``weights`` (p + 1, K), zero by default, and the counts of an earlier fit, if any."""
        precision = np.append(model.weight_prior.precision(p), 0.0)[:, None]
        first = np.zeros((p + 1, K)) if weights is None else weights.copy()
        return cls(first, np.broadcast_to(precision, (p + 1, K)).copy(), counts=counts)

    def rate(self, rate_map: RateMap, binary: bool = True) -> FeatureBlock:
        """Dropout rate of each feature, (p, K) or (p, 1), by the counts so far and the signs of the weights."""
        self.learner = None
        if not rate_map.is_free or self.counts is None:
            return np.asarray(rate_map.initial[:, None])
        K = self.weights.shape[1]
        self.learner = self.counts.learner(rate_map, many=K > 1 or not binary)
        self.learner.observe(self.weights[:-1], np.zeros(K, dtype=bool), np.zeros(K))
        return np.asarray(rate_map.expand(self.learner.rates()))

    def _move(self, gradient: WeightBlock) -> None:
        self.weights = self.weights - gradient / np.maximum(self.curvature, np.finfo(float).tiny)
        self.steps += 1

    def update_joint(self, energy: SoftmaxEnergy, here: float, total: float | None) -> None:
        """Take one step on the energy of a block of rows, all classes jointly; ``here`` is the weight of its rows."""
        self.rows += here
        energy = replace(energy, precision=energy.precision * (here / (self.rows if total is None else total)))
        _, gradient, probability, noise_curvature = energy.evaluate(self.weights)
        self.curvature += energy.diagonal(probability, noise_curvature)
        self._move(gradient)

    def update(
        self,
        model: Model,
        design: Design,
        rate_map: RateMap,
        target: PerRow,
        weight: PerRow,
        total: float | None,
        smoothed: float = 0.1,
    ) -> None:
        """Take one step on a block of rows; ``target`` (n, K), ``weight`` (n,), ``total`` the ``N`` of one pass."""
        require(model.loss, Curved, "a fit block by block", "write its derivatives, or fit all rows at once")
        model.noise.check(design.minimum())
        here = float(weight.sum())
        self.rows += here
        pass_rows, total = total, self.rows if total is None else total
        precision = np.append(model.weight_prior.precision(design.shape[1]), 0.0)[:, None]
        rate = self.rate(rate_map, model.loss.binary)
        make = exponential_moments if model.loss.exponential else ScoreMoments
        moments = make(design, model.noise, rate, model.fit_intercept)
        energy = Energy(moments, model.loss, target, model.C * weight[:, None], precision * (here / total))
        mean, var = moments.scores(self.weights)
        smoothing = np.full(target.shape[1], smoothed if model.loss.piecewise_linear else 0.0)
        slopes = energy.derivatives(mean, var, smoothing)
        gradient, spread = energy.gradient(self.weights, slopes)
        # A kink has no second derivative; the curvature of its majoriser stands in.
        curvature = 2 * slopes.var if model.loss.piecewise_linear else np.maximum(slopes.mean_mean, 0.0)
        self.curvature += moments.diagonal(curvature) + energy.precision
        self.curvature[:-1] += 2 * spread
        self._move(gradient)
        votes = model.loss.votes(target) if rate_map.is_free else None
        if rate_map.is_free and votes is not None:
            fresh = SignCounts.of_votes(design, votes, weight[:, None])
            # Rows that come again say nothing new: the counts stay those of one pass.
            known = float(self.counts.total[:, 0].sum()) if self.counts is not None else 0.0
            share = 1.0 if pass_rows is None else min(1.0, pass_rows / (known + here))
            self.counts = fresh if self.counts is None else self.counts.plus(fresh, share)
