r"""Priors for samplers: of learnt scales of weights, of a learnt parameter of the likelihood, and of the intercept.

Scales of weights and parameters of the likelihood are recorded by their logarithms. A scale ``σ`` of degree ``k``
multiplies the loss of row ``i`` by ``σ^{−k}`` and the density by ``σ^{−s_i}``, with ``t = log σ``,

    log p(t | w) = log p(t) − t Σ s_i − e^{−kt} Σ s_i loss(y_i, score_i) + constant,

which is concave. A shape is a field of the loss (:func:`bayesdrop.losses.base.at_shape`), and the density of a row then
includes the base measure of the loss. The prior of the intercept is normal at the means of the columns,

    b + wᵀx̄ ~ N(m, 1/τ).

Shapes: ``C`` chains, ``p`` features, ``g`` scales.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._typing import Float, Int
from ..data.dataset import Dataset
from ..losses import Loss
from ..losses.base import at_shape
from ..model import Model
from ..priors.base import LearntScale
from ..priors.intercept import known_place
from .matrix import placed

__all__ = [
    "LearntParameter",
    "LevelOperands",
    "LevelRow",
    "ParameterOperands",
    "ScaleOperands",
    "by_weight",
    "first_scales",
    "learnt_parameter",
    "level_operands",
    "log_parameter_prior",
    "log_scale_prior",
    "parameter_operands",
    "recorded_scales",
    "scale_operands",
    "weight_precision",
]

Scales = Float[jax.Array, "C g"]
PerChain = Float[jax.Array, " C"]


class ScaleOperands(NamedTuple):
    """Groups of weights and priors of their scales.

    Attributes
    ----------
    index : int array (p,)
        Group of each weight; ``g`` if its scale is known.
    unit_precision : array (p,)
        ``1/u²``, the prior precision at ``σ = 1``.
    size : array (g,)
        Number of weights of each group.
    law : ScaleLaw of shape (g,)
        Priors.
    """

    index: Int[jax.Array, " p"]  # type: ignore[assignment]  # tuples have a method of this name
    unit_precision: Float[jax.Array, " p"]
    size: Float[jax.Array, " g"]
    law: Any


def scale_operands(learnt: LearntScale | None, dtype: Any) -> ScaleOperands | None:
    """Convert learnt scales for the samplers; None if there are none."""
    if learnt is None:
        return None
    real = partial(placed, dtype=dtype)
    return ScaleOperands(
        index=placed(learnt.index, np.int32),
        unit_precision=real(learnt.unit**-2),
        size=real(learnt.sums(np.ones(len(learnt.index)))),
        law=jax.tree.map(real, learnt.law),
    )


def first_scales(
    key: PRNGKeyArray, operands: ScaleOperands | None, chains: int, dtype: Any, scatter: float = 0.5
) -> Scales:
    """Starting values of ``log σ``, (C, g), scattered about the prior medians; (C, 0) if no scale is learnt."""
    # ``scatter`` is their standard deviation.
    if operands is None:
        return jnp.zeros((chains, 0), dtype)
    median = jnp.log(operands.law.median())
    return median[None] + scatter * jax.random.normal(key, (chains, median.shape[0]), dtype)


def weight_precision(operands: ScaleOperands, log_scale: Scales) -> Float[jax.Array, "C p"]:
    """Prior precision of each weight, (C, p)."""
    return operands.unit_precision[None] * jnp.exp(-2 * by_weight(operands, log_scale))


def by_weight(operands: ScaleOperands, per_group: Scales) -> Float[jax.Array, "C p"]:
    """Value of the group of each weight, (C, p); 0 for weights whose scale is known."""
    return per_group.at[:, operands.index].get(mode="fill", fill_value=0)


def log_scale_prior(operands: ScaleOperands, log_scale: Scales) -> Scales:
    """Log prior density of ``t = log σ`` up to a constant, (C, g)."""
    law = jax.tree.map(lambda part: jnp.broadcast_to(part[None], log_scale.shape), operands.law)
    density: Scales = law.log_density(log_scale)
    return density


def recorded_scales(
    operands: ScaleOperands, log_scale: Scales, dims: tuple[str, ...] | None
) -> tuple[Float[jax.Array, "C ..."], Float[jax.Array, " C"]]:
    """Logarithms of scales on their dims, and their terms in the log density of weights and scales."""
    density = log_scale_prior(operands, log_scale) - (1 + operands.size[None]) * log_scale
    return log_scale if dims else log_scale[:, 0], jnp.sum(density, axis=1)


class LearntParameter(NamedTuple):
    """Parameter of the likelihood, without data; see :class:`bayesdrop.losses.base.Parameter`."""

    name: str
    field: str
    degree: int
    power: float

    @property
    def is_scale(self) -> bool:
        """True for a scale, False for a shape."""
        return self.degree > 0

    def multiplier(self, log_parameter: PerChain) -> PerChain:
        """Factor on the loss at scale 1, (C,)."""
        return jnp.exp(-self.degree * log_parameter)

    def loss_at(self, loss: Any, log_parameter: PerChain, rank: int = 2) -> Any:
        """The loss at the shapes of the chains, for arrays whose last two axes of ``rank`` are chains and rows."""
        if self.is_scale:
            return loss
        return at_shape(loss, {self.field: jnp.exp(log_parameter).reshape((1,) * (rank - 2) + (-1, 1))})


class ParameterOperands(NamedTuple):
    """Prior and data of the parameter.

    Attributes
    ----------
    law : ScaleLaw of shape ()
        Prior law of the parameter raised to its ``power``.
    rows : array ()
        ``Σ s_i``.
    first : array ()
        Starting value of ``t``.
    """

    law: Any
    rows: Float[jax.Array, ""]
    first: Float[jax.Array, ""]


def learnt_parameter(loss: Loss) -> LearntParameter | None:
    """The parameter of a loss that is learnt; None if there is none."""
    if not loss.parameters:
        return None
    (parameter,) = loss.parameters
    return LearntParameter(parameter.name, parameter.field, parameter.degree, parameter.power)


def parameter_operands(loss: Loss, data: Dataset, dtype: Any) -> ParameterOperands | None:
    """Convert the prior of the learnt parameter for the samplers; None if nothing is learnt."""
    if not loss.parameters:
        return None
    (parameter,) = loss.parameters
    law, real = jax.tree.map(lambda part: part[0], parameter.prior.law(1)), partial(placed, dtype=dtype)
    first = float(np.log(law.median())) / parameter.power
    return ParameterOperands(jax.tree.map(real, law), real(float(np.sum(data.weight))), real(first))


def log_parameter_prior(
    parameter: LearntParameter, operands: ParameterOperands, log_parameter: Float[jax.Array, "*C"]
) -> Float[jax.Array, "*C"]:
    """Log prior density of ``t`` up to a constant, elementwise."""
    law = jax.tree.map(lambda part: jnp.broadcast_to(part, log_parameter.shape), operands.law)
    density: Float[jax.Array, "*C"] = law.log_density(parameter.power * log_parameter)
    return density


class LevelRow(NamedTuple):
    """Prior of the intercept as one more Gaussian observation of weights and intercept, for each chain.

    Attributes
    ----------
    row : array (C, p)
        Coefficients of the weights; the coefficient of the intercept is 1.
    precision, pull : array (C,)
        ``τ``, and ``τ`` times the observation.
    """

    row: Float[jax.Array, "C p"]
    precision: Float[jax.Array, " C"]
    pull: Float[jax.Array, " C"]

    def joined(
        self, masked: Float[jax.Array, "p C n"], omega: Float[jax.Array, "C n"], kappa: Float[jax.Array, "C n"]
    ) -> tuple[Float[jax.Array, "p C m"], Float[jax.Array, "C m"], Float[jax.Array, "C m"]]:
        """Append this row to the features and pseudo-observations of the rows, m = n + 1."""
        return (
            jnp.concatenate([masked, self.row.T[:, :, None]], axis=2),
            jnp.concatenate([omega, self.precision[:, None]], axis=1),
            jnp.concatenate([kappa, self.pull[:, None]], axis=1),
        )


class LevelOperands(NamedTuple):
    """Prior of the intercept: ``place`` (p,) is ``x̄``, ``precision`` () and ``mean`` () are ``τ`` and ``m``."""

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
        """The prior as an observation of ``v − centre``, where the weights are ``v / gain``."""
        row = jnp.broadcast_to(self.place[None] / gain, (chains, self.place.shape[0]))
        precision = jnp.broadcast_to(self.precision, (chains,))
        offset = jnp.zeros_like(precision) if centre is None else jnp.sum(row * centre, axis=1)
        return LevelRow(row, precision, precision * (self.mean - offset))


def level_operands(model: Model, dtype: Any) -> LevelOperands | None:
    """Convert the prior of the intercept for the samplers; None if it is flat."""
    prior = model.intercept_prior
    if prior is None:
        return None
    real = partial(placed, dtype=dtype)
    return LevelOperands(real(known_place(prior)), real(float(prior.scale) ** -2.0), real(float(prior.mean)))
