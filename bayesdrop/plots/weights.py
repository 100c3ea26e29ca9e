"""Plots of weights and marginal effects, of predictions over a variable, and of the weights of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import check_count, shown
from .style import (
    BLUE,
    GREY,
    MOST_SERIES,
    VERMILLION,
    WEIGHT_LABEL,
    check_fit,
    finished,
    legend_above,
    light_grid,
    literal,
    name_rows,
    new_axes,
    series_style,
    shortened,
)

if TYPE_CHECKING:
    from ..fitting.results.result import Fit

__all__ = ["effects", "row_weights", "weights_forest"]

_MOST_ROWS = 40
_LABELS = {"weight": WEIGHT_LABEL, "effect": "Average marginal effect (change of the prediction per unit)"}


def weights_forest(table: Any, *, top: int | None = None, ax: Any = None) -> Any:
    """Draw weights or average marginal effects, one row each, the largest first, with their intervals if any.

    Parameters
    ----------
    table : pandas.DataFrame
        Result of :func:`bayesdrop.weights_table` or :func:`bayesdrop.marginal_effects`.
    top : int, optional
        Maximum number of rows shown, the largest in size; 40 by default.
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
    maximum = _MOST_ROWS if top is None else check_count(top, "top")
    centre = np.asarray(table[what], dtype=float)
    chosen = np.argsort(-np.abs(centre), kind="stable")[:maximum]
    left_out, rows = len(centre) - len(chosen), np.arange(len(chosen), dtype=float)
    names = [f"{name[-1]} ({name[0]})" if isinstance(name, tuple) else str(name) for name in table.index]
    ax = new_axes(ax, 7.2, 1.4 + 0.25 * (len(rows) + bool(left_out)))
    ax.axvline(0, color=GREY, linewidth=0.8, zorder=0)
    interval_kind = table.attrs.get("weight_interval") or table.attrs.get("interval") or ""
    label = "posterior mean" if table.attrs.get("weight_interval", "").startswith("posterior") else "estimate"
    if "low" in columns:
        low, high = (np.asarray(table[end], dtype=float)[chosen] for end in ("low", "high"))
        ax.hlines(rows, low, high, color=BLUE, linewidth=1.6)
        label = f"{100 * table.attrs.get('probability', np.nan):g} %: {interval_kind or 'interval'}"
    elif "interval" in columns:
        label = f"interval: {interval_kind}"
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


# Number of rows above which points are drawn as an image.
_MANY_ROWS = 5000


