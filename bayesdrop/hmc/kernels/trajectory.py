"""Follow split Hamiltonian trajectories in whitened coordinates, and search for their number of steps in warm-up.

Minus the log density is ``½‖z‖² + R(z)`` with a small remainder ``R``. The flow of the first part is exact, a rotation
of position and momentum ``r``, and only the remainder changes the momentum (Shahbaba, Lan, Johnson & Neal 2014; Beskos,
Pinski, Sanz-Serna & Stuart 2011):

    r ← r − ½ε∇R(z),   (z, r) ← (z cos ε + r sin ε, r cos ε − z sin ε),   r ← r − ½ε∇R(z),

repeated. The map is reversible and preserves volume for any force. With ``R = 0`` a quarter turn is an independent
draw.

Warm-up searches for the smallest number of leapfrog steps that is accepted often enough. The angle of a trajectory is
the whole turn ``HMCOptions.turn`` or a share of it. The candidates are ordered from long steps to short ones: one to
three steps with the whole turn and with 0.9 and 0.8 of it, more steps with the whole turn, and 100 steps with smaller
and smaller turns. The acceptance of a candidate is the mean over the trajectories that tried it, in rounds of ten; a
round ends early if trajectories are hardly ever accepted. The candidate used after warm-up has itself been tried: if
one step accepts 0.4 and two accept 0.87, no mixture of them is used. If a shorter turn is available, the whole turn
must accept more than the target: its successive draws are on opposite sides, so that means converge fast, but with more
rejections the tails converge slowly. A single step must accept nearly always: its error varies over the space, and with
few rows a chain of single steps that accepts 0.8 on average can stay in place for dozens of draws where the error is
large. Two steps give more effective draws per gradient in that case.

The next candidate follows from the acceptance probability ``2Φ(−σ/2)``, with ``σ`` proportional to the square of the
step size (Beskos, Pillai, Roberts, Sanz-Serna & Stuart 2013).

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
    "Departure",
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
"""Names of the statistics of a draw: the log density and properties of the trajectory."""

Point = Float[jax.Array, "C D"]


@dataclass(frozen=True)
class HMCOptions:
    """Options of trajectories that a user sets; every kernel has them as ``options``.

    Attributes
    ----------
    n_leapfrog_steps : int, optional
        Leapfrog steps of a trajectory; by default warm-up chooses them.
    target_accept : float
        Target acceptance probability of this choice.
    turn : float
        Angle of a trajectory, somewhat more than a quarter turn: successive draws are then on opposite sides, and means
        converge faster than from independent draws, while the correlation cos² of squares stays small.
    """

    n_leapfrog_steps: int | None = None
    target_accept: float = 0.8
    turn: float = 2.0


class Departure(NamedTuple):
    """Random numbers drawn before a trajectory.

    Attributes
    ----------
    momentum : array (C, D)
        Momentum of every chain.
    angle, n_leapfrog_steps : array ()
        Angle and number of the leapfrog steps.
    fall : array (C,)
        Maximum rise of the total energy that is accepted.
    key : key
        Random key of the next draw.
    """

    momentum: Point
    angle: Float[jax.Array, ""]
    n_leapfrog_steps: Int[jax.Array, ""]
    fall: Float[jax.Array, " C"]
    key: PRNGKeyArray


def turned(z: Point, momentum: Point, angle: Float[jax.Array, ""] | float) -> tuple[Point, Point]:
    """Rotate position and momentum by an angle: the exact flow of the normal part.

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
    """Follow a trajectory of ``n_leapfrog_steps`` rotations by an angle.

    Parameters
    ----------
    force : callable
        Returns the force ``−∇R`` (C, D) at positions (C, D), and a pytree of arrays computed on the way.
    z, momentum : array (C, D)
        Position and momentum at the start.
    angle : array ()
        Angle of each rotation.
    n_leapfrog_steps : int or int array ()
        Number of rotations, at least 1.
    start : (force, pytree), optional
        Result of ``force`` at ``z``, if it is known.

    Returns
    -------
    z, momentum, first, last
        Position and momentum at the end, and the pytrees at the start and at the end.

    Examples
    --------
    >>> quarter = split_trajectory(lambda z: (0 * z, ()), jnp.ones((1, 1)), jnp.zeros((1, 1)), jnp.pi / 4, 2)
    >>> [round(float(part[0, 0]), 6) + 0.0 for part in quarter[:2]]
    [0.0, -1.0]
    """
    half, whole = (jnp.asarray(share, z.dtype) for share in (0.5, 1.0))
    force = jax.jit(force, inline=True)  # traced once for both the shapes and the loop

    def move(i: jax.Array | int, carry: tuple[Point, Point, Any, Any]) -> tuple[Point, Point, Any, Any]:
        z, r, first, _ = carry
        # Iteration 0 does not turn, and iterations 0 and n apply half the force: in this form the compiled program has
        # one copy of the gradient.
        turn = jnp.where(i > 0, angle, 0)
        z, r = turned(z, r, turn)
        push, result = force(z)
        length = angle * jnp.where((i == 0) | (i == n_leapfrog_steps), half, whole)
        if start is None:
            first = jax.tree.map(lambda new, old: jnp.where(i == 0, new, old), result, first)
        return z, r + length * push, first, result

    if start is None:
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(force, z)[1])
        z, r, first, last = jax.lax.fori_loop(0, n_leapfrog_steps + 1, move, (z, momentum, nothing, nothing))
        return z, r, first, last
    push, first = start
    z, r, _, last = jax.lax.fori_loop(1, n_leapfrog_steps + 1, move, (z, momentum + angle / 2 * push, (), first))
    return z, r, first, last


