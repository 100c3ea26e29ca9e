"""Scores of held-out rows from the moments of their scores, row by row, so that candidates are compared in pairs.

Of two classes or more ``−log p(y)``, ``p`` being the probability of :meth:`bayesdrop.losses.Classifying.probability`,
averaged over a normal score with the mean and variance that the noise gives it; of one class against the rest the
probabilities are brought to a sum of one. Of numbers and counts the loss itself at the mean score.

Classes of a loss that is not a likelihood (``normalised`` is false) have no such probabilities: those of a hinge are
flat at a small ``C``, so that their log loss prefers large scores to correct ones. Nor are hinges at different ``C``
comparable, whose scores have other sizes. Such a loss separates classes, and a row is judged by the error of its label
and the log loss of its score,

    1(m < 0) + ½ 1(m = 0) − log (e^{a s_y} / Σ_l e^{a s_l}),

``m`` being the lead of the row's class over the best other class, and ``a`` the slope at which the other scores that
are held out together are log-odds (:mod:`.calibration`). It is the same at all sizes of the scores, and orders
candidates that err about equally, as errors of few rows are noisy. Of a few rows held out together errors alone decide.

Rows that come noised are predicted by scores of their own: the loss is then averaged over the normal score, and not the
probability.

Losses of candidates on held-out rows, compared in pairs: on the same rows most of what differs is shared.

With ``d_i`` the difference of two candidates' losses of row ``i``, of weight ``s_i``, of which ``u_i`` are one
observation, the standard error of the mean difference is ``√(Σ s_i u_i (d_i − d̄)²)/Σ s_i``; of losses
of whole folds it is that over the folds.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from .folds import standard_error

__all__ = ["Key", "RowLosses", "Table", "joint_losses", "noised_scores"]


@cache
def _nodes(count: int = 15) -> tuple[list[float], list[float]]:
    return gauss_hermite(count)


def noised_scores(
    mean: Float[np.ndarray, "m J"], var: Float[np.ndarray, "m J"]
) -> Iterator[tuple[float, Float[np.ndarray, "m J"]]]:
    """Scores of rows that are each noised once, as points of a normal law, and the share of each point.

    The scores of several classes, each against the rest, are taken for independent given the row.
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
        Row weights, by which the slope of scores without probabilities is fitted.
    """

    loss: Loss
    target: Float[np.ndarray, "n J"]
    weight: Float[np.ndarray, " n"]

    @property
    def by_margin(self) -> bool:
        """Whether rows are judged by their margin: the loss is of classes and not a likelihood."""
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
            return np.asarray(self.loss.plain.value(target, mean, 0 * var))[:, 0]
        if self.by_margin:
            return self._margin_losses(rows, [(1.0, mean)])
        tiny = np.finfo(float).eps
        if target.shape[1] == 1:
            # The chance of the row's own label: 1 − p would lose its digits.
            return -np.log(np.clip(self._chance(target * mean, var, C)[:, 0], tiny, 1.0))
        chance = self._chance(mean, var, C)
        total = np.maximum(chance.sum(axis=1), tiny)
        share = chance[np.arange(len(rows)), target.argmax(axis=1)] / total
        return -np.log(np.clip(share, tiny, 1.0))

    def _margin_losses(
        self, rows: Int[np.ndarray, " m"], points: list[tuple[float, Float[np.ndarray, "m J"]]]
    ) -> Float[np.ndarray, " m"]:
        """Mean loss (m,) of rows over points of their scores, each with its share."""
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
        """Mean loss (m,) of rows that come noised, of which each is predicted by its own score."""
        if self.by_margin:
            return self._margin_losses(rows, list(noised_scores(mean, var)))
        nothing = np.zeros_like(mean)
        losses = [share * self(rows, score, nothing, C) for share, score in noised_scores(mean, var)]
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
        What of these weights is one observation.
    losses : dict
        Losses (m,) by candidate and number of the fold.
    """

    weights: list[Float[np.ndarray, " _"]]
    units: list[Float[np.ndarray, " _"]]
    losses: dict[Key, dict[int, Float[np.ndarray, " _"]]] = field(default_factory=dict)

    def add(self, key: Key, fold: int, losses: Float[np.ndarray, " m"]) -> None:
        """Keep the losses of a candidate on a fold."""
        self.losses.setdefault(key, {})[fold] = losses

    def means(self, key: Key) -> Float[np.ndarray, " folds"]:
        """Mean loss of each fold, NaN where the candidate was not tried."""
        losses = self.losses.get(key, {})
        return np.array(
            [np.average(losses[f], weights=w) if f in losses else np.nan for f, w in enumerate(self.weights)]
        )

    def mean(self, key: Key, decimals: int = 10) -> float:
        """Mean over the folds on which the candidate was tried, rounded where only round-off differs."""
        return float(np.round(np.mean(self.means(key)[sorted(self.losses[key])]), decimals))

    def error(self, key: Key) -> float:
        """Standard error of the mean: over the folds, or over the rows of the only one."""
        losses_of_fold = self.losses[key]
        if len(losses_of_fold) > 1:
            return float(standard_error(self.means(key)[sorted(losses_of_fold)]))
        ((fold, losses),) = losses_of_fold.items()
        return _mean_and_error(losses, self.weights[fold], self.units[fold])[1]

    def difference(self, one: Key, other: Key) -> tuple[float, float]:
        """Mean of the first's losses less the second's on the rows that both have, and its standard error."""
        folds = [f for f in self.losses[one] if f in self.losses[other]]
        d = np.concatenate([self.losses[one][f] - self.losses[other][f] for f in folds])
        w, u = (np.concatenate([part[f] for f in folds]) for part in (self.weights, self.units))
        return _mean_and_error(d, w, u)

    def best(self, keys: list[Key]) -> Key:
        """The candidate with the smallest mean loss; of equal ones that with the smallest ``C``, then the first."""
        return min(keys, key=lambda key: (np.nan_to_num(self.mean(key), nan=np.inf), key))
