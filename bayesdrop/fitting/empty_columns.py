"""Leave out columns without an entry before a fit, and put their weights and rates back in place; used by every fit.

A column of zeros has a weight of 0, and the rate of its prior. A hashed matrix may have a million columns, most of them
empty, and every vector of a fit would have this length. Therefore one of the empty columns stays in the fit, and the
others get its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._typing import Int
from ..priors import Normal
from ..rates.learnt import is_tuned
from .problems.block import ProblemFit, Task, first_rates

__all__ = ["Columns", "used_columns"]


class Columns(NamedTuple):
    """Columns of a fit that has left out empty ones.

    Attributes
    ----------
    numbers : int array (q,)
        Numbers of the columns that stay, including one empty column.
    place : int array (p,)
        Position, among these, of the column with the results of each column.
    """

    numbers: Int[np.ndarray, " q"]
    place: Int[np.ndarray, " p"]

    def reduce(self, task: Task) -> Task:
        """Restrict the task to the columns that stay."""
        model, p = task.model, len(self.place)
        model = replace(model, weight_prior=Normal(model.weight_prior.precision(p)[self.numbers] ** -0.5))
        design = task.design.select_columns(self.numbers)
        return replace(task, model=model, design=design, names=[task.names[j] for j in self.numbers.tolist()])

    def start(self, earlier: tuple[Any, Any]) -> tuple[Any, Any]:
        """Weights (p + 1, K) and rates (p, _) of an earlier fit, for the columns that stay."""
        weights, rates = earlier
        return weights[np.append(self.numbers, len(self.place))], rates[self.numbers]

    def restore(self, fit: ProblemFit, by_feature: bool) -> ProblemFit:
        """The fit with all columns; rates are ``by_feature``, or shared by all of them."""
        rows = np.append(self.place, len(self.numbers))
        spread = self._spread if by_feature else (lambda part: part)
        counts = fit.counts
        if counts is not None:
            counts = replace(counts, above=counts.above[self.place], below=counts.below[self.place])
        return replace(
            fit,
            weights=fit.weights[rows],
            rates=fit.rates[self.place],
            posterior=None if fit.posterior is None else fit.posterior.map(spread),
            counts=counts,
            occurrences=None if fit.occurrences is None else spread(fit.occurrences),
        )

    def _spread(self, part: Any) -> Any:
        return part[self.place] if np.shape(part)[:1] == self.numbers.shape else part


def used_columns(task: Task, candidates: Sequence[Any] = ()) -> Columns | None:
    """Find the columns that a fit needs, one empty column included; None if settings differ between columns.

    Parameters
    ----------
    task : Task
        A fit of centred rows.
    candidates : sequence
        Candidates for the rates in a search, see :func:`.tuning.blocks.families_of`.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from bayesdrop.designs import as_design
    >>> X, y, one = np.eye(4)[:, [0, 0, 3]] * [1, 0, 0], np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.ones(4)
    >>> task = Task(bd.Model(), as_design(X), y, one, ["a", "b", "c"], bd.Newton())
    >>> used_columns(task)
    Columns(numbers=array([0, 1]), place=array([0, 1, 1]))
    """
    empty = task.empty_columns
    prior = task.model.weight_prior
    unlike = (prior.location(len(empty)), prior.absolute_penalty(len(empty)), task.model.intercept_prior)
    if any(part is not None for part in unlike):
        return None
    numbers = np.flatnonzero(~empty | (np.arange(len(empty)) == np.argmax(empty)))
    names = [task.names[j] for j in numbers.tolist()]
    try:
        tuned: Any = task.model.rates
        models = [first_rates(task.model)]
        for candidate in [*(tuned.candidates if is_tuned(tuned) else []), *candidates]:
            rates = candidate[0] if isinstance(candidate, tuple) else candidate
            models += [] if rates is None else [replace(task.model, rates=rates)]
        pairs = [[model.bind(columns) for columns in (task.names, names)] for model in models]
    except ValueError:
        return None
    for whole, part in pairs:
        equal = np.ptp(whole.initial) == 0 and whole.hierarchy is None
        if not equal or not (whole.size == part.size <= 1 or (whole.dim == "feature" and whole.size == len(empty))):
            return None
    place = np.full(len(empty), int(np.searchsorted(numbers, np.argmax(empty))))
    place[numbers] = np.arange(len(numbers))
    return Columns(numbers, place)
