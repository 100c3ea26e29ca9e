"""The joint move of the mask sampler: :mod:`.gibbs_jump` on its weights, intercept, rates and masks.

Precisions of weights and noise and the priors of the rates, where they are drawn, stand still meanwhile. Weights are
counted in units of their prior's standard deviation, so that a metric learnt over time serves whatever that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from .gibbs_jump import adapt_metric, mask_pass, surrogate_likelihood, trajectory
from .gibbs_moves import log_beta, log_weight, uniform_masks
from .gibbs_state import Operands, State

if TYPE_CHECKING:
    from .gibbs_kernel import GibbsKernel

__all__ = ["joint_moves"]

Array = Any


def _pack(kernel: GibbsKernel, state: State) -> Array:
    """Coordinates θ of the joint move: weights in units of their prior, intercept and logits of rates, (C, D)."""
    parts = [state.effective * jnp.sqrt(state.precision)]
    if kernel.fit_intercept:
        parts.append(state.intercept[:, None])
    if kernel.free:
        parts.append(jnp.log(state.rate) - jnp.log1p(-state.rate))
    return jnp.concatenate(parts, axis=1)


def _unpack(kernel: GibbsKernel, state: State, theta: Array) -> tuple[Array, Array, Array]:
    """Effective weights (C, p), intercept (C,) and free rates (C, k), inside the open unit interval."""
    p = state.precision.shape[1]
    intercept = theta[:, p] if kernel.fit_intercept else jnp.zeros(theta.shape[0], theta.dtype)
    return theta[:, :p] / jnp.sqrt(state.precision), intercept, jax.nn.sigmoid(theta[:, p + kernel.fit_intercept :])


def _log_prior(kernel: GibbsKernel, operands: Operands, state: State, weight: Array, rate: Array) -> Array:
    """Log prior density of θ, with the rates on the logit scale, given the other variables: (C,)."""
    factor = kernel.multiplier(kernel.feature_rate(operands, rate))
    prior = jnp.sum(log_weight(weight, factor, state.precision), axis=-1)
    if kernel.free:
        a, b = kernel.rate_prior(operands, state)
        prior = prior + jnp.sum(log_beta(rate, a + 1, b + 1), axis=-1)
    return prior


def joint_moves(kernel: GibbsKernel, operands: Operands, state: State, tuning: Array) -> State:
    """Move weights, intercept, rates and all masks of every chain together, ``kernel.jumps`` times."""
    data = (operands.columns, kernel.cost_given(state.noise_precision), operands.target, operands.row_weight)

    def surrogate(theta: Array) -> Array:
        weight, intercept, rate = _unpack(kernel, state, theta)
        likelihood = surrogate_likelihood(*data, weight, intercept, kernel.feature_rate(operands, rate))
        return likelihood + _log_prior(kernel, operands, state, weight, rate)

    def one(_: Any, carry: Any) -> Any:
        state, log_target = carry
        key, key_path, key_masks, key_accept = jax.random.split(state.key, 4)
        theta = _pack(kernel, state)
        proposed, change, energy_acceptance = trajectory(key_path, surrogate, state.metric, theta)
        weight, intercept, rate = _unpack(kernel, state, proposed)
        uniform = uniform_masks(key_masks, state.kept)
        feature_rate = kernel.feature_rate(operands, rate)
        ratio, score, kept = mask_pass(*data, weight, intercept, feature_rate, state.kept, uniform)
        new_target = ratio + _log_prior(kernel, operands, state, weight, rate)
        gain = new_target - log_target + change
        eps = jnp.finfo(rate.dtype).eps
        inside = jnp.isfinite(gain) & jnp.all((rate > eps) & (rate < 1 - eps), axis=-1)
        accept = inside & (-jax.random.exponential(key_accept, gain.shape, gain.dtype) < gain)
        acceptance = jnp.where(inside, jnp.minimum(1, jnp.exp(gain)), 0)
        choose = lambda new, old: jnp.where(accept.reshape(-1, *(1,) * (new.ndim - 1)), new, old)  # noqa: E731
        masks = zip(kept, state.kept, strict=True)
        new = state._replace(
            effective=choose(weight, state.effective),
            intercept=choose(intercept, state.intercept),
            rate=choose(rate, state.rate),
            score=choose(score, state.score),
            kept=tuple(jnp.where(accept[None, :, None], mask, old) for mask, old in masks),
            key=key,
        )
        learnt = adapt_metric(state.metric, _pack(kernel, new), energy_acceptance, acceptance, state.count)
        metric = jax.tree.map(lambda a, b: jnp.where(tuning, a, b), learnt, state.metric)
        return new._replace(metric=metric), choose(new_target, log_target)

    rates = kernel.feature_rate(operands, state.rate)
    ratio, _, _ = mask_pass(*data, state.effective, state.intercept, rates, state.kept, None)
    log_target = ratio + _log_prior(kernel, operands, state, state.effective, state.rate)
    return jax.lax.fori_loop(0, kernel.jumps, one, (state, log_target))[0]
