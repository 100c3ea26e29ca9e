"""A piecewise-linear loss without noise as a sum of maxima over intervals, and a bound on the energy.

A plain hinge, ε-insensitive or quantile loss is a sum of maxima over intervals,

    c φ(y, s) = Σ max { β(t − s) : l <= β <= u },

so that the energy is the maximum over ``β`` of what is quadratic in ``w``, at ``w = P⁻¹Mᵀβ``; an offset of the scores
is taken off ``t``. Any ``β`` with ``Σβ = 0`` (if there is an intercept) bounds the energy from below,

    U >= Σtβ − ½ρᵀP⁻¹ρ,     ρ = Mᵀβ,

and the difference to the energy at some ``w`` bounds its suboptimality. With noise Newton's method goes down the
energy itself, its kinks smoothed.

The bound with noise comes from the slopes at a point. Every form of a piecewise-linear loss is a maximum over
intervals, with noise of variance ``v``

    c φ(y, s, v) = Σ max { β(t − s) + √v τ(β) : l <= β <= u },

with ``τ`` concave and zero at both ends: ``√((β − l)(u − β))`` of the augmentation bound, ``(u − l)`` times the normal
density at the quantile ``(β − l)/(u − l)`` of the Gaussian form. The ``β`` of the maximum are minus the slopes in the
scores. Where the loss is smoothed by ``ε`` they are those at ``r = √(v + ε²)``, and any ``β`` within
the intervals with ``Σβ = 0`` (if there is an intercept), at any weights ``w``, bound the energy from below by

    U >= Σtβ − ½ρᵀP⁻¹ρ,        ρ = Mᵀβ − q(τ(β)/r)∘w.

At the optimum ``ρ = Pw``, and the bound is the energy; at a gradient ``g`` it is less by ``½gᵀP⁻¹g``. It asks for no
constant of the data, as an estimate by the decrement of Newton's method does, and no rule of thumb can be wrong.

Where the noise vanishes on many rows, as of a rare class, a small gradient is hard to have and not needed: there
``κ = τ(β)/r`` is less than it may be, ``τ(β)/√v``, and other weights take up the gradient, for the same bound holds
with any ``κ`` up to that at those,

    ω = (P + q(κ))⁻¹(Mᵀβ + Pμ),        ρ = Mᵀβ − q(κ')∘ω,        κ' = min { κ, τ(β)/√v(ω) }.

A prior about a mean ``μ`` takes ``μᵀρ`` off the bound.
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

LEAST = 1e-100
# Below this share of the first energy a fit is one without any residual, as of a constant response.
NO_RESIDUAL = 1e-12


@dataclass(frozen=True)
class DualLimits:
    """How far the dual is followed.

    Attributes
    ----------
    passes : (int, int)
        Least and most passes of coordinate descent before another method takes over.
    visits : float
        Entries that the passes between these two may visit.
    multiplications : float
        Maximum number of multiplications of a Gram matrix, ``n p²``, at which interior points follow the passes.
    """

    passes: tuple[int, int] = (300, 30_000)
    visits: float = 3e8
    multiplications: float = 2e10


class Dual(NamedTuple):
    """Weights (p + 1, K), a bound on their suboptimality (K,), and the pulls ``β`` of the rows (n, K)."""

    weights: WeightBlock
    gap: ProblemVector
    pull: PerRow

    def among(self, rows: Bool[np.ndarray, " n"]) -> Dual:
        """Expand the pulls to all rows; rows that are not marked have no pull."""
        pull = np.zeros((len(rows), self.pull.shape[1]))
        pull[rows] = self.pull
        return self._replace(pull=pull)


def joined(parts: Iterable[Dual | None]) -> Dual | None:
    """The duals of all problems, solved one after the other until there is none of one."""
    duals = []
    for part in parts:
        if part is None:
            return None
        duals.append(part)
    return Dual(*(np.concatenate(blocks, axis=-1) for blocks in zip(*duals, strict=True)))


class DualProblem(NamedTuple):
    """One problem in the weights that meet the rows, which are those times the gain of the noise's mean.

    Kinks ``t`` and ends ``l`` and ``u`` are (n, kinks), the precision ``P`` is (p,).
    """

    design: Design
    gain: Float[np.ndarray, " p"]
    precision: Float[np.ndarray, " p"]
    centre: Float[np.ndarray, "n kinks"]
    low: Float[np.ndarray, "n kinks"]
    high: Float[np.ndarray, "n kinks"]
    fitted: bool

    @classmethod
    def of(cls, energy: Energy, k: int) -> DualProblem:
        """Problem ``k`` of some."""
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
        """A ``β`` that meets the constraint: the larger side is scaled down."""
        if not self.fitted:
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
    elsewhere: bool = False,
) -> ProblemVector | None:
    """Bound the minimum of each problem from below.

    Parameters
    ----------
    energy : Energy
        Energy of K problems.
    weights : array (p + 1, K)
        Any; near the optimum the bound is near the minimum.
    mean, var : array (n, K)
        Moments of their scores' linear parts.
    smoothing : array (K,)
        The ``ε`` at which the slopes are taken.
    elsewhere : bool
        Whether to look at other weights too, which take up a gradient at the cost of half a product.

    Returns
    -------
    array (K,) or None
        None where there is none: losses without kinks, rows without labels, an intercept with a prior, columns without
        one, rows elsewhere.
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
        # An intercept that is a little off: the rows near a kink give way, which costs almost nothing.
        beta = _balanced(beta, size * part.mean_mean, low, high)
    if moments.has_variance:
        share = (beta - low) / np.where(size > 0, size, 1.0)
        tension = np.sum(size * loss.form.tension(np.clip(share, 0.0, 1.0)), axis=0)
    pressed = tension / np.where(root > 0, root, 1.0)
    residual, spread = moments.adjoint(weights, beta.sum(axis=0), -0.5 * pressed)
    value = np.sum(centre * beta, axis=(0, 1))
    bound = np.asarray(value - _prior_part(residual, energy))
    if elsewhere and moments.has_variance:
        spread = -2 * spread
        other = residual[:-1] + weights[:-1] * spread
        drawn = 0.0 if energy.location is None else energy.precision[:-1] * energy.location[:-1]
        back, other = other, (other + drawn) / (energy.precision[:-1] + spread)
        deviation = np.sqrt(np.maximum(moments.covariance(other * other), np.finfo(float).tiny))
        residual[:-1] = back - other * moments.spread(np.minimum(pressed, tension / deviation))
        bound = np.maximum(bound, value - _prior_part(residual, energy))
    return bound


