"""Draw from densities on the real line whose logarithm is concave, by rejection.

Beyond a point at which the logarithm is one below its peak, a concave function lies below the line through the peak
and that point (after Devroye 1986, section VII.2). At least 46 % of the proposals are accepted.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import PRNGKeyArray

from .._typing import Bool, Float

__all__ = ["bisect", "draw_log_concave", "reach"]

Elementwise = Float[jax.Array, "*shape"]
Carry = tuple[PRNGKeyArray, Elementwise, Bool[jax.Array, "*shape"]]

# Number of bisections of an interval, more than the digits of double precision need.
_HALVINGS = 60


def draw_log_concave(
    key: PRNGKeyArray, log_density: Callable[[Elementwise], Elementwise], peak: Elementwise, shape: tuple[int, ...]
) -> Elementwise:
    """Draw from an array of densities with the given peaks; ``shape`` ends with the shape of ``peak``."""
    low, high = (peak + sign * _fall(log_density, peak, sign) for sign in (-1, 1))
    peak, low, high = (jnp.broadcast_to(part, shape) for part in (peak, low, high))
    log_peak, tiny = log_density(peak), jnp.finfo(peak.dtype).tiny

    def attempt(carry: Carry) -> Carry:
        key, y, done = carry
        key, key_draw = random.split(key)
        u, v, w = random.uniform(key_draw, (3, *shape), peak.dtype, minval=tiny)
        # The envelope is 1 on (low, high), and e^{−t} beyond, with t = 1 at low and high and t = 0 at the peak.
        middle, tail = high - low, jnp.exp(-1.0).astype(peak.dtype)
        u = u * middle * (1 + tail)
        right = u < middle + tail * (high - peak)
        t = 1 - jnp.log(v)
        outside = jnp.where(right, peak + t * (high - peak), peak - t * (peak - low))
        proposal = jnp.where(u < middle, low + v * middle, outside)
        bound = jnp.where(u < middle, jnp.zeros_like(t), -t)
        accept = ~done & (jnp.log(w) + bound <= log_density(proposal) - log_peak)
        return key, jnp.where(accept, proposal, y), done | accept

    return lax.while_loop(lambda carry: ~jnp.all(carry[2]), attempt, (key, peak, jnp.zeros(shape, bool)))[1]


def _fall(log_density: Callable[[Elementwise], Elementwise], peak: Elementwise, sign: int) -> Elementwise:
    """Distance from the peak to one side at which the log density is one below the peak."""
    bound = log_density(peak) - 1

    def above(t: Elementwise) -> Bool[jax.Array, "*shape"]:
        return log_density(peak + sign * t) >= bound

    limit = reach(lambda t: ~above(t), jnp.ones_like(peak))
    return bisect(above, jnp.zeros_like(limit), limit)


def reach(holds: Callable[[Elementwise], Bool[jax.Array, "*shape"]], step: Elementwise) -> Elementwise:
    """Double the step until the condition holds."""
    return lax.fori_loop(0, _HALVINGS, lambda _, t: jnp.where(holds(t), t, 2 * t), step)


def bisect(
    low_side: Callable[[Elementwise], Bool[jax.Array, "*shape"]], low: Elementwise, high: Elementwise
) -> Elementwise:
    """Upper end of the interval, from ``low`` on, in which the condition holds."""

    def halve(_: int, ends: tuple[Elementwise, Elementwise]) -> tuple[Elementwise, Elementwise]:
        middle = 0.5 * (ends[0] + ends[1])
        below = low_side(middle)
        return jnp.where(below, middle, ends[0]), jnp.where(below, ends[1], middle)

    return lax.fori_loop(0, _HALVINGS, halve, (low, high))[1]
