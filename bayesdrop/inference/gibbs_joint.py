"""The joint move of the mask sampler: :mod:`.gibbs_jump` on its weights, intercept, rates, their groups, and masks.

Precisions of weights and noise, where they are drawn, stand still meanwhile. Weights are counted in units of their
prior's standard deviation, so that a metric learnt over time serves whatever that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from .gibbs_hierarchy import in_support, log_beta_density, log_hyperprior
from .gibbs_jump import adapt_metric, mask_pass, surrogate_likelihood, trajectory
from .gibbs_moves import log_beta, log_weight, uniform_masks
from .gibbs_state import Operands, State

if TYPE_CHECKING:
    from .gibbs_kernel import GibbsKernel

__all__ = ["joint_moves"]

Array = Any


class _Point(NamedTuple):
    """What θ stands for: effective weights (C, p), intercept (C,), free rates (C, k), groups' means, strengths (C, g).

    All rates are inside the open unit interval.
    """

    weight: Array
    intercept: Array
    rate: Array
    mean: Array
    strength: Array


def _logit(chance: Array) -> Array:
    return jnp.log(chance) - jnp.log1p(-chance)


def _spread(operands: Operands, mean: Array, strength: Array) -> tuple[Array, Array]:
    """Centre and spread of the logits of the rates of each group, by rate: (C, k) each."""
    index = operands.hierarchy.index  # type: ignore[union-attr]
    return _logit(mean)[:, index], 1 / jnp.sqrt(strength * mean * (1 - mean))[:, index]


def _pack(kernel: GibbsKernel, operands: Operands, state: State) -> Array:
    """Coordinates θ of the joint move, (C, D): weights in units of their prior, intercept, logits of rates.

    In a hierarchy the logits are counted from their group's centre, in units of its spread, and ``logit μ`` and
    ``log s`` of the groups are coordinates too: a group then moves with all its rates, which given the rates it cannot.
    """
    parts = [state.effective * jnp.sqrt(state.precision)]
    if kernel.fit_intercept:
        parts.append(state.intercept[:, None])
    if operands.hierarchy is not None:
        centre, spread = _spread(operands, state.group_mean, state.group_strength)
        parts += [(_logit(state.rate) - centre) / spread, _logit(state.group_mean), jnp.log(state.group_strength)]
    elif kernel.free:
        parts.append(_logit(state.rate))
    return jnp.concatenate(parts, axis=1)


def _unpack(kernel: GibbsKernel, operands: Operands, state: State, theta: Array) -> _Point:
    """Inverse of ``_pack``; ``state`` for what stands still."""
    p, k = state.precision.shape[1], state.rate.shape[1]
    intercept = theta[:, p] if kernel.fit_intercept else jnp.zeros(theta.shape[0], theta.dtype)
    weight, rest = theta[:, :p] / jnp.sqrt(state.precision), theta[:, p + kernel.fit_intercept :]
    if operands.hierarchy is None:
        return _Point(weight, intercept, jax.nn.sigmoid(rest), state.group_mean, state.group_strength)
    logits, log_strength = jnp.split(rest[:, k:], 2, axis=1)
    mean, strength = jax.nn.sigmoid(logits), jnp.exp(log_strength)
    centre, spread = _spread(operands, mean, strength)
    return _Point(weight, intercept, jax.nn.sigmoid(centre + spread * rest[:, :k]), mean, strength)


def _log_prior(kernel: GibbsKernel, operands: Operands, state: State, point: _Point) -> Array:
    """Log prior density of θ given the other variables: (C,)."""
    factor = kernel.multiplier(kernel.feature_rate(operands, point.rate))
    prior = jnp.sum(log_weight(point.weight, factor, state.precision), axis=-1)
    if operands.hierarchy is not None:
        index, rate = operands.hierarchy.index, point.rate
        density = log_beta_density(rate, point.mean[:, index], point.strength[:, index])
        _, spread = _spread(operands, point.mean, point.strength)
        prior = prior + jnp.sum(density + jnp.log(rate) + jnp.log1p(-rate) + jnp.log(spread), axis=-1)
        return prior + jnp.sum(log_hyperprior(operands.hierarchy, point.mean, point.strength), axis=-1)
    if kernel.free:
        a, b = kernel.rate_prior(operands, state)
        prior = prior + jnp.sum(log_beta(point.rate, a + 1, b + 1), axis=-1)
    return prior


def _inside(operands: Operands, point: _Point) -> Array:
    """True where rates and groups are inside their supports: (C,)."""
    eps = jnp.finfo(point.rate.dtype).eps
    inside = jnp.all((point.rate > eps) & (point.rate < 1 - eps), axis=-1)
    if operands.hierarchy is not None:
        inside = inside & jnp.all(in_support(point.mean, point.strength), axis=-1)
    return inside


def joint_moves(kernel: GibbsKernel, operands: Operands, state: State, tuning: Array) -> State:
    """Move weights, intercept, rates and all masks of every chain together, ``kernel.jumps`` times."""
    data = (operands.columns, kernel.likelihood_given(state.noise_precision), operands.target, operands.row_weight)

    def surrogate(theta: Array) -> Array:
        point = _unpack(kernel, operands, state, theta)
        feature_rate = kernel.feature_rate(operands, point.rate)
        likelihood = surrogate_likelihood(*data, point.weight, point.intercept, feature_rate)
        return likelihood + _log_prior(kernel, operands, state, point)

    def one(_: Any, carry: Any) -> Any:
        state, log_target = carry
        key, key_path, key_masks, key_accept = jax.random.split(state.key, 4)
        theta = _pack(kernel, operands, state)
        proposed, change, energy_acceptance = trajectory(key_path, surrogate, state.metric, theta)
        point = _unpack(kernel, operands, state, proposed)
        uniform = uniform_masks(key_masks, state.kept)
        feature_rate = kernel.feature_rate(operands, point.rate)
        ratio, score, kept = mask_pass(*data, point.weight, point.intercept, feature_rate, state.kept, uniform)
        new_target = ratio + _log_prior(kernel, operands, state, point)
        gain = new_target - log_target + change
        inside = jnp.isfinite(gain) & _inside(operands, point)
        accept = inside & (-jax.random.exponential(key_accept, gain.shape, gain.dtype) < gain)
        acceptance = jnp.where(inside, jnp.minimum(1, jnp.exp(gain)), 0)
        choose = lambda new, old: jnp.where(accept.reshape(-1, *(1,) * (new.ndim - 1)), new, old)  # noqa: E731
        masks = zip(kept, state.kept, strict=True)
        new = state._replace(
            effective=choose(point.weight, state.effective),
            intercept=choose(point.intercept, state.intercept),
            rate=choose(point.rate, state.rate),
            group_mean=choose(point.mean, state.group_mean),
            group_strength=choose(point.strength, state.group_strength),
            score=choose(score, state.score),
            kept=tuple(jnp.where(accept[None, :, None], mask, old) for mask, old in masks),
            key=key,
        )
        learnt = adapt_metric(state.metric, _pack(kernel, operands, new), energy_acceptance, acceptance, state.count)
        metric = jax.tree.map(lambda a, b: jnp.where(tuning, a, b), learnt, state.metric)
        return new._replace(metric=metric), choose(new_target, log_target)

    rates = kernel.feature_rate(operands, state.rate)
    ratio, _, _ = mask_pass(*data, state.effective, state.intercept, rates, state.kept, None)
    here = _Point(state.effective, state.intercept, state.rate, state.group_mean, state.group_strength)
    log_target = ratio + _log_prior(kernel, operands, state, here)
    return jax.lax.fori_loop(0, kernel.jumps, one, (state, log_target))[0]
