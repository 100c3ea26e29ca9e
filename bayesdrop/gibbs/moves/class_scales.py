"""State of the sampler of many classes, and prior scales of their weights: of single ones, and those that they share.

Under a scale mixture every weight has a precision of its own, drawn for each class by itself, and the vector ``c`` that
all classes have in common follows its prior given the contrasts, ``c_d ~ N(−Σ_k P_kd w_kd / Σ_k P_kd, 1/Σ_k P_kd)``.

Normal weights whose scales are learnt share them over the classes, ``w_kd ~ N(0, (σ_j u_d)²)``. What classes have in
common is left out of the state, and the centred weights have ``K − 1`` dimensions a feature, so that

    log p(t | w) = log p(t) − (K − 1) m t − ½ e^{−2t} Σ_kd (w_kd/u_d)² + constant,      t = log σ,

for the ``m`` features of a group. Then ``t`` is drawn along the ray of the weights, as in :mod:`.moves.scales`.

Shapes: ``C`` chains, ``K`` classes, ``p`` features, ``g`` scales. The scales behind the precisions of a mixture hold
the chains of one class after another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float
from ...sampling.weight_scales import ScaleOperands, by_weight, recorded_scales, weight_precision
from .scales import draw_along_rays, draw_given_weights

__all__ = [
    "ClassState",
    "class_precisions",
    "draw_common",
    "draw_shared_scales",
    "move_shared_scales",
    "recorded_class_scales",
    "recorded_shared_scales",
]

PerClass = Float[jax.Array, "K C p"]
Scales = Float[jax.Array, "C g"]


def class_precisions(mixture: Any, key: PRNGKeyArray, weight: PerClass, scales: Any) -> tuple[PerClass, Any]:
    """Precisions of the weights of each class under a mixture, and the scales behind them, given the weights."""
    flat, scales = mixture.sample_precision(key, weight.reshape(-1, weight.shape[2]), scales)
    return flat.reshape(weight.shape), scales


def draw_common(key: PRNGKeyArray, precision: PerClass, weight: PerClass) -> Float[jax.Array, "C p"]:
    """What is to be added to the weights of all classes, given their contrasts and precisions."""
    total = jnp.sum(precision, axis=0)
    shift = jax.random.normal(key, total.shape, total.dtype) / jnp.sqrt(total)
    return shift - jnp.sum(precision * weight, axis=0) / total


def recorded_class_scales(
    mixture: Any, precision: PerClass, scales: Any
) -> tuple[dict[str, Float[jax.Array, "C K"]], Float[jax.Array, " C"]]:
    """What is kept of the scales, and what they add to the log density of weights that are normal given them."""
    K, chains, p = precision.shape
    kept = {name: value.reshape(K, chains).T for name, value in mixture.record(scales).items()}
    density = mixture.log_scale_density(precision.reshape(K * chains, p), scales).reshape(K, chains)
    return kept, 0.5 * jnp.sum(jnp.log(precision), axis=(0, 2)) + jnp.sum(density, axis=0)


def _of_contrasts(operands: ScaleOperands, K: int) -> ScaleOperands:
    """The same, with so many weights in each group as there are free ones among the classes."""
    return operands._replace(size=(K - 1) * operands.size)


def draw_shared_scales(
    key: PRNGKeyArray, operands: ScaleOperands, weight: PerClass, log_scale: Scales
) -> tuple[PerClass, Scales]:
    """Draw ``log σ`` given centred weights; the precisions of the weights come with it."""
    length = jnp.sqrt(jnp.sum(weight * weight, axis=0))
    new = draw_given_weights(key, _of_contrasts(operands, weight.shape[0]), length, log_scale)
    return jnp.broadcast_to(weight_precision(operands, new)[None], weight.shape), new


def move_shared_scales(
    key: PRNGKeyArray,
    learnt: ScaleOperands,
    product: Callable[[PerClass], Float[jax.Array, "K C n"]],
    total_cost: Callable[[Float[jax.Array, "K C n"]], Float[jax.Array, " C"]],
    state: Any,
    shared: bool,
) -> Any:
    """Draw the scales of a :class:`.class_scales.ClassState` along the rays, weights and scores with them.

    ``product`` gives the scores of weights without intercepts, ``total_cost`` minus the log-likelihood; all features
    have one scale if it is ``shared``.
    """
    K, chains, n = state.score.shape

    def flat(score: Float[jax.Array, "K C n"]) -> Float[jax.Array, "C Kn"]:
        return jnp.moveaxis(score, 0, 1).reshape(chains, K * n)

    def by_class(score: Float[jax.Array, "C Kn"]) -> Float[jax.Array, "K C n"]:
        return jnp.moveaxis(score.reshape(chains, K, n), 1, 0)

    def share(mask: Float[jax.Array, " p"]) -> tuple[Float[jax.Array, "C Kn"], ...]:
        if shared:  # all that is no intercept
            return (flat(state.score - state.intercept[:, :, None]),)
        return (flat(product(state.effective * mask[None, None])),)

    (score,), log_scale = draw_along_rays(
        key, learnt, share, lambda scores: -total_cost(by_class(scores[0])), (flat(state.score),), state.log_scale
    )
    factor = jnp.exp(by_weight(learnt, log_scale - state.log_scale))
    return state._replace(
        score=by_class(score),
        effective=state.effective * factor[None],
        log_scale=log_scale,
        precision=jnp.broadcast_to(weight_precision(learnt, log_scale)[None], state.precision.shape),
    )


def recorded_shared_scales(
    operands: ScaleOperands, log_scale: Scales, dims: tuple[str, ...] | None, K: int
) -> tuple[dict[str, Float[jax.Array, "C ..."]], Float[jax.Array, " C"]]:
    """What is kept of scales that ``K`` classes share, and what they add to the log density."""
    kept, density = recorded_scales(_of_contrasts(operands, K), log_scale, dims)
    return {"log_weight_scale": kept}, density


class ClassState(NamedTuple):
    """State of ``C`` chains.

    Attributes
    ----------
    effective, intercept : array (K, C, p), (K, C)
        Weights times what a kept entry is multiplied by, and intercepts; intercepts sum to zero over the classes, and
        so do weights of a normal prior.
    logit : array (C, k)
        Logits of the free rates.
    kept : tuple of bool arrays (q, C, m)
        Masks, one array per block of columns.
    score : array (K, C, n)
        Scores of the masked rows.
    precision : array (K, C, p)
        Prior precision of the weights.
    scales : pytree of arrays (K C, …)
        Latent scales behind it, the chains of one class after another.
    log_scale : array (C, scales)
        Logarithms of scales that the weights of all classes share, where they are drawn.
    group_logit, group_log_strength : array (C, g)
        Beta priors of the rates, where they are drawn.
    key : key
        Random key.
    """

    effective: Float[jax.Array, "K C p"]
    intercept: Float[jax.Array, "K C"]
    logit: Float[jax.Array, "C k"]
    kept: tuple[Bool[jax.Array, "_ C _"], ...]
    score: Float[jax.Array, "K C n"]
    precision: Float[jax.Array, "K C p"]
    scales: Any
    log_scale: Float[jax.Array, "C scales"]
    group_logit: Float[jax.Array, "C g"]
    group_log_strength: Float[jax.Array, "C g"]
    key: PRNGKeyArray
