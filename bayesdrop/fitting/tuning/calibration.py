r"""Probabilities from held-out scores, for losses that are not likelihoods.

The hinge says which side of a plane a row is on and has no probability of its own. Where a search has held rows out,
their scores and their classes say what a score is worth (Platt 1999):

    P(y = +1 | s) = 1/(1 + e^{−f}),    f = a s + b,    a > 0,

with ``a`` and ``b`` that minimise ``Σ_i w_i {log(1 + e^{f_i}) − t_i f_i}``. The targets ``t = (N₊ + 1)/(N₊ + 2)`` of
positive rows and ``1/(N₋ + 2)`` of negative ones, ``N±`` being their weights, are those of :mod:`.slopes`.

The intercept moves the threshold, by ``−b/a``, which scores that say little of the classes do not determine: it is 0
unless it gains a unit of log-likelihood, as a coefficient has to by Akaike's criterion (1974).

Of several classes, one against the rest, it is one slope, so that the most probable class is the one with the largest
score; see :mod:`.slopes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ..._typing import Float, Num
from ...losses.softmax import log_sum_exp
from .slopes import RULES as SLOPES
from .slopes import best_slope, by_class, smoothed

__all__ = ["Calibration"]


@dataclass(frozen=True)
class CalibrationRules:
    """When a calibration has an intercept, and when its minimiser ends.

    Attributes
    ----------
    gain : float
        Log-likelihood that an intercept has to gain.
    tolerance : float
        Gradient per unit of weight at which the minimiser ends.
    """

    gain: float = 1.0
    tolerance: float = 1e-12


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
        """Calibrate held-out scores (m, J) of classes −1 and +1, at row weights ``weight``."""
        weight = np.ones(len(score)) if weight is None else weight
        classes, is_own_class = by_class(score, target)
        slope = best_slope(classes, is_own_class, weight)
        if score.shape[1] > 1:
            return cls(slope, 0.0, corrupted_inputs)
        # Scores of any size, so that a step of the slope is as large as one of the intercept.
        centre = float(np.average(score[:, 0], weights=weight))
        spread = float(np.sqrt(np.average((score[:, 0] - centre) ** 2, weights=weight)))
        scale = spread if spread > 0 else 1.0
        z, wanted = (score[:, 0] - centre) / scale, smoothed(is_own_class, weight)[:, 1]
        steeper, level = _fit(z, wanted, weight)
        if _cost(slope * score[:, 0], wanted, weight) - _cost(steeper * z + level, wanted, weight) <= _RULES.gain:
            return cls(slope, 0.0, corrupted_inputs)
        return cls(steeper / scale, level - steeper * centre / scale, corrupted_inputs)


def _cost(f: Float[np.ndarray, " m"], target: Float[np.ndarray, " m"], weight: Float[np.ndarray, " m"]) -> float:
    """Minus the log-likelihood of log-odds."""
    return float(weight @ (np.logaddexp(0.0, f) - target * f))


def _fit(
    z: Float[np.ndarray, " m"], target: Float[np.ndarray, " m"], weight: Float[np.ndarray, " m"]
) -> tuple[float, float]:
    """Slope, bounded from below, and intercept of two classes."""
    from scipy.optimize import minimize

    def value_and_gradient(at: Float[np.ndarray, " 2"]) -> tuple[float, Float[np.ndarray, " 2"]]:
        f = at[0] * z + at[1]
        excess = weight * (expit(f) - target)
        return _cost(f, target, weight), np.array([excess @ z, excess.sum()])

    start = np.array([1.0, logit(np.average(target, weights=weight))])
    bounds = [(SLOPES.smallest, None), (None, None)]
    options = {"ftol": 0.0, "gtol": _RULES.tolerance * weight.sum()}
    minimum = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(minimum.x[0]), float(minimum.x[1])
