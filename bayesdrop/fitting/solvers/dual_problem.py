r"""Bound the energy of a piecewise-linear loss from below, by its dual; for solvers and their stopping rules.

A plain hinge, ε-insensitive or quantile loss with row weight ``c`` is a sum of maxima over intervals, one per kink
``t``,

    c φ(y, s) = Σ max { β(t − s) : l <= β <= u }.

Given ``β`` the energy is quadratic in ``w``, with the minimum at ``w = P⁻¹Mᵀβ`` for the prior precision ``P`` and
scores ``Mw``. An offset of the scores is subtracted from ``t``. Any ``β`` with ``Σβ = 0`` (if there is an intercept)
bounds the energy from below,

    U >= Σtβ − ½ρᵀP⁻¹ρ,     ρ = Mᵀβ,

and the energy at ``w`` minus the bound bounds the suboptimality of ``w``. :mod:`.coordinates` and
:mod:`.interior_points` maximise this bound.

With noise Newton's method minimises the energy with smoothed kinks, and the bound follows from the slopes at a point.
Every form of a piecewise-linear loss is a maximum over intervals, with noise of variance ``v``

    c φ(y, s, v) = Σ max { β(t − s) + √v τ(β) : l <= β <= u },

with ``τ`` concave and zero at both ends: ``√((β − l)(u − β))`` for the augmentation bound, ``(u − l)`` times the normal
density at the quantile ``(β − l)/(u − l)`` for the Gaussian form. The maximising ``β`` are minus the slopes in the
scores, for a loss smoothed by ``ε`` those at ``r = √(v + ε²)``. Any ``β`` within the intervals with ``Σβ = 0`` (if
there is an intercept) and any weights ``w`` bound the energy from below by

    U >= Σtβ − ½ρᵀP⁻¹ρ,        ρ = Mᵀβ − q(τ(β)/r)∘w,

where ``2q(κ)∘w`` is the gradient of ``Σκv`` in the weights. At the optimum ``ρ = Pw`` and the bound equals the energy;
at a gradient ``g`` it is lower by ``½gᵀP⁻¹g``. Unlike an estimate from Newton's decrement it needs no constant that
depends on the data.

If the noise is nearly zero on many rows, as for a rare class, a small gradient is hard to reach and not needed. There
``κ = τ(β)/r`` is below its maximum ``τ(β)/√v``. The bound holds for any ``κ`` up to the maximum at other weights ``ω``,
which are chosen to absorb the gradient,

    ω = (P + q(κ))⁻¹(Mᵀβ + Pμ),        ρ = Mᵀβ − q(κ')∘ω,        κ' = min { κ, τ(β)/√v(ω) }.

A prior mean ``μ`` lowers the bound by ``μᵀρ``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Bool, Float, PerRow
from ...designs import Design
from ...losses.protocols import PiecewiseLinear
from ..objective.energy import Energy, Kinks, ProblemVector, WeightBlock

__all__ = ["Dual", "DualLimits", "DualProblem", "best_constant", "joined", "lower_bound", "LEAST", "NO_RESIDUAL"]

# Positive numbers below this count as zero.
LEAST = 1e-100
# Share of the first energy below which a fit has no residual, as for a constant response.
NO_RESIDUAL = 1e-12


@dataclass(frozen=True)
class DualLimits:
    """Limits on the work of the solvers of the dual.

    Attributes
    ----------
    passes : (int, int)
        Minimum and maximum number of passes of coordinate descent before another method takes over.
    visits : float
        Maximum number of entries visited in all passes, between these two numbers of passes.
    multiplications : float
        Maximum number of multiplications for a Gram matrix, ``n p²``, for interior points to follow the passes.
    """

    passes: tuple[int, int] = (300, 30_000)
    visits: float = 3e8
    multiplications: float = 2e10


class Dual(NamedTuple):
    """Weights (p + 1, K), a bound on their suboptimality (K,), and ``pull`` (n, K), the sum of ``β`` in each row."""

    weights: WeightBlock
    gap: ProblemVector
    pull: PerRow

    def among(self, rows: Bool[np.ndarray, " n"]) -> Dual:
        """Expand ``pull`` from the marked rows to all rows, with 0 for the others."""
        pull = np.zeros((len(rows), self.pull.shape[1]))
        pull[rows] = self.pull
        return self._replace(pull=pull)


def joined(parts: Iterable[Dual | None]) -> Dual | None:
    """Concatenate the solutions of all problems; None if one has none, and then the later ones are not solved."""
    duals = []
    for part in parts:
        if part is None:
            return None
        duals.append(part)
    return Dual(*(np.concatenate(blocks, axis=-1) for blocks in zip(*duals, strict=True)))


class DualProblem(NamedTuple):
    """The dual of one problem without noise, in weights times the gain of the noise, so that ``M`` is the matrix ``X``.

    Kinks ``t`` (``centre``) and ends ``l`` and ``u`` are (n, kinks), the precision ``P`` is (p,).
    """

    design: Design
    gain: Float[np.ndarray, " p"]
    precision: Float[np.ndarray, " p"]
    centre: Float[np.ndarray, "n kinks"]
    low: Float[np.ndarray, "n kinks"]
    high: Float[np.ndarray, "n kinks"]
    has_intercept: bool

    @classmethod
    def of(cls, energy: Energy, k: int) -> DualProblem:
        """Problem ``k`` of the energies of K problems."""
        moments = energy.moments
        shape = (moments.design.shape[1], energy.target.shape[1])
        gain, precision = (
            np.broadcast_to(part, shape)[:, k] for part in (moments.coefficients.gain, energy.precision[:-1])
        )
        centre, low, high = (np.ascontiguousarray(part[:, :, k].T, dtype=np.float64) for part in energy.kinks)
        return cls(moments.design, gain, precision / gain**2, centre, low, high, moments.fit_intercept)

    def of_rows(self, rows: Bool[np.ndarray, " n"]) -> DualProblem:
        """Restrict the problem to the marked rows; the others have weight 0."""
        design: Any = self.design
        centre, low, high = (part[rows] for part in (self.centre, self.low, self.high))
        return self._replace(design=design[np.flatnonzero(rows)], centre=centre, low=low, high=high)

    def energy(self, w: Float[np.ndarray, " p"], slack: Float[np.ndarray, "n kinks"]) -> float:
        """Energy at the weights, whose scores are ``t − slack``."""
        return float(0.5 * (self.precision * w) @ w + np.sum(np.where(slack > 0, self.high, self.low) * slack))

    def feasible(self, beta: Float[np.ndarray, "n kinks"]) -> Float[np.ndarray, "n kinks"]:
        """Scale down the positive or the negative ``β``, whichever sum is larger, so that ``Σβ = 0``."""
        if not self.has_intercept:
            return beta
        above = float(np.sum(np.maximum(beta, 0.0)))
        below = above - float(beta.sum())
        up, down = (min(above, below) / side if side != 0 else 0.0 for side in (above, below))
        return np.where(beta > 0, beta * up, beta * down)

    def bound(self, beta: Float[np.ndarray, "n kinks"]) -> float:
        """Lower bound of the energy for a feasible ``β``."""
        back = self.design.rmatvec(beta.sum(axis=1))
        return float(np.sum(self.centre * beta) - 0.5 * back @ (back / self.precision))


def lower_bound(
    energy: Energy,
    weights: WeightBlock,
    mean: PerRow,
    var: PerRow,
    smoothing: ProblemVector,
    try_other_weights: bool = False,
) -> ProblemVector | None:
    """Bound the minimum of each problem from below.

    Parameters
    ----------
    energy : Energy
        Energy of K problems.
    weights : array (p + 1, K)
        Any weights; near the optimum the bound is near the minimum.
    mean, var : array (n, K)
        Moments of the scores' linear parts at these weights.
    smoothing : array (K,)
        The ``ε`` at which the slopes are taken.
    try_other_weights : bool
        Whether to try the bound at the weights ``ω`` too, at the cost of half a product with the matrix.

    Returns
    -------
    array (K,) or None
        None if there is no bound: for losses without kinks, rows without labels, an intercept with a prior, columns
        without a prior, and rows outside this process.
    """
    loss: Any = energy.loss
    has_rows = energy.has_all_rows and energy.plain_weight is None and energy.level is None
    if not (has_rows and isinstance(loss, PiecewiseLinear) and np.all(energy.precision[:-1] > 0)):
        return None
    moments, root = energy.moments, np.sqrt(var + smoothing**2)
    centre, low, high = energy.kinks
    size, slack = high - low, centre - mean
    part = loss.form.derivatives(slack, np.broadcast_to(root * root, slack.shape))
    beta, tension = low + size * part.mean, np.zeros(mean.shape)
    if moments.fit_intercept:
        # If the intercept is slightly off, change ``β`` of the rows near a kink, which hardly lowers the bound.
        beta = _balanced(beta, size * part.mean_mean, low, high)
    if moments.has_variance:
        share = (beta - low) / np.where(size > 0, size, 1.0)
        tension = np.sum(size * loss.form.tension(np.clip(share, 0.0, 1.0)), axis=0)
    kappa = tension / np.where(root > 0, root, 1.0)
    residual, spread = moments.adjoint(weights, beta.sum(axis=0), -0.5 * kappa)
    value = np.sum(centre * beta, axis=(0, 1))
    bound = np.asarray(value - _prior_part(residual, energy))
    if try_other_weights and moments.has_variance:
        spread = -2 * spread
        back = residual[:-1] + weights[:-1] * spread
        prior_pull = 0.0 if energy.location is None else energy.precision[:-1] * energy.location[:-1]
        other = (back + prior_pull) / (energy.precision[:-1] + spread)
        deviation = np.sqrt(np.maximum(moments.covariance(other * other), np.finfo(float).tiny))
        residual[:-1] = back - other * moments.spread(np.minimum(kappa, tension / deviation))
        bound = np.maximum(bound, value - _prior_part(residual, energy))
    return bound


def _prior_part(residual: WeightBlock, energy: Energy) -> ProblemVector:
    """``½ρᵀP⁻¹ρ + μᵀρ``, (K,)."""
    part = np.asarray(0.5 * np.sum(residual[:-1] ** 2 / energy.precision[:-1], axis=0))
    return part if energy.location is None else part + np.sum(energy.location[:-1] * residual[:-1], axis=0)


def _balanced(beta: Kinks, give: Kinks, low: Kinks, high: Kinks) -> Kinks:
    """Change ``β`` so that ``Σβ = 0``: in proportion to ``give``, and then by scaling the larger side down."""
    total, room = np.sum(beta, axis=(0, 1)), np.sum(give, axis=(0, 1))
    beta = np.clip(beta - np.where(room > 0, total / np.where(room > 0, room, 1.0), 0.0) * give, low, high)
    sides = np.sum(np.maximum(beta, 0.0), axis=(0, 1)), np.sum(np.maximum(-beta, 0.0), axis=(0, 1))
    up, down = (np.minimum(*sides) / np.where(side > 0, side, 1.0) for side in sides)
    return np.where(beta > 0, up * beta, down * beta)


def best_constant(energy: Energy) -> ProblemVector:
    """Best intercept at zero weights, (K,): the first kink after which the slope of the energy is not negative."""
    kinks, low, high = (part.reshape(-1, part.shape[2]) for part in energy.kinks)
    order = np.argsort(kinks, axis=0, kind="stable")
    rise = np.cumsum(np.take_along_axis(high - low, order, axis=0), axis=0)
    first = np.argmax(rise >= np.sum(high, axis=0), axis=0)
    return np.take_along_axis(np.take_along_axis(kinks, order, axis=0), first[None], axis=0)[0]
