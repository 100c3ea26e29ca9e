"""Plot of a table of weights or marginal effects, one row each, with intervals.

Which rows a fit listens to: the expected precision of each row's pseudo-observation, and the support vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import check_count, shown
from .style import (
    BLUE,
    GREY,
    VERMILLION,
    WEIGHT_LABEL,
    check_fit,
    finished,
    legend_above,
    name_rows,
    new_axes,
    shortened,
)

if TYPE_CHECKING:
    from ..fitting.results.result import Fit

__all__ = ["row_weights", "weights_forest"]

_MOST_ROWS = 40
_LABELS = {"weight": WEIGHT_LABEL, "effect": "Average marginal effect (change of the prediction per unit)"}


def weights_forest(table: Any, *, top: int | None = None, ax: Any = None) -> Any:
    """Draw weights or average marginal effects, one row each, the largest first, with their intervals if any.

    Parameters
    ----------
    table : pandas.DataFrame
        What :func:`bayesdrop.weights_table` or :func:`bayesdrop.marginal_effects` returned.
    top : int, optional
        Show this many of the largest in size; by default at most 40.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    TypeError
        If ``table`` has another type.

    See Also
    --------
    bayesdrop.weights_table

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> ax = weights_forest(bd.weights_table(bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, y)))
    >>> ax.get_xlabel()
    'Weight (change of the score per unit of the feature)'
    """
    columns = list(getattr(table, "columns", []))
    what = next((name for name in _LABELS if name in columns), None)
    if what is None or not hasattr(table, "attrs"):
        raise TypeError(
            "table: expected what bd.weights_table or bd.marginal_effects returned, a data frame with a column "
            f"'weight' or 'effect', got {shown(table) if not columns else columns[:5]}."
        )
    most = _MOST_ROWS if top is None else check_count(top, "top")
    centre = np.asarray(table[what], dtype=float)
    chosen = np.argsort(-np.abs(centre), kind="stable")[:most]
    left_out, rows = len(centre) - len(chosen), np.arange(len(chosen), dtype=float)
    names = [f"{name[-1]} ({name[0]})" if isinstance(name, tuple) else str(name) for name in table.index]
    ax = new_axes(ax, 7.2, 1.4 + 0.25 * (len(rows) + bool(left_out)))
    ax.axvline(0, color=GREY, linewidth=0.8, zorder=0)
    known = table.attrs.get("weight_interval") or table.attrs.get("interval") or ""
    label = "posterior mean" if table.attrs.get("weight_interval", "").startswith("posterior") else "estimate"
    if "low" in columns:
        low, high = (np.asarray(table[end], dtype=float)[chosen] for end in ("low", "high"))
        ax.hlines(rows, low, high, color=BLUE, linewidth=1.6)
        label = f"{100 * table.attrs.get('probability', np.nan):g} %: {known or 'interval'}"
    elif "interval" in columns:
        label = f"interval: {known}"
    ax.plot(
        centre[chosen], rows, "o", color="white", markeredgecolor=BLUE, markersize=4.6, markeredgewidth=1.5,
        linestyle="none", label=label,
    )  # fmt: skip
    ticks, labels = rows, [shortened(names[j]) for j in chosen]
    if left_out:
        ticks, labels = np.append(rows, len(rows)), [*labels, f"⋮ {left_out} more, smaller"]
    name_rows(ax, ticks, labels)
    ax.set(ylim=(len(ticks) - 0.2, -0.8), xlabel=_LABELS[what])
    legend_above(ax, 1)
    return ax


# Above so many, points are drawn as an image.
_MANY_ROWS = 5000


def row_weights(fit: Fit, *, ax: Any = None) -> Any:
    """Plot the influence of each row on a fit: its ``ω`` against the margin ``y m`` or the residual ``y − m``.

    For the M-step a row is a normal observation of precision ``ω``. Under a piecewise-linear loss support vectors are
    marked: rows whose score is beyond the corner of the loss or within two standard deviations of the noise of it. The
    peak at the corner is infinite without noise, and lower with it.

    Parameters
    ----------
    fit : Fit
        What ``bd.fit`` returned, by any minimiser.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    ValueError
        If the loss was fitted without auxiliary variables; see :attr:`bayesdrop.Fit.auxiliary`.

    See Also
    --------
    bayesdrop.Fit

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> ax = row_weights(bd.fit(bd.Model(bd.Hinge(), rates=bd.Fixed(0.2)), X, y))
    >>> ax.get_xlabel()
    'Margin y·m: label times mean score'
    """
    check_fit(fit)
    rows = fit.auxiliary
    classes = fit.model.loss.binary
    place = rows.target * rows.mean if classes else rows.target - rows.mean
    omega, n = rows.omega, len(rows.mean)
    ax = new_axes(ax, 6.4, 4.2)
    has_support = rows.loss.piecewise_linear
    support = rows.support if has_support else np.ones(n, dtype=bool)
    style: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0.7, "rasterized": n > _MANY_ROWS}
    if has_support and not np.all(support):
        ax.plot(
            place[~support], omega[~support], "o", color=GREY, markersize=3.2, alpha=0.6, zorder=2,
            label=f"other rows: {n - support.sum():,}", **style,
        )  # fmt: skip
    label = f"support vectors: {support.sum():,} of {n:,}" if has_support else f"rows: {n:,}"
    ax.plot(
        place[support], omega[support], "D" if has_support else "o", color=VERMILLION if has_support else BLUE,
        markersize=4.0, markerfacecolor="none", zorder=3, label=label, **style,
    )  # fmt: skip
    if omega.min() > 0 and omega.max() > 30 * omega.min():
        ax.set_yscale("log")
    ax.set(
        xlabel="Margin y·m: label times mean score" if classes else "Residual y − m",
        ylabel="Weight ω of the row in the M-step",
    )
    return finished(ax, 2)
