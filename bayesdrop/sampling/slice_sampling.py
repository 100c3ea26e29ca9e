"""Slice sampling of many one-dimensional problems at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from .._typing import Bool, Float

__all__ = ["slice_sample"]

Elementwise = Float[jax.Array, "..."]


def slice_sample(
    key: PRNGKeyArray,
    log_density: Callable[[Elementwise], Elementwise],
    start: Float[jax.Array, "*problems"],
    width: Float[jax.Array, "*problems"],
    trials: int = 100,
) -> Float[jax.Array, "*problems"]:
    """Slice sampling on an interval of given width, placed at random and shrunk (Neal 2003, figures 3 and 5).

    The interval is not stepped out, so every trial is an evaluation that may be accepted; any width leaves the
    density invariant, provided it does not depend on ``start``. Each entry of ``start`` is a problem of its own.

    Parameters
    ----------
    key : key
        Random key.
    log_density : callable
        From points shaped like ``start`` to log densities of the same shape; independent across entries.
    start : array
        Current points, of positive density.
    width : array
        Width of the first interval, shaped like ``start``.
    """
    key_level, key_place, key_trial = jax.random.split(key, 3)
    level = log_density(start) - jax.random.exponential(key_level, start.shape, start.dtype)
    left = start - width * jax.random.uniform(key_place, start.shape, start.dtype)
    right = left + width

    def unfinished(carry: Any) -> Bool[jax.Array, ""]:
        return (carry[0] < trials) & ~jnp.all(carry[4])

    def trial(carry: Any) -> Any:
        count, left, right, point, done = carry
        uniform = jax.random.uniform(jax.random.fold_in(key_trial, count), start.shape, start.dtype)
        proposed = left + (right - left) * uniform
        accepted = ~done & (log_density(proposed) >= level)
        left = jnp.where(proposed < start, proposed, left)
        right = jnp.where(proposed < start, right, proposed)
        return count + 1, left, right, jnp.where(accepted, proposed, point), done | accepted

    begin = (jnp.int32(0), left, right, start, jnp.zeros(start.shape, bool))
    return jax.lax.while_loop(unfinished, trial, begin)[3]
