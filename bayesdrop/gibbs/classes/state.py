"""State of the sampler of many classes that share the masks.

Shapes: ``C`` chains, ``K`` classes, ``n`` rows, ``p`` features, ``q`` features and ``m`` entries in a block, ``k`` free
rates, ``g`` groups of a hierarchy of rates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float

__all__ = ["ClassState"]


class ClassState(NamedTuple):
    """State of ``C`` chains.

    Attributes
    ----------
    effective, intercept : array (K, C, p), (K, C)
        Weights times what a kept entry is multiplied by, and intercepts; intercepts sum to zero over the classes, and
        so do weights of a normal prior.
    logit : array (C, k)
        Logits of the free rates.
    kept : tuple of bool arrays (q, C, m)
        Masks, one array per block of columns.
    score : array (K, C, n)
        Scores of the masked rows.
    precision : array (K, C, p)
        Prior precision of the weights.
    scales : pytree of arrays (K C, …)
        Latent scales behind it, the chains of one class after another.
    log_scale : array (C, scales)
        Logarithms of scales that the weights of all classes share, where they are drawn.
    group_logit, group_log_strength : array (C, g)
        Beta priors of the rates, where they are drawn.
    key : key
        Random key.
    """

    effective: Float[jax.Array, "K C p"]
    intercept: Float[jax.Array, "K C"]
    logit: Float[jax.Array, "C k"]
    kept: tuple[Bool[jax.Array, "_ C _"], ...]
    score: Float[jax.Array, "K C n"]
    precision: Float[jax.Array, "K C p"]
    scales: Any
    log_scale: Float[jax.Array, "C scales"]
    group_logit: Float[jax.Array, "C g"]
    group_log_strength: Float[jax.Array, "C g"]
    key: PRNGKeyArray
