r"""Comparisons of predictions: on a grid of variables, and from one value of a variable to another.

    A(v) = (1/Σs) Σ_i s_i E f(s̃_i(x_i with the variable at v))

is the prediction averaged over the rows as if all had the value ``v``; ``A(v') − A(v)``, ``A(v')/A(v)`` and the
quotient of their odds compare two of them. Differences of a logistic model depend on where the rows are, odds ratios of
averages are nearer to 1 than those of single rows, and none is a weight; see Arel-Bundock, Greifer & Heiss (2024).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._typing import DataFrame, Float
from .._validation import check_choice, check_count, check_number, shown
from .contrasts import check_levels
from .expected import Average, Effect, EffectRows
from .marginal import chosen, level_changes

__all__ = ["comparisons", "predictions_grid"]

Combine = Callable[[Float[np.ndarray, "S ..."]], Float[np.ndarray, "S ..."]]


def _odds(average: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    return average / (1 - average)


_KINDS: dict[str, tuple[str, Combine]] = {
    "difference": ("-", lambda pair: pair[..., 0] - pair[..., 1]),
    "ratio": ("/", lambda pair: pair[..., 0] / pair[..., 1]),
    "odds_ratio": ("/", lambda pair: _odds(pair[..., 0]) / _odds(pair[..., 1])),
}


def comparisons(
    result: Any,
    X: Any,
    variables: Any = None,
    *,
    comparison: str = "difference",
    by: str | None = None,
    y: Any = None,
    reference: Mapping[str, Any] | None = None,
    sample_weight: Any = None,
    corrupted_inputs: bool = False,
    offset: Any = None,
    draws: int = 25,
    probability: float | int = 0.9,
) -> DataFrame:
    """Compare predictions at two values of a variable, averaged over rows.

    Parameters
    ----------
    result : Fit, InferenceData or DataTree, or a fitted linear estimator
        What ``bd.fit`` or ``bd.sample`` returned, or an estimator such as ``bd.DropoutLogisticRegression()``.
    X : array, data frame or scipy sparse (n, ·)
        Rows to average over; for a model with a formula, a table with its columns.
    variables : list of str, or mapping from variable to change, optional
        Variables to compare, by default all. The change of a number is a number to add (default 1), two values
        ``(from, to)``, ``"sd"`` or ``"iqr"`` about the mean or the median, or ``"minmax"``; that of a factor is two
        levels ``(from, to)`` or ``"pairwise"``, by default each level against the first.
    comparison : "difference", "ratio" or "odds_ratio", default="difference"
        How the two averaged predictions are compared; ``"odds_ratio"`` needs probabilities.
    by : str, optional
        Column of the table: compare within the rows of each of its values.
    y : sequence (n,), optional
        For intervals of a point fit without noise: the responses of the rows of the fit, with these rows as ``X``. With
        a formula they are read from the table.
    reference : mapping from variable to level, optional
        Level of each factor with which its other levels are compared.
    sample_weight : array (n,), optional
        As in :func:`bayesdrop.marginal_effects`.
    corrupted_inputs : bool, default=False
        As in :func:`bayesdrop.marginal_effects`.
    offset : array (n,) or float, optional
        As in :func:`bayesdrop.marginal_effects`.
    draws : int, default=25
        As in :func:`bayesdrop.marginal_effects`.
    probability : float, default=0.9
        As in :func:`bayesdrop.marginal_effects`.

    Returns
    -------
    pandas.DataFrame
        ``variable``, ``contrast``, ``effect`` and its interval, as in :func:`bayesdrop.marginal_effects`, with
        ``class`` and the column of ``by`` where they apply.

    Raises
    ------
    TypeError, ValueError
        If ``result`` has another type, rows or variables do not match it, or odds ratios are requested where
        predictions are not probabilities.

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
    """
    check_choice(comparison, "comparison", tuple(_KINDS))
    rows = EffectRows.of(result, X, y, sample_weight, corrupted_inputs, offset, draws, probability, reference)
    loss = rows.sources[0].model.loss
    if comparison == "odds_ratio" and not (loss.binary or loss.multiclass):
        raise ValueError(f"comparison: the predictions of {loss!r} are not probabilities; use 'difference' or 'ratio'.")
    groups = _groups(rows, by)
    effects = [
        Effect((name, label, *key), lambda made=made, inside=inside: made(inside), _KINDS[comparison][1])  # type: ignore[misc]
        for name, label, made in _changes(rows, variables, _KINDS[comparison][0])
        for key, inside in groups
    ]
    return _frame(rows, effects, ["variable", "contrast", *([by] if by else [])])


def predictions_grid(
    result: Any,
    X: Any,
    variables: Any,
    *,
    others: str = "observed",
    y: Any = None,
    sample_weight: Any = None,
    corrupted_inputs: bool = False,
    offset: Any = None,
    draws: int = 25,
    probability: float | int = 0.9,
) -> DataFrame:
    """Compute predictions on a grid of variables, averaged over rows or at typical values of the others.

    Parameters
    ----------
    result : Fit, estimator or posterior
        As in :func:`bayesdrop.comparisons`.
    X : array, data frame or scipy sparse (n, p)
        As in :func:`bayesdrop.comparisons`.
    variables : str, list of str, or mapping from variable to values
        Variables of the grid. Their values are a list, or the number of points between the smallest and the largest
        value; by default 20 points for a number, and all levels of a factor.
    others : "observed" or "typical", default="observed"
        Whether the other variables keep their values in the rows, over which predictions are averaged, or take their
        means and most frequent levels.
    y : sequence of n labels or numbers, optional
        As in :func:`bayesdrop.comparisons`.
    sample_weight : array (n,), optional
        As in :func:`bayesdrop.comparisons`.
    corrupted_inputs : bool, default=False
        As in :func:`bayesdrop.comparisons`.
    offset : array (n,) or float, optional
        As in :func:`bayesdrop.comparisons`.
    draws : int, default=25
        As in :func:`bayesdrop.comparisons`.
    probability : float, default=0.9
        As in :func:`bayesdrop.comparisons`.

    Returns
    -------
    pandas.DataFrame
        A column for each variable (and ``class``), ``prediction``, and the interval of the expected response, which
        reflects the uncertainty of weights and rates.

    Raises
    ------
    TypeError, ValueError
        If ``result`` has another type, or rows, variables or values do not match it.

    See Also
    --------
    comparisons : Differences of such predictions.
    bayesdrop.plots.effects : A picture of them.

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
    rows = EffectRows.of(result, X, y, sample_weight, corrupted_inputs, offset, draws, probability)
    grid = _grid(rows, variables)

    def average(values: tuple[Any, ...]) -> list[Average]:
        return [_changed(rows, dict(zip(grid, values, strict=True)), rows.weight, others == "typical")]

    effects = [
        Effect(values, lambda values=values: average(values), lambda found: found[..., 0])  # type: ignore[misc]
        for values in itertools.product(*grid.values())
    ]
    return _frame(rows, effects, list(grid), are_predictions=True).rename(columns={"effect": "prediction"})


