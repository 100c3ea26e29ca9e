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
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ..._typing import Float
from ...sampling.slice_sampling import slice_sample
from ...sampling.weight_scales import ScaleOperands, log_scale_prior, weight_precision
from .interweaving import by_group
from .state import Operands, State

__all__ = ["draw_along_rays", "draw_given_weights", "move_scales"]

Scales = Float[jax.Array, "C g"]
Scores = tuple[Float[jax.Array, "C n"], ...]

# Widths of the first intervals of the slices, in units of log σ; given m weights √(1 + m) times smaller.
_WIDTH = 6.0


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


def move_scales(
    key: PRNGKeyArray,
    operands: Operands,
    state: State,
    total_cost: Callable[[Float[jax.Array, "C n"]], Float[jax.Array, " C"]],
) -> State:
    """Draw the scales of a sweep with masks along the rays, weights and scores with them.

    ``total_cost`` is minus the log-likelihood (C,) of scores (C, n), at noise precision 1. Where no scale is learnt the
    state stays as it is.
    """
    learnt = operands.learnt
    if learnt is None:
        return state

    def share(mask: Float[jax.Array, " p"]) -> Scores:
        if learnt.size.shape[0] == 1:  # all that is no intercept
            return (operands.with_offset(state.score, -1.0) - state.intercept[:, None],)
        return (operands.columns.product(state.kept, state.effective * mask[None], state.score.shape[1]),)

    (score,), log_scale = draw_along_rays(
        key,
        learnt,
        share,
        lambda scores: -state.noise_precision * total_cost(scores[0]),
        (state.score,),
        state.log_scale,
    )
    factor = jnp.exp(log_scale - state.log_scale)[:, learnt.index]
    return state._replace(
        score=score,
        effective=state.effective * factor,
        log_scale=log_scale,
        precision=weight_precision(learnt, log_scale),
    )
