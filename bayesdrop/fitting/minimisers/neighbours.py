"""Where a fit at one rate of a path starts: on a curve through the fits before it.

The optimum ``w(η)`` is smooth in the angle ``θ = arcsin √η``, in which the noise's variance ``η(1 − η) = ¼ sin²(2θ)``
and its mean ``1 − η = cos²θ`` are smooth, and so is the standard deviation, on which a kinked loss depends near rate 0,
as ``√η`` is and ``η`` is not. The start is the polynomial in ``θ`` through the last ``d + 1`` optima at the new angle,
the predictor of continuation methods (Allgower & Georg 1990, chapter 6); Newton's method is the corrector. The degree
``d`` is the one that would have come nearest to the last optimum from those before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._typing import Float
from ...designs import Design
from ..shapes import WeightBlock
from ..state import SolverState

__all__ = ["Neighbours"]

# Optima that are kept: one more than the highest degree.
_KEPT = 5


class Neighbours:
    """The last fits along a path of fixed rates.

    Examples
    --------
    >>> near = Neighbours()
    >>> for rate in (0.1, 0.2, 0.3):
    ...     near.go_to(rate)
    ...     near.keep(np.array([[np.arcsin(np.sqrt(rate))], [0.0]]))
    >>> near.go_to(0.4)
    >>> bool(abs(near.start()[0, 0] - np.arcsin(np.sqrt(0.4))) < 1e-12)
    True
    """

    def __init__(self) -> None:
        self._angles: list[float] = []
        self._weights: list[WeightBlock] = []
        self._errors: list[float] = []
        self._state: SolverState | None = None
        self._design: Design | None = None
        self._angle = self.rate = 0.0

    def go_to(self, rate: float) -> None:
        """Set the rate of the next fit."""
        self.rate, self._angle = rate, float(np.arcsin(np.sqrt(rate)))

    def start(self) -> WeightBlock | None:
        """Weights (p + 1, K) at which to start there; None before the first fit."""
        if not self._angles:
            return None
        return self._predict(self._degree())

    def state_on(self, design: Design) -> SolverState | None:
        """What the minimiser knew at the last optimum; None if its rows were others, such as those about a centre."""
        return self._state if design is self._design else None

    def keep(self, weights: WeightBlock, state: SolverState | None = None, design: Design | None = None) -> None:
        """Keep an optimum, (p + 1, K), and the state that the minimiser ended in."""
        if self._weights and self._weights[-1].shape != weights.shape:
            self._angles, self._weights, self._errors = [], [], []
        # Squared and summed without BLAS, whose threads would wait for more at full load.
        self._errors = [float(np.sum((self._predict(d) - weights) ** 2)) for d in range(len(self._angles))]
        known = [k for k, angle in enumerate(self._angles) if angle != self._angle][1 - _KEPT :]
        self._angles = [*(self._angles[k] for k in known), self._angle]
        self._weights = [*(self._weights[k] for k in known), weights.copy()]
        self._state, self._design = state, design

    def _degree(self) -> int:
        """The degree that was best for the last optimum, or one more where that was the most that could be tried."""
        most = len(self._angles) - 1
        if not self._errors:
            return most
        best = int(np.argmin(self._errors))
        return min(best + (best == len(self._errors) - 1), most)

    def _predict(self, degree: int) -> WeightBlock:
        angles, weights = self._angles[-1 - degree :], self._weights[-1 - degree :]
        shares = _lagrange(angles, self._angle)
        return np.asarray(sum(share * part for share, part in zip(shares, weights, strict=True)))


def _lagrange(angles: Sequence[float], at: float) -> Float[np.ndarray, " d"]:
    """Shares of the values at some angles in the polynomial through them.

    Examples
    --------
    >>> _lagrange([0.0, 1.0], 3.0).tolist()
    [-2.0, 3.0]
    """
    known = np.array(angles)
    distance = known[:, None] - known + np.eye(len(known))
    away = np.where(np.eye(len(known), dtype=bool), 1.0, at - known)
    return np.asarray(np.prod(away / distance, axis=1))
