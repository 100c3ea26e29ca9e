"""One problem of a kinked loss as its dual has it: kinks, the ends of the intervals, and a bound on the energy.

:mod:`.dual` has the mathematics.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from ..._typing import Float, PerRow
from ...designs import Design
from ...losses.protocols import PiecewiseLinear
from ..objective.energy import Energy
from ..shapes import ProblemVector, WeightBlock

__all__ = ["LEAST", "NO_RESIDUAL", "Dual", "KinkedProblem"]

LEAST = 1e-100
# Below this share of the first energy a fit is one without any residual, as of a constant response.
NO_RESIDUAL = 1e-12


class Dual(NamedTuple):
    """Weights (p + 1, K), a bound on their suboptimality (K,), and the pulls ``β`` of the rows (n, K)."""

    weights: WeightBlock
    gap: ProblemVector
    pull: PerRow


class KinkedProblem(NamedTuple):
    """Problems in the weights that meet the rows, which are those times the gain of the noise's mean.

    One, or several with an axis of their own, the last: kinks ``t`` and ends ``l`` and ``u`` are (n, kinks) or
    (n, kinks, K); the precision ``P`` and the variance ``a`` of an entry relative to its square, (p,) or (p, K).
    """

    design: Design
    gain: Float[np.ndarray, "p ..."]
    precision: Float[np.ndarray, "p ..."]
    quadratic: Float[np.ndarray, "p ..."]
    centre: Float[np.ndarray, "n kinks ..."]
    low: Float[np.ndarray, "n kinks ..."]
    high: Float[np.ndarray, "n kinks ..."]
    fitted: bool

    @classmethod
    def of(cls, energy: Energy, k: int | slice) -> KinkedProblem:
        """Problem ``k`` of some, or some of them."""
        moments, n_problems = energy.moments, energy.target.shape[1]
        shape = (moments.design.shape[1], n_problems)
        gain, _, quadratic, _, _ = (np.broadcast_to(part, shape)[:, k] for part in moments.coefficients)
        weight = np.broadcast_to(energy.weight, energy.target.shape)[:, k]
        target = energy.target[:, k]
        centre, low, high, width = cast(PiecewiseLinear, energy.loss).interval(target, weight)
        if energy.offset is not None:
            centre = centre - energy.offset.reshape(-1, *(1,) * (centre.ndim - 1))
        kinks = [(centre, low, high)]
        if np.any(width):
            zero = np.zeros_like(width)
            kinks = [(centre - width, zero, high), (centre + width, low, zero)]
        centre, low, high = (np.stack(part, axis=1).astype(np.float64) for part in zip(*kinks, strict=True))
        precision = np.broadcast_to(energy.precision[:-1], shape)[:, k]
        fitted = moments.fit_intercept
        return cls(moments.design, gain, precision / gain**2, quadratic / gain**2, centre, low, high, fitted)

    def select(self, columns: Any) -> KinkedProblem:
        """Some of several problems."""
        parts = (self.gain, self.precision, self.quadratic, self.centre, self.low, self.high)
        gain, precision, quadratic, centre, low, high = (np.ascontiguousarray(part[..., columns]) for part in parts)
        return KinkedProblem(self.design, gain, precision, quadratic, centre, low, high, self.fitted)

    def at(self, energy: Energy) -> KinkedProblem:
        """All problems of an energy whose rates alone are others, (p, K)."""
        shape = self.gain.shape
        gain, _, quadratic, _, _ = (np.broadcast_to(part, shape) for part in energy.moments.coefficients)
        precision = np.broadcast_to(energy.precision[:-1], shape)
        return self._replace(gain=gain, precision=precision / gain**2, quadratic=quadratic / gain**2)

    def energy(self, w: Float[np.ndarray, "p ..."], slack: Float[np.ndarray, "n kinks ..."], root: PerRow) -> Any:
        """Energy at the weights, whose scores are ``t − slack`` and have deviations ``root``; a number or (K,)."""
        size = np.sqrt(slack * slack + (root * root)[:, None])
        costs = 0.5 * ((self.high + self.low) * slack + (self.high - self.low) * size)
        return 0.5 * np.vecdot((self.precision * w).T, w.T) + costs.sum(axis=(0, 1))

    def feasible(self, beta: Float[np.ndarray, "n kinks ..."]) -> Float[np.ndarray, "n kinks ..."]:
        """A ``β`` that meets the constraint: the larger side is scaled down."""
        if not self.fitted:
            return beta
        above = np.sum(np.maximum(beta, 0.0), axis=(0, 1))
        below = above - beta.sum(axis=(0, 1))
        share = np.minimum(above, below)
        up, down = (share / np.where(side != 0, side, np.inf) for side in (above, below))
        return np.where(beta > 0, beta * up, beta * down)

    def bound(
        self, beta: Float[np.ndarray, "n kinks ..."], w: Float[np.ndarray, "p ..."], root: PerRow
    ) -> tuple[Any, Float[np.ndarray, "p ..."]]:
        """Lower bound of the energy for a feasible ``β``, a number or (K,), and ``(X²)ᵀ(σ/r)``, (p,) or (p, K)."""
        several = beta.ndim == 3
        pull = beta.sum(axis=1)
        value = np.sum(self.centre * beta, axis=(0, 1))
        if not np.any(root):
            back, spread = self.design.rmatvec(pull), np.zeros_like(w)
        else:
            tension = np.sqrt(np.maximum((beta - self.low) * (self.high - beta), 0.0)).sum(axis=1)
            tension = np.where(root > 0, tension / np.where(root > 0, root, 1.0), 0.0)
            columns = (pull, tension) if several else (pull[:, None], tension[:, None])
            back, spread = self.design.pair_rmatvec(*columns)
            back, spread = back.reshape(w.shape), spread.reshape(w.shape)
        rest = back - self.quadratic * spread * w
        return value - 0.5 * np.vecdot(rest.T, (rest / self.precision).T), spread
