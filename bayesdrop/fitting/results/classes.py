"""Results of fits of many classes jointly."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data.dataset import Dataset
from ...model import Model
from ...priors.rate_prior import map_arrays
from ...rates import RateMap
from ..objective.centring import CentredProblem
from ..objective.softmax_energy import centred
from ..problems.many_classes import ClassFit, fit_classes
from ..solvers.driver import FitMethod
from ..solvers.newton import Newton
from .result import Fit, RatePosterior

__all__ = ["class_posterior", "fit_dataset"]


def class_posterior(found: ClassFit, rate_map: RateMap) -> RatePosterior | None:
    """Plug-in posterior of the rates that were learnt: (k,), or (k, K) where each class has its own."""
    if found.posterior is None or found.occurrences is None:
        return None
    own = found.occurrences.shape[1] > 1
    law = map_arrays(lambda part: part if own else part[:, 0], found.posterior)
    occurrences = found.occurrences if own else found.occurrences[:, 0]
    return RatePosterior(law, occurrences, rate_map.names, rate_map.dim)


def fit_dataset(
    model: Model,
    centring: CentredProblem,
    data: Dataset,
    rate_map: RateMap,
    method: FitMethod[Any, Any] | None,
) -> tuple[Fit, ClassFit]:
    """:func:`bayesdrop.fit` of a model whose loss is a softmax, on checked data.

    Raises
    ------
    ValueError
        If ``method`` is another than Newton's.
    """
    method = Newton() if method is None else method
    if not isinstance(method, Newton):
        raise ValueError(
            f"method: {model.loss!r} is fitted by Newton's method on all classes jointly, got {method!r}; take "
            "bd.Newton(tol=..., max_iter=...), or leave it out."
        )
    classes: Any = data.classes
    found = fit_classes(
        centring.model, centring.design, rate_map, data.target, data.weight, len(classes), tol=method.tol,
        max_iter=method.max_iter,
    )  # fmt: skip
    weights = centred(centring.to_original(found.weights), model.loss.class_rates)
    fit = Fit(
        weight=np.ascontiguousarray(weights[:-1].T),
        intercept=weights[-1],
        rates=found.rates.T.copy(),
        rate_posterior=class_posterior(found, rate_map),
        objective_trace=found.trace,
        status=found.status,
        n_iter=found.iterations,
        solver="softmax",
        feature_names=data.feature_names,
        facts=data.facts,
        classes=data.classes,
        model=model,
        centre=centring.centre,
    )
    return fit, found
