r"""Probabilities from held-out scores, for losses that are not likelihoods.

The hinge separates classes but defines no probability. If a search has held rows out, their scores and classes
calibrate probabilities (Platt 1999),

    P(y = +1 | s) = 1/(1 + e^{−f}),    f = a s + b,    a > 0,

where ``a`` and ``b`` minimise ``Σ_i w_i {log(1 + e^{f_i}) − t_i f_i}`` with the targets ``t = (N₊ + 1)/(N₊ + 2)`` for
positive rows and ``1/(N₋ + 2)`` for negative rows; ``N±`` are the weights of the rows.

The intercept moves the threshold to ``−b/a``. Scores that depend little on the classes do not determine it, so it is 0
unless it gains a unit of log-likelihood, as Akaike's criterion (1974) requires of a coefficient. Several classes, one
against the rest, have one slope and no intercept, so that the most probable class has the largest score.

**Slope.** The slope rescales held-out scores to log-odds. For scores ``s_ik`` of the classes (``∓s_i/2`` for two
classes) it is the ``a > 0`` that minimises

    −Σ_i w_i Σ_k t_ik log (e^{a s_ik} / Σ_l e^{a s_il})

(Guo, Pleiss, Sun & Weinberger 2017). The target of a row's own class is ``(N + 1)/(N + 2)``, and the other
classes share the rest, so that separated scores have a finite slope. For two classes ``N`` is the weight of the rows of
the class (Platt 1999). For several it is the weight of all rows, which adds one correct and one wrong row: two for each
class would halve the slope for fifteen classes of twenty rows.

Rows from which the slope is estimated have lower losses than new rows. Without row ``i`` the slope is, by a step of
Newton's method,

    a_i = a − (Σ_j g_j − g_i)/(Σ_j h_j − h_i),

with ``g`` and ``h`` the first and second derivatives of the summands in ``a``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ..._typing import Bool, Float, Num
from ...losses.softmax import log_sum_exp

__all__ = ["RULES", "Calibration", "best_slope", "by_class", "slopes_without"]


@dataclass(frozen=True)
class CalibrationRules:
    """Bounds of a slope, per standard deviation of the scores, and conditions of an intercept.

    Attributes
    ----------
    smallest : float
        Minimum slope, also instead of a negative one: it keeps the order of the scores and changes probabilities by a
        thousandth.
    largest : float
        Maximum slope; a larger one has no effect.
    rows : int
        Minimum number of rows for a slope without each row; with fewer the loss was 0.1 too small.
    gain : float
        Minimum gain in log-likelihood for an intercept.
    tolerance : float
        Gradient per unit of weight at which the fit of slope and intercept ends.
    """

    smallest: float = 1e-3
    largest: float = 1e6
    rows: int = 10
    gain: float = 1.0
    tolerance: float = 1e-12


RULES = CalibrationRules()


@dataclass(frozen=True)
class Calibration:
    """Probabilities of classes as functions of scores.

    Attributes
    ----------
    slope, intercept : float
        ``a > 0`` and ``b``, which is 0 for several classes.
    corrupted_inputs : bool
        Whether the rows of the calibration were corrupted already.
    log_odds : float
        Log-odds of the second of two classes in all rows.

    Examples
    --------
    >>> found = Calibration.fitted(np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([[-1.0], [1.0], [-1.0], [1.0]]))
    >>> found.probabilities(np.array([[0.0], [1.0]])).round(2).tolist()
    [[0.5, 0.5], [0.45, 0.55]]
    """

    slope: float
    intercept: float = 0.0
    corrupted_inputs: bool = False
    log_odds: float = field(default=0.0, repr=False)

    def without_scores(self) -> Calibration:
        """Calibration for a fit whose weights are all zero: the probabilities are the shares of the two classes."""
        return replace(self, slope=RULES.smallest, intercept=self.log_odds)

    @property
    def threshold(self) -> float:
        """Score at which both of two classes have probability ½."""
        return -self.intercept / self.slope

    def probabilities(self, score: Num[Any, "m J"]) -> Float[np.ndarray, "m K"]:
        """Probabilities of the classes, (m, 2) from scores (m, 1), or (m, K) from (m, K)."""
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
        """Calibrate held-out scores (m, J), with classes −1 and +1 in ``target`` and row weights ``weight``."""
        weight = np.ones(len(score)) if weight is None else weight
        classes, is_own_class = by_class(score, target)
        slope = best_slope(classes, is_own_class, weight)
        if score.shape[1] > 1:
            return cls(slope, 0.0, corrupted_inputs)
        # Standardise the scores, so that slope and intercept have the same scale.
        centre = float(np.average(score[:, 0], weights=weight))
        spread = float(np.sqrt(np.average((score[:, 0] - centre) ** 2, weights=weight)))
        scale = spread if spread > 0 else 1.0
        z, wanted = (score[:, 0] - centre) / scale, smoothed(is_own_class, weight)[:, 1]
        log_odds = float(logit(np.average(wanted, weights=weight)))
        steeper, level = _fit(z, wanted, weight, log_odds)
        if _cost(slope * score[:, 0], wanted, weight) - _cost(steeper * z + level, wanted, weight) <= RULES.gain:
            return cls(slope, 0.0, corrupted_inputs, log_odds)
        return cls(steeper / scale, level - steeper * centre / scale, corrupted_inputs, log_odds)


def _cost(f: Float[np.ndarray, " m"], target: Float[np.ndarray, " m"], weight: Float[np.ndarray, " m"]) -> float:
    """Minus the log-likelihood of log-odds."""
    return float(weight @ (np.logaddexp(0.0, f) - target * f))


def _fit(
    z: Float[np.ndarray, " m"], target: Float[np.ndarray, " m"], weight: Float[np.ndarray, " m"], log_odds: float
) -> tuple[float, float]:
    """Fit the slope, bounded from below, and the intercept of two classes, from 1 and the log-odds of the classes."""
    from scipy.optimize import minimize

    def value_and_gradient(at: Float[np.ndarray, " 2"]) -> tuple[float, Float[np.ndarray, " 2"]]:
        f = at[0] * z + at[1]
        excess = weight * (expit(f) - target)
        return _cost(f, target, weight), np.array([excess @ z, excess.sum()])

    start = np.array([1.0, log_odds])
    bounds = [(RULES.smallest, None), (None, None)]
    options = {"ftol": 0.0, "gtol": RULES.tolerance * weight.sum()}
    minimum = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(minimum.x[0]), float(minimum.x[1])


def by_class(
    score: Float[np.ndarray, "m J"], target: Float[np.ndarray, "m J"]
) -> tuple[Float[np.ndarray, "m K"], Bool[np.ndarray, "m K"]]:
    """Scores of the classes, ``∓s/2`` if there are two, and the indicator of each row's own class.

    Examples
    --------
    >>> [part.tolist() for part in by_class(np.array([[3.0]]), np.array([[-1.0]]))]
    [[[-1.5, 1.5]], [[True, False]]]
    """
    if score.shape[1] > 1:
        return score, target > 0
    return np.hstack([-score, score]) / 2, np.hstack([-target, target]) > 0


def smoothed(is_own_class: Bool[np.ndarray, "m K"], weight: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m K"]:
    """Target probabilities of the classes for each row, which sum to 1."""
    others = is_own_class.shape[1] - 1
    size = (weight @ is_own_class)[is_own_class.argmax(axis=1), None] if others == 1 else weight.sum()
    return np.where(is_own_class, (size + 1) / (size + 2), 1 / (size + 2) / others)


def best_slope(
    score: Float[np.ndarray, "m K"], is_own_class: Bool[np.ndarray, "m K"], weight: Float[np.ndarray, " m"]
) -> float:
    """Slope of scores of classes, for weighted rows.

    Examples
    --------
    >>> score = np.array([[-1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    >>> round(best_slope(score, score > 0, np.ones(3)), 4), best_slope(score, score < 0, np.ones(3))
    (0.4778, 0.001)
    """
    spread = float(np.sqrt(np.average((score**2).mean(axis=1), weights=weight)))
    scale = spread if spread > 0 else 1.0
    z, target = score / scale, smoothed(is_own_class, weight)

    def gradient(slope: float) -> float:
        return float(weight @ ((log_sum_exp(slope * z)[1] - target) * z).sum(axis=1))

    if gradient(RULES.smallest) >= 0:
        return RULES.smallest / scale
    from scipy.optimize import brentq

    high = 1.0
    while gradient(high) < 0 and high < RULES.largest:
        high *= 2
    root = brentq(gradient, RULES.smallest, high, xtol=1e-14, rtol=1e-13) if high < RULES.largest else RULES.largest
    return float(root) / scale


def slopes_without(
    slope: float,
    score: Float[np.ndarray, "m K"],
    is_own_class: Bool[np.ndarray, "m K"],
    weight: Float[np.ndarray, " m"],
    points: int,
) -> Float[np.ndarray, " m"]:
    """Slope without each row, given the best ``slope`` of all; rows are repeated for each of ``points`` noised scores.

    For too few rows it is 0, which makes all classes equally probable.

    Examples
    --------
    >>> score = np.outer(np.arange(10.0), [-1, 1])
    >>> own = np.arange(10)[:, None] // 5 == [0, 1]
    >>> slopes_without(best_slope(score, own, np.ones(10)), score, own, np.ones(10), 1)[[0, 9]].round(2).tolist()
    [0.07, 0.06]
    """
    if len(score) < RULES.rows * points:
        return np.zeros(len(score))
    chance = log_sum_exp(slope * score)[1]
    mean = (chance * score).sum(axis=1)
    gradient = weight * (mean - (smoothed(is_own_class, weight) * score).sum(axis=1))
    curve = weight * ((chance * score**2).sum(axis=1) - mean**2)
    gradient, curve = (part.reshape(points, -1).sum(axis=0) for part in (gradient, curve))
    left = np.maximum(curve.sum() - curve, np.finfo(float).tiny)
    return np.tile(np.clip(slope - (gradient.sum() - gradient) / left, 0.0, 2 * slope), points)
