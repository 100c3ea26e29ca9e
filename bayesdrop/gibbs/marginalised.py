r"""Gibbs sampling of the pseudo-posterior ``exp(−U)``: fixed noise, averaged inside the loss.

    U = ½ (w − μ)ᵀP(w − μ) + C Σ_i s_i φ(y_i, m_i, v_i)

with the moments ``m_i`` (an offset included) and ``v_i`` of the noised scores and the augmentation bound ``φ``. Each
sweep draws weights and intercept as :class:`.weights.AugmentedWeights` does. Without noise it is the Gibbs sampler of
the Bayesian support vector machine and of logistic regression. A scale-mixture prior of the weights, and an unknown
scale or shape of the likelihood, add a draw each.

Shapes: ``C`` chains, ``n`` rows, ``p`` features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._typing import Float
from ..data.dataset import Dataset
from ..losses.protocols import Augmented
from ..model import Model
from ..noise import Coefficients
from ..rates import RateMap
from ..sampling.matrix import placed
from ..sampling.prior_operands import (
    LevelOperands,
    ParameterOperands,
    ScaleOperands,
    by_weight,
    learnt_parameter,
    level_operands,
    parameter_operands,
    scale_operands,
    weight_precision,
)
from .moves.columns import Columns
from .moves.parameters import draw_scale, draw_shape
from .moves.scales import WeightPrior, draw_along_rays, draw_given_weights
from .weights import DRAWS, AugmentedWeights, NoisedFeatures, augmented_weights

__all__ = ["MarginalKernel", "MarginalOperands", "MarginalState", "bind_marginal", "bound_priors"]


class MarginalOperands(NamedTuple):
    """Data and priors.

    Attributes
    ----------
    columns : Columns
        The features.
    coefficients : Coefficients of arrays (1, p)
        Quadratic variance function of the noise.
    target, row_weight : array (n,)
        Labels −1 and +1 or numbers, and ``C`` times the row weights.
    precision : array (p,)
        Prior precision of the weights; its starting value if it is drawn.
    scales : pytree of arrays (1, …)
        Starting values of the latent scales of the weights, empty for a normal prior.
    learnt : ScaleOperands or None
        Learnt scales that normal weights share; None if there are none.
    parameter : ParameterOperands or None
        Prior of the learnt scale or shape of the likelihood; None if nothing is learnt.
    offset : array (n,), optional
        Known part of every row's score, included in the means of a state.
    location : array (p,), optional
        Prior mean of the weights; None if it is 0.
    level : LevelOperands, optional
        Prior of the intercept; None if it is flat.
    """

    columns: Columns
    coefficients: Coefficients
    target: Float[jax.Array, " n"]
    row_weight: Float[jax.Array, " n"]
    precision: Float[jax.Array, " p"]
    scales: Any
    learnt: ScaleOperands | None
    parameter: ParameterOperands | None
    offset: Float[jax.Array, " n"] | None = None
    location: Float[jax.Array, " p"] | None = None
    level: LevelOperands | None = None

    def from_location(self, weight: Float[jax.Array, "C p"]) -> Float[jax.Array, "C p"]:
        """Weights (C, p) less their prior mean."""
        return weight if self.location is None else weight - self.location[None]

    @property
    def features(self) -> NoisedFeatures:
        """Features, noise and targets for the draw of the weights."""
        return NoisedFeatures(self.columns, self.coefficients, self.target, self.offset)


class MarginalState(NamedTuple):
    """State of ``C`` chains: weights (C, p), intercept (C,), moments of the scores (C, n), scales and key."""

    weight: Float[jax.Array, "C p"]
    intercept: Float[jax.Array, " C"]
    mean: Float[jax.Array, "C n"]
    var: Float[jax.Array, "C n"]
    precision: Float[jax.Array, "C p"]
    scales: Any
    log_scale: Float[jax.Array, "C g"]
    log_parameter: Float[jax.Array, " C"]
    noise_precision: Float[jax.Array, " C"]
    key: PRNGKeyArray


@dataclass(frozen=True)
class MarginalKernel(WeightPrior):
    """Markov transition, with everything that is fixed at compilation and no data.

    Attributes
    ----------
    weights : AugmentedWeights
        Draw of weights and intercept.
    """

    weights: AugmentedWeights

    def init(self, operands: MarginalOperands, key: PRNGKeyArray, chains: int) -> MarginalState:
        """Start at random weights of half their prior scale."""
        key, key_weight, key_scale = jax.random.split(key, 3)
        p, dtype = operands.precision.shape[0], operands.target.dtype
        weight = 0.5 * jax.random.normal(key_weight, (chains, p), dtype) / jnp.sqrt(operands.precision)[None]
        weight = weight if operands.location is None else weight + operands.location[None]
        intercept = jnp.zeros(chains, dtype)
        mean, var = self.weights.moments(operands.features, weight, intercept)
        priors = self.first_precision(operands, key_scale, weight) | self.first_parameter(operands, chains, dtype)
        return MarginalState(weight, intercept, mean, var, key=key, **priors)

    def sweep(self, operands: MarginalOperands, state: MarginalState) -> MarginalState:
        """Draw auxiliary variables, weights and intercept, then scales of the weights and the learnt parameter."""
        key, key_aux, key_draw, key_scale, key_parameter = jax.random.split(state.key, 5)
        row_weight: Any = np.ones((), operands.target.dtype)
        if not self.unit_weight:
            row_weight = operands.row_weight[None] * state.noise_precision[:, None]
        weight, intercept = self.given(state).draw(
            key_aux, key_draw, operands.features, state.mean, state.var, row_weight, state.precision,
            operands.location, operands.level,
        )  # fmt: skip
        mean, var = self.weights.moments(operands.features, weight, intercept)
        state = state._replace(weight=weight, intercept=intercept, mean=mean, var=var, key=key)
        if self.scale_mixture is not None:
            new_precision, scales = self.mixture_precision(key_scale, state.weight, state.scales)
            state = state._replace(precision=new_precision, scales=scales)
        state = self._draw_scales(operands, state, key_scale)
        # Given the weights and before the next auxiliary variables, which depend on it.
        if self.parameter is not None and self.parameter.is_scale:
            return draw_scale(self, operands, key_parameter, state, jnp.sum(self.costs(operands, state), axis=1))
        if self.parameter is not None:
            target = jnp.broadcast_to(operands.target[None], mean.shape)

            def costs(loss: Any, higher: Float[jax.Array, " C"]) -> Float[jax.Array, "C n"]:
                return operands.row_weight[None] * loss.value(target, state.mean + higher[:, None], state.var)

            state, higher = draw_shape(self, operands, key_parameter, state, state.weight, costs)
            state = state._replace(mean=state.mean + higher[:, None])
        return state

    @property
    def row_loss(self) -> Any:
        """The loss of a row."""
        return self.weights.loss

    def given(self, state: MarginalState) -> AugmentedWeights:
        """Draw of weights and intercept, with the chains' shapes of the likelihood."""
        return replace(self.weights, loss=self.flat_loss(state, state.mean.shape[1]))

    def _draw_scales(self, operands: MarginalOperands, state: MarginalState, key: PRNGKeyArray) -> MarginalState:
        """Draw shared scales given the weights, then given their directions; rescale weights and moments."""
        learnt = operands.learnt
        if learnt is None:
            return state
        key_weights, key_rays = jax.random.split(key)
        away = operands.from_location(state.weight)
        start = draw_given_weights(key_weights, learnt, away, state.log_scale)
        has_variance = self.weights.quadratic or self.weights.linear or self.weights.constant
        if operands.level is not None or (operands.location is not None and has_variance):
            # A prior of the intercept depends on the weights too, and along a ray that does not begin at 0 the variance
            # of the scores does not scale with a power of the factor: the draw given the weights is enough.
            return state._replace(log_scale=start, precision=weight_precision(learnt, start))

        def share(mask: Float[jax.Array, " p"]) -> tuple[Float[jax.Array, "C n"], ...]:
            features = operands.features._replace(offset=None)
            return self.weights.moments(features, away * mask[None], jnp.zeros_like(state.intercept))

        (mean, var), log_scale = draw_along_rays(
            key_rays,
            learnt,
            share,
            lambda scores: -state.noise_precision * jnp.sum(self.costs_at(operands, state, *scores), axis=1),
            (state.mean, state.var),
            start,
        )
        factor = jnp.exp(by_weight(learnt, log_scale - start))
        return state._replace(
            mean=mean,
            var=var,
            weight=away * factor if operands.location is None else operands.location[None] + away * factor,
            log_scale=log_scale,
            precision=weight_precision(learnt, log_scale),
        )

    def costs(self, operands: MarginalOperands, state: MarginalState) -> Float[jax.Array, "C n"]:
        """Weighted marginalised loss of each row, (C, n)."""
        return self.costs_at(operands, state, state.mean, state.var)

    def costs_at(
        self,
        operands: MarginalOperands,
        state: MarginalState,
        mean: Float[jax.Array, "C n"],
        var: Float[jax.Array, "C n"],
    ) -> Float[jax.Array, "C n"]:
        """Weighted marginalised loss of each row, (C, n), at moments of the scores."""
        target = jnp.broadcast_to(operands.target[None], mean.shape)
        value: Float[jax.Array, "C n"] = operands.row_weight[None] * self.loss_of(state).value(target, mean, var)
        return value

    def record(self, operands: MarginalOperands, state: MarginalState) -> dict[str, jax.Array]:
        """Record of a draw: weight (C, p), intercept, learnt scales and likelihood parameter, and lp (C,)."""
        away = operands.from_location(state.weight)
        lp = -0.5 * jnp.sum(state.precision * away * away, axis=1) - state.noise_precision * jnp.sum(
            self.costs(operands, state), axis=1
        )
        if operands.level is not None:
            lp = lp + operands.level.log_density(state.weight, state.intercept)
        priors, density = self.recorded_priors(operands, state)
        intercept = {"intercept": state.intercept} if self.fit_intercept else {}
        return {"weight": state.weight, **intercept, **priors, "lp": lp + density}


