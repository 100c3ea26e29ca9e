r"""Split Hamiltonian Monte Carlo of many weights in the space of their scores.

Without noise the likelihood is a function of the scores ``s = m + δ`` alone. In whitened coordinates ``z`` of a normal
approximation whose precision is ``P + A₀ᵀDA₀`` and, for the intercept, ``ΣD`` (:mod:`.kernels.factors`), and whose
mean of the weights is ``P⁻¹A₀ᵀa`` with ``Σa = 0``, minus the log density is

    ½‖z‖² + Σ_i r_i(δ_i) + constant,      r_i(δ) = cost_i(m_i + δ) + a_i δ − ½ D_i δ²,      δ = Fz,

with ``F = A₀T`` and the column ``(ΣD)^{−½}`` of the intercept. The force of the remainder is ``Fᵀh``,
``h_i = −r_i'(δ_i)``, so that under the trajectories of :mod:`.kernels.trajectory` the scores and their velocity ``ρ =
Fr`` move by themselves:

    ρ ← ρ + ε FFᵀh(δ),   (δ, ρ) ← (δ cos ε + ρ sin ε, ρ cos ε − δ sin ε).

One product with the (n, n) covariance ``FFᵀ`` of the scores is all that a leapfrog step costs, however many weights
there are. The sums ``H`` of the leapfrog steps, turned along, give the end ``z cos t + r sin t + FᵀH_z`` and the change
of ``½‖z‖² + ½‖r‖²``, ``½H_z·(δ_∘ + δ_1) + ½H_r·(ρ_∘ + ρ_1)`` with the scores turned without leapfrog steps, ``δ_∘``,
and with them, ``δ_1``.

Shapes: ``C`` chains, ``n`` rows, ``p`` features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._typing import Bool, Float, Int
from ..data.dataset import Dataset
from ..model import Model
from ..rates import RateMap
from .approximations.drawn import rounding_width
from .approximations.row_factor import row_factor, row_gram, row_roots
from .binding import approximate_scores
from .kernels.density import Density, DensityOperands
from .kernels.factors import RowFactor, row_product
from .kernels.kernel import DIVERGED
from .kernels.trajectory import (
    STATISTICS,
    HMCOptions,
    StepSearch,
    draw_length,
    first_search,
    searched,
    split_trajectory,
    statistics_of,
)

__all__ = ["ScoreHMCKernel", "ScoreOperands", "ScoreState", "score_operands"]

PerScore = Float[jax.Array, "C n"]


class ScoreOperands(NamedTuple):
    """Data, priors and the normal approximation.

    Attributes
    ----------
    density : DensityOperands
        Data and priors.
    factor : RowFactor
        ``T``.
    response, turned, covariance : array (n, n)
        ``R`` with ``A₀T = RA₀P^{−½}``, its transpose, and ``FFᵀ``.
    mean, dual : array (n,)
        ``m`` and ``a``.
    centre : array (D,)
        Mean of weights and intercept.
    tune : int array ()
        Draws of warm-up.
    """

    density: DensityOperands
    factor: RowFactor
    response: Float[jax.Array, "n n"]
    turned: Float[jax.Array, "n n"]
    covariance: Float[jax.Array, "n n"]
    mean: Float[jax.Array, " n"]
    dual: Float[jax.Array, " n"]
    centre: Float[jax.Array, " D"]
    tune: Int[jax.Array, ""]


class ScoreState(NamedTuple):
    """State of ``C`` chains.

    Attributes
    ----------
    position : array (C, D)
        Whitened coordinates ``z``.
    score : array (C, n)
        ``δ`` there.
    search : StepSearch
        What is known of the numbers of leapfrog steps, and the one in use.
    acceptance, energy, diverging : array (C,)
        Of the last trajectory: its acceptance probability, the total energy at its end, whether its error was beyond
        any use.
    n_leapfrog_steps, angle : array ()
        Its number of leapfrog steps and the angle of each.
    count : int array ()
        Draws so far.
    key : key
        Random key.
    """

    position: Float[jax.Array, "C D"]
    score: PerScore
    search: StepSearch
    acceptance: Float[jax.Array, " C"]
    energy: Float[jax.Array, " C"]
    diverging: Bool[jax.Array, " C"]
    n_leapfrog_steps: Int[jax.Array, ""]
    angle: Float[jax.Array, ""]
    count: Int[jax.Array, ""]  # type: ignore[assignment]  # tuples have a method of this name
    key: PRNGKeyArray


@dataclass(frozen=True)
class ScoreHMCKernel:
    """The transition.

    Attributes
    ----------
    density : Density
        What is sampled; without noise or free rates.
    options : HMCOptions
        What a user says of trajectories.
    choice : str
        Name of the normal approximation; see :mod:`.approximations.choices`.
    """

    density: Density
    options: HMCOptions
    choice: str = "scores"

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of what is recorded."""
        return self.density.variables

    @property
    def statistics(self) -> tuple[str, ...]:
        """The log density, and how the trajectory went."""
        return STATISTICS

    def init(self, operands: ScoreOperands, key: PRNGKeyArray, chains: int) -> ScoreState:
        """Start at independent draws from the normal approximation."""
        key, key_start = jax.random.split(key)
        z = jax.random.normal(key_start, (chains, operands.centre.shape[0]), operands.centre.dtype)
        nothing = jnp.zeros(chains, z.dtype)
        return ScoreState(
            position=z,
            score=self.scores(operands, z),
            search=first_search(8, z.dtype),
            acceptance=nothing,
            energy=nothing,
            diverging=jnp.zeros(chains, bool),
            n_leapfrog_steps=jnp.int32(0),
            angle=jnp.zeros((), z.dtype),
            count=jnp.int32(0),
            key=key,
        )

    def scores(self, operands: ScoreOperands, z: Float[jax.Array, "C D"]) -> PerScore:
        """``Fz`` (C, n)."""
        return self._scores(operands, z, operands.factor.rows(z[:, : operands.factor.scale.shape[0]]))

    def _scores(self, operands: ScoreOperands, z: Float[jax.Array, "C D"], rows: PerScore) -> PerScore:
        factor, score = operands.factor, row_product(operands.response, rows)
        return score + factor.level[None] * z[:, factor.scale.shape[0] :] if self.density.fit_intercept else score

    def coordinates(self, operands: ScoreOperands, force: PerScore) -> Float[jax.Array, "C D"]:
        """``Fᵀh`` (C, D)."""
        factor = operands.factor
        weights = factor.columns(row_product(operands.turned, force))
        total = factor.level[None] * jnp.sum(force, axis=1, keepdims=True)
        return jnp.concatenate([weights, total], axis=1) if self.density.fit_intercept else weights

    def remainder(self, operands: ScoreOperands, score: PerScore) -> tuple[PerScore, PerScore]:
        """``r(δ)`` and ``h(δ)``, (C, n) each."""
        cost, slope, _ = self.density.cost(operands.density, operands.mean[None] + score, jnp.zeros_like(score))
        square, dual = jnp.square(operands.factor.root)[None], operands.dual[None]
        rest = cost + dual * score - 0.5 * square * score * score
        return rest, square * score - dual - slope

    def trajectory(
        self,
        operands: ScoreOperands,
        state: ScoreState,
        momentum: Float[jax.Array, "C D"],
        angle: Float[jax.Array, ""] | float,
        n_leapfrog_steps: Int[jax.Array, ""] | int,
    ) -> tuple[Float[jax.Array, "C D"], PerScore, Float[jax.Array, " C"]]:
        """Where ``n_leapfrog_steps`` turns lead from a momentum (C, D): position, scores, rise of the total energy."""
        n = state.score.shape[1]
        velocity = self.scores(operands, momentum)

        def force(place: Float[jax.Array, "C m"]) -> tuple[Float[jax.Array, "C m"], tuple[()]]:
            _, push = self.remainder(operands, place[:, :n])
            return jnp.concatenate([row_product(operands.covariance, push), push], axis=1), ()

        # Scores and the sums of the leapfrog steps move alike.
        nothing = jnp.zeros_like(velocity)
        begin, moving = jnp.concatenate([state.score, nothing], axis=1), jnp.concatenate([velocity, nothing], axis=1)
        end, moved, _, _ = split_trajectory(force, begin, moving, angle, n_leapfrog_steps, (force(begin)[0], ()))
        turned = angle * jnp.asarray(n_leapfrog_steps, velocity.dtype)
        cosine, sine = jnp.cos(turned), jnp.sin(turned)
        free, free_moving = state.score * cosine + velocity * sine, velocity * cosine - state.score * sine
        position = state.position * cosine + momentum * sine + self.coordinates(operands, end[:, n:])
        score = end[:, :n]
        old, new = (self.remainder(operands, place)[0] for place in (state.score, score))
        # Small terms of every row are added up, and no difference of two totals is taken.
        rise = new - old + 0.5 * (end[:, n:] * (free + score) + moved[:, n:] * (free_moving + moved[:, :n]))
        return position, score, jnp.sum(rise, axis=1)

    def step(self, operands: ScoreOperands, state: ScoreState) -> tuple[ScoreState, dict[str, jax.Array]]:
        """One trajectory of every chain."""
        key, key_momentum, key_angle, key_accept = jax.random.split(state.key, 4)
        n_leapfrog_steps, angle = draw_length(key_angle, state.search, self.options)
        momentum = jax.random.normal(key_momentum, state.position.shape, state.position.dtype)
        position, score, rise = self.trajectory(operands, state, momentum, angle, n_leapfrog_steps)
        gain = jnp.where(jnp.isfinite(rise), -rise, -jnp.inf)
        accept = -jax.random.exponential(key_accept, gain.shape, gain.dtype) < gain
        acceptance = jnp.exp(jnp.minimum(gain, 0))
        begun = 0.5 * jnp.sum(momentum * momentum, axis=1) - self.lp(operands, state.position, state.score)
        position = jnp.where(accept[:, None], position, state.position)
        # From the position, not the end of the trajectory: rounding does not add up over draws.
        rows = operands.factor.rows(position[:, : operands.factor.scale.shape[0]])
        state = state._replace(
            position=position,
            score=self._scores(operands, position, rows),
            search=searched(state.search, acceptance, state.count, operands.tune, self.options),
            acceptance=acceptance,
            energy=begun - jnp.where(accept, gain, 0),
            diverging=gain < -DIVERGED,
            n_leapfrog_steps=n_leapfrog_steps,
            angle=angle,
            count=state.count + 1,
            key=key,
        )
        return state, self.record(operands, state, rows)

    def lp(self, operands: ScoreOperands, z: Float[jax.Array, "C D"], score: PerScore) -> Float[jax.Array, " C"]:
        """Log density at whitened coordinates (C, D) with scores (C, n), up to a constant."""
        return -0.5 * jnp.sum(z * z, axis=1) - jnp.sum(self.remainder(operands, score)[0], axis=1)

    def record(self, operands: ScoreOperands, state: ScoreState, rows: PerScore | None = None) -> dict[str, jax.Array]:
        """What is kept of a draw: position, log density and how the trajectory went."""
        theta = operands.centre[None] + operands.factor.times(state.position, rows)
        lp = self.lp(operands, state.position, state.score)
        return self.density.record(operands.density, theta) | statistics_of(state, lp)


