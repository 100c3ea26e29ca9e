"""One driver for every minimiser of the energy, and the status that it ends with."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np

from .energy import Energy

__all__ = ["Descent", "Point", "Status", "minimise"]

Array = Any


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


@dataclass
class Point:
    """A block of weights (p + 1, K), the moments of its scores (n, K) and the solver's state, (K,) each.

    ``smoothing`` is the ε of a kinked loss, ``damping`` the share of the EM matrix in the second-order model and
    ``reference`` the size of the first gradient, against which the inner solves set their accuracy.
    """

    weights: Array
    mean: Array
    var: Array
    smoothing: Array
    damping: Array
    reference: Array
    value: Array
    remaining: Array
    previous: Array
    passes: int = 0

    @classmethod
    def start(cls, energy: Energy, weights: Array) -> Point:
        """Evaluate the energy at ``weights``."""
        K = weights.shape[1]
        # A kinked loss starts with a margin's tenth of smoothing, which shrinks as the fit settles.
        smoothing = np.full(K, 0.1 if energy.loss.kinked else 0.0)
        point = cls(
            weights=weights.copy(),
            mean=np.empty(0),
            var=np.empty(0),
            smoothing=smoothing,
            damping=np.ones(K),
            reference=np.zeros(K),
            value=np.empty(0),
            remaining=np.full(K, np.inf),
            previous=np.full(K, np.nan),
        )
        point.refresh(energy)
        return point

    def refresh(self, energy: Energy) -> None:
        """Recompute the moments and the energy from the weights, after the rates moved or to shed round-off."""
        self.mean, self.var = energy.moments.scores(self.weights)
        self.value = energy.value(self.weights, self.mean, self.var, self.smoothing)
        self.remaining = np.full(self.weights.shape[1], np.inf)
        self.previous = np.full(self.weights.shape[1], np.nan)

    def select(self, columns: Array) -> Point:
        """Columns as a point of their own."""
        picked = {
            name: getattr(self, name)[..., columns]
            for name in (
                "weights", "mean", "var", "smoothing", "damping", "reference", "value", "remaining", "previous"
            )
        }
        return Point(**picked)

    def assign(self, columns: Array, other: Point) -> None:
        """Write back what ``select`` took."""
        for name in ("weights", "mean", "var", "smoothing", "damping", "reference", "value", "remaining", "previous"):
            getattr(self, name)[..., columns] = getattr(other, name)


class Descent(Protocol):
    """Protocol of a minimiser, for one convex energy (fixed rates)."""

    tol: float
    max_iter: int

    def step(self, energy: Energy, point: Point) -> Array:
        """Move ``point`` downhill in place and set ``remaining`` (estimated suboptimality); (K,) bool: which moved."""


@dataclass
class Trace:
    """Objective of each problem per iteration and how the run ended."""

    values: list[Array] = field(default_factory=list)
    status: Status = Status.MAX_ITERATIONS
    iterations: int = 0


def smoothing_bias(energy: Energy, point: Point) -> Array:
    """What the smoothing adds to the energy, (K,): at most this much is lost by it."""
    if not np.any(point.smoothing):
        return np.zeros(point.weights.shape[1])
    return point.value - energy.value(point.weights, point.mean, point.var, np.zeros_like(point.smoothing))


def minimise(method: Descent, energy: Energy, point: Point, tol: float, max_iter: int, trace: Trace) -> None:
    """Step until each problem's estimated suboptimality is below ``tol`` times its energy.

    Problems that are done leave the block. A kinked loss has its smoothing divided by ten whenever the rest of the
    error is below a tenth of what the smoothing costs, so that the last steps are Newton's on the true loss.
    """
    K = point.weights.shape[1]
    done = np.zeros(K, dtype=bool)
    stuck = np.zeros(K, dtype=bool)
    for _ in range(max_iter):
        live = np.flatnonzero(~done)
        whole = len(live) == K
        part = point if whole else point.select(live)
        block = energy if whole else energy.select(live)
        moved = method.step(block, part)
        bias = smoothing_bias(block, part)
        scale = tol * np.maximum(np.abs(part.value), np.finfo(float).tiny)
        ready = part.remaining <= np.maximum(scale, 0.1 * bias)
        rough = bias > scale
        ready |= ~moved
        shrink = ready & rough
        finished = ready & ~rough
        if np.any(shrink):
            part.smoothing = np.where(shrink, 0.1 * part.smoothing, part.smoothing)
            part.value = block.value(part.weights, part.mean, part.var, part.smoothing)
            part.previous = np.where(shrink, np.nan, part.previous)
        stuck[live] = ~moved & ~rough
        if not whole:
            point.assign(live, part)
        trace.iterations += 1
        trace.values.append(point.value.copy())
        done[live] = finished
        if np.all(done):
            trace.status = Status.ROUND_OFF if np.any(stuck & (point.remaining > tol * point.value)) else (
                Status.CONVERGED
            )
            return
    trace.status = Status.MAX_ITERATIONS