def statistics_of(state: Any, lp: Float[jax.Array, " C"]) -> dict[str, jax.Array]:
    """``STATISTICS`` of the trajectory that led to a state, given the log density there, (C,) each.

    The state has ``acceptance``, ``energy`` and ``diverging`` of each chain, and a common ``angle`` and
    ``n_leapfrog_steps``.
    """
    ones = jnp.ones_like(state.acceptance)
    steps = state.n_leapfrog_steps.astype(jnp.int32) * jnp.ones(ones.shape, jnp.int32)
    values = (lp, state.acceptance, state.energy, state.angle * ones, steps, state.diverging.astype(jnp.int8))
    return dict(zip(STATISTICS, values, strict=True))


@dataclass(frozen=True)
class Rules:
    """Candidates of the search for the number of steps, and its decisions.

    Attributes
    ----------
    trajectories : int
        Trajectories of a round: angles vary within it, and four chains give a standard error of about 0.05.
    few, shares : int, tuple of float
        Number of steps up to which there are shorter turns, and the shares of the whole turn that are tried.
    max_steps, spaced : int
        Largest number of steps, and about the number of candidates from ``few`` to it, at equal ratios.
    shrinking, turns : float, int
        Ratio of successive turns of ``max_steps`` steps, and their number.
    whole, single : float
        Rejection allowed to the whole turn if there are shorter ones, and to a single step, as shares of the rejection
        allowed to other candidates.
    shortest, width : float
        Smallest factor on the angle of a trajectory, and the range of this random factor.
    enough, hopeless : int, float
        Trajectories of all chains after which a candidate is dropped, and the acceptance below which it is.
    lowest, highest : float
        Range of acceptances from which the next candidate is predicted.
    rounding : float
        Factor on a predicted step size before its candidate is looked up, so that rounding does not skip one.
    """

    trajectories: int = 10
    few: int = 3
    shares: tuple[float, ...] = (1, 0.9, 0.8)
    max_steps: int = 100
    spaced: int = 40
    shrinking: float = 0.9
    turns: int = 21
    whole: float = 0.65
    single: float = 0.25
    shortest: float = 0.8
    width: float = 0.4
    enough: int = 8
    hopeless: float = 0.05
    lowest: float = 1e-3
    highest: float = 0.9999
    rounding: float = 0.999


RULES = Rules()


def _candidates() -> tuple[np.ndarray, np.ndarray]:
    """Number of steps and share of the whole turn (L,), from the longest step size on."""
    few = [(steps, share) for steps in range(1, RULES.few + 1) for share in RULES.shares]
    more = [(steps, 1.0) for steps in np.unique(np.rint(np.geomspace(RULES.few + 1, RULES.max_steps, RULES.spaced)))]
    smaller_turns = [(RULES.max_steps, RULES.shrinking**power) for power in range(1, RULES.turns + 1)]
    steps, share = np.array(few + more + smaller_turns).T
    return steps.astype(np.int32), share


_STEPS, _SHARE = _candidates()


class StepSearch(NamedTuple):
    """Acceptance of the candidates tried so far.

    Attributes
    ----------
    chosen : int array ()
        Candidate in use.
    accepted : array (L,)
        Sums of the mean acceptance of the trajectories that tried each.
    tried : int array (L,)
        Number of these trajectories.
    """

    chosen: Int[jax.Array, ""]
    accepted: Float[jax.Array, " L"]
    tried: Int[jax.Array, " L"]


