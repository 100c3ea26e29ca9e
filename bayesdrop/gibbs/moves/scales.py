"""Draw scales of normal weights, in two ways per sweep, and means and strengths of groups of rates.

    w_d = μ_d + σ_j u_d z_d,   z ~ N(0, I),      t_j = log σ_j

Given the weights a scale is independent of the data (:mod:`bayesdrop.priors.scale_prior`), and ``m`` weights determine
``t`` to ``±(2m)^{−½}``, so that it hardly moves if they are many. Given the directions ``z`` it is independent of the
prior of the weights: with ``c`` the contribution of the group of weights to the scores, the scores along the ray are
``s + (e^{t' − t} − 1) c``, and

    log p(t' | z) = log p(t') − loss{s + (e^{t' − t} − 1) c} + constant.

The two in turn mix better than the better of them alone (ancillarity-sufficiency interweaving; Yu & Meng 2011). Both
use slice sampling. The variance of the scores under noise scales with the square of the factor.

Means and strengths of groups of rates are drawn given the rates.

    η_d ~ Beta(μ_j s_j, (1 − μ_j) s_j),      μ_j ~ Beta(a, b),      s_j ~ Gamma(shape, scale)

Given the rates the groups are independent of the data, and their two numbers are drawn in turn by slice sampling, on
the scales of ``logit μ`` and ``log s``, where they are close to orthogonal and close to normal. Where the data say
little about single rates this hardly moves, and the joint move (:mod:`.joint_move`) moves a group with its rates.

A state has ``logit η``, ``logit μ`` and ``log s``, which resolve their ends in any precision. The Beta density is
``−s·KL(μ, η)`` plus Stirling's terms, so that sums over thousands of rates keep their digits in single precision.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``g`` scales or groups, ``k`` rates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import PRNGKeyArray

from ..._typing import Float, Int
from ...losses.base import at_shape
from ...priors.rate_prior import BetaLaw, log_rates
from ...sampling.prior_operands import (
    LearntParameter,
    ScaleOperands,
    by_weight,
    first_scales,
    log_parameter_prior,
    log_scale_prior,
    recorded_scales,
    weight_precision,
)
from ...sampling.slice_sampling import slice_sample
from .interweaving import by_group
from .state import HierarchyOperands, Operands

__all__ = [
    "WeightPrior",
    "draw_along_rays",
    "draw_given_weights",
    "draw_groups",
    "group_law",
    "log_beta_density",
    "log_hyperprior",
    "move_scales",
    "spread",
]

Scales = Float[jax.Array, "C g"]
Weights = Float[jax.Array, "*classes C p"]
Scores = tuple[Float[jax.Array, "*classes C n"], ...]

# Width of the first interval of a slice, in units of log σ; given m weights it is divided by √(1 + m).
_WIDTH = 6.0


@dataclass(frozen=True)
class WeightPrior:
    """Priors of weights and noise in the Gibbs samplers, and the draws that they share.

    Operands and states have the field names of :class:`.state.Operands` and :class:`.state.State`. Weights are (C, p),
    or (K, C, p) for many classes, whose scales list the chains of one class after another.

    Attributes
    ----------
    fit_intercept : bool
        Whether the model has an intercept.
    unit_weight : bool
        Whether every ``C s_i`` is 1, no parameter of the likelihood is learnt, and warm-up is not tempered.
    parameter : LearntParameter or None
        Scale or shape of the likelihood that is drawn.
    scale_mixture : type of a WeightPrior, or None
        Prior that draws the precisions of the weights; None if they are known.
    scale_names : tuple of str
        Names of the scales that it records.
    scale_dims : tuple of str, or None
        Dims of scales that normal weights share and that are drawn; None if there are none.
    choice : str
        Name of the draw of the weights, which the posterior reports.
    sweeps : int
        Sweeps per recorded draw.
    """

    fit_intercept: bool
    unit_weight: bool
    parameter: LearntParameter | None
    scale_mixture: type[Any] | None
    scale_names: tuple[str, ...]
    scale_dims: tuple[str, ...] | None
    choice: str
    sweeps: int

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the recorded variables."""
        return self.declared()

    @property
    def statistics(self) -> tuple[str, ...]:
        """The log density."""
        return ("lp",)

    @property
    def choices(self) -> dict[str, str]:
        """Choices that the posterior reports."""
        return {"weights_drawn_by": self.choice}

    def declared(self, *own: str) -> dict[str, tuple[str, ...]]:
        """Dims of the recorded variables; weights, intercepts and mixture scales have the dims ``own`` first."""
        names: dict[str, tuple[str, ...]] = {"weight": (*own, "feature")}
        names |= {"intercept": own} if self.fit_intercept else {}
        names |= dict.fromkeys(self.scale_names, own)
        names |= {} if self.scale_dims is None else {"weight_scale": self.scale_dims}
        return names | ({} if self.parameter is None else {self.parameter.name: ()})

    def step(self: Any, operands: Any, state: Any) -> tuple[Any, dict[str, jax.Array]]:
        """One recorded draw: ``sweeps`` sweeps of the kernel, and its record of the last state."""
        state = jax.lax.fori_loop(0, self.sweeps, lambda _, s: self.sweep(operands, s), state)
        return state, self.record(operands, state)

    def mixture_precision(self, key: PRNGKeyArray, weight: Weights, scales: Any) -> tuple[Weights, Any]:
        """Precisions of the weights under a mixture, and the scales behind them, given the weights."""
        mixture: Any = self.scale_mixture
        precision, scales = mixture.sample_precision(key, weight.reshape(-1, weight.shape[-1]), scales)
        return precision.reshape(weight.shape), scales

    def first_precision(self, operands: Any, key: PRNGKeyArray, weight: Weights) -> dict[str, Any]:
        """Precisions and scales to start from, by the names of a state."""
        count, chains = math.prod(weight.shape[:-1]), weight.shape[-2]
        scales = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape[1:])), operands.scales)
        precision, log_scale = operands.precision, first_scales(key, operands.learnt, chains, weight.dtype)
        if self.scale_mixture is not None:
            precision, scales = self.mixture_precision(key, weight, scales)
        if operands.learnt is not None:
            precision = weight_precision(operands.learnt, log_scale)
        return {"precision": jnp.broadcast_to(precision, weight.shape), "scales": scales, "log_scale": log_scale}

    @property
    def row_loss(self) -> Any:
        """The loss of a row; kernels define it."""
        raise NotImplementedError

    def loss_of(self, state: Any, rank: int = 2) -> Any:
        """The loss at the shapes of the chains, for scores (…, C, m) with ``rank`` axes."""
        loss = self.row_loss
        return loss if self.parameter is None else self.parameter.loss_at(loss, state.log_parameter, rank)

    def flat_loss(self, state: Any, rows: int) -> Any:
        """The loss at the shapes of the chains, for the rows of all chains, one chain after another."""
        if self.parameter is None or self.parameter.is_scale:
            return self.row_loss
        return at_shape(self.row_loss, {self.parameter.field: jnp.repeat(jnp.exp(state.log_parameter), rows)})

    def first_parameter(self, operands: Any, chains: int, dtype: Any) -> dict[str, Any]:
        """Starting value of the parameter of the likelihood, and its factor on the loss, by the names of a state."""
        if self.parameter is None:
            return {"log_parameter": jnp.zeros(chains, dtype), "noise_precision": jnp.ones(chains, dtype)}
        first = jnp.broadcast_to(operands.parameter.first, (chains,))
        return {"log_parameter": first, "noise_precision": self.parameter.multiplier(first)}

    def recorded_priors(self, operands: Any, state: Any) -> tuple[dict[str, jax.Array], Float[jax.Array, " C"]]:
        """Record of learnt scales and parameter, and their terms in the joint log density."""
        draw: dict[str, jax.Array] = {}
        chains, lp = state.log_scale.shape[0], jnp.zeros(state.log_scale.shape[0], state.precision.dtype)
        if self.scale_mixture is not None:
            precision, mixture = state.precision, self.scale_mixture
            draw |= {
                name: jnp.moveaxis(value.reshape(precision.shape[:-1]), -1, 0)
                for name, value in mixture.record(state.scales).items()
            }
            density = mixture.log_scale_density(precision.reshape(-1, precision.shape[-1]), state.scales)
            lp = lp + 0.5 * jnp.sum(jnp.log(precision).reshape(-1, chains, precision.shape[-1]), axis=(0, 2))
            lp = lp + jnp.sum(density.reshape(-1, chains), axis=0)
        if operands.learnt is not None:
            draw["log_weight_scale"], density = recorded_scales(operands.learnt, state.log_scale, self.scale_dims)
            lp = lp + density
        if self.parameter is not None:
            t = state.log_parameter
            draw[f"log_{self.parameter.name}"] = t
            # The density of the parameter, not of its logarithm.
            lp = lp + log_parameter_prior(self.parameter, operands.parameter, t) - t
            if self.parameter.is_scale:
                lp = lp - operands.parameter.rows * t
            else:
                target = jnp.broadcast_to(operands.target[None], (chains, operands.target.shape[0]))
                measure = self.loss_of(state).log_base_measure(target)
                lp = lp + jnp.sum(operands.row_weight[None] * measure, axis=1)
        return draw, lp


