r"""Split Hamiltonian Monte Carlo around a normal approximation.

In whitened coordinates, ``θ = c + T z`` with mean ``c`` and covariance ``TTᵀ``, minus the log density is
``½‖z‖² + R(z)`` with a small remainder ``R``. The first part is followed exactly, as a rotation of position and
momentum ``r``, and only the remainder kicks (Shahbaba, Lan, Johnson & Neal 2014; Beskos, Pinski, Sanz-Serna & Stuart
2011):

    r ← r − ½ε∇R(z),   (z, r) ← (z cos ε + r sin ε, r cos ε − z sin ε),   r ← r − ½ε∇R(z),

repeated, then accepted by the total energy. With ``R = 0`` a quarter turn is an independent draw. The angle ε is drawn
afresh for each trajectory, ±20 %. What warm-up chooses is the number of kicks, as few as accept often enough, and, if
rates are sampled, a better centre and factor from three short pilots.

Shapes: ``C`` chains, ``n`` rows, ``D`` coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..branch import where_needed
from .density import Density, DensityOperands, Evaluation
from .whitening import colour, pull

__all__ = ["HMCKernel", "HMCOperands", "HMCState"]

Array = Any

# Somewhat more than a quarter turn: successive draws are then on opposite sides, and means converge faster than from
# independent draws, while squares still forget (their correlation is cos²). Acceptance is aimed at so many in all.
_TURN = 2.0
_ACCEPT = 0.8
_MOST_KICKS = 100
# Where the pilots end, as shares of the warm-up; each begins where the one before ended.
_PILOTS = (0.15, 0.4, 0.7)
_DIVERGED = 1000.0


class HMCOperands(NamedTuple):
    """Data, priors and the normal approximation.

    Attributes
    ----------
    density : DensityOperands
        Data and priors.
    centre : array (D,)
        Mean of the approximation.
    factor : array (D, D) or (D,)
        ``T``, or the standard deviations of a diagonal one.
    kicks : int array ()
        Fixed number of kicks, 0 to choose it during warm-up.
    tune : int array ()
        Draws of the warm-up.
    """

    density: DensityOperands
    centre: Array
    factor: Array
    kicks: Array
    tune: Array


class HMCState(NamedTuple):
    """State of ``C`` chains.

    Attributes
    ----------
    position : array (C, D)
        Whitened coordinates ``z``.
    evaluation : Evaluation
        Minus the log density there, its gradient taken in ``θ``.
    centre, factor : array
        Normal approximation in use.
    mean, square : array (D,), like ``factor``
        Sums of ``θ`` and of its products over the current pilot.
    seen : int array ()
        Draws of the pilot.
    log_kicks : array ()
        Logarithm of the number of kicks.
    acceptance : array (C,)
        Acceptance probability of the last trajectory.
    energy : array (C,)
        Total energy at its end.
    kicks : int array ()
        Its number of kicks.
    angle : array ()
        Its angle.
    diverging : bool array (C,)
        Whether its energy error was beyond any use.
    count : int array ()
        Draws so far.
    key : key
        Random key.
    """

    position: Array
    evaluation: Evaluation
    centre: Array
    factor: Array
    mean: Array
    square: Array
    seen: Array
    log_kicks: Array
    acceptance: Array
    energy: Array
    kicks: Array
    angle: Array
    diverging: Array
    count: Array
    key: Array


@dataclass(frozen=True)
class HMCKernel:
    """The transition.

    Attributes
    ----------
    density : Density
        What is sampled.
    trust : float
        At the end of a pilot the approximation in use counts as so many draws a coordinate; infinite: no pilots.
    """

    density: Density
    trust: float

    def init(self, operands: HMCOperands, key: Array, chains: int) -> HMCState:
        """Start at independent draws from the normal approximation."""
        key, key_start = jax.random.split(key)
        centre, factor = operands.centre, operands.factor
        z = jax.random.normal(key_start, (chains, centre.shape[0]), centre.dtype)
        nothing = jnp.zeros(chains, centre.dtype)
        return HMCState(
            position=z,
            evaluation=self.density.evaluate(operands.density, colour(centre, factor, z)),
            centre=centre,
            factor=factor,
            mean=jnp.zeros_like(centre),
            square=jnp.zeros_like(factor),
            seen=jnp.int32(0),
            log_kicks=jnp.asarray(0.7, centre.dtype),
            acceptance=nothing,
            energy=nothing,
            kicks=jnp.int32(0),
            angle=jnp.zeros((), centre.dtype),
            diverging=jnp.zeros(chains, bool),
            count=jnp.int32(0),
            key=key,
        )

    def trajectory(
        self, operands: HMCOperands, state: HMCState, momentum: Array, angle: Array, kicks: Array
    ) -> tuple[Array, Array, Evaluation]:
        """Where ``kicks`` turns of the given angle lead from a momentum (C, D): position, momentum, evaluation."""
        factor = state.factor
        cosine, sine = jnp.cos(angle), jnp.sin(angle)

        def force(z: Array, evaluation: Evaluation) -> Array:
            return z - pull(factor, evaluation.gradient)

        def move(i: Array, carry: tuple[Array, Array, Evaluation]) -> tuple[Array, Array, Evaluation]:
            z, r, _ = carry
            z, r = z * cosine + r * sine, r * cosine - z * sine
            evaluation = self.density.evaluate(operands.density, colour(state.centre, factor, z))
            length = jnp.where(i == kicks - 1, angle / 2, angle)
            return z, r + length * force(z, evaluation), evaluation

        begin = (state.position, momentum + angle / 2 * force(state.position, state.evaluation), state.evaluation)
        return jax.lax.fori_loop(0, kicks, move, begin)

    def step(self, operands: HMCOperands, state: HMCState) -> HMCState:
        """One trajectory of every chain."""
        key, key_momentum, key_angle, key_accept = jax.random.split(state.key, 4)
        z, dtype = state.position, state.position.dtype
        chosen = jnp.clip(jnp.ceil(jnp.exp(state.log_kicks) - 0.1), 1, _MOST_KICKS).astype(jnp.int32)
        kicks = jnp.where(operands.kicks > 0, operands.kicks, chosen)
        angle = _TURN / kicks.astype(dtype) * (0.8 + 0.4 * jax.random.uniform(key_angle, (), dtype))
        momentum = jax.random.normal(key_momentum, z.shape, dtype)
        new_z, r, new = self.trajectory(operands, state, momentum, angle, kicks)
        old = state.evaluation
        gain = (
            jnp.sum(old.cost - new.cost, axis=1)
            + (new.prior - old.prior)
            + 0.5 * jnp.sum(momentum * momentum - r * r, axis=1)
        )
        gain = jnp.where(jnp.isfinite(gain), gain, -jnp.inf)
        accept = -jax.random.exponential(key_accept, gain.shape, dtype) < gain
        kept = jax.tree.map(
            lambda a, b: jnp.where(accept.reshape(-1, *(1,) * (a.ndim - 1)), a, b), (new_z, new), (z, old)
        )
        acceptance = jnp.exp(jnp.minimum(gain, 0))
        kinetic = 0.5 * jnp.sum(jnp.where(accept[:, None], r, momentum) ** 2, axis=1)
        tuning = state.count < operands.tune
        step = 4 / (state.count.astype(dtype) + 10) ** 0.75
        log_kicks = state.log_kicks + jnp.where(tuning, step * (_ACCEPT - jnp.mean(acceptance)), 0)
        moved = state._replace(
            position=kept[0],
            evaluation=kept[1],
            log_kicks=jnp.clip(log_kicks, -1.0, jnp.log(jnp.asarray(_MOST_KICKS, dtype))),
            acceptance=acceptance,
            energy=jnp.sum(kept[1].cost, axis=1) - kept[1].prior + kinetic,
            kicks=kicks,
            angle=angle,
            diverging=gain < -_DIVERGED,
            count=state.count + 1,
            key=key,
        )
        if not np.isfinite(self.trust):
            return moved
        return where_needed(tuning, lambda s: self._learn(operands, s), moved)

    def _learn(self, operands: HMCOperands, state: HMCState) -> HMCState:
        """Sum up the pilot; at its end, centre and whiten by its moments."""
        theta = colour(state.centre, state.factor, state.position)
        deviation, dtype = theta - state.centre[None], theta.dtype
        dense = state.factor.ndim == 2
        state = state._replace(
            mean=state.mean + jnp.sum(deviation, axis=0),
            square=state.square + (deviation.T @ deviation if dense else jnp.sum(deviation * deviation, axis=0)),
            seen=state.seen + theta.shape[0],
        )
        ends = jnp.stack([(share * operands.tune.astype(dtype)).astype(jnp.int32) for share in _PILOTS])
        due = jnp.any(state.count == jnp.maximum(ends, 2))

        def centre(s: HMCState) -> HMCState:
            total = s.seen.astype(dtype)
            shift = s.mean / total
            covariance = s.square / total - (jnp.outer(shift, shift) if dense else shift * shift)
            prior_draws = self.trust * shift.shape[0]
            mixed = (total * covariance + prior_draws * (s.factor @ s.factor.T if dense else s.factor**2)) / (
                total + prior_draws
            )
            factor = jnp.linalg.cholesky(mixed) if dense else jnp.sqrt(mixed)
            good = jnp.all(jnp.isfinite(factor))
            factor = jnp.where(good, factor, s.factor)
            new_centre = jnp.where(good, s.centre + shift, s.centre)
            away = (theta - new_centre[None]).T
            z = jax.scipy.linalg.solve_triangular(factor, away, lower=True).T if dense else away.T / factor[None]
            z = jnp.where(good, z, s.position)
            return s._replace(
                position=z,
                centre=new_centre,
                factor=factor,
                mean=jnp.zeros_like(s.mean),
                square=jnp.zeros_like(s.square),
                seen=jnp.int32(0),
            )

        return where_needed(due, centre, state)

    def record(self, operands: HMCOperands, state: HMCState) -> dict[str, Array]:
        """What is kept of a draw: weight (C, p), intercept (C,), logit_rate (C, k), lp and how the trajectory went."""
        theta = colour(state.centre, state.factor, state.position)
        weight, intercept = self.density.weights(theta, operands.density.precision.shape[0])
        ones = jnp.ones_like(state.acceptance)
        draw = {
            "weight": weight,
            "lp": state.evaluation.prior - jnp.sum(state.evaluation.cost, axis=1),
            "acceptance_rate": state.acceptance,
            "energy": state.energy,
            "step_size": state.angle * ones,
            "n_steps": state.kicks.astype(jnp.int32) * jnp.ones(ones.shape, jnp.int32),
            "diverging": state.diverging.astype(jnp.int8),
        }
        if self.density.fit_intercept:
            draw["intercept"] = intercept
        if self.density.free:
            draw["logit_rate"] = self.density.logit_rates(theta)
        return draw
