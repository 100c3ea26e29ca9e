"""One problem of a kinked loss as its dual has it: kinks, the ends of the intervals, and a bound on the energy.

:mod:`.dual` has the mathematics.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from .._typing import Float, PerRow
from ..designs import Design
from ..losses.protocols import PiecewiseLinear
from .energy import Energy
from .shapes import ProblemVector, WeightBlock

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
    """One problem in the weights that meet the rows, which are those times the gain of the noise's mean.

    Kinks ``t`` and ends ``l`` and ``u`` are (n, kinks); the precision ``P`` and the variance ``a`` of an entry relative
    to its square, (p,).
    """

    design: Design
    gain: Float[np.ndarray, " p"]
    precision: Float[np.ndarray, " p"]
    quadratic: Float[np.ndarray, " p"]
    centre: Float[np.ndarray, "n kinks"]
    low: Float[np.ndarray, "n kinks"]
    high: Float[np.ndarray, "n kinks"]
    fitted: bool

    @classmethod
    def of(cls, energy: Energy, k: int) -> KinkedProblem:
        """Problem ``k`` of some."""
        moments, n_problems = energy.moments, energy.target.shape[1]
        shape = (moments.design.shape[1], n_problems)
        gain, _, quadratic, _, _ = (np.broadcast_to(part, shape)[:, k] for part in moments.coefficients)
        weight = np.broadcast_to(energy.weight, energy.target.shape)[:, k]
        centre, low, high, width = cast(PiecewiseLinear, energy.loss).interval(energy.target[:, k], weight)
        centre = centre if energy.offset is None else centre - energy.offset[:, 0]
        kinks = [(centre, low, high)]
        if np.any(width):
            zero = np.zeros_like(width)
            kinks = [(centre - width, zero, high), (centre + width, low, zero)]
        centre, low, high = (np.stack(part, axis=1).astype(np.float64) for part in zip(*kinks, strict=True))
        precision, fitted = energy.precision[:-1, 0], moments.fit_intercept
        return cls(moments.design, gain, precision / gain**2, quadratic / gain**2, centre, low, high, fitted)

    def energy(self, w: Float[np.ndarray, " p"], slack: Float[np.ndarray, "n kinks"], root: PerRow) -> float:
        """Energy at the weights, whose scores are ``t − slack`` and have standard deviations ``root``."""
        size = np.sqrt(slack * slack + (root * root)[:, None])
        costs = 0.5 * ((self.high + self.low) * slack + (self.high - self.low) * size)
        return float(0.5 * np.dot(self.precision * w, w) + costs.sum())

    def feasible(self, beta: Float[np.ndarray, "n kinks"]) -> Float[np.ndarray, "n kinks"]:
        """A ``β`` that meets the constraint: the larger side is scaled down."""
        if not self.fitted:
            return beta
        above = float(beta[beta > 0].sum())
        below = above - float(beta.sum())
        share = min(above, below)
        return np.where(beta > 0, beta * (share / above if above else 0.0), beta * (share / below if below else 0.0))

    def bound(
        self, beta: Float[np.ndarray, "n kinks"], w: Float[np.ndarray, " p"], root: PerRow
    ) -> tuple[float, Float[np.ndarray, " p"]]:
        """Lower bound of the energy for a feasible ``β``, and ``q(σ/r)``, (p,)."""
        pull = beta.sum(axis=1)[:, None]
        value = float(np.sum(self.centre * beta))
        if not np.any(root):
            back, spread = self.design.rmatvec(pull)[:, 0], np.zeros_like(w)
        else:
            tension = np.sqrt(np.maximum((beta - self.low) * (self.high - beta), 0.0)).sum(axis=1)
            tension = np.where(root > 0, tension / np.where(root > 0, root, 1.0), 0.0)
            both = self.design.pair_rmatvec(pull, tension[:, None])
            back, spread = both[0][:, 0], self.quadratic * both[1][:, 0]
        rest = back - spread * w
        return value - 0.5 * float(np.dot(rest, rest / self.precision)), spread
