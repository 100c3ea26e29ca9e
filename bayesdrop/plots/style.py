"""Style of all plots: colours for the colour-blind (Okabe & Ito 2008), series, axes and legends.

Also read the fit, or the draws of one variable of a posterior, that a plot shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Float
from .._validation import check_instance, extra, shown

__all__ = [
    "check_fit",
    "draws_of_variable",
    "finished",
    "label_points",
    "legend_above",
    "light_grid",
    "literal",
    "name_rows",
    "new_axes",
    "new_figure",
    "plain_frame",
    "score_name",
    "series_style",
    "shortened",
    "BLUE",
    "CHAIN_COLORS",
    "GREY",
    "LIGHT_GREY",
    "MOST_SERIES",
    "RATE_LABEL",
    "VERMILLION",
    "WEIGHT_LABEL",
]

BLUE, VERMILLION, _GREEN, _ORANGE, _YELLOW = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#F0E442"
GREY, LIGHT_GREY = "#888888", "#DDDDDD"
"""Colours of reference lines and of areas behind everything."""
CHAIN_COLORS = (BLUE, _ORANGE, _GREEN, "#CC79A7", "#56B4E9", VERMILLION, "#000000", _YELLOW)
# The yellow of the palette is too faint for a line on paper.
_SERIES_COLORS = tuple(color for color in CHAIN_COLORS if color != _YELLOW)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINES = ("-", "--", "-.", ":")
MOST_SERIES = len(_MARKERS)
"""Maximum number of series that can be distinguished without colours."""
RATE_LABEL = "Dropout rate (probability of being dropped)"
WEIGHT_LABEL = "Weight (change of the score per unit of the feature)"


def new_axes(ax: Any, width: float, height: float) -> Any:
    """The given axes, or new ones of a size in inches; raise TypeError on what is neither axes nor None."""
    if ax is None:
        return new_figure(None, width, height).subplots()
    from matplotlib.axes import Axes

    return check_instance(ax, "ax", Axes, "axes of matplotlib, such as plt.subplots()[1], or None")


def new_figure(figure: Any, width: float, height: float) -> Any:
    """The given figure, or a new one of a size in inches; raise TypeError on what is neither a figure nor None."""
    if figure is None:
        pyplot: Any = extra("matplotlib.pyplot", "bd.plots needs", "plot")
        return pyplot.figure(figsize=(width, height), layout="constrained")
    from matplotlib.figure import FigureBase

    return check_instance(figure, "figure", FigureBase, "a figure of matplotlib, such as plt.figure(), or None")


def series_style(j: int) -> dict[str, Any]:
    """Colour, marker and line of the j-th series; colour and marker are unique among :data:`MOST_SERIES` series."""
    k = j % MOST_SERIES
    return {
        "color": _SERIES_COLORS[k], "marker": _MARKERS[k], "linestyle": _LINES[k % len(_LINES)], "linewidth": 1.4,
        "markersize": 5, "markeredgecolor": "white", "markeredgewidth": 0.5,
    }  # fmt: skip


def score_name(scoring: Any) -> str:
    """Name of a scorer as an axis shows it.

    Examples
    --------
    >>> score_name("balanced_accuracy")
    'Balanced accuracy'
    """
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
    return str(name).replace("_", " ").capitalize()


def literal(text: Any) -> str:
    r"""Text from data, escaped for matplotlib: no formula between dollar signs, no unprintable letters.

    Matplotlib leaves a label that begins with an underscore out of a legend, so a zero-width space is put before it.

    Examples
    --------
    >>> print(literal("a $_$"))
    a \$_\$
    """
    plain = str(text).encode("utf-8", "replace").decode()
    plain = "".join(letter if letter.isprintable() else "\ufffd" for letter in plain).replace("$", r"\$")
    return f"\u200b{plain}" if plain.startswith("_") else plain


def shortened(name: str, limit: int = 32) -> str:
    """Text from data, cut to ``limit`` letters and escaped by :func:`literal`."""
    return literal(name if len(name) <= limit else f"{name[: limit - 1]}…")


def label_points(ax: Any, x: Any, y: Any, names: Sequence[str], chosen: Any) -> None:
    """Write names of points on their outer side, except names that would cover an earlier one."""
    ax.figure.canvas.draw()
    boxes: list[Any] = []
    for d in chosen:
        side = 1 if x[d] >= 0 else -1
        text = ax.annotate(
            shortened(names[d], 28), (x[d], y[d]), xytext=(7 * side, 0), textcoords="offset points",
            ha="left" if side > 0 else "right", va="center", fontsize=8,
        )  # fmt: skip
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in boxes):
            text.remove()
        else:
            boxes.append(box)


def legend_above(ax: Any, columns: int, fontsize: int = 8) -> None:
    """Draw the legend above the axes, where it covers nothing."""
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, frameon=False, fontsize=fontsize, borderaxespad=0.3
    )


def finished(ax: Any, columns: int, fontsize: int = 8) -> Any:
    """The axes with :func:`light_grid` and :func:`legend_above`."""
    light_grid(ax)
    legend_above(ax, columns, fontsize)
    return ax


def light_grid(ax: Any) -> None:
    """Draw a faint grid behind the data, and no frame above and to the right."""
    ax.grid(color="#E5E5E5", linewidth=0.5)
    ax.set_axisbelow(True)
    plain_frame(ax)


def plain_frame(ax: Any) -> None:
    """Leave out the frame above and to the right."""
    ax.spines[["top", "right"]].set_visible(False)


def name_rows(ax: Any, places: Any, names: Sequence[str]) -> None:
    """Write the names of the rows of a forest plot at their places, and draw faint vertical lines."""
    ax.set_yticks(places, names, fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="#CCCCCC", linewidth=0.5, zorder=0)
    ax.set_axisbelow(True)
    plain_frame(ax)


def check_fit(fit: Any, none: bool = False) -> None:
    """Raise TypeError unless ``fit`` is a :class:`bayesdrop.Fit`."""
    from ..fitting.results.result import Fit

    check_instance(fit, "fit", Fit, "what bd.fit returned", none=none, text=True)


def draws_of_variable(post: Any, var: str) -> tuple[Float[np.ndarray, "C S k"], list[str], str]:
    """Draws (chain, draw, k), the k names and their dim, from an ArviZ object or a posterior dataset.

    A variable with a dim of classes is flattened, class after class.
    """
    import xarray as xr

    from ..posterior.draws.draws import read_group

    group = post if isinstance(post, xr.Dataset) else read_group(post, "posterior")
    if not isinstance(var, str) or var not in group:
        raise ValueError(f"var: no variable {shown(var)} in the posterior; expected one of {sorted(map(str, group))}.")
    array = group[var]
    if not array.size:
        raise ValueError(f"var: {shown(var)} has no entries, for the model has no features; take 'intercept'.")
    dims = [str(dim) for dim in array.dims if dim not in ("chain", "draw")]
    if len(dims) == 2 and "class" in dims:
        (other,) = (dim for dim in dims if dim != "class")
        values = np.asarray(array.transpose("chain", "draw", "class", other).values, dtype=float)
        names = [f"{name} ({label})" for label in array["class"].values for name in array[other].values]
        return values.reshape(*values.shape[:2], -1), names, other
    if len(dims) > 1:
        raise ValueError(f"var: expected a scalar or one dim beyond chain and draw, got {shown(var)} on {dims}.")
    values = np.asarray(array.transpose("chain", "draw", *dims).values, dtype=float)
    if not dims:
        return values[..., None], [var], var
    return values, [str(name) for name in array[dims[0]].values], dims[0]
