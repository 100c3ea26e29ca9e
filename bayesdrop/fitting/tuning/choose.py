"""The strength of learnt rates for one fit: the search of ``bd.Tuned`` at the model's own ``C``.

Where no choice by folds can be made it is the published rule, with a warning that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..._typing import Float
from ..._validation import check_folds
from ...model import Model
from ...rates.tuned import is_tuned
from ...warnings import SelectionWarning, warn
from .families import families_of
from .folds import LEAVE_ONE_OUT, few_rows
from .search import Losses, Search
from .selection import Selection, conclude
from .table import Key
from .task import FOLDS, Task

__all__ = ["choose_strength", "first_rates", "search_on"]


def first_rates(model: Model) -> Model:
    """The model as it is before the strength of its rates is chosen: with those of the published rule."""
    rates: Any = model.rates
    return replace(model, rates=rates.structure) if is_tuned(rates) else model


def _possible_folds(task: Task, cv: Any, name: str, by_row: bool = True) -> Any:
    """``cv``, or the largest number of folds that the rows allow, with a warning; None if there are none.

    ``None`` is the default of the task. Rows are only left out one at a time if scores are those of rows, ``by_row``;
    scores of whole folds need rows of every class.

    Raises
    ------
    ValueError
        If rows are to be left out one at a time and cannot be.
    """
    if cv is None:
        cv = task.default_cv if by_row else FOLDS
    elif isinstance(cv, str) and cv == LEAVE_ONE_OUT:
        reason = task.no_leave_one_out if by_row else "scoring= is that of a fitted estimator on many rows"
        reason = reason if task.rows.groups is None else "groups= says which rows belong together"
        if reason:
            raise ValueError(f'cv: "loo" leaves out rows one at a time, and {reason}; give a number of folds.')
    check_folds(cv, LEAVE_ONE_OUT)
    enough = few_rows(cv, task.rows, every_class=not by_row)
    if enough is None:
        return cv
    if enough < 2:
        return None
    which = "rows" if task.code is None else f"rows of the {'largest' if by_row else 'rarest'} class"
    warn(f"{name}: {enough} {which} allow {enough} folds, which are taken in place of {cv}.", SelectionWarning)
    return enough


def choose_strength(task: Task) -> tuple[Model, Selection | None]:
    """Replace the ``bd.Tuned`` of a model of centred rows by the structure with the strength chosen.

    Returns
    -------
    model : Model
        With the chosen rates.
    selection : Selection or None
        None where the published rule was taken without a choice.
    """
    model = task.model
    tuned: Any = model.rates
    if not task.is_here:
        return _published(model, "rows that lie elsewhere are not held out", "give rows in memory, or bd.Blocks")
    found = search_on(task, tuned.cv, "rates", tuned.candidates, np.array([model.C]))
    if found is None:
        reason = "it takes two rows, of two classes each if there are any, to fit one and hold the other out"
        return _published(model, reason, "give more rows")
    chosen = conclude(*found, task.scoring, tuned.one_standard_error)
    return replace(model, rates=chosen.chosen.rates), chosen


def search_on(
    task: Task,
    cv: Any,
    name: str,
    candidates: Sequence[Any],
    Cs: Float[np.ndarray, " c"],
    scores: Losses | None = None,
    *,
    climbs: bool = True,
    n_jobs: int | None = None,
) -> tuple[Search, list[Key]] | None:
    """Search among candidates on the folds that ``cv`` says; return also those that were tried on every fold.

    By default rows are left out one at a time if that is cheap, and in folds after all if it turns out that it says
    nothing of the best.

    Parameters
    ----------
    task : Task
        What is fitted.
    cv : object
        Folds; None for those of the task.
    name : str
        What the user gave them as.
    candidates : sequence
        Of the rates, as :func:`.families.families_of` takes them.
    Cs : array (c,)
        Candidates of ``C``.
    scores : callable, optional
        Minus the score of each fold; by default losses are those of rows.
    climbs : bool
        Whether the search climbs, or tries everything.
    n_jobs : int, optional
        Processes among which the folds are spread.

    Returns
    -------
    tuple or None
        None if the rows allow no folds.
    """
    by_row = scores is None
    allowed = _possible_folds(task, cv, name, by_row)
    if allowed is None:
        return None
    folds = task.folds(allowed)
    search = Search(
        task.solver(loose=by_row, alone=folds[0].alone), families_of(candidates, task.names), Cs, folds, task.weight,
        task.rows.copies, task.kept(scores or (lambda key, fold, held: task.losses(fold, key[0], held))),
        task.size * len(folds) * len(candidates), by_row, n_jobs, task.without,
    )  # fmt: skip
    keys = search.climb() if climbs else search.complete()
    if cv is None and search.unsettled:
        return search_on(task, FOLDS, name, candidates, Cs, scores, climbs=climbs, n_jobs=n_jobs)
    return search, keys


def _published(model: Model, reason: str, advice: str) -> tuple[Model, None]:
    tuned: Any = model.rates
    warn(
        f"rates: the strength of the noise was not chosen, for {reason}; the fit is that of the published rule, "
        f"rates=bd.{tuned.structure!r}, which gives no warning when it is asked for. To have it chosen {advice}.",
        SelectionWarning,
    )
    return replace(model, rates=tuned.structure), None
