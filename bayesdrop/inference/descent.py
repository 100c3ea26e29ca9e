"""One driver for every minimiser of the energy, and the status that it ends with."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._validation import check_count, check_instance, check_number
from .energy import Energy

__all__ = ["ROUND_OFF", "Descent", "Point", "Status", "check_minimiser", "minimise", "status_at"]

Array = Any

# A weight is zero where its part ½w² of the penalty is below this share of the energy.
ROUND_OFF = 1e-20


class Status(Enum):
    """How a fit ended; the value says what to do."""

    CONVERGED = "Converged: the relative suboptimality is below tol."
    MAX_ITERATIONS = (
        "Stopped at max_iter before the tolerance was met: raise max_iter, loosen tol, or standardise the features."
    )
    ROUND_OFF = (
        "No further decrease in double precision: the optimum is reached to round-off, and tol is tighter than that."
    )
    RATES_UNSETTLED = (
        "The learnt rates did not settle: some weights keep changing sign. A prior with more strength, a smaller C "
        "or shared or group rates steady them."
    )
    MAX_EPOCHS = (
        "Stopped after the passes over the data that were allowed, the energy still falling: raise epochs, change "
        "step_size, or loosen tol."
    )
    ALL_ZERO = (
        "Converged with all weights zero (of one class at least, if there are several): the features say nothing of y "
        "at these rates and this C, and every prediction is that of the intercept. Look for features that are zero, "
        "constant or unrelated to y; else raise C, lower the rates or loosen the weight prior."
    )

    @property
    def is_unfinished(self) -> bool:
        """True if the fit ended before the optimum, which is worth a warning."""
        return self in (Status.MAX_ITERATIONS, Status.MAX_EPOCHS, Status.RATES_UNSETTLED)


@dataclass
class Point:
    """A block of weights (p + 1, K), the moments of its scores (n, K) and the solver's memory, (K,) each.

    Attributes
    ----------
    smoothing
        The ε of a kinked loss.
    remaining
        Estimated suboptimality.
    damping
        Share of the EM matrix in the second-order model.
    reference, calibration, previous, slow
        Size of the first gradient, largest ratio of a decrement to its gradient, last decrement (or gain), and
        whether steps contract the error slowly.
    """

    weights: Array
    mean: Array
    var: Array
    value: Array
    smoothing: Array
    remaining: Array
    damping: Array
    reference: Array
    calibration: Array
    previous: Array
    slow: Array
    _first_order: tuple[Any, ...] | None = None

    @classmethod
    def start(cls, energy: Energy, weights: Array) -> Point:
        """Evaluate the energy at ``weights``."""
        K = weights.shape[1]
        point = cls(
            weights=weights.copy(),
            mean=np.empty(0),
            var=np.empty(0),
            value=np.empty(0),
            # A kinked loss starts with a margin's tenth of smoothing, which shrinks as the fit settles.
            smoothing=np.full(K, 0.1 if energy.loss.kinked else 0.0),
            remaining=np.full(K, np.inf),
            damping=np.ones(K),
            reference=np.zeros(K),
            calibration=np.zeros(K),
            previous=np.full(K, np.nan),
            slow=np.zeros(K, dtype=bool),
        )
        point.refresh(energy)
        return point

    def refresh(self, energy: Energy) -> None:
        """Recompute the scores and the energy from the weights, after the rates moved."""
        self.mean, self.var = energy.moments.scores(self.weights)
        self.remaining = np.full(self.weights.shape[1], np.inf)
        self.previous = np.full(self.weights.shape[1], np.nan)
        self.slow = np.zeros(self.weights.shape[1], dtype=bool)
        self.revalue(energy, self.smoothing)

    def revalue(self, energy: Energy, smoothing: Array) -> None:
        """Set the smoothing and what depends on it."""
        # After a large change the next decrement is no sign of how fast steps contract.
        self.previous = np.where(smoothing >= 0.5 * self.smoothing, self.previous, np.nan)
        self.smoothing = smoothing
        self.value = energy.value(self.weights, self.mean, self.var, smoothing)
        self._first_order = None

    def move(self, weights: Array, mean: Array, var: Array, value: Array) -> None:
        """Go to new weights whose scores and energy are known."""
        self.weights, self.mean, self.var, self.value = weights, mean, var, value
        self._first_order = None

    def first_order(self, energy: Energy) -> tuple[Any, ...]:
        """Derivatives of the loss, gradient (p + 1, K) and ``q(c φ_v)`` (p, K), computed once per point."""
        if self._first_order is None:
            slopes = energy.derivatives(self.mean, self.var, self.smoothing)
            self._first_order = (slopes, *energy.gradient(self.weights, slopes))
        return self._first_order

    def _blocks(self) -> list[str]:
        return [item.name for item in fields(self) if not item.name.startswith("_")]

    def select(self, columns: Array) -> Point:
        """Columns as a point of their own."""
        return Point(**{name: getattr(self, name)[..., columns] for name in self._blocks()})

    def assign(self, columns: Array, other: Point) -> None:
        """Write back what ``select`` took."""
        for name in self._blocks():
            getattr(self, name)[..., columns] = getattr(other, name)
        self._first_order = None


@runtime_checkable
class Descent(Protocol):
    """Protocol of a minimiser, for one convex energy (fixed rates)."""

    @property
    def tol(self) -> float:
        """Suboptimality, relative to the energy, at which to stop."""

    @property
    def max_iter(self) -> int:
        """Most steps."""

    def step(self, energy: Energy, point: Point, goal: Array) -> Array:
        """Move ``point`` downhill in place and set ``remaining``, its estimated suboptimality.

        Nothing need be done where that is below ``goal`` (K,). Returns which problems can be moved on, (K,) bool.
        """


def check_minimiser(method: Any) -> Any:
    """Return a minimiser, or raise TypeError; a sampler is none.

    Examples
    --------
    >>> check_minimiser("newton")
    Traceback (most recent call last):
    TypeError: method: expected a minimiser such as bd.Newton() or bd.EM(), got 'newton'; samplers go to bd.sample.
    """
    expected = "a minimiser such as bd.Newton() or bd.EM()"
    check_instance(method, "method", Descent, expected, advice="samplers go to bd.sample")
    check_number(method.tol, "tol", least=0)
    check_count(method.max_iter, "max_iter")
    return method


@dataclass
class Trace:
    """Objective of each problem per iteration and how the run ended."""

    values: list[Array] = field(default_factory=list)
    status: Status = Status.MAX_ITERATIONS
    iterations: int = 0


def minimise(
    method: Descent, energy: Energy, point: Point, tol: float, max_iter: int, trace: Trace, done: Array | None = None
) -> Array:
    """Step until each problem's estimated suboptimality is below ``tol`` times its energy.

    Problems that are done, (K,) bool, leave the block. What the smoothing of a kinked loss costs is known exactly; it
    shrinks whenever the rest of the error is below it, so that the last steps are Newton's on the true loss. Returns
    which problems are done.
    """
    K = point.weights.shape[1]
    done = np.zeros(K, dtype=bool) if done is None else done.copy()
    stuck = np.zeros(K, dtype=bool)
    for _ in range(max_iter):
        live = np.flatnonzero(~done)
        whole = len(live) == K
        part, block = (point, energy) if whole else (point.select(live), energy.select(live))
        goal = tol * np.maximum(np.abs(part.value), np.finfo(float).tiny)
        moved = method.step(block, part, goal)
        ready = (part.remaining <= goal) | ~moved
        if energy.loss.kinked:
            bias, tight = _smoothing(block, part, goal)
            rough = bias > goal
            shrink = rough & ((part.remaining <= bias) | ~moved)
            if np.any(shrink) or np.any(tight < part.smoothing):
                part.revalue(block, np.minimum(tight, np.where(shrink, 0.1 * part.smoothing, part.smoothing)))
            ready &= ~rough
        stuck[live] = ~moved & (part.remaining > goal)
        done[live] = ready
        if not whole:
            point.assign(live, part)
        trace.iterations += 1
        trace.values.append(point.value.copy())
        if np.all(done):
            trace.status = Status.ROUND_OFF if np.any(stuck) else Status.CONVERGED
            return done
    trace.status = Status.MAX_ITERATIONS
    return done


def status_at(weights: Array, value: Array, status: Status) -> Status:
    """``status``, or ``ALL_ZERO`` if the fit is finished and a problem has no weight but round-off.

    Parameters
    ----------
    weights : array (p, K)
        Weights without the intercepts.
    value : array (K,)
        Energies.
    status : Status
        How the fit ended.
    """
    zero = np.all(np.abs(weights) <= np.sqrt(ROUND_OFF * np.abs(value)), axis=0)
    return Status.ALL_ZERO if bool(np.any(zero)) and not status.is_unfinished else status


def _smoothing(energy: Energy, point: Point, goal: Array) -> tuple[Array, Array]:
    """What the smoothing adds to the energy, and the smoothing to go to at once (infinite: no hurry), (K,) each.

    Where the noise itself rounds off the kink for nearly all of the weight, no homotopy is needed.
    """
    bias = point.value - energy.value(point.weights, point.mean, point.var, np.zeros_like(point.smoothing))
    wanted = point.smoothing * np.sqrt(0.1 * goal / np.maximum(bias, goal))
    sums = energy.moments.design.total
    total = sums(energy.weight)
    rounded = sums(energy.weight * (point.var > (10 * wanted) ** 2)) >= 0.95 * total
    typical = sums(energy.weight * np.sqrt(point.var)) / total
    return bias, np.where(rounded, np.maximum(wanted, 0.03 * typical), np.inf)
