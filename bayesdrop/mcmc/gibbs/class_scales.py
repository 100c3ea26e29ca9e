"""Precisions of the weights of many classes under a scale mixture: drawn for each class by itself, and their density.

Shapes: ``C`` chains, ``K`` classes, ``p`` features. The scales behind the precisions hold the chains of one class after
another.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ..._typing import Float

__all__ = ["class_precisions", "recorded_class_scales"]

PerClass = Float[jax.Array, "K C p"]


def class_precisions(mixture: Any, key: PRNGKeyArray, weight: PerClass, scales: Any) -> tuple[PerClass, Any]:
    """Precisions of the weights of each class, and the scales behind them, given the weights."""
    flat, scales = mixture.sample_precision(key, weight.reshape(-1, weight.shape[2]), scales)
    return flat.reshape(weight.shape), scales


def recorded_class_scales(
    mixture: Any, precision: PerClass, scales: Any
) -> tuple[dict[str, Float[jax.Array, "C K"]], Float[jax.Array, " C"]]:
    """What is kept of the scales, and what they add to the log density of weights that are normal given them."""
    K, chains, p = precision.shape
    kept = {name: value.reshape(K, chains).T for name, value in mixture.record(scales).items()}
    density = mixture.log_scale_density(precision.reshape(K * chains, p), scales).reshape(K, chains)
    return kept, 0.5 * jnp.sum(jnp.log(precision), axis=(0, 2)) + jnp.sum(density, axis=0)
