"""Draw included weights, and a learnt scale or shape of the likelihood by slice sampling given weights and scores.

The auxiliary variables are integrated out and drawn afterwards: drawn before, they would belong to the old value.
Shapes: ``C`` chains, ``n`` rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._typing import Float
from ...sampling.prior_operands import log_parameter_prior
from ...sampling.slice_sampling import slice_sample
from .active_set import lost_to_rounding

__all__ = ["draw_included", "draw_scale", "draw_shape"]

# Width of the first interval of a slice, in units of the logarithm; for a shape it shrinks with the number of rows.
_WIDTH = 6.0
_ROWS, _NARROWEST = 8.0, 0.5


def draw_scale(kernel: Any, operands: Any, key: PRNGKeyArray, state: Any, cost: Float[jax.Array, " C"]) -> Any:
    """Draw the scale given weights and scores, whose loss at scale 1 is ``cost`` (C,), and return the new state."""
    parameter, now = kernel.parameter, state.log_parameter
    rows, total_cost = operands.parameter.rows, parameter.multiplier(now) * cost

    def log_density(t: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
        # Differences from the current value keep the digits of single precision.
        fit = -rows * (t - now) - total_cost * jnp.expm1(-parameter.degree * (t - now))
        return fit + log_parameter_prior(parameter, operands.parameter, t)

    new = slice_sample(key, log_density, now, jnp.full_like(now, _WIDTH))
    return state._replace(log_parameter=new, noise_precision=parameter.multiplier(new))


def draw_shape(
    kernel: Any,
    operands: Any,
    key: PRNGKeyArray,
    state: Any,
    weight: Float[jax.Array, "C p"],
    costs: Callable[[Any, Float[jax.Array, " C"]], Float[jax.Array, "C n"]],
) -> tuple[Any, Float[jax.Array, " C"]]:
    """Draw the shape given weights and scores; return the state and the change of its intercept, (C,).

    ``costs`` maps the loss and a change of the intercept (C,) to the cost of each row, (C, n). The intercept moves with
    the shape, so that mean responses stay the same; at a fixed intercept the shape hardly moves.
    """
    parameter, now, moves = kernel.parameter, state.log_parameter, float(kernel.fit_intercept)
    target = jnp.broadcast_to(operands.target[None], (now.shape[0], operands.target.shape[0]))

    def log_terms(t: Float[jax.Array, " C"]) -> Float[jax.Array, "C n"]:
        loss = parameter.loss_at(kernel.row_loss, t)
        return operands.row_weight[None] * loss.log_base_measure(target) - costs(loss, moves * (now - t))

    first = log_terms(now)

    def log_density(t: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
        prior = log_parameter_prior(parameter, operands.parameter, t)
        if operands.level is not None:
            prior = prior + operands.level.log_density(weight, state.intercept + moves * (now - t))
        return prior + jnp.sum(log_terms(t) - first, axis=1)

    width = jnp.maximum(_WIDTH / jnp.sqrt(1 + operands.parameter.rows / _ROWS), _NARROWEST)
    new = slice_sample(key, log_density, now, jnp.broadcast_to(width, now.shape))
    return state._replace(log_parameter=new, intercept=state.intercept + moves * (now - new)), moves * (now - new)


def draw_included(
    generator: np.random.Generator, mean: Float[np.ndarray, " k"], covariance: Float[np.ndarray, "k k"]
) -> Float[np.ndarray, " k"]:
    """Draw the weights of the included features; ValueError if their covariance is lost to rounding."""
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise lost_to_rounding() from None
    return mean + factor @ generator.standard_normal(len(mean))
