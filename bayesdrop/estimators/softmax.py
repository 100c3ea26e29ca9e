"""Softmax fit of a classifier; the fit is that of :mod:`bayesdrop.fitting.problems.many_classes`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._typing import Float, PerRow
from ..designs import Design
from ..fitting.objective.centring import CentredProblem
from ..fitting.objective.softmax_energy import SoftmaxEnergy, centred
from ..fitting.problems.many_classes import fit_classes, softmax_energy
from ..fitting.results.classes import class_posterior
from ..fitting.solvers.driver import announce
from ..fitting.tuning.copies import Origins
from ..losses import Softmax
from ..model import Model
from ..rates import Fixed, RateMap
from .validation import default_names

__all__ = ["fit_joint", "joint_energy", "joint_model", "joint_rates"]


def joint_model(estimator: Any, model: Model) -> Model:
    """The estimator's model with the softmax for its loss, and the rate 0.5 where it names none."""
    loss = Softmax() if estimator.expectation is None else Softmax(estimator.expectation)
    default = estimator.rates is None and model.noise.has_rate
    return replace(model, loss=loss, rates=Fixed(0.5) if default else model.rates)


def fit_joint(
    estimator: Any,
    centring: CentredProblem,
    design: Design,
    code: PerRow,
    weight: PerRow,
    origins: Origins,
    earlier: tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p _"]] | None,
    unlabelled: tuple[int, float] | None,
) -> Any:
    """Fit all classes jointly to rows ``X − c`` and set the estimator's attributes."""
    model = centring.model
    if estimator.method is not None:
        raise ValueError(f"method: the softmax has its own Newton method, got {estimator.method!r}; leave method out.")
    task = estimator._task_of(centring, code, weight, origins, len(estimator.classes_))
    model = estimator._choose(replace(task, design=design, unlabelled=unlabelled))
    rate_map = model.bind(default_names(estimator))
    start = None if earlier is None else (centring.to_centred(earlier[0]), earlier[1][:, 0])
    found = fit_classes(
        model, design, rate_map, code, weight, len(estimator.classes_), tol=estimator.tol,
        max_iter=estimator.max_iter, start=start, unlabelled=unlabelled,
    )  # fmt: skip
    announce(found.status, found.iterations)
    weights = centred(centring.to_original(found.weights))
    estimator.coef_ = np.ascontiguousarray(weights[:-1].T)
    estimator.intercept_ = weights[-1].copy()
    estimator.rates_ = found.rates
    estimator.rate_posterior_ = class_posterior(found, rate_map)
    estimator._counts = None
    estimator.objective_trace_ = found.trace
    estimator.n_iter_ = found.iterations
    estimator.status_ = found.status
    return estimator


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
