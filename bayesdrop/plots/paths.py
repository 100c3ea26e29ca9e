"""Curves of fitted models along rates, submodels, deletions and the candidates of a cross-validation.

Features are deleted at test time as by Globerson & Roweis (2006). Series differ in colour, marker and line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import Float
from .._validation import (
    check_count,
    check_flag,
    check_instance,
    check_numbers,
    check_seed,
    refuse_masked,
    shown,
    takes_seed,
)
from ..fitting.tuning.selection import Candidate, Selection
from .style import (
    BLUE,
    GREY,
    MOST_SERIES,
    RATE_LABEL,
    VERMILLION,
    finished,
    legend_above,
    light_grid,
    literal,
    name_rows,
    new_axes,
    new_figure,
    score_name,
    series_style,
    shortened,
)

if TYPE_CHECKING:
    from ..posterior.projection.path import Projection
    from ..selection.path import RatePath

__all__ = ["deletion_robustness", "projection_path", "rate_path", "selection"]


def rate_path(path: RatePath, *, top: int = 6, label: Any = None, figure: Any = None) -> Any:
    """Draw the score and the weights of fits along a grid of dropout rates.

    Parameters
    ----------
    path : RatePath
        Fitted.
    top : int, default=6
        Name this many features, those with the largest weights anywhere on the path, at most 7; the others are grey.
    label : class label, optional
        Class whose weights are drawn, if there are more than two; by default the Euclidean norm over the classes.
    figure : matplotlib figure, optional
        Where to draw.

    Returns
    -------
    array of two matplotlib axes
        Above: the score, with its standard error over folds, and the best rate. Below: the weights.

    Raises
    ------
    ValueError
        If ``top`` or ``label`` is out of range.

    See Also
    --------
    bayesdrop.RatePath

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> score, weights = rate_path(bd.RatePath(bd.DropoutLogisticRegression(), [0.0, 0.3, 0.6], cv=3).fit(X, y))
    >>> weights.get_xlabel()
    'Dropout rate (probability of being dropped)'
    """
    from ..selection.path import RatePath

    check_instance(path, "path", RatePath, "a fitted bd.RatePath")
    data = path.to_dataset()
    if check_count(top, "top") > MOST_SERIES:
        raise ValueError(f"top: expected at most {MOST_SERIES}, which lines can be distinguished, got {top!r}.")
    order = np.argsort(path.rates_, kind="stable")
    rate = path.rates_[order]
    weight: Any = data["weight"]
    unit = "Weight (change of the score\nper unit of the feature)"
    if "class" in weight.dims:
        classes = weight["class"].values
        if label is not None and (np.ndim(label) or label not in classes.tolist()):
            raise ValueError(f"label: expected one of the classes {classes.tolist()}, got {shown(label)}.")
        if label is not None or len(classes) == 1:
            weight = weight.isel({"class": 0 if label is None else int(np.flatnonzero(classes == label)[0])})
        else:
            weight, unit = np.sqrt((weight**2).sum("class")), "Size of the weights\n(norm over the classes)"
    elif label is not None:
        raise ValueError(f"label: a regression has no classes, got {shown(label)}; leave it out.")
    values = np.asarray(weight.transpose("rate", "feature"))[order]
    figure = new_figure(figure, 7.2, 5.6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.7])
    errors = None if path.score_errors_ is None else path.score_errors_[order]
    above.errorbar(
        rate, path.scores_[order], None if errors is None or not np.all(np.isfinite(errors)) else errors,
        color=BLUE, marker="o", markersize=5, linewidth=1.4, capsize=2.5, elinewidth=1.1,
        label="mean over the folds ± standard error" if path.scored_on_ == "folds" else f"on {path.scored_on_} rows",
    )  # fmt: skip
    for ax in (above, below):
        ax.axvline(
            path.best_rate_, color=VERMILLION, linestyle="--", linewidth=1.1, zorder=0,
            label=f"best rate, {path.best_rate_:.3g}",
        )  # fmt: skip
        light_grid(ax)
    plain = "Accuracy" if hasattr(path, "classes_") else "R²"
    above.set_ylabel(plain if path.scoring is None else score_name(path.scoring))
    legend_above(above, 2)
    below.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    order = np.argsort(-np.max(np.abs(values), axis=0), kind="stable")
    chosen, others = order[:top], order[top:]
    names = [shortened(str(name), 26) for name in data["feature"].values]
    # The legend is to the right of the lines, in the order of their right ends.
    for j, d in enumerate(chosen[np.argsort(-values[-1, chosen], kind="stable")]):
        below.plot(rate, values[:, d], **series_style(j), label=names[d])
    if len(others):
        grey = below.plot(rate, values[:, others], color="#BBBBBB", linewidth=0.7, zorder=1)
        grey[0].set_label(f"{len(others)} other{'s' if len(others) > 1 else ''}")
    below.set(xlabel=RATE_LABEL, ylabel=unit)
    lines = [line for line in below.lines if not line.get_label().startswith(("_", "best"))]
    below.legend(handles=lines, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    return np.array([above, below])


def projection_path(path: Projection, *, ax: Any = None) -> Any:
    """Draw how much worse submodels of growing size predict than the full model.

    Parameters
    ----------
    path : Projection
        Result of ``bd.project``.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The log predictive density of each size minus that of the model, in nats per row, with its standard error; the
        term that each size adds; and the sizes that the two rules choose.

    See Also
    --------
    bayesdrop.project

    Examples
    --------
    >>> from bayesdrop.posterior.projection.path import Projection
    >>> scores = np.array([[-1.0, -1.1], [-0.6, -0.5], [-0.5, -0.5]])
    >>> path = Projection(["age", "size"], np.array([0, 1, 2]), scores, np.array([-0.5, -0.5]), None, None)
    >>> projection_path(path).get_xlabel()
    'Number of terms, and the term that each adds'
    """
    from ..posterior.projection.path import Projection

    check_instance(path, "path", Projection, "what bd.project returned")
    n, sizes = len(path.reference), path.sizes
    ax = new_axes(ax, max(5.0, 0.42 * len(sizes) + 2.5), 4.0)
    ax.axhline(0, color=GREY, linewidth=0.9, zorder=0, label="the model")
    how = "on the rows searched, optimistic" if path.n_folds is None else f"searched in {path.n_folds} folds"
    ax.errorbar(
        sizes, path.difference / n, path.difference_se / n, color=BLUE, marker="o", markersize=5, linewidth=1.4,
        capsize=2.5, elinewidth=1.1, label=f"submodels ± standard error, {how}",
    )  # fmt: skip
    rules = {"one standard error": path.size_within_standard_error(), "0.005 nats a row": path.size_within()}
    for (rule, size), (line, shift) in zip(rules.items(), (("--", -0.04), (":", 0.04)), strict=True):
        if size is not None:
            ax.axvline(
                size + shift, color=VERMILLION, linestyle=line, linewidth=1.2, zorder=0,
                label=f"within {rule}: {size} term{'s' * (size != 1)}",
            )  # fmt: skip
    names = [shortened(path.terms[size - 1], 18) if size else "none" for size in sizes]
    ax.set_xticks(sizes, [literal(f"{size}  {name}") for size, name in zip(sizes, names, strict=True)],
                  rotation=90 if len(sizes) > 6 else 0, fontsize=8)  # fmt: skip
    ax.set(
        xlabel="Number of terms, and the term that each adds",
        ylabel="Log predictive density\nless that of the model (nats a row)",
    )
    return finished(ax, 2)


@takes_seed
def deletion_robustness(
    models: Any,
    X: Any,
    y: Any,
    *,
    rates: Any = None,
    repeats: int = 20,
    seed: Any = 0,
    scoring: Any = "accuracy",
    error: bool = False,
    ax: Any = None,
) -> Any:
    """Plot the score of fitted models as features are deleted at test time.

    Every model is scored on the same deletions. Bars are the standard error of the mean over deletions; they do not
    include the sampling error of the rows.

    Parameters
    ----------
    models : estimator or dict from name to estimator
        Fitted.
    X, y : (n, p), (n,)
        Test rows; each non-zero entry is set to zero with the probability on the axis.
    rates : array (R,), optional
        Probabilities of deletion in [0, 1]; ``np.linspace(0, 0.9, 10)`` by default.
    repeats : int, default=20
        Number of deletions at each rate, at least 2.
    seed : int, numpy.random.Generator or RandomState, default=0
        Seed of the deletions.
    scoring : str, callable or None, default="accuracy"
        As in :func:`bayesdrop.deletion_scorer`.
    error : bool, default=False
        Draw one minus the accuracy.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    ValueError
        If an argument is out of range.

    See Also
    --------
    bayesdrop.deletion_scorer

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> model = bd.DropoutLogisticRegression(0.5, corrupted_inputs=True).fit(X[::2] / 16, y[::2])
    >>> ax = deletion_robustness(model, X[1::2] / 16, y[1::2], rates=[0.0, 0.5, 0.9], repeats=3)
    >>> ax.get_xlabel()
    'Probability that a feature is deleted at test time'
    """
    from ..designs.rows import unique_labels
    from ..estimators.robustness import deletion_scorer
    from ..fitting.tuning.folds import standard_error

    check_flag(error, "error")
    refuse_masked(y, "y")
    unique_labels(np.asarray(y), "y")
    models = models if isinstance(models, Mapping) else {"": models}
    for model in models.values():
        if isinstance(model, type) or not hasattr(model, "predict"):
            raise TypeError(f"models: expected fitted estimators, or a dict of them by name, got {shown(model)}.")
    if not 1 <= len(models) <= MOST_SERIES:
        raise ValueError(f"models: expected from one to {MOST_SERIES} models, got {len(models)}.")
    if error and not (isinstance(scoring, str) and scoring == "accuracy"):
        raise ValueError(f'error: expected scoring="accuracy" with it, got {shown(scoring)}; leave one of them out.')
    repeats = check_count(repeats, "repeats", 2, 10**6)
    expected = "at least two probabilities of deletion"
    grid = check_numbers(np.linspace(0, 0.9, 10) if rates is None else rates, "rates", expected)
    if grid.ndim != 1 or len(grid) < 2 or not np.all((grid >= 0) & (grid <= 1)):
        raise ValueError(f"rates: expected {expected}, numbers in [0, 1], got {shown(rates)}.")
    grid = np.sort(grid)
    seeds = [int(state) for state in np.random.SeedSequence(check_seed(seed)).generate_state(repeats)]
    ax = new_axes(ax, 6.4, 4.2)
    for j, (key, model) in enumerate(models.items()):
        scores = np.array(
            [[deletion_scorer(float(q), seed=s, scoring=scoring)(model, X, y) for s in seeds] for q in grid]
        )
        scores = 1 - scores if error else scores
        ax.errorbar(
            grid, scores.mean(axis=1), standard_error(scores), **series_style(j), capsize=2.5, elinewidth=1.1,
            label=literal(key) or type(model).__name__,
        )  # fmt: skip
    if isinstance(scoring, str) and scoring == "accuracy":
        share = np.max(np.unique(np.asarray(y), return_counts=True)[1]) / len(y)
        ax.axhline(
            1 - share if error else share, color=GREY, linestyle=":", linewidth=1.1, zorder=0,
            label="always the largest class",
        )  # fmt: skip
    light_grid(ax)
    ax.set(
        xlabel="Probability that a feature is deleted at test time", ylabel="Error" if error else score_name(scoring)
    )
    ax.set_title(f"bars: ± standard error over {repeats} deletions", fontsize=8, loc="right", color="#555555")
    ax.legend(frameon=False, fontsize=8)
    return ax


def selection(estimator: Any, *, ax: Any = None) -> Any:
    """Plot the held-out loss of the candidates of a cross-validation.

    The horizontal axis is ``C`` if several values were tried, with a line for each structure and strength of the rates;
    otherwise the strength, with a line for each structure, or the fixed rate. Candidates that differ in none of these
    numbers, or of which some lack it, have a row each. Bars are standard errors of the paired differences from the
    chosen candidate.

    Parameters
    ----------
    estimator : fitted estimator, Fit or Selection
        An object with the attribute ``selection_`` or ``selection``, or that attribute.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    ValueError
        If nothing was chosen by cross-validation.

    See Also
    --------
    bayesdrop.Tuned

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(100, 5, random_state=0)
    >>> selection(bd.DropoutLogisticRegression().fit(X, y)).get_ylabel()
    'Log loss of held-out rows'
    """
    result = estimator
    for name in ("selection_", "selection"):
        result = getattr(result, name, result)
    if not isinstance(result, Selection):
        raise ValueError(
            "estimator: expected a fit whose rates or C were chosen by cross-validation, such as "
            "bd.DropoutLogisticRegressionCV().fit(X, y) or one with rates=bd.Tuned(); this one has no such choice."
        )
    candidates, best, (axis, places) = result.candidates, result.best, _axis(result.candidates)
    loss, error = np.array([one.loss for one in candidates]), np.nan_to_num([one.worse_error for one in candidates])
    words = f"{result.scoring[0].upper()}{result.scoring[1:]} of held-out rows"
    mark = {"markersize": 12, "markerfacecolor": "none", "color": VERMILLION, "label": "the choice"}
    if not axis:
        ax = new_axes(ax, 7.2, 1.4 + 0.25 * len(places))
        ax.errorbar(loss, places, xerr=error, fmt="o", color=BLUE, markersize=5, capsize=2.5)
        ax.plot(loss[best], places[best], "o", **mark)
        name_rows(ax, places, [shortened(one.name, 56) for one in candidates])
        ax.set(ylim=(len(places) - 0.2, -0.8), xlabel=words)
        legend_above(ax, 1)
        return ax
    ax = new_axes(ax, 6.4, 4.0)
    along_C = axis == _C
    names = [one.name if along_C else one.name.rpartition(", ")[0] for one in candidates]  # without the strength
    noisy = list(dict.fromkeys(name for name, one in zip(names, candidates, strict=True) if one.strength != 0))
    series: dict[str, list[int]] = {}
    for k in np.argsort(places, kind="stable").tolist():
        # Without noise all structures are the same.
        for name in noisy if candidates[k].strength == 0 and not along_C else [names[k]]:
            series.setdefault(name, []).append(k)
    # If there are more lines than can be distinguished, only the best are named.
    order = sorted(series, key=lambda name: min((k != best, loss[k]) for k in series[name]))
    for j, name in enumerate(order):
        style = series_style(j) if j < MOST_SERIES else {"color": GREY, "linewidth": 0.8}
        label = {"label": literal(name)} if name and j < MOST_SERIES else {}
        k = series[name]
        ax.errorbar(places[k], loss[k], error[k], capsize=2.5, elinewidth=1.0, **style, **label)
    ax.plot(places[best], loss[best], "o", **mark)
    if along_C:
        ax.set_xscale("log")
    ax.set(xlabel=axis, ylabel=words)
    return finished(ax, 1, 7 if along_C else 8)


_C = "C (weight of the loss)"


def _axis(candidates: list[Candidate]) -> tuple[str, Float[np.ndarray, " m"]]:
    """Name of a number that orders the candidates, and its values; no name, and places of rows, if there is none."""
    numbers: dict[str, list[Any]] = {
        _C: [one.C for one in candidates],
        "Strength of the noise (factor on the learnt rates)": [one.strength for one in candidates],
        RATE_LABEL: [getattr(one.rates, "rate", one.rates) for one in candidates],
    }
    for name, values in numbers.items():
        if all(np.ndim(value) == 0 and isinstance(value, float | np.ndarray) for value in values):
            found = np.array(values, dtype=float)
            if np.ptp(found) > 0:
                return name, found
    return "", np.arange(len(candidates), dtype=float)
