"""How far masks integrated under normal scores are from the sum over masks, at the draws of a run.

The likelihood of some rows at some draws is had by both, the sum over masks from :mod:`bayesdrop.expectation`, without
drawing any, and exactly where a row has few noised entries.
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

# Rows that are looked at, and masks of a row that are enumerated.
_ROWS, _MASKS = 100, 1024


def error_per_row(draws: Draws, data: Data, seed: int = 0) -> float:
    """Root mean square error of a row's log-likelihood, over all the given draws and at most a hundred rows."""
    generator = np.random.default_rng(seed)
    rows = np.sort(generator.choice(len(data.target), min(_ROWS, len(data.target)), replace=False))
    X, target, weight = data.X[rows], data.target[rows], data.weight[rows]
    summed = log_likelihood_group(draws, X, target, weight, _MASKS)["y"].values.reshape(draws.size, -1)
    mean, var = draws.moments(as_design(X), slice(0, draws.size))
    weight, loss = draws.power * weight, draws.model.loss
    sign = np.broadcast_to(target[:, None], mean.shape)
    normal = -loss.score_cost(sign, mean, var, weight[:, None] * draws.C).value
    away = normal.T + weight * np.asarray(loss.log_constant(draws.C))[..., None]
    return float(np.sqrt(np.mean((summed - away) ** 2)))
