r"""Fit one block of rows after another, for ``partial_fit``: a quadratic replaces the loss of earlier rows.

    w_t = argmin_w  ½ s wᵀPw + γᵐ Q_{t−1}(w) + U_t(w)
    Q_t(w) = γᵐ Q_{t−1}(w) + ½ (w − w_t)ᵀH_t(w − w_t) + g_tᵀ(w − w_t)

``U_t`` is the loss of the block of weight ``m``, and ``g_t`` and ``H_t`` are its gradient and its curvature at ``w_t``:
MᵀΩM with ``Ω = φ_mm`` and the diagonal of the noise, a Gauss-Newton matrix without the cross terms ``φ_mv``. It is the
mode of an assumed-density (Laplace) filter (Opper 1998). The first ``OnlineRules.recent`` rows stay one block,
fitted again as rows arrive, because the quadratic is accurate only near weights that many rows determine. Up to
``OnlineRules.columns`` features ``H`` is stored as a matrix, for more as its diagonal, as in AdaGrad (Wager, Wang &
Liang 2013). The prior counts once per pass over ``N`` rows, so that many passes approach the batch optimum. The factor
``γ = 1 − forget`` discounts earlier rows.

The softmax is one problem in the contrasts ``θ_k = w_k − w_K`` of its classes. If only a diagonal is stored, it takes
one step per block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve

from ..._typing import Float, PerRow
from ...designs import Design
from ...designs.sparse import stacked
from ...linalg.systems import Apply, conjugate_gradient, refuse_overflow
from ...losses.protocols import Curved, require
from ...model import Model
from ...moments import ScoreMoments
from ...rates import RateMap
from ..objective.energy import Energy, FeatureBlock, ProblemVector, WeightBlock, prior_block
from ..objective.exponential_moments import exponential_moments
from ..objective.softmax_energy import SoftmaxEnergy, centred
from ..objective.softmax_leave_one_out import assembled_hessian
from ..solvers.learning import RateLearner, SignCounts

__all__ = ["Online", "OnlineRules", "RecentRows"]


@dataclass(frozen=True)
class OnlineRules:
    """Sizes and tolerances of the fit to a block; measured in ``docs/decisions``.

    Attributes
    ----------
    columns : int
        Maximum number of features for a curvature matrix.
    entries : int
        Maximum number of entries in the curvature matrices of all problems.
    steps : int
        Maximum number of Newton steps on a block.
    rate_steps : int
        Number of first steps on a block, after each of which learnt rates are updated.
    gain : float
        A step that lowers the energy by less than this share is the last.
    smoothing : float
        Smoothing of the kinks of piecewise-linear losses, in units of the margin or of half the mean absolute residual.
    least : float
        Smallest mean absolute residual for this, as a share of that about the mean response.
    recent : int
        Maximum total weight of the first rows, which are kept and fitted together.
    products : int
        Maximum number of products per step if the curvature is a diagonal.
    residual : float
        Relative residual of the linear system of such a step.
    """

    columns: int = 2000
    entries: int = 1 << 24
    steps: int = 30
    rate_steps: int = 5
    gain: float = 1e-9
    smoothing: float = 0.1
    least: float = 1e-3
    recent: int = 2000
    products: int = 100
    residual: float = 1e-2


class RecentRows(NamedTuple):
    """Rows in memory: features, responses (n, K), weights (n,), and the sum of the weights before discounting."""

    design: Design
    target: PerRow
    weight: PerRow
    total: float

    def then(self, share: float, more: RecentRows) -> RecentRows:
        """These rows, with weights times ``share``, followed by more rows."""
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
        Prior precision ``P``.
    mean : array (p + 1, 1)
        Prior mean; (1, 1) for classes that are fitted jointly.
    curvature : array (K, p + 1, p + 1) or (p + 1, K)
        Discounted sum of the curvatures of the blocks, or its diagonal. Classes that are fitted jointly are one
        problem in their ``(K − 1)(p + 1)`` contrasts or, for a diagonal, in their ``K (p + 1)`` weights.
    slope : array (p + 1, K) or (D, 1)
        Linear part ``−b`` of the quadratic ``½wᵀHw − bᵀw`` of the blocks.
    rows : float
        Discounted weight of the rows seen.
    counts : SignCounts or None
        Counts of signs from which the rates are learnt.
    learner : RateLearner or None
        Learnt rates of the last step; None for known rates.
    steps : int
        Blocks seen.
    recent : RecentRows or None
        The first rows, until ``OnlineRules.recent`` is exceeded.
    residuals : array (K,) or float
        Discounted sum of the absolute residuals of the blocks before.
    """

    weights: WeightBlock
    precision: Float[np.ndarray, "q 1"]
    mean: Float[np.ndarray, "_ 1"]
    curvature: Float[np.ndarray, ...]
    slope: Float[np.ndarray, "_ _"]
    rows: float = 0.0
    counts: SignCounts | None = None
    learner: RateLearner | None = None
    steps: int = 0
    recent: RecentRows | None = None
    residuals: Any = 0.0
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
        """Start at ``weights`` (p + 1, K), by default the prior mean, and the counts of an earlier fit, if any."""
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
        # The rows of an earlier fit are unknown: its weights become the mean of the prior.
        slope = -precision * (first - mean)
        diagonal = (p + 1, K)
        if joint:
            slope, diagonal = _to_contrasts(slope) if whole else slope.reshape(-1, 1), (K * (p + 1), 1)
            mean = np.zeros((1, 1))
        return cls(first, precision, mean, np.zeros(shape if whole else diagonal), slope, counts=counts)

    def rate(self, rate_map: RateMap, binary: bool = True) -> FeatureBlock:
        """Dropout rate of each feature, (p, K) or (p, 1), from the counts so far and the signs of the weights."""
        self.learner = None
        if not rate_map.is_free or self.counts is None:
            return np.asarray(rate_map.initial[:, None])
        K = self.weights.shape[1]
        self.learner = self.counts.learner(rate_map, many=K > 1 or not binary)
        self.learner.observe(self.weights[:-1], np.zeros(K, dtype=bool), np.zeros(K))
        return np.asarray(rate_map.expand(self.learner.rates()))

    def update_joint(self, energy: SoftmaxEnergy, block_weight: float, total: float | None, forget: float) -> None:
        """Fit a block of rows, all classes jointly; ``block_weight`` is the weight of its rows."""
        self._forget(forget, block_weight)
        block = _JointBlock(replace(energy, precision=0 * self.precision), self.curvature.ndim == 3)
        for _ in range(self.rules.steps if block.whole else 1):
            if not self._step(block, total):
                break
        self._remember(block)
        self.steps += 1

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
        block_weight = float(weight.sum())
        votes = model.loss.votes(target) if rate_map.is_free else None
        if votes is not None:
            fresh = SignCounts.of_votes(design, votes, weight[:, None])
            # Rows seen in an earlier pass add no information: the counts stay those of one pass.
            counted_weight = float(self.counts.total[:, 0].sum()) if self.counts is not None else 0.0
            share = 1.0 if total is None else min(1.0, total / (counted_weight + block_weight))
            self.counts = fresh if self.counts is None else self.counts.plus(fresh, share)
        rows = RecentRows(design, target, weight, block_weight)
        rows = rows if self.recent is None else self.recent.then((1.0 - forget) ** block_weight, rows)
        few = (not self.steps or self.recent is not None) and not design.is_streamed
        self.recent = rows if few and rows.total <= self.rules.recent else None
        self._forget(forget, block_weight)
        if not self.steps and model.loss.piecewise_linear and not model.loss.binary and not np.any(self.weights):
            # From far below all responses a step leads as far above them.
            self.weights[-1] = _average(rows) if model.fit_intercept else 0.0
        rate = self.rate(rate_map, model.loss.binary)
        for step in range(self.rules.steps):
            if step and self.learner is not None and step <= self.rules.rate_steps:
                rate = self.rate(rate_map, model.loss.binary)
            make = exponential_moments if model.loss.exponential else ScoreMoments
            moments = make(rows.design, model.noise, rate, model.fit_intercept)
            energy = Energy(moments, model.loss, rows.target, model.C * rows.weight[:, None], 0 * self.precision)
            block = _Block(energy, self.curvature.ndim == 3, self._smoothing(energy, rows))
            if not self._step(block, total) and step >= (self.rules.rate_steps if self.learner is not None else 0):
                break
        if self.recent is None:
            self._remember(block)
            self.residuals = self._residuals(energy, rows)
        self.steps += 1

    def _residuals(self, energy: Energy, rows: RecentRows) -> ProblemVector:
        """Sum of the absolute residuals of the blocks before and, at the current weights, of the rows."""
        return np.asarray(self.residuals + rows.weight @ np.abs(rows.target - energy.moments.mean(self.weights)))

    def _smoothing(self, energy: Energy, rows: RecentRows) -> ProblemVector:
        """Smoothing of the kinks for a step on the rows; 0 for a smooth loss."""
        K = energy.target.shape[1]
        if energy.loss.binary or not energy.loss.piecewise_linear:
            return np.full(K, self.rules.smoothing if energy.loss.piecewise_linear else 0.0)
        # Where residuals vanish, responses have a scale; if all are 0, any will do.
        size, apart = (rows.weight @ np.abs(rows.target - place) for place in (0.0, _average(rows)))
        least = self.rules.least * np.where(apart > np.sqrt(np.finfo(float).eps) * size, apart, size)
        unit = np.maximum(self._residuals(energy, rows), least) / max(2 * self.rows, np.finfo(float).tiny)
        return np.asarray(self.rules.smoothing * np.where(least + self.residuals > 0, unit, 1.0))

    def _forget(self, forget: float, block_weight: float) -> None:
        """Discount the earlier rows by a share for every new row."""
        share = (1.0 - forget) ** block_weight
        self.curvature, self.slope = share * self.curvature, share * self.slope
        self.residuals, self.rows = share * self.residuals, share * self.rows + block_weight

    def _remember(self, block: _Block | _JointBlock) -> None:
        """Add the quadratic of the block at the current weights to that of earlier rows."""
        place = block.place(self.weights)
        curvature, gradient, _ = block.model(place)
        self.slope = self.slope + gradient - _times(curvature, place)
        self.curvature = self.curvature + curvature

    def _step(self, block: _Block | _JointBlock, total: float | None) -> bool:
        """Make a Newton step on the block and the quadratic; return whether the energy fell by enough for another."""
        place, tiny = block.place(self.weights), np.finfo(float).tiny
        # The prior counts once for each pass over ``total`` rows, and once before the first ends.
        prior = block.prior((1.0 if total is None else max(1.0, self.rows / total)) * self.precision)
        curvature, gradient, product = block.model(place)
        gradient = gradient + _times(self.curvature, place) + self.slope + _times(prior, place - self.mean)
        whole = self.curvature + curvature + prior
        refuse_overflow(curvature=whole)
        if block.whole:
            diagonal = np.arange(len(place))
            whole[:, diagonal, diagonal] += 4 * np.finfo(float).eps * whole[:, diagonal, diagonal] + tiny
            parts = [-solve(part, gradient[:, k], assume_a="pos") for k, part in enumerate(whole)]
            direction = np.stack(parts, axis=1)
        else:
            inverse, memory_diagonal = 1 / np.maximum(whole, tiny), self.curvature + prior
            direction, _, _ = conjugate_gradient(
                lambda u: (product(u) + memory_diagonal * u, ()), -gradient, lambda r: inverse * r,
                np.full(gradient.shape[1], self.rules.residual), self.rules.products,
            )  # fmt: skip

        def value(at: Float[np.ndarray, "_ K"]) -> ProblemVector:
            inner, away = 0.5 * _times(self.curvature, at) + self.slope, at - self.mean
            return np.asarray(block.value(at) + np.sum(at * inner + 0.5 * away * _times(prior, away), axis=0))

        slope, first, length = np.sum(gradient * direction, axis=0), value(place), np.ones(gradient.shape[1])
        for _ in range(self.rules.steps):
            new = value(place + length * direction)
            good = new <= first + 1e-4 * length * slope + 8 * np.finfo(float).eps * np.abs(first)
            if np.all(good):
                break
            length = np.where(good, length, 0.5 * length)
        length = np.where(good, length, 0.0)
        self.weights = block.weights(place + length * direction)
        return bool(np.any(-length * slope > self.rules.gain * np.abs(first)))


