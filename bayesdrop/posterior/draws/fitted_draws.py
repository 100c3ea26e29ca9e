"""A point fit as a posterior of one draw, so that whatever is made of draws can be made of a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...fitting.results.result import Fit
from ...noise.base import centre_of
from .draws import Draws, read_draws

__all__ = ["draws_of_fit", "read_result"]


def draws_of_fit(fit: Fit) -> Draws:
    """One draw, the fitted weights and rates.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> fit = bd.fit(bd.Model(rates=bd.Fixed(0.2)), [[-1.0], [-2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> draws_of_fit(fit).weight.shape
    (1, 1)
    """
    model, noise = fit.model, fit.model.noise
    if noise.centre is not None:
        settled: Any = noise
        model = replace(model, noise=replace(settled, centre=fit.centre))
    weight = np.asarray(fit.weight, dtype=np.float64)[None]
    intercept = np.asarray(fit.intercept, dtype=np.float64)[None]
    centre = centre_of(model.noise)
    return Draws(
        model=model,
        feature_names=fit.feature_names,
        weight=weight,
        intercept=intercept if centre is None else intercept + weight @ centre,
        free_rate=np.zeros((1, 0)),
        index=np.arange(weight.shape[-1]),
        fixed_rate=np.asarray(fit.rates, dtype=np.float64),
        C=np.array([float(model.C)]),
        power=1.0,
        marginalised=False,
        classes=None if fit.classes is None else np.asarray(fit.classes),
        steps={"chain": np.array([0]), "draw": np.array([0])},
        has_offset=fit.offset is not None,
        facts=fit.facts,
    )


def read_result(result: Any) -> Draws:
    """Draws of what ``bd.fit``, ``bd.sample`` or ``bd.groups.load`` returned.

    Raises
    ------
    TypeError, ValueError
        If it is something else; see :func:`.draws.read_draws`.
    """
    return draws_of_fit(result) if isinstance(result, Fit) else read_draws(result, few=True)
