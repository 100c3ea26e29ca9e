"""Losses of held-out rows, and the table that compares candidates in pairs, for the search.

For classes the loss is ``−log p(y)``, with the probability of :meth:`bayesdrop.losses.Classifying.probability` averaged
over a normal score with the mean and variance under the noise; for one class against the rest the probabilities are
divided by their sum. For numbers and counts it is the loss itself at the mean score.

For classes, a loss that is not a likelihood (``normalised`` is false) has no such probabilities: those of a hinge are
flat at a small ``C``, so that their log loss prefers large scores to correct ones, and hinges at different ``C`` have
scores of different sizes. Then the loss of a row is the error of its label plus the log loss of its rescaled score,

    1(m < 0) + ½ 1(m = 0) − log (e^{a s_y} / Σ_l e^{a s_l}),

with ``m`` the score of the row's class minus the best other score, and ``a`` the slope that turns the other held-out
scores into log-odds (:mod:`.calibration`). It does not depend on the size of the scores, and its second part decides
between candidates with similar errors, as errors on few rows are noisy. If few rows are held out together the errors
alone decide.

If new rows will be noised, each has a single noised score: the loss, instead of the probability, is then averaged over
the normal score.

The loss of a candidate is the mean over its held-out rows by their weights, ``Σ s_i ℓ_i/Σ s_i``, whatever the folds; a
score of a whole fold counts once. Its standard error over ``F`` folds with the weights ``S_f`` and the means ``ℓ_f`` is
``√(F/(F − 1) Σ S_f² (ℓ_f − ℓ̄)²)/Σ S_f``.

Candidates are compared on the same rows, which share most of the variation of the losses. With ``d_i`` the difference
of the losses of two candidates at row ``i``, ``s_i`` the weight of the row, and ``u_i`` the weight that counts as one
observation, the standard error of the mean difference is ``√(Σ s_i u_i (d_i − d̄)²)/Σ s_i``; for losses of whole folds
it is the standard error over the folds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from ..._typing import Float, Int
from ...losses import Loss
from ...losses.normal_score import gauss_hermite
from ...losses.protocols import Classifying, require
from ...losses.softmax import log_sum_exp, normal_points
from .calibration import best_slope, by_class, slopes_without

__all__ = ["Key", "RowLosses", "Table", "joint_losses", "noised_scores"]


ROUNDING = 1e-12
"""Largest difference of a score from a response, as a share of the response, that counts as a rounding error."""

SAME = 1e-10
"""Largest difference of equal losses, as a share of the smallest loss: rounding errors decide nothing."""


@cache
def _nodes(count: int = 15) -> tuple[list[float], list[float]]:
    return gauss_hermite(count)


def noised_scores(
    mean: Float[np.ndarray, "m J"], var: Float[np.ndarray, "m J"]
) -> Iterator[tuple[float, Float[np.ndarray, "m J"]]]:
    """Quadrature points of the scores of rows that are noised once, each with its share, for normal scores.

    Scores of several classes, each against the rest, count as independent given the row.
    """
    spread = np.sqrt(np.maximum(var, 0.0))
    if mean.shape[1] == 1:
        yield from ((share, mean + node * spread) for node, share in zip(*_nodes(), strict=True))
    else:
        points = normal_points(mean.shape[1])
        yield from ((1 / len(points), mean + point * spread) for point in points)


@dataclass(frozen=True)
class RowLosses:
    """Losses of held-out rows.

    Attributes
    ----------
    loss : Loss
        Loss of the model.
    target : array (n, J)
        Labels as −1 and +1 of each class against the rest, or numbers.
    weight : array (n,)
        Row weights, for the slope of scores without probabilities.
    """

    loss: Loss
    target: Float[np.ndarray, "n J"]
    weight: Float[np.ndarray, " n"]

    @property
    def by_margin(self) -> bool:
        """Whether losses use the margin, because the loss is for classes and not a likelihood."""
        return self.loss.binary and not self.loss.normalised

    @property
    def name(self) -> str:
        """Name of the score."""
        if self.by_margin:
            return "error + log loss"
        return "log loss" if self.loss.binary else f"{type(self.loss).__name__} loss"

    def __call__(
        self, rows: Int[np.ndarray, " m"], mean: Float[np.ndarray, "m J"], var: Float[np.ndarray, "m J"], C: float
    ) -> Float[np.ndarray, " m"]:
        """Loss of each of the rows, (m,)."""
        target = self.target[rows]
        if not self.loss.binary:
            # A score that differs from the response by rounding errors equals it: a constant has no best candidate.
            score = np.where(np.abs(mean - target) <= ROUNDING * np.abs(target), target, mean)
            return np.asarray(self.loss.plain.value(target, score, 0 * var))[:, 0]
        if self.by_margin:
            return self._margin_losses(rows, [(1.0, mean)])
        tiny = np.finfo(float).eps
        if target.shape[1] == 1:
            # Compute the probability of the row's own label; 1 − p would cancel.
            return -np.log(np.clip(self._chance(target * mean, var, C)[:, 0], tiny, 1.0))
        chance = self._chance(mean, var, C)
        total = np.maximum(chance.sum(axis=1), tiny)
        share = chance[np.arange(len(rows)), target.argmax(axis=1)] / total
        return -np.log(np.clip(share, tiny, 1.0))

    def _margin_losses(
        self, rows: Int[np.ndarray, " m"], points: list[tuple[float, Float[np.ndarray, "m J"]]]
    ) -> Float[np.ndarray, " m"]:
        """Mean loss (m,) of rows over quadrature points of their scores, each with its share."""
        shares, scores = zip(*points, strict=True)
        score, is_own_class = by_class(np.concatenate(scores), np.tile(self.target[rows], (len(shares), 1)))
        weight = np.outer(shares, self.weight[rows]).ravel()
        slope = slopes_without(best_slope(score, is_own_class, weight), score, is_own_class, weight, len(shares))
        own_score = score[is_own_class]
        lead = own_score - np.where(is_own_class, -np.inf, score).max(axis=1)
        loss = (1 - np.sign(lead)) / 2 + log_sum_exp(slope[:, None] * score)[0] - slope * own_score
        return np.asarray(shares @ loss.reshape(len(shares), -1))

    def of_noised(
        self, rows: Int[np.ndarray, " m"], mean: Float[np.ndarray, "m J"], var: Float[np.ndarray, "m J"], C: float
    ) -> Float[np.ndarray, " m"]:
        """Mean loss (m,) of rows that will be noised, averaged over their scores."""
        if self.by_margin:
            return self._margin_losses(rows, list(noised_scores(mean, var)))
        zeros = np.zeros_like(mean)
        losses = [share * self(rows, score, zeros, C) for share, score in noised_scores(mean, var)]
        return np.asarray(np.sum(losses, axis=0))

    def _chance(self, mean: Float[np.ndarray, "m J"], var: Float[np.ndarray, "m J"], C: float) -> Any:
        loss = require(self.loss, Classifying, "a choice by log loss", "give rates, and C, of your own")
        if not np.any(var):
            return loss.probability(mean, C)
        spread = np.sqrt(np.maximum(var, 0.0))
        nodes = zip(*_nodes(), strict=True)
        return sum(share * loss.probability(mean + node * spread, C) for node, share in nodes)


def joint_losses(code: Int[np.ndarray, " m"], chances: Float[np.ndarray, "m K"]) -> Float[np.ndarray, " m"]:
    """Minus the logarithm of the probability of each row's own class, (m,)."""
    return np.asarray(-np.log(np.clip(chances[np.arange(len(code)), code], np.finfo(float).eps, 1.0)))


