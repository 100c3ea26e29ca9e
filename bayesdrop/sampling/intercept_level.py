"""Normal prior of the intercept at the means of the columns, as samplers hold it.

    b + wᵀx̄ ~ N(m, 1/τ)

Shapes: ``C`` chains, ``p`` features.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from .._typing import Float
from ..model import Model
from ..priors.intercept import known_place
from .matrix import placed

__all__ = ["LevelOperands", "LevelRow", "level_operands"]


class LevelRow(NamedTuple):
    """The prior as one more Gaussian observation of weights and intercept, for each chain.

    Attributes
    ----------
    row : array (C, p)
        What it has of the weights; of the intercept it has 1.
    precision, pull : array (C,)
        ``τ``, and ``τ`` times the observation.
    """

    row: Float[jax.Array, "C p"]
    precision: Float[jax.Array, " C"]
    pull: Float[jax.Array, " C"]

    def drawn(self, key: PRNGKeyArray) -> tuple[Float[jax.Array, "C q"], Float[jax.Array, "C 1"]]:
        """The row with that of the intercept in units of its deviation, and the observation with noise drawn anew."""
        root = jnp.sqrt(self.precision)[:, None]
        whole = jnp.concatenate([self.row, jnp.ones_like(self.pull)[:, None]], axis=1)
        return root * whole, self.pull[:, None] / root + jax.random.normal(key, root.shape, root.dtype)

    def joined(
        self, masked: Float[jax.Array, "p C n"], omega: Float[jax.Array, "C n"], kappa: Float[jax.Array, "C n"]
    ) -> tuple[Float[jax.Array, "p C m"], Float[jax.Array, "C m"], Float[jax.Array, "C m"]]:
        """Features and pseudo-observations of the rows with this one behind them, m = n + 1."""
        return (
            jnp.concatenate([masked, self.row.T[:, :, None]], axis=2),
            jnp.concatenate([omega, self.precision[:, None]], axis=1),
            jnp.concatenate([kappa, self.pull[:, None]], axis=1),
        )


class LevelOperands(NamedTuple):
    """The prior: ``place`` (p,) is ``x̄``, ``precision`` () and ``mean`` () are ``τ`` and ``m``."""

    place: Float[jax.Array, " p"]
    precision: Float[jax.Array, ""]
    mean: Float[jax.Array, ""]

    def at_means(self, weight: Float[jax.Array, "C p"], intercept: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
        """Intercepts at the means of the columns, (C,)."""
        return intercept + jnp.sum(weight * self.place[None], axis=1)

    def log_density(self, weight: Float[jax.Array, "C p"], intercept: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
        """Log density of intercepts (C,) given weights (C, p), up to a constant."""
        return -0.5 * self.precision * jnp.square(self.at_means(weight, intercept) - self.mean)

    def row(self, gain: Float[jax.Array, "_ p"], centre: Float[jax.Array, "C p"] | None, chains: int) -> LevelRow:
        """The observation of ``v − centre`` where the weights are ``v / gain``."""
        row = jnp.broadcast_to(self.place[None] / gain, (chains, self.place.shape[0]))
        precision = jnp.broadcast_to(self.precision, (chains,))
        offset = jnp.zeros_like(precision) if centre is None else jnp.sum(row * centre, axis=1)
        return LevelRow(row, precision, precision * (self.mean - offset))


def level_operands(model: Model, dtype: Any) -> LevelOperands | None:
    """Bring the prior of the intercept into the form of the samplers; None if it is flat."""
    prior = model.intercept_prior
    if prior is None:
        return None
    real = partial(placed, dtype=dtype)
    return LevelOperands(real(known_place(prior)), real(float(prior.scale) ** -2.0), real(float(prior.mean)))