def row_weights(fit: Fit, *, ax: Any = None) -> Any:
    """Plot the influence of each row on a fit: its ``ω`` against the margin ``y m`` or the residual ``y − m``.

    In the M-step a row counts as a normal observation of precision ``ω``. For a piecewise-linear loss, support vectors
    are marked: rows whose score is beyond the point where the slope of the loss jumps, or less than two standard
    deviations of the noise from it. Without noise ``ω`` is infinite at that point; noise lowers the peak.

    Parameters
    ----------
    fit : Fit
        Result of ``bd.fit``, from any minimiser.
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


def effects(table: Any, *, ax: Any = None) -> Any:
    """Draw predictions against a variable, with their intervals if any, one line for each combination of the others.

    Parameters
    ----------
    table : pandas.DataFrame
        Result of :func:`bayesdrop.predictions_grid`. Its first variable is the horizontal axis; each combination of the
        other variables, and each class, has its own line. The vertical axis has the name of the prediction that the
        table stores, such as ``P(ill = yes)``.
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
    ValueError
        If there are more lines than can be distinguished.

    See Also
    --------
    bayesdrop.predictions_grid

    Examples
    --------
    >>> import bayesdrop as bd
    >>> data = {"age": [31.0, 45, 52, 28, 40], "site": ["n", "s", "n", "s", "n"], "ill": [0, 1, 1, 0, 1]}
    >>> fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), "ill ~ scale(age) + site", data)
    >>> ax = effects(bd.predictions_grid(fit, data, ["age", "site"]))
    >>> ax.get_xlabel(), ax.get_ylabel(), len(ax.get_lines())
    ('age', 'P(ill = 1), 90 % interval', 2)
    """
    columns = list(getattr(table, "columns", []))
    variables = columns[: columns.index("prediction")] if "prediction" in columns else []
    if not variables:
        raise TypeError(
            "table: expected what bd.predictions_grid returned, a data frame with the variables and then a column "
            f"'prediction', got {shown(table) if not columns else columns[:5]}."
        )
    # The column of the classes is the first; a variable may have its name where there are no more than two.
    many = variables[0] == "class" and str(table.attrs.get("prediction", "= class)")).endswith("= class)")
    axis = variables[1 if many and len(variables) > 1 else 0]
    others = [name for name in variables if name != axis]
    has_intervals = "low" in columns
    groups = list(table.groupby(others, sort=False, observed=True)) if others else [((), table)]
    if len(groups) > MOST_SERIES:
        raise ValueError(
            f"table: {len(groups)} lines cannot be distinguished, at most {MOST_SERIES} can; give fewer values of "
            f"{', '.join(map(repr, others))}."
        )
    numeric = table[axis].dtype.kind in "iuf"
    ax = new_axes(ax, 6.0, 3.8)
    levels = list(dict.fromkeys(table[axis]))
    labels = _names_of_lines(others, [key if isinstance(key, tuple) else (key,) for key, _ in groups])
    for j, ((_, rows), label) in enumerate(zip(groups, labels, strict=True)):
        style = series_style(j)
        y = rows["prediction"].to_numpy(dtype=float)
        ends = (rows["low"].to_numpy(dtype=float), rows["high"].to_numpy(dtype=float)) if has_intervals else (y, y)
        if numeric:
            x = rows[axis].to_numpy(dtype=float)
            ax.plot(
                x, y, label=label if others else None, color=style["color"], linestyle=style["linestyle"], linewidth=1.6
            )
            if has_intervals:
                ax.fill_between(x, *ends, color=style["color"], alpha=0.18, linewidth=0)
        else:
            shift = (j - (len(groups) - 1) / 2) * 0.6 / max(len(groups), 2)
            x = np.array([levels.index(value) for value in rows[axis]]) + shift
            ax.errorbar(
                x, y, yerr=np.maximum(np.stack([y - ends[0], ends[1] - y]), 0) if has_intervals else None,
                fmt=style["marker"], color=style["color"], label=label if others else None, capsize=2, markersize=5,
            )  # fmt: skip
    if not numeric:
        ax.set_xticks(range(len(levels)), [shortened(str(level)) for level in levels])
        ax.margins(x=0.15)
    probability = table.attrs.get("probability", 0.9)
    ax.set_xlabel(shortened(axis))
    name = shortened(str(table.attrs.get("prediction", "Prediction")), 48)
    ax.set_ylabel(name + (f", {100 * probability:.3g} % interval" if has_intervals else ""))
    light_grid(ax)
    if others:
        legend_above(ax, 3)
    return ax


def _names_of_lines(variables: list[str], keys: list[tuple[Any, ...]]) -> list[str]:
    """Values of the variables of each line, with four digits and 32 letters, or as many as tell the lines apart.

    Examples
    --------
    >>> _names_of_lines(["inc"], [(100001.0,), (100002.0,)]), _names_of_lines(["z"], [(1 / 3,), (2.0,)])
    (['inc = 100001', 'inc = 100002'], ['z = 0.3333', 'z = 2'])
    """
    for digits in range(4, 18):  # 17 digits are all that a number has
        texts = [
            ", ".join(
                f"{name} = {value:.{digits}g}" if isinstance(value, float) else f"{name} = {value}"
                for name, value in zip(variables, key, strict=True)
            )
            for key in keys
        ]
        if len(set(texts)) == len(texts):
            break
    names = [shortened(text) for text in texts]
    return names if len(set(names)) == len(names) else [literal(text) for text in texts]
