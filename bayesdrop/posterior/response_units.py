"""Express models in units of the standard deviation of the responses, if the scale of the likelihood is learnt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..data.dataset import Dataset
from ..data.responses import response_sd
from ..fitting.objective.centring import CentredProblem
from ..model import Model

__all__ = ["in_units", "response_unit", "with_spread"]


def with_spread(centring: CentredProblem, spread: float) -> CentredProblem:
    """Replace scales in units of the responses' standard deviation by numbers.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from bayesdrop.designs import as_local_design
    >>> from bayesdrop.fitting.objective.centring import centre_problem
    >>> model, X = bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), as_local_design([[1.0], [2.0]])
    >>> found = with_spread(centre_problem(model, X, np.ones(2), model.bind(["x0"]), ["x0"]), 4.0).model
    >>> found.weight_prior.scale, found.loss.variance
    (4.0, HalfNormal(scale=4.0))
    """
    original, inner = (_of_spread(model, spread) for model in (centring.original_model, centring.model))
    return replace(centring, original_model=original, model=inner)


def _of_spread(model: Model, spread: float) -> Model:
    scales = [parameter for parameter in model.loss.parameters if parameter.degree]
    if not scales:
        return model
    priors = {one.field: one.prior.in_units(1 / spread) for one in scales if one.relative}
    loss: Any = model.loss
    return replace(model, weight_prior=model.weight_prior.of_responses(spread), loss=replace(loss, **priors))


def in_units(model: Model, unit: float) -> Model:
    """The model for responses divided by ``unit``, which is 1 unless the scale of the likelihood is learnt."""
    if unit == 1:
        return model
    loss: Any = model.loss
    loss = replace(loss, **{one.field: one.prior.in_units(unit) for one in loss.parameters})
    level: Any = model.intercept_prior
    level = None if level is None else level.in_units(unit)
    return replace(model, weight_prior=model.weight_prior.in_units(unit), intercept_prior=level, loss=loss)


def response_unit(loss: Any, data: Dataset) -> float:
    """Standard deviation of the responses minus offsets, if a scale is learnt; 1 if it is 0 or no scale is learnt."""
    if not any(parameter.degree for parameter in loss.parameters):
        return 1.0
    spread = response_sd(data.target, data.weight, data.offset)
    n, p = data.design.shape
    if spread == 0 and n > p + 2:
        raise ValueError(
            "y: all responses are equal, which leaves the scale of their likelihood no posterior; give it, as in "
            "bd.Squared(variance=1.0) or bd.Quantile(0.5, scale=1.0)."
        )
    return spread if 0 < spread < np.inf else 1.0
