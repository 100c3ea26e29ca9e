"""Where the fit of a hidden layer begins: the best of several random starts after a few steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..fitting.objective.overflow import refuse_overflow
from ..fitting.solvers.driver import Trace
from .minimisers.methods import LatentMethod
from .objective.energy import LatentEnergy, Parameters

__all__ = ["random_start"]


def random_start(
    energy: LatentEnergy, method: LatentMethod, units: int, problems: int, starts: int, steps: int, generator: Any
) -> Parameters:
    """Draw weights of both layers, follow each draw for ``steps`` and return the one with the lowest energy.

    Starts are told apart without the variance of the noise, which takes most of the time. Where nothing may be spent
    on that, there is one start.

    Parameters
    ----------
    energy : LatentEnergy
        What is to be minimised.
    method : LatentMethod
        By which the starts are followed.
    units, problems : int
        Hidden units ``K`` and problems ``M``.
    starts, steps : int
        Draws, and steps of the method on each.
    generator : numpy.random.RandomState
        Source of the draws.
    """
    p = len(energy.rate)
    # Pre-activations of unit size, centred, whatever the units of the features.
    total, square, count = np.zeros(p), 0.0, 0.0
    for block in energy.blocks:
        moments = energy.moments_of(block)
        total += moments.design.rmatvec(block.weight)
        square += float(np.sum(moments.design.sq_rmatvec(block.weight)))
        count += float(block.weight.sum())
    gain = energy.noise.coefficients(energy.rate).gain
    size = max(np.sqrt(square / count) * float(np.sqrt(np.mean(gain**2))), np.finfo(float).tiny)
    refuse_overflow(sum_of_squares=size)
    starts = starts if steps else 1
    plain = energy.without_variance
    best: tuple[float, Parameters] | None = None
    for _ in range(starts):
        hidden = generator.normal(size=(p + 1, units)) / size
        hidden[-1] = -(gain * total / count) @ hidden[:-1] if energy.fit_intercept else 0.0
        output = generator.normal(size=(units + 1, problems)) / np.sqrt(units)
        output[-1] = 0.0
        start, value = Parameters(hidden, output), 0.0
        if starts > 1:
            trace = Trace()
            start = method.minimise(plain, start, trace, steps)
            value = float(trace.values[-1][0]) if trace.values else plain.value_and_gradient(start).objective
        if best is None or value < best[0]:
            best = (value, start)
    assert best is not None
    return best[1]
