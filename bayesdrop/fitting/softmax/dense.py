"""Newton's method for the softmax with noise on tables: one factor of the second-order model for several steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._typing import Float
from ..protocols import OneProblem, StepInfo
from ..solvers.secants import Pair, remember, two_loops
from .energy import SoftmaxEnergy
from .hessian import MOST_COORDINATES, SoftmaxHessian

__all__ = ["DenseState", "DenseNewton", "has_matrix", "is_spent"]

# Steps after which the model is taken anew.
_OLD = 15


def has_matrix(energy: SoftmaxEnergy) -> bool:
    """True if the Hessian is small enough to be one matrix, its rows are here, and classes share their masks."""
    design, J = energy.moments.design, energy.n_classes - 1
    if not design.prefers_gram or energy.class_masks or (design.shape[1] + 1) * J > MOST_COORDINATES:
        return False
    return isinstance(design.zeros(1), np.ndarray) and len(energy.code) == design.shape[0]


def is_spent(state: Any, slope: float) -> bool:
    """True if a step of such a slope gains nothing that the energy can show, nor less than half of the step before."""
    unseen = -slope <= np.finfo(float).eps * abs(float(state.value[0]))
    return bool(unseen and -4 * slope > state.remaining[0])


@dataclass(frozen=True)
class DenseState(OneProblem):
    """Where the method is, and what it knows of the curvature.

    Attributes
    ----------
    weights, gradient : array (p + 1, K)
        Weights of all classes, which sum to zero over them, and the gradient of the energy.
    value, remaining : array (1,)
        Energy and estimated suboptimality.
    hessian : SoftmaxHessian, optional
        At one of the last weights.
    age : int
        Steps since it was taken.
    pairs : tuple of Pair
        What the steps since then changed.
    """

    weights: Float[np.ndarray, "q K"]
    value: Float[np.ndarray, " 1"]
    gradient: Float[np.ndarray, "q K"]
    remaining: Float[np.ndarray, " 1"]
    hessian: SoftmaxHessian | None = None
    age: int = 0
    pairs: tuple[Pair, ...] = ()

    @property
    def objective(self) -> Float[np.ndarray, " 1"]:
        """The energy; see :class:`bayesdrop.fitting.protocols.State`."""
        return self.value


@dataclass(frozen=True)
class DenseNewton:
    """Steps by a factor of the Hessian and the secants since it was taken, with back-tracking."""

    def init(
        self, energy: SoftmaxEnergy, weights: Float[np.ndarray, "q K"], earlier: DenseState | None = None
    ) -> DenseState:
        """See :class:`bayesdrop.fitting.protocols.Minimiser`; the Hessian of earlier rates is near enough to start."""
        weights = weights - weights.mean(axis=1, keepdims=True)
        value, gradient = energy.evaluate(weights)[:2]
        known = None if earlier is None else earlier.hessian
        age = 0 if earlier is None else earlier.age
        return DenseState(weights, np.array([value]), gradient, np.full(1, np.inf), known, age)

    def step(
        self, energy: SoftmaxEnergy, state: DenseState, goal: Float[np.ndarray, " 1"]
    ) -> tuple[DenseState, StepInfo]:
        """One step; where no length will do, or the last one left too much, the Hessian is taken anew."""
        value, gradient = float(state.value[0]), state.gradient
        slack = 8 * np.finfo(float).eps * abs(value)
        slope = 0.0
        young = state.hessian is not None and state.age < _OLD
        for known in (state.hessian, None) if young else (None,):
            fresh = known is None
            hessian = SoftmaxHessian.at(energy, state.weights, whole=False) if known is None else known
            pairs = () if fresh else state.pairs
            direction = two_loops(gradient, pairs, hessian.solve)
            slope, length = float(np.sum(gradient * direction)), 1.0
            while length > 1e-10 and -slope > 0:
                there = state.weights + length * direction
                after, bent = energy.evaluate(there)[:2]
                if after <= value + 1e-4 * length * slope + slack:
                    pairs = remember(pairs, length * direction, bent - gradient)
                    there -= there.mean(axis=1, keepdims=True)
                    left = np.array([-2 * slope])  # the decrement of the step, with a margin of four
                    moved = DenseState(
                        there, np.array([after]), bent, left, hessian, 1 if fresh else state.age + 1, pairs
                    )
                    return moved, StepInfo(np.array([not is_spent(state, slope)]))
                length *= 0.5
        return replace(state, remaining=np.array([-0.5 * slope])), StepInfo(np.array([False]))
