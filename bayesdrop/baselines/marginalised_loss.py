"""Sum losses of marginalised exponents over rows, with gradients, for :mod:`.mcf`.

The gradient in ``w_d`` is ``−Σ_i y_i l'(a_i) μ_id`` for the loss ``l`` of ``a``, with ``μ_id`` the tilted mean of
``x̃_id``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.special import expit

from .._typing import Float
from ..designs import Design
from ..noise import Noise
from .one_vs_rest import keeps_zeros

__all__ = ["ExponentLoss", "MarginalisedLoss", "ObjectiveAndGradient", "exponential", "logistic"]

ValueAndSlope: TypeAlias = tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]
ObjectiveAndGradient: TypeAlias = tuple[float, Float[np.ndarray, " q"]]
ExponentLoss: TypeAlias = Callable[[Float[np.ndarray, " m"]], ValueAndSlope]


class MarginalisedLoss:
    """Weighted sum of a loss of the exponents ``a_i = −y_i b + Σ_d log E exp(−y_i w_d x̃_id)``, of two classes.

    Zero entries that the noise changes contribute equally to every row of a class: the loops visit non-zero ones only.

    Parameters
    ----------
    design : Design
        Matrix with n rows and p columns.
    noise, rate : Noise, array (p,)
        Feature noise and dropout rates.
    sign, weight : array (n,)
        Labels as −1 and +1, and row weights.
    loss : callable
        Value and derivative of the loss, from the exponents.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> from bayesdrop.noise import Dropout
    >>> one = np.ones(1)
    >>> total = MarginalisedLoss(as_design(np.ones((1, 1))), Dropout(), 0.5 * one, one, one, logistic)
    >>> value, gradient = total(np.zeros(2))
    >>> bool(np.isclose(value, np.log(2))), gradient.tolist()
    (True, [-0.25, -0.5])
    """

    def __init__(
        self,
        design: Design,
        noise: Noise,
        rate: Float[np.ndarray, " p"],
        sign: Float[np.ndarray, " n"],
        weight: Float[np.ndarray, " n"],
        loss: ExponentLoss,
    ) -> None:
        self.design, self.noise, self.rate = design, noise, rate
        self.sign, self.weight, self.loss = sign, weight, loss
        self._disturbs_zeros = not keeps_zeros(noise)

    def __call__(self, weights: Float[np.ndarray, " q"]) -> ObjectiveAndGradient:
        """Value and gradient (p + 1,) at weights (p + 1,), the intercept last."""
        n, p = self.design.shape
        w, sign = weights[:-1], self.sign
        exponent, gradient = -sign * weights[-1], np.zeros(p + 1)
        if self._disturbs_zeros:
            zero = np.zeros(p)
            for side in (-1.0, 1.0):
                exponent[sign == side] += np.sum(self.noise.log_mgf(-side * w, zero, self.rate))
        for rows, columns, values in self.design.entries():
            t, rate = -sign[rows] * w[columns], self.rate[columns]
            part, tilted = self.noise.log_mgf(t, values, rate), self.noise.log_mgf_slope(t, values, rate)
            if self._disturbs_zeros:
                part -= self.noise.log_mgf(t, 0.0, rate)
                tilted -= self.noise.log_mgf_slope(t, 0.0, rate)
            block = slice(rows[0], rows[-1] + 1)
            within = rows - rows[0]
            exponent[block] += np.bincount(within, weights=part)
            # A block holds whole rows, so that their exponents are complete and one pass gives the gradient too.
            pull = self._pull(exponent[block], block)
            gradient[:-1] += np.bincount(columns, weights=pull[within] * tilted, minlength=p)
        pull = self._pull(exponent, slice(0, n))
        gradient[-1] = pull.sum()
        if self._disturbs_zeros:
            for side in (-1.0, 1.0):
                total = pull[sign == side].sum()
                gradient[:-1] += total * self.noise.log_mgf_slope(-side * w, zero, self.rate)
        return float(self.weight @ self.loss(exponent)[0]), gradient

    def _pull(self, exponent: Float[np.ndarray, " m"], rows: slice) -> Float[np.ndarray, " m"]:
        """Derivative of each row's loss in its margin, with the sign of its label."""
        return -self.sign[rows] * self.weight[rows] * self.loss(exponent)[1]


def exponential(a: Float[np.ndarray, " m"], steepest: float) -> ValueAndSlope:
    """``e^a`` and its derivative, continued as the tangent above the exponent ``steepest``.

    Examples
    --------
    >>> value, slope = exponential(np.array([0.0, 12.0]), 2.0)
    >>> value[0].item(), bool(np.isclose(value[1], 11 * np.exp(2.0)))
    (1.0, True)
    """
    slope = np.exp(np.minimum(a, steepest))
    return slope * (1 + np.maximum(a - steepest, 0.0)), slope


def logistic(a: Float[np.ndarray, " m"]) -> ValueAndSlope:
    """``log(1 + e^a)`` and its derivative.

    Examples
    --------
    >>> logistic(np.zeros(1))[1].tolist()
    [0.5]
    """
    return np.logaddexp(0.0, a), expit(a)
