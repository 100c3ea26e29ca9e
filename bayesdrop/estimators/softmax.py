"""Softmax fit of a classifier; the fit is that of :mod:`bayesdrop.fitting.problems.many_classes`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._typing import PerRow
from ..designs import Design
from ..fitting.objective.softmax_energy import SoftmaxEnergy
from ..fitting.problems.many_classes import softmax_energy
from ..losses import Softmax
from ..model import Model
from ..rates import Fixed, RateMap
from .validation import default_names

__all__ = ["joint_energy", "joint_model", "joint_rates"]


def joint_model(estimator: Any, model: Model) -> Model:
    """The estimator's model with the softmax for its loss, and the rate 0.5 where it names none."""
    loss = Softmax() if estimator.expectation is None else Softmax(estimator.expectation)
    default = estimator.rates is None and model.noise.has_rate
    return replace(model, loss=loss, rates=Fixed(0.5) if default else model.rates)


def joint_rates(estimator: Any, model: Model) -> RateMap:
    """Rates of the features on a block of rows, shared by the classes.

    A block does not say which rates all rows will have: where rates are learnt, or none are named, they are those of an
    earlier fit, or the ones that learning starts from.
    """
    model, names = joint_model(estimator, model), default_names(estimator)
    rate_map = model.bind(names)
    if model.noise.has_rate and (estimator.rates is None or rate_map.is_free):
        # One against the rest has rates of each class.
        rate = np.atleast_2d(getattr(estimator, "rates_", rate_map.initial)).mean(axis=0)
        rate_map = replace(model, rates=Fixed(rate)).bind(names)
    return rate_map


def joint_energy(
    estimator: Any, model: Model, design: Design, code: PerRow, loss_weight: PerRow, noise_weight: PerRow
) -> SoftmaxEnergy:
    """Energy of all classes on a block of rows, at fixed rates."""
    rate = joint_rates(estimator, model).initial
    return softmax_energy(
        joint_model(estimator, model), design, rate, code, len(estimator.classes_), loss_weight,
        noise_weight,
    )  # fmt: skip