def _prior_part(residual: WeightBlock, energy: Energy) -> ProblemVector:
    """``½ρᵀP⁻¹ρ + μᵀρ``, (K,)."""
    part = np.asarray(0.5 * np.sum(residual[:-1] ** 2 / energy.precision[:-1], axis=0))
    return part if energy.location is None else part + np.sum(energy.location[:-1] * residual[:-1], axis=0)


def _balanced(beta: Kinks, give: Kinks, low: Kinks, high: Kinks) -> Kinks:
    """The ``β`` brought to ``Σβ = 0``: where rows can give way, and what is left by scaling the larger side down."""
    total, room = np.sum(beta, axis=(0, 1)), np.sum(give, axis=(0, 1))
    beta = np.clip(beta - np.where(room > 0, total / np.where(room > 0, room, 1.0), 0.0) * give, low, high)
    sides = np.sum(np.maximum(beta, 0.0), axis=(0, 1)), np.sum(np.maximum(-beta, 0.0), axis=(0, 1))
    up, down = (np.minimum(*sides) / np.where(side > 0, side, 1.0) for side in sides)
    return np.where(beta > 0, up * beta, down * beta)


def best_constant(energy: Energy) -> ProblemVector:
    """The intercept of zero weights, (K,): the first kink past which the slope of the energy is not below zero."""
    kinks, low, high = (part.reshape(-1, part.shape[2]) for part in energy.kinks)
    order = np.argsort(kinks, axis=0, kind="stable")
    rise = np.cumsum(np.take_along_axis(high - low, order, axis=0), axis=0)
    first = np.argmax(rise >= np.sum(high, axis=0), axis=0)
    return np.take_along_axis(np.take_along_axis(kinks, order, axis=0), first[None], axis=0)[0]
