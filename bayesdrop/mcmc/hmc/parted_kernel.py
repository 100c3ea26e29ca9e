"""The transition with chains in groups that need not wait for each other: a group for each core of two.

A trajectory knows nothing of the other chains. What is drawn for all of them, momenta and the number of kicks, comes
before it, and what is learnt of all in warm-up after it. The groups are the same whatever the machine, and so are the
draws, to the last bit.

Shapes: ``C`` chains, ``D`` coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._typing import Float, Int
from .density import Evaluation, Point
from .kernel import Departure, HMCKernel, HMCOperands, HMCState

__all__ = ["Moved", "Part", "PartedHMCKernel"]

# Most chains of a group, where there are more than two groups: products of four go together.
_TOGETHER = 4


class Part(NamedTuple):
    """Some chains before their trajectory.

    Attributes
    ----------
    state : HMCState
        Position and evaluation are theirs, the key is for their rates.
    momentum : array (C, D)
        Theirs.
    angle, kicks : array ()
        Of all chains.
    """

    state: HMCState
    momentum: Point
    angle: Float[jax.Array, ""]
    kicks: Int[jax.Array, ""]


class Moved(NamedTuple):
    """Some chains where a trajectory began, after their rates were drawn, and where it led."""

    start: Point
    before: Evaluation
    position: Point
    momentum: Point
    after: Evaluation


@dataclass(frozen=True)
class PartedHMCKernel(HMCKernel):
    """The transition, as a whole or in parts; see :class:`bayesdrop.mcmc.protocols.PartedKernel`."""

    @staticmethod
    def groups(chains: int) -> list[slice]:
        """Which chains go together: halves, of up to four chains each.

        Examples
        --------
        >>> [(group.start, group.stop) for group in PartedHMCKernel.groups(3)]
        [(0, 2), (2, 3)]
        """
        size = min(-(-chains // 2), _TOGETHER)
        return [slice(start, min(start + size, chains)) for start in range(0, chains, size)]

    def split(self, operands: HMCOperands, state: HMCState) -> tuple[Departure, list[Part]]:
        """What is drawn before a trajectory, and the chains in their groups."""
        key, key_rates = jax.random.split(state.key) if self.slices else (state.key, state.key)
        departure = self.depart(operands, state._replace(key=key))
        parts = []
        for number, group in enumerate(self.groups(state.position.shape[0])):
            own = jax.tree.map(lambda leaf, group=group: leaf[group], (state.position, state.evaluation))
            some = state._replace(position=own[0], evaluation=own[1], key=jax.random.fold_in(key_rates, number))
            parts.append(Part(some, departure.momentum[group], departure.angle, departure.kicks))
        return departure, parts

    def move(self, operands: HMCOperands, part: Part) -> Moved:
        """Rates given the weights, and the trajectory."""
        state = self.slice_rates(operands, part.state)
        return Moved(state.position, state.evaluation, *self.trajectory(operands, state, *part[1:]))

    def join(
        self, operands: HMCOperands, state: HMCState, departure: Departure, moved: list[Moved]
    ) -> tuple[HMCState, dict[str, jax.Array]]:
        """The state after the trajectories, and what is recorded of it."""
        whole: Any = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *moved)
        state = state._replace(position=whole.start, evaluation=whole.before)
        return self.arrive(operands, state, departure, whole.position, whole.momentum, whole.after)
