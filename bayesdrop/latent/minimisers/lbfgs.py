"""L-BFGS on all weights of a hidden layer at once.

On the energy without variance first, whose steps cost a fifth, then on the whole one, in the coordinates of
:mod:`.whitening` where features are few. The direction is that of :mod:`bayesdrop.fitting.solvers.secants` and the step
SciPy's search for the strong Wolfe conditions.
SciPy's L-BFGS-B comes with a BLAS of its own, whose threads and those of NumPy's wait for each other: 16 ms a step
beside products of the data, against 1 ms alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import line_search

from ..._typing import Float
from ..._validation import check_count, check_number
from ...fitting.driver import Trace, minimise
from ...fitting.protocols import StepInfo
from ...fitting.solvers.secants import Pair, remember, two_loops
from ..objective.energy import LatentEnergy, Parameters
from .methods import PLAN, WINDOW, LatentState, Plan
from .whitening import MOST_INPUTS, Axes, Whitening

__all__ = ["LBFGS", "Evaluated", "QuasiNewton", "descend"]

_STUCK = StepInfo(np.array([False]))
# Share of the steps that may be spent on the energy without variance.
_FIRST = 0.3


class Evaluated(NamedTuple):
    """A function of a vector (D,): its value, its slope (D,), and the value as it is reported."""

    value: float
    slope: Float[np.ndarray, " D"]
    objective: float


Function = Callable[[Float[np.ndarray, " D"]], Evaluated]


class PastSteps(NamedTuple):
    """What the method keeps: the slope here, its last steps with the changes of the slope, and the last values."""

    slope: Float[np.ndarray, " D"]
    pairs: tuple[Pair, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class QuasiNewton:
    """L-BFGS as a :class:`bayesdrop.fitting.protocols.Minimiser` of a function of a vector.

    Parameters
    ----------
    least : float
        It is done where ten steps gain less than ten times as much.
    """

    least: float

    def init(
        self, energy: Function, weights: Float[np.ndarray, " D"], earlier: LatentState | None = None
    ) -> LatentState:
        """See :class:`bayesdrop.fitting.protocols.Minimiser`."""
        value, slope, objective = energy(weights)
        return LatentState.at(weights, value, objective, PastSteps(slope, (), ()))

    def step(self, energy: Function, state: LatentState, goal: Any) -> tuple[LatentState, StepInfo]:
        """One step; where no length will do it is tried once more down the slope."""
        here, value, memory = state.weights, float(state.value[0]), state.memory
        seen: dict[bytes, Evaluated] = {}

        def both(x: Float[np.ndarray, " D"]) -> Evaluated:
            # The search asks for value and slope of one point apart.
            key = x.tobytes()
            if key not in seen:
                seen.clear()
                seen[key] = energy(x)
            return seen[key]

        before = None if memory.values else value + 0.5 * float(np.linalg.norm(memory.slope))
        for pairs in (memory.pairs, ()) if memory.pairs else ((),):
            direction = two_loops(memory.slope, pairs)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a failed search is told by its result
                length = line_search(
                    lambda x: both(x).value, lambda x: both(x).slope, here, direction, memory.slope, value, before,
                    maxiter=20,
                )[0]  # fmt: skip
            if length is not None:
                break
        else:
            # No step down the slope: all that would follow gain nothing, and the last ones tell whether that is little.
            left = memory.values[0] - value if memory.values else float(memory.slope @ memory.slope)
            return replace(state, remaining=np.array([0.0 if left < WINDOW * self.least else left])), _STUCK
        there = here + length * direction
        new, slope, objective = both(there)
        pairs = remember(pairs, there - here, slope - memory.slope)
        values = (*memory.values, new)[-1 - WINDOW :]
        done = len(values) > WINDOW and values[0] - new < WINDOW * self.least
        return LatentState.at(there, new, objective, PastSteps(slope, pairs, values), done), StepInfo(np.array([True]))


def descend(
    function: Function, start: Float[np.ndarray, " D"], least: float, steps: int, trace: Trace
) -> Float[np.ndarray, " D"]:
    """Go downhill from a vector (D,), so many steps at most, until ten of them gain less than ``10 least``."""
    method = QuasiNewton(least)
    state, _ = minimise(method, function, method.init(function, start), 0.0, steps, trace)
    return np.asarray(state.weights)


@dataclass(frozen=True)
class LBFGS:
    """All weights at once by limited-memory BFGS.

    Parameters
    ----------
    tol : float
        Stop where a step lowers the energy by less than this for each unit ``C s_i`` of the rows' weight, the mean of
        ten steps: the mean loss of a row, as scikit-learn's ``MLPClassifier`` has it.
    max_iter : int
        Most steps.

    Examples
    --------
    >>> LBFGS(max_iter=100)
    LBFGS(tol=0.0001, max_iter=100)
    """

    tol: float = 1e-4
    max_iter: int = 500

    def __post_init__(self) -> None:
        check_number(self.tol, "tol", least=0)
        check_count(self.max_iter, "max_iter")

    def plan(self, starts: int, learns: bool) -> Plan:
        """See :class:`bayesdrop.latent.minimisers.methods.LatentMethod`."""
        return PLAN

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`bayesdrop.latent.minimisers.methods.LatentMethod`."""
        most = self.max_iter if steps is None else min(steps, self.max_iter)

        def follow(of: LatentEnergy, start: Parameters, steps: int, trace: Trace) -> Parameters:
            p = len(of.rate)
            many = p > MOST_INPUTS or p > sum(len(block.weight) for block in of.blocks)
            axes = Axes(start) if many else Whitening(of, start)

            def function(flat: Float[np.ndarray, " D"]) -> Evaluated:
                found = of.value_and_gradient(axes.weights(flat))
                return Evaluated(found.value, axes.slope(found.gradient), found.objective)

            return axes.weights(descend(function, axes.coordinates(start), least, steps, trace))

        least = self.tol * energy.row_weight
        if not trace.values and energy.has_variance:
            start = follow(energy.without_variance, start, max(1, int(_FIRST * most)), Trace())
        return follow(energy, start, most, trace)