class _Block(NamedTuple):
    """Energy of a block of rows in the weights (p + 1, K); ``whole`` for a curvature matrix rather than a diagonal."""

    energy: Energy
    whole: bool
    smoothing: ProblemVector

    def place(self, weights: WeightBlock) -> WeightBlock:
        return weights

    def weights(self, place: WeightBlock) -> WeightBlock:
        return place

    def prior(self, precision: Float[np.ndarray, "q 1"]) -> Float[np.ndarray, ...]:
        return np.diag(precision[:, 0])[None] if self.whole else precision

    def value(self, weights: WeightBlock) -> ProblemVector:
        return self.energy.value(weights, *self.energy.moments.scores(weights), self.smoothing)

    def model(self, weights: WeightBlock) -> tuple[Float[np.ndarray, ...], WeightBlock, Apply]:
        """Curvature or its diagonal, gradient (p + 1, K), and the product with the curvature."""
        moments = self.energy.moments
        slopes = self.energy.derivatives(*moments.scores(weights), self.smoothing)
        gradient, spread = self.energy.gradient(weights, slopes)
        # A kink has no second derivative; use the curvature of its quadratic majoriser.
        omega = 2 * slopes.var if self.energy.loss.piecewise_linear else np.maximum(slopes.mean_mean, 0.0)
        noise = np.append(2 * spread, np.zeros((1, weights.shape[1])), axis=0)

        def product(u: WeightBlock) -> WeightBlock:
            return moments.mean_normal_product(u, lambda rows, mean: omega[rows] * mean)[1] + noise * u

        if not self.whole:
            return moments.diagonal(omega) + noise, gradient, product
        each = [moments.select([k]).grams(omega[:, [k]])[0] for k in range(weights.shape[1])]
        curvature = np.stack([gram + np.diag(noise[:, k]) for k, gram in enumerate(each)])
        curvature[:, -1, -1] += 0.0 if moments.fit_intercept else 1.0
        return curvature, gradient, product


