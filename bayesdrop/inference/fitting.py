"""Fit a model: one convex energy at fixed rates, and the rates learnt around it.

With free rates the weights are brought to modest accuracy, the rates follow from the signs of the weights, and so
on until the sign pattern stands still; from then on it is one convex solve (Zhuo, Zhu & Zhang 2015, algorithm 1).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import prepare
from ..designs import Design, as_design
from ..model import Model
from ..moments import ScoreMoments
from ..rates import RateMap
from ..results import Fit, RatePosterior
from .adapt import RateLearner
from .descent import Descent, Point, Status, Trace, minimise
from .energy import Energy
from .newton import Newton

__all__ = ["BlockFit", "fit", "fit_block"]

Array = Any

# Accuracy of the weights from which on a sign that keeps changing counts as undecided.
_MODEST = 1e-3


@dataclass(frozen=True)
class BlockFit:
    """Fit of ``K`` two-class problems: weights (p + 1, K), rates (p, K), free rates and their posterior (k, K)."""

    weights: Array
    rates: Array
    free_rates: Array
    posterior: tuple[Array, Array] | None
    occurrences: Array | None
    trace: Array
    status: Status
    iterations: int


def fit_block(
    model: Model,
    design: Design,
    rate_map: RateMap,
    sign: Array,
    weight: Array,
    method: Descent,
    start: tuple[Array, Array] | None = None,
) -> BlockFit:
    """Fit ``K`` two-class problems that share a matrix, as one block.

    Parameters
    ----------
    model : Model
        Loss, noise, priors and C.
    design : Design
        Checked matrix, n rows and p columns.
    rate_map : RateMap
        ``model.bind(feature_names)``.
    sign : array (n, K)
        Labels as −1 and +1.
    weight : array (n,)
        Row weights.
    method : Newton or EM
        Minimiser.
    start : (array (p + 1, K), array (k, K)), optional
        Weights and free rates of an earlier fit.
    """
    p, K = design.shape[1], sign.shape[1]
    model.noise.check(design.minimum())
    precision = np.append(model.weight_prior.precision(p), 0.0)[:, None]
    row_weight = (model.C * weight)[:, None]
    rate = np.repeat(rate_map.initial[:, None], K, axis=1) if rate_map.is_free else rate_map.initial[:, None]
    weights = np.zeros((p + 1, K)) if start is None else start[0].copy()
    if start is not None and rate_map.is_free:
        rate = rate_map.expand(start[1])

    def energy_at(rate: Array) -> Energy:
        moments = ScoreMoments(design, model.noise, rate, model.fit_intercept)
        return Energy(moments, model.loss, sign, row_weight, precision)

    energy, trace = energy_at(rate), Trace()
    point = Point.start(energy, weights)
    learner, status, theta = None, None, np.empty((0, K))
    if rate_map.is_free:
        learner = RateLearner.count(design, rate_map, sign, weight[:, None], many=K > 1)
        energy, status = _learn(learner, energy_at, energy, point, method, trace)
        theta = learner.rates()
    else:
        minimise(method, energy, point, method.tol, method.max_iter, trace)
    return BlockFit(
        weights=point.weights,
        rates=np.broadcast_to(energy.moments.rate, (p, K)),
        free_rates=theta,
        posterior=learner.posterior() if learner else None,
        occurrences=learner.occurrences if learner else None,
        trace=np.array(trace.values).reshape(-1, K),
        status=status or trace.status,
        iterations=trace.iterations,
    )


def _learn(
    learner: RateLearner,
    energy_at: Callable[[Array], Energy],
    energy: Energy,
    point: Point,
    method: Descent,
    trace: Trace,
) -> tuple[Energy, Status | None]:
    """Alternate steps of the weights with updates of the rates until the signs of the weights stand.

    The rates follow every step: they depend on the weights through signs alone, most of which the first step gets
    right. What a late flip of a tiny weight does to the energy is below the tolerance soon.
    """
    done = np.zeros(point.weights.shape[1], dtype=bool)
    for _ in range(method.max_iter):
        reached = minimise(method, energy, point, method.tol, 1, trace, done)
        settled = point.remaining <= _MODEST * np.abs(point.value)
        moved = learner.observe(point.weights[:-1], settled)
        done = reached & ~moved
        if np.all(done):
            return energy, None
        if np.any(moved):
            energy = energy_at(learner.rate_map.expand(learner.rates()))
            point.refresh(energy)
    return energy, Status.RATES_UNSETTLED if np.all(settled) else Status.MAX_ITERATIONS


def fit(
    model: Model,
    X: Any,
    y: Any,
    *,
    method: Descent | None = None,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
) -> Fit:
    """Fit weights and dropout rates to a two-class problem.

    Parameters
    ----------
    model : Model
        What to fit.
    X : array, data frame or scipy sparse (n, p)
        Features. Sparse input is never made dense.
    y : sequence of n labels
        Two classes, any labels; the larger one is the positive class.
    method : Newton or EM, optional
        ``bd.Newton()`` by default.
    sample_weight : array (n,), optional
        Row weights, >= 0.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.

    Returns
    -------
    Fit
        Weights, intercept, rates, their plug-in posterior, objective trace and status.

    Raises
    ------
    ValueError
        If the data, the labels or the groups do not fit; the message names the argument and what to do.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> result = bd.fit(bd.Model(rates=bd.PerFeature(bd.Beta(1, 1))), X, y)
    >>> result.status.name, result.rates.shape
    ('CONVERGED', (5,))
    """
    method = Newton() if method is None else method
    data = prepare(X, y, sample_weight, feature_names).with_weight()
    design = as_design(data.X)
    rate_map = model.bind(data.feature_names)
    block = fit_block(model, design, rate_map, data.sign[:, None], data.weight, method)
    if block.status in (Status.MAX_ITERATIONS, Status.RATES_UNSETTLED):
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(block.status.value, ConvergenceWarning, stacklevel=2)
    posterior = None
    if block.posterior is not None and block.occurrences is not None:
        a, b = block.posterior
        posterior = RatePosterior(a[:, 0], b[:, 0], block.occurrences[:, 0], rate_map.names, rate_map.dim)
    return Fit(
        weight=block.weights[:-1, 0],
        intercept=float(block.weights[-1, 0]),
        rates=block.rates[:, 0].copy(),
        rate_posterior=posterior,
        objective_trace=block.trace[:, 0],
        status=block.status,
        n_iter=block.iterations,
        feature_names=data.feature_names,
        classes=data.classes,
        model=model,
    )
