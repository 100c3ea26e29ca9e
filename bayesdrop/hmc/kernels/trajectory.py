"""Split Hamiltonian trajectories in whitened coordinates.

Minus the log density is ``½‖z‖² + R(z)`` with a small remainder ``R``. The first part is followed exactly, as a
rotation of position and momentum ``r``, and only the remainder changes the momentum (Shahbaba, Lan, Johnson & Neal
2014; Beskos, Pinski, Sanz-Serna & Stuart 2011):

    r ← r − ½ε∇R(z),   (z, r) ← (z cos ε + r sin ε, r cos ε − z sin ε),   r ← r − ½ε∇R(z),

repeated. It can be run back and keeps volume, whatever the force. With ``R = 0`` a quarter turn is an independent draw.

Warm-up looks for the fewest leapfrog steps that are accepted often enough. The candidates are ordered from long steps
to short ones: one to three steps with the whole turn and with nine and eight tenths of it, more with the whole turn,
and a hundred with less and less of it. The acceptance of a candidate is the mean over the trajectories that tried it,
in rounds of ten; a round ends as soon as eight trajectories, of all chains together, were hardly ever accepted. What is
chosen was measured: one step that accepts 0.4 and two that accept 0.87 are 0.8 on average, and neither is. Where a
shorter turn is at hand the whole one has to accept more than the aim: it makes draws that are on opposite sides, so
that means converge fast, and where it is rejected more often the tails converge slowly. A single step has to accept
nearly always: its error is not the same everywhere, and of few rows a chain of single steps that accepts 0.8 on average
stands still for dozens of draws where the error is large. Two steps have more effective draws per gradient there.

How many steps to try next comes from the law of the error: the acceptance is ``2Φ(−σ/2)`` with ``σ`` proportional to
the square of the step size (Beskos, Pillai, Roberts, Sanz-Serna & Stuart 2013).

Shapes: ``C`` chains, ``D`` coordinates, ``L`` candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jax.typing import DTypeLike
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float, Int
from ...distributions.draws import where_needed

__all__ = [
    "HMCOptions",
    "StepSearch",
    "draw_length",
    "first_search",
    "searched",
    "split_trajectory",
    "started_again",
    "statistics_of",
    "turned",
    "STATISTICS",
]

STATISTICS = ("lp", "acceptance_rate", "energy", "step_size", "n_steps", "diverging")
"""What is recorded of a draw besides the variables: the log density, and how the trajectory went."""

Point = Float[jax.Array, "C D"]


@dataclass(frozen=True)
class HMCOptions:
    """What a user may say of trajectories; every kernel has all of it as ``options``.

    Attributes
    ----------
    n_leapfrog_steps : int, optional
        Leapfrog steps of a trajectory; by default warm-up chooses them.
    target_accept : float
        Acceptance probability that they are chosen for.
    turn : float
        Angle of a trajectory. Somewhat more than a quarter turn: successive draws are then on opposite sides, and means
        converge faster than from independent draws, while squares still forget (their correlation is cos²).
    """

    n_leapfrog_steps: int | None = None
    target_accept: float = 0.8
    turn: float = 2.0


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


# Trajectories of a round. Angles vary within one, and four chains give a standard error of .05 or so.
_ROUND = 10
# Steps up to which there are shorter turns; what the whole turn may reject there, and what a single step may, of what
# the others may.
_FEW, _WHOLE, _SINGLE = 3, 0.65, 0.25


def _candidates() -> tuple[np.ndarray, np.ndarray]:
    """Number of steps and share of the whole turn (L,), from the longest step size on."""
    few = [(steps, share) for steps in range(1, _FEW + 1) for share in (1, 0.9, 0.8)]
    more = [(steps, 1.0) for steps in np.unique(np.rint(np.geomspace(_FEW + 1, 100, 40)))]
    least = [(100, 0.9**power) for power in range(1, 22)]
    steps, share = np.array(few + more + least).T
    return steps.astype(np.int32), share


_STEPS, _SHARE = _candidates()


class StepSearch(NamedTuple):
    """What is known of the candidates.

    Attributes
    ----------
    chosen : int array ()
        Candidate in use.
    accepted : array (L,)
        Sums of the mean acceptance of the trajectories that tried each.
    tried : int array (L,)
        Number of these.
    """

    chosen: Int[jax.Array, ""]
    accepted: Float[jax.Array, " L"]
    tried: Int[jax.Array, " L"]


def first_search(steps: int, dtype: DTypeLike) -> StepSearch:
    """Search that begins at a number of steps, of the whole turn.

    Examples
    --------
    >>> int(draw_length(jax.random.key(0), first_search(3, jnp.float32), HMCOptions())[0])
    3
    """
    nothing = jnp.zeros(len(_STEPS), dtype)
    return StepSearch(jnp.int32(np.searchsorted(_STEPS, steps)), nothing, nothing.astype(jnp.int32))


def started_again(search: StepSearch) -> StepSearch:
    """The search with its measurements forgotten, where trajectories move in other coordinates from now on."""
    return search._replace(accepted=jnp.zeros_like(search.accepted), tried=jnp.zeros_like(search.tried))


def draw_length(
    key: PRNGKeyArray, search: StepSearch, options: HMCOptions
) -> tuple[Int[jax.Array, ""], Float[jax.Array, ""]]:
    """Number of steps of a trajectory, and the angle of each, ±20 %."""
    dtype = search.accepted.dtype
    steps, share = jnp.asarray(_STEPS)[search.chosen], jnp.asarray(_SHARE, dtype)[search.chosen]
    if options.n_leapfrog_steps is not None:
        steps, share = jnp.int32(options.n_leapfrog_steps), jnp.ones((), dtype)
    return steps, options.turn * share / steps.astype(dtype) * (0.8 + 0.4 * jax.random.uniform(key, (), dtype))


def searched(
    search: StepSearch,
    acceptance: Float[jax.Array, " C"],
    count: Int[jax.Array, ""],
    tune: Int[jax.Array, ""],
    options: HMCOptions,
) -> StepSearch:
    """The search after one more trajectory, draw ``count`` of all; the same after warm-up."""

    def learn(search: StepSearch) -> StepSearch:
        chosen = search.chosen
        accepted = search.accepted.at[chosen].add(jnp.mean(acceptance))
        tried = search.tried.at[chosen].add(1)
        rejected = _rejected(accepted, tried, acceptance.shape[0])
        last = count == tune - 1
        return StepSearch(
            where_needed(
                last | (tried[chosen] % _ROUND == 0) | rejected[chosen],
                lambda now: _next(now, accepted, tried, rejected, last, options.target_accept),
                chosen,
            ),
            accepted,
            tried,
        )

    return where_needed(count < tune, learn, search)


def _next(
    chosen: Int[jax.Array, ""],
    accepted: Float[jax.Array, " L"],
    tried: Int[jax.Array, " L"],
    rejected: Bool[jax.Array, " L"],
    last: Bool[jax.Array, ""],
    aim: float,
) -> Int[jax.Array, ""]:
    """Candidate of the next round, or at the ``last`` draw of the warm-up that of all draws to come."""
    place = jnp.arange(len(_STEPS), dtype=chosen.dtype)
    mean = accepted / jnp.maximum(tried, 1).astype(accepted.dtype)
    known = (tried >= _ROUND) | rejected
    rejects = np.select([_STEPS == 1, (_SHARE == 1) & (_STEPS <= _FEW)], [_SINGLE, _WHOLE], 1.0)
    passes = known & (mean >= 1 - jnp.asarray(rejects, mean.dtype) * (1 - aim))
    best = jnp.argmax(passes).astype(chosen.dtype)
    # Shorter steps where none passes.
    up = jnp.where(known[chosen], jnp.maximum(chosen + 1, _predicted(chosen, mean[chosen], aim)), chosen)
    # Longer ones than the best are tried until each of them that failed was tried half as often.
    failed = known & ~passes & (place < best) & (2 * tried >= tried[best])
    least = jnp.max(jnp.where(failed, place + 1, 0))
    down = jnp.clip(jnp.minimum(_predicted(best, mean[best], aim), best - 1), least, best)
    found = jnp.where(jnp.any(passes), jnp.where(last, best, down), up)
    return jnp.minimum(found, len(_STEPS) - 1)


def _rejected(accepted: Float[jax.Array, " L"], tried: Int[jax.Array, " L"], chains: int) -> Bool[jax.Array, " L"]:
    """Candidates whose acceptance is below ``least`` after ``enough`` trajectories of all chains together.

    No round is spent on them.
    """
    enough, least = 8, 0.05
    return (chains * tried >= enough) & (accepted < least * tried.astype(accepted.dtype))


def _predicted(candidate: Int[jax.Array, ""], acceptance: Float[jax.Array, ""], aim: float) -> Int[jax.Array, ""]:
    """First candidate whose acceptance is the aim by the law of the error, given that of one."""
    sizes = jnp.asarray(_STEPS / _SHARE, acceptance.dtype)
    error, wanted = (
        ndtri(jnp.clip(jnp.asarray(part, acceptance.dtype), 1e-3, 0.9999) / 2) for part in (acceptance, aim)
    )
    return jnp.searchsorted(sizes, 0.999 * sizes[candidate] * jnp.sqrt(error / wanted)).astype(candidate.dtype)