def score_operands(
    model: Model, data: Dataset, rate_map: RateMap, density: Density, operands: DensityOperands,
    tune: int, dtype: str, rounded: float,
) -> ScoreOperands:  # fmt: skip
    """Operands of the kernel; kinks are rounded over so many standard deviations of each score."""
    from scipy.linalg import cho_solve, solve_triangular

    found = approximate_scores(model, data, rate_map, density, operands, "scores", dtype)
    intercept, curvature, precision = model.fit_intercept, found.precision.curvature, found.precision.prior
    total = curvature.sum()
    gram = row_gram(data.design, precision, found.gain, curvature, intercept)
    roots, root = row_roots(gram, curvature), np.sqrt(curvature)
    factor = row_factor(data, operands.matrix, precision, found.gain, curvature, roots, intercept, dtype)
    # The mean of the weights, and the level of the scores, exactly for what the rows say.
    middle = found.pull.sum() / total if intercept else 0.0
    residual = found.pull - curvature * middle
    dual = residual - root * cho_solve((roots.lower, True), root * (gram @ residual), check_finite=False)
    weight = data.design.rmatvec(dual) / precision
    mean = data.design.matvec(weight)
    level = middle - curvature @ mean / total if intercept else 0.0
    centre = np.append(weight, [level] if intercept else [])
    # The covariance of the scores is K − WᵀW with W = L⁻¹D^½K, and R = 1 − KD^½ND^½.
    inside = solve_triangular(roots.lower, root[:, None] * gram, lower=True, check_finite=False)
    covariance = gram - inside.T @ inside + (1 / total if intercept else 0.0)
    response = np.eye(len(root)) - (gram * root) @ (roots.inner * root)
    if density.loss.kinked:
        width = rounding_width(model.C * data.weight, curvature, found.spread, rounded)
        operands = operands._replace(width=jnp.asarray(width, dtype=dtype))
    real = partial(jnp.asarray, dtype=dtype)
    covariance = 0.5 * (covariance + covariance.T)
    return ScoreOperands(
        operands, factor, real(response), real(response.T), real(covariance), real(mean + level), real(dual),
        real(centre), jnp.int32(tune),
    )  # fmt: skip
