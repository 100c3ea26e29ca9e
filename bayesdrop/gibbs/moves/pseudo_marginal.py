r"""Joint moves of all weights and rates, with every mask redrawn: Hamiltonian Monte Carlo on a surrogate.

Given ``θ = (v, b, logit η)`` the score of a row is a sum of independent two-point variables, nearly normal with mean
``m`` and variance ``s²``. Two things follow. The surrogate energy

    Ũ(θ) = −log p(θ) − Σ_i log E_{z~N(0,1)} exp{−C s_i loss(y_i, m_i + s_i z)}

has gradients that move all of θ at once; and the masks can be drawn column by column from a *look-ahead* proposal
``q(α | θ)`` that treats the columns still to come as normal. A trajectory of Ũ (split as in Shahbaba et al. 2014) that
ends in ``θ'``, with ``α' ~ q(· | θ')``, is accepted with probability

    min{1, [p(θ', α', y)/q(α' | θ')] / [p(θ, α, y)/q(α | θ)] · exp(½‖r‖² − ½‖r'‖²)},

which leaves the exact posterior of ``(θ, α)`` invariant whatever surrogate and look-ahead (a pseudo-marginal move with
one particle; Andrieu & Roberts 2009). On data of a few hundred rows the logarithm of the weight ``p/q`` has a standard
deviation of 0.2 (logistic) to 1 (hinge), so most good trajectories are accepted; it grows as the root of ``n``, and
if it is too large the sampler detects this during warm-up and continues without this move.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``m`` entries per column, ``D`` coordinates of θ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float, Int
from ...distributions.draws import where_needed
from ...hmc.kernels.factors import unwhiten, whiten
from ...hmc.kernels.trajectory import split_trajectory
from ...losses.normal_score import gauss_hermite
from .columns import gather, scatter
from .features import log_mask_sum

__all__ = [
    "Metric",
    "RowLikelihood",
    "adapt_metric",
    "first_metric",
    "log_expected_likelihood",
    "mask_pass",
    "trajectory",
]

Elementwise = Float[jax.Array, "*shape"]
Cost = Callable[[Elementwise, Elementwise, Elementwise], Elementwise]
Point = Float[jax.Array, "C D"]


_KICKS = 12
_LARGEST_ANGLE = float(np.pi / 2) / _KICKS


class RowLikelihood(NamedTuple):
    """Likelihood of a row as a function of its score, from arrays target, score and row weight of one shape.

    Attributes
    ----------
    cost : callable
        Loss times its weights, elementwise.
    direct : callable or None
        ``exp(−cost)``, if that is cheaper and does not underflow at the scores of a sampler; None otherwise.
    """

    cost: Cost
    direct: Cost | None = None


def log_expected_likelihood(
    likelihood: RowLikelihood,
    target: Elementwise,
    row_weight: Elementwise,
    mean: Elementwise,
    var: Elementwise,
    nodes: int,
) -> Elementwise:
    """``log E exp(−cost)`` of a normal score by Gauss-Hermite quadrature; all arrays (C, m)."""
    points, shares = gauss_hermite(nodes)
    # The floor keeps the gradient of the root finite for rows without noise.
    spread = jnp.sqrt(var + jnp.finfo(var.dtype).tiny ** 0.5)
    # Nodes one by one, not as an axis: XLA then makes one pass of it, five times as fast as reductions over few nodes.
    scores = [mean + point * spread for point in points]
    if likelihood.direct is not None:
        values = [likelihood.direct(target, score, row_weight) for score in scores]
        return jnp.log(sum(share * value for share, value in zip(shares, values, strict=True)))
    costs = [likelihood.cost(target, score, row_weight) for score in scores]
    minimum = jax.lax.stop_gradient(reduce(jnp.minimum, costs))
    total = sum(share * jnp.exp(minimum - each) for share, each in zip(shares, costs, strict=True))
    return jnp.log(total) - minimum


def _moments(
    operands: Any,
    weight: Float[jax.Array, "C p"],
    intercept: Float[jax.Array, " C"],
    logit: Float[jax.Array, "C p"],
) -> tuple[Float[jax.Array, "C n"], Float[jax.Array, "C n"]]:
    """Mean and variance of the scores over the masks: (C, n) each."""
    drop, keep = jax.nn.sigmoid(logit), jax.nn.sigmoid(-logit)
    mean = operands.with_offset(operands.columns.full_product(weight * keep) + intercept[:, None])
    return mean, operands.columns.full_squared_product(weight * weight * drop * keep)


def mask_pass(
    operands: Any,
    likelihood: RowLikelihood,
    weight: Float[jax.Array, "C p"],
    intercept: Float[jax.Array, " C"],
    logit: Float[jax.Array, "C p"],
    old_masks: Sequence[Bool[jax.Array, "_ C _"]],
    uniform: Sequence[Float[jax.Array, "_ C _"]] | None,
    some_kept: bool = False,
    nodes: int = 5,
) -> tuple[Float[jax.Array, " C"], Float[jax.Array, "C n"], tuple[Bool[jax.Array, "_ C _"], ...]]:
    """Go through the columns with the look-ahead proposal; draw masks, or score given ones.

    Parameters
    ----------
    operands : Operands
        Columns, labels, loss weights and offset (:mod:`.state`).
    weight, intercept, logit : array (C, p), (C,), (C, p)
        Effective weights, intercept and logits of the rates per feature.
    old_masks : sequence of bool arrays (q, C, m)
        Masks to score, one array per block; if ``uniform`` is given, only never-dropped columns keep theirs.
    uniform : sequence of arrays (q, C, m), or None
        Uniform numbers to draw masks with.
    some_kept : bool
        Whether some features are never dropped.

    Returns
    -------
    log_ratio, score, masks
        ``log p(α, y | θ) − log q(α | θ)``, (C,); scores (C, n); masks.
    """
    chains, target, row_weight = weight.shape[0], operands.target, operands.row_weight
    mean, var = _moments(operands, weight, intercept, logit)

    def body(carry: Any, inputs: Any) -> Any:
        # A column that is never dropped has nothing to draw, and adds 0 to the ratio.
        masks, logit = inputs[2], inputs[5]
        passed = lambda both: one(both[0], (*inputs[:2], both[1], *inputs[3:]))  # noqa: E731
        return where_needed(jnp.isfinite(logit[0]), passed, (carry, masks)) if some_kept else passed((carry, masks))

    def one(carry: Any, inputs: Any) -> Any:
        mean, var, total = carry
        values, rows, masks, draws, v, logit = inputs
        shape = (chains, values.shape[0])
        pick = (lambda r: r) if rows is None else (lambda r: r.at[rows].get(mode="fill", fill_value=1))
        y, s = (jnp.broadcast_to(pick(r)[None], shape) for r in (target, row_weight))
        u, logit = v[:, None] * values[None], jnp.broadcast_to(logit[:, None], shape)
        drop, keep = jax.nn.sigmoid(logit), jax.nn.sigmoid(-logit)
        variance = u * u * drop * keep
        column_mean, other_var = gather(mean, rows), jnp.maximum(gather(var, rows) - variance, 0)
        kept_value = log_expected_likelihood(likelihood, y, s, column_mean + drop * u, other_var, nodes)
        dropped_value = log_expected_likelihood(likelihood, y, s, column_mean - keep * u, other_var, nodes)
        gain = kept_value - dropped_value
        if draws is not None:
            chance = jax.nn.sigmoid(gain - logit)
            masks = (draws < chance.astype(draws.dtype)) | (values == 0)[None]
        total = total + jnp.sum(log_mask_sum(gain, logit) - jnp.where(masks, gain, 0), axis=-1)
        mean = scatter(mean, rows, jnp.where(masks, drop, -keep) * u)
        return (mean, scatter(var, rows, -variance), total), masks

    carry, new_masks = (mean, var, jnp.zeros(chains, mean.dtype)), []
    for i, block in enumerate(operands.columns.blocks):
        draws = None if uniform is None else uniform[i]
        parts = (weight.T[block.features], logit.T[block.features])
        carry, masks = jax.lax.scan(body, carry, (block.values, block.rows, old_masks[i], draws, *parts))
        new_masks.append(masks)
    score, _, total = carry
    shape = score.shape
    final = likelihood.cost(jnp.broadcast_to(target[None], shape), score, jnp.broadcast_to(row_weight[None], shape))
    return total - jnp.sum(final, axis=-1), score, tuple(new_masks)


def surrogate_likelihood(
    operands: Any,
    likelihood: RowLikelihood,
    weight: Float[jax.Array, "C p"],
    intercept: Float[jax.Array, " C"],
    logit: Float[jax.Array, "C p"],
    nodes: int = 9,
) -> Float[jax.Array, " C"]:
    """Log-likelihood with the masks integrated as if scores were normal: (C,)."""
    mean, var = _moments(operands, weight, intercept, logit)
    y, s = (jnp.broadcast_to(part[None], mean.shape) for part in (operands.target, operands.row_weight))
    return jnp.sum(log_expected_likelihood(likelihood, y, s, mean, var, nodes), axis=-1)


class Metric(NamedTuple):
    """Metric that warm-up learns: mean, covariance and its factor, the angle of a step, and the acceptance.

    Attributes
    ----------
    mean, covariance, factor : array
        Moments of θ over chains and draws, and the Cholesky factor of the shrunk covariance (or the deviations).
    log_angle : array ()
        Logarithm of the angle of a leapfrog step.
    accepted : array ()
        Running mean of the acceptance probability.
    """

    mean: Float[jax.Array, " D"]
    covariance: Float[jax.Array, "D D"] | Float[jax.Array, " D"]
    factor: Float[jax.Array, "D D"] | Float[jax.Array, " D"]
    log_angle: Float[jax.Array, ""]
    accepted: Float[jax.Array, ""]


def first_metric(scale: Float[jax.Array, " D"], dense_up_to: int = 500) -> Metric:
    """Metric before warm-up, with standard deviations ``scale`` (D,)."""
    # Above ``dense_up_to`` coordinates the metric is diagonal.
    dense = scale.shape[0] <= dense_up_to
    return Metric(
        mean=jnp.zeros_like(scale),
        covariance=jnp.diag(scale * scale) if dense else scale * scale,
        factor=jnp.diag(scale) if dense else scale,
        log_angle=jnp.log(jnp.asarray(0.2, scale.dtype)),
        accepted=jnp.asarray(0.5, scale.dtype),
    )


def adapt_metric(
    metric: Metric,
    theta: Point,
    energy_acceptance: Float[jax.Array, " C"],
    acceptance: Float[jax.Array, " C"],
    count: Int[jax.Array, ""],
    target: float = 0.65,
) -> Metric:
    """Update from one draw of all chains: θ (C, D) and two acceptance probabilities (C,); later draws count more."""
    dtype = theta.dtype
    rate = 3 / (count.astype(dtype) + 6)
    mean = metric.mean + rate * (jnp.mean(theta, axis=0) - metric.mean)
    centred = theta - mean[None]
    dense = metric.covariance.ndim == 2
    spread = jnp.einsum("ci,cj->ij", centred, centred) if dense else jnp.sum(centred * centred, axis=0)
    covariance = metric.covariance + rate * (spread / theta.shape[0] - metric.covariance)
    if dense:
        variance = jnp.diagonal(covariance)
        scale = jnp.sqrt(variance)
        correlation = covariance / (scale[:, None] * scale[None, :])
        # A little shrinkage, while the draws behind the matrix are few.
        shrink = jnp.maximum(20 / (count.astype(dtype) + 40), 0.02)
        eye = jnp.eye(theta.shape[1], dtype=dtype)
        factor = scale[:, None] * jnp.linalg.cholesky((1 - shrink) * correlation + shrink * eye)
        factor = jnp.where(jnp.all(jnp.isfinite(factor)), factor, metric.factor)
    else:
        factor = jnp.sqrt(covariance)
    step = 1 / jnp.sqrt(count.astype(dtype) + 10)
    log_angle = metric.log_angle + step * (jnp.mean(energy_acceptance) - target)
    return Metric(
        mean=mean,
        covariance=covariance,
        factor=factor,
        log_angle=jnp.minimum(log_angle, float(np.log(_LARGEST_ANGLE))),
        accepted=metric.accepted + 0.03 * (jnp.mean(acceptance) - metric.accepted),
    )


def trajectory(
    key: PRNGKeyArray, log_density: Callable[[Point], Float[jax.Array, " C"]], metric: Metric, theta: Point
) -> tuple[Point, Float[jax.Array, " C"], Float[jax.Array, " C"]]:
    """One trajectory of the surrogate in whitened coordinates, ``θ = mean + L z``.

    ``log_density`` maps (C, D) to (C,), each chain by itself.

    Returns
    -------
    theta, log_momentum, energy_acceptance
        End point (C, D); ``½‖r‖² − ½‖r'‖²`` (C,); acceptance probability (C,) if the surrogate were exact.
    """

    def remainder(z: Point) -> tuple[Float[jax.Array, ""], Float[jax.Array, " C"]]:
        value = log_density(unwhiten(metric.mean, metric.factor, z))
        return jnp.sum(value + 0.5 * jnp.sum(z * z, axis=-1)), value

    def force(z: Point) -> tuple[Point, Float[jax.Array, " C"]]:
        (_, value), slope = jax.value_and_grad(remainder, has_aux=True)(z)
        return slope, value

    z = whiten(metric.mean, metric.factor, theta)
    key_momentum, key_angle = jax.random.split(key)
    start = jax.random.normal(key_momentum, z.shape, z.dtype)
    jitter = 0.8 + 0.4 * jax.random.uniform(key_angle, (), z.dtype)
    angle = jnp.exp(metric.log_angle) * jitter
    end, momentum, first, last = split_trajectory(force, z, start, angle, _KICKS)
    change = 0.5 * jnp.sum(start * start - momentum * momentum, axis=-1)
    gain = change + last - first
    acceptance = jnp.minimum(1, jnp.exp(jnp.where(jnp.isfinite(gain), gain, -jnp.inf)))
    return unwhiten(metric.mean, metric.factor, end), change, acceptance
