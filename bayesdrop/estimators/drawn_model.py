"""The model that an estimator draws from where nothing was said of its noise and its prior.

Flat rates and unit-normal weights, which ``bd.sample(bd.Model(), X, y)`` has, say much: that a feature is dropped half
of the time, and that a weight is hardly above 2. On tables that want little noise or large weights they predict worse
than ridge regression with a tuned penalty (``benchmarks.peers``). What ridge tunes is drawn here: the mean and the
strength of the rates, and the scale of the weights,

    η_d ~ Beta(μ s, (1 − μ) s),   w_d ~ N(0, σ²),   σ ~ HalfNormal(1),

with the hyperpriors of ``bd.Hierarchical``, as point fits choose the strength of their noise (``bd.Tuned``). Several
classes share all of them, ``w_kd ~ N(0, σ²)``. Where there are no fewer features than rows, as with words, the data say
little of either, and the model stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..model import Model
from ..priors import HalfNormal, Normal
from ..rates import Hierarchical

__all__ = ["adapted"]


def adapted(model: Model, rates: Any, weight_prior: Any, shape: tuple[int, ...]) -> Model:
    """The model with what was not given learnt: ``rates`` and ``weight_prior`` as the estimator has them, or None.

    Examples
    --------
    >>> adapted(Model(), None, None, (100, 3)).weight_prior.scale
    HalfNormal(scale=1.0)
    >>> adapted(Model(), None, None, (100, 300)) == Model()
    True
    """
    if rates is not None or not model.noise.has_rate or len(shape) != 2 or shape[1] >= shape[0]:
        return model
    prior = Normal(HalfNormal(1.0)) if weight_prior is None else weight_prior
    return replace(model, rates=Hierarchical(["all"] * shape[1]), weight_prior=prior)
