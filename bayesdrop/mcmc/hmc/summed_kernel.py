"""Split Hamiltonian Monte Carlo that is judged by the sum over all masks.

Trajectories follow the density whose masks are integrated as if scores were normal, in one compiled program. At their
ends the likelihood of each row is summed over its masks (:mod:`.mask_sums`), outside of it, and the move is accepted by
the total energy with that. The force of a trajectory may be that of another density, since kicks and turns keep volume
and can be run back: the draws are from the posterior of the model with masks. What a wrong force costs is acceptance:
with an error of the log-likelihood that varies by half a nat over the posterior, one move in four or so, by one nat,
half of them; by three, nearly all. The number of kicks is chosen as if there were no such error, for more of them
would not mend it.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``D`` coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._typing import Float
from .density import Density, Evaluation, PerScore, Point
from .kernel import Departure, HMCKernel, HMCOperands, HMCState, tuned_kicks
from .mask_sums import MaskSums
from .whitening import unwhiten

__all__ = ["SummedEvaluation", "SummedKernel", "SummedOperands"]


class SummedOperands(NamedTuple):
    """What the compiled steps read, and the rows whose masks are summed."""

    chains: HMCOperands
    rows: MaskSums


class SummedEvaluation(NamedTuple):
    """Minus the log density at one point of each chain.

    Attributes
    ----------
    cost : array (C, n)
        Contribution of each row, its masks summed.
    prior : array (C,)
        Log prior density.
    gradient : array (C, D)
        Of minus the log density under normal scores.
    nearly : array (C, n)
        Contribution of each row to that.
    """

    cost: PerScore
    prior: Float[jax.Array, " C"]
    gradient: Point
    nearly: PerScore


class Effective(NamedTuple):
    """A point as the rows see it: weights ``w k(η)`` and chances (C, p), intercept (C,)."""

    weight: Float[jax.Array, "C p"]
    intercept: Float[jax.Array, " C"]
    keep: Float[jax.Array, "C p"]
    drop: Float[jax.Array, "C p"]


@dataclass(frozen=True)
class SummedKernel:
    """The transition, called by Python; see :class:`bayesdrop.mcmc.protocols.HostKernel`.

    Attributes
    ----------
    inner : HMCKernel
        The transition of a :class:`.density.Density` whose masks are integrated.
    """

    inner: HMCKernel

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of what is recorded."""
        return self.inner.variables

    @property
    def statistics(self) -> tuple[str, ...]:
        """The log density, and how the trajectory went."""
        return self.inner.statistics

    def shapes(self, operands: SummedOperands, key: PRNGKeyArray, chains: int) -> tuple[Any, dict[str, Any]]:
        """Shapes of the state and of what a step records."""

        def made(inside: HMCOperands, key: PRNGKeyArray) -> tuple[HMCState, dict[str, jax.Array]]:
            key, z, evaluation, _ = _begin(self.inner, inside, key, chains)
            state = _first(self.inner, inside, key, z, evaluation, evaluation.cost)
            return state, self.inner.record(inside, state)

        shapes: tuple[Any, dict[str, Any]] = jax.eval_shape(made, operands.chains, key)
        return shapes

    def init(self, operands: SummedOperands, key: PRNGKeyArray, chains: int) -> HMCState:
        """Start at independent draws from the normal approximation."""
        key, z, evaluation, point = _begin(self.inner, operands.chains, key, chains)
        return _first(self.inner, operands.chains, key, z, evaluation, _summed(operands, point))

    def step(self, operands: SummedOperands, state: HMCState) -> tuple[HMCState, dict[str, jax.Array]]:
        """One trajectory of every chain, and in warm-up what is learnt from it."""
        departure, z, r, evaluation, point = _travel(self.inner, operands.chains, state)
        summed = _summed(operands, point)
        return _arrive(self.inner, operands.chains, state, departure, z, r, evaluation, summed)


def _summed(operands: SummedOperands, point: Effective) -> PerScore:
    """Contributions of the rows (C, n) to minus the log density, their masks summed."""
    return jnp.asarray(operands.rows.costs(*(np.asarray(part) for part in point)), dtype=point.weight.dtype)


def _effective(density: Density, operands: HMCOperands, theta: Point) -> Effective:
    data = operands.density
    weight, intercept = density.weights(theta, data.precision.shape[0])
    multiplier, keep, drop = density.mask_chances(data, theta)
    spread = lambda part: jnp.broadcast_to(part, weight.shape)  # noqa: E731
    return Effective(weight * multiplier, intercept, spread(keep), spread(drop))


@partial(jax.jit, static_argnames=("kernel", "chains"))
def _begin(
    kernel: HMCKernel, operands: HMCOperands, key: PRNGKeyArray, chains: int
) -> tuple[PRNGKeyArray, Point, Evaluation, Effective]:
    """Where the chains begin."""
    key, z = kernel.start(operands, key, chains)
    theta = unwhiten(operands.centre, operands.factor, z)
    evaluation = kernel.density.evaluate(operands.density, theta)
    return key, z, evaluation, _effective(kernel.density, operands, theta)  # type: ignore[arg-type]  # a Density


@partial(jax.jit, static_argnames=("kernel",))
def _first(
    kernel: HMCKernel, operands: HMCOperands, key: PRNGKeyArray, z: Point, found: Evaluation, summed: PerScore
) -> HMCState:
    """State before the first draw."""
    return kernel.state_at(operands, key, z, _with(found, summed))


@partial(jax.jit, static_argnames=("kernel",))
def _travel(
    kernel: HMCKernel, operands: HMCOperands, state: HMCState
) -> tuple[Departure, Point, Point, Evaluation, Effective]:
    """Where a trajectory leads: position, momentum, the density under normal scores, and the point for the rows."""
    departure, found = kernel.depart(operands, state), state.evaluation
    begun = state._replace(evaluation=Evaluation(found.nearly, found.prior, found.gradient))
    z, r, evaluation = kernel.trajectory(operands, begun, departure.momentum, departure.angle, departure.kicks)
    theta = kernel.place(operands, state, z)
    return departure, z, r, evaluation, _effective(kernel.density, operands, theta)  # type: ignore[arg-type]


@partial(jax.jit, static_argnames=("kernel",))
def _arrive(
    kernel: HMCKernel,
    operands: HMCOperands,
    state: HMCState,
    departure: Departure,
    z: Point,
    r: Point,
    found: Evaluation,
    summed: PerScore,
) -> tuple[HMCState, dict[str, jax.Array]]:
    """The state after a trajectory, and what is recorded of it."""
    old = state.evaluation
    gain = (
        jnp.sum(old.nearly - found.cost, axis=1)
        + (found.prior - old.prior)
        + 0.5 * jnp.sum(departure.momentum**2 - r**2, axis=1)
    )
    followed = jnp.exp(jnp.minimum(jnp.where(jnp.isfinite(gain), gain, -jnp.inf), 0))
    log_kicks = tuned_kicks(state.log_kicks, followed, state.count, operands.tune)
    state, record = kernel.arrive(operands, state, departure, z, r, _with(found, summed))
    return state._replace(log_kicks=log_kicks), record


def _with(found: Evaluation, summed: PerScore) -> Any:
    """The evaluation with the sum over masks, which a kernel reads as its own."""
    return SummedEvaluation(summed, found.prior, found.gradient, found.cost)
