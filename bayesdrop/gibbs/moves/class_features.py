"""Update one feature where classes share the masks: its weights and its rate, with the mask column summed out.

With ``x`` the column, ``b_i`` (K,) the scores of row ``i`` without the feature, ``v`` (K,) its effective weights, which
sum to zero if their priors are the same normal law, and ``π_i`` the softmax of ``b_i + v x_i``, the log-likelihood that
row ``i`` gains if the entry is kept is exactly

    g_i(v) = C s_i {log π(y_i | b_i + v x_i) − log π(y_i | b_i)},

so that masks need no auxiliary variable. As in :mod:`.features` the density of ``(v, η)`` with the column summed
out is ``N(v; 0, k²/P) p(η) Π_i [(1 − η) e^{g_i} + η]``, and an entry is kept with probability ``σ(g_i − logit η)``.

The weights move by a Metropolis step with the proposal ``N(v + H⁻¹∇, H⁻¹)``, where ``∇`` is the gradient of the log
density and, with ``q_i = σ(g_i − logit η)``,

    H = diag(P/k²) + Σ_i q_i C s_i x_i² (diag π_i − π_i π_iᵀ),

minus its Hessian without the term for the uncertainty of the masks, which could make ``H`` indefinite (a Newton
proposal; Gamerman 1997).

Intercepts are drawn by slices, each given all else. With ``s_ik`` the scores and ``o_ik = log Σ_{l≠k} exp(s_il)``, a
shift ``δ`` of the intercept of class ``k`` has

    log p(δ | rest) = Σ_i C s_i {1[y_i = k] δ − log(exp(o_ik) + exp(s_ik + δ))} + constant,

as intercepts have a flat prior. Given auxiliary variables, an intercept moves by about ``(Σ_i ω_i)^{−½}`` per sweep,
which is short if the classes are separated and the likelihood is flat over a long interval; a slice crosses it at once.

Shapes: ``C`` chains, ``K`` classes, ``n`` rows, ``m`` entries of the column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float
from ...sampling.slice_sampling import slice_sample
from .columns import gather, scatter
from .features import FeatureStep, log_mask_sum

__all__ = ["draw_intercepts", "log_softmax_of", "update_class_feature"]

Elementwise = Float[jax.Array, "..."]


class _Point(NamedTuple):
    """Log density of the weights, its gradient and a Cholesky factor of the curvature, and gains of the rows."""

    value: Float[jax.Array, " C"]
    gradient: Float[jax.Array, "K C"]
    factor: Float[jax.Array, "C K K"]
    gain: Float[jax.Array, "C m"]


def log_softmax_of(
    membership: Bool[jax.Array, "K m"], score: Float[jax.Array, "K C m"]
) -> tuple[Float[jax.Array, "C m"], Float[jax.Array, "K C m"]]:
    """``log π_y`` of each row (C, m), and all probabilities (K, C, m), from scores (K, C, m)."""
    top = jax.lax.stop_gradient(jnp.max(score, axis=0))
    rise = jnp.exp(score - top[None])
    total = jnp.sum(rise, axis=0)
    label_score = jnp.sum(jnp.where(membership[:, None, :], score, 0), axis=0)
    return label_score - top - jnp.log(total), rise / total[None]


def update_class_feature(
    log_multiplier: Callable[[Elementwise], Elementwise],
    learn_rate: bool,
    centred: bool,
    score: Float[jax.Array, "K C n"],
    step: FeatureStep,
) -> tuple[Float[jax.Array, "K C n"], tuple[Float[jax.Array, "K C"], Float[jax.Array, " C"], Bool[jax.Array, "C m"]]]:
    """Draw ``v_d``, then ``η_d``, each with the mask column summed out, then the column.

    ``centred`` says that the weights sum to zero over the classes; ``step.target`` is the membership of rows (K, m).

    Returns
    -------
    score, (weight, logit, mask)
        New values.
    """
    (K, chains, n), m = score.shape, step.mask.shape[1]
    values = step.values[None, None]
    contribution = jnp.where(step.mask[None], values * step.weight[:, :, None], 0)
    base = gather(score.reshape(K * chains, n), step.rows).reshape(K, chains, m) - contribution
    dropped, _ = log_softmax_of(step.target, base)
    factor = log_multiplier(step.logit)
    own_precision = step.precision * jnp.exp(-2 * factor)[None]
    eye = jnp.eye(K, dtype=base.dtype)

    def at(weight: Float[jax.Array, "K C"]) -> _Point:
        log_chance, chance = log_softmax_of(step.target, base + weight[:, :, None] * values)
        gain = step.row_weight[None] * (log_chance - dropped)
        share = jax.nn.sigmoid(gain - step.logit[:, None]) * (step.row_weight * step.values)[None]
        slope = jnp.sum(share[None] * (step.target[:, None, :].astype(chance.dtype) - chance), axis=2)
        heavy = share[None] * values * chance
        curve = -jnp.einsum("kcm,lcm->ckl", heavy, chance) + eye[None] * jnp.sum(heavy, axis=2).T[:, :, None]
        total = jnp.sum(log_mask_sum(gain, step.logit[:, None]), axis=1)
        value = total - 0.5 * jnp.sum(own_precision * weight * weight, axis=0)
        root = jnp.linalg.cholesky(curve + own_precision.T[:, :, None] * eye[None])
        return _Point(value, slope - own_precision * weight, root, gain)

    key_step, key_accept, key_rate = jax.random.split(step.key, 3)
    current = at(step.weight)
    noise = jax.random.normal(key_step, step.weight.shape, base.dtype)
    proposed = step.weight + _solve(current.factor, _solve(current.factor, current.gradient) + noise, True)
    proposed = proposed - jnp.mean(proposed, axis=0)[None] if centred else proposed
    candidate = at(proposed)
    change = candidate.value - current.value + _log_density(candidate, proposed, step.weight)
    change = change - _log_density(current, step.weight, proposed)
    accept = -jax.random.exponential(key_accept, change.shape, change.dtype) < change
    weight = jnp.where(accept[None], proposed, step.weight)
    gain = jnp.where(accept[:, None], candidate.gain, current.gain)
    logit = step.logit
    if learn_rate:

        def rate_density(logit: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
            total = jnp.sum(log_mask_sum(gain, logit[:, None]), axis=-1)
            factor = log_multiplier(logit)
            square = jnp.sum(step.precision * weight * weight, axis=0) * jnp.exp(-2 * factor)
            return total + step.prior.log_density(logit) - 0.5 * square - (K - centred) * factor

        # A rate of 0 stays as it is: the feature has no noise.
        noised = jnp.isfinite(logit)
        drawn = slice_sample(key_rate, rate_density, jnp.where(noised, logit, 0), step.prior.width())
        logit = jnp.where(noised, drawn, logit)
    chance = jax.nn.sigmoid(gain - logit[:, None])
    mask = (step.uniform < chance.astype(step.uniform.dtype)) | (step.values == 0)[None]
    moved = jnp.where(mask[None], values * weight[:, :, None], 0) - contribution
    score = scatter(score.reshape(K * chains, n), step.rows, moved.reshape(K * chains, m)).reshape(K, chains, n)
    return score, (weight, logit, mask)


def _solve(
    factor: Float[jax.Array, "C K K"], right: Float[jax.Array, "K C"], transposed: bool = False
) -> Float[jax.Array, "K C"]:
    """``L⁻¹ r`` of each chain, or ``L⁻ᵀ r``."""
    return solve_triangular(factor, right.T[:, :, None], lower=True, trans=int(transposed))[:, :, 0].T


def _log_density(point: _Point, start: Float[jax.Array, "K C"], end: Float[jax.Array, "K C"]) -> Float[jax.Array, " C"]:
    """Log density of a proposal from ``start`` to ``end``, up to a constant, (C,).

    If the weights sum to zero, the direction of their mean is an eigenvector of the curvature, and its eigenvalue, the
    prior's precision, is the same at both ends.
    """
    away = jnp.einsum("clk,lc->kc", point.factor, end - start) - _solve(point.factor, point.gradient)
    level = jnp.sum(jnp.log(jnp.diagonal(point.factor, axis1=1, axis2=2)), axis=1)
    return level - 0.5 * jnp.sum(away * away, axis=0)


def draw_intercepts(
    key: PRNGKeyArray,
    membership: Bool[jax.Array, "K n"],
    row_weight: Float[jax.Array, " n"],
    intercept: Float[jax.Array, "K C"],
    score: Float[jax.Array, "K C n"],
    first: float = 4.0,
) -> tuple[Float[jax.Array, "K C"], Float[jax.Array, "K C n"]]:
    """Draw the intercepts in turn; they and the scores, which include them, keep their sum over the classes."""
    # First width of the slices.
    K = score.shape[0]

    def one(carry: Any, inputs: Any) -> Any:
        intercept, score = carry
        k, is_member, key = inputs
        others = jax.nn.logsumexp(jnp.where((jnp.arange(K) == k)[:, None, None], -jnp.inf, score), axis=0)
        members = jnp.sum(jnp.where(is_member, row_weight, 0))

        def log_density(shift: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
            total = jnp.logaddexp(others, score[k] + shift[:, None])
            return members * shift - jnp.sum(row_weight[None] * total, axis=1)

        start = jnp.zeros_like(intercept[0])
        shift = slice_sample(key, log_density, start, jnp.full_like(start, first))
        part = (jnp.arange(K) == k).astype(score.dtype) - 1 / K
        intercept = intercept + part[:, None] * shift[None]
        return (intercept, score + part[:, None, None] * shift[None, :, None]), None

    (intercept, score), _ = jax.lax.scan(one, (intercept, score), (jnp.arange(K), membership, jax.random.split(key, K)))
    return intercept, score
