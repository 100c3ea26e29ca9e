"""The joint move of the mask sampler: :mod:`.pseudo_marginal` on weights, intercept, rates, their groups, and masks.

Precisions of weights and parameters of the likelihood are held fixed, also if they are learnt. The coordinates are
weights, not effective weights, which unbiased dropout multiplies by ``1/(1 − η)``: those range over many orders of
magnitude, and rounding would put positions on a coarse grid. The unit of each weight is its prior standard deviation,
so that a metric learnt over many sweeps suits any prior precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._typing import Bool, Float
from .features import uniform_masks
from .noising_model import NoisingModel
from .pseudo_marginal import adapt_metric, mask_pass, surrogate_likelihood, trajectory
from .scales import log_beta_density, log_hyperprior, spread
from .state import Operands, State

__all__ = ["joint_moves"]


class _Coordinates(NamedTuple):
    """Variables of θ: effective weights (C, p), intercept (C,), logits of rates (C, k), two per group (C, g)."""

    weight: Float[jax.Array, "C p"]
    intercept: Float[jax.Array, " C"]
    logit: Float[jax.Array, "C k"]
    group_logit: Float[jax.Array, "C g"]
    group_log_strength: Float[jax.Array, "C g"]

    @classmethod
    def of(cls, state: State) -> _Coordinates:
        return cls(state.effective, state.intercept, state.logit, state.group_logit, state.group_log_strength)


def _centre_and_spread(
    operands: Operands, group_logit: Float[jax.Array, "C g"], group_log_strength: Float[jax.Array, "C g"]
) -> tuple[Float[jax.Array, "C k"], Float[jax.Array, "C k"]]:
    """Centre and spread of the logits of the rates of each group, by rate: (C, k) each."""
    index = operands.hierarchy.index  # type: ignore[union-attr]
    return group_logit[:, index], spread(group_logit, group_log_strength)[:, index]


def _pack(kernel: NoisingModel, operands: Operands, state: State) -> Float[jax.Array, "C D"]:
    """Coordinates θ of the joint move, (C, D): weights in units of their prior, intercept, logits of rates.

    In a hierarchy the logits are relative to their group's centre, in units of its spread, and ``logit μ`` and
    ``log s`` of the groups are coordinates too: a group then moves with all its rates, which given the rates it cannot.
    """
    parts = [kernel.weights(operands, state.effective, state.logit) * jnp.sqrt(state.precision)]
    if kernel.fit_intercept:
        parts.append(state.intercept[:, None])
    if operands.hierarchy is not None:
        centre, scale = _centre_and_spread(operands, state.group_logit, state.group_log_strength)
        parts += [(state.logit - centre) / scale, state.group_logit, state.group_log_strength]
    elif kernel.free:
        parts.append(state.logit)
    return jnp.concatenate(parts, axis=1)


def _unpack(kernel: NoisingModel, operands: Operands, state: State, theta: Float[jax.Array, "C D"]) -> _Coordinates:
    """Inverse of ``_pack``; ``state`` gives the variables that are held fixed."""
    p, k = state.precision.shape[1], state.logit.shape[1]
    intercept = theta[:, p] if kernel.fit_intercept else jnp.zeros(theta.shape[0], theta.dtype)
    weight, logit = theta[:, :p] / jnp.sqrt(state.precision), theta[:, p + kernel.fit_intercept :]
    group = [state.group_logit, state.group_log_strength]
    if operands.hierarchy is not None:
        logit, *group = jnp.split(logit, [k, k + group[0].shape[1]], axis=1)
        centre, scale = _centre_and_spread(operands, *group)
        logit = centre + scale * logit
    effective = weight * jnp.exp(kernel.log_multiplier(kernel.feature_logit(operands, logit)))
    return _Coordinates(effective, intercept, logit, *group)


def _log_prior(kernel: NoisingModel, operands: Operands, state: State, point: _Coordinates) -> Float[jax.Array, " C"]:
    """Log prior density of θ given the other variables: (C,)."""
    weight = kernel.weights(operands, point.weight, point.logit)
    prior = -0.5 * jnp.sum(state.precision * jnp.square(operands.from_location(weight)), axis=-1)
    if operands.level is not None:
        prior = prior + operands.level.log_density(weight, point.intercept)
    if operands.hierarchy is not None:
        index, group = operands.hierarchy.index, (point.group_logit, point.group_log_strength)
        density = log_beta_density(point.logit, *(part[:, index] for part in group))
        _, scale = _centre_and_spread(operands, *group)
        prior = prior + jnp.sum(density + jnp.log(scale), axis=-1)
        return prior + jnp.sum(log_hyperprior(operands.hierarchy, *group), axis=-1)
    if kernel.free:
        prior = prior + jnp.sum(kernel.rate_prior(operands, state).log_density(point.logit), axis=-1)
    return prior


def joint_moves(
    kernel: NoisingModel, count: int, operands: Operands, state: State, tuning: Bool[jax.Array, ""]
) -> State:
    """Move weights, intercept, rates and all masks of every chain together, ``count`` times."""
    data = operands, kernel.likelihood_given(state)

    def surrogate(theta: Float[jax.Array, "C D"]) -> Float[jax.Array, " C"]:
        point = _unpack(kernel, operands, state, theta)
        logit = kernel.feature_logit(operands, point.logit)
        likelihood = surrogate_likelihood(*data, point.weight, point.intercept, logit)
        return likelihood + _log_prior(kernel, operands, state, point)

    def one(_: Any, carry: Any) -> Any:
        state, log_target = carry
        key, key_path, key_masks, key_accept = jax.random.split(state.key, 4)
        theta = _pack(kernel, operands, state)
        proposed, change, energy_acceptance = trajectory(key_path, surrogate, state.metric, theta)
        point = _unpack(kernel, operands, state, proposed)
        uniform = uniform_masks(key_masks, state.masks)
        logit = kernel.feature_logit(operands, point.logit)
        ratio, score, new_masks = mask_pass(
            *data, point.weight, point.intercept, logit, state.masks, uniform, kernel.some_kept
        )  # fmt: skip
        new_target = ratio + _log_prior(kernel, operands, state, point)
        gain = new_target - log_target + change
        inside = jnp.isfinite(gain) & jnp.all(jnp.isfinite(proposed), axis=-1)
        accept = inside & (-jax.random.exponential(key_accept, gain.shape, gain.dtype) < gain)
        acceptance = jnp.where(inside, jnp.minimum(1, jnp.exp(gain)), 0)
        choose = lambda new, old: jnp.where(accept.reshape(-1, *(1,) * (new.ndim - 1)), new, old)  # noqa: E731
        masks = zip(new_masks, state.masks, strict=True)
        new = state._replace(
            effective=choose(point.weight, state.effective),
            intercept=choose(point.intercept, state.intercept),
            logit=choose(point.logit, state.logit),
            group_logit=choose(point.group_logit, state.group_logit),
            group_log_strength=choose(point.group_log_strength, state.group_log_strength),
            score=choose(score, state.score),
            masks=tuple(jnp.where(accept[None, :, None], mask, old) for mask, old in masks),
            key=key,
        )
        learnt = adapt_metric(state.metric, _pack(kernel, operands, new), energy_acceptance, acceptance, state.count)
        metric = jax.tree.map(lambda a, b: jnp.where(tuning, a, b), learnt, state.metric)
        return new._replace(metric=metric), choose(new_target, log_target)

    logit = kernel.feature_logit(operands, state.logit)
    ratio, _, _ = mask_pass(*data, state.effective, state.intercept, logit, state.masks, None, kernel.some_kept)
    log_target = ratio + _log_prior(kernel, operands, state, _Coordinates.of(state))
    return jax.lax.fori_loop(0, count, one, (state, log_target))[0]
