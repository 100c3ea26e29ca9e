r"""Fitting row block by row block: each block is fitted together with a quadratic that stands for the rows before.

    w_t = argmin_w  ½ s wᵀPw + γᵐ Q_{t−1}(w) + U_t(w)
    Q_t(w) = γᵐ Q_{t−1}(w) + ½ (w − w_t)ᵀH_t(w − w_t) + g_tᵀ(w − w_t)

``U_t`` is the loss of the block of weight ``m``, and ``g_t`` and ``H_t`` are its gradient and its curvature at ``w_t``:
MᵀΩM with ``Ω = φ_mm`` and the diagonal of the noise, a Gauss-Newton matrix without the cross terms ``φ_mv``. It is the
mode of an assumed-density (Laplace) filter (Opper 1998). The first ``OnlineRules.recent`` rows are one block, fitted
again as they come, because a quadratic is good only near weights that many rows determine. Up to
``OnlineRules.columns`` features ``H`` is kept whole; beyond, its diagonal is, which is the memory of AdaGrad (Wager,
Wang & Liang 2013). The prior counts once, and once more for each further pass over ``N`` rows, so that many passes
approach the batch optimum. ``γ`` forgets.

The softmax keeps the whole matrix in the contrasts ``θ_k = w_k − w_K`` of its classes, or takes one step a block by
the diagonal, ``w ← w − diag(P + ΣH)⁻¹ g``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve

from ..._typing import Float, PerRow
from ...designs import Design
from ...designs.sparse import stacked
from ...linalg.systems import conjugate_gradient, refuse_overflow
from ...losses.protocols import Curved, require
from ...model import Model
from ...moments import ScoreMoments
from ...rates import RateMap
from ..objective.energy import Energy, FeatureBlock, ProblemVector, WeightBlock, prior_block
from ..objective.exponential_moments import exponential_moments
from ..objective.softmax_energy import SoftmaxEnergy
from ..objective.softmax_leave_one_out import assembled_hessian
from ..solvers.learning import RateLearner, SignCounts

__all__ = ["Online", "OnlineRules", "RecentRows"]


@dataclass(frozen=True)
class OnlineRules:
    """How blocks are fitted; measured in ``docs/decisions``.

    Attributes
    ----------
    columns : int
        Features up to which the whole curvature is kept, if there are few problems.
    entries : int
        Numbers in the curvatures of all problems up to which they are kept whole.
    steps : int
        Maximal number of Newton steps on a block.
    rate_steps : int
        First steps on a block after which learnt rates follow the signs of the weights.
    gain : float
        A step whose gain is below this share of the energy of the block ends the steps.
    smoothing : float
        Smoothing of the kinks of piecewise-linear losses.
    recent : int
        Weight of the first rows that are fitted together, and kept until there are more.
    products : int
        Maximal number of products of a step where the curvature is a diagonal.
    residual : float
        Relative residual of such a step.
    """

    columns: int = 2000
    entries: int = 1 << 24
    steps: int = 30
    rate_steps: int = 5
    gain: float = 1e-9
    smoothing: float = 0.1
    recent: int = 2000
    products: int = 100
    residual: float = 1e-2


class RecentRows(NamedTuple):
    """Rows in memory: features, responses (n, K), weights (n,), and the sum of the weights as they came."""

    design: Design
    target: PerRow
    weight: PerRow
    total: float

    def then(self, share: float, more: RecentRows) -> RecentRows:
        """These rows, of which a share of the weight is left, and more behind them."""
        return RecentRows(
            stacked(self.design, more.design),
            np.concatenate([self.target, more.target]),
            np.concatenate([share * self.weight, more.weight]),
            self.total + more.total,
        )


@dataclass
class Online:
    """State of an online fit of ``K`` problems.

    Attributes
    ----------
    weights : array (p + 1, K)
        Current weights.
    precision : array (p + 1, 1)
        The ``P``.
    mean : array (p + 1, 1)
        Mean of the prior.
    curvature : array (K, p + 1, p + 1) or (p + 1, K)
        Sum of the curvatures of the blocks, or its diagonal; (1, D, D) of the ``D = (K − 1)(p + 1)`` contrasts of
        classes that are fitted jointly.
    slope : array (p + 1, K) or (D, 1)
        Linear part ``−b`` of the quadratic ``½wᵀHw − bᵀw`` of the blocks.
    rows : float
        Weight of the rows that are remembered.
    counts : SignCounts or None
        What the rates follow from.
    learner : RateLearner or None
        Rates of the last step where they are learnt.
    steps : int
        Blocks seen.
    recent : RecentRows or None
        The first rows, while they are few.
    """

    weights: WeightBlock
    precision: Float[np.ndarray, "q 1"]
    mean: Float[np.ndarray, "q 1"]
    curvature: Float[np.ndarray, ...]
    slope: Float[np.ndarray, "_ _"]
    rows: float = 0.0
    counts: SignCounts | None = None
    learner: RateLearner | None = None
    steps: int = 0
    recent: RecentRows | None = None
    rules: OnlineRules = field(default=OnlineRules(), repr=False)

    @classmethod
    def start(
        cls,
        model: Model,
        p: int,
        K: int,
        weights: WeightBlock | None = None,
        counts: SignCounts | None = None,
        joint: bool = False,
    ) -> Online:
        """Begin at ``weights`` (p + 1, K), zero by default, and the counts of an earlier fit, if any."""
        precision, location, _, absolute = prior_block(model, p)
        if absolute is not None:
            raise ValueError(
                f"weight_prior: partial_fit takes normal priors, got {model.weight_prior!r}; fit all rows at once, or "
                "take bd.Normal(...)."
            )
        first = np.zeros((p + 1, K)) if weights is None else weights.copy()
        mean = np.zeros((p + 1, 1)) if location is None else location
        if weights is None:
            first += mean
        rules, size = cls.rules, (K - 1) * (p + 1) if joint else p + 1
        shape = (1 if joint else K, size, size)
        whole = p <= rules.columns and np.prod(shape) <= rules.entries
        # The prior is about an earlier fit, which is all that is known of its rows.
        slope = -precision * (first - mean)
        slope = _to_contrasts(slope) if whole and joint else slope
        return cls(first, precision, mean, np.zeros(shape if whole else (p + 1, K)), slope, counts=counts)

    def rate(self, rate_map: RateMap, binary: bool = True) -> FeatureBlock:
        """Dropout rate of each feature, (p, K) or (p, 1), by the counts so far and the signs of the weights."""
        self.learner = None
        if not rate_map.is_free or self.counts is None:
            return np.asarray(rate_map.initial[:, None])
        K = self.weights.shape[1]
        self.learner = self.counts.learner(rate_map, many=K > 1 or not binary)
        self.learner.observe(self.weights[:-1], np.zeros(K, dtype=bool), np.zeros(K))
        return np.asarray(rate_map.expand(self.learner.rates()))

    def update_joint(self, energy: SoftmaxEnergy, here: float, total: float | None, forget: float) -> None:
        """Fit a block of rows, all classes jointly; ``here`` is the weight of its rows."""
        self._forget(forget, here)
        prior = self._prior_share(total) * self.precision
        block = replace(energy, precision=0 * self.precision)
        for _ in range(self.rules.steps if self.curvature.ndim == 3 else 1):
            if not self._joint_step(block, prior):
                break
        self._remember_joint(block)
        self.steps += 1

    def _joint_block(self, block: SoftmaxEnergy) -> tuple[Any, Float[np.ndarray, "D 1"]]:
        """Curvature of a block and its gradient, of weights or, where the curvature is whole, of their contrasts."""
        _, gradient, probability, noise_curvature = block.evaluate(self.weights)
        if self.curvature.ndim == 2:
            return block.diagonal(probability, noise_curvature), gradient
        return assembled_hessian(block, self.weights, False)[None], _to_contrasts(gradient)

    def _remember_joint(self, block: SoftmaxEnergy) -> None:
        curvature, gradient = self._joint_block(block)
        place = self.weights if self.curvature.ndim == 2 else _contrasts(self.weights)
        self.slope = self.slope + gradient - _times(curvature, place)
        self.curvature = self.curvature + curvature

    def _joint_step(self, block: SoftmaxEnergy, prior: Float[np.ndarray, "q 1"]) -> bool:
        """One Newton step on the block and what is remembered; whether it gained anything."""
        curvature, gradient = self._joint_block(block)
        whole, K, tiny = self.curvature + curvature, self.weights.shape[1], np.finfo(float).tiny
        refuse_overflow(curvature=whole)
        if whole.ndim == 2:
            gradient = gradient + self.curvature * self.weights + prior * self.weights + self.slope
            self.weights = self.weights - gradient / np.maximum(whole + prior, tiny)
            return False
        place = _contrasts(self.weights)
        gradient = gradient + _times(self.curvature, place) + self.slope + _to_contrasts(prior * self.weights)
        matrix = whole[0] + np.kron(np.eye(K - 1) - 1 / K, np.diag(prior[:, 0]))
        matrix[np.diag_indices(len(matrix))] += 4 * np.finfo(float).eps * matrix.diagonal() + tiny
        direction = -solve(matrix, gradient, assume_a="pos")

        def value(contrasts: Float[np.ndarray, "D 1"]) -> tuple[float, WeightBlock]:
            weights = _from_contrasts(contrasts, K)
            inner = 0.5 * _times(self.curvature, contrasts) + self.slope
            return block.value(weights) + float(np.sum(contrasts * inner) + 0.5 * np.sum(prior * weights**2)), weights

        slope, length, (first, _) = float(np.sum(gradient * direction)), 1.0, value(place)
        for _ in range(self.rules.steps):
            new, weights = value(place + length * direction)
            if new <= first + 1e-4 * length * slope + 8 * np.finfo(float).eps * abs(first):
                self.weights = weights
                return -length * slope > self.rules.gain * abs(first)
            length *= 0.5
        return False

    def update(
        self,
        model: Model,
        design: Design,
        rate_map: RateMap,
        target: PerRow,
        weight: PerRow,
        total: float | None,
        forget: float = 0.0,
    ) -> None:
        """Fit a block of rows; ``target`` (n, K), ``weight`` (n,), ``total`` the ``N`` of one pass."""
        require(model.loss, Curved, "a fit block by block", "write its derivatives, or fit all rows at once")
        model.noise.check(design.minimum())
        here = float(weight.sum())
        votes = model.loss.votes(target) if rate_map.is_free else None
        if votes is not None:
            fresh = SignCounts.of_votes(design, votes, weight[:, None])
            # Rows that come again say nothing new: the counts stay those of one pass.
            known = float(self.counts.total[:, 0].sum()) if self.counts is not None else 0.0
            share = 1.0 if total is None else min(1.0, total / (known + here))
            self.counts = fresh if self.counts is None else self.counts.plus(fresh, share)
        rows = RecentRows(design, target, weight, here)
        rows = rows if self.recent is None else self.recent.then((1.0 - forget) ** here, rows)
        few = (not self.steps or self.recent is not None) and not design.is_streamed
        self.recent = rows if few and rows.total <= self.rules.recent else None
        self._forget(forget, here)
        prior = self._prior_share(total) * self.precision
        rate = self.rate(rate_map, model.loss.binary)
        for step in range(self.rules.steps):
            if step and self.learner is not None and step <= self.rules.rate_steps:
                rate = self.rate(rate_map, model.loss.binary)
            make = exponential_moments if model.loss.exponential else ScoreMoments
            moments = make(rows.design, model.noise, rate, model.fit_intercept)
            energy = Energy(moments, model.loss, rows.target, model.C * rows.weight[:, None], 0 * self.precision)
            if not self._step(energy, prior) and step >= (self.rules.rate_steps if self.learner is not None else 0):
                break
        if self.recent is None:
            curvature, gradient = self._block(energy, self.weights)
            self.slope = self.slope + gradient - _times(curvature, self.weights)
            self.curvature = self.curvature + curvature
        self.steps += 1

    def _forget(self, forget: float, here: float) -> None:
        """Let every new row replace a share of what is remembered."""
        kept = (1.0 - forget) ** here
        self.curvature, self.slope, self.rows = kept * self.curvature, kept * self.slope, kept * self.rows + here

    def _prior_share(self, total: float | None) -> float:
        """How often the prior counts: once for each pass over ``total`` rows, and once before the first ends."""
        return 1.0 if total is None else max(1.0, self.rows / total)

    def _smoothing(self, energy: Energy) -> ProblemVector:
        return np.full(self.weights.shape[1], self.rules.smoothing if energy.loss.piecewise_linear else 0.0)

    def _block(self, energy: Energy, weights: WeightBlock) -> tuple[Any, WeightBlock]:
        """Curvature of a block, whole or its diagonal, and its gradient (p + 1, K)."""
        moments = energy.moments
        slopes = energy.derivatives(*moments.scores(weights), self._smoothing(energy))
        gradient, spread = energy.gradient(weights, slopes)
        # A kink has no second derivative; the curvature of its majoriser stands in.
        omega = 2 * slopes.var if energy.loss.piecewise_linear else np.maximum(slopes.mean_mean, 0.0)
        noise = np.zeros_like(weights)
        noise[:-1] = 2 * spread
        if self.curvature.ndim == 2:
            return moments.diagonal(omega) + noise, gradient
        K = weights.shape[1]
        each = [moments] if K == 1 else [moments.select([k]) for k in range(K)]
        whole = np.stack([part.grams(omega[:, [k]])[0] for k, part in enumerate(each)])
        diagonal = np.arange(len(weights))
        whole[:, diagonal, diagonal] += noise.T
        if not moments.fit_intercept:
            whole[:, -1, -1] = 1.0
        return whole, gradient

    def _value(self, energy: Energy, weights: WeightBlock, prior: Float[np.ndarray, "q 1"]) -> ProblemVector:
        block = energy.value(weights, *energy.moments.scores(weights), self._smoothing(energy))
        inner, away = 0.5 * _times(self.curvature, weights) + self.slope, weights - self.mean
        return np.asarray(block + np.sum(weights * inner + 0.5 * prior * away**2, axis=0))

    def _step(self, energy: Energy, prior: Float[np.ndarray, "q 1"]) -> bool:
        """One Newton step on the block and what is remembered; whether it gained anything."""
        curvature, gradient = self._block(energy, self.weights)
        gradient = gradient + _times(self.curvature, self.weights) + prior * (self.weights - self.mean) + self.slope
        whole = self.curvature + curvature
        refuse_overflow(curvature=whole)
        tiny = np.finfo(float).tiny
        if whole.ndim == 3:
            diagonal = np.arange(len(prior))
            whole[:, diagonal, diagonal] += prior[:, 0] + 4 * np.finfo(float).eps * whole[:, diagonal, diagonal] + tiny
            parts = [-solve(part, gradient[:, k], assume_a="pos") for k, part in enumerate(whole)]
            direction = np.stack(parts, axis=1)
        else:
            inverse = 1 / np.maximum(whole + prior, tiny)
            slopes = energy.derivatives(*energy.moments.scores(self.weights), self._smoothing(energy))
            omega = 2 * slopes.var if energy.loss.piecewise_linear else np.maximum(slopes.mean_mean, 0.0)
            own = whole - energy.moments.diagonal(omega) + prior

            def product(u: WeightBlock) -> tuple[WeightBlock, tuple[PerRow, ...]]:
                _, back = energy.moments.mean_normal_product(u, lambda rows, mean: omega[rows] * mean)
                return back + own * u, ()

            direction, _, _ = conjugate_gradient(
                product, -gradient, lambda r: inverse * r, np.full(gradient.shape[1], self.rules.residual),
                self.rules.products,
            )  # fmt: skip
        slope = np.sum(gradient * direction, axis=0)
        value = self._value(energy, self.weights, prior)
        length = np.ones_like(slope)
        for _ in range(self.rules.steps):
            new = self._value(energy, self.weights + length * direction, prior)
            bad = ~(new <= value + 1e-4 * length * slope + 8 * np.finfo(float).eps * np.abs(value))
            if not np.any(bad):
                break
            length = np.where(bad, 0.5 * length, length)
        else:
            length = np.where(bad, 0.0, length)
        self.weights = self.weights + length * direction
        return bool(np.any(-length * slope > self.rules.gain * np.abs(value)))


def _times(curvature: Float[np.ndarray, ...], weights: WeightBlock) -> WeightBlock:
    """``H w`` of every problem, of a whole curvature (K, q, q) or a diagonal (q, K)."""
    if curvature.ndim == 2:
        return curvature * weights
    return np.stack([whole @ w for whole, w in zip(curvature, weights.T, strict=True)], axis=1)


def _contrasts(weights: WeightBlock) -> Float[np.ndarray, "D 1"]:
    """``θ_k = w_k − w_K`` of all classes but the last, one after the other."""
    return (weights[:, :-1] - weights[:, -1:]).T.reshape(-1, 1)


def _from_contrasts(contrasts: Float[np.ndarray, "D 1"], K: int) -> WeightBlock:
    """Weights (p + 1, K) that sum to zero over the classes."""
    weights = np.append(contrasts.reshape(K - 1, -1), np.zeros((1, len(contrasts) // (K - 1))), axis=0).T
    return np.asarray(weights - weights.mean(axis=1, keepdims=True))


def _to_contrasts(gradient: WeightBlock) -> Float[np.ndarray, "D 1"]:
    """Gradient in the contrasts from that in the weights."""
    return (gradient[:, :-1] - gradient.mean(axis=1, keepdims=True)).T.reshape(-1, 1)
