"""How far masks integrated under normal scores are from the sum over masks, at the draws of a run.

The likelihood of some rows at some draws is averaged over masks twice, from independent masks ``A`` and ``B``; with
``G`` the normal-score value, ``mean (A − G)(B − G)`` estimates the mean squared error of the log-likelihood without
the noise of the masks, for the two noises are independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import Data
from ..designs import as_design
from ..draws import Draws
from ..pointwise import log_likelihood_group

__all__ = ["error_per_row"]

Array = Any

_ROWS, _MASKS = 100, 1000


def error_per_row(draws: Draws, data: Data, seed: int = 0) -> float:
    """Root mean square error of a row's log-likelihood, over all the given draws and at most a hundred rows."""
    generator = np.random.default_rng(seed)
    rows = np.sort(generator.choice(len(data.target), min(_ROWS, len(data.target)), replace=False))
    X, target, weight = data.X[rows], data.target[rows], data.weight[rows]
    first, second = (
        log_likelihood_group(draws, X, target, weight, _MASKS, generator)["y"].values.reshape(draws.size, -1)
        for _ in range(2)
    )
    mean, var = draws.moments(as_design(X), slice(0, draws.size))
    weight, loss = draws.power * weight, draws.model.loss
    sign = np.broadcast_to(target[:, None], mean.shape)
    normal = -loss.score_cost(sign, mean, var, weight[:, None] * draws.C).value
    away = normal.T + weight * np.asarray(loss.log_constant(draws.C))[..., None]
    return float(np.sqrt(max(np.mean((first - away) * (second - away)), 0.0)))
