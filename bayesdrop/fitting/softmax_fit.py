"""Newton's method for the softmax: truncated steps on a second-order model that is never negative."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._typing import Float
from .driver import Trace, minimise
from .overflow import double_range
from .preconditioners import conjugate_gradient
from .protocols import OneProblem, StepInfo
from .softmax_energy import SoftmaxEnergy

__all__ = ["SoftmaxNewton", "SoftmaxState", "fit_softmax"]

# The fit without noise, from which that with noise starts, need be no more accurate.
_MODEST = 1e-2


@dataclass(frozen=True)
class SoftmaxState(OneProblem):
    """Where Newton's method is, and :meth:`SoftmaxEnergy.evaluate` there.

    Attributes
    ----------
    weights, gradient : array (p + 1, K)
        Weights of all classes and the gradient of the energy.
    value, remaining : array (1,)
        Energy and estimated suboptimality.
    probability, noise_curvature
        Softmax of the rows, and what the noise adds to the curvature.
    memory : float
        Size of the largest gradient so far.
    """

    weights: Float[np.ndarray, "q K"]
    value: Float[np.ndarray, " 1"]
    gradient: Float[np.ndarray, "q K"]
    probability: Any
    noise_curvature: Float[np.ndarray, "p K K"] | None
    remaining: Float[np.ndarray, " 1"]
    memory: float

    @classmethod
    def at(cls, weights: Any, evaluated: tuple[float, Any, Any, Any], remaining: float, memory: float) -> SoftmaxState:
        """The state at weights where the energy is evaluated."""
        value, gradient, probability, noise_curvature = evaluated
        return cls(weights, np.array([value]), gradient, probability, noise_curvature, np.array([remaining]), memory)

    @property
    def objective(self) -> Float[np.ndarray, " 1"]:
        """The energy; see :class:`bayesdrop.fitting.protocols.State`."""
        return self.value


@dataclass(frozen=True)
class SoftmaxNewton:
    """Truncated Newton's method with back-tracking, all classes jointly.

    Parameters
    ----------
    max_inner : int
        Most conjugate-gradient steps in one step.
    """

    max_inner: int = 500

    def init(self, energy: SoftmaxEnergy, weights: Any, earlier: SoftmaxState | None = None) -> SoftmaxState:
        """See :class:`bayesdrop.fitting.protocols.Minimiser`."""
        return SoftmaxState.at(weights, energy.evaluate(weights), np.inf, 0.0)

    def step(self, energy: SoftmaxEnergy, state: SoftmaxState, goal: Any) -> tuple[SoftmaxState, StepInfo]:
        """One step; see :class:`bayesdrop.fitting.protocols.Minimiser`."""
        shape, value, gradient = state.weights.shape, float(state.value[0]), state.gradient
        precondition = energy.preconditioner(state.probability, state.noise_curvature)
        size = float(np.sum(gradient * precondition(gradient)))
        reference = max(state.memory, size, np.finfo(float).tiny)
        direction, _, _ = conjugate_gradient(
            lambda u: (energy.product(state.probability, state.noise_curvature, u.reshape(shape)).reshape(-1, 1), ()),
            -gradient.reshape(-1, 1),
            lambda r: precondition(r.reshape(shape)).reshape(-1, 1),
            np.array([min(0.1, (size / reference) ** 0.25)]),
            self.max_inner,
        )
        direction = direction.reshape(shape)
        slope = float(np.sum(gradient * direction))
        slack = 8 * np.finfo(float).eps * abs(value)
        length = 1.0
        while length > 1e-10 and -slope > 0:
            there = state.weights + length * direction
            evaluated = energy.evaluate(there)
            if evaluated[0] <= value + 1e-4 * length * slope + slack:
                # The decrement of a truncated step, with a margin of four.
                return SoftmaxState.at(there, evaluated, -2 * slope, reference), StepInfo(np.array([True]))
            length *= 0.5
        return replace(state, remaining=np.array([-0.5 * slope]), memory=reference), StepInfo(np.array([False]))


@double_range()
def fit_softmax(
    energy: SoftmaxEnergy, weights: Float[np.ndarray, "q K"], tol: float, max_iter: int
) -> tuple[Float[np.ndarray, "q K"], Trace]:
    """Minimise the energy from the weights; without noise first, since the noised one is not convex."""
    if energy.noisy and not np.any(weights):
        plain = replace(energy, noise_weight=0 * energy.noise_weight)
        weights, _ = fit_softmax(plain, weights, max(tol, _MODEST), max_iter)
    method, trace = SoftmaxNewton(), Trace()
    state, _ = minimise(method, energy, method.init(energy, weights), tol, max_iter, trace)
    return state.weights, trace
