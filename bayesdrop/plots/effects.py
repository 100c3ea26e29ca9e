"""Plot of predictions over a variable: a line with a band for a number, points with intervals for a factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import shown
from .style import MOST_SERIES, legend_above, light_grid, new_axes, series_style, shortened

__all__ = ["effects"]

_AFTER = ("prediction", "sd", "low", "high", "mcse", "interval")


def effects(table: Any, *, ax: Any = None) -> Any:
    """Draw predictions over a variable, with their intervals if there are any, one line for each value of the others.

    Parameters
    ----------
    table : pandas.DataFrame
        What :func:`bayesdrop.predictions_grid` returned. Its first variable is the axis; each combination of the other
        variables, and each class, has its own line. The table knows the name of the event that it predicts, such as
        ``P(ill = yes)``, which is that of the other axis.
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
    if "prediction" not in columns:
        raise TypeError(
            "table: expected what bd.predictions_grid returned, a data frame with a column 'prediction', got "
            f"{shown(table) if not columns else columns[:5]}."
        )
    variables = [name for name in columns if name not in _AFTER]
    axis = next(name for name in variables if name != "class")
    others = [name for name in variables if name != axis]
    known = "low" in columns
    groups = list(table.groupby(others, sort=False, observed=True)) if others else [((), table)]
    if len(groups) > MOST_SERIES:
        raise ValueError(
            f"table: {len(groups)} lines cannot be distinguished, at most {MOST_SERIES} can; give fewer values of "
            f"{', '.join(map(repr, others))}."
        )
    numeric = table[axis].dtype.kind in "iuf"
    ax = new_axes(ax, 6.0, 3.8)
    levels = list(dict.fromkeys(table[axis]))
    for j, (key, rows) in enumerate(groups):
        style = series_style(j)
        values = zip(others, key if isinstance(key, tuple) else (key,), strict=True)
        label = shortened(
            ", ".join(f"{name} = {v:.4g}" if isinstance(v, float) else f"{name} = {v}" for name, v in values)
        )
        y = rows["prediction"].to_numpy(dtype=float)
        ends = (rows["low"].to_numpy(dtype=float), rows["high"].to_numpy(dtype=float)) if known else (y, y)
        if numeric:
            x = rows[axis].to_numpy(dtype=float)
            ax.plot(
                x, y, label=label if others else None, color=style["color"], linestyle=style["linestyle"], linewidth=1.6
            )
            if known:
                ax.fill_between(x, *ends, color=style["color"], alpha=0.18, linewidth=0)
        else:
            shift = (j - (len(groups) - 1) / 2) * 0.6 / max(len(groups), 2)
            x = np.array([levels.index(value) for value in rows[axis]]) + shift
            ax.errorbar(
                x, y, yerr=np.maximum(np.stack([y - ends[0], ends[1] - y]), 0) if known else None, fmt=style["marker"],
                color=style["color"], label=label if others else None, capsize=2, markersize=5,
            )  # fmt: skip
    if not numeric:
        ax.set_xticks(range(len(levels)), [shortened(str(level)) for level in levels])
        ax.margins(x=0.15)
    probability = table.attrs.get("probability", 0.9)
    ax.set_xlabel(shortened(axis))
    name = shortened(str(table.attrs.get("prediction", "Prediction")), 48)
    ax.set_ylabel(name + (f", {100 * probability:.3g} % interval" if known else ""))
    light_grid(ax)
    if others:
        legend_above(ax, 3)
    return ax
