"""The feature-noising model as its moves see it: what rows say of their scores, and what rates do to weights.

Nothing here draws. Every move of :mod:`.kernel` and :mod:`.joint_move` asks for these, at a state of all chains.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``k`` free rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logit
from jaxtyping import PRNGKeyArray

from ..._typing import Float
from ...losses.protocols import Augmented, likelihood_of
from ...noise import MaskNoise
from ...priors.rate_prior import log_rates
from .pseudo_marginal import Cost, RowLikelihood
from .scales import group_law, log_beta_density, log_hyperprior
from .state import Operands

__all__ = ["NoisingModel"]

Elementwise = Float[jax.Array, "*shape"]


@dataclass(frozen=True)
class NoisingModel:
    """Everything of the model that is fixed when a sampler is compiled, and nothing that is data.

    Attributes
    ----------
    loss, noise : Augmented, MaskNoise
        Components of the model.
    fit_intercept : bool
        There is an intercept.
    per_feature : bool
        Every feature has a free rate of its own.
    grouped : bool
        Free rates are shared by features.
    some_kept : bool
        Some features are never dropped, among others that are.
    hierarchical : bool
        The priors of the rates are drawn.
    unit_weight : bool
        Every ``C s_i`` is 1, and the noise variance known.
    unknown_variance : bool
        The noise variance is drawn.
    tempered : bool
        Warm-up begins with a flatter likelihood: ``noise_precision`` of a state is its power.
    scale_mixture : type of a WeightPrior, or None
        Prior that draws the precisions of the weights; None if they are known.
    scale_names : tuple of str
        What of its scales is recorded.
    scale_dims : tuple of str, or None
        Dims of scales that normal weights share and that are drawn; None if there are none.
    gaussian_draw : callable
        One of :mod:`bayesdrop.gibbs.weights`.
    choice : str
        Its name.
    sweeps : int
        Sweeps per recorded draw.
    rate_dim : str
        Dim of the free rates in a posterior.
    """

    loss: Augmented
    noise: MaskNoise
    fit_intercept: bool
    per_feature: bool
    grouped: bool
    some_kept: bool
    hierarchical: bool
    unit_weight: bool
    unknown_variance: bool
    tempered: bool
    scale_mixture: type[Any] | None
    scale_names: tuple[str, ...]
    scale_dims: tuple[str, ...] | None
    gaussian_draw: Callable[..., tuple[Float[jax.Array, "C p"], Float[jax.Array, " C"]]]
    choice: str
    sweeps: int
    rate_dim: str

    @property
    def statistics(self) -> tuple[str, ...]:
        """The log density."""
        return ("lp",)

    @property
    def choices(self) -> dict[str, str]:
        """What a posterior says of the choices made."""
        return {"weights_drawn_by": self.choice}

    def declared(self, *own: str) -> dict[str, tuple[str, ...]]:
        """Dims of what is recorded, of weights and their intercepts and scales after those that are their ``own``."""
        names: dict[str, tuple[str, ...]] = {"weight": (*own, "feature")}
        names |= {"intercept": own} if self.fit_intercept else {}
        names |= dict.fromkeys(self.scale_names, own)
        names |= {} if self.scale_dims is None else {"weight_scale": self.scale_dims}
        names |= {"sigma": ()} if self.unknown_variance else {}
        names |= {"rate": (self.rate_dim,)} if self.free else {}
        return names | ({"group_rate": ("group",), "group_strength": ("group",)} if self.hierarchical else {})

    @property
    def free(self) -> bool:
        """True if there are rates to draw."""
        return self.per_feature or self.grouped

    def log_multiplier(self, logit: Elementwise) -> Elementwise:
        """Logarithm of what a kept entry is multiplied by, ``log k(η)``, from logits of rates, elementwise."""
        return self.noise.log_multiplier(logit)

    def cost(self, target: Elementwise, score: Elementwise, row_weight: Elementwise) -> Elementwise:
        """Loss of each score, elementwise, for ``σ² = 1``."""
        value, _ = self.loss.plain_value_and_slope(target, score)
        return value if self.unit_weight else row_weight * value

    def cost_given(self, noise_precision: Float[jax.Array, " C"]) -> Cost:
        """Loss of each score (…, C, m) where the chains have noise precisions (C,)."""
        if not (self.unknown_variance or self.tempered):
            return jax.jit(self.cost)  # a sweep calls it at dozens of places: traced once for all of them

        def cost(target: Elementwise, score: Elementwise, row_weight: Elementwise) -> Elementwise:
            precision = noise_precision.reshape((1,) * (score.ndim - 2) + (-1, 1))
            return precision * self.cost(target, score, row_weight)

        return jax.jit(cost)

    def likelihood_given(self, noise_precision: Float[jax.Array, " C"]) -> RowLikelihood:
        """What rows say of their scores where the chains have noise precisions (C,)."""
        cost = self.cost_given(noise_precision)
        direct = likelihood_of(self.loss)
        if direct is None or not self.unit_weight:
            return RowLikelihood(cost)
        return RowLikelihood(cost, jax.jit(lambda target, score, row_weight: direct(target, score)))

    def total_cost(self, operands: Operands, score: Float[jax.Array, "C n"]) -> Float[jax.Array, " C"]:
        """Loss of each chain for ``σ² = 1``: (C, n) to (C,)."""
        target = jnp.broadcast_to(operands.target[None], score.shape)
        cost = self.cost(target, score, jnp.broadcast_to(operands.row_weight[None], score.shape))
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
        """Weights of effective ones: (C, p) and logits (C, k) to (C, p)."""
        return effective * jnp.exp(-self.log_multiplier(self.feature_logit(operands, logit)))

    def rate_prior(self, operands: Operands, state: Any) -> Any:
        """Prior law of the free rates, (C, k)."""
        if operands.hierarchy is None:
            shape = state.logit.shape
            return jax.tree.map(lambda part: jnp.broadcast_to(part[None], shape), operands.rate_prior)
        index = operands.hierarchy.index
        return group_law(state.group_logit[:, index], state.group_log_strength[:, index])

    def first_masks(
        self, operands: Operands, key_rate: PRNGKeyArray, key_mask: PRNGKeyArray, key_mean: PRNGKeyArray, chains: int
    ) -> dict[str, Any]:
        """Scattered starting points of rates and their groups, and masks to match, by the names of a state."""
        hierarchy, dtype = operands.hierarchy, operands.target.dtype
        k = jax.tree.leaves(operands.rate_prior if hierarchy is None else hierarchy.index)[0].shape[0]
        groups = 0 if hierarchy is None else hierarchy.mean_a.shape[0]
        strength = jnp.ones(()) if hierarchy is None else hierarchy.shape * hierarchy.scale
        free = logit(jax.random.uniform(key_rate, (chains, k), dtype, 0.02, 0.98))
        keep, kept = jax.nn.sigmoid(-self.feature_logit(operands, free)).T.astype(jnp.float32), []
        for i, block in enumerate(operands.columns.blocks):
            shape = (block.values.shape[0], chains, block.values.shape[1])
            uniform = jax.random.uniform(jax.random.fold_in(key_mask, i), shape, jnp.float32)
            kept.append((uniform < keep[block.features][:, :, None]) | ~block.occurs[:, None, :])
        return {
            "logit": free,
            "kept": tuple(kept),
            "group_logit": logit(jax.random.uniform(key_mean, (chains, groups), dtype, 0.1, 0.9)),
            "group_log_strength": jnp.full((chains, groups), jnp.log(strength), dtype),
        }

    def recorded_rates(self, operands: Operands, state: Any) -> tuple[dict[str, jax.Array], Float[jax.Array, " C"]]:
        """What is kept of rates and their groups, and the log density of these and of the masks, (C,)."""
        columns, feature_logit = operands.columns, self.feature_logit(operands, state.logit)
        counts = [jnp.sum(~mask, axis=-1, dtype=jnp.int32) for mask in state.kept]
        drops = columns.per_feature(counts, feature_logit.shape[:1], jnp.int32).T
        keeps = (columns.occurrences[None] - drops).astype(feature_logit.dtype)
        log_drop, log_keep = log_rates(feature_logit)
        # A rate that is fixed at 0 has no drops, and the logarithm −∞.
        dropped = jnp.where(drops > 0, drops.astype(feature_logit.dtype) * log_drop, 0)
        draw, lp = {}, jnp.sum(dropped + keeps * log_keep, axis=-1)
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
