r"""Scales of normal weights that are learnt, drawn twice a sweep: given the weights, and given their directions.

    w_d = σ_j u_d z_d,   z ~ N(0, I),      t_j = log σ_j

Given the weights the likelihood says nothing of a scale (:mod:`bayesdrop.priors.scale_prior`), and ``m`` weights hold
it to ``±(2m)^{−½}``: of many weights it hardly moves. Given the directions ``z`` the prior of the weights says nothing
of it, and the likelihood all: with ``c`` the share of the scores that the group of weights has, the scores along the
ray are ``s + (e^{t' − t} − 1) c``, and

    log p(t' | z) = log p(t') − loss{s + (e^{t' − t} − 1) c} + constant.

Where the one is stiff the other is loose; in turns they mix better than the better of them (ancillarity-sufficiency
interweaving; Yu & Meng 2011). Both are drawn by slices. A variance of the scores that the noise gives goes with the
square of the factor.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``g`` scales.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._typing import Float, Int
from ...priors.learnt_scale import LearntScale
from .features import slice_sample
from .interweaving import by_group

__all__ = [
    "ScaleOperands",
    "draw_along_rays",
    "draw_given_weights",
    "first_scales",
    "log_scale_prior",
    "recorded_scales",
    "scale_operands",
    "weight_precision",
]

Scales = Float[jax.Array, "C g"]
Scores = tuple[Float[jax.Array, "C n"], ...]

# Widths of the first intervals of the slices, in units of log σ; given m weights √(1 + m) times smaller.
_WIDTH = 6.0
# Chains start this far apart.
_SCATTER = 0.5


class ScaleOperands(NamedTuple):
    """Groups of weights and priors of their scales.

    Attributes
    ----------
    index : int array (p,)
        Group of each weight.
    unit_precision : array (p,)
        ``1/u²``.
    size : array (g,)
        Number of weights of each group.
    law : ScaleLaw of shape (g,)
        Priors.
    """

    index: Int[jax.Array, " p"]  # type: ignore[assignment]  # tuples have a method of this name
    unit_precision: Float[jax.Array, " p"]
    size: Float[jax.Array, " g"]
    law: Any


def scale_operands(learnt: LearntScale | None, dtype: Any) -> ScaleOperands | None:
    """Bring learnt scales into the form of the samplers; None if there are none."""
    if learnt is None:
        return None
    real = lambda value: jnp.asarray(value, dtype=dtype)  # noqa: E731
    return ScaleOperands(
        index=jnp.asarray(learnt.index, dtype=jnp.int32),
        unit_precision=real(learnt.unit**-2),
        size=real(np.bincount(learnt.index, minlength=learnt.groups)),
        law=jax.tree.map(real, learnt.law),
    )


def first_scales(key: PRNGKeyArray, operands: ScaleOperands | None, chains: int, dtype: Any) -> Scales:
    """``log σ`` to start from, (C, g): scattered about the medians; (C, 0) where there are none."""
    if operands is None:
        return jnp.zeros((chains, 0), dtype)
    median = jnp.log(operands.law.median())
    return median[None] + _SCATTER * jax.random.normal(key, (chains, median.shape[0]), dtype)


def weight_precision(operands: ScaleOperands, log_scale: Scales) -> Float[jax.Array, "C p"]:
    """Prior precision of each weight, (C, p)."""
    return operands.unit_precision[None] * jnp.exp(-2 * log_scale)[:, operands.index]


def log_scale_prior(operands: ScaleOperands, log_scale: Scales) -> Scales:
    """Log prior density of ``t = log σ`` up to a constant, (C, g)."""
    law = jax.tree.map(lambda part: jnp.broadcast_to(part[None], log_scale.shape), operands.law)
    density: Scales = law.log_density(log_scale)
    return density


def recorded_scales(
    operands: ScaleOperands, log_scale: Scales, dims: tuple[str, ...] | None
) -> tuple[Float[jax.Array, "C ..."], Float[jax.Array, " C"]]:
    """Logarithms of scales on their dims, and what they add to the log density of weights and scales themselves."""
    density = log_scale_prior(operands, log_scale) - (1 + operands.size[None]) * log_scale
    return log_scale if dims else log_scale[:, 0], jnp.sum(density, axis=1)


def draw_given_weights(
    key: PRNGKeyArray, operands: ScaleOperands, weight: Float[jax.Array, "C p"], log_scale: Scales
) -> Scales:
    """Draw ``log σ`` given the weights (C, p)."""
    square = operands.unit_precision[None] * weight * weight
    # Of weights that are all but zero the law has no lower end that this precision resolves.
    least = float(jnp.finfo(weight.dtype).tiny)
    penalty = jnp.maximum(by_group(square.T, operands.index, log_scale.shape[1]).T, least)
    size = jnp.broadcast_to(operands.size[None], log_scale.shape)

    def log_density(t: Scales) -> Scales:
        # The square is divided by σ² as a difference of logarithms, which does not overflow.
        return log_scale_prior(operands, t) - size * t - 0.5 * jnp.exp(jnp.log(penalty) - 2 * t)

    return slice_sample(key, log_density, log_scale, _WIDTH / jnp.sqrt(1 + size))


def draw_along_rays(
    key: PRNGKeyArray,
    operands: ScaleOperands,
    share: Callable[[Float[jax.Array, " p"]], Scores],
    log_likelihood: Callable[[Scores], Float[jax.Array, " C"]],
    scores: Scores,
    log_scale: Scales,
) -> tuple[Scores, Scales]:
    """Draw ``log σ`` given the directions of the weights, one group after another.

    Parameters
    ----------
    share : callable
        From a mask of features (p,), of zeros and ones, to what their weights have of each of the scores.
    log_likelihood : callable
        From scores to the log-likelihood of each chain (C,).
    scores : tuple of arrays (C, n)
        Scores, or mean and variance of noised ones: the first goes with the factor, the second with its square.
    log_scale : array (C, g)
        Where it begins.

    Returns
    -------
    scores, log_scale
        New ones; the weights of a group are to be multiplied by ``exp`` of the difference of its log scales.
    """
    chains, groups = log_scale.shape

    def one(j: Any, carry: tuple[Scores, Scales]) -> tuple[Scores, Scales]:
        scores, log_scale = carry
        start = log_scale[:, j]
        parts = share((operands.index == j).astype(start.dtype))
        law = jax.tree.map(lambda part: jnp.broadcast_to(part[j], (chains,)), operands.law)

        def at(t: Float[jax.Array, " C"]) -> Scores:
            return tuple(
                score + jnp.expm1((power + 1) * (t - start))[:, None] * part
                for power, (score, part) in enumerate(zip(scores, parts, strict=True))
            )

        def log_density(t: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
            prior: Float[jax.Array, " C"] = law.log_density(t)
            return prior + log_likelihood(at(t))

        new = slice_sample(jax.random.fold_in(key, j), log_density, start, jnp.full_like(start, _WIDTH))
        return at(new), log_scale.at[:, j].set(new)

    if groups == 1:
        return one(0, (scores, log_scale))
    return jax.lax.fori_loop(0, groups, one, (scores, log_scale))
