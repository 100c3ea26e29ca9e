r"""What a row says of its score, by the score's moments under the cost itself (expectation propagation; Minka 2001).

A normal approximation takes from each row a slope and a curvature, ``½ d_i m_i² − a_i m_i`` in place of its cost. Under
the approximation the score is ``N(μ_i, s_i²)``; without the row's own share it has the density

    q_i(m) ∝ N(m; μ_i, s_i²) exp(½ d_i m² − a_i m),

and the row is then given the ``d_i`` and ``a_i`` that make mean and variance those of ``q_i(m) exp{−cost_i(m)}``.
Slopes that are averaged over ``N(μ_i, s_i²)`` see rows far on the wrong side that the posterior does not have, and that
noise would explain: rates come out too high, a shared one of .03 as .25.

Shapes: ``n`` rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..._typing import Float

__all__ = ["FLAT", "STILL", "Tilted", "tilted_moments"]

# Curvature of a row, and deviation of a score, as shares of the largest, below which they are not followed.
FLAT, STILL = 1e-6, 1e-3

# In standard deviations of the score. A row that says more than equal distances show has the variance of one of them.
_NODES = np.linspace(-8.0, 8.0, 65)
_LEAST = float(np.diff(_NODES)[0] ** 2 / 12)

PerRow = Float[np.ndarray, " n"]
PerNode = Float[np.ndarray, "n nodes"]


class Tilted(NamedTuple):
    """What the rows say, (n,) each.

    Attributes
    ----------
    curvature, pull : array (n,)
        ``d`` and ``a``.
    for_var : array (n,)
        Mean slope of the cost in the variance of the score.
    """

    curvature: PerRow
    pull: PerRow
    for_var: PerRow


def tilted_moments(
    mean: PerRow,
    spread: PerRow,
    curvature: PerRow,
    pull: PerRow,
    cost: Callable[[PerNode], tuple[PerNode, PerNode, PerNode]],
) -> Tilted:
    """Curvatures, not below zero, and pulls of the rows.

    Parameters
    ----------
    mean, spread : array (n,)
        ``μ`` and ``s``.
    curvature, pull : array (n,)
        ``d`` and ``a`` that they come from.
    cost : callable
        From scores (n, nodes) to the cost of each row and its slopes in the mean and the variance of the score.

    Examples
    --------
    A normal row is what it is, whatever is known beside it: here ``½·3(m − 2)²``.

    >>> one = np.ones(1)
    >>> found = tilted_moments(0 * one, one, 0.5 * one, 0 * one, lambda m: (1.5 * (m - 2) ** 2, 3 * (m - 2), 0 * m))
    >>> [round(float(part[0]), 6) for part in found[:2]]
    [3.0, 6.0]
    """
    score = mean[:, None] + spread[:, None] * _NODES
    value, _, for_var = cost(score)
    log_share = 0.5 * curvature[:, None] * score**2 - pull[:, None] * score - 0.5 * _NODES**2 - value
    share = np.exp(log_share - log_share.max(axis=1, keepdims=True))
    share = share / share.sum(axis=1, keepdims=True)
    centre = np.sum(share * score, axis=1)
    variance = np.sum(share * (score - centre[:, None]) ** 2, axis=1)
    precision = 1 / np.maximum(variance, _LEAST * spread**2)
    beside = 1 / spread**2 - curvature, mean / spread**2 - pull
    return Tilted(np.maximum(precision - beside[0], 0), centre * precision - beside[1], np.sum(share * for_var, axis=1))
