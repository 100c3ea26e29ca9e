r"""Compute average marginal effects: the change of the prediction per unit of a feature, averaged over rows.

    AME_d = (1/Σs) Σ_i s_i ∂/∂x_id E f(s̃_i)

with ``f(s̃)`` the response at the noised score, as in :func:`bayesdrop.predict`: a probability, an expected count or a
mean. For any noise and loss the derivative is a central difference of the predictions, as in the packages
``marginaleffects`` (Arel-Bundock, Greifer & Heiss 2024), with a step of a thousandth of the feature's standard
deviation; if the noise requires numbers of at least zero, the difference is one-sided.

For a model with a formula the variable itself changes, in all its terms: main effects, interactions, splines. Steps
stay within the range of the fitted rows, because a spline has no value beyond it. The effects of a factor are
differences between its levels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import DataFrame, Float
from .._validation import check_flag
from ..fitting.results.saved import rows_of
from .averages import RULES, Average
from .contrasts import check_levels
from .expected import Effect, EffectRows

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["level_changes", "marginal_effects"]


def marginal_effects(
    result: Any,
    X: Any,
    *,
    features: str | Sequence[str] | None = None,
    reference: Mapping[str, Any] | None = None,
    average_weight: Any = None,
    corrupted_inputs: bool = False,
    offset: Any = None,
    draws: int | None = None,
    probability: float | int = 0.9,
    estimate: str = "mean",
    as_draws: bool = False,
) -> DataFrame | xr.DataArray:
    """Average marginal effect of each feature or variable on the prediction, with intervals.

    The prediction is the probability, the expected count or the mean. For a model with a formula, and a table of its
    columns, the effects are those of the variables: slopes for numbers, through all terms that contain them, and
    differences between levels for factors.

    Parameters
    ----------
    result : Fit, InferenceData or DataTree, or a fitted linear estimator
        Result of ``bd.fit`` or ``bd.sample``, or an estimator such as ``bd.DropoutLogisticRegression()``.
    X : array, data frame or scipy sparse (n, p)
        Rows to average over, often those of the fit; columns of a data frame are matched by name. For a model with a
        formula, a table with its columns, or the encoded features, each of which then has a slope.
    features : str or sequence of str, optional
        Features or variables whose effects to compute; by default all. Each costs two predictions of all rows.
    reference : mapping from variable to level, optional
        Level of each factor with which its other levels are compared; by default the first.
    average_weight : array (n,), optional
        Row weights of the average over the rows, equal by default. They do not change the fit.
    corrupted_inputs : bool, default=False
        Whether the rows are corrupted already, so that predictions do not average over noise; an estimator's own
        setting counts too.
    offset : array (n,) or float, optional
        Known part of the score of each row, needed if the rows of the fit had one.
    draws : int, optional
        Number of draws of each chain to use, evenly spaced; by default all.
    probability : float, default=0.9
        Probability content of the intervals, in (0, 1).
    estimate : "mean" or "median", default="mean"
        Summary of the draws of a posterior in the column ``effect``; intervals are quantiles of the draws.
    as_draws : bool, default=False
        Whether to return the effect in every draw of a posterior instead of the table.

    Returns
    -------
    pandas.DataFrame or xarray.DataArray
        ``effect``, ``sd``, ``low`` and ``high``, one row per feature; with many classes one row per class and feature,
        with the effects on the probability of the class, which sum to zero over the classes; where an estimator fits
        each class against the others, with those on the probability by its own fit, which are not normalised. If a
        point fit has no intervals, because it has noise for example, ``interval`` says what to do. For a posterior
        ``mcse`` is the Monte Carlo standard error of ``effect``; that of the ends of a 90 % interval is about twice as
        large. ``attrs`` say what the intervals are, or why there are none (``"interval"``), how many draws there are
        (``"draws"``), and whether the rows have equal weights (``"average_weight"``). With ``as_draws`` the draws, on
        ``chain``, ``draw``, ``class`` if there are many, and ``feature``.

    Raises
    ------
    TypeError, ValueError
        If ``result`` has another type, or columns or rows do not match it.

    See Also
    --------
    comparisons, weights_table

    Notes
    -----
    Intervals of a posterior are quantiles of the effects over its draws. Those of a point fit without noise come from
    the delta method and Laplace's approximation, with the row weights of the fit; :func:`bayesdrop.weights_table` says
    why a fit with noise has none. A 0/1 feature has a slope like any other. Rows in which a feature is missing do not
    contribute to its effect; other missing features are averaged over as in predictions.

    References
    ----------
    Arel-Bundock, Greifer & Heiss (2024), How to interpret statistical models using marginaleffects for R and Python,
    Journal of Statistical Software 111.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> X, y = [[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [3.0, 1.0]], [0.0, 1.1, 1.9, 3.2]
    >>> fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), X, y)
    >>> table = marginal_effects(fit, X)
    >>> bool(np.allclose(table["effect"], fit.weight))
    True
    """
    import pandas as pd

    rows = EffectRows.of(result, X, average_weight, corrupted_inputs, offset, draws, probability, reference, estimate)
    check_flag(as_draws, "as_draws")
    effects = list(_effects(rows, features))
    if as_draws:
        return rows.draws(effects, "effect", "feature", ["feature"])
    labels, columns, attrs = rows.table(effects)
    names = [str(label[-1]) for label in labels]
    classes = list(dict.fromkeys(label[0] for label in labels)) if len(labels[0]) > 1 else None
    names = names if classes is None else names[: len(names) // len(classes)]
    frame = pd.DataFrame(columns, index=rows_of(names, classes))
    frame.attrs.update(attrs)
    return frame


def _effects(rows: EffectRows, features: Any) -> Iterator[Effect]:
    """Average slopes of numeric variables, and differences between levels of factors."""
    for name in rows.chosen(features, "features"):
        if name not in rows.factors:
            yield Effect([(name,)], _slopes(rows, name), lambda averages: averages.sum(axis=-1))
            continue
        pairs = level_changes(rows.factors[name], rows.reference.get(name), name)
        ends = {level: partial(rows.at, {name: level}) for level in dict.fromkeys(itertools.chain(*pairs))}
        for level, other in pairs:
            label = (f"{name}[{level}] vs {name}[{other}]",)
            yield Effect([label], [ends[level], ends[other]], lambda averages: averages[..., 0] - averages[..., 1])


def level_changes(levels: Sequence[Any], reference: Any, name: str) -> list[tuple[Any, Any]]:
    """Pairs of each other level and the reference level, by default the first.

    Examples
    --------
    >>> level_changes(["n", "s", "w"], "s", "site")
    [('n', 's'), ('w', 's')]
    """
    by_name = {str(level): level for level in levels}
    if reference is not None:
        check_levels([str(reference)], by_name, name, "reference")
    if len(levels) < 2:
        raise ValueError(f"features: {name!r} has one level, {levels[0]!r}, and no effect; leave it out.")
    first = levels[0] if reference is None else by_name[str(reference)]
    return [(level, first) for level in levels if level != first]


def _spread(values: Float[np.ndarray, " n"]) -> float:
    """Standard deviation of some numbers; where they differ by rounding at most, their size, and 1 for zeros or none.

    Examples
    --------
    >>> _spread(np.array([1.0, 3.0])), _spread(np.full(3, 0.1)), _spread(np.zeros(2))
    (1.0, 0.1, 1.0)
    """
    size = float(np.max(np.abs(values), initial=0.0))
    spread = float(values.std()) if len(values) else 0.0
    return spread if spread > 1e-8 * size else size or 1.0


def _slopes(rows: EffectRows, name: str) -> list[Callable[[], Average]]:
    """Averages over the rows with a number moved up and down, which sum to the slope; missing numbers have weight 0."""
    values = rows.values_of(name)
    weight, present = rows.observed(values), values[~np.isnan(values)]
    step = 0.5 * RULES.step * _spread(present)
    if rows.variables is None:
        try:
            rows.sources[0].model.noise.check(present.min(initial=np.inf) - step)
            places: tuple[tuple[int, float], ...] = ((1, 0.5), (-1, -0.5))
        except ValueError:  # the noise requires larger numbers
            places = ((0, -1.5), (1, 2), (2, -0.5))
        length = np.where(np.isnan(values), 1.0, (values + step) - (values - step)) / 2  # the step, rounded
        return [partial(rows.at, {name: values + n * step}, factor / length * weight) for n, factor in places]
    facts = rows.variables.encoder.columns[name]
    low, high = facts["low"], facts["high"]  # range of the fitted rows
    inside = (values >= low) & (values <= high) & (high - low > step)
    up = np.where(inside, np.minimum(values + step, high), values + step)
    down = np.where(inside, np.maximum(values - step, low), values - step)
    quotient = weight / np.where(np.isnan(values), 1.0, up - down)
    return [partial(rows.at, {name: end}, sign * quotient) for end, sign in ((up, 1), (down, -1))]
