"""Compute the energy of a predictor with one hidden layer whose inputs are noised (Chen, Zhu, Chen & Chen 2015).

A row has pre-activations of ``K`` units ``u = αᵀx̃ + a``, hidden features ``h = σ(u)`` and scores ``s = Wᵀh + b`` of
``M`` problems. Under the noise ``u`` has a mean ``ū`` and a covariance ``S``, ``S_kl = Σ_d Var(x̃_d) α_dk α_dl``, and
to first order around the mean (sections 4.2 and 5.2)

    E s = Wᵀσ(ū) + b,      Cov(s) = QᵀSQ,      Q = diag(σ'(ū)) W.

Problems that are fitted one against the rest use a variance each, and the softmax all covariances.
The energy is

    U = ½ Σ_k α_kᵀPα_k + ½‖W‖² + C Σ_i s_i φ(y_i, E s_i, Cov(s_i)),

without a penalty of the intercepts. Because ``σ'`` and ``S`` both depend on ``α``, the gradient has cross terms between
features, which the published gradient lacks. No array of size (n, p) is formed; :mod:`.covariances` sums the
covariances. The rows of a fit are cut into blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ..._typing import Float, MatrixLike
from ...designs import Design, as_design
from ...moments import ScoreMoments
from ...noise import Noise
from ...noise.base import require_zero_centre
from .covariances import ScoreCovariances
from .criteria import Criterion, Targets
from .rules import RULES, Rules

__all__ = ["Block", "LatentEnergy", "Parameters", "blocks_of", "hidden_moments"]


class Parameters(NamedTuple):
    """Weights of both layers.

    Attributes
    ----------
    hidden : array (p + 1, K)
        ``α``, with the hidden intercepts ``a`` in the last row.
    output : array (K + 1, M)
        ``W``, with the intercepts ``b`` in the last row.
    """

    hidden: Float[np.ndarray, "_ K"]
    output: Float[np.ndarray, "_ M"]

    def flatten(self) -> Float[np.ndarray, " D"]:
        """All parameters as one vector."""
        return np.concatenate([self.hidden.ravel(), self.output.ravel()])

    def like(self, flat: Float[np.ndarray, " D"]) -> Parameters:
        """Inverse of :meth:`flatten`, with the shapes of these parameters."""
        cut = self.hidden.size
        return Parameters(flat[:cut].reshape(self.hidden.shape), flat[cut:].reshape(self.output.shape))


def hidden_moments(
    moments: ScoreMoments, hidden: Float[np.ndarray, "_ K"]
) -> tuple[Float[np.ndarray, "m K"], Float[np.ndarray, "m L"] | None]:
    """Mean (m, K) of the pre-activations and their covariances, pair by pair (m, K(K + 1)/2), None without noise."""
    mean = moments.mean(hidden)
    if not moments.has_variance:
        return mean, None
    first, second = np.triu_indices(hidden.shape[1])
    return mean, moments.covariance(hidden[:-1, first] * hidden[:-1, second])


@dataclass(frozen=True)
class LatentEnergy:
    """Energy ``U`` and its exact gradient.

    Attributes
    ----------
    blocks : sequence of Block
        Blocks of the rows, in order.
    noise : Noise
        Feature noise.
    rate : array (p,)
        Dropout rates.
    criterion : Criterion
        Marginalised loss.
    precision : array (p,)
        Prior precision of the hidden weights of each feature; the output weights have precision 1.
    fit_intercept : bool
        Whether the intercepts of both layers are free.
    """

    blocks: list[Block]
    noise: Noise
    rate: Float[np.ndarray, " p"]
    criterion: Criterion
    precision: Float[np.ndarray, " p"]
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        require_zero_centre(self.noise, "a hidden layer")

    def moments_of(self, block: Block) -> ScoreMoments:
        """Moments of the noised features of a block."""
        return ScoreMoments(block.rows, self.noise, self.rate[:, None], self.fit_intercept)

    def _covariances(self, parameters: Parameters) -> ScoreCovariances:
        hidden, weight = parameters.hidden[:-1], parameters.output[:-1]
        return ScoreCovariances(hidden, weight, self.criterion.pairs(weight.shape[1]))

    def scores(
        self, block: Block, parameters: Parameters
    ) -> tuple[Float[np.ndarray, "m M"], Float[np.ndarray, "m J"] | None]:
        """Mean (m, M) of the scores of some rows and, with noise, covariances (m, J) of the criterion's pairs."""
        moments = self.moments_of(block)
        unit: Float[np.ndarray, "m K"] = expit(moments.mean(parameters.hidden))
        score = unit @ parameters.output[:-1] + parameters.output[-1]
        if not moments.has_variance:
            return score, None
        return score, self._covariances(parameters).forward(moments, unit * (1 - unit))[0]

    @property
    def column_scales(self) -> Float[np.ndarray, "q 1"]:
        """``√{(P_d + Σ_i C s_i E x̃_id²) / C Σ_i s_i}``, (p + 1, 1): scales of the columns and of the intercept."""
        total = np.append(self.precision, 0.0)
        for block in self.blocks:
            moments, weight = self.moments_of(block), block.weight[:, None]
            total += moments.diagonal(weight)[:, 0]
            total[:-1] += moments.spread(weight)[:, 0]
        return np.sqrt(np.where(total > 0, total, 1.0) / self.row_weight)[:, None]

    @property
    def row_weight(self) -> float:
        """``C Σ s_i``."""
        return float(sum(block.weight.sum() for block in self.blocks))

    def value_and_gradient(self, parameters: Parameters) -> tuple[float, Parameters]:
        """``U`` and its gradient; a piecewise-linear loss is smoothed."""
        covariances = self._covariances(parameters)
        scaled, weight = self.precision[:, None] * parameters.hidden[:-1], parameters.output[:-1]
        total = 0.5 * float(np.sum(scaled * parameters.hidden[:-1]) + np.sum(weight**2))
        hidden, output = np.zeros_like(parameters.hidden), np.zeros_like(parameters.output)
        hidden[:-1], output[:-1] = scaled, weight
        for block in self.blocks:
            moments = self.moments_of(block)
            unit: Float[np.ndarray, "m K"] = expit(moments.mean(parameters.hidden))
            slope = unit * (1 - unit)
            score = unit @ parameters.output[:-1] + parameters.output[-1]
            for_mean = np.zeros_like(unit)
            if moments.has_variance:
                cov, products = covariances.forward(moments, slope)
                value, for_score, for_cov = self.criterion(block.target, score, cov)
                for_slope = covariances.backward(moments, slope, block.weight[:, None] * for_cov, products)
                for_mean += for_slope * slope * (1 - 2 * unit)
            else:
                value, for_score, _ = self.criterion(block.target, score, None)
            for_score = block.weight[:, None] * for_score
            for_mean += slope * (for_score @ parameters.output[:-1].T)
            total += float(block.weight @ value)
            output[:-1] += unit.T @ for_score
            output[-1] += for_score.sum(axis=0)
            hidden += moments.mean_adjoint(for_mean)
        hidden[:-1] += covariances.for_hidden
        output[:-1] += covariances.for_output
        if not self.fit_intercept:
            hidden[-1] = output[-1] = 0
        return total, Parameters(hidden, output)


class Block(NamedTuple):
    """Some rows of the features, their targets and the weights ``C s_i`` of their losses.

    Attributes
    ----------
    rows : Design (m, p)
        Features.
    target, weight : array
        Class numbers (m,) or signs (m, M), and weights (m,).
    """

    rows: Design
    target: Targets
    weight: Float[np.ndarray, " m"]


def blocks_of(
    X: MatrixLike,
    target: Targets,
    weight: Float[np.ndarray, " n"],
    units: int,
    rules: Rules = RULES,
) -> list[Block]:
    """Cut rows into blocks whose features, and covariances of ``units`` hidden units, have a bounded size."""
    n, p = X.shape
    columns = 1 if hasattr(X, "nnz") else max(p, 1)
    rows = max(1, rules.block_entries // max(columns, units**2))
    cuts = (slice(start, start + rows) for start in range(0, n, rows))
    return [Block(as_design(X[cut]), target[cut], weight[cut]) for cut in cuts]
