r"""Split Hamiltonian Monte Carlo of many weights in the space of their scores.

Without noise the likelihood is a function of the scores ``s = m + δ`` alone. In whitened coordinates ``z`` of a normal
approximation whose precision is ``P + A₀ᵀDA₀`` and, for the intercept, ``ΣD`` (:mod:`.kernels.factors`), and whose
mean of the weights is ``P⁻¹A₀ᵀa`` with ``Σa = 0``, minus the log density is

    ½‖z‖² + Σ_i r_i(δ_i) + constant,      r_i(δ) = cost_i(m_i + δ) + a_i δ − ½ D_i δ²,      δ = Fz,

with ``F = A₀T`` and the column ``(ΣD)^{−½}`` of the intercept. The force of the remainder is ``Fᵀh``,
``h_i = −r_i'(δ_i)``, so that under the trajectories of :mod:`.kernels.trajectory` the scores and their velocity
``ρ = Fr`` evolve without the weights:

    ρ ← ρ + ε FFᵀh(δ),   (δ, ρ) ← (δ cos ε + ρ sin ε, ρ cos ε − δ sin ε).

A leapfrog step costs one product with the (n, n) covariance ``FFᵀ`` of the scores, for any number of weights. The sums
``H`` of the forces ``h``, rotated along with the scores, give the final coordinates ``z cos t + r sin t + FᵀH_z``, and
the final momentum in the same way.

Shapes: ``C`` chains, ``n`` rows, ``p`` features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._typing import Float, Int
from ..data.dataset import Dataset
from ..model import Model
from ..rates import RateMap
from .approximations.drawn import rounding_width
from .approximations.precision import row_factor, row_gram, row_roots
from .binding import approximate_scores
from .kernels.density import Density, DensityOperands, Evaluation, Point
from .kernels.factors import StructuredFactor, row_product
from .kernels.kernel import HMCKernel, HMCState
from .kernels.trajectory import split_trajectory, turned

__all__ = ["ScoreHMCKernel", "ScoreOperands", "score_operands"]

PerScore = Float[jax.Array, "C n"]


class ScoreOperands(NamedTuple):
    """Operands of the kernel with a factor by rows, and the distribution of the scores under it.

    Attributes
    ----------
    density, centre, factor, tune
        As in :class:`.kernels.kernel.HMCOperands`; the factor is by rows.
    response, turned, covariance : array (n, n)
        ``R`` with ``A₀T = RA₀P^{−½}``, its transpose, and ``FFᵀ``.
    mean, dual : array (n,)
        ``m`` and ``a``.
    """

    density: DensityOperands
    centre: Float[jax.Array, " D"]
    factor: StructuredFactor
    tune: Int[jax.Array, ""]
    response: Float[jax.Array, "n n"]
    turned: Float[jax.Array, "n n"]
    covariance: Float[jax.Array, "n n"]
    mean: Float[jax.Array, " n"]
    dual: Float[jax.Array, " n"]

    def scores(self, z: Point) -> PerScore:
        """``Fz`` (C, n)."""
        frame, p = self.factor.frame, self.factor.frame.scale.shape[0]
        score = row_product(self.response, self.factor.root.rows.scores(z[:, :p]))
        return score + jnp.sum(frame.level[None] * z[:, p:], axis=1, keepdims=True)

    def coordinates(self, force: PerScore) -> Point:
        """``Fᵀh`` (C, D)."""
        total = self.factor.frame.level[None] * jnp.sum(force, axis=1, keepdims=True)
        return jnp.concatenate([self.factor.root.rows.columns(row_product(self.turned, force)), total], axis=1)


@dataclass(frozen=True)
class ScoreHMCKernel(HMCKernel):
    """Markov transition for a density without noise or free rates; its operands are :class:`ScoreOperands`."""

    def evaluated(self, operands: Any, z: Point) -> Evaluation:
        """Minus the log density up to a constant at whitened coordinates (C, D)."""
        return self.evaluation(operands, z, operands.scores(z))

    def remainder(self, operands: Any, score: PerScore) -> tuple[PerScore, PerScore]:
        """``r(δ)`` and ``h(δ)``, (C, n) each."""
        density: Any = self.density
        cost, slope, _ = density.cost(operands.density, operands.mean[None] + score, jnp.zeros_like(score))
        square, dual = jnp.square(operands.factor.root.rows.root)[None], operands.dual[None]
        return cost + dual * score - 0.5 * square * score * score, square * score - dual - slope

    def evaluation(self, operands: Any, z: Point, score: PerScore) -> Evaluation:
        """Minus the log density up to a constant, at coordinates with these scores; the gradient is unused and zero."""
        remainder, _ = self.remainder(operands, score)
        return Evaluation(remainder, -0.5 * jnp.sum(z * z, axis=1), jnp.zeros_like(z))

    def trajectory(
        self,
        operands: Any,
        state: HMCState,
        momentum: Point,
        angle: Float[jax.Array, ""] | float,
        n_leapfrog_steps: Int[jax.Array, ""] | int,
    ) -> tuple[Point, Point, Evaluation]:
        """Position, momentum and evaluation after ``n_leapfrog_steps`` turns by ``angle`` from a momentum (C, D)."""
        # Compute the scores from the position, so that rounding does not accumulate over draws.
        score, velocity = operands.scores(state.position), operands.scores(momentum)
        n, zeros = score.shape[1], jnp.zeros_like(score)

        def force(place: Float[jax.Array, "C m"]) -> tuple[Float[jax.Array, "C m"], tuple[()]]:
            _, push = self.remainder(operands, place[:, :n])
            return jnp.concatenate([row_product(operands.covariance, push), push], axis=1), ()

        # The sums of forces rotate like the scores.
        begin, moving = jnp.concatenate([score, zeros], axis=1), jnp.concatenate([velocity, zeros], axis=1)
        end, moved, _, _ = split_trajectory(force, begin, moving, angle, n_leapfrog_steps, (force(begin)[0], ()))
        z, r = turned(state.position, momentum, angle * jnp.asarray(n_leapfrog_steps, velocity.dtype))
        sums = operands.coordinates(jnp.concatenate([end[:, n:], moved[:, n:]]))
        z, r = z + sums[: len(z)], r + sums[len(z) :]
        return z, r, self.evaluation(operands, z, end[:, :n])


def score_operands(
    model: Model, data: Dataset, rate_map: RateMap, density: Density, operands: DensityOperands,
    tune: int, dtype: str, rounded: float,
) -> ScoreOperands:  # fmt: skip
    """Operands of the kernel; kinks of the loss are smoothed over ``rounded`` standard deviations of each score."""
    from scipy.linalg import cho_solve, solve_triangular

    normal = approximate_scores(model, data, rate_map, density, operands, "scores", dtype)
    intercept, curvature, precision = model.fit_intercept, normal.precision.curvature, normal.precision.prior
    total = curvature.sum()
    gram = row_gram(data.design, precision, normal.gain, curvature, intercept)
    roots, root = row_roots(gram, curvature), np.sqrt(curvature)
    factor = row_factor(data, operands.matrix, precision, normal.gain, curvature, roots, intercept, dtype)
    # The exact mean of the weights and the level of the scores, for the quadratic costs of the rows.
    middle = normal.pull.sum() / total if intercept else 0.0
    residual = normal.pull - curvature * middle
    dual = residual - root * cho_solve((roots.lower, True), root * (gram @ residual), check_finite=False)
    weight = data.design.rmatvec(dual) / precision
    mean = data.design.matvec(weight)
    level = middle - curvature @ mean / total if intercept else 0.0
    centre = np.append(weight, [level] if intercept else [])
    # The covariance of the scores is K − WᵀW with W = L⁻¹D^½K, and R = 1 − KD^½ND^½.
    inside = solve_triangular(roots.lower, root[:, None] * gram, lower=True, check_finite=False)
    covariance = gram - inside.T @ inside + (1 / total if intercept else 0.0)
    response = np.eye(len(root)) - (gram * root) @ (roots.inner * root)
    if density.loss.piecewise_linear:
        width = rounding_width(model.C * data.weight, curvature, normal.spread, rounded)
        operands = operands._replace(width=jnp.asarray(width, dtype=dtype))
    real = partial(jnp.asarray, dtype=dtype)
    covariance = 0.5 * (covariance + covariance.T)
    location = model.weight_prior.location(len(data.feature_names))
    prior_scores = 0.0 if location is None else data.design.matvec(normal.gain * location)
    by_rows = (real(part) for part in (response, response.T, covariance, mean + level + prior_scores, dual))
    return ScoreOperands(operands, real(centre), factor, jnp.int32(tune), *by_rows)
