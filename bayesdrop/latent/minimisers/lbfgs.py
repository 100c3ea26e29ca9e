"""L-BFGS on all weights of a hidden layer at once, by SciPy.

On the energy without variance first, whose steps cost a fifth, then on the whole one, in the coordinates of
:mod:`.whitening` where features are few.

Also: the protocol of a minimiser of the energy of a hidden layer. The other one is :mod:`.alternating`, whose turns
:mod:`bayesdrop.fitting.solvers.driver` runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from ..._progress import step
from ..._typing import Float
from ..._validation import check_count, check_number
from ...fitting.solvers.driver import LOOSE, OneProblem, Status, Trace
from ..objective.energy import LatentEnergy, Parameters
from .whitening import MOST_INPUTS, Axes, Whitening

__all__ = ["Evaluated", "LatentMethod", "LatentState", "descend", "LBFGS"]

_log = logging.getLogger("bayesdrop")

# Share of the steps that may be spent on the energy without variance.
_FIRST = 0.3
# Steps over which the gain is judged: single ones go up and down.
_WINDOW = 10


class Evaluated(NamedTuple):
    """A function of a vector (D,): its value, its slope (D,), and the value as it is reported."""

    value: float
    slope: Float[np.ndarray, " D"]
    objective: float


Function = Callable[[Float[np.ndarray, " D"]], Evaluated]


def descend(
    function: Function, start: Float[np.ndarray, " D"], least: float, steps: int, trace: Trace
) -> Float[np.ndarray, " D"]:
    """Minimise a function of a vector (D,) until ten steps gain less than ``10 least``.

    Parameters
    ----------
    function : callable
        Gives value and slope at a vector.
    start : array (D,)
        Where to begin.
    least : float
        Gain of a step that is too little.
    steps : int
        Maximal number of steps.
    trace : Trace
        Gets the objective after every step, and the status.

    Returns
    -------
    array (D,)
        Where it ended.
    """
    here = function(start)
    values = [here.value]

    def evaluate(x: Float[np.ndarray, " D"]) -> tuple[float, Float[np.ndarray, " D"]]:
        nonlocal here
        here = function(x)
        return here.value, here.slope

    def gain() -> float:
        return values[-1 - _WINDOW :][0] - values[-1]

    def after_step(intermediate_result: OptimizeResult) -> None:
        # A line search ends where it evaluated last.
        values.append(here.value)
        add()
        if len(values) > _WINDOW and gain() < _WINDOW * least:
            raise StopIteration

    def add() -> None:
        trace.values.append(np.array([here.objective]))
        trace.iterations += 1
        step()
        _log.debug("iteration %d: objective %.10g, relative suboptimality unknown", trace.iterations, here.objective)

    options = {"maxiter": steps, "maxfun": np.inf, "ftol": 0.0, "gtol": 0.0}
    result = minimize(evaluate, start, jac=True, method="L-BFGS-B", callback=after_step, options=options)
    if len(values) == 1:
        here = function(start)
        add()
    # Where no step leads down, the last ones tell whether that is the optimum.
    left = gain() if len(values) > 1 else float(np.sum(here.slope**2))
    stuck = result.nit < steps and (len(values) <= _WINDOW or left >= _WINDOW * least)
    if (len(values) > _WINDOW or stuck) and (left < _WINDOW * least or not np.any(here.slope)):
        trace.status = Status.CONVERGED
    elif stuck and left <= LOOSE * abs(values[-1]):
        trace.status = Status.ROUND_OFF
    else:
        trace.status = Status.MAX_ITERATIONS
    return np.asarray(result.x)


@dataclass(frozen=True)
class LBFGS:
    """Fit all weights of a hidden layer at once by limited-memory BFGS.

    Parameters
    ----------
    tol : float, default=0.0001
        Stop where a step lowers the energy by less than this for each unit ``C s_i`` of the rows' weight, the mean of
        ten steps: the mean loss of a row, as in scikit-learn's ``MLPClassifier``.
    max_iter : int, default=500
        Maximal number of steps.

    See Also
    --------
    Alternating, LatentDropoutLogisticRegression

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

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`bayesdrop.latent.minimisers.lbfgs.LatentMethod`."""
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


@runtime_checkable
class LatentMethod(Protocol):
    """Protocol of a minimiser."""

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """Go downhill from ``start``, so many steps at most, and add to the trace; its status is set."""


@dataclass(frozen=True)
class LatentState(OneProblem):
    """Where a minimiser is.

    Attributes
    ----------
    weights
        :class:`Parameters`.
    value, objective : array (1,)
        Energy there, with a piecewise-linear loss smoothed and as it is.
    remaining : array (1,)
        0 once steps gain less than was asked for, else infinite.
    """

    weights: Parameters
    value: Float[np.ndarray, " 1"]
    objective: Float[np.ndarray, " 1"]
    remaining: Float[np.ndarray, " 1"]

    @classmethod
    def at(cls, weights: Parameters, value: float, objective: float, done: bool = False) -> LatentState:
        """The state at weights where the energy is known."""
        remaining = 0.0 if done else np.inf
        return cls(weights, np.array([value]), np.array([objective]), np.array([remaining]))
