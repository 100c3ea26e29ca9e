r"""Fit the dispersion ``r`` of negative binomial counts together with the weights, for ``bd.fit``.

The energy is minimised over both. At the best weights for a given ``r`` its slope in ``log r`` is that of the rows,

    r Σ s_i {φ(0, m_i, v_i; 1) − ψ(y_i + r) + ψ(r)},

because ``φ`` is linear in ``r`` with the slope ``φ(0, m, v; 1)``. The estimate is the root of this slope. Without noise
it is the maximum-likelihood estimate. With noise it minimises the expected loss, which attributes part of the variation
of the counts to the noise, so that ``r`` is larger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._typing import Float
from ...losses import NegativeBinomial
from ...model import Model
from ...moments import ScoreMoments
from ...warnings import warn

__all__ = ["fitted_shape"]


@dataclass(frozen=True)
class Rules:
    """Range and accuracy of the search for the shape.

    Attributes
    ----------
    low, high : float
        Range of ``log r``; at its upper end counts are Poisson counts.
    step : float
        First step of ``log r``, doubled until the slope changes its sign.
    tolerance : float
        Accuracy of ``log r``.
    tol : float
        Tolerance of the intermediate fits, whose weights determine the accuracy of the slope.
    """

    low: float = -9.0
    high: float = 14.0
    step: float = 1.0
    tolerance: float = 1e-10
    tol: float = 1e-13


RULES = Rules()


def fitted_shape(
    task: Any,
    solve: Callable[[Any, Any], tuple[Float[np.ndarray, "q 1"], Float[np.ndarray, "p _"]]],
    rules: Rules = RULES,
) -> Model:
    """Return the model of a task with the fitted shape.

    Parameters
    ----------
    task : Task
        One problem, with rows in memory.
    solve : callable
        Returns weights of the centred rows and rates of a task, given earlier ones or None.
    rules : Rules
        Range and accuracy of the search.

    Raises
    ------
    ValueError
        If the rows are not in memory, or the loss is not ``bd.NegativeBinomial()``.

    Warns
    -----
    ConvergenceWarning
        If counts vary no more than Poisson counts, so that the fit is best at any large ``r``.
    """
    from scipy.optimize import brentq
    from scipy.special import digamma
    from sklearn.exceptions import ConvergenceWarning

    model, loss = task.model, task.model.loss
    if not isinstance(loss, NegativeBinomial) or task.design.is_streamed or task.unlabelled is not None:
        raise ValueError(
            f"loss: the shape of {loss!r} is fitted to counts of labelled rows in memory; give it, as in "
            "bd.NegativeBinomial(2.0)."
        )
    y, weight = np.asarray(task.target, dtype=np.float64).reshape(-1), np.asarray(task.weight)
    method = replace(task.method, tol=min(task.method.tol, rules.tol)) if hasattr(task.method, "tol") else task.method
    offset = 0.0 if task.offset is None else np.asarray(task.offset)
    one, zero = replace(loss, dispersion=1.0), np.zeros(len(y))
    start: Any = None

    def slope(t: float) -> float:
        nonlocal start
        r = float(np.exp(t))
        at = replace(model, loss=replace(loss, dispersion=r))
        start = solve(replace(task, model=at, method=method), start)
        moments = ScoreMoments(task.design, model.noise, start[1], model.fit_intercept)
        mean, var = (part[:, 0] for part in moments.scores(start[0]))
        rows = one.value(zero, mean + offset, var + zero) - digamma(y + r) + digamma(r)
        return float(weight @ rows)

    at, step = 0.0, rules.step
    value = slope(at)
    direction = -1.0 if value > 0 else 1.0
    # Search outwards from r = 1, because at the ends of the range the slope is rounding error.
    while True:
        new = float(np.clip(at + direction * step, rules.low, rules.high))
        new_slope = slope(new)
        if new_slope * value <= 0:
            break
        if new in (rules.low, rules.high):
            warn(
                f"dispersion: the fit is best at the end of its range, r = {np.exp(new):.3g}: "
                + ("counts vary no more than Poisson counts; take bd.Poisson()." if new > 0 else "look at the counts."),
                ConvergenceWarning,
            )
            return replace(model, loss=replace(loss, dispersion=float(np.exp(new))))
        at, value, step = new, new_slope, 2 * step
    t = float(brentq(slope, min(at, new), max(at, new), xtol=rules.tolerance, rtol=4 * np.finfo(float).eps))
    return replace(model, loss=replace(loss, dispersion=float(np.exp(t))))
