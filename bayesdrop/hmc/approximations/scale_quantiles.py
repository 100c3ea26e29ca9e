"""Transform log scales so that their posterior is close to standard normal, for gradient samplers.

The likelihood does not depend on a scale near 0, so that the density of its logarithm ``t`` has a tail ``e^t``, however
narrow its bulk is. Steps that suit the bulk do not reach the tail. The coordinate of the scale is
therefore ``u = Φ⁻¹{F(δ)}``, with ``F`` the distribution function of ``δ`` in a normal approximation, the other scales
fixed at the values of the approximation. Its inverse is a cubic Hermite interpolant between knots, linear beyond them.
The derivative is exact; how well ``F`` approximates the posterior affects efficiency only.

Shapes: ``C`` chains, ``g`` scales, ``k`` knots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float
from ...sampling.matrix import placed

__all__ = ["ScaleQuantiles", "scale_quantiles"]


@dataclass(frozen=True)
class Rules:
    """Points at which a distribution function is computed and interpolated.

    Attributes
    ----------
    last, knots : float, int
        Largest knot of ``u``, beyond which lies a probability of 3e-7, and number of knots.
    farthest, points : float, int
        Largest ``δ`` at which the density is computed, and number of these ``δ``; between them its logarithm is
        smooth, beyond them linear.
    fine : float
        Step of the sums over ``δ``.
    """

    last: float = 5.0
    knots: int = 81
    farthest: float = 12.0
    points: int = 97
    fine: float = 1e-3


RULES = Rules()
_KNOTS = np.linspace(-RULES.last, RULES.last, RULES.knots)
_GRID = np.linspace(-RULES.farthest, RULES.farthest, RULES.points)


class ScaleQuantiles(NamedTuple):
    """``δ = F⁻¹{Φ(u)}`` of each scale.

    Attributes
    ----------
    value, slope : array (g, k)
        ``δ`` and its derivative in ``u`` at the knots.
    """

    value: Float[jax.Array, "g k"]
    slope: Float[jax.Array, "g k"]

    def at(self, u: Float[jax.Array, "C g"]) -> tuple[Float[jax.Array, "C g"], Float[jax.Array, "C g"]]:
        """``δ`` and the logarithm of its derivative."""
        width, last = float(_KNOTS[1] - _KNOTS[0]), len(_KNOTS) - 1
        place = (jnp.clip(u, _KNOTS[0], _KNOTS[-1]) - _KNOTS[0]) / width
        left = jnp.clip(jnp.floor(place), 0, last - 1).astype(jnp.int32)
        x, group = place - left.astype(u.dtype), jnp.arange(u.shape[1])[None]
        low, high = self.value[group, left], self.value[group, left + 1]
        first, second = width * self.slope[group, left], width * self.slope[group, left + 1]
        rise = high - low
        bend, twist = 3 * rise - 2 * first - second, first + second - 2 * rise
        slope = (first + x * (2 * bend + 3 * x * twist)) / width
        beyond = slope * (u - jnp.clip(u, _KNOTS[0], _KNOTS[-1]))
        return low + x * (first + x * (bend + x * twist)) + beyond, jnp.log(slope)


def scale_quantiles(log_density: Callable[[Any], Any], groups: int, dtype: Any) -> ScaleQuantiles:
    """Quantiles of each of ``groups`` scales about ``δ = 0``.

    ``log_density`` takes JAX arrays (points, g) of ``δ`` to log densities (points,).
    """
    from scipy.interpolate import CubicSpline, PchipInterpolator
    from scipy.stats import norm

    real, values, slopes = partial(placed, dtype=dtype), [], []
    each = jax.jit(lambda at: jax.lax.map(lambda delta: log_density(delta[None])[0], at))
    fine = np.arange(3 * _GRID[0], 2 * _GRID[-1], RULES.fine)
    for j in range(groups):
        log_density_at = np.asarray(each(real(np.outer(_GRID, np.arange(groups) == j))), float)
        # In single precision the density may overflow within the grid.
        is_finite = np.isfinite(log_density_at)
        grid = _GRID[is_finite]
        spline, inside = CubicSpline(grid, log_density_at[is_finite]), np.clip(fine, grid[0], grid[-1])
        log_p = spline(inside) + spline(inside, 1) * (fine - inside)
        log_cdf, log_tail = (np.logaddexp.accumulate(part) for part in (log_p, log_p[::-1]))
        log_cdf, log_tail = log_cdf - log_cdf[-1], log_tail - log_tail[-1]
        lower, upper = _KNOTS[_KNOTS <= 0], _KNOTS[_KNOTS > 0]
        value = np.interp(norm.logcdf(lower), log_cdf, fine)
        value = np.append(value, -np.interp(norm.logcdf(-upper), log_tail, -fine[::-1]))
        values.append(value)
        slopes.append(PchipInterpolator(_KNOTS, value)(_KNOTS, 1))
    return ScaleQuantiles(real(np.array(values)), real(np.array(slopes)))
