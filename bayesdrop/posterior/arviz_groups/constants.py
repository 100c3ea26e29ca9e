"""What a posterior stores beside its draws: names along the dims, priors, fixed rates, row weights and offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...model import Model
from ...noise.base import centre_of
from ...rates import RateMap
from .stored_rate_prior import rate_prior_constants

__all__ = ["model_constants", "model_coords"]


def model_coords(rate_map: RateMap, feature_names: Sequence[str]) -> dict[str, Any]:
    """Labels along the dims of a model: features, and groups of rates where there are any.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> model_coords(bd.PerGroup(["a", "a"]).bind(["x0", "x1"]), ["x0", "x1"])["group"].tolist()
    ['a']
    """
    coords: dict[str, Any] = {"feature": np.array(feature_names)}
    if rate_map.is_free:
        coords[rate_map.dim] = np.array(rate_map.names)
    if rate_map.hierarchy is not None:
        coords["group"] = np.array(rate_map.hierarchy.names)
    return coords


def model_constants(
    model: Model, rate_map: RateMap, row_weight: Any, occurrences: Callable[[], Any], offset: Any = None
) -> dict[str, tuple[Any, Any]]:
    """Dims and values of the group ``constant_data``, by name.

    Parameters
    ----------
    model : Model
        With numbers for what it says of its columns.
    rate_map : RateMap
        Its rates, bound to the columns.
    row_weight : array (n,)
        Stored where they are not all 1.
    occurrences : callable
        Gives the weighted number of non-zero entries behind each free rate (k,), on which a prior may depend; it is
        called only where the rates have a prior of their own.
    offset : array (n,), optional
        Known part of every row's score.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> model = bd.Model(rates=bd.Fixed(0.25))
    >>> sorted(model_constants(model, model.bind(["x0"]), np.ones(3), lambda: np.zeros(0)))
    ['fixed_rate', 'weight_precision']
    """
    constants: dict[str, tuple[Any, Any]] = dict(model.weight_prior.constants(len(rate_map.initial)))
    centre = centre_of(model.noise)
    if centre is not None:
        constants["centre"] = ("feature", centre)
    variance = model.loss.variance_prior
    if variance is not None:
        constants["variance_prior_shape"] = ((), variance.shape)
        constants["variance_prior_scale"] = ((), variance.scale)
    if not rate_map.is_free:
        constants["fixed_rate"] = ("feature", rate_map.initial)
    elif rate_map.hierarchy is not None:
        constants |= rate_map.hierarchy.constants()
        constants["feature_group"] = ("feature", np.array(rate_map.hierarchy.names)[rate_map.hierarchy.index])
    else:
        constants |= rate_prior_constants(rate_map.prior.law(occurrences()), rate_map.dim)
    if rate_map.is_free and rate_map.dim == "group":
        constants["feature_group"] = ("feature", np.array(rate_map.names)[rate_map.index])
    if np.any(row_weight != 1):
        constants["row_weight"] = ("obs_id", row_weight)
    if offset is not None:
        constants["offset"] = ("obs_id", offset)
    return constants
