r"""Means and strengths of groups of rates, given the rates.

    η_d ~ Beta(μ_j s_j, (1 − μ_j) s_j),      μ_j ~ Beta(a, b),      s_j ~ Gamma(shape, scale)

Given the rates the groups are independent of the data, and their two numbers are drawn in turn by slice sampling, on
the scales of ``logit μ`` and ``log s``, where they are close to orthogonal and close to normal. Where the data say
little of single rates this hardly moves, and the joint move (:mod:`.joint_move`) takes a group along with its rates.

All three, ``logit η``, ``logit μ`` and ``log s``, are what is held: each resolves its ends in any precision. The Beta
density is evaluated as ``−s·KL(μ, η)`` plus Stirling's terms, so that nothing of the size of ``s`` cancels: sums over
thousands of rates keep their digits in single precision.

Shapes: ``C`` chains, ``k`` rates, ``g`` groups.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import PRNGKeyArray

from ..._typing import Float, Int
from ...priors.beta import BetaLaw
from ...priors.rate_prior import log_rates
from ...rates import Hierarchy
from ...sampling.placing import placed
from ...sampling.slice_sampling import slice_sample
from .interweaving import by_group

__all__ = [
    "HierarchyOperands",
    "draw_groups",
    "group_law",
    "hierarchy_operands",
    "log_beta_density",
    "log_hyperprior",
    "spread",
]

Elementwise = Float[jax.Array, "*shape"]
PerGroup = Float[jax.Array, "C g"]

# Means and strengths are drawn in turn, so many times a sweep.
_ROUNDS = 3
# Beyond these logit μ and log s the law of the rates stays as it is there: all of them are 0 or 1 to 10¹⁰ digits, and
# shapes μs of the order of exp(−70) can still be divided by in single precision.
_LOGIT, _LOG_STRENGTH = 40.0, 30.0


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

    index: Int[jax.Array, " k"]  # type: ignore[assignment]  # tuples have a method of this name
    mean_a: Float[jax.Array, " g"]
    mean_b: Float[jax.Array, " g"]
    shape: Float[jax.Array, ""]
    scale: Float[jax.Array, ""]


def hierarchy_operands(hierarchy: Hierarchy, dtype: Any) -> HierarchyOperands:
    """Bring the groups of a rate structure into the form of the sampler."""
    a, b = hierarchy.mean_prior.law(np.zeros(len(hierarchy.names)))
    return HierarchyOperands(
        index=placed(hierarchy.index, np.int32),
        mean_a=placed(a, dtype),
        mean_b=placed(b, dtype),
        shape=placed(hierarchy.strength_prior.shape, dtype),
        scale=placed(hierarchy.strength_prior.scale, dtype),
    )


def _stirling(x: Elementwise) -> Elementwise:
    """``log Γ(x) − [(x − ½) log x − x + ½ log 2π]``, the remainder of Stirling's formula."""
    small = jnp.minimum(x, 8)
    direct = gammaln(small) - ((small - 0.5) * jnp.log(small) - small + 0.5 * math.log(2 * math.pi))
    inverse = 1 / jnp.maximum(x, 8)
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return jnp.where(x < 8, direct, series)


def _shapes(
    logit_mean: Elementwise, log_strength: Elementwise
) -> tuple[Elementwise, Elementwise, Elementwise, Elementwise, Elementwise]:
    """``log μ``, ``log(1 − μ)``, ``s``, ``A = μs`` and ``B = (1 − μ)s``, elementwise."""
    log_strength = jnp.clip(log_strength, -_LOG_STRENGTH, _LOG_STRENGTH)
    log_mean, log_rest = log_rates(jnp.clip(logit_mean, -_LOGIT, _LOGIT))
    up, down = jnp.exp(log_mean + log_strength), jnp.exp(log_rest + log_strength)
    return log_mean, log_rest, jnp.exp(log_strength), up, down


def group_law(logit_mean: Elementwise, log_strength: Elementwise) -> BetaLaw:
    """``Beta(μs, (1 − μ)s)`` of the rates of a group, elementwise."""
    return BetaLaw(*_shapes(logit_mean, log_strength)[-2:])


def log_beta_density(logit: Elementwise, logit_mean: Elementwise, log_strength: Elementwise) -> Elementwise:
    """Log density of the logit of a ``Beta(μs, (1 − μ)s)`` variable, normalised, elementwise."""
    log_rate, log_rest = log_rates(logit)
    log_mean, log_rest_mean, strength, up, down = _shapes(logit_mean, log_strength)
    divergence = up * (log_mean - log_rate) + down * (log_rest_mean - log_rest)
    stirling = _stirling(strength) - _stirling(up) - _stirling(down)
    return 0.5 * (jnp.log(up) + log_rest_mean - math.log(2 * math.pi)) + stirling - divergence


def spread(logit_mean: Elementwise, log_strength: Elementwise) -> Elementwise:
    """Scale of the logits of a group, elementwise: their standard deviation or a little more, whatever the shapes."""
    up, down = group_law(logit_mean, log_strength)
    return jnp.sqrt(1 + up) / up + jnp.sqrt(1 + down) / down


def log_hyperprior(operands: HierarchyOperands, logit_mean: PerGroup, log_strength: PerGroup) -> PerGroup:
    """Log prior density of ``(logit μ, log s)`` up to a constant, elementwise, (C, g)."""
    row = lambda value: jnp.broadcast_to(value.reshape(1, -1), logit_mean.shape)  # noqa: E731
    centre = BetaLaw(row(operands.mean_a), row(operands.mean_b)).log_density(logit_mean)
    return centre + row(operands.shape) * log_strength - jnp.exp(log_strength) / row(operands.scale)


def draw_groups(
    key: PRNGKeyArray,
    operands: HierarchyOperands,
    logit: Float[jax.Array, "C k"],
    logit_mean: PerGroup,
    log_strength: PerGroup,
) -> tuple[PerGroup, PerGroup]:
    """Draw ``logit μ`` and ``log s`` (C, g) given the logits of the rates (C, k)."""
    groups, shape = logit_mean.shape[1], logit_mean.shape

    def log_density(logit_mean: PerGroup, log_strength: PerGroup) -> PerGroup:
        terms = log_beta_density(logit, logit_mean[:, operands.index], log_strength[:, operands.index])
        return by_group(terms.T, operands.index, groups).T + log_hyperprior(operands, logit_mean, log_strength)

    mean_width = jnp.broadcast_to(BetaLaw(operands.mean_a, operands.mean_b).width()[None], shape)
    # As for a Beta variable: ψ'(shape) is the variance of the logarithm.
    strength_width = jnp.broadcast_to(6 * jnp.sqrt(1 + operands.shape) / operands.shape, shape)

    def one(i: Int[jax.Array, ""], carry: tuple[PerGroup, PerGroup]) -> tuple[PerGroup, PerGroup]:
        logit_mean, log_strength = carry
        key_mean, key_strength = jax.random.split(jax.random.fold_in(key, i))
        logit_mean = slice_sample(key_mean, lambda x: log_density(x, log_strength), logit_mean, mean_width)
        log_strength = slice_sample(key_strength, lambda x: log_density(logit_mean, x), log_strength, strength_width)
        return logit_mean, log_strength

    return jax.lax.fori_loop(0, _ROUNDS, one, (logit_mean, log_strength))
