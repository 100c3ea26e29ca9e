"""Plots of a fit or a run: the objective over the iterations, and rank plots of the chains.

Rank plots follow Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import check_count
from .style import (
    BLUE,
    CHAIN_COLORS,
    GREY,
    VERMILLION,
    check_fit,
    draws_of_variable,
    new_axes,
    new_figure,
    plain_frame,
    shortened,
)

if TYPE_CHECKING:
    from ..fitting.results.result import Fit

__all__ = ["objective_trace", "ranks"]


def objective_trace(fit: Fit, ax: Any = None) -> Any:
    """Draw the energy after each iteration of a fit.

    With fixed rates the energy never rises; it may rise when the rates are updated.

    Parameters
    ----------
    fit : Fit
        Result of ``bd.fit``.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    See Also
    --------
    bayesdrop.Fit

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> objective_trace(bd.fit(bd.Model(), X, y)).get_xlabel()
    'Iteration'
    """
    check_fit(fit)
    ax = new_axes(ax, 6.4, 3.8)
    from matplotlib.ticker import MaxNLocator

    trace = np.asarray(fit.objective_trace)
    iteration = np.arange(1, len(trace) + 1)
    ax.axhline(trace[-1], color=GREY, linewidth=0.8, linestyle="--", label=f"last value, {trace[-1]:.6g}")
    ax.plot(iteration, trace, "o-", color=BLUE, markersize=4, linewidth=1.4, label="energy")
    rose = np.flatnonzero(np.diff(trace) > 1e-9 * np.abs(trace[1:])) + 1
    if len(rose):
        ax.plot(
            iteration[rose], trace[rose], "^", color=VERMILLION, markersize=7, linestyle="none",
            label="rose, as the rates moved" if fit.rate_posterior is not None else "rose",
        )  # fmt: skip
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set(xlabel="Iteration", ylabel="Energy U (nats)")
    ax.set_title(fit.status.name.lower().replace("_", " "), fontsize=9, loc="right", color="#555555")
    ax.legend(loc="upper right", frameon=False, fontsize=9)
    plain_frame(ax)
    return ax


def ranks(post: Any, var: str = "rate", *, top: int = 12, bins: int = 20, figure: Any = None) -> Any:
    """Plot the ranks of the draws of each chain among all draws of a quantity.

    Chains that agree have flat histograms around 1; a sloping histogram, or one with gaps, shows a chain that explored
    another region. The quantities with the largest R-hat are shown, worst first.

    Parameters
    ----------
    post : ArviZ object or xarray.Dataset
        Posterior from ``bd.sample``.
    var : str, default="rate"
        ``"rate"``, ``"weight"`` or ``"intercept"``.
    top : int, default=12
        Maximum number of quantities shown.
    bins : int, default=20
        Number of bars of each histogram, at least 2.
    figure : matplotlib figure, optional
        Where to draw.

    Returns
    -------
    array of matplotlib axes
        One per quantity shown.

    See Also
    --------
    bayesdrop.diagnose

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

    from .._arviz import arviz

    az = arviz()

    draws, names, dim = draws_of_variable(post, var)
    check_count(top, "top")
    check_count(bins, "bins", 2)
    chains, length, k = draws.shape
    if chains < 2 or length < bins:
        raise ValueError(
            f"ranks: expected at least two chains of {bins} draws, got {chains} of {length}; sample more, or take "
            "fewer bins."
        )
    data = xr.Dataset({"value": (("chain", "draw", "name"), draws)})
    r_hat = np.asarray(az.rhat(data)["value"])
    size = np.asarray(az.ess(data, method="bulk")["value"])
    chosen = np.argsort(-np.nan_to_num(r_hat, nan=np.inf), kind="stable")[:top]
    columns = min(4, len(chosen))
    lines = -(-len(chosen) // columns)
    figure = new_figure(figure, max(2.1 * columns, 4.2) + 0.4, 1.55 * lines + 1.0)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    edges = np.linspace(0, 1, bins + 1)
    total = chains * length
    for panel, j in zip(grid.flat, chosen, strict=False):
        share = (rankdata(draws[..., j]).reshape(chains, length) - 0.5) / total
        panel.axhline(1, color=GREY, linewidth=0.8, zorder=0)
        for chain in range(chains):
            height = np.histogram(share[chain], edges)[0] * bins / length
            panel.stairs(
                height, edges, baseline=None, color=CHAIN_COLORS[chain % len(CHAIN_COLORS)], linewidth=1.1,
                linestyle=("-", "--", "-.", ":")[chain % 4], label=f"chain {chain}",
            )  # fmt: skip
        panel.set_title(f"{shortened(names[j], 26)}\n$\\hat{{R}}$ {r_hat[j]:.3f}, ESS {size[j]:,.0f}", fontsize=8)
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
