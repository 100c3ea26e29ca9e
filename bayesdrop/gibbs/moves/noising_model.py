"""The feature-noising model for its moves: likelihood of the rows given scores, and effective weights given rates.

Used by :mod:`.kernel`, :mod:`.class_kernel`, :mod:`.indicators` and :mod:`.joint_move`.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``k`` free rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logit
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float
from ...losses.protocols import Augmented, likelihood_of
from ...noise import MaskNoise
from ...priors.rate_prior import log_rates
from .features import uniform_masks
from .pseudo_marginal import Cost, RowLikelihood
from .scales import WeightPrior, draw_groups, group_law, log_beta_density, log_hyperprior
from .state import Operands

__all__ = ["NoisingModel"]

Elementwise = Float[jax.Array, "*shape"]


@dataclass(frozen=True)
class NoisingModel(WeightPrior):
    """Everything in the model that is fixed when a sampler is compiled, without data.

    Attributes
    ----------
    loss, noise : Augmented, MaskNoise
        Components of the model.
    per_feature : bool
        Whether every noised feature has a free rate of its own.
    grouped : bool
        Whether features share free rates.
    some_kept : bool
        Whether some features are never dropped.
    hierarchical : bool
        Whether the priors of the rates are drawn.
    tempered : bool
        Whether warm-up begins with a flatter likelihood: ``noise_precision`` of a state is its power.
    gaussian_draw : callable
        One of the draws of :mod:`bayesdrop.gibbs.weights`.
    rate_dim : str
        Dim of the free rates in a posterior.
    """

    loss: Augmented
    noise: MaskNoise
    per_feature: bool
    grouped: bool
    some_kept: bool
    hierarchical: bool
    tempered: bool
    gaussian_draw: Callable[..., tuple[Float[jax.Array, "C p"], Float[jax.Array, " C"]]]
    rate_dim: str

    def declared(self, *own: str) -> dict[str, tuple[str, ...]]:
        """Dims of the recorded variables, rates and their groups included."""
        names = super().declared(*own) | ({"rate": (self.rate_dim,)} if self.free else {})
        return names | ({"group_rate": ("group",), "group_strength": ("group",)} if self.hierarchical else {})

    @property
    def free(self) -> bool:
        """True if there are rates to draw."""
        return self.per_feature or self.grouped

    def log_multiplier(self, logit: Elementwise) -> Elementwise:
        """``log k(η)``, the logarithm of the factor of a kept entry, from logits of rates, elementwise."""
        return self.noise.log_multiplier(logit)

    def cost(self, loss: Any, target: Elementwise, score: Elementwise, row_weight: Elementwise) -> Elementwise:
        """Loss of each score, elementwise, at scale 1."""
        value, _ = loss.plain_value_and_slope(target, score)
        return value if self.unit_weight else row_weight * value

    @property
    def row_loss(self) -> Any:
        """The loss of a row."""
        return self.loss

    def cost_given(self, state: Any) -> Cost:
        """Loss of each score (…, C, m) at the scales or shapes of the chains of a state."""
        if self.parameter is None and not self.tempered:
            # A sweep calls it at dozens of places: jit traces it once for all of them.
            return jax.jit(partial(self.cost, self.loss))

        def cost(target: Elementwise, score: Elementwise, row_weight: Elementwise) -> Elementwise:
            precision = state.noise_precision.reshape((1,) * (score.ndim - 2) + (-1, 1))
            return precision * self.cost(self.loss_of(state, score.ndim), target, score, row_weight)

        return jax.jit(cost)

    def likelihood_given(self, state: Any) -> RowLikelihood:
        """Likelihood of the rows as a function of their scores, at the scales or shapes of the chains of a state."""
        cost = self.cost_given(state)
        direct = likelihood_of(self.loss)
        if direct is None or not self.unit_weight:
            return RowLikelihood(cost)
        return RowLikelihood(cost, jax.jit(lambda target, score, row_weight: direct(target, score)))

    def pseudo_given(self, state: Any) -> Callable[..., tuple[Any, Any]]:
        """Expected pseudo-observations of rows (C, m) by target, score and row weight, at the chains of a state."""

        def pseudo(target: Elementwise, score: Elementwise, row_weight: Elementwise) -> tuple[Any, Any]:
            weight = row_weight * state.noise_precision[:, None]
            found = self.loss_of(state).pseudo(target, score, jnp.zeros_like(score), weight)
            return found[0], found[1]

        return pseudo

    def total_cost(self, operands: Operands, state: Any, score: Float[jax.Array, "C n"]) -> Float[jax.Array, " C"]:
        """Loss of each chain at scale 1: (C, n) to (C,)."""
        target = jnp.broadcast_to(operands.target[None], score.shape)
        cost = self.cost(self.loss_of(state), target, score, jnp.broadcast_to(operands.row_weight[None], score.shape))
        return jnp.sum(cost, axis=-1)

    def feature_logit(self, operands: Operands, logit: Float[jax.Array, "C k"]) -> Float[jax.Array, "C p"]:
        """Logits of the rates per feature: (C, k) to (C, p)."""
        if self.free:
            # A feature without noise has the rate 0.
            return logit.at[:, operands.index].get(mode="fill", fill_value=-jnp.inf)
        return jnp.broadcast_to(operands.fixed_logit[None], (logit.shape[0], operands.fixed_logit.shape[0]))

    def weights(
        self, operands: Operands, effective: Float[jax.Array, "C p"], logit: Float[jax.Array, "C k"]
    ) -> Float[jax.Array, "C p"]:
        """Weights from effective weights (C, p) and logits (C, k): (C, p)."""
        return effective * jnp.exp(-self.log_multiplier(self.feature_logit(operands, logit)))

    def effective_location(self, operands: Operands, logit: Float[jax.Array, "C k"]) -> Float[jax.Array, "C p"] | None:
        """Prior mean of the effective weights, (C, p); None if it is 0."""
        if operands.location is None:
            return None
        return operands.location[None] * jnp.exp(self.log_multiplier(self.feature_logit(operands, logit)))

    def rate_prior(self, operands: Operands, state: Any) -> Any:
        """Prior law of the free rates, (C, k)."""
        if operands.hierarchy is None:
            shape = state.logit.shape
            return jax.tree.map(lambda part: jnp.broadcast_to(part[None], shape), operands.rate_prior)
        index = operands.hierarchy.index
        return group_law(state.group_logit[:, index], state.group_log_strength[:, index])

    def with_groups(self, operands: Operands, state: Any, key: PRNGKeyArray) -> Any:
        """Draw the means and strengths of the groups of rates, if there are groups, and return the new state."""
        if operands.hierarchy is None:
            return state
        mean, strength = draw_groups(key, operands.hierarchy, state.logit, state.group_logit, state.group_log_strength)
        return state._replace(group_logit=mean, group_log_strength=strength)

    def first_masks(
        self, operands: Operands, key_rate: PRNGKeyArray, key_mask: PRNGKeyArray, key_mean: PRNGKeyArray, chains: int
    ) -> dict[str, Any]:
        """Scattered starting points of rates and groups, and masks drawn from the rates, by the names of a state."""
        hierarchy, dtype = operands.hierarchy, operands.target.dtype
        k = jax.tree.leaves(operands.rate_prior if hierarchy is None else hierarchy.index)[0].shape[0]
        groups = 0 if hierarchy is None else hierarchy.mean_a.shape[0]
        strength = jnp.ones(()) if hierarchy is None else hierarchy.shape * hierarchy.scale
        free = logit(jax.random.uniform(key_rate, (chains, k), dtype, 0.02, 0.98))
        keep, masks = jax.nn.sigmoid(-self.feature_logit(operands, free)).T.astype(jnp.float32), []
        for i, block in enumerate(operands.columns.blocks):
            shape = (block.values.shape[0], chains, block.values.shape[1])
            uniform = jax.random.uniform(jax.random.fold_in(key_mask, i), shape, jnp.float32)
            masks.append((uniform < keep[block.features][:, :, None]) | ~block.occurs[:, None, :])
        return {
            "logit": free,
            "masks": tuple(masks),
            "group_logit": logit(jax.random.uniform(key_mean, (chains, groups), dtype, 0.1, 0.9)),
            "group_log_strength": jnp.full((chains, groups), jnp.log(strength), dtype),
        }

    def recorded_rates(
        self, operands: Operands, state: Any, included: Bool[jax.Array, "C p"] | None = None
    ) -> tuple[dict[str, jax.Array], Float[jax.Array, " C"]]:
        """Record of rates and their groups, and the log density of these and the masks of included features, (C,)."""
        columns, feature_logit = operands.columns, self.feature_logit(operands, state.logit)
        counts = [jnp.sum(~mask, axis=-1, dtype=jnp.int32) for mask in state.masks]
        drops = columns.per_feature(counts, feature_logit.shape[:1], jnp.int32).T
        keeps = (columns.occurrences[None] - drops).astype(feature_logit.dtype)
        log_drop, log_keep = log_rates(feature_logit)
        # A rate that is fixed at 0 has no drops, and the logarithm −∞.
        dropped = jnp.where(drops > 0, drops.astype(feature_logit.dtype) * log_drop, 0)
        every = dropped + keeps * log_keep
        draw, lp = {}, jnp.sum(every if included is None else jnp.where(included, every, 0), axis=-1)
        if self.free:
            draw["logit_rate"] = state.logit
            # The density of the rates, not of their logits.
            lp = lp - jnp.sum(sum(log_rates(state.logit)), axis=-1)
        if operands.hierarchy is not None:
            index = operands.hierarchy.index
            mean, strength = state.group_logit, state.group_log_strength
            draw["logit_group_rate"], draw["log_group_strength"] = mean, strength
            lp = lp + jnp.sum(log_beta_density(state.logit, mean[:, index], strength[:, index]), axis=-1)
            lp = lp + jnp.sum(log_hyperprior(operands.hierarchy, mean, strength), axis=-1)
            lp = lp - jnp.sum(sum(log_rates(mean)) + strength, axis=-1)
        elif self.free:
            lp = lp + jnp.sum(self.rate_prior(operands, state).log_density(state.logit), axis=-1)
        return draw, lp

    def draw_columns(
        self,
        operands: Operands,
        state: Any,
        key: PRNGKeyArray,
        body: Callable[[Any, Any], Any],
        weight: Float[jax.Array, "p *classes C"],
        *parts: Any,
        along: Any = None,
    ) -> tuple[Any, Float[jax.Array, "p *classes C"], Any]:
        """Draw every feature in turn; return the state with new masks and rates, effective weights, and ``along``.

        ``body`` is the step of a scan over the columns of a block: from the scores and (values, rows, masks, uniform
        numbers for new masks, weight, logit, ``parts`` by feature, prior of the rate, key) to the scores and (weight,
        logit, masks). If ``along``, other variables that steps change, is given, scores are a pair with it.
        """
        columns, masks = operands.columns, []
        carry = state.score if along is None else (state.score, along)
        key_uniform, key_steps, key_empty = jax.random.split(key, 3)
        prior = self.rate_prior(operands, state) if self.per_feature else None
        prior = jax.tree.map(lambda part: part.T[operands.index], prior)
        logit, keys = self.feature_logit(operands, state.logit).T, jax.random.split(key_steps, weight.shape[0])
        uniforms = uniform_masks(key_uniform, state.masks)
        for block, mask, uniform in zip(columns.blocks, state.masks, uniforms, strict=True):
            by_feature = (weight, logit, *parts, prior, keys)
            chosen = jax.tree.map(lambda part, block=block: part[block.features], by_feature)
            carry, new = jax.lax.scan(body, carry, (block.values, block.rows, mask, uniform, *chosen))
            weight, logit = (old.at[block.features].set(part) for old, part in zip((weight, logit), new, strict=False))
            masks.append(new[2])
        if self.per_feature and columns.empty.shape[0]:
            # Rates of features that never occur, from their priors, at fixed ``w``.
            empty, old = columns.empty, logit[columns.empty]
            drawn = jax.tree.map(lambda part: part[empty], prior).draw_logit(key_empty)
            factor = jnp.exp(self.log_multiplier(drawn) - self.log_multiplier(old))
            factor = factor.reshape(len(factor), *(1,) * (weight.ndim - 2), -1)
            weight, logit = weight.at[empty].set(weight[empty] * factor), logit.at[empty].set(drawn)
        score, along = (carry, None) if along is None else carry
        state = state._replace(score=score, masks=tuple(masks))
        if self.per_feature:
            state = state._replace(logit=jnp.zeros_like(state.logit).at[:, operands.index].set(logit.T))
        return state, weight, along
