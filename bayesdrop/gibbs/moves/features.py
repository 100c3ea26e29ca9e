"""Moves of the mask sampler: one feature at a time with its masks summed out.

All functions work on *effective* weights ``v_d = w_d k(η_d)``, with ``k`` the factor of a kept entry (1 for biased
dropout, ``1/(1 − η)`` for unbiased). The score ``Σ_d v_d x_id α_id`` then does not depend on the rates, which enter
only the prior of the masks and ``v_d | η_d ~ N(kμ_d, k(η_d)²/P_d)``.

A rate is stored as its logit ``l = log η − log(1 − η)``, which resolves both ends in any precision: a Beta prior with a
small shape puts much of its mass nearer to 0 or 1 than a rate in single precision can come. Densities of rates are
densities of the logit, as in :class:`bayesdrop.priors.rate_prior.BetaLaw`.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``m`` entries per column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float, Int, Shaped
from ...distributions.draws import where_needed
from ...sampling.slice_sampling import slice_sample
from .columns import gather, scatter

__all__ = [
    "FeatureLevel",
    "FeatureStep",
    "log_mask_sum",
    "log_weight",
    "uniform_masks",
    "update_feature",
]

Elementwise = Float[jax.Array, "..."]
Cost = Callable[[Elementwise, Elementwise, Elementwise], Elementwise]


def log_mask_sum(gain: Elementwise, logit: Elementwise) -> Elementwise:
    """``log[(1 − η) e^g + η]``, a mask summed out, with ``g`` the log-likelihood gained by keeping; elementwise.

    It is ``log(e^g + e^l) − log(1 + e^l)``. The two are subtracted part by part, so that no digits cancel if ``g`` or
    ``l`` is large.
    """
    larger = jnp.maximum(gain, logit) - jnp.maximum(logit, 0)
    return larger + (jnp.log(1 + jnp.exp(-jnp.abs(gain - logit))) - jnp.log(1 + jnp.exp(-jnp.abs(logit))))


def uniform_masks(key: PRNGKeyArray, old: Sequence[Bool[jax.Array, "_ C _"]]) -> tuple[Float[jax.Array, "_ C _"], ...]:
    """Uniform numbers for new masks, shaped like the ``old`` ones."""
    return tuple(jax.random.uniform(jax.random.fold_in(key, i), mask.shape, jnp.float32) for i, mask in enumerate(old))


class FeatureLevel(NamedTuple):
    """Prior of the intercept at the means of the columns, as a function of one weight.

    Attributes
    ----------
    place, precision : array ()
        Mean of the column, and precision of the prior.
    level : array (C,)
        Intercept at the means of the other columns, less the mean of the prior.
    """

    place: Float[jax.Array, ""]
    precision: Float[jax.Array, ""]
    level: Float[jax.Array, " C"]

    def log_density(self, weight: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
        """Log prior density of the intercept given the weight, up to a constant, (C,)."""
        return -0.5 * self.precision * jnp.square(self.level + weight * self.place)


class FeatureStep(NamedTuple):
    """Data and variables of the update of one feature, except the scores; with classes, each has its own weight.

    Attributes
    ----------
    values, rows : array (m,)
        Column of the feature, see :class:`bayesdrop.gibbs.moves.columns.Block`; ``rows`` may be None.
    target, row_weight : array (m,)
        Label and loss weight of each entry's row; with classes the label is the membership, bool (K, m).
    mask : bool array (C, m)
        Mask of each entry.
    uniform : array (C, m)
        Uniform numbers for the new masks.
    weight, precision : array (C,) or (K, C)
        Effective weight, and precision of the weight's prior.
    logit : array (C,)
        Logit of the rate.
    prior : BetaLaw of shape (C,) or None
        Prior of the rate; None if it is not drawn.
    key : key
        Random key.
    weight_width : array (), optional
        First width of the weight's slice interval.
    location : array (), optional
        Mean of the weight's prior; None if it is 0.
    level : FeatureLevel, optional
        Prior of the intercept; None if it is flat.
    """

    values: Float[jax.Array, " m"]
    rows: Int[jax.Array, " m"] | None
    target: Shaped[jax.Array, "*classes m"]
    row_weight: Float[jax.Array, " m"]
    mask: Bool[jax.Array, "C m"]
    uniform: Float[jax.Array, "C m"]
    weight: Float[jax.Array, "*classes C"]
    logit: Float[jax.Array, " C"]
    precision: Float[jax.Array, "*classes C"]
    prior: Any
    key: PRNGKeyArray
    weight_width: Any = None
    location: Float[jax.Array, ""] | None = None
    level: FeatureLevel | None = None


def log_weight(
    weight: Elementwise, log_multiplier: Elementwise, precision: Elementwise, location: Elementwise | None = None
) -> Elementwise:
    """Log density of effective weights, ``v ~ N(kμ, k²/P)``, up to a constant, elementwise; ``log k`` is given."""
    scaled = weight * jnp.exp(-log_multiplier)
    scaled = scaled if location is None else scaled - location
    return -0.5 * precision * scaled * scaled - log_multiplier


def update_feature(
    cost: Cost,
    log_multiplier: Callable[[Elementwise], Elementwise],
    learn_rate: bool,
    thorough: Bool[jax.Array, ""],
    score: Float[jax.Array, "C n"],
    step: FeatureStep,
) -> tuple[Float[jax.Array, "C n"], tuple[Float[jax.Array, " C"], Float[jax.Array, " C"], Bool[jax.Array, "C m"]]]:
    """Draw ``v_d``, then ``η_d``, each with the masks summed out, then the masks; only the masks unless ``thorough``.

    A rate of 0, with the logit −∞, stays as it is: the feature has no noise.

    With ``g_i`` the log-likelihood that row ``i`` gains if the entry is kept, the density of ``(v_d, η_d)`` is
    ``N(v_d; kμ_d, k²/P_d) p(η_d) Π_i [(1 − η_d) e^{g_i(v_d)} + η_d]`` and a mask is kept with probability
    ``(1 − η_d) e^{g_i} / [(1 − η_d) e^{g_i} + η_d] = σ(g_i − l_d)``.

    Returns
    -------
    score, (weight, logit, mask)
        New values.
    """
    shape = step.mask.shape
    values = jnp.broadcast_to(step.values[None], shape)
    target, row_weight = jnp.broadcast_to(step.target[None], shape), jnp.broadcast_to(step.row_weight[None], shape)
    contribution = jnp.where(step.mask, values * step.weight[:, None], 0)
    base = gather(score, step.rows) - contribution
    dropped_cost = cost(target, base, row_weight)

    def gain(weight: Float[jax.Array, " C"]) -> Float[jax.Array, "C m"]:
        return dropped_cost - cost(target, base + weight[:, None] * values, row_weight)

    factor = log_multiplier(step.logit)

    def weight_density(weight: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
        terms = log_mask_sum(gain(weight), step.logit[:, None])
        density = jnp.sum(terms, axis=-1) + log_weight(weight, factor, step.precision, step.location)
        return density if step.level is None else density + step.level.log_density(weight)

    key_weight, key_rate = jax.random.split(step.key)
    width = step.weight_width * jnp.ones_like(step.weight)

    def draw_weight(weight: Float[jax.Array, " C"], key: PRNGKeyArray) -> Float[jax.Array, " C"]:
        return slice_sample(key, weight_density, weight, width)

    weight = where_needed(thorough, draw_weight, step.weight, key_weight)
    gained = gain(weight)
    logit = step.logit
    if learn_rate:

        def rate_density(logit: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
            total = jnp.sum(log_mask_sum(gained, logit[:, None]), axis=-1)
            prior = step.prior.log_density(logit)
            return total + prior + log_weight(weight, log_multiplier(logit), step.precision, step.location)

        def draw_rate(logit: Float[jax.Array, " C"], key: PRNGKeyArray) -> Float[jax.Array, " C"]:
            return slice_sample(key, rate_density, logit, step.prior.width())

        noised = jnp.isfinite(logit)
        logit = jnp.where(noised, where_needed(thorough, draw_rate, jnp.where(noised, logit, 0), key_rate), logit)
    chance = jax.nn.sigmoid(gained - logit[:, None])
    mask = (step.uniform < chance.astype(step.uniform.dtype)) | (step.values == 0)[None]
    change = jnp.where(mask, values * weight[:, None], 0) - contribution
    return scatter(score, step.rows, change), (weight, logit, mask)
