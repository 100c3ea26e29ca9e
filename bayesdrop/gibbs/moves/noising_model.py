"""The feature-noising model as its moves see it: what rows say of their scores, and what rates do to weights.

Nothing here draws. Every move of :mod:`.kernel` and :mod:`.joint_move` asks for these, at a state of all chains.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``k`` free rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..._typing import Float
from ...losses.protocols import Augmented, likelihood_of
from ...noise import MaskNoise
from .pseudo_marginal import Cost, RowLikelihood
from .scales import group_law
from .state import Operands, State

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
    hierarchical : bool
        The priors of the rates are drawn.
    unit_weight : bool
        Every ``C s_i`` is 1, and the noise variance known.
    unknown_variance : bool
        The noise variance is drawn.
    tempered : bool
        Warm-up begins with a flatter likelihood: ``noise_precision`` of a state is its power.
    """

    loss: Augmented
    noise: MaskNoise
    fit_intercept: bool
    per_feature: bool
    grouped: bool
    hierarchical: bool
    unit_weight: bool
    unknown_variance: bool
    tempered: bool

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
            return logit[:, operands.index]
        return jnp.broadcast_to(operands.fixed_logit[None], (logit.shape[0], operands.fixed_logit.shape[0]))

    def weights(
        self, operands: Operands, effective: Float[jax.Array, "C p"], logit: Float[jax.Array, "C k"]
    ) -> Float[jax.Array, "C p"]:
        """Weights of effective ones: (C, p) and logits (C, k) to (C, p)."""
        return effective * jnp.exp(-self.log_multiplier(self.feature_logit(operands, logit)))

    def rate_prior(self, operands: Operands, state: State) -> Any:
        """Prior law of the free rates, (C, k)."""
        if operands.hierarchy is None:
            shape = state.logit.shape
            return jax.tree.map(lambda part: jnp.broadcast_to(part[None], shape), operands.rate_prior)
        index = operands.hierarchy.index
        return group_law(state.group_logit[:, index], state.group_log_strength[:, index])
