r"""A piecewise-linear loss without noise as a sum of maxima over intervals, and a bound on the energy.

:mod:`.dual` has the mathematics.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from ..._typing import Bool, Float, PerRow
from ...designs import Design
from ...losses.protocols import PiecewiseLinear
from ..objective.energy import Energy
from ..objective.shapes import ProblemVector, WeightBlock

__all__ = ["LEAST", "NO_RESIDUAL", "Dual", "DualLimits", "KinkedProblem", "joined"]

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
        Those of the Gram matrix of a step, ``n p²``, up to which interior points go on with what passes leave.
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
        """The same among all rows, those that are not marked having no pull."""
        pull = np.zeros((len(rows), self.pull.shape[1]))
        pull[rows] = self.pull
        return self._replace(pull=pull)


def joined(parts: Iterable[Dual | None]) -> Dual | None:
    """The duals of all problems, solved one after the other until there is none of one."""
    found = []
    for part in parts:
        if part is None:
            return None
        found.append(part)
    return Dual(*(np.concatenate(blocks, axis=-1) for blocks in zip(*found, strict=True)))


class KinkedProblem(NamedTuple):
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
    def of(cls, energy: Energy, k: int) -> KinkedProblem:
        """Problem ``k`` of some."""
        moments = energy.moments
        shape = (moments.design.shape[1], energy.target.shape[1])
        gain, precision = (
            np.broadcast_to(part, shape)[:, k] for part in (moments.coefficients.gain, energy.precision[:-1])
        )
        weight = np.broadcast_to(energy.weight, energy.target.shape)[:, k]
        centre, low, high, width = cast(PiecewiseLinear, energy.loss).interval(energy.target[:, k], weight)
        if energy.offset is not None:
            centre = centre - energy.offset[:, 0]
        kinks = [(centre, low, high)]
        if np.any(width):
            zero = np.zeros_like(width)
            kinks = [(centre - width, zero, high), (centre + width, low, zero)]
        centre, low, high = (np.stack(part, axis=1).astype(np.float64) for part in zip(*kinks, strict=True))
        return cls(moments.design, gain, precision / gain**2, centre, low, high, moments.fit_intercept)

    def of_rows(self, rows: Bool[np.ndarray, " n"]) -> KinkedProblem:
        """That of the rows which are marked; the others weigh nothing."""
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
