r"""A density of rows that are streamed: value and gradient at the points of all chains in one pass over the rows.

The rows see a point through its loadings alone: the score of a row has mean ``x·u + l`` and variance ``x²·a + x·b + c``
(:class:`.density.Loadings`). A pass sums what the rows cost and, with the slopes ``r_i`` and ``s_i`` of the cost in the
two moments, the slopes of that sum in the loadings,

    ∂u = Xᵀr,   ∂l = Σ r_i,   ∂a = (X²)ᵀs,   ∂b = Xᵀs,   ∂c = Σ s_i,

``p`` numbers for each chain, or of many classes for each contrast of each chain (:mod:`.classes.costs`). How loadings
depend on weights and rates, and the prior, are known here, so that the chain rule does the rest. Nothing of the length
of the rows is made.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``D`` coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float, PerRow
from ...designs import Design
from ..kernels.density import Density, DensityOperands, Evaluation, Loadings, Point

__all__ = ["RowCosts", "Sums", "StreamedRows", "evaluation_of", "one_pass"]


class StreamedRows(NamedTuple):
    """What a pass reads.

    Attributes
    ----------
    design : Design (n, p)
        Features.
    target, row_weight : array (n,)
        Labels −1 and +1, numbers of classes, or numbers, and ``C`` times the row weights, where the rows are.
    loss_weight : float
        ``C``, as in :class:`.density.DensityOperands`.
    width : array (n,), optional
        As in :class:`.density.DensityOperands`.
    offset : array (n,), optional
        Known part of every row's score.
    known : float
        Cost of all rows somewhere in the middle of the posterior. Taken off the total, it leaves single precision the
        digits of differences.
    costs : callable, optional
        What makes costs of scores, in place of :class:`RowCosts`.
    """

    design: Design
    target: PerRow
    row_weight: PerRow
    loss_weight: float
    width: PerRow | None = None
    offset: PerRow | None = None
    known: float = 0.0
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
    there = {name: value for name, value in others.items() if value is not None}
    kind = rows.costs or partial(RowCosts, loss_weight=rows.loss_weight)
    costs = kind(density, tuple(there), level, constant)
    # What overflows is not finite in the sums, and said once, by whoever looks at the log density.
    back, square_back, level_slope, _, totals = rows.design.product_sums(
        weights,
        squares,
        costs,
        rows.target,
        rows.row_weight,
        *there.values(),
    )
    nothing = np.zeros_like(a)
    return Sums(
        totals[: costs.chains] - rows.known,
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
    """Slopes of the cost of some rows, and what is summed over them; see :meth:`bayesdrop.designs.Design.product_sums`.

    Attributes
    ----------
    density : Density
        What a row costs.
    names : tuple of str
        Which other vectors over the rows come after targets and weights: ``width``, ``offset``.
    level, constant : array (C,)
        Of the loadings.
    loss_weight : float
        What the loss is multiplied by.
    """

    density: Density
    names: tuple[str, ...]
    level: Float[np.ndarray, " C"]
    constant: Float[np.ndarray, " C"]
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
        """Given the products of the rows with the loadings."""
        density, C, there = self.density, len(self.level), dict(zip(self.names, others, strict=True))
        with np.errstate(over="ignore", invalid="ignore"):
            mean = first[:, :C] + self.level
            if "offset" in there:
                mean = mean + there["offset"][:, None]
            var = mean  # not looked at where there is no noise
            if density.has_variance:
                var = np.broadcast_to(self.constant, mean.shape)
                var = var + second if density.quadratic else var
                var = var + first[:, C:] if density.linear else var
            stretched = there["width"][:, None] if "width" in there else None
            given = target[:, None], weight[:, None], self.loss_weight, stretched
            cost, slope, var_slope = density.score_cost(*given, mean, var)
        if not density.has_variance:
            return slope, second, cost
        back = np.concatenate([slope, var_slope], axis=1) if density.linear else slope
        return back, var_slope if density.quadratic else second, np.concatenate([cost, var_slope], axis=1)


def evaluation_of(density: Density, operands: DensityOperands, theta: Point, sums: Sums) -> Evaluation:
    """Minus the log density and its gradient at θ (C, D), given the sums of a pass there; the cost is that of a row."""
    _, pull_back = jax.vjp(lambda t: density.loadings(operands, t), theta)
    prior, prior_slope = jax.vjp(lambda t: density.log_prior(operands, t), theta)
    gradient = pull_back(sums.slopes)[0] - prior_slope(jnp.ones_like(prior))[0]
    return Evaluation(sums.cost[:, None], prior, gradient)
