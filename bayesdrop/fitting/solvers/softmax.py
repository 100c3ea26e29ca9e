"""Newton's method for the softmax: truncated steps on a second-order model that is never negative.

Secant pairs: what the last steps have shown of the curvature (Nocedal & Wright 2006, section 7.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from ..._typing import Float
from ...designs.threads import one_blas_thread
from ...linalg.systems import Apply, conjugate_gradient, double_range
from ..objective.softmax_energy import NoiseCurvature, SoftmaxEnergy, centred
from .driver import OneProblem, StepInfo, Trace, minimise
from .preconditioners import choose_preconditioner

__all__ = ["Pair", "SoftmaxNewton", "SoftmaxState", "fit_softmax", "remember", "two_loops"]


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
    pairs : tuple of Pair
        What the last steps changed.
    factored : tuple, optional
        Preconditioner of an earlier step, and how many it has served, while it does.
    """

    weights: Float[np.ndarray, "q K"]
    value: Float[np.ndarray, " 1"]
    gradient: Float[np.ndarray, "q K"]
    probability: Any
    noise_curvature: NoiseCurvature | None
    remaining: Float[np.ndarray, " 1"]
    memory: float
    pairs: tuple[Pair, ...] = ()
    factored: tuple[Apply, int] | None = None

    @classmethod
    def at(
        cls,
        weights: Any,
        evaluated: tuple[float, Any, Any, Any],
        remaining: float,
        memory: float,
        pairs: tuple[Pair, ...] = (),
        factored: tuple[Apply, int] | None = None,
    ) -> SoftmaxState:
        """The state at weights where the energy is evaluated."""
        value, slope, softmax, curvature = evaluated
        left = np.array([remaining])
        return cls(weights, np.array([value]), slope, softmax, curvature, left, memory, pairs, factored)

    @property
    def objective(self) -> Float[np.ndarray, " 1"]:
        """The energy; see :class:`bayesdrop.fitting.solvers.driver.State`."""
        return self.value


