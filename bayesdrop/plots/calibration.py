"""Plots of calibration: reliability curves (DeGroot & Fienberg 1983), and probability integral transforms.

Intervals of observed frequencies are the score intervals of Wilson (1927). scikit-learn's ``CalibrationDisplay`` draws
only the points; these plots add intervals, numbers of rows and the predictions of a posterior.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._stored import stored_classes
from .._typing import Float
from .._validation import check_count, check_number, check_numbers, check_seed, refuse_masked, shown, takes_seed
from ..posterior.arviz_groups.groups import read_attributes
from ..posterior.leave_one_out import left_out_weights
from .replicated import ends, read_replicated
from .style import BLUE, GREY, LIGHT_GREY, MOST_SERIES, finished, light_grid, literal, new_axes, series_style, shortened

__all__ = ["loo_pit", "reliability_curve"]

_SIMULATED = 2000  # simulated uniform samples that calibrate the band
_POINTS = 100  # cells of [0, 1] between which the distribution functions are compared


def reliability_curve(
    y: Any,
    probabilities: Any = None,
    *,
    bins: int = 10,
    probability: float | int = 0.9,
    positive: Any = None,
    predictive: Any = None,
    ax: Any = None,
) -> Any:
    """Plot observed frequencies against predicted probabilities, for new rows or for a posterior.

    Predictions are put into bins of equal width. Each point is the mean prediction and the observed frequency of one
    bin, with the Wilson interval of that frequency; a histogram below shows the numbers of rows. Use new rows: on the
    training rows the curve is too optimistic. A posterior alone predicts each of its rows from the other rows.

    Parameters
    ----------
    y : array (n,), InferenceData or DataTree
        Labels of two classes; or, without ``probabilities``, a posterior of classes with the groups
        ``log_likelihood`` and ``posterior_predictive``, whose responses are weighted by leave-one-out weights.
    probabilities : array (n,) or (n, 2), Prediction, or dict from name to these, optional
        Probabilities of the positive class; two columns as from ``predict_proba``; or the result of ``bd.predict``,
        whose classes say of which label its mean is the probability.
    bins : int, default=10
        Number of bins on [0, 1], at least 2; empty bins have no point.
    probability : float, default=0.9
        Probability content of the Wilson intervals and of the band.
    positive : label, optional
        The positive class; by default the larger label, as in the estimators, or of a posterior alone the second of its
        classes. For a posterior of three or more classes it is required: the class to compare with all others. Columns
        of an array are in the order of the labels, which rows of one class show only if they are false, true, 0 or 1.
    predictive : ArviZ object, optional
        Result of ``bd.posterior_predictive`` for these rows. A band shows the frequencies of the simulated responses
        in the bins of the first model, where the points are expected if that model is right.
    ax : matplotlib axes, optional
        Where to draw; the histogram is drawn below.

    Returns
    -------
    matplotlib Axes
        The axes of the curve; ``ax.child_axes[0]`` is the histogram.

    Raises
    ------
    ValueError
        If labels, probabilities or simulated responses do not match; the message says which.

    See Also
    --------
    bayesdrop.Prediction

    References
    ----------
    DeGroot & Fienberg (1983), The comparison and evaluation of forecasters, The Statistician 32.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> chance = rng.random(500)
    >>> ax = reliability_curve(rng.random(500) < chance, {"true": chance, "timid": 0.5 + 0.3 * (chance - 0.5)})
    >>> ax.get_ylabel()
    'Observed frequency'
    """
    probability = check_number(probability, "probability", above=0, below=1)
    bins = check_count(bins, "bins", 2, 10_000)
    if probabilities is None:
        event, probabilities, name, positive, labels = _of_posterior(y, positive)
    else:
        event, name, positive, labels = _event(y, positive)
    models = probabilities if isinstance(probabilities, Mapping) else {"": probabilities}
    if not 1 <= len(models) <= MOST_SERIES:
        raise ValueError(f"probabilities: expected from one to {MOST_SERIES} models, got {len(models)}.")
    chances = {str(key): _chance(value, len(event), positive, labels, str(key)) for key, value in models.items()}
    from scipy.stats import binomtest

    ax = new_axes(ax, 5.4, 5.6)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.9, linestyle="--", zorder=1, label="calibrated")
    edges = np.linspace(0, 1, bins + 1)
    if predictive is not None:
        _band(ax, predictive, next(iter(chances.values())), edges, probability, positive, labels)
    below = ax.inset_axes((0, -0.29, 1, 0.24), sharex=ax)
    for j, (key, chance) in enumerate(chances.items()):
        style, rows = series_style(j), np.histogram(chance, edges)[0]
        mean, frequency = _means(chance, [chance, event], edges)
        intervals = [
            binomtest(round(share * n), n).proportion_ci(probability, "wilson")
            for share, n in zip(frequency, rows[rows > 0].tolist(), strict=True)
        ]
        low, high = np.transpose(intervals)
        brier = f"Brier score {np.mean((chance - event) ** 2):.3f}"
        ax.errorbar(
            mean, frequency, [np.maximum(frequency - low, 0), np.maximum(high - frequency, 0)], **style,
            elinewidth=1.0, capsize=2, label=f"{literal(key)}: {brier}" if key else brier, zorder=3,
        )  # fmt: skip
        below.stairs(
            rows, edges, color=style["color"], linestyle=style["linestyle"], linewidth=1.3, fill=len(chances) == 1
        )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="Observed frequency")
    ax.tick_params(labelbottom=False)
    below.set(xlabel=f"Predicted probability of {literal(name)}", ylabel="Rows", ylim=(0, None))
    for panel in (ax, below):
        light_grid(panel)
    ax.set_title(f"bars: {100 * probability:g} % Wilson intervals", fontsize=8, loc="right", color="#555555")
    ax.legend(loc="upper left", frameon=False, fontsize=8)
    if hasattr(ax.figure, "draw_without_rendering"):
        ax.figure.draw_without_rendering()  # the layout leaves room for the histogram's label in the second pass only
    return ax


def _of_posterior(
    post: Any, positive: Any
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], str, str, list[str]]:
    """1.0 where the class was observed (n,), its leave-one-out probability (n,), the name of the event, the label of
    the class, and all labels.
    """
    try:
        replicated = read_replicated(post)
    except TypeError:
        raise TypeError(
            f"probabilities: expected probabilities for the labels y, or a posterior in place of y, got {shown(post)} "
            "alone."
        ) from None
    if replicated.labels is None:
        raise ValueError("y: expected a posterior of classes, got one of numbers; take bd.plots.loo_pit.")
    label = replicated.labels[-1] if positive is None and len(replicated.labels) == 2 else str(positive)
    if label not in replicated.labels:
        raise ValueError(f"positive: expected one of the classes {replicated.labels}, got {shown(positive)}.")
    k = replicated.labels.index(label)
    chance = np.sum(left_out_weights(post) * (replicated.drawn == k), axis=0)
    return (
        (replicated.observed == k).astype(float),
        np.clip(chance, 0.0, 1.0),
        f"{replicated.name} = {label}, each row left out",
        label,
        replicated.labels,
    )


def _event(y: Any, positive: Any) -> tuple[Float[np.ndarray, " n"], str, Any, list[Any]]:
    """1.0 where the positive class was observed (n,), its name and label, and the labels in order, or all known."""
    from ..designs.rows import unique_labels

    refuse_masked(y, "y")
    y = np.asarray(y)
    if y.ndim != 1 or len(y) == 0:
        raise ValueError(f"y: expected one label per row, (n,), got shape {y.shape}.")
    if any(label is None or label != label for label in y.tolist()):
        raise ValueError("y: missing labels; leave those rows out, here and in the probabilities.")
    labels = list(unique_labels(y, "y"))
    if len(labels) > 2:
        raise ValueError(
            f"y: expected two classes, got {len(labels)}; draw one against the rest: y == label, and its column."
        )
    if np.ndim(positive) or (len(labels) == 2 and positive is not None and positive not in labels):
        raise ValueError(f"positive: expected one of the classes {np.array(labels).tolist()}, got {shown(positive)}.")
    if len(labels) == 1 and labels[0] in (0, 1) and positive in (None, 0, 1):
        labels = [0, 1]
    elif positive is not None and positive not in labels:
        labels = list(unique_labels(np.array([*labels, positive], dtype=object), "positive"))
    elif positive is None and len(labels) == 1:
        raise ValueError(f"y: every row is {str(labels[0])!r}; name the positive class by positive=label.")
    positive = labels[-1] if positive is None else positive
    name = "the positive class" if y.dtype == bool else str(positive)
    return (y == positive).astype(float), name, positive, labels


def _place(positive: Any, labels: list[Any], classes: Any) -> int | None:
    """Index of the positive label among the classes of a model, in any order and perhaps as texts; None if unknown.

    Of two classes it is also known from the other label, as that of 0 among -1 and 1.

    Examples
    --------
    >>> _place("no", ["no", "yes"], ["yes", "no"]), _place(0, [0, 1], [-1, 1]), _place("no", ["no"], ["no"])
    (1, 0, None)
    """
    places = [
        next((k for k, one in enumerate(classes) if one == label or str(one) == str(label)), None)
        for label in (positive, *(label for label in labels if label != positive))
    ]
    if len(classes) == 2 and places[0] is None and places[-1] is not None:
        return 1 - places[-1]
    return places[0] if len(classes) > 1 else None


def _chance(value: Any, n: int, positive: Any, labels: list[Any], key: str) -> Float[np.ndarray, " n"]:
    from ..posterior.prediction import Prediction

    where = f"probabilities[{key!r}]" if key else "probabilities"
    if isinstance(value, Prediction):
        if value.classes is None:
            raise ValueError(f"{where}: expected probabilities, got the predictions of a regression.")
        classes, mean = value.classes.tolist(), value.mean
        place = _place(positive, labels, classes)
        if place is None:
            raise ValueError(
                f"{where}: expected probabilities of {str(positive)!r}, got a prediction of the classes {classes}; "
                "give y with these labels, or the mean of the prediction."
            )
        value = mean[:, place] if mean.ndim == 2 else mean if place == 1 else 1 - mean
    chance = check_numbers(value, where, "numbers in [0, 1]")
    if chance.ndim == 2 and chance.shape[1] == 2:
        if len(labels) == 1:
            raise ValueError(
                f"{where}: every row of y is {str(positive)!r}, so that the order of the two columns is unknown; give "
                "the column of that label alone."
            )
        chance = chance[:, labels.index(positive)]
    if chance.shape != (n,):
        raise ValueError(f"{where}: expected {n} probabilities, one for each label of y, got shape {chance.shape}.")
    if not np.all((chance >= 0) & (chance <= 1)):
        raise ValueError(
            f"{where}: expected numbers in [0, 1], got from {chance.min():.3g} to {chance.max():.3g}; give "
            "predict_proba(X), not scores."
        )
    return chance


def _means(
    chance: Float[np.ndarray, " n"], values: Any, edges: Float[np.ndarray, " edges"]
) -> Float[np.ndarray, "m used"]:
    """Means of ``m`` rows of values (m, n) over the non-empty bins of the probabilities ``chance`` (n,)."""
    from scipy.stats import binned_statistic

    means = binned_statistic(chance, values, "mean", edges)[0]
    return means[:, ~np.isnan(means[0])]


def _band(
    ax: Any, predictive: Any, chance: Float[np.ndarray, " n"], edges: Float[np.ndarray, " edges"],
    probability: float, positive: Any, labels: list[Any],
) -> None:  # fmt: skip
    """Draw the frequencies of a label in simulated responses, whose classes are ``labels`` if they have no names."""
    from ..posterior.draws.draws import read_group

    group = read_group(predictive, "posterior_predictive", "predictive")
    classes = stored_classes(read_attributes(predictive))
    if classes is None:
        classes = np.asarray(group["class"] if "class" in group.coords else labels)
    drawn = group["y"].stack(sample=("chain", "draw"))
    simulated = np.maximum(drawn.transpose("sample", "obs_id").values, 0)  # -1 and 1 are two classes as well
    if simulated.shape[1] != len(chance):
        raise ValueError(f"predictive: expected {len(chance)} rows, those of y, got {simulated.shape[1]}.")
    place = _place(positive, labels, classes.tolist())
    if place is None or not np.all(np.isin(simulated, range(len(classes)))):
        raise ValueError(
            f"predictive: expected responses with the class {str(positive)!r}, got indices up to {simulated.max():g} "
            f"of the classes {classes.tolist()}; give y with the labels of the model."
        )
    low, high = ends(_means(chance, simulated == place, edges), probability)
    ax.fill_between(
        _means(chance, [chance], edges)[0], low, high, color=LIGHT_GREY, linewidth=0, zorder=0,
        label=f"posterior predictive, {100 * probability:g} %",
    )  # fmt: skip


@takes_seed
def loo_pit(post: Any, *, probability: float | int = 0.9, seed: Any = 0, ax: Any = None) -> Any:
    """Draw how far the leave-one-out probability integral transforms of the rows are from uniform.

    The transform of a row is the probability, under the posterior without that row, of a response below the observed
    one. If the model is right, the transforms are uniform. The plot shows their distribution function minus that of a
    uniform number. A line above 0 on the left and below 0 on the right means that the predictions are too narrow, the
    reverse that they are too wide, and a line above 0 everywhere that the responses are smaller than predicted.

    Parameters
    ----------
    post : InferenceData or DataTree
        Posterior with the groups ``posterior_predictive``, from :func:`bayesdrop.posterior_predictive`, and
        ``log_likelihood``, from :func:`bayesdrop.log_likelihood`; at most two classes, because more have no order.
    probability : float, default=0.9
        Probability that the band contains the whole line of a right model.
    seed : int, default=0
        Seed of the random part of the transforms of counts and classes, and of the band.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    TypeError, ValueError
        If ``post`` lacks one of the groups, or its responses have no order.

    See Also
    --------
    ppc, bayesdrop.loo

    Notes
    -----
    Pareto-smoothed importance weights of the draws approximate the posterior without a row. The distribution functions
    of counts and classes have steps, so their transforms are randomised, ``P(ỹ < y) + u P(ỹ = y)`` with ``u`` uniform
    on (0, 1), which makes them uniform if the model is right. For two classes the transforms show little beyond the
    class frequency; :func:`reliability_curve` shows more. The band is the simultaneous band of Säilynoja, Bürkner &
    Vehtari (2022), which treats the transforms as independent.

    References
    ----------
    Gelfand, Dey & Chang (1992), Model determination using predictive distributions with implementation via
    sampling-based methods, Bayesian Statistics 4. Czado, Gneiting & Held (2009), Predictive model assessment for count
    data, Biometrics 65. Säilynoja, Bürkner & Vehtari (2022), Graphical test for discrete uniformity and its
    applications in goodness-of-fit evaluation and multiple sample comparison, Statistics and Computing 32,
    doi:10.1007/s11222-022-10090-6.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> rng, dims = np.random.default_rng(0), ("chain", "draw", "obs_id")
    >>> y = rng.normal(size=50)
    >>> groups = {"posterior": xr.Dataset({"mu": (dims[:2], np.zeros((2, 200)))}),
    ...           "observed_data": xr.Dataset({"y": ("obs_id", y)}),
    ...           "posterior_predictive": xr.Dataset({"y": (dims, rng.normal(size=(2, 200, 50)))}),
    ...           "log_likelihood": xr.Dataset({"y": (dims, np.broadcast_to(-y**2 / 2, (2, 200, 50)))})}
    >>> loo_pit(bd.groups.assemble(groups)).get_xlabel()
    'Probability of a smaller y, each row left out'
    """
    probability = check_number(probability, "probability", above=0, below=1)
    replicated, generator = read_replicated(post), np.random.default_rng(check_seed(seed))
    if replicated.labels is not None and len(replicated.labels) > 2:
        raise ValueError(
            f"post: {len(replicated.labels)} classes have no order, so that nothing is below an observed one; take "
            "bd.plots.ppc, or bd.plots.reliability_curve of one class."
        )
    weight = left_out_weights(post)
    below = np.sum(weight * (replicated.drawn < replicated.observed), axis=0)
    equal = np.sum(weight * (replicated.drawn == replicated.observed), axis=0)
    pit = np.sort(np.clip(below + generator.random(len(below)) * equal, 0.0, 1.0))
    z = np.linspace(0, 1, _POINTS + 1)[1:-1]
    low, high = _uniform_band(len(pit), z, probability, generator)
    ax = new_axes(ax, 6.0, 3.8)
    x = np.concatenate([[0.0], z, [1.0]])
    edges = [np.concatenate([[0.0], part - z, [0.0]]) for part in (low, high)]
    ax.fill_between(
        x, *edges, color=LIGHT_GREY, linewidth=0, label=f"a right model, {100 * probability:g} % of whole lines"
    )
    ax.axhline(0, color=GREY, linewidth=0.9)
    steps = np.arange(len(pit) + 1) / len(pit)
    place = np.concatenate([[0.0], np.repeat(pit, 2), [1.0]])
    ax.plot(place, np.repeat(steps, 2) - place, color=BLUE, linewidth=1.4, label=f"{len(pit):,} rows")
    ax.set_xlim(0, 1)
    name = replicated.name if replicated.labels is None else f"class of {replicated.name}"
    ax.set(
        xlabel=shortened(f"Probability of a smaller {name}, each row left out", 64),
        ylabel="Share of the rows minus uniform",
    )
    return finished(ax, 2)


def _uniform_band(
    n: int, z: Float[np.ndarray, " g"], probability: float, generator: np.random.Generator
) -> tuple[Float[np.ndarray, " g"], Float[np.ndarray, " g"]]:
    """Ends at ``z`` of a simultaneous band for the distribution function of ``n`` uniform numbers.

    Examples
    --------
    >>> low, high = _uniform_band(100, np.array([0.5]), 0.95, np.random.default_rng(0))
    >>> bool(0.38 < low[0] < 0.42), bool(0.58 < high[0] < 0.62)
    (True, True)
    """
    from scipy.stats import binom

    # Numbers fall into the cells between the points, so counts below the points are sums of multinomial counts.
    cells = generator.multinomial(n, np.diff(z, prepend=0.0, append=1.0), size=_SIMULATED)
    counts = np.cumsum(cells, axis=1)[:, :-1]
    rarest = 2 * np.minimum(binom.cdf(counts, n, z), binom.sf(counts - 1, n, z)).min(axis=1)
    level = np.quantile(rarest, 1 - probability)
    return binom.ppf(level / 2, n, z) / n, binom.ppf(1 - level / 2, n, z) / n
