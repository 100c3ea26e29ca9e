"""Moves of the mask sampler: slice sampling, and one feature at a time with its masks summed out.

Everything here works on *effective* weights ``v_d = w_d k(η_d)``, with ``k`` what a kept entry is multiplied by (1 for
biased dropout, ``1/(1 − η)`` for unbiased). The score ``Σ_d v_d x_id α_id`` then never sees the rates, whose whole
influence is the prior of the masks and ``v_d | η_d ~ N(0, k(η_d)²/P_d)``.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``m`` entries a column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..branch import where_needed
from .gibbs_columns import gather, scatter

__all__ = [
    "FeatureStep",
    "ends",
    "log_beta",
    "log_weight",
    "mask_terms",
    "slice_sample",
    "uniform_masks",
    "update_feature",
]

Array = Any
Cost = Callable[[Array, Array, Array], Array]

_TRIALS = 100


def slice_sample(
    key: Array, log_density: Callable[[Array], Array], start: Array, width: Array, low: float, high: float
) -> Array:
    """Slice sampling on an interval of given width, placed at random and shrunk (Neal 2003, figures 3 and 5).

    The interval is not stepped out, so every trial is an evaluation that may be accepted; any width leaves the
    density invariant. Each entry of ``start`` is a problem of its own.

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
    low, high : float
        Ends of the support.
    """
    key_level, key_place, key_trial = jax.random.split(key, 3)
    level = log_density(start) - jax.random.exponential(key_level, start.shape, start.dtype)
    left = start - width * jax.random.uniform(key_place, start.shape, start.dtype)
    right = jnp.minimum(left + width, high)
    left = jnp.maximum(left, low)

    def unfinished(carry: Any) -> Array:
        return (carry[0] < _TRIALS) & ~jnp.all(carry[4])

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


def mask_terms(gain: Array) -> tuple[Array, Array, Array]:
    """Terms ``(g⁺, a, b)`` of ``log[(1 − η) e^g + η] = g⁺ + log(a + b η)``, ``g`` the log-likelihood gained by keeping.

    ``a + bη`` lies in [0, 1], so nothing overflows; all shaped like ``gain``.
    """
    small = jnp.exp(-jnp.abs(gain))
    keeps = gain > 0
    slope = jnp.where(keeps, small - 1, 1 - small)
    return jnp.maximum(gain, 0), jnp.where(keeps, 1, small), slope


def ends(rate: Array) -> tuple[float, float]:
    """Support of a rate: the unit interval, less one unit of round-off at either end."""
    eps = float(jnp.finfo(rate.dtype).eps)
    return eps, 1 - eps


def uniform_masks(key: Array, kept: Sequence[Array]) -> tuple[Array, ...]:
    """Uniform numbers for new masks, shaped like the old ones."""
    return tuple(jax.random.uniform(jax.random.fold_in(key, i), mask.shape, jnp.float32) for i, mask in enumerate(kept))


class FeatureStep(NamedTuple):
    """What the update of one feature reads, besides the scores.

    Attributes
    ----------
    values, rows : array (m,)
        Its column, see :class:`bayesdrop.inference.gibbs_columns.Block`; ``rows`` may be None.
    target, row_weight : array (m,)
        Label and loss weight of each entry's row.
    kept : bool array (C, m)
        Masks.
    uniform : array (C, m)
        Uniform numbers for the new masks.
    weight, rate : array (C,)
        Effective weight and rate.
    weight_width, rate_width : array ()
        First widths of the slice intervals.
    precision, prior_a, prior_b : array (C,)
        Prior of the weight and of the rate.
    key : key
        Random key.
    """

    values: Array
    rows: Array | None
    target: Array
    row_weight: Array
    kept: Array
    uniform: Array
    weight: Array
    rate: Array
    weight_width: Array
    rate_width: Array
    precision: Array
    prior_a: Array
    prior_b: Array
    key: Array


def log_beta(rate: Array, a: Array, b: Array) -> Array:
    """Log density of ``Beta(a, b)`` up to a constant, elementwise; the rate is kept off 0 and 1 by one part in 10³⁸."""
    tiny = jnp.finfo(rate.dtype).tiny
    return (a - 1) * jnp.log(jnp.maximum(rate, tiny)) + (b - 1) * jnp.log(jnp.maximum(1 - rate, tiny))


def log_weight(weight: Array, multiplier: Array, precision: Array) -> Array:
    """Log density of effective weights, ``v ~ N(0, k²/P)``, up to a constant, elementwise."""
    scaled = weight / multiplier
    return -0.5 * precision * scaled * scaled - jnp.log(multiplier)


def update_feature(
    cost: Cost,
    multiplier: Callable[[Array], Array],
    learn_rate: bool,
    thorough: Array,
    score: Array,
    step: FeatureStep,
) -> tuple[Array, tuple[Array, Array, Array]]:
    """Draw ``v_d``, then ``η_d``, each with the mask column summed out, then the column; only it unless ``thorough``.

    With ``g_i`` the log-likelihood that row ``i`` gains if the entry is kept, the density of ``(v_d, η_d)`` is
    ``N(v_d; 0, k²/P_d) Beta(η_d; A, B) Π_i [(1 − η_d) e^{g_i(v_d)} + η_d]`` and a mask is kept with probability
    ``(1 − η_d) e^{g_i} / [(1 − η_d) e^{g_i} + η_d]``.

    Returns
    -------
    score, (weight, rate, kept)
        All new.
    """
    shape = step.kept.shape
    values = jnp.broadcast_to(step.values[None], shape)
    target, row_weight = jnp.broadcast_to(step.target[None], shape), jnp.broadcast_to(step.row_weight[None], shape)
    contribution = jnp.where(step.kept, values * step.weight[:, None], 0)
    base = gather(score, step.rows) - contribution
    dropped_cost = cost(target, base, row_weight)

    def gain(weight: Array) -> Array:
        return dropped_cost - cost(target, base + weight[:, None] * values, row_weight)

    factor = multiplier(step.rate)

    def weight_density(weight: Array) -> Array:
        bonus, constant, slope = mask_terms(gain(weight))
        terms = bonus + jnp.log(constant + slope * step.rate[:, None])
        return jnp.sum(terms, axis=-1) + log_weight(weight, factor, step.precision)

    key_weight, key_rate = jax.random.split(step.key)
    width = step.weight_width * jnp.ones_like(step.weight)

    def draw_weight(weight: Array) -> Array:
        return slice_sample(key_weight, weight_density, weight, width, -jnp.inf, jnp.inf)

    weight = where_needed(thorough, draw_weight, step.weight)
    gained = gain(weight)
    _, constant, slope = mask_terms(gained)
    rate = step.rate
    if learn_rate:

        def rate_density(rate: Array) -> Array:
            total = jnp.sum(jnp.log(constant + slope * rate[:, None]), axis=-1)
            prior = log_beta(rate, step.prior_a, step.prior_b)
            return total + prior + log_weight(weight, multiplier(rate), step.precision)

        def draw_rate(rate: Array) -> Array:
            return slice_sample(key_rate, rate_density, rate, step.rate_width * jnp.ones_like(rate), *ends(rate))

        rate = where_needed(thorough, draw_rate, rate)
    chance = (1 - rate[:, None]) * jnp.where(gained > 0, 1, constant) / (constant + slope * rate[:, None])
    kept = (step.uniform < chance.astype(step.uniform.dtype)) | (step.values == 0)[None]
    change = jnp.where(kept, values * weight[:, None], 0) - contribution
    return scatter(score, step.rows, change), (weight, rate, kept)
