r"""The dual of a piecewise-linear loss without noise: two solvers, and the weights of its solution.

A plain hinge, ε-insensitive or quantile loss is a sum of maxima over intervals,

    c φ(y, s) = Σ max { β(t − s) : l <= β <= u },

so that the energy is the maximum over ``β`` of what is quadratic in ``w``, at ``w = P⁻¹Mᵀβ``; an offset of the scores
is taken off ``t``. Any ``β`` with ``Σβ = 0`` (if there is an intercept) bounds the energy from below,

    U >= Σtβ − ½ρᵀP⁻¹ρ,     ρ = Mᵀβ,

and the difference to the energy at some ``w`` bounds its suboptimality. With noise Newton's method goes down the
energy itself, its kinks smoothed.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from ..._typing import PerRow
from ...losses.protocols import PiecewiseLinear
from ..objective.energy import Energy, WeightBlock
from .coordinates import solve_by_coordinates
from .dual_problem import LEAST, Dual, DualLimits
from .interior_points import solve_interior

__all__ = ["has_dual", "on_their_kinks", "solve_dual"]


def solve_dual(
    energy: Energy, weights: WeightBlock, tol: float, interior: bool = False, limits: DualLimits | None = None
) -> Dual | None:
    """Minimise the energy of piecewise-linear losses without noise by their dual.

    Parameters
    ----------
    energy : Energy
        Of K problems.
    weights : array (p + 1, K)
        Where to start, of which the intercepts alone are taken.
    tol : float
        Relative suboptimality to reach. What does not come so near soon is left where it is, and its gap tells.
    interior : bool
        Whether interior points come first, and coordinates if those have not ended; else the other way round.
    limits : DualLimits, optional
        Sizes.

    Returns
    -------
    Dual or None
        None where it does not apply: other losses, noise, columns without a prior, rows elsewhere, no compiler.
    """
    if not has_dual(energy):
        return None
    limits = DualLimits() if limits is None else limits
    n, p = energy.moments.design.shape
    best: Dual | None = None
    for inside in (interior, not interior):
        if not inside:
            other = solve_by_coordinates(energy, weights, tol, limits)
        else:
            within = interior or n * p**2 <= limits.multiplications
            other = solve_interior(energy, weights, tol) if within else None
        if other is not None and (best is None or np.sum(other.gap) < np.sum(best.gap)):
            best = other
        if best is not None and _has_ended(energy, best, tol):
            break
    return best


def _has_ended(energy: Energy, found: Dual, tol: float) -> bool:
    mean, var = energy.moments.scores(found.weights)
    value = energy.value(found.weights, mean, var, np.zeros(len(found.gap)))
    return bool(np.all(found.gap <= tol * np.abs(value)))


def on_their_kinks(
    energy: Energy, mean: PerRow, pull: PerRow, half_width: float = 1e-9, far: float = 1e-6
) -> tuple[PerRow, float]:
    """Scores (n, K) whose slopes are ``−β`` at the variance that is returned with them.

    A score on a kink is known to the root of the gap, and its slope depends on where in the kink it lies, which has a
    ``half_width``; a share of a slope within ``far`` of one of the ends counts as the end.
    """
    kink, low, high = energy.kinks[0]
    if len(energy.kinks) > 1:
        # Of two kinks β is between zero and one of the ends.
        first = (pull > 0) | ((pull == 0) & (2 * mean < kink + energy.kinks[1][0]))
        kink, low, high = (np.where(first, *both) for both in zip(*energy.kinks, strict=True))
    share = np.clip((pull - low) / np.maximum(high - low, LEAST), far, 1 - far)
    place = half_width * (2 * share - 1) / (2 * np.sqrt(share * (1 - share)))
    distance = kink - mean
    end = np.where(share == far, np.minimum(distance, place), np.maximum(distance, place))
    return kink - np.where((share > far) & (share < 1 - far), place, end), half_width**2


def has_dual(energy: Energy) -> bool:
    """Whether the energy is the maximum that is stated above, in weights that are a multiple of those."""
    moments, loss = energy.moments, cast(PiecewiseLinear, energy.loss)
    gain, shift = moments.coefficients[:2]
    # Smooth losses first: to look for the methods of a protocol where they are not takes as long as a step.
    if not (loss.piecewise_linear and isinstance(loss, PiecewiseLinear)) or energy.plain_weight is not None:
        return False
    if moments.has_variance or np.any(shift) or not np.all(gain > 0):
        return False
    return bool(np.all(energy.precision[:-1] > 0))