def first_search(steps: int, dtype: DTypeLike) -> StepSearch:
    """Start a search at a number of steps with the whole turn.

    Examples
    --------
    >>> int(draw_length(jax.random.key(0), first_search(3, jnp.float32), HMCOptions())[0])
    3
    """
    zeros = jnp.zeros(len(_STEPS), dtype)
    return StepSearch(jnp.int32(np.searchsorted(_STEPS, steps)), zeros, zeros.astype(jnp.int32))


def started_again(search: StepSearch) -> StepSearch:
    """Forget the measurements of a search, after a change of the coordinates."""
    return search._replace(accepted=jnp.zeros_like(search.accepted), tried=jnp.zeros_like(search.tried))


def draw_length(
    key: PRNGKeyArray, search: StepSearch, options: HMCOptions
) -> tuple[Int[jax.Array, ""], Float[jax.Array, ""]]:
    """Number of steps of a trajectory, and the angle of each, ±20 %."""
    dtype = search.accepted.dtype
    steps, share = jnp.asarray(_STEPS)[search.chosen], jnp.asarray(_SHARE, dtype)[search.chosen]
    if options.n_leapfrog_steps is not None:
        steps, share = jnp.int32(options.n_leapfrog_steps), jnp.ones((), dtype)
    factor = RULES.shortest + RULES.width * jax.random.uniform(key, (), dtype)
    return steps, options.turn * share / steps.astype(dtype) * factor


def searched(
    search: StepSearch,
    acceptance: Float[jax.Array, " C"],
    count: Int[jax.Array, ""],
    tune: Int[jax.Array, ""],
    options: HMCOptions,
) -> StepSearch:
    """Update the search after the trajectory of draw number ``count``; after warm-up it does not change."""

    def learn(search: StepSearch) -> StepSearch:
        chosen = search.chosen
        accepted = search.accepted.at[chosen].add(jnp.mean(acceptance))
        tried = search.tried.at[chosen].add(1)
        rejected = _rejected(accepted, tried, acceptance.shape[0])
        last = count == tune - 1
        return StepSearch(
            where_needed(
                last | (tried[chosen] % RULES.trajectories == 0) | rejected[chosen],
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
    """Candidate of the next round, or, at the ``last`` draw of warm-up, of all later draws."""
    place = jnp.arange(len(_STEPS), dtype=chosen.dtype)
    mean = accepted / jnp.maximum(tried, 1).astype(accepted.dtype)
    is_measured = (tried >= RULES.trajectories) | rejected
    allowed = np.select([_STEPS == 1, (_SHARE == 1) & (_STEPS <= RULES.few)], [RULES.single, RULES.whole], 1.0)
    passes = is_measured & (mean >= 1 - jnp.asarray(allowed, mean.dtype) * (1 - aim))
    best = jnp.argmax(passes).astype(chosen.dtype)
    # If no candidate passes, try shorter steps.
    up = jnp.where(is_measured[chosen], jnp.maximum(chosen + 1, _predicted(chosen, mean[chosen], aim)), chosen)
    # Otherwise try longer steps than the best, except those that failed in at least half as many trajectories.
    failed = is_measured & ~passes & (place < best) & (2 * tried >= tried[best])
    lower_bound = jnp.max(jnp.where(failed, place + 1, 0))
    down = jnp.clip(jnp.minimum(_predicted(best, mean[best], aim), best - 1), lower_bound, best)
    candidate = jnp.where(jnp.any(passes), jnp.where(last, best, down), up)
    return jnp.minimum(candidate, len(_STEPS) - 1)


def _rejected(accepted: Float[jax.Array, " L"], tried: Int[jax.Array, " L"], chains: int) -> Bool[jax.Array, " L"]:
    """Candidates that are hardly ever accepted, so that no whole round is spent on them."""
    return (chains * tried >= RULES.enough) & (accepted < RULES.hopeless * tried.astype(accepted.dtype))


def _predicted(candidate: Int[jax.Array, ""], acceptance: Float[jax.Array, ""], aim: float) -> Int[jax.Array, ""]:
    """First candidate with the target acceptance, predicted from the acceptance of another candidate."""
    sizes = jnp.asarray(_STEPS / _SHARE, acceptance.dtype)
    error, wanted = (
        ndtri(jnp.clip(jnp.asarray(part, acceptance.dtype), RULES.lowest, RULES.highest) / 2)
        for part in (acceptance, aim)
    )
    return jnp.searchsorted(sizes, RULES.rounding * sizes[candidate] * jnp.sqrt(error / wanted)).astype(candidate.dtype)
