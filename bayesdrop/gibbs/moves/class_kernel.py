r"""Partially collapsed Gibbs sampling of the feature-noising model of many classes, which share the masks.

    w_k ~ N(0, P⁻¹) for k = 1 … K,  b flat,  η_d ~ prior,  α_id ~ Bernoulli(1 − η_d) where x_id ≠ 0,
    P(y_i = k) ∝ exp(s_ik),  s_ik = Σ_d w_dk k(η_d) x_id α_id + b_k,  its likelihood to the power C s_i.

A vector added to the weights of all classes changes no probability: its posterior is its prior, independent of the
contrasts. It is left out, and the state and the record hold the *centred* weights and intercepts, which sum to zero
over the classes and which the data inform. If the prior is a scale mixture, every weight has a precision of its own and
the common vector depends on the contrasts: the state and the record then hold all weights as they are, the intercepts
still centred (their prior is flat), and that vector is drawn from its prior given the contrasts,
``c_d ~ N(−Σ_k P_kd w_kd / Σ_k P_kd, 1/Σ_k P_kd)``. One sweep is

0. learnt scales of the weights given the weights (:mod:`.scales`), where centred weights have ``K − 1`` dimensions per
   feature; learnt priors of the rates given the rates;
1. for each class ``k``: given the other contrasts, ``ψ_i = s_ik − log Σ_{l≠k} exp(s_il)`` is the score of a logistic
   regression of class ``k`` against the rest (Holmes & Held 2006), so that ``ω_i ~ PG(C s_i, ψ_i)`` and the contrast
   ``t = w_k − mean_{l≠k} w_l``, with its intercept, is one Gaussian draw under ``t ~ N(0, K/((K − 1)P))`` with
   ``κ_i = C s_i (1[y_i = k] − ½) − ω_i c_i``, ``ψ_i = tᵀx̃_i + c_i`` (Polson, Scott & Windle 2013), or of a scale
   mixture ``w_k`` itself under ``N(0, P_k⁻¹)``. Then ``ω`` is discarded; intercepts are drawn once more
   (:func:`.class_features.draw_intercepts`), and learnt scales given the directions of the weights;
2. for each feature, with its mask column summed out: its weights in all classes, then the rate; then the column
   (:mod:`.class_features`), by the exact softmax likelihood;
3. rates that several features share: given the masks, then interweaved (:mod:`.interweaving`).

**Why the order is valid.** ``ω`` is drawn afresh just before each use, from its law given everything else, and is part
of no other move: steps 2 and 3 leave the posterior without ``ω`` invariant, and a joint draw of ``ω`` and ``t`` given
the rest leaves its marginal invariant. In step 2 weights and rate are drawn from laws in which the column is summed out
and the column is drawn last, from its law given both, before anything conditions on it again (van Dyk & Park 2008).

Shapes: ``C`` chains, ``K`` classes, ``n`` rows, ``p`` features, ``k`` free rates.
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
from ...sampling.prior_operands import ScaleOperands, weight_precision
from .class_features import draw_intercepts, log_softmax_of, update_class_feature
from .features import FeatureStep
from .interweaving import interweave
from .noising_model import NoisingModel
from .scales import draw_given_weights, move_scales
from .state import Conditional, Operands, State

__all__ = ["ClassGibbsKernel"]


@dataclass(frozen=True)
class ClassGibbsKernel(NoisingModel):
    """Markov transition that leaves the posterior of a noising model of many classes invariant.

    In its operands, :class:`.state.Operands`, ``target`` holds the index of the class of each row. The field
    ``loss`` is the logistic loss of one class against the rest.

    Attributes
    ----------
    n_classes : int
        ``K``.
    """

    n_classes: int

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the recorded variables."""
        return self.declared("class")

    @property
    def centred(self) -> bool:
        """True if the weights sum to zero over the classes."""
        return self.scale_mixture is None

    def membership(self, operands: Operands) -> Bool[jax.Array, "K n"]:
        """Whether each row belongs to each class."""
        number = jnp.arange(self.n_classes, dtype=operands.target.dtype)
        return operands.target[None] == number[:, None]

    def class_cost(self, operands: Operands, score: Float[jax.Array, "K C n"]) -> Float[jax.Array, " C"]:
        """Weighted loss of each chain, (C,)."""
        return -jnp.sum(operands.row_weight[None] * log_softmax_of(self.membership(operands), score)[0], axis=1)

    def init(self, operands: Operands, key: PRNGKeyArray, chains: int) -> State:
        """Scattered starting points: random rates, masks drawn from them, and weights of half their prior scale."""
        K, p, dtype = self.n_classes, operands.precision.shape[0], operands.target.dtype
        key, key_rate, key_weight, key_mask, key_mean, key_scale = jax.random.split(key, 6)
        rates = self.first_masks(operands, key_rate, key_mask, key_mean, chains)
        weight = 0.5 * jax.random.normal(key_weight, (K, chains, p), dtype) / jnp.sqrt(operands.precision)[None, None]
        weight = _centred(weight) if self.centred else weight
        effective = weight * jnp.exp(self.log_multiplier(self.feature_logit(operands, rates["logit"])))[None]
        return State(
            effective=effective,
            intercept=jnp.zeros((K, chains), dtype),
            **rates,
            **self.first_precision(operands, key_scale, weight),
            score=self._products(operands, rates["masks"], effective),  # intercepts are 0
            key=key,
        )

    def sweep(self, operands: Operands, state: State) -> Any:
        """One sweep over all variables of all chains."""
        key, key_prior, key_gauss, key_features, key_groups, key_scale, key_level, key_rays = jax.random.split(
            state.key, 8
        )
        state = state._replace(key=key)
        state = self.draw_scales(operands, state, key_scale)
        state = self.with_groups(operands, state, key_prior)
        state = self.draw_contrasts(operands, state, key_gauss)
        if self.fit_intercept:
            membership = self.membership(operands)
            level, score = draw_intercepts(key_level, membership, operands.row_weight, state.intercept, state.score)
            state = state._replace(intercept=level, score=score)
        cost, products = partial(self.class_cost, operands), partial(self._products, operands, state.masks)
        state = move_scales(key_rays, operands, state, cost, products)
        state = self.draw_features(operands, state, key_features)
        if not self.grouped:
            return state
        prior, dimension = self.rate_prior(operands, state), self.n_classes - self.centred
        return interweave(operands, state, cost, self.log_multiplier, prior, key_groups, dimension)

    def _products(
        self, operands: Operands, masks: Any, effective: Float[jax.Array, "K C p"]
    ) -> Float[jax.Array, "K C n"]:
        """Scores of the masked rows without intercepts."""
        n = operands.target.shape[0]
        return jax.lax.map(lambda weight: operands.columns.product(masks, weight, n), effective)

    def draw_scales(self, operands: Operands, state: State, key: PRNGKeyArray) -> State:
        """Draw learnt scales given the weights; under a scale mixture, also the common vector of the classes."""
        if self.scale_mixture is None and operands.learnt is None:
            return state
        multiplier = jnp.exp(self.log_multiplier(self.feature_logit(operands, state.logit)))
        weight = state.effective / multiplier[None]
        if operands.learnt is not None:
            length = jnp.sqrt(jnp.sum(weight * weight, axis=0))
            log_scale = draw_given_weights(key, self._of_contrasts(operands.learnt), length, state.log_scale)
            precision = jnp.broadcast_to(weight_precision(operands.learnt, log_scale)[None], weight.shape)
            return state._replace(precision=precision, log_scale=log_scale)
        key_scale, key_shift = jax.random.split(key)
        precision, scales = self.mixture_precision(key_scale, weight, state.scales)
        # The common vector of the classes, given their contrasts.
        total = jnp.sum(precision, axis=0)
        common = jax.random.normal(key_shift, total.shape, total.dtype) / jnp.sqrt(total)
        shift = multiplier * (common - jnp.sum(precision * weight, axis=0) / total)
        along = operands.columns.product(state.masks, shift, state.score.shape[2])
        return state._replace(
            effective=state.effective + shift[None], score=state.score + along[None], precision=precision, scales=scales
        )

    def _of_contrasts(self, learnt: ScaleOperands) -> ScaleOperands:
        """Learnt scales that count ``K − 1`` weights per feature, the number of free contrasts."""
        return learnt._replace(size=(self.n_classes - 1) * learnt.size)

    def draw_contrasts(self, operands: Operands, state: State, key: PRNGKeyArray) -> State:
        """Draw weights and intercepts given masks, one class after another; recompute scores to remove rounding."""
        K, chains, n = state.score.shape
        share = (K - 1) / K if self.centred else 1.0
        factor = self.log_multiplier(self.feature_logit(operands, state.logit))
        precision = share * state.precision * jnp.exp(-2 * factor)[None]
        membership = self.membership(operands)
        weight: Any = np.ones((), operands.target.dtype)
        if not self.unit_weight:
            weight = jnp.broadcast_to(operands.row_weight[None], (chains, n)).reshape(-1)

        def one(carry: Any, inputs: Any) -> Any:
            effective, intercept, score = carry
            k, precision, key = inputs
            key_aux, key_draw = jax.random.split(key)
            others = jnp.where((jnp.arange(K) == k)[:, None, None], -jnp.inf, score)
            top = jnp.max(others, axis=0)
            psi = score[k] - top - jnp.log(jnp.sum(jnp.exp(others - top[None]), axis=0))
            old, level = effective[k] / share, intercept[k] / share
            # The score of the class itself is s_k; of its contrast with the mean of the others, if all are centred,
            # s_k K/(K − 1).
            offset = psi - score[k] / share
            sign = jnp.broadcast_to(jnp.where(membership[k], 1, -1).astype(score.dtype)[None], (chains, n)).reshape(-1)
            pseudo = self.loss.sample_pseudo(key_aux, sign, psi.reshape(-1), jnp.zeros_like(sign), weight)
            omega, kappa = (part.reshape(chains, n) for part in pseudo)
            conditional = Conditional(operands.columns, state.masks, omega, kappa - omega * offset, precision)
            new, new_level = self.gaussian_draw(key_draw, conditional, self.fit_intercept)
            # t moves by δ: its own class by (1 − 1/K) δ, every other by −δ/K.
            part = jnp.where(jnp.arange(K) == k, share, share - 1).astype(score.dtype)
            step, rise = new - old, new_level - level
            along = operands.columns.product(state.masks, step, n) + rise[:, None]
            effective = effective + part[:, None, None] * step[None]
            intercept = intercept + part[:, None] * rise[None]
            return (effective, intercept, score + part[:, None, None] * along[None]), None

        start = (state.effective, state.intercept, state.score)
        inputs = (jnp.arange(K), precision, jax.random.split(key, K))
        (effective, intercept, _), _ = jax.lax.scan(one, start, inputs)
        effective, intercept = _centred(effective) if self.centred else effective, _centred(intercept)
        score = self._products(operands, state.masks, effective) + intercept[:, :, None]
        return state._replace(effective=effective, intercept=intercept, score=score)

    def draw_features(self, operands: Operands, state: State, key: PRNGKeyArray) -> State:
        """Draw every feature in turn, with its mask column summed out."""
        free, membership = self.per_feature, self.membership(operands)

        def body(score: Float[jax.Array, "K C n"], inputs: tuple[Any, ...]) -> Any:
            values, rows, mask, uniform, weight, logit, precision, prior, key = inputs
            classes, row_weight = membership, operands.row_weight
            if rows is not None:
                classes = membership.at[:, rows].get(mode="fill", fill_value=False)
                row_weight = operands.row_weight.at[rows].get(mode="fill", fill_value=1)
            step = FeatureStep(values, rows, classes, row_weight, mask, uniform, weight, logit, precision, prior, key)
            return update_class_feature(self.log_multiplier, free, self.centred, score, step)

        weight, precision = jnp.moveaxis(state.effective, 2, 0), jnp.moveaxis(state.precision, 2, 0)
        state, weight, _ = self.draw_columns(operands, state, key, body, weight, precision)
        return state._replace(effective=jnp.moveaxis(weight, 0, 2))

    def record(self, operands: Operands, state: State) -> dict[str, jax.Array]:
        """Record of a draw, chains first: weights (C, K, p), centred unless under a scale mixture, and the others.

        ``lp`` (C,) is the log density of all variables but the auxiliary ones, masks included, up to a constant.
        """
        weight = state.effective * jnp.exp(-self.log_multiplier(self.feature_logit(operands, state.logit)))[None]
        rates, lp = self.recorded_rates(operands, state)
        lp = lp - 0.5 * jnp.sum(state.precision * weight * weight, axis=(0, 2)) - self.class_cost(operands, state.score)
        learnt = None if operands.learnt is None else self._of_contrasts(operands.learnt)
        priors, density = self.recorded_priors(operands._replace(learnt=learnt), state)
        intercept = {"intercept": state.intercept.T} if self.fit_intercept else {}
        return {"weight": jnp.moveaxis(weight, 0, 1), **rates, **intercept, **priors, "lp": lp + density}


def _centred(values: Float[jax.Array, "K ..."]) -> Float[jax.Array, "K ..."]:
    """Values less their mean over the classes."""
    return values - jnp.mean(values, axis=0)[None]
