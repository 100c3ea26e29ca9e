"""Plots of learnt rates, their posterior and how a fit or a chain went.

Every function draws on given axes or on a new figure and returns the axes; ``ax.figure.savefig("rates.png")`` writes
it. Colours are those of Okabe & Ito, which the colour-blind can tell apart, and every series has a marker of its own.
Rank plots follow Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .curves import deletion_robustness, rate_path
from .drawing import BLUE, CHAIN_COLORS, VERMILLION, new_axes, plain_frame
from .latent.plots import class_responses, error_curves, hidden_units
from .prior_intervals import drawn_prior_interval, prior_interval
from .reliability import reliability_curve

if TYPE_CHECKING:
    from .results import Fit

__all__ = [
    "class_responses",
    "deletion_robustness",
    "error_curves",
    "hidden_units",
    "objective_trace",
    "ranks",
    "rate_against_weight",
    "rate_path",
    "rates_forest",
    "reliability_curve",
]

Array = Any

_PRIOR = "#DDDDDD"
_MOST_ROWS = 40


def _shortened(name: str, limit: int = 32) -> str:
    return name if len(name) <= limit else f"{name[: limit - 1]}…"


def _draws(post: Any, var: str) -> tuple[Array, list[str], str]:
    """Draws (chain, draw, k), the k names and their dim, from an ArviZ object or a posterior dataset."""
    group = post["posterior"] if hasattr(post, "posterior") else post
    if var not in group:
        raise ValueError(f"var: no variable {var!r} in the posterior; expected one of {sorted(map(str, group))}.")
    array = group[var]
    dims = [str(dim) for dim in array.dims if dim not in ("chain", "draw")]
    if len(dims) > 1:
        raise ValueError(f"var: expected a scalar or one dim beside chain and draw, got {var!r} on {dims}.")
    values = np.asarray(array.transpose("chain", "draw", *dims).values, dtype=float)
    if not dims:
        return values[..., None], [var], var
    return values, [str(name) for name in array[dims[0]].values], dims[0]


def rates_forest(
    post: Any = None, fit: Fit | None = None, *, top: int | None = None, probability: float = 0.9, ax: Any = None
) -> Any:
    """Draw the dropout rates, one row each, sorted: posterior, plug-in posterior and prior.

    Parameters
    ----------
    post : ArviZ object or xarray.Dataset, optional
        What ``bd.sample`` returned: median, inner 50 % and outer ``probability`` interval are drawn, and the prior
        unless it is hierarchical.
    fit : Fit, optional
        What ``bd.fit`` returned: the learnt rate, its plug-in interval and the prior are drawn.
    top : int, optional
        Show this many of the largest and of the smallest rates; by default all up to 40, else 20 of each.
    probability : float
        Of the intervals: equal-tailed ones, but of highest density for the plug-in posterior, as they hold its mode.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ValueError
        If there is no learnt rate to show, or ``post`` and ``fit`` do not name the same rates.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> ax = rates_forest(fit=bd.fit(bd.Model(), X, y))
    >>> ax.get_xlabel()
    'Dropout rate (probability of being dropped)'
    """
    plug_in = None if fit is None else fit.rate_posterior
    if post is None and plug_in is None:
        came = "neither" if fit is None else "a fit with fixed rates"
        raise ValueError(f"rates_forest: expected post, or a fit with learnt rates, got {came}; no rate to show.")
    if not 0 < probability < 1:
        raise ValueError(f"probability: expected a number in (0, 1), got {probability!r}.")
    names, dim, centre = [], "feature", np.empty(0)
    if plug_in is not None:
        names, dim, centre = plug_in.names, plug_in.dim, plug_in.mode
    quantiles = None
    if post is not None:
        draws, drawn, dim = _draws(post, "rate")
        if plug_in is not None and drawn != names:
            raise ValueError("rates_forest: post and fit have different rates; give a fit of the sampled model.")
        tail = (1 - probability) / 2
        quantiles = np.quantile(draws, [tail, 0.25, 0.5, 0.75, 1 - tail], axis=(0, 1))
        names, centre = drawn, quantiles[2]
    order = np.argsort(centre, kind="stable")
    if top is not None and top < 1:
        raise ValueError(f"top: expected a whole number above 0, got {top!r}.")
    half = top if top is not None else (_MOST_ROWS // 2 if len(order) > _MOST_ROWS else len(order))
    left_out = max(0, len(order) - 2 * half)
    rows = np.arange(len(order), dtype=float)
    if left_out:
        order = np.concatenate([order[:half], order[-half:]])
        rows = np.concatenate([np.arange(half), np.arange(half) + half + 1.0])
    ax = new_axes(ax, 7.2, 1.6 + 0.235 * (len(rows) + bool(left_out)))
    both = post is not None and plug_in is not None
    shift = 0.17 if both else 0.0
    if quantiles is not None:
        q = quantiles[:, order]
        ax.hlines(rows + shift, q[0], q[4], color=BLUE, linewidth=1.3)
        ax.hlines(rows + shift, q[1], q[3], color=BLUE, linewidth=3.2)
        ax.plot(
            q[2], rows + shift, "o", color="white", markeredgecolor=BLUE, markersize=4.2, markeredgewidth=1.4,
            linestyle="none", label=f"posterior: median, 50 % and {100 * probability:g} %",
        )  # fmt: skip
    if plug_in is not None and fit is not None:
        low, high = plug_in.take(order).interval(probability)
        ax.hlines(rows - shift, low, high, color=VERMILLION, linewidth=1.3)
        ax.plot(
            plug_in.mode[order], rows - shift, "D", color=VERMILLION, markersize=3.6, linestyle="none",
            label=f"plug-in: learnt rate, {100 * probability:g} %",
        )  # fmt: skip
        prior: Any = prior_interval(fit, probability)
    else:
        prior = drawn_prior_interval(post, len(names), probability)
    if prior is not None:
        low, high = prior
        ax.barh(
            rows, (high - low)[order], left=low[order], height=0.86, color=_PRIOR, alpha=0.55, linewidth=0, zorder=0,
            label=f"prior, {100 * probability:g} %",
        )  # fmt: skip
    labels = [_shortened(names[j]) for j in order]
    ticks = rows
    if left_out:
        ticks, labels = np.insert(rows, half, half), [*labels[:half], f"⋮ {left_out} more", *labels[half:]]
    ax.set_yticks(ticks, labels, fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.8, rows[-1] + 0.8)
    ax.set_xlim(0, 1)
    ax.grid(axis="x", color="#CCCCCC", linewidth=0.5, zorder=0)
    ax.set_axisbelow(True)
    ax.set_xlabel("Dropout rate (probability of being dropped)")
    ax.set_ylabel(dim.capitalize())
    # Above the axes, so that it can cover no row.
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, frameon=False, fontsize=8, borderaxespad=0.3)
    plain_frame(ax)
    return ax


def rate_against_weight(fit: Fit, ax: Any = None, *, labels: int = 8) -> Any:
    """Scatter the dropout rate of each feature over its weight.

    A feature with a large weight and a small rate is one that the model relies on; small weights with large rates
    are features whose sign the rows contradict.

    Parameters
    ----------
    fit : Fit
        What ``bd.fit`` returned.
    ax : matplotlib axes, optional
        Where to draw.
    labels : int
        Name this many features, the largest weights first, where the names do not overlap.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> rate_against_weight(bd.fit(bd.Model(), X, y)).get_ylabel()
    'Dropout rate (probability of being dropped)'
    """
    ax = new_axes(ax, 7.2, 4.6)
    weight, rate = np.asarray(fit.weight), np.asarray(fit.rates)
    crowd = 0.85 if len(weight) <= 200 else 0.35
    for side, marker, color in ((weight >= 0, "^", BLUE), (weight < 0, "v", VERMILLION)):
        if np.any(side):
            label = "" if fit.classes is None else str(fit.classes[1] if marker == "^" else fit.classes[0])
            ax.plot(
                weight[side], rate[side], marker, color=color, markersize=6 if crowd > 0.5 else 3.5, linestyle="none",
                markeredgecolor="white", markeredgewidth=0.5, alpha=crowd, label=f"speaks for {_shortened(label)}",
            )  # fmt: skip
    ax.axvline(0, color="#888888", linewidth=0.8, zorder=0)
    ax.set_ylim(-0.04, 1.04)
    ax.margins(x=0.16)
    ax.grid(color="#E5E5E5", linewidth=0.5)
    ax.set_axisbelow(True)
    ax.set_xlabel("Weight (change of the score per unit of the feature)")
    ax.set_ylabel("Dropout rate (probability of being dropped)")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, frameon=False, fontsize=9, borderaxespad=0.3)
    plain_frame(ax)
    _label_points(ax, weight, rate, fit.feature_names, np.argsort(-np.abs(weight), kind="stable")[:labels])
    return ax


def _label_points(ax: Any, x: Array, y: Array, names: Sequence[str], chosen: Array) -> None:
    """Name points, each at the first of four places where it covers neither a point nor another name."""
    ax.figure.canvas.draw()
    renderer = ax.figure.canvas.get_renderer() if hasattr(ax.figure.canvas, "get_renderer") else None
    points = ax.transData.transform(np.column_stack([x, y]))
    frame = ax.get_window_extent(renderer)
    taken: list[Any] = []
    for d in chosen:
        outward = ((7, 0, "left"), (-7, 0, "right")) if x[d] >= 0 else ((-7, 0, "right"), (7, 0, "left"))
        for dx, dy, side in (*outward, (0, 9, "center"), (0, -9, "center")):
            text = ax.annotate(
                _shortened(names[d], 28), (x[d], y[d]), xytext=(dx, dy), textcoords="offset points", ha=side,
                va="center", fontsize=8,
            )  # fmt: skip
            box = text.get_window_extent(renderer)
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 + 4 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            covered = np.any(
                (points[:, 0] > box.x0 - 3) & (points[:, 0] < box.x1 + 3)
                & (points[:, 1] > box.y0 - 3) & (points[:, 1] < box.y1 + 3)
            )  # fmt: skip
            if inside and not covered and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def objective_trace(fit: Fit, ax: Any = None) -> Any:
    """Draw the energy after each iteration of a fit.

    It may rise where the learnt rates moved, and never does at fixed rates.

    Parameters
    ----------
    fit : Fit
        What ``bd.fit`` returned.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> objective_trace(bd.fit(bd.Model(), X, y)).get_xlabel()
    'Iteration'
    """
    from matplotlib.ticker import MaxNLocator

    ax = new_axes(ax, 6.4, 3.8)
    trace = np.asarray(fit.objective_trace)
    iteration = np.arange(1, len(trace) + 1)
    ax.axhline(trace[-1], color="#888888", linewidth=0.8, linestyle="--", label=f"last value, {trace[-1]:.6g}")
    ax.plot(iteration, trace, "o-", color=BLUE, markersize=4, linewidth=1.4, label="energy")
    rose = np.flatnonzero(np.diff(trace) > 1e-9 * np.abs(trace[1:])) + 1
    if len(rose):
        ax.plot(
            iteration[rose], trace[rose], "^", color=VERMILLION, markersize=7, linestyle="none",
            label="rose, as the rates moved" if fit.rate_posterior is not None else "rose",
        )  # fmt: skip
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlabel("Iteration")
    ax.set_ylabel("Energy U (nats)")
    ax.set_title(fit.status.name.lower().replace("_", " "), fontsize=9, loc="right", color="#555555")
    ax.legend(loc="upper right", frameon=False, fontsize=9)
    plain_frame(ax)
    return ax


def ranks(post: Any, var: str = "rate", *, top: int = 12, bins: int = 20, figure: Any = None) -> Any:
    """Draw rank plots: how the draws of each chain spread among all draws of a quantity.

    Chains that agree have flat histograms around 1; a chain that leans to one side or leaves ranks out has not seen
    what the others saw. The quantities with the largest R-hat are shown, worst first.

    Parameters
    ----------
    post : ArviZ object or xarray.Dataset
        What ``bd.sample`` returned.
    var : str
        ``"rate"``, ``"weight"`` or ``"intercept"``.
    top : int
        Most quantities to show.
    bins : int
        Bars of each histogram.
    figure : matplotlib figure, optional
        Where to draw.

    Returns
    -------
    array of matplotlib axes
        One per quantity shown.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> draws = np.random.default_rng(0).random((4, 200, 3))
    >>> post = xr.Dataset({"rate": (("chain", "draw", "feature"), draws)}, coords={"feature": ["a", "b", "c"]})
    >>> len(ranks(post))
    3
    """
    import xarray as xr
    from scipy.stats import rankdata

    from .groups import arviz

    az = arviz()

    draws, names, dim = _draws(post, var)
    if top < 1 or bins < 2:
        raise ValueError(f"ranks: expected top of at least 1 and bins of at least 2, got top={top!r}, bins={bins!r}.")
    chains, length, k = draws.shape
    if chains < 2 or length < bins:
        raise ValueError(
            f"ranks: expected at least two chains of {bins} draws, got {chains} of {length}; sample more, or ask for "
            "fewer bins."
        )
    data = xr.Dataset({"value": (("chain", "draw", "name"), draws)})
    r_hat = np.asarray(az.rhat(data)["value"])
    size = np.asarray(az.ess(data, method="bulk")["value"])
    chosen = np.argsort(-np.nan_to_num(r_hat, nan=np.inf), kind="stable")[:top]
    columns = min(4, len(chosen))
    lines = -(-len(chosen) // columns)
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(max(2.1 * columns, 4.2) + 0.4, 1.55 * lines + 1.0), layout="constrained")
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    edges = np.linspace(0, 1, bins + 1)
    total = chains * length
    for panel, j in zip(grid.flat, chosen, strict=False):
        share = (rankdata(draws[..., j]).reshape(chains, length) - 0.5) / total
        panel.axhline(1, color="#888888", linewidth=0.8, zorder=0)
        for chain in range(chains):
            height = np.histogram(share[chain], edges)[0] * bins / length
            panel.stairs(
                height, edges, baseline=None, color=CHAIN_COLORS[chain % len(CHAIN_COLORS)], linewidth=1.1,
                linestyle=("-", "--", "-.", ":")[chain % 4], label=f"chain {chain}",
            )  # fmt: skip
        panel.set_title(f"{_shortened(names[j], 26)}\n$\\hat{{R}}$ {r_hat[j]:.3f}, ESS {size[j]:,.0f}", fontsize=8)
        panel.set_xlim(0, 1)
        panel.tick_params(labelsize=7)
        plain_frame(panel)
    for panel in grid.flat[len(chosen) :]:
        panel.set_visible(False)
        grid[lines - 2, list(grid[-1]).index(panel)].tick_params(labelbottom=True)
    grid[0, 0].set_ylim(bottom=0)
    left_out = f", the {len(chosen)} of {k} with the largest $\\hat{{R}}$" if len(chosen) < k else ""
    figure.supxlabel(f"Rank of the draw among all chains (fraction; {var} by {dim}{left_out})", fontsize=9)
    figure.supylabel("Relative frequency", fontsize=9)
    handles, names_of = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names_of, loc="outside upper center", ncols=min(chains, 8), frameon=False, fontsize=8)
    return grid.flat[: len(chosen)]
