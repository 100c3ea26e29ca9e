r"""Probabilities from held-out scores, for losses that are no likelihood.

The hinge says which side of a plane a row is on and has no probability of its own. Where a search has held rows out,
their scores and their classes say what a score is worth (Platt 1999):

    P(y = +1 | s) = 1/(1 + e^{−f}),    f = a s + b,    a > 0,

with ``a`` and ``b`` that minimise ``Σ_i w_i {log(1 + e^{f_i}) − t_i f_i}``. The targets ``t = (N₊ + 1)/(N₊ + 2)`` of
positive rows and ``1/(N₋ + 2)`` of negative ones, ``N±`` being their weights, are means of a class probability under a
flat prior, so that two coefficients do not fit scores that happen to be separated. Newton's method with
back-tracking (Lin, Lin & Weng 2007).

Of several classes, one against the rest, it is one slope (Guo, Pleiss, Sun & Weinberger 2017), so that the most
probable class is the one with the largest score,

    P(y = k | s) = e^{a s_k} / Σ_l e^{a s_l},    a > 0,

with targets ``(N_k + 1)/(N_k + K)`` of the own class and ``1/(N_k + K)`` of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from ..._typing import Bool, Float, Num
from ...losses.softmax import log_sum_exp
from .blocks import Held
from .folds import Fold
from .scores import Key, noised_scores

__all__ = ["Calibration", "HeldOut"]


@dataclass(frozen=True)
class CalibrationRules:
    """Bounds of a calibration, and when its minimiser ends.

    Attributes
    ----------
    least : float
        Minimal slope per standard deviation of the scores. It stands in for slopes that are smaller or negative, keeps
        the order of the scores and moves probabilities by a thousandth.
    most : float
        Maximal slope of several classes: a larger one changes nothing.
    tolerance : float
        Gradient per unit of weight at which Newton's method ends.
    steps : int
        Maximal number of its steps; about ten are needed.
    """

    least: float = 1e-3
    most: float = 1e6
    tolerance: float = 1e-12
    steps: int = 100


_RULES = CalibrationRules()


@dataclass(frozen=True)
class Calibration:
    """Probabilities of classes as functions of scores.

    Attributes
    ----------
    slope, intercept : float
        ``a > 0`` and ``b``, which is 0 of several classes.
    corrupted_inputs : bool
        Whether the scores that it was fitted to are those of rows that come noised already.

    Examples
    --------
    >>> found = Calibration.fitted(np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([[-1.0], [1.0], [-1.0], [1.0]]))
    >>> found.probabilities(np.array([[0.0], [1.0]])).round(2).tolist()
    [[0.5, 0.5], [0.45, 0.55]]
    """

    slope: float
    intercept: float = 0.0
    corrupted_inputs: bool = False

    @property
    def threshold(self) -> float:
        """Score at which both of two classes are as probable."""
        return -self.intercept / self.slope

    def probabilities(self, score: Num[Any, "m J"]) -> Float[np.ndarray, "m K"]:
        """Of the classes, (m, 2) from scores (m, 1), or (m, K) from (m, K)."""
        score = np.asarray(score)
        if score.shape[1] > 1:
            return log_sum_exp(self.slope * score)[1]
        above = self.slope * score + self.intercept
        return np.hstack([expit(-above), expit(above)])

    @classmethod
    def fitted(
        cls,
        score: Float[np.ndarray, "m J"],
        target: Float[np.ndarray, "m J"],
        weight: Float[np.ndarray, " m"] | None = None,
        corrupted_inputs: bool = False,
    ) -> Calibration:
        """That of held-out scores (m, J) whose classes are −1 and +1, for rows of some weights."""
        weight = np.ones(len(score)) if weight is None else weight
        # Scores of any size, so that a step of the slope is as large as one of the intercept.
        centre = float(np.average(score[:, 0], weights=weight)) if score.shape[1] == 1 else 0.0
        spread = float(np.sqrt(np.average(((score - centre) ** 2).mean(axis=1), weights=weight)))
        scale = spread if spread > 0 else 1.0
        z = (score - centre) / scale
        if score.shape[1] > 1:
            return cls(_temper(z, target > 0, weight) / scale, 0.0, corrupted_inputs)
        slope, intercept = _fit(z[:, 0], target[:, 0] > 0, weight)
        return cls(slope / scale, intercept - slope * centre / scale, corrupted_inputs)


def _temper(z: Float[np.ndarray, "m K"], own: Bool[np.ndarray, "m K"], weight: Float[np.ndarray, " m"]) -> float:
    """Slope of several classes."""
    K = z.shape[1]
    count = weight @ own
    mine = count[own.argmax(axis=1), None]
    target = np.where(own, (mine + 1) / (mine + K), 1 / (mine + K))

    def gradient(slope: float) -> float:
        return float(weight @ ((log_sum_exp(slope * z)[1] - target) * z).sum(axis=1))

    if gradient(_RULES.least) >= 0:
        return _RULES.least
    from scipy.optimize import brentq

    high = 1.0
    while gradient(high) < 0 and high < _RULES.most:
        high *= 2
    return float(brentq(gradient, _RULES.least, high, xtol=1e-14, rtol=1e-13)) if high < _RULES.most else _RULES.most


def _fit(
    z: Float[np.ndarray, " m"], positive: Bool[np.ndarray, " m"], weight: Float[np.ndarray, " m"]
) -> tuple[float, float]:
    """Slope and intercept of two classes."""
    above, below = float(weight[positive].sum()), float(weight[~positive].sum())
    target = np.where(positive, (above + 1) / (above + 2), 1 / (below + 2))
    columns, ones = np.column_stack([z, np.ones_like(z)]), np.ones((len(z), 1))
    slope, intercept = _newton(columns, np.zeros_like(z), target, weight)
    if not slope >= _RULES.least:
        # The problem is convex, so that the best of the slopes allowed is the least one.
        slope, (intercept,) = _RULES.least, _newton(ones, _RULES.least * z, target, weight)
    return float(slope), float(intercept)


def _newton(
    columns: Float[np.ndarray, "m c"],
    offset: Float[np.ndarray, " m"],
    target: Float[np.ndarray, " m"],
    weight: Float[np.ndarray, " m"],
) -> Float[np.ndarray, " c"]:
    """Coefficients of a logistic regression with targets between 0 and 1, the last that of the constant."""

    def value(f: Float[np.ndarray, " m"]) -> float:
        return float(weight @ (np.logaddexp(0.0, f) - target * f))

    share = float(np.average(target, weights=weight))
    coefficients = np.zeros(columns.shape[1])
    coefficients[-1] = np.log(share) - np.log1p(-share)
    f = offset + columns @ coefficients
    for _ in range(_RULES.steps):
        chance = expit(f)
        gradient = columns.T @ (weight * (chance - target))
        if np.abs(gradient).max() <= _RULES.tolerance * weight.sum():
            break
        curvature = columns.T @ (columns * (weight * chance * (1 - chance))[:, None])
        # Equal scores have no curvature along the slope.
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        size, here, fall = 1.0, value(f), float(gradient @ step)
        while size > 1e-10 and value(f - size * (columns @ step)) > here - 1e-4 * size * fall:
            size /= 2
        if size <= 1e-10:
            break  # round-off
        coefficients = coefficients - size * step
        f = offset + columns @ coefficients
    return coefficients


@dataclass(frozen=True)
class HeldOut:
    """The losses of a search, which keeps the scores that they are made of.

    Attributes
    ----------
    losses : callable
        ``losses(key, fold, held)``, as :class:`.search.Search` takes them.
    target : array (n, J)
        Labels as −1 and +1.
    weight : array (n,)
        Row weights.
    corrupted_inputs : bool
        Whether held-out rows come noised already.
    will_be_noised : bool
        Whether they are complete, and rows to come will be noised as the fit has it.
    """

    losses: Callable[[Key, Fold, Held], Float[np.ndarray, " m"]]
    target: Float[np.ndarray, "n J"]
    weight: Float[np.ndarray, " n"]
    corrupted_inputs: bool = False
    will_be_noised: bool = False
    scores: dict[Key, list[tuple[Fold, Held]]] = field(default_factory=dict, repr=False)

    def __call__(self, key: Key, fold: Fold, held: Held) -> Float[np.ndarray, " m"]:
        """Losses of the held-out rows of a fold."""
        self.scores.setdefault(key, []).append((fold, held))
        return self.losses(key, fold, held)

    def calibration(self, key: Key) -> Calibration:
        """What the held-out scores of a candidate are worth, of all folds on which it was tried."""
        known = self.scores[key]
        rows = np.concatenate([fold.test for fold, _ in known])
        mean, var = (np.concatenate(parts) for parts in zip(*((held.mean, held.var) for _, held in known), strict=True))
        if not self.will_be_noised:
            return Calibration.fitted(mean, self.target[rows], self.weight[rows], self.corrupted_inputs)
        shares, scores = zip(*noised_scores(mean, var), strict=True)
        target, weight = np.tile(self.target[rows], (len(shares), 1)), np.outer(shares, self.weight[rows]).ravel()
        return Calibration.fitted(np.concatenate(scores), target, weight, corrupted_inputs=True)
