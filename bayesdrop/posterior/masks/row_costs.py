"""What rows cost at the points of a sampler, their masks summed."""

from __future__ import annotations

import numpy as np

from ..._typing import Float
from ...mcmc.hmc.masks.kernel import Effective, SummedRows
from ...model import Model
from ...noise import Dropout
from ..draws import Draws
from .expectation import expectation
from .score_functions import LogLikelihood

__all__ = ["row_costs"]


def row_costs(rows: SummedRows, point: Effective) -> Float[np.ndarray, "C n"]:
    """Minus the weighted log-likelihoods of the rows, (C, n), without the constants of their densities.

    Of ``1 − η`` and ``η`` the smaller is read.

    Examples
    --------
    >>> from bayesdrop.losses import Logistic
    >>> rows = SummedRows(np.array([[2.0]]), Logistic(), np.ones(1), np.full(1, 3.0), 1.0, None)
    >>> half = np.full((1, 1), 0.5)
    >>> found = row_costs(rows, Effective(np.ones((1, 1)), np.zeros(1), half, half))
    >>> bool(np.isclose(found[0, 0], -3 * np.log(0.25 + 0.5 / (1 + np.exp(-2)))))
    True
    """
    weight, intercept, keep, drop = (np.asarray(part, dtype=np.float64) for part in point)
    chains, p = weight.shape
    draws = Draws(
        model=Model(rows.loss, noise=Dropout(), C=rows.loss_weight),  # whose kept entries are as they are
        feature_names=[f"x{d}" for d in range(p)],
        weight=weight,
        intercept=intercept,
        free_rate=np.where(keep < drop, 1 - keep, drop),
        index=np.arange(p),
        fixed_rate=None,
        C=np.full(chains, float(rows.loss_weight)),
        power=1.0,
        marginalised=False,
        classes=None,
        steps={"chain": np.arange(chains), "draw": np.zeros(1, int)},
    )
    function = LogLikelihood(draws, np.asarray(rows.target))
    found = expectation(draws, rows.X, function, offset=rows.offset)
    number = np.arange(len(found))
    return np.asarray(rows.row_weight * (function.scale(number, number * 0)[1] - found.T))
