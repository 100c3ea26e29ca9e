r"""Dropout rates of the inputs of a hidden layer, learnt by the sign rule of Zhuo, Zhu & Zhang (2015).

For a linear score an entry speaks against its label where ``y_i w_d x_id < 0``. To first order a hidden layer is linear
in each row, with the weight ``h_id = Σ_k Q_ik α_dk`` of feature ``d`` (:mod:`bayesdrop.latent.energy`), so here

    n_d = Σ_i s_i 1(h_id x_id ≠ 0),      n⁻_d = Σ_i s_i 1(y_i h_id x_id < 0),

summed over the problems, which share the inputs and their rates, and over the features of a free rate; the update is
``(n⁻ + μm)/(n + m)``, the mode of ``Beta(A + n⁻, B + n − n⁻)``. Their rule, applied to the linearised score.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from ..designs import as_design
from ..inference.descent import Status, Trace
from ..priors.beta import beta_mode
from ..rates import RateMap
from .energy import LatentEnergy, Parameters
from .methods import LatentMethod, Plan

__all__ = ["learn_rates", "sign_counts"]

Array = Any

_LARGEST = 1 - 1e-6
# Rates that move by less are settled.
_SETTLED = 2e-3


def sign_counts(
    energy: LatentEnergy, parameters: Parameters, weight_per_row: float, ratio: Array
) -> tuple[Array, Array]:
    """``(n⁻, n)`` of each feature, (p,) each.

    Parameters
    ----------
    energy : LatentEnergy
        Rows, with signs as targets.
    parameters : Parameters
        Weights of both layers.
    weight_per_row : float
        ``C``, by which the weights of the rows are divided.
    ratio : array (M,)
        Weight of a negative row of each problem.
    """
    p = len(energy.rate)
    against, total = np.zeros(p), np.zeros(p)
    weight = parameters.output[:-1]
    for block in energy.blocks:
        design = as_design(block.X) if block.design is None else block.design
        unit = expit(energy.moments(design).mean(parameters.hidden))
        slope = unit * (1 - unit)
        for rows, columns, values in design.entries():
            for m in range(weight.shape[1]):
                pull = np.einsum("ek,ek->e", (slope * weight[:, m])[rows], parameters.hidden[columns])
                sign = block.target[rows, m]
                count = block.weight[rows] / weight_per_row * np.where(sign > 0, 1.0, ratio[m])
                agreement = sign * pull * values
                against += np.bincount(columns, weights=count * (agreement < 0), minlength=p)
                total += np.bincount(columns, weights=count * (agreement != 0), minlength=p)
    return against, total


def learn_rates(
    energy: LatentEnergy,
    start: Parameters,
    rate_map: RateMap,
    method: LatentMethod,
    plan: Plan,
    trace: Trace,
    weight_per_row: float,
    ratio: Array,
) -> tuple[LatentEnergy, Parameters, tuple[Array, Array], Array]:
    """Alternate some steps of the weights with updates of the rates until these stand, then go on to the optimum.

    Returns
    -------
    energy, parameters : LatentEnergy, Parameters
        At the learnt rates.
    posterior : (array (k,), array (k,))
        Shape parameters of the plug-in posterior of the free rates.
    occurrences : array (k,)
        ``n`` of each free rate.
    """
    here, posterior, occurrences = start, (np.empty(0), np.empty(0)), np.empty(0)
    settled, turn = False, 0
    for turn in range(plan.rounds):
        here = method.minimise(energy, here, trace, plan.round)
        against, total = (
            rate_map.collapse(part[:, None])[:, 0] for part in sign_counts(energy, here, weight_per_row, ratio)
        )
        a, b = rate_map.prior.concentrations(total)
        posterior, occurrences = (a + against, b + total - against), total
        update = rate_map.expand(np.minimum(beta_mode(*posterior), _LARGEST))
        # Later rounds move half way: a rate and the weights that it favours may chase each other.
        rate = update if turn < plan.rounds // 3 else 0.5 * (update + energy.rate)
        # Three entries more or fewer of few are the same rate.
        near = rate_map.expand(np.maximum(_SETTLED, 3 / np.maximum(total, 3)))
        settled = bool(np.all(np.abs(rate - energy.rate) < near))
        if settled:
            break
        energy = replace(energy, rate=rate)
    left = None if plan.most is None else plan.most - (turn + 1) * plan.round
    if left is None or left > 0:
        here = method.minimise(energy, here, trace, left)
    if not settled:
        trace.status = Status.RATES_UNSETTLED
    return energy, here, posterior, occurrences
