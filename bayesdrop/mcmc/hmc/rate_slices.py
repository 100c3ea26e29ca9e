r"""Rates that many features share, drawn one by one given the weights.

Near the ends of (0, 1) the posterior of a rate is no normal one on any scale, and a trajectory that suits thousands of
weights moves it slowly. Given the weights the moments of the scores are linear in what the noise makes of the rate,

    m = m' + g(η_j) X(w∘1_j),      v = v' + a(η_j) X²(w²∘1_j),

with ``1_j`` the features that have it: two products a rate, and every trial of a slice is work on the rows alone.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``k`` rates, ``D`` coordinates.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import PRNGKeyArray

from ..._typing import Float
from ..matrix import pair_product
from ..slice_sampling import slice_sample
from .density import Density, DensityOperands, Point

__all__ = ["draw_rates", "has_rates"]

# Rates up to which they are drawn one by one, and the first width of a slice on the probit scale, where a flat prior is
# standard normal.
_FEW, _WIDTH = 8, 2.0


def has_rates(density: Density) -> bool:
    """True if there are few rates, and noise of the form that the products need."""
    simple = density.quadratic and not (density.linear or density.constant or density.shift)
    return density.integrated and simple and 0 < density.free <= _FEW


def draw_rates(
    key: PRNGKeyArray, density: Density, operands: DensityOperands, theta: Point, backwards: bool = False
) -> Point:
    """Points (C, D) with the probits of the rates drawn anew, each given all else, in their order or backwards."""
    p, first = operands.precision.shape[0], theta.shape[1] - density.free
    weight, _ = density.weights(theta, p)
    mean, var = density.moments(operands, theta)
    order = range(density.free)
    for j in reversed(order) if backwards else order:
        own = (operands.index == j).astype(theta.dtype)[None]
        by_mean, by_var = pair_product(operands.matrix, weight * own, weight * weight * own)
        law = jax.tree.map(lambda part, j=j: part[j], operands.rate_prior)

        def noise(u: Float[jax.Array, " C"]) -> Any:
            return density.noise.coefficients(ndtr(u), ndtr(-u))

        start = theta[:, first + j]
        before = noise(start)
        rest = mean - before.gain[:, None] * by_mean, var - before.quadratic[:, None] * by_var

        def at(u: Float[jax.Array, " C"], rest: Any = rest, by_mean: Any = by_mean, by_var: Any = by_var) -> Any:
            found = noise(u)
            square = jnp.maximum(rest[1] + found.quadratic[:, None] * by_var, 0)
            return rest[0] + found.gain[:, None] * by_mean, square

        cost = density.cost(operands, *at(start))[0]

        def log_density(u: Float[jax.Array, " C"], cost: Any = cost, at: Any = at, law: Any = law) -> Any:
            prior = law.log_rate_density(log_ndtr(u), log_ndtr(-u)) - 0.5 * u * u
            # Row by row, which keeps the digits.
            return prior + jnp.sum(cost - density.cost(operands, *at(u))[0], axis=1)

        new = slice_sample(jax.random.fold_in(key, j), log_density, start, jnp.full_like(start, _WIDTH))
        mean, var = at(new)
        theta = theta.at[:, first + j].set(new)
    return theta