class _JointBlock(NamedTuple):
    """Energy of a block of rows of jointly fitted classes, in the contrasts or, unless ``whole``, the weights."""

    energy: SoftmaxEnergy
    whole: bool

    def place(self, weights: WeightBlock) -> Float[np.ndarray, "D 1"]:
        return _contrasts(weights) if self.whole else weights.reshape(-1, 1)

    def weights(self, place: Float[np.ndarray, "D 1"]) -> WeightBlock:
        K = self.energy.n_classes
        if not self.whole:
            return place.reshape(-1, K)
        weights = np.append(place.reshape(K - 1, -1), np.zeros((1, len(place) // (K - 1))), axis=0).T
        return centred(weights)

    def prior(self, precision: Float[np.ndarray, "q 1"]) -> Float[np.ndarray, ...]:
        K = self.energy.n_classes
        if self.whole:
            return np.kron(np.eye(K - 1) - 1 / K, np.diag(precision[:, 0]))[None]
        return np.repeat(precision, K, axis=0)

    def value(self, place: Float[np.ndarray, "D 1"]) -> ProblemVector:
        return np.array([self.energy.value(self.weights(place))])

    def model(self, place: Float[np.ndarray, "D 1"]) -> tuple[Float[np.ndarray, ...], Float[np.ndarray, "D 1"], Apply]:
        """See :meth:`_Block.model`."""
        weights = self.weights(place)
        _, gradient, probability, diagonal = self.energy.evaluate(weights)

        def product(u: WeightBlock) -> WeightBlock:
            return self.energy.product(probability, diagonal, u.reshape(weights.shape)).reshape(-1, 1)

        if self.whole:
            return assembled_hessian(self.energy, weights, False)[None], _to_contrasts(gradient), product
        return self.energy.diagonal(probability, diagonal).reshape(-1, 1), gradient.reshape(-1, 1), product


def _average(rows: RecentRows) -> ProblemVector:
    """Mean response of each problem."""
    return np.asarray(rows.weight @ rows.target / max(rows.weight.sum(), np.finfo(float).tiny))


def _times(curvature: Float[np.ndarray, ...], place: Float[np.ndarray, "_ K"]) -> Float[np.ndarray, "_ K"]:
    """``H w`` of every problem, for whole matrices (K, q, q), or one for all, or a diagonal (q, K)."""
    return curvature * place if curvature.ndim == 2 else (curvature @ place.T[:, :, None])[:, :, 0].T


def _contrasts(weights: WeightBlock) -> Float[np.ndarray, "D 1"]:
    """``θ_k = w_k − w_K`` of all classes but the last, one after the other."""
    return (weights[:, :-1] - weights[:, -1:]).T.reshape(-1, 1)


def _to_contrasts(gradient: WeightBlock) -> Float[np.ndarray, "D 1"]:
    """Gradient in the contrasts from that in the weights."""
    return centred(gradient)[:, :-1].T.reshape(-1, 1)
