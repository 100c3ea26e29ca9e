r"""Draw a common shift of the weights of a feature in all classes, under a spike-and-slab prior.

The probabilities of the classes depend on ``w_k − w_l`` alone, so that a common shift of the weights of a unit changes
their prior only. Given these contrasts, either all ``K`` classes include the unit, or all but one, ``k``, whose weight
is zero. With ``w̄`` the mean over the classes, and ``odds_k`` the prior odds that class ``k`` includes the unit given
all other indicators, the cases have the relative probabilities

    all but k:  exp{−½ K P (w_k − w̄)²}/odds_k,        all:  1/√K,  and then  w̄ ~ N(0, 1/(KP)).

For a unit of several columns the exponential, the root and the law of ``w̄`` apply to each column, and the odds count
once. With three classes, a feature of ``a, b`` becomes one of ``b, c`` in one step; moves of one class at a time get
there only through a model in which all three include it.

Shapes: ``K`` classes, ``p`` features, ``u`` units.
"""

from __future__ import annotations

import numpy as np

from .._typing import Bool, Float
from .moves.active_set import Units

__all__ = ["shift_all_classes"]


def shift_all_classes(
    generator: np.random.Generator,
    units: Units,
    precision: Float[np.ndarray, " p"],
    included: Bool[np.ndarray, "K u"],
    weight: Float[np.ndarray, "K p"],
) -> Float[np.ndarray, " p"]:
    """Draw the common part of the weights of each unit that at most one class lacks; return the shifts.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of the draws.
    units : Units
        Columns and prior of the units of all classes, one class after another.
    precision : array (p,)
        Precisions of the slab.
    included : bool array (K, u)
        Indicators; changed in place.
    weight : array (K, p)
        Weights; changed in place.
    """
    (K, u), shift = included.shape, np.zeros(weight.shape[1])
    for unit in np.flatnonzero(included.sum(axis=0) >= K - 1):
        own = included[:, unit].copy()
        included[:, unit] = True
        columns, place = units.columns[unit], unit + u * np.arange(K)
        odds = units.law.log_odds(included.ravel(), place)
        if np.any(odds == -np.inf):  # a class that excludes the unit's parents
            included[:, unit] = own
            continue
        away = weight[:, columns] - weight[:, columns].mean(axis=0)
        without = -odds - 0.5 * K * np.sum(precision[columns] * away * away, axis=1)
        without[units.law.is_forced[place]] = -np.inf
        log_chance = np.append(without, -0.5 * len(columns) * np.log(K))
        chosen = int(np.argmax(log_chance + generator.gumbel(size=K + 1)))
        new = away + generator.standard_normal(len(columns)) / np.sqrt(K * precision[columns])
        if chosen < K:
            included[chosen, unit] = False
            new = away - away[chosen]
        shift[columns] = new[-1] - weight[-1, columns]
        weight[:, columns] = new
    return shift
