r"""Search for the leapfrog steps of a trajectory during warm-up: the fewest that are accepted often enough.

The candidates are ordered from long steps to short ones: one to three steps with the whole turn and with nine and eight
tenths of it, more with the whole turn, and a hundred with less and less of it. The acceptance of a candidate is the
mean over the trajectories that tried it, in rounds of ten, and what is chosen was measured: one step that accepts 0.4
and two that accept 0.87 are 0.8 on average, and neither is. Where a shorter turn is at hand the whole one has to accept
more than the aim: it makes draws that are on opposite sides, so that means converge fast, and where it is rejected more
often the tails converge slowly.

How many steps to try next comes from the law of the error: the acceptance is ``2Φ(−σ/2)`` with ``σ`` proportional to
the square of the step size (Beskos, Pillai, Roberts, Sanz-Serna & Stuart 2013).

Shapes: ``C`` chains, ``L`` candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jax.typing import DTypeLike
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float, Int
from ...distributions.draws import where_needed

__all__ = ["StepSearch", "draw_length", "first_search", "searched", "started_again"]

# Trajectories of a round. Angles vary within one, and four chains give a standard error of .05 or so.
_ROUND = 10
# Steps up to which there are shorter turns, and what the whole one may reject there, of what the others may.
_FEW, _WHOLE = 3, 0.65


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
    >>> int(draw_length(jax.random.key(0), first_search(3, jnp.float32), jnp.int32(0), 2.0)[0])
    3
    """
    nothing = jnp.zeros(len(_STEPS), dtype)
    return StepSearch(jnp.int32(np.searchsorted(_STEPS, steps)), nothing, nothing.astype(jnp.int32))


def started_again(search: StepSearch) -> StepSearch:
    """The search with its measurements forgotten, where trajectories move in other coordinates from now on."""
    return search._replace(accepted=jnp.zeros_like(search.accepted), tried=jnp.zeros_like(search.tried))


def draw_length(
    key: PRNGKeyArray, search: StepSearch, fixed: Int[jax.Array, ""], turn: float
) -> tuple[Int[jax.Array, ""], Float[jax.Array, ""]]:
    """Number of steps of a trajectory, ``fixed`` unless that is 0, and the angle of each, ±20 %."""
    dtype = search.accepted.dtype
    steps = jnp.where(fixed > 0, fixed, jnp.asarray(_STEPS)[search.chosen])
    share = jnp.where(fixed > 0, 1, jnp.asarray(_SHARE, dtype)[search.chosen])
    return steps, turn * share / steps.astype(dtype) * (0.8 + 0.4 * jax.random.uniform(key, (), dtype))


def searched(
    search: StepSearch,
    acceptance: Float[jax.Array, " C"],
    count: Int[jax.Array, ""],
    tune: Int[jax.Array, ""],
    aim: float,
) -> StepSearch:
    """The search after one more trajectory, draw ``count`` of all; the same after warm-up."""

    def learn(search: StepSearch) -> StepSearch:
        chosen = search.chosen
        accepted = search.accepted.at[chosen].add(jnp.mean(acceptance))
        tried = search.tried.at[chosen].add(1)
        last = count == tune - 1
        return StepSearch(
            where_needed(
                last | (tried[chosen] % _ROUND == 0), lambda now: _next(now, accepted, tried, last, aim), chosen
            ),
            accepted,
            tried,
        )

    return where_needed(count < tune, learn, search)


def _next(
    chosen: Int[jax.Array, ""],
    accepted: Float[jax.Array, " L"],
    tried: Int[jax.Array, " L"],
    last: Bool[jax.Array, ""],
    aim: float,
) -> Int[jax.Array, ""]:
    """Candidate of the next round, or at the ``last`` draw of the warm-up that of all draws to come."""
    place = jnp.arange(len(_STEPS), dtype=chosen.dtype)
    mean = accepted / jnp.maximum(tried, 1).astype(accepted.dtype)
    known = tried >= _ROUND
    whole = jnp.asarray((_SHARE == 1) & (_STEPS <= _FEW))
    passes = known & (mean >= jnp.where(whole, 1 - _WHOLE * (1 - aim), aim))
    best = jnp.argmax(passes).astype(chosen.dtype)
    # Shorter steps where none passes.
    up = jnp.where(known[chosen], jnp.maximum(chosen + 1, _predicted(chosen, mean[chosen], aim)), chosen)
    # Longer ones than the best are tried until each of them that failed was tried half as often.
    failed = known & ~passes & (place < best) & (2 * tried >= tried[best])
    least = jnp.max(jnp.where(failed, place + 1, 0))
    down = jnp.clip(jnp.minimum(_predicted(best, mean[best], aim), best - 1), least, best)
    found = jnp.where(jnp.any(passes), jnp.where(last, best, down), up)
    return jnp.minimum(found, len(_STEPS) - 1)


def _predicted(candidate: Int[jax.Array, ""], acceptance: Float[jax.Array, ""], aim: float) -> Int[jax.Array, ""]:
    """First candidate whose acceptance is the aim by the law of the error, given that of one."""
    sizes = jnp.asarray(_STEPS / _SHARE, acceptance.dtype)
    error, wanted = (
        ndtri(jnp.clip(jnp.asarray(part, acceptance.dtype), 1e-3, 0.9999) / 2) for part in (acceptance, aim)
    )
    return jnp.searchsorted(sizes, 0.999 * sizes[candidate] * jnp.sqrt(error / wanted)).astype(candidate.dtype)
