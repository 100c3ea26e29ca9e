"""Approximate a learnt scale or shape of the likelihood together with the weights, for gradient samplers.

The normal approximation of the weights at a value of the parameter, and the value at these weights, are computed in
turns. Affects efficiency only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._typing import Float, PerRow
from ...data.dataset import Dataset
from ...losses.base import Parameter
from ...model import Model
from ...moments import ScoreMoments

__all__ = ["at_value", "with_parameter"]

Factor = Float[np.ndarray, "D D"] | Float[np.ndarray, " D"]


@dataclass(frozen=True)
class _Rules:
    """Limits and steps of the search for the value.

    Attributes
    ----------
    turns : int
        Maximum number of approximations of the weights.
    close : float
        Change of the logarithm at which the search ends.
    low, high : float
        Range of the logarithm of a shape.
    step : float
        Step of the second difference for the standard deviation of a shape.
    widest : float
        Largest standard deviation of the logarithm.
    """

    turns: int = 8
    close: float = 0.03
    low: float = -7.0
    high: float = 12.0
    step: float = 0.05
    widest: float = 2.0


_RULES = _Rules()


def at_value(model: Model, parameter: Parameter, value: float) -> Model:
    """The model at a known scale or shape."""
    field_value = value**2 if parameter.field == "variance" else value
    return replace(model, loss=replace(model.loss, **{parameter.field: field_value}))  # type: ignore[type-var]  # dataclasses


def with_parameter(
    model: Model,
    data: Dataset,
    rate: Float[np.ndarray, " p"],
    approximate: Callable[[Model], tuple[Float[np.ndarray, " D"], Factor]],
) -> tuple[Float[np.ndarray, " E"], Factor]:
    """Mean and factor from ``approximate``; the logarithm of a learnt parameter, if any, is the last coordinate.

    ``rate`` (p,) are dropout rates that are treated as known.
    """
    if not model.loss.parameters:
        return approximate(model)
    (parameter,) = model.loss.parameters
    law = parameter.prior.law(1)
    t, width = float(np.log(law.median()[0])) / parameter.power, _RULES.widest
    moments = ScoreMoments(data.design, model.noise, np.asarray(rate, np.float64)[:, None], model.fit_intercept)
    locate = _scale if parameter.degree else _shape
    for _ in range(_RULES.turns):
        centre, factor = approximate(at_value(model, parameter, float(np.exp(t))))
        block = np.zeros((data.design.shape[1] + 1, 1))
        block[: len(centre), 0] = centre
        mean, var = (part[:, 0] for part in moments.scores(block))
        mean = mean if data.offset is None else mean + data.offset
        before = t
        t, width = locate(model, parameter, data, mean, var, t, len(centre))
        if abs(t - before) < _RULES.close:
            break
    if not parameter.degree and model.fit_intercept:
        centre = np.append(centre[:-1], centre[-1] + before)
    if factor.ndim == 1:
        return np.append(centre, t), np.append(factor, width)
    from scipy.linalg import block_diag

    return np.append(centre, t), block_diag(factor, width)


def _scale(
    model: Model, parameter: Parameter, data: Dataset, mean: PerRow, var: PerRow, t: float, coordinates: int
) -> tuple[float, float]:
    """Most likely logarithm of a scale, corrected for the spread of the weights, and its standard deviation."""
    loss: Any = at_value(model, parameter, 1.0).loss
    k, rows = parameter.degree, float(np.sum(data.weight))
    total = float(data.weight @ loss.value(data.target, mean, var))
    left = max(rows / k - coordinates / 2, rows / (4 * k), 0.5)
    log_scale = np.log(max(total, 1e-12) / left) / k
    return float(log_scale), float(min((k * k * left) ** -0.5, _RULES.widest))


def _shape(
    model: Model, parameter: Parameter, data: Dataset, mean: PerRow, var: PerRow, t: float, coordinates: int
) -> tuple[float, float]:
    """Most likely logarithm of a shape at the same mean responses, and its standard deviation."""
    from scipy.optimize import minimize_scalar

    law, moves = parameter.prior.law(1), float(model.fit_intercept)

    def cost(new: float) -> float:
        loss: Any = at_value(model, parameter, float(np.exp(new))).loss
        scores = mean + moves * (t - new)
        rows = loss.value(data.target, scores, var) - loss.log_base_measure(data.target)
        prior = law.log_density(np.full(1, parameter.power * new))[0]
        return float(data.weight @ rows) - float(prior)

    log_shape = float(minimize_scalar(cost, bounds=(_RULES.low, _RULES.high), method="bounded").x)
    h = _RULES.step
    bend = (cost(log_shape + h) - 2 * cost(log_shape) + cost(log_shape - h)) / h**2
    return log_shape, float(min(max(bend, 1e-6) ** -0.5, _RULES.widest))
