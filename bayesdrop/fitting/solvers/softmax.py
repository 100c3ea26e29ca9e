"""Newton's method for the softmax: truncated steps on a positive semidefinite model, for fits of many classes.

Secant pairs of the last steps correct the curvature of the model (Nocedal & Wright 2006, section 7.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Bool, Float
from ...linalg.systems import Apply, conjugate_gradient
from ..objective.softmax_energy import SoftmaxEnergy, centred
from .driver import OneProblem, Trace, minimise
from .preconditioners import choose_preconditioner

__all__ = ["Pair", "SoftmaxNewton", "SoftmaxState", "remember", "start_without_noise", "two_loops"]


@dataclass(frozen=True)
class SoftmaxState(OneProblem):
    """Weights of a step of Newton's method, and :meth:`SoftmaxEnergy.evaluate` at these weights.

    Attributes
    ----------
    weights, gradient : array (p + 1, K)
        Weights of all classes and the gradient of the energy.
    value, remaining : array (1,)
        Energy and estimated suboptimality.
    probability, diagonal
        Class probabilities of the rows, and the part of prior and noise in the diagonal of the model.
    largest : float
        Largest squared size of a gradient so far.
    pairs : tuple of Pair
        Steps and changes of the gradient, the oldest first.
    """

    weights: Float[np.ndarray, "q K"]
    value: Float[np.ndarray, " 1"]
    gradient: Float[np.ndarray, "q K"]
    probability: Any
    diagonal: Float[np.ndarray, "q K"]
    remaining: Float[np.ndarray, " 1"]
    largest: float = 0.0
    pairs: tuple[Pair, ...] = ()

    @property
    def objective(self) -> Float[np.ndarray, " 1"]:
        """The energy; see :class:`bayesdrop.fitting.solvers.driver.State`."""
        return self.value


@dataclass(frozen=True)
class SoftmaxRules:
    """Accuracy and length of the steps.

    Attributes
    ----------
    products : int
        Maximum number of conjugate-gradient steps in one step.
    modest : float
        Accuracy of the fit without noise, from which the fit with noise starts.
    residual, noisy_residual : float
        Largest relative residual of a step without and with noise, far from the optimum.
    aim : float
        Share of the goal that the last step aims at.
    gain : float
        A step that gains less than this share of its slope (a perfect model gains half) is halved.
    shortest : float
        Minimum length of a step.
    """

    products: int = 500
    modest: float = 1e-2
    residual: float = 0.1
    noisy_residual: float = 0.3
    aim: float = 0.25
    gain: float = 1e-4
    shortest: float = 1e-10


RULES = SoftmaxRules()


@dataclass(frozen=True)
class SoftmaxNewton:
    """Newton's method with back-tracking for all classes jointly: truncated steps of the model, corrected by secants.

    With noise the model omits that the penalty depends on the mean scores, and its steps alone are twice too long; the
    secant pairs supply this part of the curvature. Without noise it is exact. See :class:`.driver.FitMethod`.
    """

    tol: float
    max_iter: int

    def init(self, energy: SoftmaxEnergy, weights: Any, earlier: SoftmaxState | None = None) -> SoftmaxState:
        """See :class:`bayesdrop.fitting.solvers.driver.Minimiser`; reuses secants from similar rates."""
        weights = centred(weights)
        value, gradient, probability, diagonal = energy.evaluate(weights)
        state = SoftmaxState(weights, np.array([value]), gradient, probability, diagonal, np.array([np.inf]))
        return state if earlier is None else replace(state, largest=earlier.largest, pairs=earlier.pairs)

    def step(
        self, energy: SoftmaxEnergy, state: SoftmaxState, goal: Any
    ) -> tuple[SoftmaxState, Bool[np.ndarray, " K"]]:
        """Make one step; if no length lowers the energy, try another model of it."""
        for model in _models(energy, state):
            ended = _descend(energy, state, model, goal)
            if moved := ended.weights is not state.weights:
                break
        # No progress: the gain is below rounding, and more than half of the gain of the step before.
        left, unseen = ended.remaining, 2 * np.finfo(float).eps * np.abs(state.value)
        return ended, moved & ((left > unseen) | (2 * left <= state.remaining))


def _models(energy: SoftmaxEnergy, state: SoftmaxState) -> Iterator[SoftmaxState]:
    """The states whose curvature a step may use: with secants, without them, and that of zero weights.

    Where rows are certain of a wrong class the gradient is largest and the curvature vanishes, so that a step is too
    long by orders of magnitude. At zero weights all rows have curvature.
    """
    yield state
    if state.pairs:
        yield replace(state, pairs=())
    _, _, probability, diagonal = energy.evaluate(np.zeros_like(state.weights))
    yield replace(state, probability=probability, diagonal=diagonal, pairs=())


def _descend(energy: SoftmaxEnergy, state: SoftmaxState, model: SoftmaxState, goal: Any) -> SoftmaxState:
    """State after a step with the curvature of ``model``; with the same weights if no length lowers the energy."""
    gradient, value = state.gradient, float(state.value[0])
    # Precondition by the blocks of single classes. They are poor only for equal changes of all classes, a direction
    # without gradient.
    precondition = choose_preconditioner(energy.moments.design, similar=True).prepare(
        energy.moments, energy.class_weight(model.probability), model.diagonal
    )
    size = float(np.sum(gradient * precondition(gradient)))
    largest = max(state.largest, size, np.finfo(float).tiny)
    tolerance = min(RULES.noisy_residual if energy.noisy else RULES.residual, (size / largest) ** 0.25)
    # Solve only as accurately as the goal needs: the suboptimality falls by the square of the relative residual.
    left = max(state.remaining[0], goal[0])
    tolerance = max(tolerance, min(0.5, (RULES.aim * goal[0] / left) ** 0.5))
    # The gradient sums to zero over the classes, and so does the best direction.
    direction = centred(two_loops(gradient, model.pairs, partial(_solve, energy, model, precondition, tolerance)))
    slope, length = float(np.sum(gradient * direction)), 1.0
    slack = 8 * np.finfo(float).eps * abs(value)
    while length > RULES.shortest and slope < 0:
        weights = state.weights + length * direction
        reached, derivatives = energy.begin(weights)
        if reached <= value + RULES.gain * length * slope + slack:
            evaluated = derivatives()
            seen = remember(model.pairs, length * direction, evaluated[0] - gradient) if energy.noisy else ()
            # Estimate the suboptimality as four times half the decrement.
            return SoftmaxState(weights, np.array([reached]), *evaluated, np.array([-2 * slope]), largest, seen)
        length *= 0.5
    return replace(state, remaining=np.array([-0.5 * slope]))


def _solve(
    energy: SoftmaxEnergy, state: SoftmaxState, precondition: Apply, tolerance: float, right: Float[np.ndarray, "q K"]
) -> Float[np.ndarray, "q K"]:
    """Inverse Hessian of the model times a right-hand side, to a relative tolerance."""
    shape = right.shape
    solution, _, _ = conjugate_gradient(
        lambda u: (energy.product(state.probability, state.diagonal, u.reshape(shape)).reshape(-1, 1), ()),
        right.reshape(-1, 1),
        lambda r: precondition(r.reshape(shape)).reshape(-1, 1),
        np.array([tolerance]),
        RULES.products,
    )
    return solution.reshape(shape)


def start_without_noise(
    energy: SoftmaxEnergy, weights: Float[np.ndarray, "q K"], method: SoftmaxNewton
) -> Float[np.ndarray, "q K"]:
    """Weights to start from: those given, or a fit without noise, because with noise the energy is not convex.

    At weights with more energy than zero weights the scores may be so large that no step leads on.
    """
    zero = np.zeros_like(weights)
    if np.any(weights) and energy.value(weights) <= energy.value(zero):
        return weights
    if not energy.noisy:
        return zero
    easier, method = energy.without_noise(), replace(method, tol=max(method.tol, RULES.modest))
    return minimise(method, easier, method.init(easier, zero), method.tol, method.max_iter, Trace())[0].weights


class Pair(NamedTuple):
    """A secant pair: a step, the change of the gradient along it, and the inverse of their product."""

    step: Float[np.ndarray, ...]
    change: Float[np.ndarray, ...]
    inverse: float


def remember(
    pairs: tuple[Pair, ...], step: Float[np.ndarray, ...], change: Float[np.ndarray, ...], limit: int = 10
) -> tuple[Pair, ...]:
    """Append a pair and keep the last ``limit``; without positive curvature along the step, at any scale, add none.

    Examples
    --------
    >>> len(remember((), np.ones(2), np.ones(2))), len(remember((), np.ones(2), -np.ones(2)))
    (1, 0)
    """
    curvature = float(np.vdot(step, change))
    if curvature > np.finfo(float).eps * float(np.vdot(np.abs(step), np.abs(change))):
        return (*pairs, Pair(step, change, 1 / curvature))[-limit:]
    return pairs


def two_loops(
    slope: Float[np.ndarray, ...],
    pairs: Sequence[Pair],
    inverse: Callable[[Float[np.ndarray, ...]], Float[np.ndarray, ...]],
) -> Float[np.ndarray, ...]:
    """Minus an inverse Hessian times the slope (Nocedal & Wright 2006, algorithm 7.4).

    Parameters
    ----------
    slope : array
        Slope, of any shape.
    pairs : sequence of Pair
        Secant pairs, the oldest first.
    inverse : callable
        A first inverse Hessian, which the pairs correct.

    Examples
    --------
    One pair gives the exact curvature along its step:

    >>> pair = Pair(np.array([1.0, 0.0]), np.array([4.0, 0.0]), 0.25)
    >>> two_loops(np.array([2.0, 0.0]), [pair], lambda slope: slope).tolist()
    [-0.5, 0.0]
    """
    direction, shares = -slope, []
    for pair in reversed(pairs):
        share = pair.inverse * float(np.vdot(pair.step, direction))
        direction -= share * pair.change
        shares.append(share)
    direction = inverse(direction)
    for pair, share in zip(pairs, reversed(shares), strict=True):
        direction = direction + (share - pair.inverse * float(np.vdot(pair.change, direction))) * pair.step
    return direction