@dataclass(frozen=True)
class SoftmaxNewton:
    """Newton's method with back-tracking, all classes jointly: truncated solutions of the model, corrected by secants.

    With noise the model leaves out that the penalty follows the means, and its steps alone are twice too long; the last
    steps show what it leaves out. Without noise it is exact. A product with the model of large data costs a third of
    the energy itself, and there the preconditioner with the last steps stands for it until the optimum is near, which
    the model then confirms.

    Parameters
    ----------
    max_inner : int
        Most conjugate-gradient steps in one step.
    modest : float
        Accuracy of the fit without noise, from which that with noise starts.
    short : float
        A step by the preconditioner and the secants that would have to be shorter is one by the model.
    steps : int
        That a factor of dense rows serves.
    near : float
        What must remain, relative to the goal, for the model to be solved on sparse data with noise.
    aim : float
        Share of the goal that the last step aims at.
    shared : int
        Weights of all classes from which on they share one factor, each on its scale: it takes more steps to a
        solution, which cost less than a factor of each class.
    """

    max_inner: int = 500
    modest: float = 1e-2
    short: float = 0.1
    steps: int = 4
    near: float = 4.0
    aim: float = 0.25
    shared: int = 600

    def init(self, energy: SoftmaxEnergy, weights: Any, earlier: SoftmaxState | None = None) -> SoftmaxState:
        """See :class:`bayesdrop.fitting.solvers.driver.Minimiser`."""
        weights = centred(weights)
        factored = None if earlier is None else earlier.factored
        return SoftmaxState.at(weights, energy.evaluate(weights), np.inf, 0.0, factored=factored)

    def step(self, energy: SoftmaxEnergy, state: SoftmaxState, goal: Any) -> tuple[SoftmaxState, StepInfo]:
        """One step; where no length will do it is tried once more by the model, without the secants."""
        value, gradient = float(state.value[0]), state.gradient
        design = energy.moments.design
        precondition, age = state.factored or (self._preconditioner(energy, state), 0)
        size = float(np.sum(gradient * precondition(gradient)))
        reference = max(state.memory, size, np.finfo(float).tiny)
        far = state.remaining[0] > self.near * goal[0] if energy.noisy else size > self.modest * abs(value)
        far = bool(far and not (design.prefers_gram or design.prefers_outer_gram))
        slack = 8 * np.finfo(float).eps * abs(value)
        slope = 0.0
        seen = state.pairs if energy.noisy or far else ()
        tries: list[tuple[tuple[Pair, ...], bool]] = [(seen, far), ((), False)] if seen or far else [((), False)]
        for pairs, scaled in tries:
            if scaled:
                inverse = _scaled(precondition, pairs, gradient)
            else:
                inner = min(0.3 if energy.noisy else 0.1, (size / reference) ** 0.25)
                # No more accuracy than the goal asks for: what is left falls by the square of the relative residual.
                inner = max(inner, min(0.5, float(np.sqrt(self.aim * goal[0] / max(state.remaining[0], goal[0])))))
                inverse = partial(self._solve, energy, state, precondition, inner)
            # The gradient sums to zero over the classes, and so does the best direction.
            direction = centred(two_loops(gradient, pairs, inverse))
            slope, length = float(np.sum(gradient * direction)), 1.0
            while length > (self.short if scaled else 1e-10) and -slope > 0:
                there = state.weights + length * direction
                reached, rest = energy.begin(there)
                if reached <= value + 1e-4 * length * slope + slack:
                    evaluated = reached, *rest()
                    pairs = remember(pairs, length * direction, evaluated[1] - gradient)
                    serves = design.prefers_gram and length == 1.0 and age + 1 < self.steps
                    kept = (precondition, age + 1) if serves else None
                    # The decrement of a truncated step, with a margin of four.
                    # A step that gains nothing which the energy can show, nor less than half of the one before.
                    unseen = -slope <= np.finfo(float).eps * abs(value)
                    spent = unseen and -4 * slope > state.remaining[0]
                    moved = SoftmaxState.at(there, evaluated, -2 * slope, reference, pairs, kept)
                    return moved, StepInfo(np.array([not spent]))
                length *= 0.5
        return replace(state, remaining=np.array([-0.5 * slope]), memory=reference), StepInfo(np.array([False]))

    def _solve(
        self,
        energy: SoftmaxEnergy,
        state: SoftmaxState,
        precondition: Apply,
        tolerance: float,
        right: Float[np.ndarray, "q K"],
    ) -> Float[np.ndarray, "q K"]:
        """The model's inverse Hessian times a right-hand side, to a relative tolerance."""
        shape = right.shape
        solution, _, _ = conjugate_gradient(
            lambda u: (energy.product(state.probability, state.noise_curvature, u.reshape(shape)).reshape(-1, 1), ()),
            right.reshape(-1, 1),
            lambda r: precondition(r.reshape(shape)).reshape(-1, 1),
            np.array([tolerance]),
            self.max_inner,
        )
        return solution.reshape(shape)

    def _preconditioner(self, energy: SoftmaxEnergy, state: SoftmaxState) -> Apply:
        """Approximate inverse of the model's Hessian, (p + 1, K) to the same; it leaves out what couples the classes.

        It is far off where all classes move equally, and there the gradient has no part.
        """
        parts = energy.by_class(state.probability, state.noise_curvature)
        columns = min(200, self.shared // energy.n_classes)
        return choose_preconditioner(energy.moments.design, columns).prepare(energy.moments, *parts)


def _scaled(precondition: Apply, pairs: tuple[Pair, ...], gradient: Float[np.ndarray, "q K"]) -> Apply:
    """The preconditioner times a number: from the last pair, or so that the first step gains one at most."""
    if pairs:
        last = pairs[-1]
        scale = 1 / (last.inverse * float(np.vdot(last.change, precondition(last.change))))
    else:
        scale = min(1.0, float(np.vdot(gradient, precondition(gradient))) ** -0.5)
    return lambda right: scale * precondition(right)


@double_range()
@one_blas_thread()
def fit_softmax(
    energy: SoftmaxEnergy,
    weights: Float[np.ndarray, "q K"],
    tol: float,
    max_iter: int,
    earlier: SoftmaxState | None = None,
) -> tuple[SoftmaxState, Trace]:
    """Minimise the energy from the weights; without noise first, since the noised one is not convex.

    Of an ``earlier`` fit, at other rates, the preconditioner serves on.
    """
    method, trace = SoftmaxNewton(), Trace()
    if energy.noisy and not np.any(weights):
        earlier, _ = fit_softmax(energy.without_noise(), weights, max(tol, method.modest), max_iter)
        weights = earlier.weights
    state, _ = minimise(method, energy, method.init(energy, weights, earlier), tol, max_iter, trace)
    return state, trace


class Pair(NamedTuple):
    """A step, what it changed in the slope, and one over their product."""

    step: Float[np.ndarray, ...]
    change: Float[np.ndarray, ...]
    inverse: float


def remember(
    pairs: tuple[Pair, ...], step: Float[np.ndarray, ...], change: Float[np.ndarray, ...], most: int = 10
) -> tuple[Pair, ...]:
    """The last ten pairs with this one, unless no curvature was seen along the step, for any units of its numbers.

    Examples
    --------
    >>> len(remember((), np.ones(2), np.ones(2))), len(remember((), np.ones(2), -np.ones(2)))
    (1, 0)
    """
    curvature = float(np.vdot(step, change))
    if curvature > np.finfo(float).eps * float(np.vdot(np.abs(step), np.abs(change))):
        return (*pairs, Pair(step, change, 1 / curvature))[-most:]
    return pairs


def two_loops(
    slope: Float[np.ndarray, ...],
    pairs: Sequence[Pair],
    inverse: Callable[[Float[np.ndarray, ...]], Float[np.ndarray, ...]],
) -> Float[np.ndarray, ...]:
    """Minus an inverse Hessian times the slope (theirs, algorithm 7.4).

    Parameters
    ----------
    slope : array
        Of any shape.
    pairs : sequence of Pair
        The oldest first.
    inverse : callable
        A first inverse Hessian, which the pairs correct.

    Examples
    --------
    One pair gives the exact curvature along its step:

    >>> pair = Pair(np.array([1.0, 0.0]), np.array([4.0, 0.0]), 0.25)
    >>> two_loops(np.array([2.0, 0.0]), [pair], lambda slope: slope).tolist()
    [-0.5, 0.0]
    """
    direction, shares = np.array(-slope, dtype=float, order="C"), []
    for pair in reversed(pairs):
        share = pair.inverse * float(np.vdot(pair.step, direction))
        _add(direction, -share, pair.change)
        shares.append(share)
    # It may be given back what it was given, or a part of something else.
    direction = np.array(inverse(direction), dtype=float, order="C")
    for pair, share in zip(pairs, reversed(shares), strict=True):
        _add(direction, share - pair.inverse * float(np.vdot(pair.change, direction)), pair.step)
    return direction


def _add(total: Float[np.ndarray, ...], share: float, part: Float[np.ndarray, ...]) -> None:
    """Add ``share × part`` to ``total``, doubles side by side, in one pass and without a temporary."""
    daxpy(part.ravel(), total.reshape(-1), a=share)
