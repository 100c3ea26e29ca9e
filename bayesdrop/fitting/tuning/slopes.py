r"""How much a score of a margin classifier says: the slope at which held-out scores are log-odds.

With scores ``s_ik`` of classes, of two classes ``∓s_i/2``, it is the ``a > 0`` that minimises

    −Σ_i w_i Σ_k t_ik log (e^{a s_ik} / Σ_l e^{a s_il})

(Guo, Pleiss, Sun & Weinberger 2017). The target of a row's own class is ``(N_k + 1)/(N_k + 2)``, ``N_k`` being the
weight of the rows of the class (Platt 1999), and the others share the rest: as if each class had one more row that is
right and one that is wrong, so that scores that happen to be separated have a slope. A row for each of ``K`` classes
instead would flatten the probabilities of many small ones.

Rows that fit the slope are scored better than new ones. Without row ``i`` it is, by a step of Newton's method,

    a_i = a − (Σ_j g_j − g_i)/(Σ_j h_j − h_i),

``g`` and ``h`` being the derivatives of the summands in ``a``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._typing import Bool, Float
from ...losses.softmax import log_sum_exp

__all__ = ["RULES", "best_slope", "by_class", "slopes_without", "smoothed"]


@dataclass(frozen=True)
class SlopeRules:
    """Bounds of a slope, per standard deviation of the scores, and the rows that it takes.

    Attributes
    ----------
    smallest : float
        It replaces slopes that are smaller or negative, keeps the order of the scores and moves probabilities by a
        thousandth.
    largest : float
        A larger one changes nothing.
    rows : int
        Minimum number of rows at which the slope of the others predicts a row; with fewer the loss was 0.1 too small.
    """

    smallest: float = 1e-3
    largest: float = 1e6
    rows: int = 10


RULES = SlopeRules()


def by_class(
    score: Float[np.ndarray, "m J"], target: Float[np.ndarray, "m J"]
) -> tuple[Float[np.ndarray, "m K"], Bool[np.ndarray, "m K"]]:
    """Scores of the classes, two of a score that separates two, and which class is each row's own.

    Examples
    --------
    >>> [part.tolist() for part in by_class(np.array([[3.0]]), np.array([[-1.0]]))]
    [[[-1.5, 1.5]], [[True, False]]]
    """
    if score.shape[1] > 1:
        return score, target > 0
    return np.hstack([-score, score]) / 2, np.hstack([-target, target]) > 0


def smoothed(is_own_class: Bool[np.ndarray, "m K"], weight: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m K"]:
    """Targets of the classes of each row; they sum to 1."""
    class_weight, others = (weight @ is_own_class)[is_own_class.argmax(axis=1), None], is_own_class.shape[1] - 1
    return np.where(is_own_class, (class_weight + 1) / (class_weight + 2), 1 / (class_weight + 2) / others)


def best_slope(
    score: Float[np.ndarray, "m K"], is_own_class: Bool[np.ndarray, "m K"], weight: Float[np.ndarray, " m"]
) -> float:
    """The slope of some scores of classes, for rows of some weights.

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
    """The slope without each row, where the best one of all is given; rows come several times, once for each point.

    Of too few rows it is 0, so that all classes are as probable.

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
