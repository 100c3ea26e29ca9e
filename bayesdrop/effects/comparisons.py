r"""Compare averaged predictions: on a grid of variables, and between two values of a variable.

    A(v) = (1/Σs) Σ_i s_i E f(s̃_i(x_i with the variable at v))

is the average prediction if all rows had the value ``v``. Comparisons are ``A(v') − A(v)``, ``A(v')/A(v)``, the ratio
of the odds, and its logarithm. For a logistic model differences depend on the rows, and odds ratios of averages are
nearer to 1 than those of single rows, so neither equals a weight; see Arel-Bundock, Greifer & Heiss (2024).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import Bool, DataFrame, Float
from .._validation import check_choice, check_count, check_flag, check_number, shown
from .averages import RULES, Average
from .comparison_kinds import kind_of
from .contrasts import check_levels
from .expected import Effect, EffectRows
from .marginal import level_changes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["comparisons", "predictions_grid"]


def comparisons(
    result: Any,
    X: Any,
    variables: Any = None,
    *,
    comparison: str | Callable[[Any, Any], Any] = "difference",
    by: str | None = None,
    reference: Mapping[str, Any] | None = None,
    average_weight: Any = None,
    corrupted_inputs: bool = False,
    offset: Any = None,
    draws: int | None = None,
    probability: float | int = 0.9,
    estimate: str = "mean",
    as_draws: bool = False,
) -> DataFrame | xr.DataArray:
    """Compare predictions at two values of a variable, averaged over rows.

    Parameters
    ----------
    result : Fit, InferenceData or DataTree, or a fitted linear estimator
        Result of ``bd.fit`` or ``bd.sample``, or an estimator such as ``bd.DropoutLogisticRegression()``.
    X : array, data frame or scipy sparse (n, ·)
        Rows to average over; for a model with a formula, a table with its columns.
    variables : str, list of str, or mapping from variable to change, optional
        Variables to compare, by default all except grouping columns of random terms. The change of a numeric variable
        is a number to add (default 1), two values ``(from, to)``, ``"sd"`` (around the mean), ``"iqr"`` or
        ``"minmax"``. The change of a factor is two levels ``(from, to)`` or ``"pairwise"``, by default each level
        against the first.
    comparison : "difference", "ratio", "odds_ratio", "log_odds_ratio" or callable, default="difference"
        How to compare the two averaged predictions. For every draw, predictions are averaged over the rows first and
        then compared: ``"ratio"`` is the ratio of averages, ``comparison="ratioavg"`` of the package marginaleffects,
        not the average of the ratios of rows. Odds need probabilities above 0 and below 1. A
        function takes the averages after and before the change, ``(high, low)``, arrays of one shape with the draws
        among their dims, and returns such an array, as ``lambda high, low: 1 / (high - low)`` does.
    by : str, optional
        Column of the table; predictions are compared within the rows of each of its values.
    reference : mapping from variable to level, optional
        Level of each factor with which its other levels are compared.
    average_weight : array (n,), optional
        As in :func:`bayesdrop.marginal_effects`; ``"sd"``, ``"iqr"`` and ``"minmax"`` are of the weighted rows.
    corrupted_inputs : bool, default=False
        As in :func:`bayesdrop.marginal_effects`.
    offset : array (n,) or float, optional
        As in :func:`bayesdrop.marginal_effects`.
    draws : int, optional
        As in :func:`bayesdrop.marginal_effects`.
    probability : float, default=0.9
        As in :func:`bayesdrop.marginal_effects`.
    estimate : "mean" or "median", default="mean"
        As in :func:`bayesdrop.marginal_effects`.
    as_draws : bool, default=False
        As in :func:`bayesdrop.marginal_effects`.

    Returns
    -------
    pandas.DataFrame or xarray.DataArray
        ``variable``, ``contrast``, ``effect`` and its interval, and ``attrs``, as in
        :func:`bayesdrop.marginal_effects`, with ``class`` and the column of ``by`` if they apply. For a number to
        add, rows in which the variable is missing are left out. With ``as_draws`` the draws, on ``chain``, ``draw``,
        ``class`` if there are many, and ``comparison``, whose coordinates are those columns.

    Raises
    ------
    TypeError, ValueError
        If ``result`` has another type, rows or variables do not match it, odds are requested where predictions are not
        probabilities above 0 and below 1, or a function returns another shape or numbers that are not finite.

    See Also
    --------
    marginal_effects : Slopes.
    predictions_grid : The predictions themselves.

    References
    ----------
    Arel-Bundock, Greifer & Heiss (2024), How to interpret statistical models using marginaleffects for R and Python,
    Journal of Statistical Software 111(9), doi:10.18637/jss.v111.i09.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> data = {"age": [31.0, 45, 52, 28, 40], "site": ["n", "s", "n", "s", "n"], "ill": [0, 1, 1, 0, 1]}
    >>> fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), "ill ~ scale(age) + site", data)
    >>> table = comparisons(fit, data, {"age": 10, "site": ("n", "s")})
    >>> table[["variable", "contrast"]].values.tolist()
    [['age', '+10'], ['site', 's - n']]
    >>> halves = comparisons(fit, data, "site", comparison=lambda high, low: (high - low) / 2)
    >>> bool(np.allclose(2 * halves["effect"], table["effect"].iloc[1]))
    True
    """
    rows = EffectRows.of(result, X, average_weight, corrupted_inputs, offset, draws, probability, reference, estimate)
    kind = kind_of(comparison, rows.sources[0].model.loss)
    keys, inside = _groups(rows, by)
    effects = [
        Effect([(name, label, *key) for key in keys], averages, kind.combine)
        for name, label, averages in _changes(rows, variables, kind.sign, inside)
    ]
    names = ["variable", "contrast", *([by] if by else [])]
    return _frame(rows, effects, names, "effect", "comparison", as_draws)


def predictions_grid(
    result: Any,
    X: Any,
    variables: Any,
    *,
    others: str = "observed",
    average_weight: Any = None,
    corrupted_inputs: bool = False,
    offset: Any = None,
    draws: int | None = None,
    probability: float | int = 0.9,
    estimate: str = "mean",
    as_draws: bool = False,
) -> DataFrame | xr.DataArray:
    """Compute predictions on a grid of variables, averaged over rows or at typical values of the others.

    Parameters
    ----------
    result : Fit, estimator or posterior
        As in :func:`bayesdrop.comparisons`.
    X : array, data frame or scipy sparse (n, p)
        As in :func:`bayesdrop.comparisons`.
    variables : str, list of str, or mapping from variable to values
        Variables of the grid. Their values are a list, or the number of points between the smallest and the largest
        value; by default 100 points for the first numeric variable, 5 for each other one, and all levels of a
        factor.
    others : "observed" or "typical", default="observed"
        "observed": the other variables keep their values in the rows, over which predictions are averaged. "typical":
        they have their means and most frequent levels (of a formula in the rows of the fit, otherwise in ``X``), and
        effects of random terms are 0 unless the grid names their levels.
    average_weight : array (n,), optional
        As in :func:`bayesdrop.comparisons`; also of means over ``X``.
    corrupted_inputs : bool, default=False
        As in :func:`bayesdrop.comparisons`.
    offset : array (n,) or float, optional
        As in :func:`bayesdrop.comparisons`.
    draws : int, optional
        As in :func:`bayesdrop.comparisons`.
    probability : float, default=0.9
        As in :func:`bayesdrop.comparisons`.
    estimate : "mean" or "median", default="mean"
        As in :func:`bayesdrop.comparisons`.
    as_draws : bool, default=False
        As in :func:`bayesdrop.comparisons`.

    Returns
    -------
    pandas.DataFrame or xarray.DataArray
        A column for each variable (and ``class``), ``prediction``, and the interval of the expected response, which
        reflects the uncertainty of weights and rates; ``attrs`` as in :func:`bayesdrop.marginal_effects`. A variable
        with the name of another column, such as ``low``, has an underscore after it. The interval of a point
        fit is 0 to 1 where a probability is within about 1e-11 of 0 or 1, so that rounding hides its slope. With
        ``as_draws`` the draws, on ``chain``, ``draw``, ``class`` if there are many, and ``point``, whose coordinates
        are the variables.

    Raises
    ------
    TypeError, ValueError
        If ``result`` has another type, or rows, variables or values do not match it.

    See Also
    --------
    comparisons : Differences of such predictions.
    bayesdrop.plots.effects : A plot of these predictions.

    References
    ----------
    Arel-Bundock, Greifer & Heiss (2024), How to interpret statistical models using marginaleffects for R and Python,
    Journal of Statistical Software 111.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> data = {"age": [31.0, 45, 52, 28, 40], "site": ["n", "s", "n", "s", "n"], "ill": [0, 1, 1, 0, 1]}
    >>> fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), "ill ~ scale(age) + site", data)
    >>> predictions_grid(fit, data, {"age": [30.0, 50.0], "site": ["n"]})[["age", "site"]].values.tolist()
    [[30.0, 'n'], [50.0, 'n']]
    """
    check_choice(others, "others", ("observed", "typical"))
    rows = EffectRows.of(result, X, average_weight, corrupted_inputs, offset, draws, probability, None, estimate)
    grid = _grid(rows, variables)
    make = rows.at if others == "observed" else rows.typical
    effects = [
        Effect([values], [partial(make, dict(zip(grid, values, strict=True)))], lambda averages: averages[..., 0])
        for values in itertools.product(*grid.values())
    ]
    return _frame(rows, effects, list(grid), "prediction", "point", as_draws)


def _frame(rows: EffectRows, effects: list[Effect], names: list[str], what: str, dim: str, as_draws: bool) -> Any:
    """Table of effects with labels as columns, or draws of the effects."""
    import pandas as pd

    check_flag(as_draws, "as_draws")
    if as_draws:
        return rows.draws(effects, what, dim, names)
    labels, columns, attrs = rows.table(effects, are_predictions=what == "prediction")
    names = names if len(labels[0]) == len(names) else ["class", *names]
    columns = {what if name == "effect" else name: values for name, values in columns.items()}
    found: dict[str, Any] = {}
    for j, name in enumerate(names):
        while name in found or name in columns:  # a variable may have the name of another column
            name += "_"
        found[name] = [label[j] for label in labels]
    frame = pd.DataFrame(found | columns)
    frame.attrs.update(attrs)
    return frame


def _groups(rows: EffectRows, by: str | None) -> tuple[list[tuple[Any, ...]], Bool[np.ndarray, "G n"]]:
    """Keys of the groups of positive weight, and masks of their rows."""
    if by is None:
        return [()], np.ones((1, len(rows.weight)), dtype=bool)
    if rows.variables is None or by not in rows.X:
        raise ValueError(f"by: expected a column of the table X, of a model by a formula, got {shown(by)}.")
    values = rows.X[by]
    row_masks = {(value,): (values == value).to_numpy(dtype=bool) for value in values.dropna().unique()}
    row_masks = {key: inside for key, inside in row_masks.items() if rows.weight[inside].sum() > 0}
    if not row_masks:
        raise ValueError(
            f"by: expected values of {by!r} in rows of positive weight, got missing ones only; fill them, or leave it "
            "out."
        )
    return list(row_masks), np.stack(list(row_masks.values()))


def _changes(
    rows: EffectRows, variables: Any, sign: str, inside: Bool[np.ndarray, "G n"]
) -> Iterator[tuple[str, str, list[Callable[[], Average]]]]:
    """Variable, label and the two averages of each comparison, for groups of rows."""
    asked: Mapping[str, Any] = variables if isinstance(variables, Mapping) else {}
    weight = _within(rows.weight, inside)
    unchanged = partial(rows.at, {}, weight)
    for name in rows.chosen(variables, "variables"):
        levels, change = rows.factors.get(name), asked.get(name)
        if levels is not None:
            pairs = _level_pairs(name, levels, change, rows.reference.get(name), sign)
            ends = {level: partial(rows.at, {name: level}, weight) for pair in pairs for level in pair[1:]}
            for label, low, high in pairs:
                yield name, label, [ends[high], ends[low]]
            continue
        values = rows.values_of(name)
        label, low, high = _number_pair(name, values, rows.observed(values)[0], change, sign)
        if low is not None:
            yield name, label, [partial(rows.at, {name: end}, weight) for end in (high, low)]
            continue
        missing = np.isnan(values)
        present_weight = _within(rows.weight, inside & ~missing) if missing.any() else weight
        low_end = partial(rows.at, {}, present_weight) if missing.any() else unchanged
        yield name, label, [partial(rows.at, {name: values + high}, present_weight), low_end]


def _within(weight: Float[np.ndarray, " n"], inside: Bool[np.ndarray, "G n"]) -> Float[np.ndarray, "G n"]:
    """Weights of the rows of each group, of sum 1; NaN in a group without rows."""
    inner = np.where(inside, weight, 0.0)
    with np.errstate(invalid="ignore"):
        return inner / inner.sum(axis=1, keepdims=True)


def _level_pairs(
    name: str, levels: Sequence[Any], change: Any, reference: Any, sign: str
) -> list[tuple[str, Any, Any]]:
    """Label, first and second level of each comparison of a factor."""
    if change is None:
        pairs = [(other, level) for level, other in level_changes(levels, reference, name)]
    elif isinstance(change, str) and change == "pairwise":
        pairs = list(itertools.combinations(levels, 2))
    elif isinstance(change, Sequence) and not isinstance(change, str) and len(change) == 2:
        check_levels(change, levels, name, "variables")
        pairs = [(change[0], change[1])]
    else:
        raise ValueError(f"variables: expected two levels of {name!r}, (from, to), or 'pairwise', got {shown(change)}.")
    return [(f"{high} {sign} {low}", low, high) for low, high in pairs]


def _number_pair(
    name: str, values: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"], change: Any, sign: str
) -> tuple[str, float | None, float]:
    """Label, first and second value of a numeric variable; for a number to add, None and this number."""
    change = 1 if change is None else change
    if isinstance(change, str) and change in ("sd", "iqr", "minmax"):
        values, weight = values[weight > 0], weight[weight > 0]
        if not len(values):
            raise ValueError(f"variables: {name!r} is missing in all rows, which have no {change!r}; give (from, to).")
        middle = float(weight @ values)
        spread = float(np.sqrt(weight @ (values - middle) ** 2))
        by_weight: dict[str, Any] = {} if np.ptp(weight) == 0 else {"weights": weight, "method": "inverted_cdf"}
        quartiles: Any = np.quantile(values, [0.25, 0.75], **by_weight)
        ends = {
            "sd": (middle - spread / 2, middle + spread / 2),
            "iqr": tuple(quartiles.tolist()),
            "minmax": (float(values.min()), float(values.max())),
        }[change]
        return f"{change} ({ends[0]:.3g} to {ends[1]:.3g})", *ends
    if isinstance(change, Sequence) and not isinstance(change, str) and len(change) == 2:
        low, high = (float(check_number(end, f"variables[{name!r}]")) for end in change)
        return f"{high:g} {sign} {low:g}", low, high
    if isinstance(change, int | float | np.number) and not isinstance(change, bool) and change:
        return f"{float(change):+g}", None, float(change)
    raise ValueError(
        f"variables: expected a number that is added to {name!r}, two values (from, to), 'sd', 'iqr' or 'minmax', got "
        f"{shown(change)}."
    )


def _grid(rows: EffectRows, variables: Any) -> dict[str, list[Any]]:
    """Values of each variable of a grid."""
    passed_values: Mapping[str, Any] = variables if isinstance(variables, Mapping) else {}
    grid: dict[str, list[Any]] = {}
    for name in rows.chosen(variables, "variables"):
        levels, values = rows.factors.get(name), passed_values.get(name)
        if levels is not None:
            grid[name] = list(levels) if values is None else list(np.atleast_1d(np.asarray(values, dtype=object)))
            check_levels(grid[name], levels, name, "variables")
        elif values is None or (isinstance(values, int | np.integer) and not isinstance(values, bool)):
            usual = RULES.lines if any(other not in rows.factors for other in grid) else RULES.points
            points = check_count(usual if values is None else values, f"variables[{name!r}]")
            values = rows.values_of(name)[rows.weight > 0]
            grid[name] = np.linspace(np.nanmin(values), np.nanmax(values), points).tolist()
        else:
            grid[name] = [float(check_number(value, f"variables[{name!r}]")) for value in np.atleast_1d(values)]
    return grid
