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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import expit

from ..designs import Design, as_design
from ..inference.softmax import FORMS, expected_softmax, log_sum_exp
from ..losses import Loss
from ..moments import ScoreMoments
from ..noise import Noise

__all__ = [
    "Block",
    "Criterion",
    "LatentEnergy",
    "OneVersusRest",
    "Parameters",
    "Softmax",
    "blocks_of",
    "hidden_moments",
]

Array = Any

# Products of hidden weights that are held at once.
_PRODUCTS = 1 << 22
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

    hidden: Array
    output: Array

    def flatten(self) -> Array:
        """All numbers as one vector."""
        return np.concatenate([self.hidden.ravel(), self.output.ravel()])

    def like(self, flat: Array) -> Parameters:
        """The inverse of :meth:`flatten`, in the shapes of these parameters."""
        cut = self.hidden.size
        return Parameters(flat[:cut].reshape(self.hidden.shape), flat[cut:].reshape(self.output.shape))


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

    X: Any
    target: Array
    weight: Array
    design: Design | None = None

    def take(self, rows: Array, share: float) -> Block:
        """Some of the rows, each counted ``share`` times as much."""
        return Block(self.X[rows], self.target[rows], share * self.weight[rows])


def blocks_of(X: Any, target: Array, weight: Array, units: int) -> list[Block]:
    """Cut the rows into blocks for which features and covariances of ``units`` hidden units fit into a core's reach.

    The design of each is kept unless all together, with what a design may hold besides, would be large.
    """
    n, p = X.shape
    dense = not hasattr(X, "nnz")
    rows = max(1, min(_ENTRIES // (max(p, 1) if dense else 1), _ENTRIES // units**2))
    keep = (n * p if dense else X.nnz) <= _KEPT
    cuts = (slice(start, start + rows) for start in range(0, n, rows))
    return [Block(X[cut], target[cut], weight[cut], as_design(X[cut]) if keep else None) for cut in cuts]


class Criterion(Protocol):
    """Protocol of a marginalised loss of the scores of a row."""

    def __call__(self, target: Array, mean: Array, cov: Array | None) -> tuple[Array, Array, Array | None]:
        """Loss (m,), its slope in the mean (m, M), and in the covariance, (m, M, M); None if that is None."""


@dataclass(frozen=True)
class OneVersusRest:
    """One loss per problem, of its own variance.

    Attributes
    ----------
    loss : Loss
        Marginalised loss.
    smoothing : float
        Added to the variances: what a kinked loss without noise needs to have a gradient.
    """

    loss: Loss
    smoothing: float = 0.0

    def __call__(self, target: Array, mean: Array, cov: Array | None) -> tuple[Array, Array, Array | None]:
        """See :class:`Criterion`; ``target`` (m, M) of −1 and +1."""
        if cov is None and self.smoothing == 0:
            value, slope = self.loss.plain_value_and_slope(target, mean)
            return value.sum(axis=1), slope, None
        var = np.zeros_like(mean) if cov is None else np.einsum("nkk->nk", cov)
        var = var + self.smoothing
        slopes = self.loss.derivatives(target, mean, var)
        to_cov = None
        if cov is not None:
            to_cov = np.zeros_like(cov)
            np.einsum("nkk->nk", to_cov)[...] = slopes.var
        return self.loss.value(target, mean, var).sum(axis=1), slopes.mean, to_cov


@dataclass(frozen=True)
class Softmax:
    """``log Σ exp(s_k) − s_y`` and what the noise adds to it; see :mod:`bayesdrop.inference.softmax`.

    Attributes
    ----------
    form : str
        ``"taylor"`` or ``"gaussian"``.
    """

    form: str

    def __call__(self, target: Array, mean: Array, cov: Array | None) -> tuple[Array, Array, Array | None]:
        """See :class:`Criterion`; ``target`` (m,) of class numbers."""
        rows = np.arange(len(mean))
        level, slope = log_sum_exp(mean)
        value = level - mean[rows, target]
        slope[rows, target] -= 1
        if cov is None:
            return value, slope, None
        extra, more, to_cov, _ = FORMS[self.form](mean, cov)
        return value + extra, slope + more, to_cov

    @staticmethod
    def chances(mean: Array, cov: Array | None) -> Array:
        """Expected softmax of the scores, (m, M)."""
        return log_sum_exp(mean)[1] if cov is None else expected_softmax(mean, cov)


def hidden_moments(moments: ScoreMoments, hidden: Array) -> tuple[Array, Array | None]:
    """Mean (m, K) and covariance (m, K, K) of the pre-activations; None for the latter without noise."""
    mean = moments.mean(hidden)
    if not moments.has_variance:
        return mean, None
    cov = np.empty((*mean.shape, hidden.shape[1]))
    for first, second in _pairs(hidden):
        flat = moments.covariance(hidden[:-1, first] * hidden[:-1, second])
        cov[:, first, second] = flat
        cov[:, second, first] = flat
    return mean, cov


def _pairs(hidden: Array) -> Iterator[tuple[Array, Array]]:
    """Pairs ``k <= l`` of hidden units, so many at a time that their products over the features are not large."""
    first, second = np.triu_indices(hidden.shape[1])
    step = max(1, _PRODUCTS // len(hidden))
    for start in range(0, len(first), step):
        yield first[start : start + step], second[start : start + step]


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
    spread : bool
        If false the variance of the noise is forgotten, and only its mean kept.
    """

    blocks: Sequence[Block]
    noise: Noise
    rate: Array
    criterion: Criterion
    precision: Array
    fit_intercept: bool = True
    spread: bool = True

    def moments(self, design: Design) -> ScoreMoments:
        """Moments of the noised features of some rows."""
        moments = ScoreMoments(design, self.noise, self.rate[:, None], self.fit_intercept)
        return moments if self.spread else moments.without_variance()

    def moments_of(self, block: Block) -> ScoreMoments:
        """Moments of the noised features of a block."""
        return self.moments(as_design(block.X) if block.design is None else block.design)

    def scores(self, moments: ScoreMoments, parameters: Parameters) -> tuple[Array, Array | None]:
        """Mean (m, M) and covariance (m, M, M) of the scores of some rows, None for the latter without noise."""
        weight = parameters.output[:-1]
        mean, cov = hidden_moments(moments, parameters.hidden)
        unit: Array = expit(mean)
        score = unit @ weight + parameters.output[-1]
        if cov is None:
            return score, None
        tilt = (unit * (1 - unit))[:, :, None] * weight[None]
        return score, np.swapaxes(tilt, 1, 2) @ (cov @ tilt)

    @property
    def has_variance(self) -> bool:
        """True if the noise gives the scores a variance."""
        coefficients = self.noise.coefficients(self.rate)
        parts = (coefficients.quadratic, coefficients.linear, coefficients.constant)
        return self.spread and any(bool(np.any(part)) for part in parts)

    def prior(self, parameters: Parameters) -> tuple[float, Parameters]:
        """Penalty of the weights and its gradient."""
        scaled = self.precision[:, None] * parameters.hidden[:-1]
        value = 0.5 * np.sum(scaled * parameters.hidden[:-1]) + 0.5 * np.sum(parameters.output[:-1] ** 2)
        none = np.zeros((1, 1))
        return float(value), Parameters(
            np.concatenate([scaled, np.broadcast_to(none, (1, scaled.shape[1]))]),
            np.concatenate([parameters.output[:-1], np.broadcast_to(none, (1, parameters.output.shape[1]))]),
        )

    def value_and_gradient(self, parameters: Parameters) -> tuple[float, Parameters]:
        """``U`` and its gradient."""
        total, gradient = self.prior(parameters)
        for block in self.blocks:
            value, part = self.of_block(block, parameters)
            total += value
            gradient = Parameters(gradient.hidden + part.hidden, gradient.output + part.output)
        return total, self.tied(gradient)

    def tied(self, gradient: Parameters) -> Parameters:
        """Leave out the intercepts if there are none."""
        if not self.fit_intercept:
            gradient.hidden[-1] = 0
            gradient.output[-1] = 0
        return gradient

    def of_block(self, block: Block, parameters: Parameters) -> tuple[float, Parameters]:
        """What some rows add to the energy, and to its gradient."""
        hidden, weight = parameters.hidden, parameters.output[:-1]
        moments = self.moments_of(block)
        mean, cov = hidden_moments(moments, hidden)
        unit: Array = expit(mean)
        slope = unit * (1 - unit)
        score = unit @ weight + parameters.output[-1]
        # Q and SQ, (m, K, M).
        tilt = None if cov is None else slope[:, :, None] * weight[None]
        along = None if cov is None else cov @ tilt
        score_cov = None if tilt is None or along is None else np.swapaxes(tilt, 1, 2) @ along
        value, for_score, for_cov = self.criterion(block.target, score, score_cov)
        for_score = block.weight[:, None] * for_score
        output = np.concatenate([unit.T @ for_score, for_score.sum(axis=0)[None]])
        for_mean = slope * (for_score @ weight.T)
        spread = np.zeros_like(hidden[:-1])
        if tilt is not None and along is not None and for_cov is not None:
            for_cov = block.weight[:, None, None] * for_cov
            for_tilt = 2 * (along @ for_cov)
            output[:-1] += np.einsum("nk,nkm->km", slope, for_tilt)
            for_mean += slope * (1 - 2 * unit) * np.einsum("nkm,km->nk", for_tilt, weight)
            self._add_spread(moments, (tilt @ for_cov) @ np.swapaxes(tilt, 1, 2), hidden[:-1], spread)
        gradient = moments.mean_adjoint(for_mean)
        gradient[:-1] += spread
        return float(block.weight @ value), Parameters(gradient, output)

    @staticmethod
    def _add_spread(moments: ScoreMoments, for_cov: Array, hidden: Array, total: Array) -> None:
        """Add the adjoint of ``α ↦ S`` at a residual ``T`` (m, K, K) to ``total`` (p, K): ``2 Σ_l q(T_kl)∘α_l``."""
        for first, second in _pairs(hidden):
            spread = 2 * moments.spread(for_cov[:, first, second])
            for k in np.unique(first):
                here = first == k
                others, part = second[here], spread[:, here]
                total[:, k] += np.einsum("dl,dl->d", part, hidden[:, others])
                distinct = others != k
                total[:, others[distinct]] += part[:, distinct] * hidden[:, k, None]
