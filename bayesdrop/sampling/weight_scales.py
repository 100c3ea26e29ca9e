"""Learnt scales of normal weights as samplers hold them: by their logarithms, with the groups and priors behind them.

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
from ..priors.base import LearntScale
from .matrix import placed

__all__ = [
    "ScaleOperands",
    "by_weight",
    "first_scales",
    "log_scale_prior",
    "recorded_scales",
    "scale_operands",
    "weight_precision",
]

Scales = Float[jax.Array, "C g"]


class ScaleOperands(NamedTuple):
    """Groups of weights and priors of their scales.

    Attributes
    ----------
    index : int array (p,)
        Group of each weight; ``g`` where the scale is known.
    unit_precision : array (p,)
        ``1/u²``.
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
    """Bring learnt scales into the form of the samplers; None if there are none."""
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
    """``log σ`` to start from, (C, g): scattered about the medians; (C, 0) where there are none."""
    # Chains start this far apart.
    if operands is None:
        return jnp.zeros((chains, 0), dtype)
    median = jnp.log(operands.law.median())
    return median[None] + scatter * jax.random.normal(key, (chains, median.shape[0]), dtype)


def weight_precision(operands: ScaleOperands, log_scale: Scales) -> Float[jax.Array, "C p"]:
    """Prior precision of each weight, (C, p)."""
    return operands.unit_precision[None] * jnp.exp(-2 * by_weight(operands, log_scale))


def by_weight(operands: ScaleOperands, per_group: Scales) -> Float[jax.Array, "C p"]:
    """Values of the groups for each weight, (C, p); 0 of weights whose scale is known."""
    return per_group.at[:, operands.index].get(mode="fill", fill_value=0)


def log_scale_prior(operands: ScaleOperands, log_scale: Scales) -> Scales:
    """Log prior density of ``t = log σ`` up to a constant, (C, g)."""
    law = jax.tree.map(lambda part: jnp.broadcast_to(part[None], log_scale.shape), operands.law)
    density: Scales = law.log_density(log_scale)
    return density


def recorded_scales(
    operands: ScaleOperands, log_scale: Scales, dims: tuple[str, ...] | None
) -> tuple[Float[jax.Array, "C ..."], Float[jax.Array, " C"]]:
    """Logarithms of scales on their dims, and what they add to the log density of weights and scales themselves."""
    density = log_scale_prior(operands, log_scale) - (1 + operands.size[None]) * log_scale
    return log_scale if dims else log_scale[:, 0], jnp.sum(density, axis=1)
