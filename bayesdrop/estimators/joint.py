"""Softmax fit and probabilities of a classifier; the model is that of :mod:`bayesdrop.inference.softmax`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from ..designs import Design, as_design
from ..inference.descent import Status
from ..inference.fitting import row_weights
from ..inference.softmax import SoftmaxEnergy, expected_softmax, fit_softmax
from ..model import Model
from ..moments import ScoreMoments
from ..rates import Fixed
from .base import FLOATS, default_names

__all__ = ["fit_joint", "joint_chances"]

Array = Any

_DEFAULT_RATE = 0.5
# Rows whose covariances are held at once when probabilities are asked for.
_ROWS = 2048


def fit_joint(
    estimator: Any,
    model: Model,
    design: Design,
    code: Array,
    weight: Array,
    earlier: tuple[Array, Array] | None,
    unlabelled: tuple[int, float] | None,
) -> Any:
    """Fit all classes jointly and set the estimator's attributes."""
    if estimator.method is not None:
        raise ValueError(f"method: the softmax has its own Newton method, got {estimator.method!r}; leave method out.")
    if estimator.rates is None and model.noise.has_rate:
        rate_map = Fixed(_DEFAULT_RATE).bind(default_names(estimator))
    else:
        rate_map = model.bind(default_names(estimator))
    if rate_map.is_free:
        raise ValueError(
            "rates: the sign rule that learns rates needs two classes a problem, and the softmax fits all at once; "
            'give a fixed rate, or multiclass="one_vs_rest".'
        )
    model.noise.check(design.minimum())
    p, K = design.shape[1], len(estimator.classes_)
    known, noisy, plain = row_weights(model, weight, unlabelled)
    loss_weight = model.C * known
    energy = SoftmaxEnergy(
        moments=ScoreMoments(design, model.noise, rate_map.initial[:, None], model.fit_intercept),
        form="taylor" if estimator.bound is None else estimator.bound,
        n_classes=K,
        code=code,
        loss_weight=loss_weight,
        noise_weight=noisy[:, 0],
        precision=np.append(model.weight_prior.precision(p), 0.0)[:, None],
    )
    start = np.zeros((p + 1, K)) if earlier is None else earlier[0]
    weights, trace = fit_softmax(energy, start, estimator.tol, estimator.max_iter)
    if trace.status is Status.MAX_ITERATIONS:
        warnings.warn(trace.status.value, ConvergenceWarning, stacklevel=4)
    estimator.coef_ = np.ascontiguousarray(weights[:-1].T)
    estimator.intercept_ = weights[-1].copy()
    estimator.rates_ = rate_map.initial.copy()
    estimator.rate_posterior_ = None
    estimator._free_rates = np.empty((0, 0))
    estimator.objective_trace_ = np.array(trace.values)[:, 0]
    estimator.n_iter_ = trace.iterations
    estimator.status_ = trace.status
    return estimator


def joint_chances(estimator: Any, X: Any, mean: Array) -> Array:
    """Expected softmax of new rows, (n, K), given the means of their scores."""
    X = validate_data(estimator, X, accept_sparse="csr", dtype=FLOATS, reset=False)
    weights = np.vstack([estimator.coef_.T, estimator.intercept_])
    noise = estimator._model().noise
    result = np.empty_like(mean)
    K = mean.shape[1]
    for start in range(0, len(mean), _ROWS):
        rows = slice(start, start + _ROWS)
        moments = ScoreMoments(as_design(X[rows]), noise, estimator.rates_[:, None], estimator.fit_intercept)
        n = mean[rows].shape[0]
        nothing = np.zeros(n)
        energy = SoftmaxEnergy(moments, "taylor", K, np.zeros(n, dtype=int), nothing, nothing, np.zeros((1, 1)))
        cov = np.zeros((n, K, K)) if estimator.corrupted_inputs else energy.covariance(weights)
        result[rows] = expected_softmax(mean[rows], cov)
    return result
