r"""Means and strengths of groups of rates, given the rates.

    η_d ~ Beta(μ_j s_j, (1 − μ_j) s_j),      μ_j ~ Beta(a, b),      s_j ~ Gamma(shape, scale)

Given the rates the groups are independent of the data, and their two numbers are drawn in turn by slice sampling, on
the scales of ``logit μ`` and ``log s``, where they are close to orthogonal and close to normal. Where the data say
little of single rates this hardly moves, and the joint move (:mod:`.gibbs_joint`) takes a group along with its rates.

The Beta density is evaluated as ``−s·KL(μ, η)`` plus Stirling's terms, so that nothing of the size of ``s`` cancels:
sums over thousands of rates keep their digits in single precision.

Shapes: ``C`` chains, ``k`` rates, ``g`` groups.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from ..rates import Hierarchy
from .gibbs_groups import by_group
from .gibbs_moves import slice_sample

__all__ = ["HierarchyOperands", "draw_groups", "hierarchy_operands", "in_support", "log_beta_density", "log_hyperprior"]

Array = Any

# Means and strengths are drawn in turn, so many times a sweep.
_ROUNDS = 3
# Ends of logit μ and log s, far beyond what a proper prior makes likely.
_LOGIT, _LOG_STRENGTH = 12.0, 11.0


class HierarchyOperands(NamedTuple):
    """Groups of the rates and their priors.

    Attributes
    ----------
    index : int array (k,)
        Group of each rate.
    mean_a, mean_b : array (g,)
        Beta priors of the means.
    shape, scale : array ()
        Gamma prior of the strengths.
    """

    index: Array
    mean_a: Array
    mean_b: Array
    shape: Array
    scale: Array


def hierarchy_operands(hierarchy: Hierarchy, dtype: Any) -> HierarchyOperands:
    """Bring the groups of a rate structure into the form of the sampler."""
    a, b = hierarchy.mean_prior.concentrations(np.zeros(len(hierarchy.names)))
    return HierarchyOperands(
        index=jnp.asarray(hierarchy.index, dtype=jnp.int32),
        mean_a=jnp.asarray(a, dtype=dtype),
        mean_b=jnp.asarray(b, dtype=dtype),
        shape=jnp.asarray(hierarchy.strength_prior.shape, dtype=dtype),
        scale=jnp.asarray(hierarchy.strength_prior.scale, dtype=dtype),
    )


def _stirling(x: Array) -> Array:
    """``log Γ(x) − [(x − ½) log x − x + ½ log 2π]``, the remainder of Stirling's formula."""
    small = jnp.minimum(x, 8)
    direct = gammaln(small) - ((small - 0.5) * jnp.log(small) - small + 0.5 * math.log(2 * math.pi))
    inverse = 1 / jnp.maximum(x, 8)
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return jnp.where(x < 8, direct, series)


def log_beta_density(rate: Array, mean: Array, strength: Array) -> Array:
    """Log density of ``Beta(μs, (1 − μ)s)``, normalised, elementwise."""
    tiny = jnp.finfo(rate.dtype).tiny
    log_rate, log_rest = jnp.log(jnp.maximum(rate, tiny)), jnp.log(jnp.maximum(1 - rate, tiny))
    up, down = mean * strength, (1 - mean) * strength
    divergence = mean * (jnp.log(mean) - log_rate) + (1 - mean) * (jnp.log1p(-mean) - log_rest)
    stirling = _stirling(strength) - _stirling(up) - _stirling(down)
    normaliser = 0.5 * (jnp.log(up) + jnp.log1p(-mean) - math.log(2 * math.pi)) + stirling
    return normaliser - strength * divergence - log_rate - log_rest


def log_hyperprior(operands: HierarchyOperands, mean: Array, strength: Array) -> Array:
    """Log prior density of ``(logit μ, log s)`` up to a constant, elementwise, (C, g)."""
    row = lambda value: jnp.broadcast_to(value.reshape(1, -1), mean.shape)  # noqa: E731
    centre = row(operands.mean_a) * jnp.log(mean) + row(operands.mean_b) * jnp.log1p(-mean)
    return centre + row(operands.shape) * jnp.log(strength) - strength / row(operands.scale)


def in_support(mean: Array, strength: Array) -> Array:
    """True where ``draw_groups`` could draw such a group, elementwise."""
    logit, log_strength = jnp.log(mean) - jnp.log1p(-mean), jnp.log(strength)
    return (jnp.abs(logit) < _LOGIT) & (jnp.abs(log_strength) < _LOG_STRENGTH)


def draw_groups(
    key: Array, operands: HierarchyOperands, rate: Array, mean: Array, strength: Array
) -> tuple[Array, Array]:
    """Draw ``μ`` and ``s`` (C, g) given the rates (C, k)."""
    groups = mean.shape[1]

    def log_density(logit: Array, log_strength: Array) -> Array:
        mean, strength = jax.nn.sigmoid(logit), jnp.exp(log_strength)
        terms = log_beta_density(rate, mean[:, operands.index], strength[:, operands.index])
        return by_group(terms.T, operands.index, groups).T + log_hyperprior(operands, mean, strength)

    width = jnp.full(mean.shape, 2, mean.dtype)

    def one(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        logit, log_strength = carry
        key_mean, key_strength = jax.random.split(jax.random.fold_in(key, i))
        logit = slice_sample(key_mean, lambda x: log_density(x, log_strength), logit, width, -_LOGIT, _LOGIT)
        log_strength = slice_sample(
            key_strength, lambda x: log_density(logit, x), log_strength, width, -_LOG_STRENGTH, _LOG_STRENGTH
        )
        return logit, log_strength

    start = jnp.log(mean) - jnp.log1p(-mean), jnp.log(strength)
    logit, log_strength = jax.lax.fori_loop(0, _ROUNDS, one, start)
    return jax.nn.sigmoid(logit), jnp.exp(log_strength)