Key: TypeAlias = tuple[float, int]
"""A candidate: its ``C``, and its number among the candidates of the rates."""


def _mean_and_error(
    values: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"], unit: Float[np.ndarray, " n"]
) -> tuple[float, float]:
    mean, count = np.average(values, weights=weight), np.sum(weight / unit)
    spread = np.sqrt(np.sum(weight * unit * (values - mean) ** 2)) / weight.sum()
    return float(mean), float(spread * np.sqrt(count / (count - 1))) if count > 1 + 1e-9 else float("nan")


@dataclass
class Table:
    """Losses by candidate and fold.

    Attributes
    ----------
    weights : list of array (m,)
        Weights of the held-out rows of each fold, or one number for a fold that has one loss.
    units : list of array (m,)
        Weight that counts as one observation, for each of these rows.
    losses : dict
        Losses (m,) by candidate and number of the fold.
    """

    weights: list[Float[np.ndarray, " _"]]
    units: list[Float[np.ndarray, " _"]]
    losses: dict[Key, dict[int, Float[np.ndarray, " _"]]] = field(default_factory=dict)

    def add(self, key: Key, fold: int, losses: Float[np.ndarray, " m"]) -> None:
        """Store the losses of a candidate on a fold."""
        self.losses.setdefault(key, {})[fold] = losses

    def means(self, key: Key) -> Float[np.ndarray, " folds"]:
        """Mean loss of each fold; NaN for folds on which the candidate was not tried."""
        losses = self.losses.get(key, {})
        return np.array(
            [np.average(losses[f], weights=w) if f in losses else np.nan for f, w in enumerate(self.weights)]
        )

    def mean(self, key: Key) -> float:
        """Weighted mean of the losses on the folds on which the candidate was tried."""
        return self._average(self.losses[key])

    def size(self, key: Key) -> float:
        """Weighted mean of the absolute losses."""
        return self._average({fold: np.abs(losses) for fold, losses in self.losses[key].items()})

    def _average(self, losses: dict[int, Float[np.ndarray, " _"]]) -> float:
        values, weights = (np.concatenate([part[f] for f in losses]) for part in (losses, self.weights))
        return float(np.average(values, weights=weights))

    def rounded(self, keys: Sequence[Key]) -> Float[np.ndarray, " k"]:
        """Mean losses without the digits that rounding errors change, relative to the smallest; NaN is infinite."""
        means = np.array([self.mean(key) for key in keys])
        means[np.isnan(means)] = np.inf
        unit = SAME * self.size(keys[int(np.argmin(means))])
        if not 0 < unit < np.inf:
            return means
        with np.errstate(over="ignore"):
            return np.round(means / unit) * unit

    def error(self, key: Key) -> float:
        """Standard error of the mean: over the folds, or over the rows of a single fold."""
        folds = sorted(self.losses[key])
        if len(folds) > 1:
            total = np.array([self.weights[fold].sum() for fold in folds])
            return _mean_and_error(self.means(key)[folds], total, total)[1]
        (fold,) = folds
        return _mean_and_error(self.losses[key][fold], self.weights[fold], self.units[fold])[1]

    def difference(self, one: Key, other: Key) -> tuple[float, float]:
        """Mean difference of the losses of ``one`` minus ``other`` on their common rows, and its standard error."""
        folds = [f for f in self.losses[one] if f in self.losses[other]]
        d = np.concatenate([self.losses[one][f] - self.losses[other][f] for f in folds])
        w, u = (np.concatenate([part[f] for f in folds]) for part in (self.weights, self.units))
        return _mean_and_error(d, w, u)

    def best(self, keys: list[Key]) -> Key:
        """The candidate with the smallest mean loss; among equals the smallest ``C``, then the first."""
        return min(zip(self.rounded(keys), keys, strict=True))[1]
