"""Minimise over all weights of a hidden layer at once by SciPy's L-BFGS, and define the protocol of a minimiser.

Columns are scaled to unit size, because L-BFGS ends early on columns of unequal scales. The other minimiser is
:mod:`.alternating`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from ..._progress import step
from ..._typing import Float
from ..._validation import check_count, check_number
from ...fitting.solvers.driver import LOOSE, Status, Trace
from ..objective.energy import LatentEnergy, Parameters
from ..objective.rules import RULES

__all__ = ["LatentMethod", "descend", "LBFGS"]

_log = logging.getLogger("bayesdrop")


Function = Callable[[Float[np.ndarray, " D"]], tuple[float, Float[np.ndarray, " D"]]]


def descend(
    function: Function, start: Float[np.ndarray, " D"], min_gain: float, steps: int, trace: Trace
) -> Float[np.ndarray, " D"]:
    """Minimise a function of a vector (D,) until ten steps together gain less than ``10 min_gain``.

    Parameters
    ----------
    function : callable
        Function that returns value and gradient at a vector.
    start : array (D,)
        Starting vector.
    min_gain : float
        Mean gain of a step below which to stop.
    steps : int
        Maximum number of steps.
    trace : Trace
        Receives the value after every step, and the status.

    Returns
    -------
    array (D,)
        Last vector.
    """
    values, window = [function(start)[0]], RULES.window

    def gain() -> float:
        return values[-1 - window :][0] - values[-1]

    def after_step(intermediate_result: OptimizeResult) -> None:
        values.append(float(intermediate_result.fun))
        trace.values.append(np.array(values[-1:]))
        trace.iterations += 1
        step()
        _log.debug("iteration %d: objective %.10g, relative suboptimality unknown", trace.iterations, values[-1])
        if len(values) > window and gain() < window * min_gain:
            raise StopIteration

    options = {"maxiter": steps, "maxfun": np.inf, "ftol": 0.0, "gtol": 0.0}
    result = minimize(function, start, jac=True, method="L-BFGS-B", callback=after_step, options=options)
    if len(values) == 1:
        after_step(result)
    # If L-BFGS found no further descent, the last gains show whether this is the optimum.
    stuck = result.nit < steps
    if (len(values) > window or stuck) and (gain() < window * min_gain or not np.any(result.jac)):
        trace.status = Status.CONVERGED
    elif stuck and gain() <= LOOSE * abs(values[-1]):
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
        Stop if ten steps lower the energy, on average, by less than ``tol`` times the total weight ``C Σ s_i`` of the
        rows, so that ``tol`` refers to the mean loss of a row, as in scikit-learn's ``MLPClassifier``.
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
        limit, scale = self.max_iter if steps is None else min(steps, self.max_iter), energy.column_scales

        def scaled(parameters: Parameters) -> Parameters:
            return parameters._replace(hidden=parameters.hidden / scale)

        def function(flat: Float[np.ndarray, " D"]) -> tuple[float, Float[np.ndarray, " D"]]:
            value, gradient = energy.value_and_gradient(scaled(start.like(flat)))
            return value, scaled(gradient).flatten()

        first = start._replace(hidden=start.hidden * scale).flatten()
        return scaled(start.like(descend(function, first, self.tol * energy.row_weight, limit, trace)))


@runtime_checkable
class LatentMethod(Protocol):
    """Protocol of a minimiser of the energy of a hidden layer."""

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """Minimise from ``start`` by at most ``steps`` steps, add to the trace and set its status."""