def _frame(rows: EffectRows, effects: list[Effect], names: list[str], *, are_predictions: bool = False) -> Any:
    """A table of effects whose labels are columns."""
    import pandas as pd

    labels, columns, interval = rows.table(effects, are_predictions=are_predictions)
    names = names if len(labels[0]) == len(names) else ["class", *names]
    frame = pd.DataFrame({name: [label[j] for label in labels] for j, name in enumerate(names)} | columns)
    frame.attrs.update(interval=interval, probability=rows.probability)
    return frame


def _groups(rows: EffectRows, by: str | None) -> list[tuple[tuple[Any, ...], Float[np.ndarray, " n"]]]:
    """Keys of groups of rows with their weights, of sum 1."""
    if by is None:
        return [((), rows.weight)]
    if rows.frame is None or by not in rows.frame:
        raise ValueError(f"by: expected a column of the table X, of a model by a formula, got {shown(by)}.")
    found = []
    for value in rows.frame[by].dropna().unique():
        weight = np.where(rows.frame[by] == value, rows.weight, 0.0)
        if weight.sum() > 0:
            found.append(((value,), weight / weight.sum()))
    return found


def _variables(rows: EffectRows) -> list[str]:
    return rows.sources[0].feature_names if rows.encoder is None else list(rows.encoder.columns)


def _values(rows: EffectRows, name: str) -> Float[np.ndarray, " n"]:
    """Numbers of a variable in the rows."""
    if rows.encoder is None:
        column = rows.X[:, [rows.sources[0].feature_names.index(name)]]
        column = column.toarray() if hasattr(column, "toarray") else column
    else:
        column = rows.frame[name].to_numpy()
    return np.asarray(column, dtype=np.float64).ravel()


