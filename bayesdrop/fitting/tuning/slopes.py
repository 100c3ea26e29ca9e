r"""How much a score of a margin classifier says: the slope at which held-out scores are log-odds.

With scores ``s_ik`` of classes, of two classes ``∓s_i/2``, it is the ``a > 0`` that minimises

    −Σ_i w_i Σ_k t_ik log (e^{a s_ik} / Σ_l e^{a s_il})

(Guo, Pleiss, Sun & Weinberger 2017). Targets ``t`` are ``(N_k + 1)/(N_k + K)`` of the own class and ``1/(N_k + K)`` of
the others, ``N_k`` being the weight of its rows (Platt 1999): means of a class probability under a flat prior, so that
scores that happen to be separated have a slope.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._typing import Bool, Float
from ...losses.softmax import log_sum_exp

__all__ = ["RULES", "best_slope", "by_class", "smoothed"]


@dataclass(frozen=True)
class SlopeRules:
    """Bounds of a slope, per standard deviation of the scores.

    Attributes
    ----------
    least : float
        It stands in for slopes that are smaller or negative, keeps the order of the scores and moves probabilities by a
        thousandth.
    most : float
        A larger one changes nothing.
    """

    least: float = 1e-3
    most: float = 1e6


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


def smoothed(own: Bool[np.ndarray, "m K"], weight: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m K"]:
    """Targets of the classes of each row; they sum to 1."""
    mine, K = (weight @ own)[own.argmax(axis=1), None], own.shape[1]
    return np.where(own, (mine + 1) / (mine + K), 1 / (mine + K))


def best_slope(score: Float[np.ndarray, "m K"], own: Bool[np.ndarray, "m K"], weight: Float[np.ndarray, " m"]) -> float:
    """The slope of some scores of classes, for rows of some weights.

    Examples
    --------
    >>> score = np.array([[-1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    >>> round(best_slope(score, score > 0, np.ones(3)), 4), best_slope(score, score < 0, np.ones(3))
    (0.4778, 0.001)
    """
    spread = float(np.sqrt(np.average((score**2).mean(axis=1), weights=weight)))
    scale = spread if spread > 0 else 1.0
    z, target = score / scale, smoothed(own, weight)

    def gradient(slope: float) -> float:
        return float(weight @ ((log_sum_exp(slope * z)[1] - target) * z).sum(axis=1))

    if gradient(RULES.least) >= 0:
        return RULES.least / scale
    from scipy.optimize import brentq

    high = 1.0
    while gradient(high) < 0 and high < RULES.most:
        high *= 2
    found = brentq(gradient, RULES.least, high, xtol=1e-14, rtol=1e-13) if high < RULES.most else RULES.most
    return float(found) / scale
