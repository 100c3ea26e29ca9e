r"""Energy of a predictor with one hidden layer of ``K`` units whose inputs are noised (Chen, Zhu, Chen & Chen 2015).

A row has pre-activations ``u = αᵀx̃ + a``, hidden features ``h = σ(u)`` and scores ``s = Wᵀh + b`` of ``M`` problems.
Under the noise ``u`` has a mean ``ū`` and a covariance ``S``, ``S_kl = Σ_d Var(x̃_d) α_dk α_dl``, and to first order
around the mean (their sections 4.2 and 5.2)

    E s = Wᵀσ(ū) + b,      Cov(s) = QᵀSQ,      Q = diag(σ'(ū)) W.

One problem has ``v = Var(s)``; several, one against the rest, have a variance each, and the softmax all covariances.
The energy is

    U = ½ Σ_k α_kᵀPα_k + ½‖W‖² + C Σ_i s_i φ(y_i, E s_i, Cov(s_i)),

and neither intercept is penalised. Since ``σ'`` and ``S`` both depend on ``α``, the gradient has cross terms that the
printed one lacks: it keeps only a feature's product with itself. Nothing of size (n, p) is formed: ``S`` of all rows is
one product of ``X²`` with the ``K(K + 1)/2`` pairs ``α_k∘α_l``, and its adjoint is another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from .._typing import Float, Int, MatrixLike
from ..designs import Design, as_design
from ..moments import ScoreMoments
from ..noise import Noise
from ..noise.centre import require_zero_centre
from .criteria import Criterion, Targets

__all__ = [
    "Block",
    "Evaluation",
    "LatentEnergy",
    "Parameters",
    "blocks_of",
    "hidden_moments",
]

# Entries of a block, small enough that a dense design multiplies them as they are; and of all designs that are kept.
_ENTRIES = 1 << 21
_KEPT = 1 << 27


class Parameters(NamedTuple):
    """Weights of both layers.

    Attributes
    ----------
    hidden : array (p + 1, K)
        ``α``, the hidden intercepts ``a`` in the last row.
    output : array (K + 1, M)
        ``W``, the intercepts ``b`` in the last row.
    """

    hidden: Float[np.ndarray, "_ K"]
    output: Float[np.ndarray, "_ M"]

    def flatten(self) -> Float[np.ndarray, " D"]:
        """All numbers as one vector."""
        return np.concatenate([self.hidden.ravel(), self.output.ravel()])

    def like(self, flat: Float[np.ndarray, " D"]) -> Parameters:
        """The inverse of :meth:`flatten`, in the shapes of these parameters."""
        cut = self.hidden.size
        return Parameters(flat[:cut].reshape(self.hidden.shape), flat[cut:].reshape(self.output.shape))


class Evaluation(NamedTuple):
    """The energy, or what some rows add to it, at given weights.

    Attributes
    ----------
    value : float
        What is minimised, the kink of a loss smoothed.
    gradient : Parameters
        Gradient of ``value``.
    objective : float
        The same with the loss as it is: what is reported.
    """

    value: float
    gradient: Parameters
    objective: float


class Block(NamedTuple):
    """Some rows of the features, their targets and the weights ``C s_i`` of their loss, (m,).

    Attributes
    ----------
    X : array or scipy sparse (m, p)
        Features.
    target, weight : array
        Class numbers (m,) or signs (m, M), and weights (m,).
    design : Design or None
        The features as a design, if it is kept.
    """

    X: MatrixLike
    target: Targets
    weight: Float[np.ndarray, " m"]
    design: Design | None = None

    def take(self, rows: Int[np.ndarray, " rows"], share: float) -> Block:
        """Some of the rows, each counted ``share`` times as much."""
        return Block(self.X[rows], self.target[rows], share * self.weight[rows])


def blocks_of(X: MatrixLike, target: Targets, weight: Float[np.ndarray, " n"], units: int) -> list[Block]:
    """Cut the rows into blocks for which features and covariances of ``units`` hidden units fit into a core's reach.

    The design of each is kept unless all together, with what a design may hold besides, would be large.
    """
    n, p = X.shape
    dense = not hasattr(X, "nnz")
    rows = max(1, min(_ENTRIES // (max(p, 1) if dense else 1), _ENTRIES // units**2))
    keep = (n * p if dense else X.nnz) <= _KEPT
    cuts = (slice(start, start + rows) for start in range(0, n, rows))
    return [Block(X[cut], target[cut], weight[cut], as_design(X[cut]) if keep else None) for cut in cuts]


def hidden_moments(
    moments: ScoreMoments, hidden: Float[np.ndarray, "_ K"], products: Float[np.ndarray, "p L"] | None = None
) -> tuple[Float[np.ndarray, "m K"], Float[np.ndarray, "m L"] | None]:
    """Mean (m, K) of the pre-activations and their covariances, pair by pair (m, K(K + 1)/2), None without noise."""
    mean = moments.mean(hidden)
    if not moments.has_variance:
        return mean, None
    if products is None:
        first, second = np.triu_indices(hidden.shape[1])
        products = hidden[:-1, first] * hidden[:-1, second]
    return mean, moments.covariance(products)


class _PairProducts:
    """What all rows share: products of weights, pair by pair ``k <= l`` of units and ``m <= n`` of problems.

    ``S_kl`` is linear in ``α_k∘α_l``, (p, L), and a covariance of scores in ``B_kl = σ'_k σ'_l S_kl``: ``C_j = Σ_L B_L
    F_Lj``, ``F_Lj = W_km W_ln + W_lm W_kn``, the second term only for k ≠ l.
    """

    def __init__(self, parameters: Parameters, problems: tuple[Int[np.ndarray, " J"], Int[np.ndarray, " J"]]) -> None:
        self.hidden, self.weight = parameters.hidden[:-1], parameters.output[:-1]
        K, M = self.weight.shape
        self.first, self.second = np.triu_indices(K)
        self._m, self._n = problems
        self.of_first, self.of_second = _members(self.first, K), _members(self.second, K)
        self._of_m, self._of_n = _members(self._m, M), _members(self._n, M)
        self._crossed = np.where(self.first == self.second, 0.0, 1.0)[:, None]
        self.products = self.hidden[:, self.first] * self.hidden[:, self.second]
        one, other = self.weight[self.first], self.weight[self.second]
        self.matrix = one[:, self._m] * other[:, self._n] + self._crossed * other[:, self._m] * one[:, self._n]

    def to_hidden(self, slope: Float[np.ndarray, "p L"]) -> Float[np.ndarray, "p K"]:
        """Gradient in ``α`` (p, K) from the one in its products (p, L)."""
        return (slope * self.hidden[:, self.second]) @ self.of_first + (
            slope * self.hidden[:, self.first]
        ) @ self.of_second

    def to_output(self, slope: Float[np.ndarray, "L J"]) -> Float[np.ndarray, "K M"]:
        """Gradient in ``W`` (K, M) from the one in ``F`` (L, J)."""
        one, other, crossed = self.weight[self.first], self.weight[self.second], self._crossed * slope
        return (
            self.of_first.T @ (slope * other[:, self._n]) @ self._of_m
            + self.of_second.T @ (slope * one[:, self._m]) @ self._of_n
            + self.of_second.T @ (crossed * one[:, self._n]) @ self._of_m
            + self.of_first.T @ (crossed * other[:, self._m]) @ self._of_n
        )


def _members(index: Int[np.ndarray, " L"], size: int) -> Float[np.ndarray, "L size"]:
    """Indicators (L, size) of what each pair belongs to: sums over pairs are products with it."""
    return (index[:, None] == np.arange(size)).astype(np.float64)


@dataclass(frozen=True)
class LatentEnergy:
    """The energy and its exact gradient.

    Attributes
    ----------
    blocks : sequence of Block
        The rows, one block after the other.
    noise : Noise
        Feature noise.
    rate : array (p,)
        Dropout rates.
    criterion : Criterion
        Marginalised loss.
    precision : array (p,)
        Prior precision of the hidden weights of each feature; that of the output weights is 1.
    fit_intercept : bool
        The intercepts of both layers are free.
    keep_variance : bool
        If false the variance of the noise is forgotten, and only its mean kept.
    """

    blocks: Sequence[Block]
    noise: Noise
    rate: Float[np.ndarray, " p"]
    criterion: Criterion
    precision: Float[np.ndarray, " p"]
    fit_intercept: bool = True
    keep_variance: bool = True

    def __post_init__(self) -> None:
        require_zero_centre(self.noise, "a hidden layer")

    def moments(self, design: Design) -> ScoreMoments:
        """Moments of the noised features of some rows."""
        moments = ScoreMoments(design, self.noise, self.rate[:, None], self.fit_intercept)
        return moments if self.keep_variance else moments.without_variance()

    def moments_of(self, block: Block) -> ScoreMoments:
        """Moments of the noised features of a block."""
        return self.moments(as_design(block.X) if block.design is None else block.design)

    def scores(
        self, moments: ScoreMoments, parameters: Parameters
    ) -> tuple[Float[np.ndarray, "m M"], Float[np.ndarray, "m J"] | None]:
        """Mean (m, M) of the scores of some rows and, with noise, covariances (m, J) of the criterion's pairs."""
        weight = parameters.output[:-1]
        mean, cov = hidden_moments(moments, parameters.hidden)
        unit: Float[np.ndarray, "m K"] = expit(mean)
        score = unit @ weight + parameters.output[-1]
        if cov is None:
            return score, None
        pairs = _PairProducts(parameters, self.criterion.pairs(weight.shape[1]))
        slope = unit * (1 - unit)
        return score, (slope[:, pairs.first] * slope[:, pairs.second] * cov) @ pairs.matrix

    @property
    def row_weight(self) -> float:
        """``C Σ s_i``."""
        return float(sum(block.weight.sum() for block in self.blocks))

    @property
    def has_variance(self) -> bool:
        """True if the noise gives the scores a variance."""
        coefficients = self.noise.coefficients(self.rate)
        parts = (coefficients.quadratic, coefficients.linear, coefficients.constant)
        return self.keep_variance and any(bool(np.any(part)) for part in parts)

    def prior(self, parameters: Parameters) -> tuple[float, Parameters]:
        """Penalty of the weights and its gradient."""
        scaled = self.precision[:, None] * parameters.hidden[:-1]
        value = 0.5 * np.sum(scaled * parameters.hidden[:-1]) + 0.5 * np.sum(parameters.output[:-1] ** 2)
        none = np.zeros((1, 1))
        return float(value), Parameters(
            np.concatenate([scaled, np.broadcast_to(none, (1, scaled.shape[1]))]),
            np.concatenate([parameters.output[:-1], np.broadcast_to(none, (1, parameters.output.shape[1]))]),
        )

    def value_and_gradient(self, parameters: Parameters) -> Evaluation:
        """``U`` and its gradient."""
        penalty, slope = self.prior(parameters)
        value, gradient, objective = self.of_rows(self.blocks, parameters)
        both = Parameters(slope.hidden + gradient.hidden, slope.output + gradient.output)
        return Evaluation(penalty + value, self.zero_fixed_intercepts(both), penalty + objective)

    def zero_fixed_intercepts(self, gradient: Parameters) -> Parameters:
        """Leave out the intercepts if there are none."""
        if not self.fit_intercept:
            gradient.hidden[-1] = 0
            gradient.output[-1] = 0
        return gradient

    def of_rows(self, blocks: Sequence[Block], parameters: Parameters) -> Evaluation:
        """What some rows add to the energy, and to its gradient."""
        pairs = (
            _PairProducts(parameters, self.criterion.pairs(parameters.output.shape[1])) if self.has_variance else None
        )
        total, rounded = 0.0, 0.0
        hidden, output = np.zeros_like(parameters.hidden), np.zeros_like(parameters.output)
        spread = np.zeros_like(pairs.products) if pairs is not None else np.zeros((0, 0))
        for_matrix = np.zeros_like(pairs.matrix) if pairs is not None else np.zeros((0, 0))
        for block in blocks:
            moments = self.moments_of(block)
            mean, cov = hidden_moments(moments, parameters.hidden, None if pairs is None else pairs.products)
            unit: Float[np.ndarray, "m K"] = expit(mean)
            slope = unit * (1 - unit)
            score = unit @ parameters.output[:-1] + parameters.output[-1]
            for_mean = np.zeros_like(unit)
            spreads = None
            if pairs is None or cov is None:
                value, for_score, _ = self.criterion(block.target, score, None)
            else:
                one, other = slope[:, pairs.first], slope[:, pairs.second]
                pair = one * other
                bent = pair * cov
                spreads = bent @ pairs.matrix
                value, for_score, for_cov = self.criterion(block.target, score, spreads)
                for_cov = block.weight[:, None] * for_cov
                for_matrix += bent.T @ for_cov
                for_bent = for_cov @ pairs.matrix.T
                spread += moments.spread(np.multiply(for_bent, pair, out=pair))
                # Both factors σ' of a pair move with the mean.
                for_bent *= cov
                for_slope = np.multiply(for_bent, other, out=other) @ pairs.of_first
                for_slope += np.multiply(for_bent, one, out=one) @ pairs.of_second
                for_mean += for_slope * slope * (1 - 2 * unit)
            for_score = block.weight[:, None] * for_score
            for_mean += slope * (for_score @ parameters.output[:-1].T)
            total += float(block.weight @ value)
            rounded += float(np.sum(block.weight * self.criterion.excess(block.target, score, spreads, value)))
            output[:-1] += unit.T @ for_score
            output[-1] += for_score.sum(axis=0)
            hidden += moments.mean_adjoint(for_mean)
        if pairs is not None:
            hidden[:-1] += pairs.to_hidden(spread)
            output[:-1] += pairs.to_output(for_matrix)
        return Evaluation(total, Parameters(hidden, output), total - rounded)