def _changed(
    rows: EffectRows, values: Mapping[str, Any], weight: Float[np.ndarray, " n"], typical: bool = False
) -> Average:
    """An average over rows with variables at other values."""
    if rows.encoder is not None:
        frame = rows.frame
        if typical:
            columns = rows.encoder.columns
            usual = {name: facts.get("mode", facts.get("mean")) for name, facts in columns.items()}
            frame, weight = frame.iloc[[0]].assign(**usual), np.ones(1)
        return rows.changed(frame.assign(**values), weight)
    names, offset = rows.sources[0].feature_names, rows.offset
    X = rows.X.toarray() if hasattr(rows.X, "toarray") else np.array(rows.X, dtype=np.float64)
    if typical:
        X, weight = np.nanmean(X, axis=0)[None], np.ones(1)
        offset = None if offset is None else np.array([float(np.mean(offset))])
    for name, value in values.items():
        X[:, names.index(name)] = value
    return Average(X, weight, offset)


def _changes(
    rows: EffectRows, variables: Any, sign: str
) -> Iterator[tuple[str, str, Callable[[Float[np.ndarray, " n"]], list[Average]]]]:
    """Variable, what is compared, and what makes the two averages, of row weights."""
    asked: Mapping[str, Any] = variables if isinstance(variables, Mapping) else {}
    for name in chosen(variables, _variables(rows), "variables"):
        levels, change = rows.factors.get(name), asked.get(name)
        pairs = (
            _number_pairs(name, _values(rows, name), change, sign)
            if levels is None
            else _level_pairs(name, levels, change, rows.reference.get(name), sign)
        )
        for label, low, high in pairs:
            yield (
                name,
                label,
                lambda weight, name=name, ends=(high, low): [_changed(rows, {name: end}, weight) for end in ends],  # type: ignore[misc]
            )


def _level_pairs(
    name: str, levels: Sequence[Any], change: Any, reference: Any, sign: str
) -> list[tuple[str, Any, Any]]:
    """Label, level and level that it changes to, of a factor."""
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


def _number_pairs(name: str, values: Float[np.ndarray, " n"], change: Any, sign: str) -> list[tuple[str, Any, Any]]:
    """Label, values and values that they change to, of a number."""
    change = 1 if change is None else change
    if isinstance(change, str) and change in ("sd", "iqr", "minmax"):
        middle, spread = float(np.nanmean(values)), float(np.nanstd(values))
        ends = {
            "sd": (middle - spread / 2, middle + spread / 2),
            "iqr": tuple(np.nanquantile(values, [0.25, 0.75]).tolist()),
            "minmax": (float(np.nanmin(values)), float(np.nanmax(values))),
        }[change]
        return [(f"{change} ({ends[0]:.3g} to {ends[1]:.3g})", *ends)]
    if isinstance(change, Sequence) and not isinstance(change, str) and len(change) == 2:
        low, high = (float(check_number(end, f"variables[{name!r}]")) for end in change)
        return [(f"{high:g} {sign} {low:g}", low, high)]
    if isinstance(change, int | float | np.number) and not isinstance(change, bool) and change:
        return [(f"{float(change):+g}", values, values + float(change))]
    raise ValueError(
        f"variables: expected a number that is added to {name!r}, two values (from, to), 'sd', 'iqr' or 'minmax', got "
        f"{shown(change)}."
    )


def _grid(rows: EffectRows, variables: Any) -> dict[str, list[Any]]:
    """Values of each variable of a grid."""
    asked = [variables] if isinstance(variables, str) else variables
    given: Mapping[str, Any] = variables if isinstance(variables, Mapping) else {}
    grid: dict[str, list[Any]] = {}
    for name in chosen(asked, _variables(rows), "variables"):
        levels, values = rows.factors.get(name), given.get(name)
        if levels is not None:
            grid[name] = list(levels) if values is None else list(np.atleast_1d(np.asarray(values, dtype=object)))
            check_levels(grid[name], levels, name, "variables")
        elif values is None or (isinstance(values, int) and not isinstance(values, bool)):
            points = check_count(20 if values is None else values, f"variables[{name!r}]")
            there = _values(rows, name)
            grid[name] = np.linspace(np.nanmin(there), np.nanmax(there), points).tolist()
        else:
            grid[name] = [float(check_number(value, f"variables[{name!r}]")) for value in np.atleast_1d(values)]
    return grid
