r"""Split Hamiltonian Monte Carlo around a normal approximation.

In whitened coordinates, ``θ = c + T z`` with mean ``c`` and covariance ``TTᵀ``, minus the log density is nearly
``½‖z‖²``: trajectories turn around the centre, with a few leapfrog steps for the remainder (:mod:`.trajectory`), and
are accepted by the total energy. The angle of a turn is drawn anew for each trajectory, ±20 %. Warm-up chooses the
smallest number of leapfrog steps that is accepted often enough, and, if ``trust`` is finite, a better centre and factor
from three short pilot runs.

Shapes: ``C`` chains, ``n`` rows, ``D`` coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float, Int
from ...distributions.draws import where_needed
from .density import Evaluation, LogDensity, Point
from .factors import Factor, StructuredFactor, unwhiten, whiten, whiten_gradient
from .trajectory import (
    STATISTICS,
    Departure,
    HMCOptions,
    StepSearch,
    draw_length,
    first_search,
    searched,
    split_trajectory,
    started_again,
    statistics_of,
)

__all__ = ["GradientKernel", "HMCKernel", "HMCOperands", "HMCState"]


@dataclass(frozen=True)
class Rules:
    """Rules of acceptance and of pilots.

    Attributes
    ----------
    diverged : float
        Error of the energy beyond which a trajectory counts as divergent.
    pilots : tuple of float
        Ends of the pilots, as shares of the warm-up; each begins where the one before ended.
    prior_draws : float
        Weight of the approximation when a structured factor is stretched, in draws.
    independent : float
        Share of a pilot's draws that are as good as independent.
    tiny : float
        Floor of a squared shift that is divided by.
    start, halvings : float, int
        Excess of the energy of a start over that of the centre plus ``D``, from which the start moves halfway to the
        centre, and how often at most.
    """

    diverged: float = 1000.0
    pilots: tuple[float, ...] = (0.15, 0.4, 0.7)
    prior_draws: float = 100.0
    independent: float = 0.3
    tiny: float = 1e-12
    start: float = 30.0
    halvings: int = 30


RULES = Rules()


class HMCOperands(NamedTuple):
    """Data, priors and the normal approximation.

    Attributes
    ----------
    density : DensityOperands or ScaleDensityOperands
        Data and priors.
    centre : array (D,)
        Mean of the approximation.
    factor : array (D, D) or (D,), or StructuredFactor
        ``T``.
    tune : int array ()
        Draws of the warm-up.
    """

    density: Any
    centre: Float[jax.Array, " D"]
    factor: Factor
    tune: Int[jax.Array, ""]


class HMCState(NamedTuple):
    """State of ``C`` chains.

    Attributes
    ----------
    position : array (C, D)
        Whitened coordinates ``z``.
    evaluation : Evaluation
        Minus the log density at ``position``, and its gradient in ``θ``.
    centre, factor : array
        Normal approximation in use; of a structured factor, its stretch (D,).
    mean, square : array (D,); (D, D) or (D,)
        Sums over the current pilot of ``θ − c``, or ``z`` for a structured factor, and of its products.
    seen : int array ()
        Draws of the pilot.
    search : StepSearch
        Acceptance of the numbers of leapfrog steps tried so far, and the number in use.
    acceptance, energy, diverging : array (C,)
        Acceptance probability of the last trajectory, total energy at its end, and whether it diverged.
    n_leapfrog_steps, angle : array ()
        Number of leapfrog steps of the last trajectory and the angle of each.
    count : int array ()
        Draws so far.
    key : key
        Random key.
    """

    position: Float[jax.Array, "C D"]
    evaluation: Evaluation
    centre: Float[jax.Array, " D"]
    factor: Float[jax.Array, "D D"] | Float[jax.Array, " D"]
    mean: Float[jax.Array, " D"]
    square: Float[jax.Array, "D D"] | Float[jax.Array, " D"]
    seen: Int[jax.Array, ""]
    search: StepSearch
    acceptance: Float[jax.Array, " C"]
    energy: Float[jax.Array, " C"]
    n_leapfrog_steps: Int[jax.Array, ""]
    angle: Float[jax.Array, ""]
    diverging: Bool[jax.Array, " C"]
    count: Int[jax.Array, ""]  # type: ignore[assignment]  # tuples have a method of this name
    key: PRNGKeyArray


class GradientKernel:
    """Declarations of kernels with fields ``density`` and ``choice``, the name of a normal approximation."""

    density: LogDensity
    choice: str

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the recorded variables."""
        return self.density.variables

    @property
    def choices(self) -> dict[str, str]:
        """Choices that the posterior reports."""
        return {"normal_approximation": self.choice}

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics: the log density and properties of the trajectory."""
        return STATISTICS


@dataclass(frozen=True)
class HMCKernel(GradientKernel):
    """Markov transition by one trajectory per draw.

    Attributes
    ----------
    density : LogDensity
        Density to sample.
    trust : float
        Weight of the approximation in use at the end of a pilot, in draws per coordinate; infinite for no pilots.
    options : HMCOptions
        Options of trajectories.
    choice : str
        Name of the normal approximation; see :mod:`bayesdrop.hmc.approximations.choices`.
    """

    density: LogDensity
    trust: float
    options: HMCOptions = HMCOptions()
    choice: str = ""

    def init(self, operands: HMCOperands, key: PRNGKeyArray, chains: int) -> HMCState:
        """Start at independent draws from the normal approximation, moved towards its centre if their energy is high.

        Energies of a normal law exceed that of the centre by ``D/2`` on average. If the tails of a density are much
        lighter than the approximation's, as for counts of mean ``e^s``, a trajectory could not leave its start.
        """
        key, z = self.start(operands, key, chains)
        origin = jnp.zeros_like(z[:1])

        def evaluate(z: Point) -> tuple[Evaluation, Bool[jax.Array, " C"]]:
            found = self.evaluated(operands, jnp.concatenate([z, origin]))
            energy = jnp.sum(found.cost, axis=1) - found.prior
            is_far = ~(energy[:-1] - energy[-1] < RULES.start + z.shape[1])
            return jax.tree.map(lambda part: part[:-1], found), is_far

        def nearer(carry: Any) -> Any:
            z, _, is_far, left = carry
            z = jnp.where(is_far[:, None], 0.5 * z, z)
            return z, *evaluate(z), left - 1

        # The first round halves twice the draws, which gives the draws: so the density is compiled once.
        nothing = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), jax.eval_shape(evaluate, z)[0])
        first = (2 * z, nothing, jnp.ones(chains, bool), jnp.int32(RULES.halvings + 1))
        z, evaluation, _, _ = jax.lax.while_loop(lambda carry: jnp.any(carry[2]) & (carry[3] > 0), nearer, first)
        return self.state_at(operands, key, z, evaluation)

    def evaluated(self, operands: HMCOperands, z: Point) -> Evaluation:
        """Minus the log density up to a constant at whitened coordinates (C, D), and its gradient."""
        found: Evaluation = self.density.evaluate(operands.density, unwhiten(operands.centre, operands.factor, z))
        return found

    @staticmethod
    def start(operands: HMCOperands, key: PRNGKeyArray, chains: int) -> tuple[PRNGKeyArray, Point]:
        """Random key of the first draw, and whitened coordinates (C, D) at the start."""
        key, key_start = jax.random.split(key)
        return key, jax.random.normal(key_start, (chains, operands.centre.shape[0]), operands.centre.dtype)

    @staticmethod
    def state_at(operands: HMCOperands, key: PRNGKeyArray, z: Point, evaluation: Evaluation) -> HMCState:
        """State before the first draw, at whitened coordinates ``z`` and the evaluation there."""
        centre, factor = operands.centre, operands.factor
        nothing = jnp.zeros(z.shape[0], centre.dtype)
        stored_factor = factor.stretch if isinstance(factor, StructuredFactor) else factor
        return HMCState(
            position=z,
            evaluation=evaluation,
            centre=centre,
            factor=stored_factor,
            mean=jnp.zeros_like(centre),
            square=jnp.zeros_like(stored_factor),
            seen=jnp.int32(0),
            search=first_search(2, centre.dtype),
            acceptance=nothing,
            energy=nothing,
            n_leapfrog_steps=jnp.int32(0),
            angle=jnp.zeros((), centre.dtype),
            diverging=jnp.zeros(z.shape[0], bool),
            count=jnp.int32(0),
            key=key,
        )

    def trajectory(
        self,
        operands: HMCOperands,
        state: HMCState,
        momentum: Point,
        angle: Float[jax.Array, ""] | float,
        n_leapfrog_steps: Int[jax.Array, ""] | int,
    ) -> tuple[Point, Point, Evaluation]:
        """Position, momentum and evaluation after ``n_leapfrog_steps`` turns by ``angle`` from a momentum (C, D)."""

        def evaluate(z: Point) -> tuple[Point, Evaluation]:
            evaluation = self.density.evaluate(operands.density, self.place(operands, state, z))
            return self.force(operands, state, z, evaluation), evaluation

        start = self.force(operands, state, state.position, state.evaluation), state.evaluation
        z, r, _, end = split_trajectory(evaluate, state.position, momentum, angle, n_leapfrog_steps, start)
        return z, r, end

    def force(self, operands: HMCOperands, state: HMCState, z: Point, evaluation: Evaluation) -> Point:
        """Force ``−∇R`` of the remainder, (C, D)."""
        return z - whiten_gradient(self.factor(operands, state), evaluation.gradient)

    def place(self, operands: HMCOperands, state: HMCState, z: Point) -> Point:
        """``θ`` (C, D) at whitened coordinates."""
        return unwhiten(state.centre, self.factor(operands, state), z)

    @staticmethod
    def factor(operands: HMCOperands, state: HMCState) -> Factor:
        """``T`` in use."""
        base_factor = operands.factor
        return base_factor.stretched(state.factor) if isinstance(base_factor, StructuredFactor) else state.factor

    def step(self, operands: HMCOperands, state: HMCState) -> tuple[HMCState, dict[str, jax.Array]]:
        """Take one trajectory of every chain, and learn from it in warm-up."""
        departure = self.depart(operands, state)
        return self.arrive(operands, state, departure, *self.trajectory(operands, state, *departure[:3]))

    def depart(self, operands: HMCOperands, state: HMCState) -> Departure:
        """Draw the random numbers of a trajectory."""
        key, key_momentum, key_angle, key_accept = jax.random.split(state.key, 4)
        z, dtype = state.position, state.position.dtype
        n_leapfrog_steps, angle = draw_length(key_angle, state.search, self.options)
        momentum = jax.random.normal(key_momentum, z.shape, dtype)
        return Departure(momentum, angle, n_leapfrog_steps, jax.random.exponential(key_accept, z.shape[:1], dtype), key)

    def arrive(
        self, operands: HMCOperands, state: HMCState, departure: Departure, z: Point, r: Point, new: Evaluation
    ) -> tuple[HMCState, dict[str, jax.Array]]:
        """Accept the end of a trajectory or stay, learn from it in warm-up, and return the state and its record."""
        state = self.accept(operands, state, departure, z, r, new)
        if np.isfinite(self.trust):
            state = where_needed(state.count <= operands.tune, lambda s: self._learn(operands, s), state)
        return state, self.record(operands, state)

    def accept(
        self,
        operands: HMCOperands,
        state: HMCState,
        departure: Departure,
        new_z: Point,
        r: Point,
        new: Evaluation,
    ) -> HMCState:
        """Accept the end of a trajectory or stay, by the Metropolis rule for the total energy."""
        momentum, angle, n_leapfrog_steps, fall, key = departure
        z, old = state.position, state.evaluation
        gain = (
            jnp.sum(old.cost - new.cost, axis=1)
            + (new.prior - old.prior)
            + 0.5 * jnp.sum(momentum * momentum - r * r, axis=1)
        )
        gain = jnp.where(jnp.isfinite(gain), gain, -jnp.inf)
        accept = -fall < gain
        outcome = jax.tree.map(
            lambda a, b: jnp.where(accept.reshape(-1, *(1,) * (a.ndim - 1)), a, b), (new_z, new), (z, old)
        )
        acceptance = jnp.exp(jnp.minimum(gain, 0))
        kinetic = 0.5 * jnp.sum(jnp.where(accept[:, None], r, momentum) ** 2, axis=1)
        return state._replace(
            position=outcome[0],
            evaluation=outcome[1],
            search=searched(state.search, acceptance, state.count, operands.tune, self.options),
            acceptance=acceptance,
            energy=jnp.sum(outcome[1].cost, axis=1) - outcome[1].prior + kinetic,
            n_leapfrog_steps=n_leapfrog_steps,
            angle=angle,
            diverging=gain < -RULES.diverged,
            count=state.count + 1,
            key=key,
        )

    def _learn(self, operands: HMCOperands, state: HMCState) -> HMCState:
        """Add the state to the pilot's sums; at the end of a pilot, centre and whiten by its moments."""
        mapped = isinstance(operands.factor, StructuredFactor)
        theta = unwhiten(state.centre, self.factor(operands, state), state.position)
        deviation, dtype = state.position if mapped else theta - state.centre[None], theta.dtype
        dense = state.square.ndim == 2
        state = state._replace(
            mean=state.mean + jnp.sum(deviation, axis=0),
            square=state.square + (deviation.T @ deviation if dense else jnp.sum(deviation * deviation, axis=0)),
            seen=state.seen + theta.shape[0],
        )
        ends = jnp.stack([(share * operands.tune.astype(dtype)).astype(jnp.int32) for share in RULES.pilots])
        due = jnp.any(state.count == jnp.maximum(ends, 2))

        def centre(s: HMCState) -> HMCState:
            total = s.seen.astype(dtype)
            shift = s.mean / total
            if mapped:
                return self._stretch(operands, s, shift, s.square / total)
            covariance = s.square / total - (jnp.outer(shift, shift) if dense else shift * shift)
            prior_draws = self.trust * shift.shape[0]
            mixed = (total * covariance + prior_draws * (s.factor @ s.factor.T if dense else s.factor**2)) / (
                total + prior_draws
            )
            factor = jnp.linalg.cholesky(mixed) if dense else jnp.sqrt(mixed)
            good = jnp.all(jnp.isfinite(factor))
            factor = jnp.where(good, factor, s.factor)
            new_centre = jnp.where(good, s.centre + shift, s.centre)
            z = jnp.where(good, whiten(new_centre, factor, theta), s.position)
            return s._replace(position=z, centre=new_centre, factor=factor)

        def pilot(s: HMCState) -> HMCState:
            nothing = {"mean": jnp.zeros_like(s.mean), "square": jnp.zeros_like(s.square), "seen": jnp.int32(0)}
            return centre(s)._replace(**nothing, search=started_again(s.search))

        return where_needed(due, pilot, state)

    def _stretch(
        self, operands: HMCOperands, s: HMCState, shift: Float[jax.Array, " D"], square: Float[jax.Array, " D"]
    ) -> HMCState:
        """Centre and stretch a structured factor by the whitened moments of a pilot.

        A width is averaged with its prior, which counts as ``Rules.prior_draws`` draws; means are shrunk together
        (James & Stein 1961).
        """
        prior_draws = RULES.prior_draws
        total = s.seen.astype(shift.dtype)
        variance = jnp.maximum(square - shift * shift, 0)
        excess = jnp.sum(shift * shift)
        error = jnp.sum(variance) / (RULES.independent * total)
        shrinkage = jnp.maximum(1 - error / jnp.maximum(excess, RULES.tiny), 0)
        width = jnp.sqrt((total * variance + prior_draws) / (total + prior_draws))
        good = jnp.all(jnp.isfinite(width))
        width, shift = jnp.where(good, width, 1), jnp.where(good, shrinkage * shift, 0)
        return s._replace(
            position=(s.position - shift[None]) / width[None],
            centre=unwhiten(s.centre, self.factor(operands, s), shift[None])[0],
            factor=s.factor * width,
        )

    def record(self, operands: HMCOperands, state: HMCState) -> dict[str, jax.Array]:
        """Variables and statistics of a draw: position, log density, and the trajectory's statistics."""
        theta = self.place(operands, state, state.position)
        lp = state.evaluation.prior - jnp.sum(state.evaluation.cost, axis=1)
        return self.density.record(operands.density, theta) | statistics_of(state, lp)
