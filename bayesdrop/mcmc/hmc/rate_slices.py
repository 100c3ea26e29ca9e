r"""Rates that many features share, drawn one by one given the weights.

Near the ends of (0, 1) the posterior of a rate is no normal one on any scale, and a trajectory that suits thousands of
weights moves it slowly. Given the weights the moments of the scores are linear in what the noise makes of the rate,

    m = m' + g(η_j) X(w∘1_j),      v = v' + a(η_j) X²(w²∘1_j),

with ``1_j`` the features that have it: two products a rate, and every trial of a slice is work on the rows alone.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``k`` rates, ``D`` coordinates.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import PRNGKeyArray

from ..._typing import Float
from ..matrix import pair_product
from ..slice_sampling import slice_sample
from .density import Density, DensityOperands, Point
from .streamed.density import StreamedRows

__all__ = ["draw_rate", "draw_rates", "draw_rates_by_passes", "has_rates"]

# Rates up to which they are drawn one by one, and the first width of a slice on the probit scale, where a flat prior is
# standard normal.
_FEW, _WIDTH = 8, 2.0


def has_rates(density: Density) -> bool:
    """True if there are few rates, and noise of the form that the products need."""
    simple = density.quadratic and not (density.linear or density.constant or density.shift)
    return density.integrated and simple and 0 < density.free <= _FEW


def draw_rates(key: PRNGKeyArray, density: Density, operands: DensityOperands, theta: Point) -> Point:
    """Points (C, D) with the probits of the rates drawn anew, each given all else, in their order."""
    weight, _ = density.weights(theta, operands.precision.shape[0])
    mean, var = density.moments(operands, theta)
    for j in range(density.free):
        own = (operands.index == j).astype(theta.dtype)[None]
        of_rate = pair_product(operands.matrix, weight * own, weight * weight * own)
        theta, mean, var = draw_rate(key, density, operands, theta, j, (mean, var), of_rate)
    return theta


def draw_rate(
    key: PRNGKeyArray, density: Density, operands: DensityOperands, theta: Point, j: Any, moments: Any, of_rate: Any
) -> tuple[Point, Any, Any]:
    """Points (C, D) with one probit drawn anew, and the moments (C, n) of the scores there.

    ``moments`` are those before, ``of_rate`` are ``X(w∘1_j)`` and ``X²(w²∘1_j)``.
    """
    first, (mean, var), (by_mean, by_var) = theta.shape[1] - density.free, moments, of_rate
    law = jax.tree.map(lambda part: part[j], operands.rate_prior)

    def noise(u: Float[jax.Array, " C"]) -> Any:
        return density.noise.coefficients(ndtr(u), ndtr(-u))

    start = theta[:, first + j]
    before = noise(start)
    rest = mean - before.gain[:, None] * by_mean, var - before.quadratic[:, None] * by_var

    def at(u: Float[jax.Array, " C"]) -> Any:
        found = noise(u)
        square = jnp.maximum(rest[1] + found.quadratic[:, None] * by_var, 0)
        return rest[0] + found.gain[:, None] * by_mean, square

    cost = density.cost(operands, *at(start))[0]

    def log_density(u: Float[jax.Array, " C"]) -> Any:
        prior = law.log_rate_density(log_ndtr(u), log_ndtr(-u)) - 0.5 * u * u
        # Row by row, which keeps the digits.
        return prior + jnp.sum(cost - density.cost(operands, *at(u))[0], axis=1)

    new = slice_sample(jax.random.fold_in(key, j), log_density, start, jnp.full_like(start, _WIDTH))
    return theta.at[:, first + j].set(new), *at(new)


def draw_rates_by_passes(
    key: PRNGKeyArray, density: Density, operands: DensityOperands, rows: StreamedRows, theta: Point
) -> Point:
    """The same of rows that Python goes through, in their order; the operands have none."""
    real = partial(jnp.asarray, dtype=theta.dtype)
    held = operands._replace(
        target=real(rows.target),
        row_weight=real(rows.row_weight),
        offset=None if rows.offset is None else real(rows.offset),
    )
    p, k = operands.precision.shape[0], density.free
    weight = np.asarray(theta[:, :p], np.float64).T
    index = np.asarray(operands.index)[:, None]
    each = [rows.design.pair_matvec(weight * (index == j), weight**2 * (index == j)) for j in range(k)]
    of_rates = [tuple(real(part.T) for part in pair) for pair in each]
    moments = _moments(density, operands, theta, of_rates)
    for j, of_rate in enumerate(of_rates):
        theta, *moments = _draw_rate(key, density, held, theta, np.int32(j), moments, of_rate)
    return theta


@partial(jax.jit, static_argnames=("density",))
def _moments(density: Density, operands: DensityOperands, theta: Point, of_rates: Any) -> tuple[Any, Any]:
    """Moments of the scores (C, n), of what each rate has of them."""
    noise = density.noise.coefficients(*(ndtr(sign * theta[:, theta.shape[1] - density.free :]) for sign in (1, -1)))
    mean = density.weights(theta, operands.precision.shape[0])[1][:, None]
    var = jnp.zeros_like(mean)
    for j, (by_mean, by_var) in enumerate(of_rates):
        mean, var = mean + noise.gain[:, j, None] * by_mean, var + noise.quadratic[:, j, None] * by_var
    return mean, var


_draw_rate = jax.jit(draw_rate, static_argnames=("density",))
