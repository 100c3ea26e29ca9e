r"""Partially collapsed Gibbs sampling of the feature-noising model, its masks included.

    w ~ N(0, P⁻¹),  b flat,  η_d ~ Beta(A, B),  α_id ~ Bernoulli(1 − η_d) where x_id ≠ 0,
    y_i ~ exp{−C s_i · loss(y_i, Σ_d w_d k(η_d) x_id α_id + b)}

(Zhuo, Zhu & Zhang 2015, section 3, with its exact likelihood and not Jensen's bound). One sweep is

1. auxiliary variables given the scores, then weights and intercept given them and the masks, as one Gaussian draw
   (Polson & Scott 2011; Polson, Scott & Windle 2013); then the auxiliary variables are forgotten;
2. for each feature, with its mask column summed out: the weight, then the rate, by slice sampling; then the column;
3. rates shared by several features: given the masks, then interweaved with uniform variables behind the masks.

**Why these moves.** Drawing every variable from its full conditional is correct and hardly moves: a rate follows the
masks and the masks follow the rate. Summing the column out frees the rate; drawing the *weight* in the same place
frees it too, for given the masks a weight must keep explaining the very rows where its feature happened to be kept.
The Gaussian draw remains, because features that are nearly copies of each other trade weight in directions that no
single coordinate follows. Groups cannot sum out all their columns at once and interweave instead (Yu & Meng 2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..losses import Loss
from ..noise import Noise
from .gibbs_columns import Columns
from .gibbs_jump import Metric, adapt_metric, first_metric, mask_pass, surrogate_likelihood, trajectory
from .gibbs_moves import FeatureStep, interweave, log_beta, log_weight, update_feature

__all__ = ["GibbsKernel", "Operands", "State"]

Array = Any

# Joint moves that were accepted more rarely than this during warm-up are not tried again.
_LEAST_ACCEPTED = 0.02
# While joint moves are accepted, every so many sweeps draw weights and rates one feature at a time as well.
_THOROUGH = 4


class Operands(NamedTuple):
    """Data and priors; see :class:`bayesdrop.inference.gibbs_columns.Columns` for the matrix.

    Attributes
    ----------
    target, row_weight : array (n,)
        Labels −1 and +1 or numbers, and ``C`` times the row weights.
    precision : array (p,)
        Prior precision of the weights.
    fixed_rate : array (p,)
        Rates where none is free.
    index : int array (p,)
        Free rate of each feature.
    members : int array (k, q)
        Features of each free rate, padded by ``p``.
    prior_a, prior_b : array (k,)
        Beta priors.
    tune : int array ()
        Number of first draws during which the slice widths adapt.
    """

    columns: Columns
    target: Array
    row_weight: Array
    precision: Array
    fixed_rate: Array
    index: Array
    members: Array
    prior_a: Array
    prior_b: Array
    tune: Array


class State(NamedTuple):
    """State of ``C`` chains.

    Attributes
    ----------
    effective, intercept : array (C, p), (C,)
        Weights times what a kept entry is multiplied by.
    rate : array (C, k)
        Free rates.
    kept : bool array (p, C, m)
        Masks.
    score : array (C, n)
        Scores of the masked rows.
    weight_width, rate_width : array (p,)
        First widths of the slice intervals.
    metric : Metric
        Metric of the joint move.
    count : int array ()
        Draws so far.
    key : key
        Random key.
    """

    effective: Array
    intercept: Array
    rate: Array
    kept: Array
    score: Array
    weight_width: Array
    rate_width: Array
    metric: Metric
    count: Array
    key: Array


@dataclass(frozen=True)
class GibbsKernel:
    """The transition: everything that is fixed when it is compiled, and nothing that is data.

    Attributes
    ----------
    loss, noise : Loss, Noise
        Components of the model.
    fit_intercept : bool
        Draw an intercept.
    per_feature : bool
        Every feature has a free rate of its own.
    grouped : bool
        Free rates are shared by features.
    unit_weight : bool
        Every ``C s_i`` is 1.
    gaussian_draw : callable
        One of :mod:`bayesdrop.inference.gibbs_gaussian`.
    sweeps : int
        Sweeps per recorded draw.
    jumps : int
        Joint moves after each sweep.
    """

    loss: Loss
    noise: Noise
    fit_intercept: bool
    per_feature: bool
    grouped: bool
    unit_weight: bool
    gaussian_draw: Callable[..., tuple[Array, Array]]
    sweeps: int
    jumps: int

    def multiplier(self, rate: Array) -> Array:
        """What a kept entry is multiplied by, ``k(η)``; shaped like ``rate``."""
        return self.noise.coefficients(rate).gain / (1 - rate)

    def cost(self, target: Array, score: Array, row_weight: Array) -> Array:
        """Loss of each score, elementwise."""
        value = self.loss.value(target, score, jnp.zeros_like(score))
        return value if self.unit_weight else row_weight * value

    def total_cost(self, operands: Operands, score: Array) -> Array:
        """Loss of each chain: (C, n) to (C,)."""
        target = jnp.broadcast_to(operands.target[None], score.shape)
        return jnp.sum(self.cost(target, score, jnp.broadcast_to(operands.row_weight[None], score.shape)), axis=-1)

    def feature_rate(self, operands: Operands, rate: Array) -> Array:
        """Rates per feature: (C, k) to (C, p)."""
        if self.per_feature or self.grouped:
            return rate[:, operands.index]
        return jnp.broadcast_to(operands.fixed_rate[None], (rate.shape[0], operands.fixed_rate.shape[0]))

    def init(self, operands: Operands, key: Array, chains: int) -> State:
        """Scattered starting points: any rates, masks to match, and weights at half their prior scale."""
        (p, m), n = operands.columns.values.shape, operands.target.shape[0]
        dtype = operands.target.dtype
        key, key_rate, key_weight, key_mask = jax.random.split(key, 4)
        k = operands.prior_a.shape[0]
        rate = jax.random.uniform(key_rate, (chains, k), dtype, 0.02, 0.98)
        feature_rate = self.feature_rate(operands, rate)
        scale = jax.random.normal(key_weight, (chains, p), dtype) / jnp.sqrt(operands.precision)[None]
        uniform = jax.random.uniform(key_mask, (p, chains, m), jnp.float32)
        kept = (uniform >= feature_rate.T[:, :, None].astype(jnp.float32)) | ~operands.columns.occurs[:, None, :]
        effective = 0.5 * scale * self.multiplier(feature_rate)
        return State(
            effective=effective,
            intercept=jnp.zeros(chains, dtype),
            rate=rate,
            kept=kept,
            score=operands.columns.product(kept, effective, n),
            weight_width=4 / jnp.sqrt(operands.precision),
            rate_width=jnp.full(p, 2, dtype),
            metric=first_metric(self._pack_scale(operands)),
            count=jnp.int32(0),
            key=key,
        )

    def step(self, operands: Operands, state: State) -> State:
        """One recorded draw: ``sweeps`` sweeps."""
        state = jax.lax.fori_loop(0, self.sweeps, lambda _, s: self.sweep(operands, s), state)
        return state._replace(count=state.count + 1)

    def sweep(self, operands: Operands, state: State) -> State:
        """One sweep over all variables of all chains, and joint moves."""
        if not self.jumps:
            return self.gibbs_sweep(operands, state, jnp.asarray(True))
        tuning = state.count < operands.tune
        useful = tuning | (state.metric.accepted > _LEAST_ACCEPTED)
        state = self.gibbs_sweep(operands, state, ~useful | (state.count % _THOROUGH == 0))
        return jax.lax.cond(useful, lambda s: self.jump(operands, s, tuning), lambda s: s, state)

    def _pack(self, state: State) -> Array:
        """Coordinates θ of the joint move: (C, D)."""
        parts = [state.effective]
        if self.fit_intercept:
            parts.append(state.intercept[:, None])
        if self.per_feature or self.grouped:
            parts.append(jnp.log(state.rate) - jnp.log1p(-state.rate))
        return jnp.concatenate(parts, axis=1)

    def _pack_scale(self, operands: Operands) -> Array:
        free = operands.prior_a.shape[0]
        return jnp.concatenate(
            [1 / jnp.sqrt(operands.precision), jnp.ones(self.fit_intercept + free, operands.target.dtype)]
        )

    def _unpack(self, operands: Operands, theta: Array) -> tuple[Array, Array, Array]:
        """Effective weights (C, p), intercept (C,) and free rates (C, k), inside the open unit interval."""
        p = operands.precision.shape[0]
        intercept = theta[:, p] if self.fit_intercept else jnp.zeros(theta.shape[0], theta.dtype)
        return theta[:, :p], intercept, jax.nn.sigmoid(theta[:, p + self.fit_intercept :])

    def _log_prior(self, operands: Operands, weight: Array, rate: Array) -> Array:
        """Log prior density of θ, with the rates on the logit scale: (C,)."""
        shape = weight.shape
        factor = self.multiplier(self.feature_rate(operands, rate))
        prior = jnp.sum(log_weight(weight, factor, jnp.broadcast_to(operands.precision[None], shape)), axis=-1)
        if self.per_feature or self.grouped:
            a, b = (jnp.broadcast_to(v[None], rate.shape) for v in (operands.prior_a, operands.prior_b))
            prior = prior + jnp.sum(log_beta(rate, a + 1, b + 1), axis=-1)
        return prior

    def jump(self, operands: Operands, state: State, tuning: Array) -> State:
        """Joint moves of weights, intercept, rates and all masks; see :mod:`bayesdrop.inference.gibbs_jump`."""
        data = (operands.columns, self.cost, operands.target, operands.row_weight)

        def surrogate(theta: Array) -> Array:
            weight, intercept, rate = self._unpack(operands, theta)
            likelihood = surrogate_likelihood(*data, weight, intercept, self.feature_rate(operands, rate))
            return likelihood + self._log_prior(operands, weight, rate)

        def one(_: Any, carry: Any) -> Any:
            state, log_target = carry
            key, key_path, key_masks, key_accept = jax.random.split(state.key, 4)
            theta = self._pack(state)
            proposed, change, energy_acceptance = trajectory(key_path, surrogate, state.metric, theta)
            weight, intercept, rate = self._unpack(operands, proposed)
            uniform = jax.random.uniform(key_masks, state.kept.shape, jnp.float32)
            feature_rate = self.feature_rate(operands, rate)
            ratio, score, kept = mask_pass(*data, weight, intercept, feature_rate, state.kept, uniform)
            new_target = ratio + self._log_prior(operands, weight, rate)
            gain = new_target - log_target + change
            eps = jnp.finfo(rate.dtype).eps
            inside = jnp.isfinite(gain) & jnp.all((rate > eps) & (rate < 1 - eps), axis=-1)
            accept = inside & (-jax.random.exponential(key_accept, gain.shape, gain.dtype) < gain)
            acceptance = jnp.where(inside, jnp.minimum(1, jnp.exp(gain)), 0)
            choose = lambda new, old: jnp.where(accept.reshape(-1, *(1,) * (new.ndim - 1)), new, old)  # noqa: E731
            new = state._replace(
                effective=choose(weight, state.effective),
                intercept=choose(intercept, state.intercept),
                rate=choose(rate, state.rate),
                score=choose(score, state.score),
                kept=jnp.where(accept[None, :, None], kept, state.kept),
                key=key,
            )
            learnt = adapt_metric(state.metric, self._pack(new), energy_acceptance, acceptance, state.count)
            metric = jax.tree.map(lambda a, b: jnp.where(tuning, a, b), learnt, state.metric)
            return new._replace(metric=metric), choose(new_target, log_target)

        rates = self.feature_rate(operands, state.rate)
        ratio, _, _ = mask_pass(*data, state.effective, state.intercept, rates, state.kept, None)
        log_target = ratio + self._log_prior(operands, state.effective, state.rate)
        return jax.lax.fori_loop(0, self.jumps, one, (state, log_target))[0]

    def gibbs_sweep(self, operands: Operands, state: State, thorough: Array) -> State:
        """One sweep over all variables of all chains; unless ``thorough``, features only have their masks redrawn."""
        key, key_gauss, key_features, key_groups = jax.random.split(state.key, 4)
        state = self._draw_weights(operands, state._replace(key=key), key_gauss)
        state = self._draw_features(operands, state, key_features, thorough)
        if self.grouped:
            score, kept, rate = interweave(
                operands.columns,
                partial(self.total_cost, operands),
                self.multiplier,
                state.score,
                state.kept,
                state.effective,
                state.rate,
                operands.members,
                operands.precision,
                operands.prior_a,
                operands.prior_b,
                key_groups,
            )
            state = state._replace(score=score, kept=kept, rate=rate)
        return state

    def _draw_weights(self, operands: Operands, state: State, key: Array) -> State:
        """Weights and intercept given masks; scores afresh, so that rounding never accumulates over sweeps."""
        chains, n = state.score.shape
        key_aux, key_draw = jax.random.split(key)
        target = jnp.broadcast_to(operands.target[None], (chains, n)).reshape(-1)
        # A plain number, not a traced array: the auxiliary sampler of weight 1 is then exact and cheaper.
        weight = (
            np.ones((), operands.target.dtype)
            if self.unit_weight
            else jnp.broadcast_to(operands.row_weight[None], (chains, n)).reshape(-1)
        )
        score = state.score.reshape(-1)
        pseudo = self.loss.sample_pseudo(key_aux, target, score, jnp.zeros_like(score), weight)
        omega, kappa = (part.reshape(chains, n) for part in pseudo)
        factor = self.multiplier(self.feature_rate(operands, state.rate))
        precision = operands.precision[None] / (factor * factor)
        effective, intercept = self.gaussian_draw(
            key_draw, operands.columns, state.kept, omega, kappa, precision, self.fit_intercept
        )
        score = operands.columns.product(state.kept, effective, n) + intercept[:, None]
        return state._replace(effective=effective, intercept=intercept, score=score)

    def _draw_features(self, operands: Operands, state: State, key: Array, thorough: Array) -> State:
        """Every feature in turn, with its mask column summed out."""
        columns = operands.columns
        p, chains, m = state.kept.shape
        key_uniform, key_steps = jax.random.split(key)
        free = self.per_feature
        ones = jnp.ones(p, operands.target.dtype)

        def body(score: Array, inputs: tuple[Array, ...]) -> Any:
            values, rows, kept, uniform, weight, rate, widths, rate_width, precision, a, b, key = inputs
            pick = (lambda r: r) if rows is None else (lambda r: r.at[rows].get(mode="fill", fill_value=1))
            step = FeatureStep(
                values, rows, pick(operands.target), pick(operands.row_weight), kept, uniform, weight, rate,
                widths, rate_width, precision, a, b, key,
            )  # fmt: skip
            return update_feature(columns, self.cost, self.multiplier, free, thorough, score, step)

        inputs = (
            columns.values,
            columns.rows,
            state.kept,
            jax.random.uniform(key_uniform, (p, chains, m), jnp.float32),
            state.effective.T,
            self.feature_rate(operands, state.rate).T,
            state.weight_width,
            state.rate_width,
            operands.precision,
            operands.prior_a[operands.index] if free else ones,
            operands.prior_b[operands.index] if free else ones,
            jax.random.split(key_steps, p),
        )
        score, (weight, rate, kept) = jax.lax.scan(body, state.score, inputs)
        adapt = thorough & (state.count < operands.tune)
        weight_width = _adapted(adapt, state.weight_width, weight - state.effective.T)
        new = state._replace(score=score, effective=weight.T, kept=kept, weight_width=weight_width)
        if not free:
            return new
        old_rate = self.feature_rate(operands, state.rate).T
        free_rate = jnp.zeros_like(state.rate).at[:, operands.index].set(rate.T)
        return new._replace(rate=free_rate, rate_width=_adapted(adapt, state.rate_width, rate - old_rate))

    def record(self, operands: Operands, state: State) -> dict[str, Array]:
        """What is kept of a draw: weight (C, p), intercept (C,), rate (C, k) and lp (C,)."""
        feature_rate = self.feature_rate(operands, state.rate)
        weight = state.effective / self.multiplier(feature_rate)
        kept = state.kept & operands.columns.occurs[:, None, :]
        drops = jnp.sum(~state.kept, axis=-1).T.astype(weight.dtype)
        keeps = jnp.sum(kept, axis=-1).T.astype(weight.dtype)
        tiny = jnp.finfo(weight.dtype).tiny
        log_drop, log_keep = (jnp.log(jnp.maximum(r, tiny)) for r in (feature_rate, 1 - feature_rate))
        lp = (
            jnp.sum(drops * log_drop + keeps * log_keep, axis=-1)
            - 0.5 * jnp.sum(operands.precision[None] * weight * weight, axis=-1)
            - self.total_cost(operands, state.score)
        )
        draw = {"weight": weight, "lp": lp}
        if self.fit_intercept:
            draw["intercept"] = state.intercept
        if self.per_feature or self.grouped:
            a, b = (jnp.broadcast_to(v[None], state.rate.shape) for v in (operands.prior_a, operands.prior_b))
            draw["rate"] = state.rate
            draw["lp"] = lp + jnp.sum(log_beta(state.rate, a, b), axis=-1)
        return draw


def _adapted(adapt: Array, width: Array, jump: Array) -> Array:
    """Follow four times the mean jump (about 4.5 standard deviations) of the chains; widths (p,), jumps (p, C)."""
    target = 4 * jnp.mean(jnp.abs(jump), axis=1)
    return jnp.where(adapt, 0.95 * width + 0.05 * target, width)
