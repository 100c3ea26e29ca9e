"""The steps of a fit: choose the strength of the rates, solve, and map back to the user's columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._typing import Float, Num
from ..model import Model
from ..priors.rate_prior import map_arrays
from ..rates import RateMap
from ..rates.tuned import is_tuned
from .objective.centring import CentredProblem
from .objective.softmax_energy import centred
from .problems.block import ProblemFit, fit_in_parts
from .problems.many_classes import fit_classes
from .results.result import RatePosterior
from .solvers.driver import announce
from .tuning.choose import Task, choose_strength
from .tuning.selection import Selection

__all__ = ["Solved", "rate_posterior", "shaped", "solve"]


def shaped(part: Num[np.ndarray, ...]) -> Num[np.ndarray, ...]:
    """One problem, or what classes share, as a vector; several as a block.

    Examples
    --------
    >>> shaped(np.ones((3, 1))).shape, shaped(np.ones((3, 2))).shape
    ((3,), (3, 2))
    """
    return part if part.shape[1] > 1 else part[:, 0]


@dataclass(frozen=True)
class Solved:
    """A fit, with the weights (p + 1, K) of the user's columns, and the ``model`` of the centred rows with its rates
    chosen.
    """

    model: Model
    rate_map: RateMap
    selection: Selection | None
    fit: ProblemFit


def solve(
    task: Task,
    centring: CentredProblem,
    earlier: tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p _"]] | None = None,
) -> Solved:
    """Choose the strength of the rates if it is ``bd.Tuned``, and fit all problems, or all classes jointly.

    Parameters
    ----------
    task : Task
        Model of the centred rows, their design and targets, and the minimiser.
    centring : CentredProblem
        The way back.
    earlier : (array (p + 1, K), array (p, _)), optional
        Weights for the user's columns, and rates, from which to start.
    """
    model, selection = choose_strength(task) if is_tuned(task.model.rates) else (task.model, None)
    rate_map = model.bind(task.names)
    start = None if earlier is None else (centring.to_centred(earlier[0]), earlier[1])
    if task.n_classes is None:
        result = fit_in_parts(
            model, task.design, rate_map, task.target, task.weight, task.method, start, task.unlabelled, task.offset
        )
        weights = centring.to_original(result.weights)
    else:
        result = fit_classes(
            model, task.design, rate_map, task.target, task.weight, task.n_classes, tol=task.method.tol,
            max_iter=task.method.max_iter, start=start, unlabelled=task.unlabelled,
        )  # fmt: skip
        weights = centred(centring.to_original(result.weights), model.loss.class_rates)
    announce(result.status, result.iterations)
    return Solved(model, rate_map, selection, replace(result, weights=weights))


def rate_posterior(rate_map: RateMap, law: Any, occurrences: Num[np.ndarray, ...] | None) -> RatePosterior | None:
    """Plug-in posterior of learnt rates: (k,), or (k, K) where problems, or classes, have their own."""
    if law is None or occurrences is None:
        return None
    own = occurrences.shape[1] > 1
    return RatePosterior(
        map_arrays(lambda part: part if own else part[:, 0], law), shaped(occurrences), rate_map.names, rate_map.dim
    )
