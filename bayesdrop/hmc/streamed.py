"""Rows that are streamed: value and gradient of all chains in one pass over the rows, and the sampler of such passes.

The rows depend on a point through its loadings only: the score of a row has mean ``x·u + l`` and variance
``x²·a + x·b + c`` (:class:`.kernels.density.Loadings`). A pass sums the costs of the rows and, with the slopes ``r_i``
and ``s_i`` of a cost in the two moments, the slopes of the total in the loadings,

    ∂u = Xᵀr,   ∂l = Σ r_i,   ∂a = (X²)ᵀs,   ∂b = Xᵀs,   ∂c = Σ s_i.

The chain rule adds the derivatives of the loadings in weights and rates, and the prior. The transition is that of
:class:`.kernels.kernel.HMCKernel`: compiled functions update the coordinates, and between two of them Python sums over
the rows. With the same key the draws equal those in memory up to rounding, if no start there had to be moved.

With many classes the loadings are those of all ``J`` contrasts of the scores, or with noise of their pairs ``j <= l``,
for the first chain, then for the next, so that one product with the rows is enough. With the basis ``B`` (K, J) the
scores are ``s = Bm``, their covariance is ``BVBᵀ``, and, with the row weight ``c`` and without the part of the last
slope that noise adds (:mod:`bayesdrop.losses.softmax`),

    ∂cost/∂m = Bᵀ ∂cost/∂s,    ∂cost/∂v_jl = (2 − δ_jl) (Bᵀ ∂cost/∂cov B)_jl,    ∂cost/∂s = c (softmax(s) − 1_y).

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``D`` coordinates, ``K`` classes, ``J = K − 1`` contrasts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._typing import Float, PerRow
from ..designs import Design
from ..losses.softmax import FORMS, log_sum_exp
from .approximations.class_density import contrasts
from .kernels.density import Density, DensityOperands, Evaluation, Loadings, Point
from .kernels.factors import unwhiten
from .kernels.kernel import HMCKernel, HMCOperands, HMCState
from .kernels.trajectory import Departure, turned

__all__ = [
    "ClassCosts",
    "RowCosts",
    "StreamedKernel",
    "StreamedOperands",
    "StreamedRows",
    "Sums",
    "evaluation_of",
    "one_pass",
]


class StreamedRows(NamedTuple):
    """Arrays that a pass reads.

    Attributes
    ----------
    design : Design (n, p)
        Features.
    target, row_weight : array (n,)
        Labels −1 and +1, indices of classes, or numbers, and ``C`` times the row weights, stored with the rows.
    loss_weight : float
        ``C``, as in :class:`.kernels.density.DensityOperands`.
    width : array (n,), optional
        As in :class:`.kernels.density.DensityOperands`.
    offset : array (n,), optional
        Known part of every row's score.
    base_cost : float
        Cost of all rows at the centre, subtracted so that single precision keeps the digits of differences.
    costs : callable, optional
        Class that computes costs of scores; by default :class:`RowCosts`.
    """

    design: Design
    target: PerRow
    row_weight: PerRow
    loss_weight: float
    width: PerRow | None = None
    offset: PerRow | None = None
    base_cost: float = 0.0
    costs: Callable[..., Any] | None = None


class Sums(NamedTuple):
    """Sums over the rows: their cost (C,), and its slopes in the loadings."""

    cost: Float[Any, " C"]
    slopes: Loadings


def one_pass(density: Any, rows: StreamedRows, loadings: Loadings) -> Sums:
    """Sums over the rows at the loadings of every chain, NumPy arrays in double precision."""
    u, level, a, b, constant = (np.asarray(part, dtype=np.float64) for part in loadings)
    columns, p = u.shape
    none = np.zeros((p, 0))
    weights = np.concatenate([u.T, b.T], axis=1) if density.linear else u.T
    squares = a.T if density.quadratic else none
    others = {"width": rows.width, "offset": rows.offset}
    vectors = {name: value for name, value in others.items() if value is not None}
    costs = (rows.costs or RowCosts)(density, tuple(vectors), level, constant, rows.loss_weight)
    # An overflow makes the sums non-finite, which the check of the log density reports.
    back, square_back, level_slope, _, totals = rows.design.product_sums(
        weights,
        squares,
        costs,
        rows.target,
        rows.row_weight,
        *vectors.values(),
    )
    nothing = np.zeros_like(a)
    return Sums(
        totals[: costs.chains] - rows.base_cost,
        Loadings(
            mean=back[:, :columns].T,
            level=level_slope[:columns],
            quadratic=square_back.T if density.quadratic else nothing,
            linear=back[:, columns:].T if density.linear else nothing,
            constant=totals[costs.chains :] if density.has_variance else nothing[:, 0],
        ),
    )


@dataclass(frozen=True)
class RowCosts:
    """Slopes of the costs of some rows, and terms to sum over them; see :meth:`bayesdrop.designs.Design.product_sums`.

    Attributes
    ----------
    density : Density
        Density that gives the cost of a row.
    names : tuple of str
        Which other vectors over the rows come after targets and weights: ``width``, ``offset``.
    level, constant : array (C,)
        Level and constant of the loadings.
    loss_weight : float
        Factor on the loss of one score.
    """

    density: Any
    names: tuple[str, ...]
    level: Float[np.ndarray, " columns"]
    constant: Float[np.ndarray, " variances"]
    loss_weight: float

    @property
    def chains(self) -> int:
        """Number ``C`` of costs of a row."""
        return len(self.level)

    def __call__(
        self,
        first: Float[np.ndarray, "rows K"],
        second: Float[np.ndarray, "rows L"],
        target: PerRow,
        weight: PerRow,
        *others: PerRow,
    ) -> tuple[Float[np.ndarray, "rows K"], Float[np.ndarray, "rows L"], Float[np.ndarray, "rows M"]]:
        """Slopes and costs of rows, given their products with the loadings."""
        density, columns = self.density, len(self.level)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = first[:, :columns] + self.level
            var = mean  # not used without noise
            if density.has_variance:
                var = np.broadcast_to(self.constant, (len(first), len(self.constant)))
                var = var + second if density.quadratic else var
                var = var + first[:, columns:] if density.linear else var
            cost, slope, var_slope = self.at(mean, var, target, weight, **dict(zip(self.names, others, strict=True)))
        if not density.has_variance:
            return slope, second, cost
        back = np.concatenate([slope, var_slope], axis=1) if density.linear else slope
        return back, var_slope if density.quadratic else second, np.concatenate([cost, var_slope], axis=1)

    def at(
        self,
        mean: Float[np.ndarray, "rows columns"],
        var: Float[np.ndarray, "rows variances"],
        target: PerRow,
        weight: PerRow,
        width: PerRow | None = None,
        offset: PerRow | None = None,
    ) -> tuple[Any, ...]:
        """Costs of the rows at moments of their scores, and the slopes in these moments."""
        mean = mean if offset is None else mean + offset[:, None]
        stretched = None if width is None else width[:, None]
        return self.density.score_cost(target[:, None], weight[:, None], self.loss_weight, stretched, mean, var)


def evaluation_of(density: Density, operands: DensityOperands, theta: Point, sums: Sums) -> Evaluation:
    """Minus the log density and its gradient at θ (C, D), given the sums of a pass there, which count as one row."""
    _, pull_back = jax.vjp(lambda t: density.loadings(operands, t), theta)
    prior, prior_slope = jax.vjp(lambda t: density.log_prior(operands, t), theta)
    gradient = pull_back(sums.slopes)[0] - prior_slope(jnp.ones_like(prior))[0]
    return Evaluation(sums.cost[:, None], prior, gradient)


class StreamedOperands(NamedTuple):
    """Operands of the chains, without a matrix, and the rows."""

    chains: HMCOperands
    rows: StreamedRows


@dataclass(frozen=True)
class StreamedKernel:
    """Markov transition that Python calls; see :class:`bayesdrop.sampling.protocols.HostKernel`.

    Attributes
    ----------
    inner : HMCKernel
        The transition in memory.
    """

    inner: HMCKernel

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the recorded variables."""
        return self.inner.variables

    @property
    def choices(self) -> dict[str, str]:
        """Choices that the posterior reports."""
        return self.inner.choices

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics: the log density and properties of the trajectory."""
        return self.inner.statistics

    def shapes(self, operands: StreamedOperands, key: PRNGKeyArray, chains: int) -> tuple[Any, dict[str, Any]]:
        """Shapes of the state and of the record of a step."""

        def made(inside: HMCOperands, key: PRNGKeyArray) -> tuple[HMCState, dict[str, jax.Array]]:
            key, z = self.inner.start(inside, key, chains)
            state = self.inner.state_at(inside, key, z, Evaluation(z[:, :1], z[:, 0], z))
            return state, self.inner.record(inside, state)

        shapes: tuple[Any, dict[str, Any]] = jax.eval_shape(made, operands.chains, key)
        return shapes

    def init(self, operands: StreamedOperands, key: PRNGKeyArray, chains: int) -> HMCState:
        """Start at independent draws from the normal approximation."""
        inside = operands.chains
        key, z, theta, loadings = _begin(self.inner, chains, inside, key)
        return _state_at(inside, key, z, _evaluation(self.inner, inside, theta, self._pass(operands, loadings)))

    def step(self, operands: StreamedOperands, state: HMCState) -> tuple[HMCState, dict[str, jax.Array]]:
        """Take one trajectory of every chain, and learn from it in warm-up."""
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


@partial(jax.jit, static_argnums=(0, 1))
def _begin(
    kernel: HMCKernel, chains: int, operands: HMCOperands, key: PRNGKeyArray
) -> tuple[PRNGKeyArray, Point, Point, Loadings]:
    """Random key, and the start of the chains as whitened coordinates, as ``θ`` and as loadings."""
    key, z = kernel.start(operands, key, chains)
    theta = unwhiten(operands.centre, operands.factor, z)
    return key, z, theta, kernel.density.loadings(operands.density, theta)  # type: ignore[attr-defined]


@partial(jax.jit, static_argnums=0)
def _depart(kernel: HMCKernel, operands: HMCOperands, state: HMCState) -> tuple[Departure, Point]:
    """Random numbers of a trajectory, and the momentum after the first half of a leapfrog step."""
    departure = kernel.depart(operands, state)
    push = kernel.force(operands, state, state.position, state.evaluation)
    return departure, departure.momentum + departure.angle / 2 * push


@partial(jax.jit, static_argnums=0)
def _turn(
    kernel: HMCKernel, operands: HMCOperands, state: HMCState, z: Point, r: Point, angle: Float[jax.Array, ""]
) -> tuple[Point, Point, Point, Loadings]:
    """Position and momentum after a turn, and the position as ``θ`` and as loadings."""
    z, r = turned(z, r, angle)
    theta = kernel.place(operands, state, z)
    return z, r, theta, kernel.density.loadings(operands.density, theta)  # type: ignore[attr-defined]


@partial(jax.jit, static_argnums=0)
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
    """Momentum after a leapfrog step of the given length, and the evaluation at the position."""
    evaluation = _evaluation(kernel, operands, theta, sums)
    return r + length * kernel.force(operands, state, z, evaluation), evaluation


@partial(jax.jit, static_argnames=("kernel",))
def _evaluation(kernel: HMCKernel, operands: HMCOperands, theta: Point, sums: Sums) -> Evaluation:
    return evaluation_of(kernel.density, operands.density, theta, sums)  # type: ignore[arg-type]


_state_at = jax.jit(HMCKernel.state_at)
_arrive = jax.jit(HMCKernel.arrive, static_argnums=0)


class ClassCosts(RowCosts):
    """Costs of many classes: the columns are contrasts, and the variances are covariances of their pairs."""

    @property
    def chains(self) -> int:
        """Number ``C`` of costs of a row."""
        return len(self.level) // (self.density.n_classes - 1)

    @cached_property
    def _basis(self) -> Float[np.ndarray, "K J"]:
        return contrasts(self.density.n_classes)

    def at(
        self,
        mean: Float[np.ndarray, "rows columns"],
        var: Float[np.ndarray, "rows variances"],
        target: PerRow,
        weight: PerRow,
        width: PerRow | None = None,
        offset: PerRow | None = None,
    ) -> tuple[Any, ...]:
        """Costs of the rows at moments of their contrasts, with their classes by number, and the slopes."""
        # Rows come last: sums over a few classes are then sums of long vectors.
        score = self._basis @ np.ascontiguousarray(mean.T).reshape(self.chains, self._basis.shape[1], -1)
        level, slope = log_sum_exp(score, axis=1)
        to_pairs = var
        if self.density.has_variance:
            extra, more, to_pairs = self._of_noise(score, var)
            level, slope, to_pairs = level + extra, slope + more, weight[:, None] * to_pairs
        label, rows = np.asarray(target).astype(np.intp), np.arange(len(mean))
        cost = weight[:, None] * (level - score[:, label, rows]).T
        slope[:, label, rows] -= 1
        return cost, ((self._basis.T @ slope) * weight).reshape(mean.shape[1], -1).T, to_pairs

    def _of_noise(
        self, score: Float[np.ndarray, "C K m"], pairs: Float[np.ndarray, "m _"]
    ) -> tuple[Float[np.ndarray, "C m"], Float[np.ndarray, "C K m"], Float[np.ndarray, "m _"]]:
        """Contribution of noise to the loss, and its slopes in the scores and in the covariances of contrasts."""
        (C, K, m), basis = score.shape, self._basis
        one, other = np.triu_indices(K - 1)
        cov = np.empty((m * C, K - 1, K - 1))
        cov[:, one, other] = cov[:, other, one] = pairs.reshape(m * C, len(one))
        mean = score.transpose(2, 0, 1).reshape(m * C, K)
        extra, slope, to_cov, _ = FORMS[self.density.loss.expectation](mean, basis @ cov @ basis.T)
        to_pairs = np.where(one == other, 1.0, 2.0) * (basis.T @ to_cov @ basis)[:, one, other]
        return extra.reshape(m, C).T, slope.reshape(m, C, K).transpose(1, 2, 0), to_pairs.reshape(pairs.shape)
