"""The strength of learnt rates for one fit: the search of ``bd.Tuned`` at the model's own ``C``.

Where no choice by folds can be made it is the published rule, with a warning that says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._validation import check_folds
from ...model import Model
from ...rates.tuned import is_tuned
from ...warnings import SelectionWarning, warn
from .blocks import Start
from .families import families_of
from .folds import LEAVE_ONE_OUT, few_rows
from .search import Search
from .selection import Selection, conclude
from .task import Task

__all__ = ["choose_strength", "first_rates", "possible_folds"]


def first_rates(model: Model) -> Model:
    """The model as it is before the strength of its rates is chosen: with those of the published rule."""
    rates: Any = model.rates
    return replace(model, rates=rates.structure) if is_tuned(rates) else model


def possible_folds(task: Task, cv: Any, name: str, by_row: bool = True) -> Any:
    """``cv``, or the largest number of folds that the rows allow, with a warning; None if there are none.

    ``None`` is the default of the task. Rows are only left out one at a time if scores are those of rows, ``by_row``;
    scores of whole folds need rows of every class.

    Raises
    ------
    ValueError
        If rows are to be left out one at a time and cannot be.
    """
    if cv is None:
        cv = task.default_cv if by_row else 5
    elif isinstance(cv, str) and cv == LEAVE_ONE_OUT:
        reason = task.no_leave_one_out if by_row else "scoring= is that of a fitted estimator on many rows"
        if reason:
            raise ValueError(f'cv: "loo" leaves out rows one at a time, and {reason}; give a number of folds.')
    check_folds(cv, LEAVE_ONE_OUT)
    enough = few_rows(cv, task.labelled, task.code, every_class=not by_row)
    if enough is None:
        return cv
    if enough < 2:
        return None
    which = "rows" if task.code is None else f"rows of the {'largest' if by_row else 'rarest'} class"
    warn(f"{name}: {enough} {which} allow {enough} folds, which are taken in place of {cv}.", SelectionWarning)
    return enough


def choose_strength(task: Task) -> tuple[Model, Selection | None, Start | None]:
    """Replace the ``bd.Tuned`` of a settled model by the structure with the strength chosen.

    Returns
    -------
    model : Model
        With the chosen rates.
    selection : Selection or None
        None where the published rule was taken without a choice.
    start : tuple or None
        Weights and rates from which the fit may start.
    """
    model = task.model
    tuned: Any = model.rates
    if not task.is_here:
        return _published(model, "rows that lie elsewhere are not held out", "give rows in memory, or bd.Blocks")
    cv = possible_folds(task, tuned.cv, "rates")
    if cv is None:
        reason = "it takes two rows, of two classes each if there are any, to fit one and hold the other out"
        return _published(model, reason, "give more rows")
    folds, candidates = task.folds(cv), tuned.candidates
    search = Search(
        task.solver(loose=True, alone=folds[0].alone), families_of(candidates, task.names), np.array([model.C]), folds,
        task.weight, task.kept(lambda key, fold, held: task.losses(folds[fold], key[0], held), folds),
        task.size * len(folds) * len(candidates), avoid_plain=task.avoids_plain,
    )  # fmt: skip
    found, start = conclude(search, search.climb(), task.scoring, tuned.one_standard_error)
    return replace(model, rates=found.chosen.rates), found, start if task.starts_anywhere else None


def _published(model: Model, reason: str, advice: str) -> tuple[Model, None, None]:
    tuned: Any = model.rates
    warn(
        f"rates: the strength of the noise was not chosen, for {reason}; the fit is that of the published rule, "
        f"rates=bd.{tuned.structure!r}, which gives no warning when it is asked for. To have it chosen {advice}.",
        SelectionWarning,
    )
    return replace(model, rates=tuned.structure), None, None
