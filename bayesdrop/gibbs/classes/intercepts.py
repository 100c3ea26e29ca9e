r"""Intercepts of many classes drawn by slices, each given all else, by the exact softmax likelihood.

With ``s_ik`` the scores and ``o_ik = log Σ_{l≠k} exp(s_il)``, a shift ``δ`` of the intercept of class ``k`` has

    log p(δ | rest) = Σ_i C s_i {1[y_i = k] δ − log(exp(o_ik) + exp(s_ik + δ))} + constant,

as intercepts are flat. Auxiliary variables hold an intercept to a step of ``(Σ_i ω_i)^{−½}`` of a sweep, which is short
where the classes are separated and the likelihood is level over a long way; a slice crosses it at once.

Shapes: ``C`` chains, ``K`` classes, ``n`` rows.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float
from ...sampling.slice_sampling import slice_sample

__all__ = ["draw_intercepts"]

# First width of the slices.
_WIDTH = 4.0


def draw_intercepts(
    key: PRNGKeyArray,
    own: Bool[jax.Array, "K n"],
    row_weight: Float[jax.Array, " n"],
    intercept: Float[jax.Array, "K C"],
    score: Float[jax.Array, "K C n"],
) -> tuple[Float[jax.Array, "K C"], Float[jax.Array, "K C n"]]:
    """Draw the intercepts in turn; they and the scores, which have them, keep their sum over the classes."""
    K = score.shape[0]

    def one(carry: Any, inputs: Any) -> Any:
        intercept, score = carry
        k, mine, key = inputs
        others = jax.nn.logsumexp(jnp.where((jnp.arange(K) == k)[:, None, None], -jnp.inf, score), axis=0)
        members = jnp.sum(jnp.where(mine, row_weight, 0))

        def log_density(shift: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
            total = jnp.logaddexp(others, score[k] + shift[:, None])
            return members * shift - jnp.sum(row_weight[None] * total, axis=1)

        start = jnp.zeros_like(intercept[0])
        shift = slice_sample(key, log_density, start, jnp.full_like(start, _WIDTH))
        part = (jnp.arange(K) == k).astype(score.dtype) - 1 / K
        intercept = intercept + part[:, None] * shift[None]
        return (intercept, score + part[:, None, None] * shift[None, :, None]), None

    found, _ = jax.lax.scan(one, (intercept, score), (jnp.arange(K), own, jax.random.split(key, K)))
    intercept, score = found
    return intercept, score