def bound_priors(
    model: Model, data: Dataset, columns: Columns, choice: str, sweeps: int, dtype: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields and operands, by name, that the kernels with a normal or scale-mixture prior share."""
    p, prior, parameter = len(data.feature_names), model.weight_prior, learnt_parameter(model.loss)
    row_weight, learnt, location = model.C * data.weight, prior.learnt_scale(p), prior.location(p)
    scales, real = prior.init(jax.random.key(0), 1, p, np.dtype(dtype)), partial(placed, dtype=dtype)
    fields = {
        "fit_intercept": model.fit_intercept,
        "unit_weight": parameter is None and bool(np.all(row_weight == 1)),
        "parameter": parameter,
        "scale_mixture": None if prior.gaussian or learnt is not None else type(prior),
        "scale_names": tuple(prior.record(scales)),
        "scale_dims": None if learnt is None else learnt.dims,
        "choice": choice,
        "sweeps": sweeps,
    }
    return fields, {
        "columns": columns,
        "target": real(data.target),
        "row_weight": real(row_weight),
        "precision": real(prior.first_precision(p)),
        "scales": scales,
        "learnt": scale_operands(learnt, dtype),
        "parameter": parameter_operands(model.loss, data, dtype),
        "offset": None if data.offset is None else real(data.offset),
        "location": None if location is None else real(location),
        "level": level_operands(model, dtype),
    }


def bind_marginal(
    model: Model,
    loss: Augmented,
    data: Dataset,
    rate_map: RateMap,
    columns: Columns,
    choice: str,
    sweeps: int,
    dtype: str,
) -> tuple[MarginalKernel, MarginalOperands]:
    """Build the kernel and its operands.

    Raises
    ------
    ValueError
        If the form of the loss is not an augmentation bound, or the noise shifts the mean of a feature.
    """
    p = len(data.feature_names)
    parts = model.noise.coefficients(np.broadcast_to(np.asarray(rate_map.initial, dtype=np.float64), (p,)))
    if any(np.any(part) for part in (parts.quadratic, parts.linear, parts.constant)) and not model.loss.augmented:
        raise ValueError(
            f"method: Gibbs draws from exp(−U) by the auxiliary variables of the augmentation bound, and the loss is "
            f'{model.loss!r}; take expectation="augmentation", or method=bd.HMC(), which needs derivatives only.'
        )
    if np.any(parts.shift):
        raise ValueError(f"noise: {model.noise!r} shifts the mean of a feature; take method=bd.HMC().")
    model.noise.check(data.design.minimum())
    fields, operands = bound_priors(model, data, columns, choice, sweeps, dtype)
    weights = augmented_weights(loss, parts, model.fit_intercept, DRAWS[choice])
    coefficients = Coefficients(*(placed(part, dtype=dtype)[None] for part in parts))
    return MarginalKernel(weights=weights, **fields), MarginalOperands(coefficients=coefficients, **operands)
