r"""Gibbs sampling of the feature-noising model under a spike-and-slab prior: features, their rates and their masks.

    γ_d ~ Bernoulli(π),  w_d ~ N(0, 1/P_d),  η_d ~ prior,  α_id ~ Bernoulli(1 − η_d),
    y_i ~ exp{−C s_i loss(y_i, o_i + Σ_d γ_d w_d k(η_d) x_id α_id + b)}

A feature that is included and always dropped is nearly one that is excluded, so that an indicator hardly moves given
the masks of its own column. The sampler is that of :mod:`.kernel`, with all masks of excluded features at 0: their
weights are then drawn from the slab, and array shapes stay the same. The new step draws an indicator with its weight,
rate and masks summed out. ``L(w, η) = Π_i [(1 − η) f_i(w x_id)/f_i(0) + η]`` is the likelihood with the feature over
that without it, ``f_i(u)`` being the likelihood of row ``i`` at the score of the other features plus ``u``. Of ``M``
pairs ``(w, η)`` one is the current pair if the feature is included; the others have a rate from the prior and a weight
from a t distribution ``q`` of 2 degrees of freedom. With ``W_m = L(w_m, η_m) N(w_m; 0, 1/P)/q(w_m | η_m)``

    odds of γ_d = 1:  π/(1 − π) · Σ_m W_m / M,

and if it is included, the pair ``m`` is chosen with probability ``W_m/Σ W``. The posterior of ``(γ, w, η)`` is
invariant, whatever ``q`` (conditional importance resampling, Andrieu, Doucet & Holenstein 2010, with one step).

Shapes: ``C`` chains, ``n`` rows, ``p`` weights, ``m`` entries per column, ``M`` pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float
from ...distributions.draws import where_needed
from ...priors.inclusion_law import InclusionLaw
from ...sampling.matrix import placed
from ...sampling.prior_operands import log_scale_prior
from .columns import gather, scatter
from .features import Cost, FeatureStep, log_mask_sum, log_weight, update_feature
from .interweaving import by_group
from .kernel import GibbsKernel, adapted
from .state import Operands, State

__all__ = ["IndicatorKernel", "IndicatorOperands", "Indicators", "indicator_operands", "update_indicator"]


class IndicatorOperands(NamedTuple):
    """Law of the indicators of single features.

    Attributes
    ----------
    is_forced : bool array (p,)
        Weights that are never excluded, those of random terms among them.
    log_odds : array (p,) or None
        Known log odds; None if one probability is learnt.
    a, b : array ()
        Beta prior of the learnt probability.
    """

    is_forced: Bool[jax.Array, " p"]
    log_odds: Float[jax.Array, " p"] | None
    a: Float[jax.Array, ""]
    b: Float[jax.Array, ""]

    def prior_log_odds(self, included: Bool[jax.Array, "C p"], feature: Any) -> Float[jax.Array, " C"]:
        """Prior log odds of a free feature given the others, with a learnt probability integrated out."""
        if self.log_odds is not None:
            return jnp.broadcast_to(self.log_odds[feature], included.shape[:1])
        free = ~self.is_forced[None]
        others = jnp.sum(included & free, axis=1, dtype=self.a.dtype) - included[:, feature].astype(self.a.dtype)
        rest = jnp.sum(free, dtype=self.a.dtype) - 1 - others
        return jnp.log((self.a + others) / (self.b + rest))

    def counts(self, included: Bool[jax.Array, "C p"]) -> tuple[Float[jax.Array, " C"], Float[jax.Array, " C"]]:
        """Parameters of the Beta law of a learnt probability given the indicators."""
        free = ~self.is_forced[None]
        count = jnp.sum(included & free, axis=1, dtype=self.a.dtype)
        return self.a + count, self.b + jnp.sum(free, dtype=self.a.dtype) - count

    def log_density(self, included: Bool[jax.Array, "C p"]) -> Float[jax.Array, " C"]:
        """Log probability of the indicators, (C,)."""
        if self.log_odds is None:
            return betaln(*self.counts(included)) - betaln(self.a, self.b)
        signed = jnp.where(included, 1, -1).astype(self.a.dtype) * self.log_odds[None]
        return jnp.sum(jnp.where(self.is_forced[None], 0, jax.nn.log_sigmoid(signed)), axis=1)


def indicator_operands(law: InclusionLaw, effects: int, dtype: Any) -> IndicatorOperands:
    """Convert the law of the indicators, whose units are single features, for the sampler."""
    forced = np.append(law.is_forced[law.unit], np.ones(effects, dtype=bool))
    log_odds = None
    if law.probability is not None:
        chance = np.append(law.probability[law.unit], np.ones(effects))
        with np.errstate(divide="ignore"):
            log_odds = placed(np.where(forced, 0, np.log(chance) - np.log1p(-np.where(forced, 0, chance))), dtype)
    return IndicatorOperands(placed(forced, bool), log_odds, placed(law.a, dtype), placed(law.b, dtype))


class Indicators(NamedTuple):
    """Indicators of ``C`` chains, log odds of each when it was drawn, and the inclusion probability.

    Weights that are never excluded have infinite log odds.
    """

    included: Bool[jax.Array, "C p"]
    log_odds: Float[jax.Array, "C p"]
    chance: Float[jax.Array, " C"]


@dataclass(frozen=True)
class IndicatorKernel(GibbsKernel):
    """Markov transition, with its fields in addition to those of the noising model.

    Attributes
    ----------
    learns_chance : bool
        Whether the inclusion probability is learnt.
    effects : int
        Number of weights of random terms, which are the last ones.
    proposals : int
        Number ``M`` of pairs of a weight and a rate that are compared.
    first_size : int
        Expected number of features in the first model of the last chain.
    """

    learns_chance: bool
    effects: int
    proposals: int
    first_size: int

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the recorded variables."""
        names = self.declared() | {"included": ("feature",), "inclusion_probability": ("feature",), "model_size": ()}
        return names | ({"inclusion_prior": ()} if self.learns_chance else {})

    def init(self, operands: Operands, key: PRNGKeyArray, chains: int) -> State:
        """Start as the noising model does, with models of different sizes; the first chain includes no free feature."""
        key, key_model = jax.random.split(key)
        state, forced = super().init(operands, key, chains), operands.indicators.is_forced[None]
        p, n = forced.shape[1], state.score.shape[1]
        share = min(self.first_size, p // 2, n // 2) / p * jnp.linspace(0, 1, chains, dtype=state.score.dtype)
        uniform = jax.random.uniform(key_model, (chains, p), state.score.dtype)
        included = (uniform < share[:, None]) | forced
        odds = jnp.where(forced, jnp.inf, jnp.zeros_like(uniform))
        masks = tuple(
            mask & (included.T[block.features][:, :, None] | ~block.occurs[:, None, :])
            for block, mask in zip(operands.columns.blocks, state.masks, strict=True)
        )
        score = operands.with_offset(operands.columns.product(masks, state.effective, n))
        indicators = Indicators(included, odds, jnp.zeros(chains, state.score.dtype))
        return state._replace(masks=masks, score=score, indicators=indicators)

    def informative(
        self, operands: Operands, state: State, away: Float[jax.Array, "C p"]
    ) -> tuple[Float[jax.Array, "C p"], Float[jax.Array, "C g"] | None]:
        """Included weights, which alone inform learnt scales, and their number per scale."""
        is_in, learnt = state.indicators.included.astype(away.dtype), operands.learnt
        groups = state.log_scale.shape[1]
        return away * is_in, None if learnt is None else by_group(is_in.T, learnt.index, groups).T

    def gibbs_sweep(self, operands: Operands, state: State, thorough: Bool[jax.Array, ""]) -> State:
        """One sweep over all variables of all chains, a learnt inclusion probability too."""
        state, law, empty = super().gibbs_sweep(operands, state, thorough), operands.indicators, operands.columns.empty
        if law.log_odds is not None and not empty.shape[0]:
            return state
        key, key_chance, key_empty = jax.random.split(state.key, 3)
        included, odds, chance = state.indicators
        # The data do not inform features that never occur: draw the probability given the others, then these given it.
        never = jnp.zeros(law.is_forced.shape, bool).at[empty].set(True) & ~law.is_forced
        prior = law.log_odds
        if prior is not None:
            prior = prior[None]
        else:
            others = law._replace(is_forced=law.is_forced | never)
            a, b = others.counts(included)
            chance = jax.random.beta(key_chance, a, b, dtype=chance.dtype)
            prior = (jnp.log(chance) - jnp.log1p(-chance))[:, None]
        prior = jnp.broadcast_to(prior, odds.shape)
        drawn = jax.random.uniform(key_empty, odds.shape, odds.dtype) < jax.nn.sigmoid(prior)
        included, odds = jnp.where(never[None], drawn, included), jnp.where(never[None], prior, odds)
        return state._replace(key=key, indicators=Indicators(included, odds, chance))

    def _draw_features(
        self, operands: Operands, state: State, key: PRNGKeyArray, thorough: Bool[jax.Array, ""]
    ) -> State:
        """Draw every feature in turn: its indicator, weight and rate, with its masks summed out, then the masks."""
        cost, law, adapt = self.cost_given(state), operands.indicators, thorough & (state.count < operands.tune)
        pseudo = self.pseudo_given(state)

        def body(carry: Any, inputs: tuple[Any, ...]) -> Any:
            values, rows, mask, uniform, weight, logit, precision, width, feature, prior, key = inputs
            pick = (lambda r: r) if rows is None else (lambda r: r.at[rows].get(mode="fill", fill_value=1))
            target, row_weight = pick(operands.target), pick(operands.row_weight)
            step = FeatureStep(
                values, rows, target, row_weight, mask, uniform, weight, logit, precision, prior, key, width
            )

            def update(old: Any, key: PRNGKeyArray) -> Any:
                (score, (included, odds)), _ = old
                score, new, is_in, log_odds = update_indicator(
                    cost, pseudo, self.log_multiplier, self.per_feature, self.proposals, thorough, score,
                    step._replace(key=key), included[:, feature], law.prior_log_odds(included, feature),
                    law.is_forced[feature],
                )  # fmt: skip
                both = included.at[:, feature].set(is_in), odds.at[:, feature].set(log_odds)
                return (score, both), new

            # A weight that is never excluded or dropped is drawn with all others.
            moves = jnp.isfinite(logit[0]) | ~law.is_forced[feature]
            return where_needed(moves, update, (carry, (weight, logit, mask)), key)

        before, numbers = state.effective.T, jnp.arange(state.effective.shape[1])
        parts = state.precision.T, state.weight_width, numbers
        state, weight, both = self.draw_columns(operands, state, key, body, before, *parts, along=state.indicators[:2])
        is_in = state.indicators.included & both[0]
        jump = jnp.sum(jnp.where(is_in.T, jnp.abs(weight - before), 0), axis=1)
        jump = jump / jnp.maximum(jnp.sum(is_in, axis=0, dtype=jump.dtype), 1)
        width = adapted(state.weight_width, jump, adapt & jnp.any(is_in, axis=0))
        indicators = Indicators(both[0], both[1], state.indicators.chance)
        return state._replace(effective=weight.T, weight_width=width, indicators=indicators)

    def record(self, operands: Operands, state: State) -> dict[str, jax.Array]:
        """Record of a draw; weights of excluded features are 0, and their rates are drawn from the prior."""
        included, odds, chance = state.indicators
        is_in = included.astype(state.score.dtype)
        weight = self.weights(operands, state.effective, state.logit) * is_in
        rates, lp = self.recorded_rates(operands, state, included)
        normal = jnp.log(state.precision) - math.log(2 * math.pi) - state.precision * weight * weight
        lp = lp + 0.5 * jnp.sum(is_in * normal, axis=1) + operands.indicators.log_density(included)
        lp = lp - state.noise_precision * self.total_cost(operands, state, state.score)
        priors, density = self.recorded_priors(operands._replace(learnt=None), state)
        if operands.learnt is not None:
            priors["log_weight_scale"] = state.log_scale if self.scale_dims else state.log_scale[:, 0]
            density = density + jnp.sum(log_scale_prior(operands.learnt, state.log_scale) - state.log_scale, axis=1)
        intercept = {"intercept": state.intercept} if self.fit_intercept else {}
        learnt = {"inclusion_prior": chance} if self.learns_chance else {}
        return {
            "weight": weight,
            **rates,
            **intercept,
            **priors,
            **learnt,
            "included": included.astype(jnp.int8),
            "inclusion_probability": jax.nn.sigmoid(odds),
            "model_size": jnp.sum(included, axis=1, dtype=jnp.int32) - self.effects,
            "lp": lp + density,
        }


# EM rounds of the fit that centres the proposals of a weight.
_ROUNDS = 4


def update_indicator(
    cost: Cost,
    pseudo: Callable[..., Any],
    log_multiplier: Callable[[Any], Any],
    learn_rate: bool,
    proposals: int,
    thorough: Bool[jax.Array, ""],
    score: Float[jax.Array, "C n"],
    step: FeatureStep,
    included: Bool[jax.Array, " C"],
    prior_log_odds: Float[jax.Array, " C"],
    is_forced: Bool[jax.Array, ""],
) -> tuple[Any, Any, Bool[jax.Array, " C"], Float[jax.Array, " C"]]:
    """Draw the indicator of one feature with its weight, rate and masks; see the module.

    ``pseudo`` gives expected pseudo-observations of rows. The masks of a feature that is excluded are 0.

    Returns
    -------
    score, (weight, logit, mask), included, log_odds
        New values; a forced feature has infinite log odds.
    """
    shape, M = step.mask.shape, proposals
    key_rate, key_weight, key_choice, key_rest = jax.random.split(step.key, 4)
    values, target, row_weight = (
        jnp.broadcast_to(part[None], shape) for part in (step.values, step.target, step.row_weight)
    )
    contribution = jnp.where(step.mask, values * step.weight[:, None], 0)
    base, score = gather(score, step.rows) - contribution, scatter(score, step.rows, -contribution)
    # M rates for the pairs, and one more from the prior for an excluded feature.
    logit = jnp.broadcast_to(step.logit[None], (M + 1, shape[0]))
    if learn_rate:
        law = jax.tree.map(lambda part: jnp.broadcast_to(part[None], logit.shape), step.prior)
        logit = jnp.where(jnp.isfinite(logit), law.draw_logit(key_rate), logit)
    logit, out_logit = logit[:M].at[0].set(jnp.where(included, step.logit, logit[0])), logit[M]
    factor, keep = log_multiplier(logit), jax.nn.sigmoid(-logit)
    information, centre = _fitted(pseudo, target, base, values, row_weight, jnp.mean(keep, axis=0), step.precision)
    precision = jnp.broadcast_to(step.precision[None], logit.shape)
    inner = precision * jnp.exp(-2 * factor)
    total = inner + keep * keep * information[None]
    location, scale = keep * (information * centre)[None] / total, 1 / jnp.sqrt(total)
    edge = jnp.finfo(logit.dtype).eps
    uniform = jax.random.uniform(key_weight, logit.shape, logit.dtype, edge, 1 - edge)
    standard = (2 * uniform - 1) / jnp.sqrt(2 * uniform * (1 - uniform))
    weight = location + scale * standard
    weight = weight.at[0].set(jnp.where(included, step.weight, weight[0]))
    standard = (weight - location) / scale
    log_proposal = -3 * jnp.log(2 + standard * standard) / 2 - jnp.log(scale)
    log_slab = log_weight(weight, factor, precision) + 0.5 * (jnp.log(precision) - math.log(2 * math.pi))

    def one(pair: Any) -> Float[jax.Array, " C"]:
        weight, logit = pair
        gain = dropped - cost(target, base + weight[:, None] * values, row_weight)
        return jnp.sum(log_mask_sum(gain, logit[:, None]), axis=-1)

    dropped = cost(target, base, row_weight)
    log_ratio = jax.lax.map(one, (weight, logit)) + log_slab - log_proposal
    log_odds = prior_log_odds + jax.nn.logsumexp(log_ratio, axis=0) - math.log(M)
    log_odds = jnp.where(is_forced, jnp.inf, log_odds)
    key_in, key_which, key_out = jax.random.split(key_choice, 3)
    included = jax.random.uniform(key_in, log_odds.shape, log_odds.dtype) < jax.nn.sigmoid(log_odds)
    chosen = jax.random.categorical(key_which, log_ratio, axis=0)[None]
    pick = lambda pairs: jnp.take_along_axis(pairs, chosen, axis=0)[0]  # noqa: E731
    out_weight = jax.random.normal(key_out, log_odds.shape, log_odds.dtype)
    out_weight = out_weight * jnp.exp(log_multiplier(out_logit)) / jnp.sqrt(step.precision)
    weight, logit = jnp.where(included, pick(weight), out_weight), jnp.where(included, pick(logit), out_logit)
    # Slice moves of weight and rate, and new masks, if the feature is included.
    nothing = jnp.broadcast_to((step.values == 0)[None], shape)
    fresh = step._replace(weight=weight, logit=logit, mask=nothing, key=key_rest)
    moves = thorough & jnp.any(included)
    moved, (new_weight, new_logit, mask) = update_feature(cost, log_multiplier, learn_rate, moves, score, fresh)
    choose = lambda new, old: jnp.where(included.reshape(-1, *(1,) * (new.ndim - 1)), new, old)  # noqa: E731
    drawn = choose(new_weight, weight), choose(new_logit, logit), choose(mask, nothing)
    return choose(moved, score), drawn, included, log_odds


def _fitted(
    pseudo: Callable[..., Any],
    target: Any,
    base: Float[jax.Array, "C m"],
    values: Float[jax.Array, "C m"],
    row_weight: Any,
    keep: Float[jax.Array, " C"],
    precision: Float[jax.Array, " C"],
) -> tuple[Float[jax.Array, " C"], Float[jax.Array, " C"]]:
    """Information ``H`` and centre ``u`` of the likelihood of ``κ w`` in the expected score, ``−½H(κw − u)²``.

    ``κ`` is the probability that an entry is kept. By rounds of EM, which need no second derivatives. Affects
    efficiency only.
    """
    prior = precision / (keep * keep)

    def one(_: Any, carry: Any) -> Any:
        along, _, _ = carry
        omega, kappa = pseudo(target, base + along[:, None] * values, row_weight)
        # Leave out rows at a kink of the loss.
        usual = omega * omega * jnp.finfo(omega.dtype).eps < 1
        omega, kappa = jnp.where(usual, omega, 0), jnp.where(usual, kappa, 0)
        information = jnp.sum(omega * values * values, axis=1)
        pull = jnp.sum(values * (kappa - omega * base), axis=1)
        return pull / (information + prior), information, pull

    zero = jnp.zeros_like(keep)
    _, information, pull = jax.lax.fori_loop(0, _ROUNDS, one, (zero, zero, zero))
    return information, pull / jnp.maximum(information, jnp.finfo(information.dtype).tiny)
