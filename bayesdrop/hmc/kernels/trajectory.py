r"""Split Hamiltonian trajectories in whitened coordinates.

Minus the log density is ``½‖z‖² + R(z)`` with a small remainder ``R``. The first part is followed exactly, as a
rotation of position and momentum ``r``, and only the remainder changes the momentum (Shahbaba, Lan, Johnson & Neal
2014; Beskos, Pinski, Sanz-Serna & Stuart 2011):

    r ← r − ½ε∇R(z),   (z, r) ← (z cos ε + r sin ε, r cos ε − z sin ε),   r ← r − ½ε∇R(z),

repeated. It can be run back and keeps volume, whatever the force. With ``R = 0`` a quarter turn is an independent draw.

Shapes: ``C`` chains, ``D`` coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..._typing import Float, Int

__all__ = ["STATISTICS", "split_trajectory", "statistics_of", "turned"]

STATISTICS = ("lp", "acceptance_rate", "energy", "step_size", "n_steps", "diverging")
"""What is recorded of a draw beside the variables: the log density, and how the trajectory went."""

Point = Float[jax.Array, "C D"]


def turned(z: Point, momentum: Point, angle: Float[jax.Array, ""] | float) -> tuple[Point, Point]:
    """Position and momentum after a turn about the centre: the exact flow of the normal part.

    Examples
    --------
    >>> [float(part[0, 0].round(6)) for part in turned(jnp.ones((1, 1)), jnp.zeros((1, 1)), jnp.pi / 2)]
    [-0.0, -1.0]
    """
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    return z * cosine + momentum * sine, momentum * cosine - z * sine


def split_trajectory(
    force: Callable[[Point], tuple[Point, Any]],
    z: Point,
    momentum: Point,
    angle: Float[jax.Array, ""] | float,
    n_leapfrog_steps: Int[jax.Array, ""] | int,
    start: tuple[Point, Any] | None = None,
) -> tuple[Point, Point, Any, Any]:
    """Where ``n_leapfrog_steps`` turns of an angle lead.

    Parameters
    ----------
    force : callable
        From positions (C, D) to the force ``−∇R`` (C, D) and a pytree of arrays that is found on the way.
    z, momentum : array (C, D)
        Where it begins.
    angle : array ()
        Of each turn.
    n_leapfrog_steps : int or int array ()
        Number of turns, at least 1.
    start : (force, pytree), optional
        What ``force`` gives at ``z``, where it is known.

    Returns
    -------
    z, momentum, first, last
        The end, and what was found at the start and there.

    Examples
    --------
    >>> quarter = split_trajectory(lambda z: (0 * z, ()), jnp.ones((1, 1)), jnp.zeros((1, 1)), jnp.pi / 4, 2)
    >>> [round(float(part[0, 0]), 6) + 0.0 for part in quarter[:2]]
    [0.0, -1.0]
    """
    half, whole = (jnp.asarray(share, z.dtype) for share in (0.5, 1.0))
    force = jax.jit(force, inline=True)  # traced once for its shapes and for the loop

    def move(i: jax.Array | int, carry: tuple[Point, Point, Any, Any]) -> tuple[Point, Point, Any, Any]:
        z, r, first, _ = carry
        # The passage of the start does not turn, and it and the last one are by half: one copy of the gradient in the
        # compiled program.
        turn = jnp.where(i > 0, angle, 0)
        z, r = turned(z, r, turn)
        push, found = force(z)
        length = angle * jnp.where((i == 0) | (i == n_leapfrog_steps), half, whole)
        if start is None:
            first = jax.tree.map(lambda new, old: jnp.where(i == 0, new, old), found, first)
        return z, r + length * push, first, found

    if start is None:
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(force, z)[1])
        z, r, first, last = jax.lax.fori_loop(0, n_leapfrog_steps + 1, move, (z, momentum, nothing, nothing))
        return z, r, first, last
    push, first = start
    z, r, _, last = jax.lax.fori_loop(1, n_leapfrog_steps + 1, move, (z, momentum + angle / 2 * push, (), first))
    return z, r, first, last


def statistics_of(state: Any, lp: Float[jax.Array, " C"]) -> dict[str, jax.Array]:
    """``STATISTICS`` of the trajectory that led to a state, given the log density there, (C,) each.

    The state has ``acceptance``, ``energy``, ``diverging`` of each chain, ``angle``, ``n_leapfrog_steps`` of all.
    """
    ones = jnp.ones_like(state.acceptance)
    steps = state.n_leapfrog_steps.astype(jnp.int32) * jnp.ones(ones.shape, jnp.int32)
    found = (lp, state.acceptance, state.energy, state.angle * ones, steps, state.diverging.astype(jnp.int8))
    return dict(zip(STATISTICS, found, strict=True))
