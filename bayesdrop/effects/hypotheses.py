"""Compute probabilities of statements about weights, rates and effects: ``bd.hypothesis``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import DataFrame, Float
from .._validation import check_choice, check_number, shown
from ..data.formulas.language.interpreter import Rows, evaluate
from .expected import monte_carlo_errors
from .quantities import Quantities, read_quantities
from .statements import Statement, read_statement

__all__ = ["hypothesis"]

_POINT = "no probability of a point is stated; look at the interval of the difference"
_NOTHING = "nothing is compared; look at the interval"


def hypothesis(
    result: Any, statements: str | Sequence[str], *, probability: float | int = 0.9, estimate: str = "mean"
) -> DataFrame:
    """Probability and size of differences in statements such as ``"site[s] - site[n] > 0"`` about weights or effects.

    Parameters
    ----------
    result : InferenceData or DataTree, xarray.DataArray, Fit, or a fitted linear estimator
        Posterior from ``bd.sample``; effects with ``as_draws=True``, from :func:`bayesdrop.comparisons`,
        :func:`bayesdrop.marginal_effects` or :func:`bayesdrop.predictions_grid`; or a fit without noise.
    statements : str or list of str
        Expressions with ``+ - * / **``, ``abs``, ``exp``, ``log``, ``min`` and ``max``, and at most one of ``>``,
        ``>=``, ``<``, ``<=`` and ``=``. No statement is evaluated as Python code. Name a weight by its feature,
        ``age:site[n]``, or as :func:`weights_table` prints it, in backticks if the name has blanks or signs:
        ```site[s] vs site[n]` > 0``. ``intercept``, ``sigma`` and ``rate[age]`` have the names of
        :func:`draws_table`, and so have weights of many classes, ``weight[setosa, age]``, and effects of random terms,
        ```1|clinic[c0]```. Rows of effects are ``age``, ``age[+10]``, ``site[s - n]`` or ``prediction[50, s]``.
    probability : float, default=0.9
        Probability content of the intervals, in (0, 1).
    estimate : "mean" or "median", default="mean"
        Summary of the draws in the column ``estimate``.

    Returns
    -------
    pandas.DataFrame
        One row per statement. ``estimate``, ``sd``, ``low`` and ``high`` describe the left side minus the right side;
        ``posterior_probability`` is the share ``p`` of draws for which the statement is true, and ``evidence_ratio`` is
        ``p/(1 − p)``, infinite if it is true for all draws. ``=`` has neither, because a continuous quantity equals a
        number with probability 0; a column ``note`` says so. ``mcse`` is the Monte Carlo standard error of the mean,
        for draws of chains. ``attrs`` describe the intervals (``"interval"``) and their probability content.

    Raises
    ------
    TypeError, ValueError
        If ``result`` has neither draws nor a normal approximation, a statement cannot be read or has an unknown name
        (the message lists similar names), or its value is not finite in some draws; or if it is about a single level of
        a factor although every level has a weight: the mean of the levels is confounded with the intercept, and the
        data inform only their differences.

    See Also
    --------
    weights_table, comparisons, draws_table

    Notes
    -----
    Two statements hold together if the smaller of the differences is positive: ``"min(a - b, b - c) > 0"``. A fit
    without noise has the normal distribution of Laplace's approximation, represented by 16,384 points of a Sobol
    sequence; the mean, the standard deviation and the quantiles of a weight are accurate to three digits. The evidence
    ratio is the posterior odds of the statement, and not a Bayes factor, which would divide by the prior odds.

    References
    ----------
    Bürkner (2017), brms: An R package for Bayesian multilevel models using Stan, Journal of Statistical Software 80,
    doi:10.18637/jss.v080.i01.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> X, y = [[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [3.0, 1.0]], [0.0, 1.1, 1.9, 3.2]
    >>> fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), X, y, feature_names=["dose", "age"])
    >>> table = bd.hypothesis(fit, ["dose > age", "dose = 1"])
    >>> table.loc["dose > age", ["estimate", "posterior_probability"]].astype(float).round(2).tolist()
    [0.86, 1.0]
    >>> table.loc["dose = 1", "note"]
    'no probability of a point is stated; look at the interval of the difference'
    """
    import pandas as pd

    probability = check_number(probability, "probability", above=0, below=1, advice="0.9, say")
    check_choice(estimate, "estimate", ("mean", "median"))
    texts = [statements] if isinstance(statements, str) else statements
    if not isinstance(texts, Sequence) or isinstance(texts, bytes) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f'statements: expected a text such as "age > 0" or a list of texts, got {shown(statements)}.')
    if not len(texts):
        raise ValueError('statements: expected one or more, such as "age > 0", got none.')
    quantities = read_quantities(result)
    names = dict.fromkeys(quantities.names)
    read = [read_statement(text, names, quantities.unclear) for text in texts]
    rows = [_row(one, quantities, probability, estimate) for one in read]
    frame = pd.DataFrame(rows, index=pd.Index([one.text for one in read], name="hypothesis"))
    if not frame["note"].any():
        frame = frame.drop(columns="note")
    frame.attrs.update(interval=quantities.kind, probability=probability)
    return frame


def _check_levels(statement: Statement, quantities: Quantities, draws: DataFrame) -> None:
    """Raise ValueError if a statement about levels of a factor depends on a change that alters no score."""
    size = float(np.max(np.abs(draws.to_numpy()), initial=0.0)) or 1.0  # in the unit of the response
    for change in quantities.shared:
        levels = [name for name in statement.names if change.get(name, 0.0) > 0]
        moved = draws + [size * change.get(name, 0.0) for name in statement.names]
        before, after = (evaluate(statement.difference, Rows(one)) for one in (draws, moved))
        if not levels or np.allclose(before, after, atol=1e-8 * size, equal_nan=True):
            continue
        one, is_long = levels[0], levels[0].startswith("weight[")
        plus = [name for name, by in change.items() if by > 0 and name.startswith("weight[") == is_long]
        other = next(name for name in plus if name != one)
        raise ValueError(
            f"statements: {statement.text!r} is about {one!r} by itself, but every level of the factor has a weight, "
            f"and what they share may as well be in {next(iter(change))!r}: only differences are known from the data. "
            f"Compare levels, as in '{one} - {other} > 0', or take names that bd.weights_table prints."
        )


def _row(statement: Statement, quantities: Quantities, probability: float, estimate: str) -> dict[str, Any]:
    """Columns of one statement."""
    import pandas as pd

    draws = pd.DataFrame(quantities.draw(statement.names), columns=statement.names)
    _check_levels(statement, quantities, draws)
    values: Float[np.ndarray, " S"] = np.asarray(evaluate(statement.difference, Rows(draws)), dtype=np.float64)
    if failed := int(np.sum(~np.isfinite(values))):
        raise ValueError(
            f"statements: {statement.text!r} is not a finite number in {failed:,} of {len(values):,} draws: the "
            "logarithm or a root of a negative number, a quotient by 0, or an overflow; restate it."
        )
    low, high = np.quantile(values, [(1 - probability) / 2, (1 + probability) / 2])
    middle = values.mean() if estimate == "mean" else np.median(values)
    row: dict[str, Any] = {"estimate": middle, "sd": values.std(), "low": low, "high": high}
    if quantities.chains:
        row["mcse"] = monte_carlo_errors(values[:, None], quantities.chains)[0]
    if statement.comparison in ("", "="):
        return row | {
            "posterior_probability": np.nan, "evidence_ratio": np.nan,
            "note": _POINT if statement.comparison else _NOTHING,
        }  # fmt: skip
    is_true = {">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal}[statement.comparison]
    chance = float(is_true(values, 0.0).mean())
    ratio = chance / (1 - chance) if chance < 1 else np.inf
    return row | {"posterior_probability": chance, "evidence_ratio": ratio, "note": ""}
