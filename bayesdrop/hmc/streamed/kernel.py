"""Split Hamiltonian Monte Carlo of rows that are streamed: a pass over the data for each leapfrog step of all chains.

The transition is that of :class:`.kernel.HMCKernel`, step by step: what is done with the coordinates of the chains is
compiled, and between two such steps Python has the rows summed (:mod:`.streamed.density`). With the same key it makes
the draws of the kernel in memory, but for rounding.
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
from ..kernels.density import Evaluation, Loadings, Point
from ..kernels.factors import unwhiten
from ..kernels.kernel import Departure, HMCKernel, HMCOperands, HMCState
from ..kernels.trajectory import turned
from .density import StreamedRows, Sums, evaluation_of, one_pass

__all__ = ["StreamedKernel", "StreamedOperands"]


class StreamedOperands(NamedTuple):
    """What the chains depend on beside the rows, with no matrix; and the rows."""

    chains: HMCOperands
    rows: StreamedRows


@dataclass(frozen=True)
class StreamedKernel:
    """The transition, called by Python; see :class:`bayesdrop.sampling.protocols.HostKernel`.

    Attributes
    ----------
    inner : HMCKernel
        The transition of a :class:`.density.Density`, or of one with learnt scales.
    """

    inner: HMCKernel

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of what is recorded."""
        return self.inner.variables

    @property
    def choice(self) -> str:
        """Name of the normal approximation."""
        return self.inner.choice

    @property
    def statistics(self) -> tuple[str, ...]:
        """The log density, and how the trajectory went."""
        return self.inner.statistics

    def shapes(self, operands: StreamedOperands, key: PRNGKeyArray, chains: int) -> tuple[Any, dict[str, Any]]:
        """Shapes of the state and of what a step records."""

        def made(inside: HMCOperands, key: PRNGKeyArray) -> tuple[HMCState, dict[str, jax.Array]]:
            key, z = self.inner.start(inside, key, chains)
            state = self.inner.state_at(inside, key, z, Evaluation(z[:, :1], z[:, 0], z))
            return state, self.inner.record(inside, state)

        shapes: tuple[Any, dict[str, Any]] = jax.eval_shape(made, operands.chains, key)
        return shapes

    def init(self, operands: StreamedOperands, key: PRNGKeyArray, chains: int) -> HMCState:
        """Start at independent draws from the normal approximation."""
        key, z, theta, loadings = _begin(self.inner, operands.chains, key, chains)
        return _first(self.inner, operands.chains, key, z, theta, self._pass(operands, loadings))

    def step(self, operands: StreamedOperands, state: HMCState) -> tuple[HMCState, dict[str, jax.Array]]:
        """One trajectory of every chain, and in warm-up what is learnt from it."""
        inside = operands.chains
        departure, r = _depart(self.inner, inside, state)
        z, evaluation, last = state.position, state.evaluation, int(departure.n_leapfrog_steps)
        for number in range(1, last + 1):
            z, r, theta, loadings = _turn(self.inner, inside, state, z, r, departure.angle)
            sums = self._pass(operands, loadings)
            share = np.asarray(0.5 if number == last else 1.0, dtype=z.dtype)
            r, evaluation = _push(self.inner, inside, state, z, r, theta, sums, departure.angle * share)
        return _arrive(self.inner, inside, state, departure, z, r, evaluation)

    def _pass(self, operands: StreamedOperands, loadings: Loadings) -> Sums:
        """The sums over the rows, on the device of the chains."""
        sums = one_pass(self.inner.density.of_rows, operands.rows, loadings)  # type: ignore[attr-defined]  # as below
        return jax.tree.map(lambda part: jnp.asarray(part, dtype=loadings.mean.dtype), sums)


@partial(jax.jit, static_argnames=("kernel", "chains"))
def _begin(
    kernel: HMCKernel, operands: HMCOperands, key: PRNGKeyArray, chains: int
) -> tuple[PRNGKeyArray, Point, Point, Loadings]:
    """Where the chains begin, as whitened coordinates, as ``θ`` and as loadings."""
    key, z = kernel.start(operands, key, chains)
    theta = unwhiten(operands.centre, operands.factor, z)
    return key, z, theta, kernel.density.loadings(operands.density, theta)  # type: ignore[attr-defined]


@partial(jax.jit, static_argnames=("kernel",))
def _first(kernel: HMCKernel, operands: HMCOperands, key: PRNGKeyArray, z: Point, theta: Point, sums: Sums) -> HMCState:
    """State before the first draw."""
    return kernel.state_at(operands, key, z, _evaluation(kernel, operands, theta, sums))


@partial(jax.jit, static_argnames=("kernel",))
def _depart(kernel: HMCKernel, operands: HMCOperands, state: HMCState) -> tuple[Departure, Point]:
    """What is drawn before a trajectory, and the momentum after the first half of a leapfrog step."""
    departure = kernel.depart(operands, state)
    push = kernel.force(operands, state, state.position, state.evaluation)
    return departure, departure.momentum + departure.angle / 2 * push


@partial(jax.jit, static_argnames=("kernel",))
def _turn(
    kernel: HMCKernel, operands: HMCOperands, state: HMCState, z: Point, r: Point, angle: Float[jax.Array, ""]
) -> tuple[Point, Point, Point, Loadings]:
    """Position and momentum after a turn, and the position as ``θ`` and as loadings."""
    z, r = turned(z, r, angle)
    theta = kernel.place(operands, state, z)
    return z, r, theta, kernel.density.loadings(operands.density, theta)  # type: ignore[attr-defined]


@partial(jax.jit, static_argnames=("kernel",))
def _push(
    kernel: HMCKernel,
    operands: HMCOperands,
    state: HMCState,
    z: Point,
    r: Point,
    theta: Point,
    sums: Sums,
    length: Float[jax.Array, ""],
) -> tuple[Point, Evaluation]:
    """Momentum after a leapfrog step of the given length, and the density where it is."""
    evaluation = _evaluation(kernel, operands, theta, sums)
    return r + length * kernel.force(operands, state, z, evaluation), evaluation


@partial(jax.jit, static_argnames=("kernel",))
def _arrive(
    kernel: HMCKernel,
    operands: HMCOperands,
    state: HMCState,
    departure: Departure,
    z: Point,
    r: Point,
    evaluation: Evaluation,
) -> tuple[HMCState, dict[str, jax.Array]]:
    """The state after a trajectory, and what is recorded of it."""
    return kernel.arrive(operands, state, departure, z, r, evaluation)


@partial(jax.jit, static_argnames=("kernel",))
def _evaluation(kernel: HMCKernel, operands: HMCOperands, theta: Point, sums: Sums) -> Evaluation:
    return evaluation_of(kernel.density, operands.density, theta, sums)  # type: ignore[arg-type]
