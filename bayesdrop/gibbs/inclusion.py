r"""Gibbs sampling under a spike-and-slab prior: which features are in the model, and their weights.

    γ_d ~ Bernoulli(π),   w_d ~ N(0, 1/P_d) if γ_d = 1,   w_d = 0 else,   p(y | w, b) = exp{−C Σ s_i loss(y_i, score_i)}

One sweep draws the auxiliary variables of the loss given the scores; the indicators, with all weights and a learnt
``π`` integrated out (:mod:`.moves.active_set`); the included weights and the intercept; then ``π``, a learnt scale of
the slab, and the scale or shape of the likelihood. Effects of random terms are columns that are always included; their
scales are drawn with the slab's, given the weights and then given their directions (:mod:`.moves.scales`). If the loss
is not minus a log-likelihood, the posterior is a pseudo-posterior. Python drives the sweeps: NumPy draws indicators,
weights, intercept and ``π``, chain by chain, and JAX the other variables.

With ``K`` classes, ``P(y_i = k) ∝ exp(s_ik)``, each class has its own indicators and weights, and is drawn in turn:
given the scores of the others, ``s_ik − log Σ_{l≠k} exp(s_il)`` is the score of a logistic regression of class ``k``
against the rest (Holmes & Held 2006), with auxiliary variables, indicators and weights as above. Then the common part
of the weights is drawn (:mod:`.common_shift`). The intercepts have a flat prior, so that only their contrasts have a
posterior: they are centred after each sweep, which changes no probability, and drawn once more
(:func:`.moves.class_features.draw_intercepts`).

Shapes: ``C`` chains, ``K`` classes, ``n`` rows, ``p`` weights, those of ``f`` features and of random terms, ``u`` units
(features, or groups that enter together).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._typing import Bool, Float, Int
from ..designs.threads import one_blas_thread
from ..losses.base import at_shape
from ..losses.protocols import Augmented
from ..priors.inclusion_law import InclusionLaw
from ..sampling.prior_operands import (
    LevelOperands,
    ParameterOperands,
    ScaleOperands,
    by_weight,
    log_scale_prior,
    weight_precision,
)
from .choices import Limits
from .common_shift import shift_all_classes
from .moves.active_set import Neighbours, Rows, Units, sweep
from .moves.class_features import draw_intercepts, log_softmax_of
from .moves.interweaving import by_group
from .moves.parameters import draw_included, draw_scale, draw_shape
from .moves.scales import WeightPrior, draw_along_rays, draw_given_weights

__all__ = ["InclusionKernel", "InclusionOperands", "InclusionState", "RowOperands"]


class RowOperands(NamedTuple):
    """Rows and priors for JAX, with the field names of :class:`.marginalised.MarginalOperands`."""

    target: Float[jax.Array, " n"]
    row_weight: Float[jax.Array, " n"]
    precision: Float[jax.Array, " p"]
    learnt: ScaleOperands | None
    parameter: ParameterOperands | None
    offset: Float[jax.Array, " n"] | None
    level: LevelOperands | None
    unit: Int[jax.Array, " f"]
    scales: Any = ()


class InclusionOperands(NamedTuple):
    """Data and priors.

    Attributes
    ----------
    rows : RowOperands
        Rows and priors for JAX.
    transposed, squared : arrays (q, m), or scipy.sparse.csr_array of sparse features
        Transposed matrix of features and intercept, ``m = n``, or ``n + 1`` if the intercept has a prior; and the
        same with every entry squared.
    law : InclusionLaw
        Prior of the indicators, of all classes one after another.
    units : Units
        Columns and prior of the units, for the moves.
    neighbours : Neighbours
        Units for which each unit may be swapped.
    limits : Limits
        Number of swaps and size of the first models.
    grouped : tuple of int arrays
        Indices of the weights of each learnt scale; empty without random terms.
    """

    rows: RowOperands
    transposed: Any
    squared: Any
    law: InclusionLaw
    units: Units
    neighbours: Neighbours
    limits: Limits
    grouped: tuple[Int[np.ndarray, " _"], ...]


class InclusionState(NamedTuple):
    """State of ``C`` chains, with the field names of :class:`.marginalised.MarginalState`.

    ``included`` and ``log_odds`` (C, Ku) are the indicators, one class after another, and the log odds of each at its
    turn; ``chance`` (C,) is the inclusion probability and ``log_prior`` (C,) the log probability of the indicators.
    """

    weight: Float[jax.Array, "C *classes p"]
    intercept: Float[jax.Array, " C *classes"]
    mean: Float[jax.Array, "C *classes n"]
    included: Bool[jax.Array, "C Ku"]
    log_odds: Float[jax.Array, "C Ku"]
    chance: Float[jax.Array, " C"]
    log_prior: Float[jax.Array, " C"]
    precision: Float[jax.Array, "C p"]
    scales: Any
    log_scale: Float[jax.Array, "C g"]
    log_parameter: Float[jax.Array, " C"]
    noise_precision: Float[jax.Array, " C"]
    key: PRNGKeyArray


@dataclass(frozen=True)
class InclusionKernel(WeightPrior):
    """Markov transition that Python calls; see :class:`bayesdrop.sampling.protocols.HostKernel`.

    Attributes
    ----------
    loss : Augmented
        Plain loss; with many classes the logistic loss of one class against the rest.
    learns_chance : bool
        Whether the inclusion probability is learnt.
    classes : tuple of int
        ``(K,)``; empty if a row has one score.
    """

    loss: Augmented
    learns_chance: bool
    classes: tuple[int, ...]

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the recorded variables."""
        own = ("class",) * len(self.classes)
        of_features = dict.fromkeys(("included", "inclusion_probability"), (*own, "feature"))
        names = self.declared(*own) | of_features | {"model_size": own}
        return names | ({"inclusion_prior": ()} if self.learns_chance else {})

    @property
    def row_loss(self) -> Any:
        """The loss of a row."""
        return self.loss

    def shapes(self, operands: InclusionOperands, key: PRNGKeyArray, chains: int) -> tuple[Any, dict[str, Any]]:
        """Shapes of the state and of the record of a step."""
        state = self.init(operands, key, chains)
        return jax.eval_shape(lambda: state), jax.eval_shape(partial(_record, self, operands.rows, state))

    def init(self, operands: InclusionOperands, key: PRNGKeyArray, chains: int) -> InclusionState:
        """Start the chains at models of different sizes; the first chain has the forced units only."""
        law, limits = operands.law, operands.limits
        key, key_model, key_scale = jax.random.split(key, 3)
        generator, free = _generator(key_model), np.flatnonzero(~law.is_forced)
        included = np.tile(law.is_forced, (chains, 1))
        largest = min(limits.first_size, len(free) // 2, len(operands.rows.target) // 2)
        for chain, size in enumerate(np.linspace(0, largest, chains).astype(int)):
            included[chain, generator.choice(free, size, replace=False)] = True
        return _first(self, operands.rows, key, key_scale, law.pruned(included))

    def step(self, operands: InclusionOperands, state: InclusionState) -> tuple[InclusionState, dict[str, jax.Array]]:
        """One recorded draw: ``sweeps`` sweeps."""
        for _ in range(self.sweeps):
            state = self.sweep(operands, state)
        return state, _record(self, operands.rows, state)

    # Each BLAS product is small: more threads double the processor time and lengthen the run.
    @one_blas_thread()
    def sweep(self, operands: InclusionOperands, state: InclusionState) -> InclusionState:
        """Draw auxiliary variables; indicators, weights and inclusion probability of each chain; then parameters."""
        key, key_aux, key_model, key_scale = jax.random.split(state.key, 4)
        keys = jax.random.split(key_aux, self.classes[0]) if self.classes else (key_aux,)
        generator, included, law = _generator(key_model), np.array(state.included), operands.law
        chains, n, K, f = len(included), len(operands.rows.target), len(keys), len(operands.rows.unit)
        u, q, log_odds = included.shape[1] // K, operands.transposed.shape[0], np.zeros(included.shape)
        weight, score = np.zeros((chains, K, q)), np.array(state.mean, dtype=np.float64).reshape(chains, K, n)
        families = operands.units.families
        for k, key_class in enumerate(keys):
            state = state._replace(mean=_real(operands.rows, score)) if k else state
            omega, kappa, precision = (
                np.asarray(part, dtype=np.float64) for part in _pseudo(self, operands.rows, key_class, state, k)
            )
            free = k * u + np.flatnonzero(~law.is_forced[:u])
            swaps = min(operands.limits.swaps, len(free))
            own = families[k * len(families) // K : (k + 1) * len(families) // K]
            units, moves = operands.units._replace(families=own), swaps * bool(own)
            for chain, is_in in enumerate(included):
                columns = np.append(np.flatnonzero(is_in[law.unit[k * f : (k + 1) * f]]), np.arange(f, q))
                rows = Rows(operands.transposed, operands.squared, omega[chain], kappa[chain], precision[chain])
                order = generator.permutation(free)
                active, found = sweep(
                    rows, units, operands.neighbours, is_in, columns, order, np.log(generator.random(len(free))),
                    generator.random((swaps, 3)), generator.random((moves, 3)),
                )  # fmt: skip
                log_odds[chain, free] = found[free]
                drawn = draw_included(generator, active.mean, active.inverse)
                weight[chain, k, active.columns] = drawn
                score[chain, k] = (operands.transposed[active.columns].T @ drawn)[:n]
        if self.classes:
            for chain, is_in in enumerate(included.reshape(chains, K, u)):
                of_features = weight[chain, :, :f]
                shift = shift_all_classes(generator, operands.units, precision[chain, :f], is_in, of_features)
                score[chain] += (operands.transposed[:f].T @ shift)[:n]
        else:
            weight, score = weight[:, 0], score[:, 0]
        log_odds[:, law.is_forced] = np.inf
        logged = log_odds, law.sample_chance(generator, included), law.log_density(included)
        each = [(operands.transposed[own].T @ weight[:, own].T)[:n].T for own in operands.grouped]
        shares = np.stack(each) if each else None
        return _finish(self, operands.rows, state._replace(key=key), key_scale, included, weight, score, logged, shares)


def _generator(key: PRNGKeyArray) -> np.random.Generator:
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def _real(rows: RowOperands, part: Any) -> jax.Array:
    return jnp.asarray(part, rows.target.dtype)


@partial(jax.jit, static_argnums=0)
def _first(
    kernel: InclusionKernel, rows: RowOperands, key: PRNGKeyArray, key_scale: PRNGKeyArray, included: Any
) -> InclusionState:
    """State with all weights zero."""
    lead, p, dtype = (included.shape[0], *kernel.classes), rows.precision.shape[0], rows.target.dtype
    weight, zero, mean = (jnp.zeros((*lead, *more), dtype) for more in ((p,), (), rows.target.shape))
    mean = mean if rows.offset is None else mean + rows.offset[None]
    each, chance = jnp.zeros((lead[0], p), dtype), jnp.zeros(lead[0], dtype)
    priors = kernel.first_precision(rows, key_scale, each) | kernel.first_parameter(rows, lead[0], dtype)
    odds = jnp.zeros(included.shape, dtype)
    return InclusionState(weight, zero, mean, included, odds, chance, chance, key=key, **priors)


@partial(jax.jit, static_argnums=0)
def _pseudo(
    kernel: InclusionKernel, rows: RowOperands, key: PRNGKeyArray, state: InclusionState, k: Any
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Pseudo-observations of all rows (C, m), less the offset, and prior precisions of all columns (C, q).

    With many classes they are those of class ``k``, whose offset is ``−log Σ_{l≠k} exp(s_il)``.
    """
    mean, target, offset = state.mean, rows.target, None if rows.offset is None else rows.offset[None]
    if kernel.classes:
        others = jnp.where((jnp.arange(kernel.classes[0]) == k)[None, :, None], -jnp.inf, mean)
        offset = -jax.nn.logsumexp(others, axis=1)
        mean, target = mean[:, k] + offset, jnp.where(_membership(kernel, rows)[k], 1, -1).astype(target.dtype)
    chains, n = mean.shape
    row_weight: Any = np.ones((), rows.target.dtype)
    if not kernel.unit_weight:
        row_weight = (rows.row_weight[None] * state.noise_precision[:, None]).reshape(-1)
    loss: Any = kernel.loss
    if kernel.parameter is not None and not kernel.parameter.is_scale:
        loss = at_shape(loss, {kernel.parameter.field: jnp.repeat(jnp.exp(state.log_parameter), n)})
    target, mean = jnp.broadcast_to(target[None], (chains, n)).reshape(-1), mean.reshape(-1)
    pseudo = loss.sample_pseudo(key, target, mean, jnp.zeros_like(mean), row_weight)
    omega, kappa = (jnp.broadcast_to(part, (chains * n,)).reshape(chains, n) for part in pseudo)
    if offset is not None:
        kappa = kappa - omega * offset
    if rows.level is not None:
        own = jnp.broadcast_to(rows.level.precision, (chains, 1))
        omega, kappa = (
            jnp.concatenate([part, more], axis=1) for part, more in ((omega, own), (kappa, own * rows.level.mean))
        )
    flat = jnp.zeros((chains, int(kernel.fit_intercept)), state.precision.dtype)
    return omega, kappa, jnp.concatenate([state.precision, flat], axis=1)


@partial(jax.jit, static_argnums=0)
def _finish(
    kernel: InclusionKernel,
    rows: RowOperands,
    state: InclusionState,
    key: PRNGKeyArray,
    included: Any,
    weight: Any,
    score: Any,
    logged: Any,
    shares: Any,
) -> InclusionState:
    """Store new weights; draw class intercepts, the scales and the parameter of the likelihood given them.

    ``shares`` (g, C, n): contributions of the weights of each learnt scale to the scores; None without random terms.
    """
    key_slab, key_parameter, key_rays = jax.random.split(key, 3)
    p = rows.precision.shape[0]
    mean = _real(rows, score)
    mean = mean if rows.offset is None else mean + rows.offset[None]
    log_odds, chance, log_prior = (_real(rows, part) for part in logged)
    intercept = _real(rows, weight[..., p]) if kernel.fit_intercept else jnp.zeros_like(state.intercept)
    if kernel.classes and kernel.fit_intercept:
        level = jnp.mean(intercept, axis=1, keepdims=True)
        of_classes = draw_intercepts(
            key_parameter, _membership(kernel, rows), rows.row_weight, (intercept - level).T,
            jnp.swapaxes(mean - level[..., None], 0, 1),
        )  # fmt: skip
        intercept, mean = (jnp.swapaxes(part, 0, 1) for part in of_classes)
    state = state._replace(
        weight=_real(rows, weight[..., :p]), intercept=intercept, mean=mean, included=included, log_odds=log_odds,
        chance=chance, log_prior=log_prior,
    )  # fmt: skip
    if rows.learnt is not None:
        # Excluded weights carry no information on the scale.
        weights = state.weight.reshape(len(mean), -1, p)
        is_in = jnp.sum(weights != 0, axis=1).astype(mean.dtype)
        size = by_group(is_in.T, rows.learnt.index, state.log_scale.shape[1]).T
        length = jnp.sqrt(jnp.sum(jnp.square(weights), axis=1))
        log_scale = draw_given_weights(key_slab, rows.learnt, length, state.log_scale, size)
        if shares is not None and rows.level is None:
            state, log_scale = _along_rays(kernel, rows, key_rays, state, log_scale, shares)
        state = state._replace(log_scale=log_scale, precision=weight_precision(rows.learnt, log_scale))
    if kernel.parameter is None:
        return state
    if kernel.parameter.is_scale:
        return draw_scale(kernel, rows, key_parameter, state, jnp.sum(_costs(kernel, rows, state), axis=1))
    target = jnp.broadcast_to(rows.target[None], mean.shape)

    def costs(loss: Any, higher: Float[jax.Array, " C"]) -> Float[jax.Array, "C n"]:
        return rows.row_weight[None] * loss.value(target, state.mean + higher[:, None], jnp.zeros_like(state.mean))

    state, higher = draw_shape(kernel, rows, key_parameter, state, state.weight, costs)
    return state._replace(mean=state.mean + higher[:, None])


def _along_rays(
    kernel: InclusionKernel, rows: RowOperands, key: PRNGKeyArray, state: InclusionState, start: Any, shares: Any
) -> tuple[InclusionState, Float[jax.Array, "C g"]]:
    """Draw scales given the directions of the weights, and rescale the weights."""
    learnt: Any = rows.learnt
    parts = _real(rows, shares)

    def share(mask: Float[jax.Array, " p"]) -> tuple[Float[jax.Array, "C n"]]:
        chosen = jnp.zeros(parts.shape[0], mask.dtype).at[learnt.index].max(mask)
        return (jnp.tensordot(chosen, parts, 1),)

    def log_likelihood(scores: Any) -> Float[jax.Array, " C"]:
        return -state.noise_precision * jnp.sum(_costs(kernel, rows, state._replace(mean=scores[0])), axis=1)

    (mean,), log_scale = draw_along_rays(key, learnt, share, log_likelihood, (state.mean,), start)
    factor = jnp.exp(by_weight(learnt, log_scale - start))
    return state._replace(mean=mean, weight=state.weight * factor), log_scale


def _costs(kernel: InclusionKernel, rows: RowOperands, state: InclusionState) -> Float[jax.Array, "C n"]:
    """Weighted loss of each row at scale 1, (C, n)."""
    if kernel.classes:
        return -rows.row_weight[None] * log_softmax_of(_membership(kernel, rows), jnp.swapaxes(state.mean, 0, 1))[0]
    loss: Any = kernel.loss
    if kernel.parameter is not None:
        loss = kernel.parameter.loss_at(loss, state.log_parameter)
    target = jnp.broadcast_to(rows.target[None], state.mean.shape)
    return rows.row_weight[None] * loss.value(target, state.mean, jnp.zeros_like(state.mean))


def _membership(kernel: InclusionKernel, rows: RowOperands) -> Bool[jax.Array, "K n"]:
    """Whether each row belongs to each class."""
    return rows.target[None] == jnp.arange(kernel.classes[0], dtype=rows.target.dtype)[:, None]


@partial(jax.jit, static_argnums=0)
def _record(kernel: InclusionKernel, rows: RowOperands, state: InclusionState) -> dict[str, jax.Array]:
    """Record of a draw."""
    dtype, lead = state.weight.dtype, state.weight.shape[:-1]
    effects = state.weight.shape[-1] - rows.unit.shape[0]
    is_in, chance = (
        jnp.pad(part.reshape(*lead, -1)[..., rows.unit], [(0, 0)] * len(lead) + [(0, effects)], constant_values=1)
        for part in (state.included.astype(dtype), jax.nn.sigmoid(state.log_odds))
    )
    precision = state.precision.reshape(lead[0], *(1,) * len(kernel.classes), -1)
    normal = jnp.log(precision) - np.asarray(np.log(2 * np.pi), dtype) - precision * jnp.square(state.weight)
    lp = state.log_prior + 0.5 * jnp.sum((is_in * normal).reshape(lead[0], -1), axis=1)
    lp = lp - state.noise_precision * jnp.sum(_costs(kernel, rows, state), axis=1)
    if rows.level is not None:
        lp = lp + rows.level.log_density(state.weight, state.intercept)
    draw, density = kernel.recorded_priors(rows._replace(learnt=None), state)
    if rows.learnt is not None:
        draw["log_weight_scale"] = state.log_scale if kernel.scale_dims else state.log_scale[:, 0]
        lp = lp + jnp.sum(log_scale_prior(rows.learnt, state.log_scale) - state.log_scale, axis=1)
    draw |= {"intercept": state.intercept} if kernel.fit_intercept else {}
    draw |= {"inclusion_prior": state.chance} if kernel.learns_chance else {}
    return draw | {
        "weight": state.weight,
        "included": is_in.astype(jnp.int8),
        "inclusion_probability": chance,
        "model_size": jnp.sum(is_in, axis=-1).astype(jnp.int32) - effects,
        "lp": lp + density,
    }
