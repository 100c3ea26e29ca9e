"""Plots of learnt rates: posteriors with priors, and rates against weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import check_count, check_number
from ..posterior.draws.log_prior import drawn_prior_interval, prior_interval
from .style import (
    BLUE,
    GREY,
    LIGHT_GREY,
    RATE_LABEL,
    VERMILLION,
    WEIGHT_LABEL,
    check_fit,
    draws_of_variable,
    label_points,
    legend_above,
    light_grid,
    literal,
    name_rows,
    new_axes,
    shortened,
)

if TYPE_CHECKING:
    from ..fitting.results.result import Fit

__all__ = ["rate_against_weight", "rates_forest"]

_MOST_ROWS = 40


def rates_forest(
    post: Any = None, fit: Fit | None = None, *, top: int | None = None, probability: float | int = 0.9, ax: Any = None
) -> Any:
    """Draw the dropout rates, one row each, sorted: posterior, plug-in posterior and prior.

    Parameters
    ----------
    post : ArviZ object or xarray.Dataset, optional
        Posterior from ``bd.sample``: median, inner 50 % and outer ``probability`` interval are drawn, and the prior
        unless it is hierarchical.
    fit : Fit, optional
        Result of ``bd.fit``: the learnt rate, its plug-in interval and the prior are drawn.
    top : int, optional
        Show this many of the largest and of the smallest rates; by default all up to 40, else 20 of each.
    probability : float, default=0.9
        Probability content of the intervals, which are equal-tailed for the posterior and of highest density for the
        plug-in posterior.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    ValueError
        If there is no learnt rate to show, or ``post`` and ``fit`` do not name the same rates.

    See Also
    --------
    bayesdrop.sample, bayesdrop.plots.weights_forest

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> ax = rates_forest(fit=bd.fit(bd.Model(), X, y))
    >>> ax.get_xlabel()
    'Dropout rate (probability of being dropped)'
    """
    check_fit(fit, none=True)
    plug_in = None if fit is None else fit.rate_posterior
    if post is None and plug_in is None:
        came = "neither" if fit is None else "a fit with fixed rates"
        raise ValueError(f"rates_forest: expected post, or a fit with learnt rates, got {came}; no rate to show.")
    probability = check_number(probability, "probability", above=0, below=1)
    names, dim, centre = [], "feature", np.empty(0)
    if plug_in is not None and fit is not None:
        names, dim, centre = plug_in.names, plug_in.dim, plug_in.mode
    quantiles = None
    if post is not None:
        draws, drawn, dim = draws_of_variable(post, "rate")
        if plug_in is not None:
            if sorted(drawn) != sorted(names):
                raise ValueError("rates_forest: post and fit have different rates; give a fit of the sampled model.")
            draws, drawn = draws[..., [drawn.index(name) for name in names]], names
        tail = (1 - probability) / 2
        quantiles = np.quantile(draws, [tail, 0.25, 0.5, 0.75, 1 - tail], axis=(0, 1))
        names, centre = drawn, quantiles[2]
    order = np.argsort(centre, kind="stable")
    if top is not None:
        check_count(top, "top")
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
        prior = drawn_prior_interval(post, probability)
    if prior is not None:
        low, high = prior
        ax.barh(
            rows, (high - low)[order], left=low[order], height=0.86, color=LIGHT_GREY, alpha=0.55, linewidth=0,
            zorder=0, label=f"prior, {100 * probability:g} %",
        )  # fmt: skip
    labels = [shortened(names[j]) for j in order]
    ticks = rows
    if left_out:
        ticks, labels = np.insert(rows, half, half), [*labels[:half], f"⋮ {left_out} more", *labels[half:]]
    name_rows(ax, ticks, labels)
    ax.set(ylim=(-0.8, rows[-1] + 0.8), xlim=(0, 1), xlabel=RATE_LABEL, ylabel=literal(dim.capitalize()))
    legend_above(ax, 3)
    return ax


def rate_against_weight(fit: Fit, ax: Any = None, *, labels: int = 8) -> Any:
    """Scatter the dropout rate of each feature against its weight.

    The model relies on a feature with a large weight and a small rate. A small weight with a large rate belongs to a
    feature whose sign the rows contradict. With more than two classes, the norm of the weights over the classes is
    shown.

    Parameters
    ----------
    fit : Fit
        Result of ``bd.fit``.
    ax : matplotlib axes, optional
        Where to draw.
    labels : int, default=8
        Number of features to name, the largest weights first; a name that would overlap another is left out.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    See Also
    --------
    bayesdrop.plots.rates_forest

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> rate_against_weight(bd.fit(bd.Model(), X, y)).get_ylabel()
    'Dropout rate (probability of being dropped)'
    """
    check_fit(fit)
    check_count(labels, "labels", 0)
    ax = new_axes(ax, 7.2, 4.6)
    weight, rate = np.asarray(fit.weight), np.asarray(fit.rates)
    many = weight.ndim > 1
    weight = np.sqrt(np.sum(weight**2, axis=0)) if many else weight
    crowd = 0.85 if len(weight) <= 200 else 0.35
    sides = (
        [(np.full(len(weight), True), "o", GREY)] if many else [(weight >= 0, "^", BLUE), (weight < 0, "v", VERMILLION)]
    )
    for side, marker, color in sides:
        if np.any(side):
            if many:
                what = f"norm over {len(fit.weight)} classes"
            elif fit.classes is None:
                what = f"{'positive' if marker == '^' else 'negative'} weight"
            else:
                what = f"supports {shortened(str(fit.classes[int(marker == '^')]))}"
            ax.plot(
                weight[side], rate[side], marker, color=color, markersize=6 if crowd > 0.5 else 3.5, linestyle="none",
                markeredgecolor="white", markeredgewidth=0.5, alpha=crowd, label=what,
            )  # fmt: skip
    ax.axvline(0, color=GREY, linewidth=0.8, zorder=0)
    ax.set_ylim(-0.04, 1.04)
    ax.margins(x=0.16)
    light_grid(ax)
    ax.set(xlabel=WEIGHT_LABEL, ylabel=RATE_LABEL)
    legend_above(ax, 2, fontsize=9)
    label_points(ax, weight, rate, fit.feature_names, np.argsort(-np.abs(weight), kind="stable")[:labels])
    return ax
