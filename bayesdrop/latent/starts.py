"""Where the fit of a hidden layer starts from."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..overflow import refuse_overflow
from .energy import LatentEnergy

__all__ = ["typical_inputs"]

Array = Any


def typical_inputs(energy: LatentEnergy) -> tuple[Array, float]:
    """Mean of the noised inputs (p,), and their size: the root mean square of ``‖x‖`` times that of the gain.

    Hidden weights of variance ``1/size²`` give pre-activations of unit size, whatever the units of the features.

    Raises
    ------
    ValueError
        If a sum of squares overflows.
    """
    total, square, count = np.zeros(len(energy.rate)), 0.0, 0.0
    for block in energy.blocks:
        moments = energy.moments_of(block)
        total += moments.design.rmatvec(block.weight)
        square += float(np.sum(moments.design.sq_rmatvec(block.weight)))
        count += float(block.weight.sum())
    gain = energy.noise.coefficients(energy.rate).gain
    size = max(np.sqrt(square / count) * float(np.sqrt(np.mean(gain**2))), np.finfo(float).tiny)
    refuse_overflow(sum_of_squares=size)
    return gain * total / count, float(size)
