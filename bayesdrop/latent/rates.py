"""Learn the dropout rates of the inputs of a hidden layer by the sign rule of Zhuo, Zhu & Zhang (2015).

For a linear score an entry contradicts its label if ``y_i w_d x_id < 0``. To first order a hidden layer is linear in
each row, with the weight ``h_id = Σ_k Q_ik α_dk`` of feature ``d`` (:mod:`bayesdrop.latent.objective.energy`):

    n_d = Σ_i s_i 1(h_id x_id ≠ 0),      n⁻_d = Σ_i s_i 1(y_i h_id x_id < 0),

summed over the problems, which share the inputs and their rates, and over the features of a free rate; rows of the
negative class have the weight of :func:`class_ratio`. The update is the posterior mode given ``n⁻`` entries dropped and
``n − n⁻`` kept, ``(n⁻ + μm)/(n + m)`` under a Beta prior.

:func:`random_start` takes a few steps from each of several random starts, and returns the best point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from .._typing import Float
from ..fitting.solvers.driver import Status, Trace
from ..linalg.systems import refuse_overflow
from ..priors.rate_prior import BetaLaw
from ..rates import RateMap
from .minimisers.lbfgs import LatentMethod
from .objective.energy import LatentEnergy, Parameters
from .objective.rules import RULES

__all__ = ["class_ratio", "learn_rates", "random_start", "sign_counts"]


def sign_counts(
    energy: LatentEnergy, parameters: Parameters, weight_per_row: float, ratio: Float[np.ndarray, " M"]
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """``(n⁻, n)`` of each feature, (p,) each.

    Parameters
    ----------
    energy : LatentEnergy
        Energy with signs as targets.
    parameters : Parameters
        Weights of both layers.
    weight_per_row : float
        Loss weight ``C``, by which the weights ``C s_i`` of the rows are divided.
    ratio : array (M,)
        Weight of a negative row of each problem.
    """
    p = len(energy.rate)
    against, total = np.zeros(p), np.zeros(p)
    weight = parameters.output[:-1]
    for block in energy.blocks:
        unit = expit(energy.moments_of(block).mean(parameters.hidden))
        slope = unit * (1 - unit)
        for rows, columns, values in block.rows.entries():
            for m in range(weight.shape[1]):
                pull = np.einsum("ek,ek->e", (slope * weight[:, m])[rows], parameters.hidden[columns])
                sign = block.target[rows, m]
                count = block.weight[rows] / weight_per_row * np.where(sign > 0, 1.0, ratio[m])
                agreement = sign * pull * values
                against += np.bincount(columns, weights=count * (agreement < 0), minlength=p)
                total += np.bincount(columns, weights=count * (agreement != 0), minlength=p)
    return against, total


def class_ratio(
    rate_map: RateMap, target: Float[np.ndarray, "n K"], weight: Float[np.ndarray, " n"], many: bool
) -> Float[np.ndarray, " K"]:
    """Weight of the negative class of each problem in the rate update, (K,): ``n₊/n₋``, or 1 if not requested.

    ``target`` (n, K) holds signs, ``weight`` (n,) row weights, and ``many`` is True for one problem per class.
    """
    if not (rate_map.class_ratio if rate_map.class_ratio is not None else many):
        return np.ones(target.shape[1])
    positive = (weight[:, None] * (target > 0)).sum(axis=0)
    return positive / (weight.sum() - positive)


def learn_rates(
    energy: LatentEnergy,
    start: Parameters,
    rate_map: RateMap,
    method: LatentMethod,
    trace: Trace,
    weight_per_row: float,
    ratio: Float[np.ndarray, " M"],
) -> tuple[LatentEnergy, Parameters, BetaLaw, Float[np.ndarray, " k"]]:
    """Alternate steps of the weights and updates of the rates until the rates converge, then minimise to the optimum.

    Returns
    -------
    energy, parameters : LatentEnergy, Parameters
        Energy and weights at the learnt rates.
    posterior : BetaLaw of shape (k,)
        Plug-in posterior of the free rates.
    occurrences : array (k,)
        ``n`` of each free rate.
    """
    occurrences = np.zeros(rate_map.size)
    point, posterior = start, rate_map.prior.law(occurrences).given(occurrences, occurrences)
    converged = False
    for turn in range(RULES.rounds):
        point = method.minimise(energy, point, trace, RULES.round_steps)
        against, total = (
            rate_map.collapse(part[:, None])[:, 0] for part in sign_counts(energy, point, weight_per_row, ratio)
        )
        posterior, occurrences = rate_map.prior.law(total).given(against, total), total
        update = rate_map.expand(np.minimum(posterior.mode(), RULES.largest))
        # Later rounds take half of the change, because a rate and its weights may oscillate.
        rate = update if turn < RULES.rounds // 3 else 0.5 * (update + energy.rate)
        # For a rate with few entries a change by less than three entries counts as converged.
        tolerance = rate_map.expand(np.maximum(RULES.rate_change, 3 / np.maximum(total, 3)))
        converged = bool(np.all(np.abs(rate - energy.rate) < tolerance))
        if converged:
            break
        energy = replace(energy, rate=rate)
    point = method.minimise(energy, point, trace)
    if not converged:
        trace.status = Status.RATES_UNSETTLED
    return energy, point, posterior, occurrences


def random_start(
    energy: LatentEnergy, method: LatentMethod, units: int, problems: int, starts: int, generator: Any
) -> Parameters:
    """Draw weights of both layers, follow each draw for some steps and return the one with the lowest energy.

    Parameters
    ----------
    energy : LatentEnergy
        Energy to minimise.
    method : LatentMethod
        Minimiser of the starts.
    units, problems : int
        Hidden units ``K`` and problems ``M``.
    starts : int
        Number of draws.
    generator : numpy.random.RandomState
        Source of the draws.
    """
    p = len(energy.rate)
    # Draw weights for which pre-activations are centred and of unit size, in any units of the features.
    blocks = [(energy.moments_of(block), block.weight[:, None]) for block in energy.blocks]
    mean = sum(moments.mean_adjoint(weight)[:-1] for moments, weight in blocks) / energy.row_weight
    size = energy.column_scales * np.sqrt(p)
    refuse_overflow(sum_of_squares=size)
    best: tuple[float, Parameters] | None = None
    for _ in range(starts):
        hidden = generator.normal(size=(p + 1, units)) / size
        hidden[-1] = -(mean * hidden[:-1]).sum(axis=0) if energy.fit_intercept else 0.0
        output = generator.normal(size=(units + 1, problems)) / np.sqrt(units)
        output[-1] = 0.0
        start, value = Parameters(hidden, output), 0.0
        if starts > 1:
            trace = Trace()
            start = method.minimise(energy, start, trace, RULES.start_steps)
            value = float(trace.values[-1][0]) if trace.values else energy.value_and_gradient(start)[0]
        if best is None or value < best[0]:
            best = (value, start)
    assert best is not None
    return best[1]
