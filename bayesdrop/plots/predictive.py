"""Plots of replicated and observed data sets, for posterior predictive checks (Gelman, Meng & Stern 1996)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._typing import Float, Int, Num
from .._validation import check_choice, check_count, check_number
from .replicated import Replicated, ends, read_replicated, rows_by
from .style import (
    BLUE,
    GREY,
    LIGHT_GREY,
    VERMILLION,
    finished,
    legend_above,
    light_grid,
    new_axes,
    new_figure,
    shortened,
)

__all__ = ["ppc", "rootogram"]

_MOST_BARS = 30  # maximum number of bars of counts, each of one count or of an interval of counts
_GRID = 256  # points of a density
_OBSERVED, _REPLICATED = VERMILLION, BLUE


def ppc(
    post: Any,
    by: Any = None,
    kind: str | None = None,
    *,
    draws: int = 50,
    probability: float | int = 0.9,
    ax: Any = None,
    figure: Any = None,
) -> Any:
    """Draw the responses that a posterior predicts for the fitted rows, and the observed ones.

    Counts and classes are drawn as bars, with an interval over the replicated data sets; numbers as densities, one line
    for each of ``draws`` data sets. With ``by`` there is a panel for each value of a column; for two classes there is
    one panel, with the share of the second class for each value.

    Parameters
    ----------
    post : InferenceData or DataTree
        Posterior with the group ``posterior_predictive``, which :func:`bayesdrop.posterior_predictive` adds.
    by : sequence of n values, optional
        Column of the fitted rows, such as ``data["site"]``, with at most twelve different values.
    kind : "bars" or "density", optional
        By default bars for counts and classes, and densities for numbers; counts can have densities.
    draws : int, default=50
        Number of replicated data sets drawn as densities, spread evenly over the draws; intervals use all of them. The
        legend gives the number.
    probability : float, default=0.9
        Probability content of the intervals.
    ax : matplotlib axes, optional
        Where to draw one panel.
    figure : matplotlib figure, optional
        Where to draw several panels.

    Returns
    -------
    matplotlib Axes, or array of them
        The axes of the panel, or of each value of ``by``.

    Raises
    ------
    TypeError, ValueError
        If ``post`` lacks replicated responses, ``by`` does not match the rows, or densities of classes are requested.

    See Also
    --------
    bayesdrop.posterior_predictive, rootogram, loo_pit

    Notes
    -----
    A density is a histogram smoothed with Silverman's bandwidth of the observed numbers, the same for all data sets
    of a panel, over the range of all observed and nearly all replicated numbers. If counts exceed 29, they are grouped
    into at most thirty intervals of equal width.

    References
    ----------
    Gelman, Meng & Stern (1996), Posterior predictive assessment of model fitness via realized discrepancies,
    Statistica Sinica 6. Gabry et al. (2019), Visualization in Bayesian workflow, Journal of the Royal Statistical
    Society A 182, doi:10.1111/rssa.12378.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> rng = np.random.default_rng(0)
    >>> groups = {"observed_data": xr.Dataset({"y": ("obs_id", rng.poisson(3, 80))}),
    ...           "posterior_predictive": xr.Dataset({"y": (("chain", "draw", "obs_id"), rng.poisson(3, (2, 50, 80)))})}
    >>> ax = ppc(bd.groups.assemble(groups))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('y', 'Rows')
    """
    replicated = read_replicated(post)
    check_choice(kind, "kind", (None, "bars", "density"))
    probability = check_number(probability, "probability", above=0, below=1)
    check_count(draws, "draws")
    kind = kind or ("bars" if replicated.is_whole else "density")
    if kind == "bars" and not replicated.is_whole:
        raise ValueError("kind: numbers have no bars; take 'density', or leave it out.")
    if kind == "density" and replicated.labels is not None:
        raise ValueError("kind: classes have no density; take 'bars', or leave it out.")
    total = len(replicated.drawn)
    description = (
        f"{min(draws, total)} of {total:,} data sets" if kind == "density" else _describe_draws(total, probability)
    )
    if by is None:
        ax = new_axes(ax, 6.0, 3.8)
        _panel(ax, replicated, kind, draws, probability, np.arange(len(replicated.observed)), description)
        _name_axes([ax], replicated, kind)
        legend_above(ax, 2)
        return ax
    name, values, place = rows_by(by, len(replicated.observed))
    if replicated.labels is not None and len(replicated.labels) == 2:
        ax = new_axes(ax, 6.0, 3.8)
        _shares(ax, replicated, values, place, probability)
        ax.set_xlabel(shortened(name))
        legend_above(ax, 2)
        return ax
    columns = min(len(values), 3)
    lines = math.ceil(len(values) / columns)
    figure = new_figure(figure, 3.0 * columns + 0.6, 2.5 * lines + 0.8)
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True)
    for panel in grid.flat[len(values) :]:
        panel.set_visible(False)
    panels = grid.flat[: len(values)]
    for k, panel in enumerate(panels):
        _panel(panel, replicated, kind, draws, probability, np.flatnonzero(place == k), description, room=8)
        panel.set_title(shortened(f"{name} = {values[k]}"), fontsize=9, loc="left")
    _name_axes(panels, replicated, kind, columns)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False, fontsize=8)
    return panels


def rootogram(post: Any, *, probability: float | int = 0.9, ax: Any = None) -> Any:
    """Draw a hanging rootogram of counts: square roots of observed frequencies hang from those of the expected ones.

    A bar that ends above the line at 0 is a count observed less often than expected; below it, more often.
    The band around the line is an interval of the ends of the bars of replicated data sets.

    Parameters
    ----------
    post : InferenceData or DataTree
        Posterior of counts with the group ``posterior_predictive``, which :func:`bayesdrop.posterior_predictive` adds.
    probability : float, default=0.9
        Probability content of the band.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    TypeError, ValueError
        If ``post`` lacks replicated responses, or these are not counts.

    See Also
    --------
    ppc

    References
    ----------
    Kleiber & Zeileis (2016), Visualizing count data regressions using rootograms, The American Statistician 70,
    doi:10.1080/00031305.2016.1173590.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> rng = np.random.default_rng(0)
    >>> groups = {"observed_data": xr.Dataset({"y": ("obs_id", rng.poisson(3, 80))}),
    ...           "posterior_predictive": xr.Dataset({"y": (("chain", "draw", "obs_id"), rng.poisson(3, (2, 50, 80)))})}
    >>> rootogram(bd.groups.assemble(groups)).get_ylabel()
    '√ rows'
    """
    replicated = read_replicated(post)
    probability = check_number(probability, "probability", above=0, below=1)
    if not replicated.is_whole or replicated.labels is not None:
        raise ValueError(
            "post: a rootogram needs counts, as under bd.Poisson(); take bd.plots.ppc for other responses."
        )
    ax = new_axes(ax, 6.0, 3.8)
    edges, names = _intervals(replicated)
    drawn = _counts(replicated.drawn, edges)
    observed, expected = np.sqrt(_counts(replicated.observed[None], edges)[0]), np.sqrt(drawn.mean(axis=0))
    low, high = ends(expected - np.sqrt(drawn), probability)
    x = np.arange(len(names))
    description = _describe_draws(len(drawn), probability)
    ax.bar(x, high - low, 1.0, low, color=LIGHT_GREY, zorder=0, label=f"ends of replicated bars ({description})")
    ax.bar(x, observed, 0.8, expected - observed, color=_OBSERVED, alpha=0.55, label="observed, hanging")
    ax.plot(x, expected, color=_REPLICATED, marker="o", markersize=4, linewidth=1.4, label="expected")
    ax.axhline(0, color=GREY, linewidth=0.9)
    _ticks(ax, names, 16)
    ax.set(xlabel=shortened(replicated.name), ylabel="√ rows")
    return finished(ax, 3)


def _describe_draws(total: int, probability: float) -> str:
    return f"{total:,} data sets, {100 * probability:g} %"


def _panel(
    ax: Any, replicated: Replicated, kind: str, draws: int, probability: float, rows: Int[np.ndarray, " m"],
    description: str, room: int = 16,
) -> None:  # fmt: skip
    """Draw observed and replicated responses of some rows."""
    if kind == "density":
        _densities(ax, replicated, draws, rows, description)
        return
    edges, names = _intervals(replicated)
    drawn = _counts(replicated.drawn[:, rows], edges)
    _bars(ax, _counts(replicated.observed[None, rows], edges)[0], drawn, probability, description)
    _ticks(ax, names, room)


def _bars(
    ax: Any, observed: Float[np.ndarray, " k"], drawn: Float[np.ndarray, "S k"], probability: float, description: str
) -> None:
    """Draw bars of the observed counts, and medians with intervals of the replicated ones."""
    x, middle, (low, high) = np.arange(len(observed)), np.median(drawn, axis=0), ends(drawn, probability)
    ax.bar(x, observed, 0.8, color=_OBSERVED, alpha=0.45, label="observed")
    ax.errorbar(
        x, middle, [middle - low, high - middle], fmt="o", color=_REPLICATED, markersize=4, capsize=2, elinewidth=1.2,
        label=f"replicated ({description})",
    )  # fmt: skip
    light_grid(ax)


def _name_axes(panels: Any, replicated: Replicated, kind: str, columns: int = 1) -> None:
    """Name the axes of the lowest and the leftmost panels."""
    for k, panel in enumerate(panels):
        if k + columns >= len(panels):
            panel.set_xlabel(shortened(replicated.name))
            panel.tick_params(labelbottom=True)
        if k % columns == 0:
            panel.set_ylabel("Rows" if kind == "bars" else "Density")


def _shares(
    ax: Any, replicated: Replicated, values: list[str], place: Int[np.ndarray, " n"], probability: float
) -> None:
    """Draw the share of the second of two classes for each value of a column."""
    assert replicated.labels is not None
    rows = np.bincount(place, minlength=len(values))
    drawn = np.stack([np.bincount(place, one, minlength=len(values)) for one in replicated.drawn]) / rows
    observed = np.bincount(place, replicated.observed, minlength=len(values)) / rows
    _bars(ax, observed, drawn, probability, _describe_draws(len(drawn), probability))
    names = [f"{shortened(value, 16)}\n{count} rows" for value, count in zip(values, rows, strict=True)]
    ax.set_xticks(range(len(values)), names)
    ax.set_ylabel(shortened(f"P({replicated.name} = {replicated.labels[1]})", 48))


def _densities(ax: Any, replicated: Replicated, draws: int, rows: Int[np.ndarray, " m"], description: str) -> None:
    """Draw densities of some replicated data sets, and over them the density of the observed one."""
    shown, observed = replicated.some(draws), replicated.observed.astype(float)
    inner = np.quantile(shown, [0.002, 0.998])
    low, high = min(observed.min(), inner[0]), max(observed.max(), inner[1])
    spread = min(observed[rows].std(), np.subtract(*np.quantile(observed[rows], [0.75, 0.25])) / 1.34)
    width = 0.9 * (spread or observed[rows].std() or 1.0) * len(rows) ** -0.2
    low, high = low - 2 * width, high + 2 * width
    ax.plot([], [], color=_REPLICATED, linewidth=1.2, label=f"replicated ({description})")
    for one in shown[:, rows]:
        ax.plot(*_density(one, low, high, width), color=_REPLICATED, alpha=0.25, linewidth=0.7)
    ax.plot(*_density(observed[rows], low, high, width), color=_OBSERVED, linewidth=1.8, label="observed")
    ax.set_ylim(bottom=0)
    light_grid(ax)


def _density(
    values: Num[np.ndarray, " m"], low: float, high: float, width: float
) -> tuple[Float[np.ndarray, " g"], Float[np.ndarray, " g"]]:
    """Points of a density: a fine histogram smoothed by a normal kernel.

    Examples
    --------
    >>> x, height = _density(np.random.default_rng(0).normal(size=20000), -4.0, 4.0, 0.1)
    >>> bool(abs(height[np.argmin(abs(x))] - 0.399) < 0.02), round(float(height.sum() * (x[1] - x[0])), 3)
    (True, 1.0)
    """
    from scipy.ndimage import gaussian_filter1d

    heights, edges = np.histogram(values, _GRID, (low, high))
    step = edges[1] - edges[0]
    smooth = gaussian_filter1d(heights.astype(float), width / step, mode="constant")
    return (edges[1:] + edges[:-1]) / 2, smooth / (len(values) * step)


def _intervals(replicated: Replicated) -> tuple[Float[np.ndarray, " e"], list[str]]:
    """Edges of the bars, and their names: classes, counts, or intervals of counts."""
    if replicated.labels is not None:
        return np.arange(len(replicated.labels) + 1) - 0.5, [shortened(label, 16) for label in replicated.labels]
    largest = int(max(replicated.observed.max(), np.quantile(replicated.drawn, 0.999)))
    step = math.ceil((largest + 1) / _MOST_BARS)
    starts = np.arange(0, largest + 1, step)
    names = [str(start) if step == 1 else f"{start}–{start + step - 1}" for start in starts]
    return np.append(starts, starts[-1] + step) - 0.5, names


def _counts(drawn: Num[np.ndarray, "S n"], edges: Float[np.ndarray, " e"]) -> Float[np.ndarray, "S k"]:
    """Number of rows in each interval, for each data set."""
    return np.stack([np.histogram(one, len(edges) - 1, (edges[0], edges[-1]))[0] for one in drawn]).astype(float)


def _ticks(ax: Any, names: list[str], room: int) -> None:
    """Write the names below the bars, not all if there are many; ``room`` names of up to three letters fit."""
    every = math.ceil(len(names) / (room if max(map(len, names)) < 4 or len(names) <= room // 2 else room // 2))
    ax.set_xticks(range(0, len(names), every), names[::every])
