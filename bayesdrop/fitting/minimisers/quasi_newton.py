"""Quasi-Newton steps for smooth losses on dense rows that are many more than columns.

There a factor of the Hessian at the start, of a sample of the rows, is cheap and good: it is right to a fifth or so,
and secant pairs (:mod:`.secants`) correct it on the way, along the few directions where the Hessian moves. A step then
costs one pass for the scores and one for the gradient, and no product with the Hessian. A full step that does not gain
what its slope promises, or a gradient that falls slowly, hands over to Newton's method.
"""

from __future__ import annotations

import numpy as np

from ..objective.energy import Energy
from ..protocols import StepInfo
from ..solvers.preconditioners import Cholesky, rows_taken
from ..solvers.prepared import Prepared
from ..solvers.secants import remember, two_loops
from ..state import SolverState
from .newton_memory import GAIN, SAFETY, SLOW, FirstOrder, NewtonMemory, learn_from, square

__all__ = ["quasi_newton_step", "worthwhile"]

# Rows for each column that a factor must be made of.
_ENOUGH = 12
# Entries below which Newton's own steps cost next to nothing, and end nearer to the optimum.
_LEAST = 1 << 17


def worthwhile(energy: Energy) -> bool:
    """Whether quasi-Newton steps are quicker than Newton's: one smooth convex problem on tall dense rows in memory."""
    design = energy.moments.design
    n, p = design.shape
    smooth = energy.convex and not energy.loss.kinked and energy.target.shape[1] == 1
    here = energy.has_all_rows and not (design.is_sparse or design.is_streamed)
    tall = n * p >= _LEAST and design.prefers_gram and rows_taken(n, p) >= _ENOUGH * (p + 1)
    return smooth and here and tall and design.compressed() is None


def quasi_newton_step(energy: Energy, state: SolverState, memory: NewtonMemory) -> tuple[SolverState, StepInfo] | None:
    """One full step; None where Newton's method is to go on.

    Parameters
    ----------
    energy : Energy
        Of one problem.
    state : SolverState
        Where it is.
    memory : NewtonMemory
        With the derivatives there, and secant pairs.
    """
    known = memory.pairs
    if memory.first_order is None or known is None:
        return None
    slopes, gradient, spread = memory.first_order
    factored = memory.factored
    if factored is None:
        curvature = energy.curvature(slopes, spread, memory.damping, False)
        inverse = Cholesky().prepare(energy.moments, curvature.mean_mean, curvature.diagonal)
        factored = Prepared(inverse, energy.moments, curvature.mean_mean, curvature.diagonal)
    size = square(gradient, factored.apply)
    reference = np.where(memory.reference > 0, memory.reference, np.maximum(size, np.finfo(float).tiny))
    memory = memory.changed(reference=reference, factored=factored)
    direction = two_loops(gradient, known, factored.apply)
    slope = np.einsum("ij,ij->j", gradient, direction)
    if not slope < 0:
        return None
    weights = state.weights + direction
    mean, var = energy.moments.scores(weights)
    value = energy.value(weights, mean, var, state.smoothing)
    if not value <= state.value + GAIN * slope + 8 * np.finfo(float).eps * np.abs(state.value):
        return None
    ended = state.changed(weights=weights, mean=mean, var=var, value=value)
    first = FirstOrder.at(energy, ended)
    memory = learn_from(memory, np.ones(1), -0.5 * slope, size, first)
    after = square(first.gradient, factored.apply)
    pairs = remember(known, direction, first.gradient - gradient) if after <= SLOW * size else None
    memory = memory.changed(pairs=pairs, factored=factored if pairs is not None else None)
    ended = ended.changed(remaining=SAFETY * memory.calibration * after, memory=memory)
    return ended, StepInfo(np.ones(1, dtype=bool))
