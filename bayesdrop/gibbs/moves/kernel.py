r"""Partially collapsed Gibbs sampling of the feature-noising model, its masks included.

    w ~ N(μ, P⁻¹),  b flat,  η_d ~ prior,  α_id ~ Bernoulli(1 − η_d) where x_id ≠ 0,
    y_i ~ exp{−C s_i · loss(y_i, o_i + Σ_d w_d k(η_d) x_id α_id + b)/σ²}

(Zhuo, Zhu & Zhang 2015, section 3, with its exact likelihood and not Jensen's bound); rows that have masks have
``s_i = 1`` (:func:`bayesdrop.gibbs.method.with_copies`). ``P``, the parameters of a Beta prior of the rates, and the
scale ``σ`` (else 1) or shape of the likelihood may be unknown. One sweep is

0. the unknown parts of ``P``, the likelihood and the prior of the rates, each given weights, scores or rates;
1. auxiliary variables given the scores, then weights and intercept given them and the masks, as one Gaussian draw
   (Polson & Scott 2011; Polson, Scott & Windle 2013), with a learnt shape, where this costs several sweeps, only while
   joint moves are rarely accepted; then, without auxiliary variables, learnt scales along rays (:mod:`.scales`);
2. for each feature, with its masks summed out: the weight, then the rate, by slice sampling; then the masks;
3. rates shared by several features: given the masks, then interweaved with uniform variables behind the masks;
4. joint moves (:mod:`.joint_move`); while they are accepted, most sweeps draw only the masks in step 2.

**Why these moves.** Drawing every variable from its full conditional is exact but mixes too slowly: a rate follows the
masks and the masks follow the rate. Summing the masks out frees the rate and, in the same step, the *weight*, which
given the masks must keep explaining the rows whose entries are kept. The Gaussian draw remains, because features that
are nearly copies of each other exchange weight in directions that no single coordinate follows. Groups cannot sum out
all their columns at once and interweave instead (Yu & Meng 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float
from ...distributions.draws import where_needed
from ...sampling.prior_operands import weight_precision
from .features import FeatureLevel, FeatureStep, update_feature
from .interweaving import interweave
from .joint_move import joint_moves
from .noising_model import NoisingModel
from .parameters import draw_scale, draw_shape
from .pseudo_marginal import first_metric
from .scales import draw_given_weights, move_scales
from .state import Conditional, Operands, State

__all__ = ["GibbsKernel", "Operands", "State", "adapted"]

# Joint moves whose mean acceptance falls below this are not tried again after warm-up.
_LEAST_ACCEPTED = 0.02
# During warm-up they are tried again once in this number of draws, because the metric may have improved.
_RETRY = 8
# While joint moves are accepted, the sweeps of one draw in this number also draw weights and rates by feature.
_THOROUGH = 4


def adapted(width: Float[jax.Array, " p"], jump: Float[jax.Array, " p"], adapt: Any) -> Float[jax.Array, " p"]:
    """Widths after a sweep of warm-up: running means of four times the mean jump, about 4.5 standard deviations."""
    return jnp.where(adapt, 0.95 * width + 0.05 * (4 * jump), width)


@dataclass(frozen=True)
class GibbsKernel(NoisingModel):
    """Markov transition that leaves the posterior of a noising model invariant.

    Attributes
    ----------
    joint_moves : int
        Number of joint moves after each sweep.
    """

    joint_moves: int

    def init(self, operands: Operands, key: PRNGKeyArray, chains: int) -> State:
        """Scattered starting points: random rates, masks drawn from them, and weights of half their prior scale."""
        p, n, columns = operands.precision.shape[0], operands.target.shape[0], operands.columns
        dtype = operands.target.dtype
        key, key_rate, key_weight, key_mask, key_scale, key_mean = jax.random.split(key, 6)
        rates = self.first_masks(operands, key_rate, key_mask, key_mean, chains)
        weight = 0.5 * jax.random.normal(key_weight, (chains, p), dtype) / jnp.sqrt(operands.precision)[None]
        weight = weight if operands.location is None else weight + operands.location[None]
        effective = weight * jnp.exp(self.log_multiplier(self.feature_logit(operands, rates["logit"])))
        size = p + self.fit_intercept + rates["logit"].shape[1] + 2 * rates["group_logit"].shape[1]
        return State(
            **rates,
            **self.first_precision(operands, key_scale, weight),
            **self.first_parameter(operands, chains, dtype),
            effective=effective,
            intercept=jnp.zeros(chains, dtype),
            score=operands.with_offset(columns.product(rates["masks"], effective, n)),
            weight_width=4 / jnp.sqrt(operands.precision),
            metric=first_metric(jnp.ones(size, dtype)),
            count=jnp.int32(0),
            key=key,
        )

    def step(self, operands: Operands, state: State) -> tuple[State, dict[str, jax.Array]]:
        """One recorded draw: ``sweeps`` sweeps."""
        state, record = super().step(operands, state)
        return state._replace(count=state.count + 1), record

    def sweep(self, operands: Operands, state: State) -> State:
        """One sweep over all variables of all chains, and joint moves."""
        if not self.joint_moves:
            return self.gibbs_sweep(operands, state, jnp.asarray(True))
        tuning = state.count < operands.tune
        accepted = state.metric.accepted > _LEAST_ACCEPTED
        useful = accepted | (tuning & (state.count % _RETRY == 0))
        state = self.gibbs_sweep(operands, state, ~accepted | (state.count % _THOROUGH == 0))
        return where_needed(useful, lambda s: joint_moves(self, self.joint_moves, operands, s, tuning), state)

    def gibbs_sweep(self, operands: Operands, state: State, thorough: Bool[jax.Array, ""]) -> State:
        """One sweep over all variables of all chains; unless ``thorough``, features only have their masks redrawn."""
        key, key_prior, key_gauss, key_features, key_groups, key_rays = jax.random.split(state.key, 6)
        state = self._draw_priors(operands, self._temper(operands, state._replace(key=key)), key_prior)
        if not self.joint_moves or self.parameter is None or self.parameter.is_scale:
            state = self._draw_weights(operands, state, key_gauss)
        else:
            # Several auxiliary variables per count cost more than a sweep, and trajectories move the weights as well.
            rare = _THOROUGH * self.joint_moves * state.metric.accepted < 1
            state = where_needed(rare, lambda s, key: self._draw_weights(operands, s, key), state, key_gauss)
        precision, unscaled = state.noise_precision, partial(self.total_cost, operands, state)
        cost = lambda score: precision * unscaled(score)  # noqa: E731
        products = lambda weight: operands.columns.product(state.masks, weight, operands.target.shape[0])  # noqa: E731
        location = self.effective_location(operands, state.logit)
        state = move_scales(key_rays, operands, state, cost, products, location)
        state = self._draw_features(operands, state, key_features, thorough)
        if self.grouped:
            prior = self.rate_prior(operands, state)
            state = interweave(operands, state, cost, self.log_multiplier, prior, key_groups)
        return state

    def _temper(self, operands: Operands, state: State) -> State:
        """Raise the likelihood to a power that grows to 1 over the first half of the warm-up.

        A small known variance makes every mask of the first sweeps permanent: weights that were drawn for wrong masks
        fit them, and no single entry can change. At a power at which noise explains the whole response, they can.
        """
        if not self.tempered:
            return state
        done = jnp.minimum(2 * state.count / jnp.maximum(operands.tune, 1), 1).astype(state.score.dtype)
        power = jnp.exp((1 - done) * jnp.log(operands.first_power))
        return state._replace(noise_precision=jnp.broadcast_to(power, state.noise_precision.shape))

    def _draw_priors(self, operands: Operands, state: State, key: PRNGKeyArray) -> State:
        """Draw unknown precisions of weights, the parameter of the likelihood and the priors of rates."""
        key_scale, key_parameter, key_groups = jax.random.split(key, 3)
        if self.scale_mixture is not None:
            weight = self.weights(operands, state.effective, state.logit)
            precision, scales = self.mixture_precision(key_scale, weight, state.scales)
            state = state._replace(precision=precision, scales=scales)
        if operands.learnt is not None:
            weight = self.weights(operands, state.effective, state.logit)
            away, size = self.informative(operands, state, operands.from_location(weight))
            log_scale = draw_given_weights(key_scale, operands.learnt, away, state.log_scale, size)
            precision = weight_precision(operands.learnt, log_scale)
            state = state._replace(precision=precision, log_scale=log_scale)
        # Given the scores and before the auxiliary variables, which depend on it.
        if self.parameter is not None and self.parameter.is_scale:
            state = draw_scale(self, operands, key_parameter, state, self.total_cost(operands, state, state.score))
        elif self.parameter is not None:
            target = jnp.broadcast_to(operands.target[None], state.score.shape)

            def costs(loss: Any, higher: Float[jax.Array, " C"]) -> Float[jax.Array, "C n"]:
                value, _ = loss.plain_value_and_slope(target, state.score + higher[:, None])
                return operands.row_weight[None] * value

            weight = self.weights(operands, state.effective, state.logit)
            state, higher = draw_shape(self, operands, key_parameter, state, weight, costs)
            state = state._replace(score=state.score + higher[:, None])
        return self.with_groups(operands, state, key_groups)

    def informative(
        self, operands: Operands, state: State, away: Float[jax.Array, "C p"]
    ) -> tuple[Float[jax.Array, "C p"], Float[jax.Array, "C g"] | None]:
        """Weights, less their prior mean, that inform learnt scales, and their number per scale; None for all."""
        return away, None

    def _draw_weights(self, operands: Operands, state: State, key: PRNGKeyArray) -> State:
        """Draw weights and intercept given masks; recompute scores, so that rounding never accumulates over sweeps."""
        chains, n = state.score.shape
        key_aux, key_draw = jax.random.split(key)
        target = jnp.broadcast_to(operands.target[None], (chains, n)).reshape(-1)
        # A plain number, not a traced array: the auxiliary sampler of weight 1 is then exact and cheaper.
        weight: Any = np.ones((), operands.target.dtype)
        if not self.unit_weight:
            weight = jnp.broadcast_to(operands.row_weight[None], (chains, n))
            weight = (weight * state.noise_precision[:, None]).reshape(-1)
        score = state.score.reshape(-1)
        pseudo = self.flat_loss(state, n).sample_pseudo(key_aux, target, score, jnp.zeros_like(score), weight)
        omega, kappa = (part.reshape(chains, n) for part in pseudo)
        factor = self.log_multiplier(self.feature_logit(operands, state.logit))
        location = self.effective_location(operands, state.logit)
        kappa = kappa if operands.offset is None else kappa - omega * operands.offset[None]
        if location is not None:  # given the masks it is an offset
            kappa = kappa - omega * operands.columns.product(state.masks, location, n)
        row = None if operands.level is None else operands.level.row(jnp.exp(factor), location, chains)
        precision = state.precision * jnp.exp(-2 * factor)
        conditional = Conditional(operands.columns, state.masks, omega, kappa, precision, row)
        effective, intercept = self.gaussian_draw(key_draw, conditional, self.fit_intercept)
        effective = effective if location is None else effective + location
        score = operands.with_offset(operands.columns.product(state.masks, effective, n) + intercept[:, None])
        return state._replace(effective=effective, intercept=intercept, score=score)

    def _draw_features(
        self, operands: Operands, state: State, key: PRNGKeyArray, thorough: Bool[jax.Array, ""]
    ) -> State:
        """Draw every feature in turn, with its mask column summed out."""
        free, cost, level_prior = self.per_feature, self.cost_given(state), operands.level

        def body(carry: Any, inputs: tuple[Any, ...]) -> Any:
            score, level = (carry, None) if level_prior is None else carry
            values, rows, mask, uniform, weight, logit, precision, width, location, place, prior, key = inputs
            pick = (lambda r: r) if rows is None else (lambda r: r.at[rows].get(mode="fill", fill_value=1))
            step = FeatureStep(
                values, rows, pick(operands.target), pick(operands.row_weight), mask, uniform, weight, logit,
                precision, prior, key, width, location,
                None if level_prior is None
                else FeatureLevel(place, level_prior.precision, level - weight * place - level_prior.mean),
            )  # fmt: skip
            update = lambda score, step: update_feature(cost, self.log_multiplier, free, thorough, score, step)  # noqa: E731
            if self.some_kept:
                # A feature that is never dropped has no masks, and its weight is drawn with all others.
                score, new = where_needed(
                    jnp.isfinite(logit[0]),
                    lambda carry, key: update(carry[0], step._replace(key=key)),
                    (score, (weight, logit, mask)),
                    key,
                )
            else:
                score, new = update(score, step)
            return (score if level_prior is None else (score, level + (new[0] - weight) * place)), new

        before = state.effective.T
        adapt = thorough & (state.count < operands.tune)
        place = None if level_prior is None else level_prior.place
        along = None if level_prior is None else level_prior.at_means(state.effective, state.intercept)
        parts = state.precision.T, state.weight_width, operands.location, place
        state, weight, _ = self.draw_columns(operands, state, key, body, before, *parts, along=along)
        width = adapted(state.weight_width, jnp.mean(jnp.abs(weight - before), axis=1), adapt)
        return state._replace(effective=weight.T, weight_width=width)

    def record(self, operands: Operands, state: State) -> dict[str, jax.Array]:
        """Record of a draw: weight (C, p) and the other variables, each with a leading axis of chains.

        ``lp`` (C,) is the log density of all variables but the auxiliary ones, masks and latent scales included, up to
        a constant.
        """
        weight = self.weights(operands, state.effective, state.logit)
        rates, lp = self.recorded_rates(operands, state)
        lp = lp - 0.5 * jnp.sum(state.precision * jnp.square(operands.from_location(weight)), axis=-1)
        lp = lp - state.noise_precision * self.total_cost(operands, state, state.score)
        if operands.level is not None:
            lp = lp + operands.level.log_density(weight, state.intercept)
        priors, density = self.recorded_priors(operands, state)
        intercept = {"intercept": state.intercept} if self.fit_intercept else {}
        return {"weight": weight, **rates, **intercept, **priors, "lp": lp + density}
