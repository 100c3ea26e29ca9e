"""Intervals of the prior of each rate, to be shown beside what the data made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import Float
from ..description import stored_model
from ..priors.rate_prior import RateLaw
from ..rates import PerFeature
from .arviz_groups.groups import dataset, group_names
from .arviz_groups.stored_rate_prior import read_rate_prior

if TYPE_CHECKING:
    from ..fitting.results.result import Fit

__all__ = ["drawn_prior_interval", "prior_interval"]


def prior_interval(fit: Fit, probability: float) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Equal-tailed prior interval of each learnt rate, (k,) and (k,), class after class where each has its own.

    Raises
    ------
    ValueError
        If the rates of the fit are fixed.
    """
    if fit.rate_posterior is None:
        raise ValueError("prior_interval: expected a fit with learnt rates, got one with fixed rates.")
    prior = fit.model.bind(fit.feature_names).prior
    low, high = _equal_tailed(probability, prior.law(fit.rate_posterior.occurrences))
    return low.T.ravel(), high.T.ravel()


def drawn_prior_interval(
    post: Any, k: int, probability: float
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]] | None:
    """Equal-tailed prior interval of each of ``k`` sampled rates, (k,) and (k,), if the draws say which prior it was.

    An ArviZ object of ``bd.sample`` holds the numbers. A bare posterior has the description of its model, if that:
    None for a strength relative to counts, which needs the data. A hierarchy has no numbers in either: None.
    """
    if hasattr(post, "posterior") and "constant_data" in group_names(post):
        constant = dataset(post, "constant_data")
        law = read_rate_prior(constant)
        if law is not None:
            low, high = _equal_tailed(probability, law)
            repeats = k // max(len(low), 1)  # classes with rates of their own have one prior
            return np.tile(low, repeats), np.tile(high, repeats)
    model = stored_model(getattr(post, "attrs", {}))
    prior: Any = None if model is None else getattr(model.rates or PerFeature(), "prior", None)
    if prior is None or prior.relative:
        return None
    return _equal_tailed(probability, prior.law(np.zeros(k)))


def _equal_tailed(probability: float, law: RateLaw) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    return law.quantile((1 - probability) / 2), law.quantile((1 + probability) / 2)
