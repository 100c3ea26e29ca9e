"""Run a minimiser of an energy until it converges, and report its status.

The driver runs Newton's method and EM on K linear problems, Newton's method for the softmax, and the alternating
updates of a hidden layer, whose L-BFGS is SciPy's. The ascent of the mean field
(:mod:`bayesdrop.variational_bayes.fitting`) does not use it, because a cycle of the ascent has one or two steps and
updates its state, a number for each non-zero entry of the data, in place.

A minimiser provides

    init(energy, weights) → state,        step(energy, state, goal) → (state, moved)

A state holds what the next step needs: the weights, the energy, and the memory of the method. Steps change nothing in
place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from ..._progress import step
from ..._typing import Bool, Float
from ..._validation import check_count, check_instance, check_number
from ...warnings import warn
from ..objective.energy import FeatureBlock, ProblemVector

__all__ = [
    "LOOSE",
    "FitMethod",
    "Minimiser",
    "OneProblem",
    "State",
    "Status",
    "Trace",
    "accuracy",
    "announce",
    "check_minimiser",
    "least_weights",
    "minimise",
    "status_at",
]

_log = logging.getLogger("bayesdrop")

# Smallest tolerance of a loose fit, such as a fit to a fold. It ends by an estimate, without the two more steps that a
# bound needs, even if signs of tiny weights have just changed and the rates with them.
LOOSE = 1e-4


class Status(Enum):
    """How a fit ended; the value says what to do."""

    CONVERGED = "Converged: the relative suboptimality is below tol."
    MAX_ITERATIONS = (
        "Stopped at max_iter, or where no step led on, before the tolerance was met: raise max_iter, loosen tol, or "
        "standardise the features."
    )
    ROUND_OFF = (
        "No further decrease in double precision: the optimum is reached to round-off, and tol is tighter than that."
    )
    RATES_UNSETTLED = (
        "The learnt rates did not settle: some weights keep changing sign. A prior with more strength, a smaller C "
        "or shared or group rates steady them."
    )
    ALL_ZERO = (
        "Converged with all weights zero (of one class at least, if there are several): the features say nothing of y "
        "at these rates and this C, and every prediction is that of the intercept. Look for features that are zero, "
        "constant or unrelated to y; else raise C, lower the rates or loosen the weight prior."
    )

    def __reduce__(self) -> tuple[type[Status], tuple[str]]:
        """Call that restores the status; skops, unlike pickle, uses ``__reduce__`` only."""
        return type(self), (self.value,)

    @property
    def is_unfinished(self) -> bool:
        """True if the fit ended before the optimum, which is worth a warning."""
        return self in (Status.MAX_ITERATIONS, Status.RATES_UNSETTLED)


@dataclass
class Trace:
    """Objective of each problem per iteration, (K,) each, and how the run ended."""

    values: list[ProblemVector] = field(default_factory=list)
    status: Status = Status.MAX_ITERATIONS
    iterations: int = 0


def minimise(
    method: Minimiser[Any, Any],
    energy: Any,
    state: Any,
    tol: float,
    max_iter: int,
    trace: Trace,
    done: Bool[np.ndarray, " K"] | None = None,
) -> tuple[Any, Bool[np.ndarray, " K"]]:
    """Step until each problem's estimated suboptimality is below its goal, ``tol`` times its energy or less.

    Parameters
    ----------
    method : Minimiser
        Minimiser that makes the steps.
    energy
        Energy of the K problems; ``select(columns)`` restricts it to the unfinished ones.
    state : State
        Where to start, ``method.init(energy, weights)``.
    tol : float
        Relative suboptimality.
    max_iter : int
        Maximum number of steps.
    trace : Trace
        Receives the objectives after every step, and the status.
    done : bool array (K,), optional
        Problems to leave unchanged.

    Returns
    -------
    state : State
        Final state.
    done : bool array (K,)
        Which problems are done.
    """
    K = len(state.value)
    # Some problems may have ended before the first step.
    goal = state.goal(energy, tol)
    ended = state.has_ended(energy, goal)
    done, stuck = ended | (False if done is None else done), ended & (state.remaining > goal)
    if np.all(done):
        trace.iterations += 1
        trace.values.append(state.objective)
        trace.status = _end(stuck, state)
        return state, done
    for _ in range(max_iter):
        live = np.flatnonzero(~done)
        whole = len(live) == K
        part, block = (state, energy) if whole else (state.select(live), energy.select(live))
        goal = part.goal(block, tol)
        part, moved = method.step(block, part, goal)
        # The energy may have fallen by orders of magnitude, and its goal with it.
        goal = part.goal(block, tol)
        part, rough = part.refine(block, goal, moved)
        # NaN, of an overflow, is not below its goal.
        stuck[live] = ~moved & ~(part.remaining <= goal)
        done[live] = ((part.remaining <= goal) | ~moved) & ~rough
        state = part if whole else state.merge(live, part)
        trace.iterations += 1
        trace.values.append(state.objective)
        step()
        if _log.isEnabledFor(logging.DEBUG):
            left = float(np.max(state.remaining / np.maximum(np.abs(state.value), np.finfo(float).tiny)))
            _log.debug(
                "iteration %d: objective %.10g, relative suboptimality %.1e, %d of %d problems left",
                trace.iterations, np.sum(state.objective), left, K - int(np.sum(done)), K,
            )  # fmt: skip
        if np.all(done):
            trace.status = _end(stuck, state)
            return state, done
    trace.status = Status.MAX_ITERATIONS
    return state, done


def _end(stuck: Bool[np.ndarray, " K"], state: Any) -> Status:
    """Status of a run whose ``stuck`` problems are above their goals: close to their optimum, or not."""
    if not np.any(stuck):
        return Status.CONVERGED
    is_close = state.remaining <= LOOSE * np.abs(state.value)
    return Status.ROUND_OFF if np.all(is_close | ~stuck) else Status.MAX_ITERATIONS


def announce(status: Status, iterations: int) -> None:
    """Log how a fit ended, and warn if it did not finish."""
    _log.info("fit after %d iterations: %s", iterations, status.value)
    if status.is_unfinished:
        from sklearn.exceptions import ConvergenceWarning

        warn(status.value, ConvergenceWarning)


def least_weights(
    weights: FeatureBlock,
    value: ProblemVector,
    precision: Float[np.ndarray, "p 1"],
    squares: Callable[[], FeatureBlock],
    share: float = 1e-20,
) -> FeatureBlock:
    """Largest sizes (p, K) of weights that count as zero up to rounding.

    The curvature of the energy in a weight is about ``h = P + (X²)ᵀc``, and ``½w²h`` is compared with the energy, so
    that the units of the features do not matter.

    Parameters
    ----------
    weights : array (p, K)
        Weights without the intercepts.
    value : array (K,)
        Energies.
    precision : array (p, 1)
        Prior precision ``P``.
    squares : function
        Returns ``(X²)ᵀc``, (p, K) or (p, 1); called only if a weight is tiny for its prior.
    share : float
        Largest ``½w²h`` that counts as zero, as a share of the energy.

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> [bool((abs(w) <= least_weights(w, one[0], one, lambda: 1e24 * one))[0, 0]) for w in (1e-12 * one, 1e-24 * one)]
    [False, True]
    """
    level = share * np.abs(value)
    smallest_weights = np.sqrt(level / np.maximum(precision, np.finfo(float).tiny))
    return np.sqrt(level / (precision + squares())) if np.any(np.abs(weights) <= smallest_weights) else smallest_weights


def status_at(weights: FeatureBlock, smallest_weights: FeatureBlock, status: Status) -> Status:
    """``status``, or ``ALL_ZERO`` if the fit has finished and a problem has no weight above ``smallest_weights``."""
    zero = np.all(np.abs(weights) <= smallest_weights, axis=0)
    return Status.ALL_ZERO if len(weights) and bool(np.any(zero)) and not status.is_unfinished else status


EnergyType = TypeVar("EnergyType", contravariant=True)
StateType = TypeVar("StateType")
Own = TypeVar("Own")


def accuracy(tol: float, weights: float = 1e4) -> float:
    """Relative suboptimality of a smooth energy at which the energy and the weights both meet a tolerance.

    At the relative suboptimality ``δ²/2`` the distance to the optimum and the gradient are ``δ``, in units of the
    curvature. The suboptimality must be at most ``tol`` and the distance at most ``10⁴ tol``, which for the default
    1e-8 gives the same bound.

    Examples
    --------
    >>> [f"{accuracy(tol):.0e}" for tol in (1e-4, 1e-8, 1e-12)]
    ['1e-04', '1e-08', '1e-16']
    """
    return min(tol, (weights * tol) ** 2)


@runtime_checkable
class State(Protocol):
    """Protocol of the state of a minimiser, for ``K`` problems."""

    @property
    def value(self) -> Float[np.ndarray, " K"]:
        """Energy of each problem."""

    @property
    def objective(self) -> Float[np.ndarray, " K"]:
        """Energy of each problem for the trace; ``value`` may be smoothed."""

    @property
    def remaining(self) -> Float[np.ndarray, " K"]:
        """Estimated suboptimality."""

    def goal(self, energy: Any, tol: float) -> Float[np.ndarray, " K"]:
        """Suboptimality of each problem at which a fit with the tolerance ends; see :func:`accuracy`."""

    def has_ended(self, energy: Any, goal: Any) -> Bool[np.ndarray, " K"]:
        """Mask of the problems that are at their goals before a step, or that a step cannot improve."""

    def select(self: Own, columns: Any) -> Own:
        """The state of some problems."""

    def merge(self: Own, columns: Any, part: Own) -> Own:
        """Replace some problems by those of ``part``."""

    def refine(self: Own, energy: Any, goal: Any, moved: Any) -> tuple[Own, Bool[np.ndarray, " K"]]:
        """Reduce the smoothing; return also the mask of the problems whose smoothing is still too large.

        ``goal`` (K,) is the suboptimality to reach, and ``moved`` (K,) marks the problems that the last step changed.
        """


class OneProblem:
    """Base of the states of a single problem: nothing is selected, and the energy is minimised without smoothing."""

    value: Any
    remaining: Any

    def goal(self, energy: Any, tol: float) -> Float[np.ndarray, " 1"]:
        """Goal for the energy and the gradient; see :class:`State`."""
        return accuracy(tol) * np.maximum(np.abs(self.value), np.finfo(float).tiny)

    def has_ended(self, energy: Any, goal: Any) -> Bool[np.ndarray, " 1"]:
        """Whether the problem is at its goal; see :class:`State`."""
        return np.asarray(self.remaining <= goal)

    def select(self: Own, columns: Any) -> Own:
        """The state itself; see :class:`State`."""
        return self

    def merge(self: Own, columns: Any, part: Own) -> Own:
        """``part``, the whole state; see :class:`State`."""
        return part

    def refine(self: Own, energy: Any, goal: Any, moved: Any) -> tuple[Own, Bool[np.ndarray, " 1"]]:
        """Nothing to refine; see :class:`State`."""
        return self, np.zeros(1, dtype=bool)


@runtime_checkable
class Minimiser(Protocol[EnergyType, StateType]):
    """Protocol of a minimiser, for one energy at fixed rates."""

    def init(self, energy: EnergyType, weights: Any, earlier: StateType | None = None) -> StateType:
        """State at the weights; may reuse parts of an ``earlier`` state, from other rates."""

    def step(self, energy: EnergyType, state: StateType, goal: Any) -> tuple[StateType, Bool[np.ndarray, " K"]]:
        """Lower the energy and estimate the suboptimality; problems below their ``goal``, (K,), may be skipped.

        Returns the state, and the mask of the problems that the step could change; the others are done.
        """


@runtime_checkable
class FitMethod(Minimiser[EnergyType, StateType], Protocol[EnergyType, StateType]):
    """Protocol of the ``method`` of a fit: a minimiser with a tolerance and a maximum number of steps."""

    @property
    def tol(self) -> float:
        """Suboptimality, relative to the energy, at which to stop."""

    @property
    def max_iter(self) -> int:
        """Maximum number of steps."""


def check_minimiser(method: Any) -> Any:
    """Return a minimiser, or raise TypeError, as for a sampler.

    Examples
    --------
    >>> check_minimiser("newton")
    Traceback (most recent call last):
    TypeError: method: expected a minimiser such as bd.Newton() or bd.EM(), got 'newton'; samplers go to bd.sample.
    """
    expected = "a minimiser such as bd.Newton() or bd.EM()"
    check_instance(method, "method", FitMethod, expected, advice="samplers go to bd.sample")
    check_number(method.tol, "tol", least=0)
    check_count(method.max_iter, "max_iter")
    return method
