"""Split Hamiltonian Monte Carlo that is judged by the sum over all masks.

A draw under the density ``π̃`` whose masks are integrated as if scores were normal is a proposal: a trajectory, and
where the kernel draws rates given the weights, that before it and, in the opposite order, after it, so that the whole
is reversible. Where it ends, the likelihood of each row is summed over its masks (:mod:`bayesdrop.posterior.masks`,
which whoever runs the kernel gives it), and with ``T``
the log-likelihood of all rows over masks less the one under normal scores, the proposal is accepted with probability

    min{1, exp(T(θ') − T(θ))}

(a surrogate transition; Liu 2001, section 9.4.3). The draws are from the posterior of the model with masks. What the
approximation costs is acceptance: where ``T`` varies by half a nat over the posterior, a quarter of the moves, by one
nat half of them, by three nearly all. Trajectories aim at more acceptance than others, since it multiplies.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``D`` coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ...._typing import AnyArray, Float, PerRow
from ..density import Density, Evaluation, PerScore, Point
from ..kernel import HMCKernel, HMCOperands, HMCState
from ..whitening import unwhiten

__all__ = ["Effective", "SummedEvaluation", "SummedKernel", "SummedOperands", "SummedRows"]


class SummedRows(NamedTuple):
    """Rows whose masks are summed.

    Attributes
    ----------
    X : array or scipy sparse (n, p)
        Features.
    loss : Scored
        The plain loss.
    target, row_weight : array (n,)
        Labels −1 and +1 or numbers, and the weights of the rows.
    loss_weight : float
        ``C``.
    offset : array (n,), optional
        Known part of every row's score.
    """

    X: Any
    loss: Any
    target: PerRow
    row_weight: PerRow
    loss_weight: float
    offset: PerRow | None


class SummedOperands(NamedTuple):
    """What the compiled steps read, and the rows whose masks are summed."""

    chains: HMCOperands
    rows: SummedRows


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
    """A point as the rows see it: weights ``w k(η)`` and chances ``1 − η`` and ``η`` (C, p), intercept (C,)."""

    weight: Float[AnyArray, "C p"]
    intercept: Float[AnyArray, " C"]
    keep: Float[AnyArray, "C p"]
    drop: Float[AnyArray, "C p"]


@dataclass(frozen=True)
class SummedKernel:
    """The transition, called by Python; see :class:`bayesdrop.mcmc.protocols.HostKernel`.

    Attributes
    ----------
    inner : HMCKernel
        The transition of a :class:`.density.Density` whose masks are integrated.
    costs : callable
        Minus the log-likelihoods (C, n) of :class:`SummedRows` at a point, their masks summed, given as NumPy arrays.
    """

    inner: HMCKernel
    costs: Callable[[SummedRows, Any], Float[np.ndarray, "C n"]] | None = None

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
        summed = self._summed(operands.rows, point, slice(None))
        return _first(self.inner, operands.chains, key, z, evaluation, jnp.asarray(summed, dtype=z.dtype))

    def step(self, operands: SummedOperands, state: HMCState) -> tuple[HMCState, dict[str, jax.Array]]:
        """One proposal of every chain, and in warm-up what is learnt from it."""
        proposed, point = _propose(self.inner, operands.chains, state)
        # Chains that stay have their sums.
        moved = np.flatnonzero(np.any(np.asarray(proposed.position) != np.asarray(state.position), axis=1))
        summed = np.array(state.evaluation.cost)
        if len(moved):
            summed[moved] = self._summed(operands.rows, point, moved)
        return _arrive(self.inner, operands.chains, state, proposed, jnp.asarray(summed))

    def _summed(self, rows: SummedRows, point: Effective, chains: Any) -> Float[np.ndarray, "C n"]:
        """Costs of some chains."""
        if self.costs is None:
            raise TypeError('masks: "summed" is for bd.sample, which sums masks; expected a kernel that has `costs`.')
        return self.costs(rows, Effective(*(np.asarray(part)[chains] for part in point)))


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
def _propose(kernel: HMCKernel, operands: HMCOperands, state: HMCState) -> tuple[HMCState, Effective]:
    """A draw under normal scores, with the energy of its momentum alone, and its end as the rows see it."""
    found: Any = state.evaluation  # a SummedEvaluation
    state = state._replace(evaluation=Evaluation(found.nearly, found.prior, found.gradient))
    state = kernel.slice_rates(operands, state)
    departure = kernel.depart(operands, state)
    end = kernel.trajectory(operands, state, *departure[:3])
    state = kernel.accept(operands, state, departure, *end)
    kinetic = state.energy - jnp.sum(state.evaluation.cost, axis=1) + state.evaluation.prior
    state = kernel.slice_rates(operands, state._replace(energy=kinetic), backwards=True)
    theta = kernel.place(operands, state, state.position)
    return state, _effective(kernel.density, operands, theta)  # type: ignore[arg-type]  # a Density


@partial(jax.jit, static_argnames=("kernel",))
def _arrive(
    kernel: HMCKernel, operands: HMCOperands, old: HMCState, proposed: HMCState, summed: PerScore
) -> tuple[HMCState, dict[str, jax.Array]]:
    """The state after a proposal, and what is recorded of it."""
    key, key_accept = jax.random.split(proposed.key)
    before: Any = old.evaluation
    evaluation = _with(proposed.evaluation, summed)
    gain = jnp.sum((evaluation.nearly - before.nearly) - (evaluation.cost - before.cost), axis=1)
    gain = jnp.where(jnp.isfinite(gain), gain, -jnp.inf)
    accept = -jax.random.exponential(key_accept, gain.shape, gain.dtype) < gain
    position, evaluation = jax.tree.map(
        lambda new, kept: jnp.where(accept.reshape(-1, *(1,) * (new.ndim - 1)), new, kept),
        (proposed.position, evaluation),
        (old.position, before),
    )
    energy = proposed.energy + jnp.sum(evaluation.cost, axis=1) - evaluation.prior
    return kernel.settle(
        operands,
        proposed._replace(
            position=position,
            evaluation=evaluation,
            acceptance=proposed.acceptance * jnp.exp(jnp.minimum(gain, 0)),
            energy=energy,
            key=key,
        ),
    )


def _with(found: Evaluation, summed: PerScore) -> Any:
    """The evaluation with the sum over masks, which a kernel reads as its own."""
    return SummedEvaluation(summed, found.prior, found.gradient, found.cost)