def draw_given_weights(
    key: PRNGKeyArray,
    operands: ScaleOperands,
    weight: Float[jax.Array, "C p"],
    log_scale: Scales,
    size: Scales | None = None,
) -> Scales:
    """Draw ``log σ`` given the weights (C, p), of which ``size`` (C, g) inform the scale; by default all."""
    square = operands.unit_precision[None] * weight * weight
    # If all weights are nearly zero, this precision does not resolve the lower end of the law.
    floor = float(jnp.finfo(weight.dtype).tiny)
    penalty = jnp.maximum(by_group(square.T, operands.index, log_scale.shape[1]).T, floor)
    size = jnp.broadcast_to(operands.size[None], log_scale.shape) if size is None else size

    def log_density(t: Scales) -> Scales:
        # The square is divided by σ² as a difference of logarithms, which does not overflow.
        return log_scale_prior(operands, t) - size * t - 0.5 * jnp.exp(jnp.log(penalty) - 2 * t)

    return slice_sample(key, log_density, log_scale, _WIDTH / jnp.sqrt(1 + size))


def draw_along_rays(
    key: PRNGKeyArray,
    operands: ScaleOperands,
    share: Callable[[Float[jax.Array, " p"]], Scores],
    log_likelihood: Callable[[Scores], Float[jax.Array, " C"]],
    scores: Scores,
    log_scale: Scales,
) -> tuple[Scores, Scales]:
    """Draw ``log σ`` given the directions of the weights, one group after another.

    Parameters
    ----------
    share : callable
        From a mask of features (p,), of zeros and ones, to the contributions of their weights to each of the scores.
    log_likelihood : callable
        From scores to the log-likelihood of each chain (C,).
    scores : tuple of arrays (…, C, n)
        Scores, or mean and variance of noised scores: the first scales with the factor, the second with its square.
    log_scale : array (C, g)
        Current values.

    Returns
    -------
    scores, log_scale
        New values; the caller multiplies the weights of a group by ``exp`` of the difference of its log scales.
    """
    chains, groups = log_scale.shape

    def one(j: Any, carry: tuple[Scores, Scales]) -> tuple[Scores, Scales]:
        scores, log_scale = carry
        start = log_scale[:, j]
        parts = share((operands.index == j).astype(start.dtype))
        law = jax.tree.map(lambda part: jnp.broadcast_to(part[j], (chains,)), operands.law)

        def at(t: Float[jax.Array, " C"]) -> Scores:
            return tuple(
                score + jnp.broadcast_to(jnp.expm1((power + 1) * (t - start))[:, None], part.shape) * part
                for power, (score, part) in enumerate(zip(scores, parts, strict=True))
            )

        def log_density(t: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
            prior: Float[jax.Array, " C"] = law.log_density(t)
            return prior + log_likelihood(at(t))

        new = slice_sample(jax.random.fold_in(key, j), log_density, start, jnp.full_like(start, _WIDTH))
        return at(new), log_scale.at[:, j].set(new)

    return jax.lax.fori_loop(0, groups, one, (scores, log_scale))


def move_scales(
    key: PRNGKeyArray,
    operands: Operands,
    state: Any,
    cost: Callable[[Float[jax.Array, "*classes C n"]], Float[jax.Array, " C"]],
    products: Callable[[Weights], Float[jax.Array, "*classes C n"]],
    location: Float[jax.Array, "C p"] | None = None,
) -> Any:
    """Draw learnt scales along the rays, given the masks; weights and scores of all classes move along.

    ``cost`` maps scores to minus their log-likelihood (C,), and ``products`` effective weights to scores.
    ``location`` is the prior mean of the effective weights, where the rays begin; None if it is 0. The state is
    unchanged if no scale is learnt, or if the intercept has a prior, which depends on the weights too.
    """
    learnt = operands.learnt
    if learnt is None or operands.level is not None:
        return state
    away = state.effective if location is None else state.effective - location

    def share(mask: Float[jax.Array, " p"]) -> Scores:
        return (products(away * jnp.broadcast_to(mask, away.shape)),)

    (score,), log_scale = draw_along_rays(
        key, learnt, share, lambda scores: -cost(scores[0]), (state.score,), state.log_scale
    )
    away = away * jnp.broadcast_to(jnp.exp(by_weight(learnt, log_scale - state.log_scale)), away.shape)
    return state._replace(
        score=score,
        effective=away if location is None else location + away,
        log_scale=log_scale,
        precision=jnp.broadcast_to(weight_precision(learnt, log_scale), away.shape),
    )


Elementwise = Float[jax.Array, "*shape"]
PerGroup = Float[jax.Array, "C g"]

# Beyond these logit μ and log s the law of the rates stays constant: all rates are then 0 or 1 to 10¹⁰ digits, and
# shapes μs of the order of exp(−70) can still be divided by in single precision.
_LOGIT, _LOG_STRENGTH = 40.0, 30.0


def _stirling(x: Elementwise) -> Elementwise:
    """``log Γ(x) − [(x − ½) log x − x + ½ log 2π]``, the remainder of Stirling's formula."""
    small = jnp.minimum(x, 8)
    direct = gammaln(small) - ((small - 0.5) * jnp.log(small) - small + 0.5 * math.log(2 * math.pi))
    inverse = 1 / jnp.maximum(x, 8)
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return jnp.where(x < 8, direct, series)


def _shapes(
    logit_mean: Elementwise, log_strength: Elementwise
) -> tuple[Elementwise, Elementwise, Elementwise, Elementwise, Elementwise]:
    """``log μ``, ``log(1 − μ)``, ``s``, ``A = μs`` and ``B = (1 − μ)s``, elementwise."""
    log_strength = jnp.clip(log_strength, -_LOG_STRENGTH, _LOG_STRENGTH)
    log_mean, log_rest = log_rates(jnp.clip(logit_mean, -_LOGIT, _LOGIT))
    up, down = jnp.exp(log_mean + log_strength), jnp.exp(log_rest + log_strength)
    return log_mean, log_rest, jnp.exp(log_strength), up, down


def group_law(logit_mean: Elementwise, log_strength: Elementwise) -> BetaLaw:
    """``Beta(μs, (1 − μ)s)`` of the rates of a group, elementwise."""
    return BetaLaw(*_shapes(logit_mean, log_strength)[-2:])


def log_beta_density(logit: Elementwise, logit_mean: Elementwise, log_strength: Elementwise) -> Elementwise:
    """Log density of the logit of a ``Beta(μs, (1 − μ)s)`` variable, normalised, elementwise."""
    log_rate, log_rest = log_rates(logit)
    log_mean, log_rest_mean, strength, up, down = _shapes(logit_mean, log_strength)
    divergence = up * (log_mean - log_rate) + down * (log_rest_mean - log_rest)
    stirling = _stirling(strength) - _stirling(up) - _stirling(down)
    return 0.5 * (jnp.log(up) + log_rest_mean - math.log(2 * math.pi)) + stirling - divergence


def spread(logit_mean: Elementwise, log_strength: Elementwise) -> Elementwise:
    """Scale of the logits of a group, elementwise: their standard deviation or a little more, whatever the shapes."""
    up, down = group_law(logit_mean, log_strength)
    return jnp.sqrt(1 + up) / up + jnp.sqrt(1 + down) / down


def log_hyperprior(operands: HierarchyOperands, logit_mean: PerGroup, log_strength: PerGroup) -> PerGroup:
    """Log prior density of ``(logit μ, log s)`` up to a constant, elementwise, (C, g)."""
    row = lambda value: jnp.broadcast_to(value.reshape(1, -1), logit_mean.shape)  # noqa: E731
    centre = BetaLaw(row(operands.mean_a), row(operands.mean_b)).log_density(logit_mean)
    return centre + row(operands.shape) * log_strength - jnp.exp(log_strength) / row(operands.scale)


def draw_groups(
    key: PRNGKeyArray,
    operands: HierarchyOperands,
    logit: Float[jax.Array, "C k"],
    logit_mean: PerGroup,
    log_strength: PerGroup,
    rounds: int = 3,
) -> tuple[PerGroup, PerGroup]:
    """Draw ``logit μ`` and ``log s`` (C, g) given the logits of the rates (C, k)."""
    # Means and strengths are drawn in turn, ``rounds`` times per sweep.
    groups, shape = logit_mean.shape[1], logit_mean.shape

    def log_density(logit_mean: PerGroup, log_strength: PerGroup) -> PerGroup:
        terms = log_beta_density(logit, logit_mean[:, operands.index], log_strength[:, operands.index])
        return by_group(terms.T, operands.index, groups).T + log_hyperprior(operands, logit_mean, log_strength)

    mean_width = jnp.broadcast_to(BetaLaw(operands.mean_a, operands.mean_b).width()[None], shape)
    # As for a Beta variable: ψ'(shape) is the variance of the logarithm.
    strength_width = jnp.broadcast_to(6 * jnp.sqrt(1 + operands.shape) / operands.shape, shape)

    def one(i: Int[jax.Array, ""], carry: tuple[PerGroup, PerGroup]) -> tuple[PerGroup, PerGroup]:
        logit_mean, log_strength = carry
        key_mean, key_strength = jax.random.split(jax.random.fold_in(key, i))
        logit_mean = slice_sample(key_mean, lambda x: log_density(x, log_strength), logit_mean, mean_width)
        log_strength = slice_sample(key_strength, lambda x: log_density(logit_mean, x), log_strength, strength_width)
        return logit_mean, log_strength

    return jax.lax.fori_loop(0, rounds, one, (logit_mean, log_strength))
