r"""The scale or shape of a likelihood that is learnt, as samplers hold it: by its logarithm ``t``, with its prior.

A scale ``σ`` of degree ``k`` multiplies the loss of row ``i`` by ``σ^{−k}`` and the density by ``σ^{−s_i}``,

    log p(t | w) = log p(t) − t Σ s_i − e^{−kt} Σ s_i loss(y_i, score_i) + constant,

which is concave. A shape is a setting of the loss itself (:func:`bayesdrop.losses.base.at_shape`), and the density of a
row then has the base measure of the loss. Shapes: ``C`` chains.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._typing import Float
from ..data.dataset import Dataset
from ..losses import Loss
from ..losses.base import at_shape
from .matrix import placed

__all__ = ["LearntParameter", "ParameterOperands", "learnt_parameter", "log_parameter_prior", "parameter_operands"]

PerChain = Float[jax.Array, " C"]


class LearntParameter(NamedTuple):
    """Parameter as it is fixed when a sampler is compiled; see :class:`bayesdrop.losses.base.Parameter`."""

    name: str
    field: str
    degree: int
    power: float

    @property
    def is_scale(self) -> bool:
        """True for a scale, False for a shape."""
        return self.degree > 0

    def multiplier(self, log_parameter: PerChain) -> PerChain:
        """Factor on the loss of scale 1, (C,)."""
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
        Law of the parameter to its power.
    rows : array ()
        ``Σ s_i``.
    first : array ()
        ``t`` to start from.
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
    """Its prior and the rows in the form of the samplers; None if nothing is learnt."""
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
