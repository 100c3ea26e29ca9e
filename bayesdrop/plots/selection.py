"""Pictures of a choice by cross-validation: what was tried, and how much worse than the choice it was."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..fitting.tuning.selection import Candidate, Selection
from .style import GREY, MOST_SERIES, VERMILLION, legend_above, light_grid, literal, new_axes, plain_frame, series_style

__all__ = ["selection"]


def selection(estimator: Any, *, ax: Any = None) -> Any:
    """Draw the held-out loss of what a choice by cross-validation was made from.

    Along ``C`` where several were tried, a line for each structure and strength of the rates; else along the strength.
    Bars are standard errors of the difference to the choice, in pairs, which has none.

    Parameters
    ----------
    estimator : fitted estimator, Fit or Selection
        With a ``selection_`` (or ``selection``) of its own.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ValueError
        If nothing was chosen by cross-validation.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(100, 5, random_state=0)
    >>> selection(bd.DropoutLogisticRegression().fit(X, y)).get_ylabel()
    'Log loss of held-out rows'
    """
    found = estimator
    for name in ("selection_", "selection"):
        found = getattr(found, name, found)
    if not isinstance(found, Selection):
        raise ValueError(
            "estimator: expected a fit whose rates or C were chosen by cross-validation, such as "
            "bd.DropoutLogisticRegressionCV().fit(X, y) or one with rates=bd.Tuned(); this one has no such choice."
        )
    ax = new_axes(ax, 6.4, 4.0)
    along_C = len({one.C for one in found.candidates}) > 1
    series: dict[str, list[Candidate]] = {}
    for one in found.candidates:
        series.setdefault(one.name if along_C else "", []).append(one)
    best = min(series, key=lambda name: min(one.loss for one in series[name]))
    # More lines than can be told apart: the best are named.
    order = sorted(series, key=lambda name: (name != best, min(one.loss for one in series[name])))
    for j, name in enumerate(order):
        _line(ax, series[name], along_C, j, name)
    chosen = found.chosen
    place = chosen.C if along_C else _strength(chosen)
    ax.plot(place, chosen.loss, "o", markersize=12, markerfacecolor="none", color=VERMILLION, label="the choice")
    if along_C:
        ax.set_xscale("log")
    ax.set_xlabel("C (weight of the loss)" if along_C else "Strength of the noise (factor on the learnt rates)")
    words = found.scoring
    ax.set_ylabel(f"{words[0].upper()}{words[1:]} of held-out rows")
    light_grid(ax)
    plain_frame(ax)
    legend_above(ax, 1, 7 if along_C else 8)
    return ax


def _strength(one: Candidate) -> float:
    return np.nan if one.strength is None else one.strength


def _line(ax: Any, members: list[Candidate], along_C: bool, j: int, name: str) -> None:
    members = sorted(members, key=lambda one: one.C if along_C else _strength(one))
    x = [one.C if along_C else _strength(one) for one in members]
    errors = np.nan_to_num([one.worse_error for one in members])
    style = series_style(j) if j < MOST_SERIES else {"color": GREY, "linewidth": 0.8}
    label = {"label": literal(name)} if name and j < MOST_SERIES else {}
    ax.errorbar(x, [one.loss for one in members], errors, capsize=2.5, elinewidth=1.0, **style, **label)
