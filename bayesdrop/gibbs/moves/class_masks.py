r"""Gibbs sampling of the feature-noising model of many classes, each with masks and rates of its own.

    w_k ~ N(0, P_k⁻¹),  b flat,  η_kd ~ prior,  α_ikd ~ Bernoulli(1 − η_kd) where x_id ≠ 0,
    P(y_i = k) ∝ exp(s_ik),  s_ik = Σ_d w_kd k(η_kd) x_id α_ikd + b_k,  its likelihood to the power C s_i.

Everything that is drawn belongs to one class. Given the scores of the others the likelihood of row ``i`` is

    σ(±(s_ik + o_ik)) times what class k has no part in,      o_ik = −log Σ_{l≠k} exp(s_il),

``+`` where ``y_i = k`` (Holmes & Held 2006): the logistic model of class ``k`` against the rest, with a known offset.
One sweep therefore takes one class after another and gives each a sweep of :class:`.kernel.GibbsKernel`, without its
joint moves, at the offset that the other classes have just then; each leaves the posterior of all invariant. ``P_k``
may be unknown, and groups of rates have priors of their own in every class.

A number that is added to all intercepts changes nothing, and no other law depends on it: the intercepts are recorded
less their mean. Weights have no such freedom here, for two classes never drop the same entries.

Shapes: ``C`` chains, ``K`` classes, ``n`` rows, ``p`` features, ``k`` free rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ..._typing import Float
from .kernel import GibbsKernel
from .state import Operands, State

__all__ = ["ClassMaskKernel", "ClassMaskState"]


class ClassMaskState(NamedTuple):
    """State of ``C`` chains.

    Attributes
    ----------
    classes : State of arrays (K, …)
        That of each class; its scores (K, C, n) are those of the class alone, without offsets.
    key : key
        Random key.
    """

    classes: State
    key: PRNGKeyArray


@dataclass(frozen=True)
class ClassMaskKernel:
    """The transition that keeps the posterior of a noising model of many classes with masks of their own.

    The operands are those of :class:`.state.Operands`, with the numbers of the classes for ``target``.

    Attributes
    ----------
    binary : GibbsKernel
        The kernel of one class against the rest.
    n_classes : int
        ``K``.
    sweeps : int
        Sweeps per recorded draw.
    """

    binary: GibbsKernel
    n_classes: int
    sweeps: int

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of what is recorded."""
        return {name: ("class", *dims) for name, dims in self.binary.variables.items()}

    @property
    def statistics(self) -> tuple[str, ...]:
        """The log density."""
        return ("lp",)

    @property
    def choices(self) -> dict[str, str]:
        """What a posterior says of the choices made."""
        return self.binary.choices

    def _target(self, operands: Operands, k: Any) -> Operands:
        """Operands of one class against the rest."""
        dtype = operands.target.dtype
        return operands._replace(target=jnp.where(operands.target == k.astype(dtype), 1, -1).astype(dtype))

    def init(self, operands: Operands, key: PRNGKeyArray, chains: int) -> ClassMaskState:
        """Scattered starting points of every class; see :class:`.kernel.GibbsKernel`."""
        key, *keys = jax.random.split(key, self.n_classes + 1)
        classes = [self.binary.init(operands, own, chains) for own in keys]
        return ClassMaskState(jax.tree.map(lambda *parts: jnp.stack(parts), *classes), key)

    def step(self, operands: Operands, state: ClassMaskState) -> tuple[ClassMaskState, dict[str, jax.Array]]:
        """One recorded draw: ``sweeps`` sweeps."""
        state = jax.lax.fori_loop(0, self.sweeps, lambda _, s: self.class_sweep(operands, s), state)
        state = state._replace(classes=state.classes._replace(count=state.classes.count + 1))
        return state, self.record(operands, state)

    def class_sweep(self, operands: Operands, state: ClassMaskState) -> ClassMaskState:
        """One sweep over all classes."""
        number = jnp.arange(self.n_classes)

        def one(score: Float[jax.Array, "K C n"], inputs: Any) -> Any:
            k, own = inputs
            others = jnp.where((number == k)[:, None, None], -jnp.inf, score)
            offset = -jax.nn.logsumexp(others, axis=0)
            own = own._replace(score=score[k] + offset)
            own = self.binary.gibbs_sweep(self._target(operands, k), own, jnp.asarray(True), offset)
            own = own._replace(score=own.score - offset)
            return score.at[k].set(own.score), own

        _, classes = jax.lax.scan(one, state.classes.score, (number, state.classes))
        # The mean of the intercepts is free: left to itself it would wander off until it takes all digits.
        level = jnp.mean(classes.intercept, axis=0)
        classes = classes._replace(
            intercept=classes.intercept - level[None], score=classes.score - level[None, :, None]
        )  # fmt: skip
        return state._replace(classes=classes)

    def record(self, operands: Operands, state: ClassMaskState) -> dict[str, jax.Array]:
        """What is kept of a draw, chains first and then classes.

        ``lp`` (C,) is the log density of all variables but the auxiliary ones, masks included, up to a constant.
        """

        def one(k: Any, binary_state: State) -> tuple[dict[str, jax.Array], Float[jax.Array, " C"]]:
            binary = self._target(operands, k)
            draw = self.binary.record(binary, binary_state)
            lp = draw.pop("lp")
            # That density counts the class's own score as if it were the likelihood, which is another one here.
            return draw, lp + binary_state.noise_precision * self.binary.total_cost(binary, binary_state.score)

        drawn, parts = jax.vmap(one)(jnp.arange(self.n_classes), state.classes)
        score = state.classes.score
        mine = operands.target[None] == jnp.arange(self.n_classes, dtype=operands.target.dtype)[:, None]
        log_chance = jnp.sum(jnp.where(mine[:, None], score, 0), axis=0) - jax.nn.logsumexp(score, axis=0)
        lp = jnp.sum(parts, axis=0) + jnp.sum(operands.row_weight[None] * log_chance, axis=1)
        return {name: jnp.moveaxis(value, 0, 1) for name, value in drawn.items()} | {"lp": lp}
