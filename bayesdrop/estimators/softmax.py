"""Softmax fit and probabilities of a classifier; the model is that of :mod:`bayesdrop.fitting.softmax_energy`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._typing import Float, PerRow
from ..designs import Design
from ..fitting.centring import Settled
from ..fitting.driver import status_at
from ..fitting.fit import row_weights
from ..fitting.overflow import refuse_overflow
from ..fitting.softmax_energy import SoftmaxEnergy, expected_softmax
from ..fitting.softmax_fit import fit_softmax
from ..model import Model
from ..moments import ScoreMoments
from ..rates import Fixed, RateMap
from ..warnings import warn
from .validation import check_features, default_names

__all__ = ["fit_joint", "joint_chances", "joint_energy", "joint_rates"]

_DEFAULT_RATE = 0.5
# Rows whose covariances are held at once when probabilities are asked for.
_ROWS = 2048


def fit_joint(
    estimator: Any,
    settled: Settled,
    design: Design,
    code: PerRow,
    weight: PerRow,
    earlier: tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p _"]] | None,
    unlabelled: tuple[int, float] | None,
) -> Any:
    """Fit all classes jointly to rows ``X − c`` and set the estimator's attributes."""
    model = settled.model
    if estimator.method is not None:
        raise ValueError(f"method: the softmax has its own Newton method, got {estimator.method!r}; leave method out.")
    p, K = design.shape[1], len(estimator.classes_)
    known, noisy, _ = row_weights(model, weight, unlabelled)
    rate_map = joint_rates(estimator, model)
    energy = joint_energy(estimator, model, design, code, model.C * known, noisy[:, 0])
    start = np.zeros((p + 1, K)) if earlier is None else settled.inward(earlier[0])
    weights, trace = fit_softmax(energy, start, estimator.tol, estimator.max_iter)
    refuse_overflow(weights=weights, energy=trace.values[-1])
    if trace.status.is_unfinished:
        warn(trace.status.value, ConvergenceWarning)
    weights = settled.outward(weights)
    estimator.coef_ = np.ascontiguousarray(weights[:-1].T)
    estimator.intercept_ = weights[-1].copy()
    estimator.rates_ = rate_map.initial.copy()
    estimator.rate_posterior_ = None
    estimator._counts = None
    estimator.objective_trace_ = np.array(trace.values)[:, 0]
    estimator.n_iter_ = trace.iterations
    # One energy of all classes, whose weights lie in one block.
    estimator.status_ = status_at(weights[:-1].reshape(-1, 1), trace.values[-1], trace.status)
    return estimator


def joint_rates(estimator: Any, model: Model) -> RateMap:
    """Fixed rates of the features, 0.5 by default; raise ValueError if they are to be learnt."""
    default = estimator.rates is None and model.noise.has_rate
    rates = Fixed(_DEFAULT_RATE) if default else model
    rate_map = rates.bind(default_names(estimator))
    if rate_map.is_free:
        raise ValueError(
            "rates: the sign rule that learns rates needs two classes a problem, and the softmax fits all at once; "
            'give a fixed rate, or multiclass="one_vs_rest".'
        )
    return rate_map


def joint_energy(
    estimator: Any, model: Model, design: Design, code: PerRow, loss_weight: PerRow, noise_weight: PerRow
) -> SoftmaxEnergy:
    """Energy of all classes on a block of rows."""
    model.noise.check(design.minimum())
    rate = joint_rates(estimator, model).initial[:, None]
    return SoftmaxEnergy(
        moments=ScoreMoments(design, model.noise, rate, model.fit_intercept),
        form="taylor" if estimator.expectation is None else estimator.expectation,
        n_classes=len(estimator.classes_),
        code=code,
        loss_weight=loss_weight,
        noise_weight=noise_weight,
        precision=np.append(model.weight_prior.precision(design.shape[1]), 0.0)[:, None],
    )


def joint_chances(estimator: Any, X: Any) -> Float[np.ndarray, "m K"]:
    """Expected softmax of new rows, (n, K)."""
    design, weights, centre = estimator._about_centre(check_features(estimator, X))
    noise = estimator._model().noise
    K = weights.shape[1]
    found = {}
    for rows, part in design.parts(_ROWS):
        moments = ScoreMoments(part, noise, estimator.rates_[:, None], estimator.fit_intercept, centre)
        n = part.shape[0]
        if estimator.corrupted_inputs:
            found[rows.start] = expected_softmax(part.matvec(weights[:-1]) + weights[-1], np.zeros((n, K, K)))
            continue
        nothing = np.zeros(n)
        energy = SoftmaxEnergy(moments, "taylor", K, np.zeros(n, dtype=int), nothing, nothing, np.zeros((1, 1)))
        found[rows.start] = expected_softmax(moments.mean(weights), energy.covariance(weights))
    # Of rows that several processes hold these are this process's, whose devices may come in any order.
    return np.concatenate([found[start] for start in sorted(found)])
