"""Intervals of the prior of each rate, to be shown beside what the data made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .description import ATTRIBUTE, rebuild
from .groups import dataset, group_names
from .rates import PerFeature

if TYPE_CHECKING:
    from .results import Fit

__all__ = ["drawn_prior_interval", "prior_interval"]

Array = Any


def prior_interval(fit: Fit, probability: float) -> tuple[Array, Array]:
    """Equal-tailed prior interval of each learnt rate, (k,) and (k,).

    Raises
    ------
    ValueError
        If the rates of the fit are fixed.
    """
    if fit.rate_posterior is None:
        raise ValueError("prior_interval: expected a fit with learnt rates, got one with fixed rates.")
    prior = fit.model.bind(fit.feature_names).prior
    return _equal_tailed(probability, *prior.concentrations(fit.rate_posterior.occurrences))


def drawn_prior_interval(post: Any, k: int, probability: float) -> tuple[Array, Array] | None:
    """Equal-tailed prior interval of each of ``k`` sampled rates, (k,) and (k,), if the draws say which prior it was.

    An ArviZ object of ``bd.sample`` holds the numbers. A bare posterior has the description of its model, if that:
    None for a strength relative to counts, which needs the data. A hierarchy has no numbers in either: None.
    """
    if hasattr(post, "posterior") and "constant_data" in group_names(post):
        constant = dataset(post, "constant_data")
        if "rate_prior_a" in constant:
            return _equal_tailed(probability, constant["rate_prior_a"].values, constant["rate_prior_b"].values)
    text = getattr(post, "attrs", {}).get(ATTRIBUTE)
    prior: Any = getattr(rebuild(text).rates or PerFeature(), "prior", None) if text else None
    if prior is None or np.any(prior.a_per_count) or np.any(prior.b_per_count):
        return None
    return _equal_tailed(probability, *prior.concentrations(np.zeros(k)))


def _equal_tailed(probability: float, a: Array, b: Array) -> tuple[Array, Array]:
    from scipy.stats import beta

    return beta.interval(probability, a, b)
