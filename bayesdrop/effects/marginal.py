r"""Average marginal effects: by how much the prediction moves per unit of a feature, averaged over rows.

    AME_d = (1/Σs) Σ_i s_i ∂/∂x_id E f(s̃_i)

with ``f(s̃)`` the response at the noised score, the one that :func:`bayesdrop.predict` averages: a probability, an
expected count or a mean. The derivative is a central difference of the predictions, as in the packages
``marginaleffects`` (Arel-Bundock, Greifer & Heiss 2024), with a step of a thousandth of the feature's standard
deviation, so that every noise and every loss has it; where a noise takes no numbers below zero, it is one-sided.

Of a model by a formula the variable itself moves, with all terms that it is in: main effects, interactions, splines.
Steps stay within the range that was fitted, beyond which a spline has no value. Factors have differences of levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._typing import DataFrame, Float
from .._validation import shown
from ..fitting.results.saved import rows_of
from ..posterior.draws.draws import Draws
from .contrasts import check_levels
from .expected import Average, Effect, EffectRows

__all__ = ["level_changes", "marginal_effects"]

_STEP = 1e-3


def marginal_effects(
    result: Any,
    X: Any,
    y: Any = None,
    *,
    features: Sequence[str] | None = None,
    reference: Mapping[str, Any] | None = None,
    sample_weight: Any = None,
    corrupted_inputs: bool = False,
    offset: Any = None,
    draws: int = 25,
    probability: float | int = 0.9,
) -> DataFrame:
    """Average marginal effect of each feature or variable on the prediction, with intervals.

    The prediction is the probability, the expected count or the mean. For a model with a formula, and a table of its
    columns, the effects are those of the variables: slopes for numbers, through all terms that contain them, and
    differences between levels for factors.

    Parameters
    ----------
    result : Fit, InferenceData or DataTree, or a fitted linear estimator
        What ``bd.fit`` or ``bd.sample`` returned, or an estimator such as ``bd.DropoutLogisticRegression()``.
    X : array, data frame or scipy sparse (n, p)
        Rows to average over, often those of the fit; columns of a data frame are matched by name. For a model with a
        formula, a table with its columns, or the encoded features, each of which then has a slope.
    y : sequence (n,), optional
        For intervals of a point fit without noise: the responses of the rows of the fit, with these rows as ``X``. With
        a formula they are read from the table.
    features : sequence of str, optional
        Features or variables whose effects to compute; by default all. Each costs two predictions of all rows, and with
        ``y`` two more for each weight.
    reference : mapping from variable to level, optional
        Level of each factor with which its other levels are compared; by default the first.
    sample_weight : array (n,), optional
        Row weights of the average; with ``y``, those of the fit.
    corrupted_inputs : bool, default=False
        Whether the rows are corrupted already, so that predictions do not average over noise; an estimator may have
        this set.
    offset : array (n,) or float, optional
        Known part of the score of each row, needed if the rows of the fit had one.
    draws : int, default=25
        Number of draws of each chain to use, evenly spaced. ``mcse`` shows whether more are needed.
    probability : float, default=0.9
        Probability content of the intervals, in (0, 1).

    Returns
    -------
    pandas.DataFrame
        ``effect``, ``sd``, ``low`` and ``high``, one row per feature; with many classes one row per class and feature,
        with the effects on the probability of the class, which sum to zero over the classes. If ``y`` is given and the
        point fit has no intervals, because it has noise for example, a column ``interval`` says "use bd.sample"
        instead. ``attrs["interval"]`` says what the intervals are, or why there are none. For a posterior ``mcse`` is
        the Monte Carlo standard error of ``effect``; that of the ends of a 90 % interval is about twice as large.

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
    the delta method and Laplace's approximation; :func:`bayesdrop.weights_table` says why a fit with noise has none. A
    0/1 feature has a slope like any other. Rows in which a feature is missing do not contribute to its effect; other
    missing features are averaged over as in predictions.

    References
    ----------
    Arel-Bundock, Greifer & Heiss (2024), How to interpret statistical models using marginaleffects for R and Python,
    Journal of Statistical Software 111.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> X, y = [[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [3.0, 1.0]], [0.0, 1.1, 1.9, 3.2]
    >>> fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), X, y)
    >>> table = marginal_effects(fit, X, y)
    >>> bool(np.allclose(table["effect"], fit.weight))
    True
    """
    import pandas as pd

    rows = EffectRows.of(result, X, y, sample_weight, corrupted_inputs, offset, draws, probability, reference)
    effects = _of_features(rows, features) if rows.encoder is None else _of_variables(rows, features)
    labels, columns, interval = rows.table(effects)
    names = [str(label[-1]) for label in labels]
    classes = list(dict.fromkeys(label[0] for label in labels)) if len(labels[0]) > 1 else None
    names = names if classes is None else names[: len(names) // len(classes)]
    frame = pd.DataFrame(columns, index=rows_of(names, classes))
    frame.attrs.update(interval=interval, probability=rows.probability)
    return frame


def chosen(features: Any, known: Sequence[str], argument: str = "features") -> list[str]:
    """Names of the features asked for; raise ValueError on others."""
    if features is None:
        return list(known)
    named = not isinstance(features, str | bytes) and isinstance(features, Sequence | np.ndarray | Mapping)
    wanted = [str(name) for name in features] if named else []
    unknown = [name for name in wanted if name not in known]
    if not wanted or unknown or len(set(wanted)) < len(wanted):
        raise ValueError(
            f"{argument}: expected a list of different names among {list(known)[:5]}{' …' * (len(known) > 5)}, got "
            f"{shown(features)}."
        )
    return wanted


def _slope(averages: Float[np.ndarray, "S ..."]) -> Float[np.ndarray, "S ..."]:
    return averages.sum(axis=-1)


def _of_features(rows: EffectRows, features: Any) -> Iterator[Effect]:
    """Average slopes in the columns of the features."""
    draws = rows.sources[0]
    for name in chosen(features, draws.feature_names):
        d = draws.feature_names.index(name)
        yield Effect((name,), lambda d=d: _moved(rows, draws, d), _slope)  # type: ignore[misc]


def _moved(rows: EffectRows, draws: Draws, d: int) -> list[Average]:
    """Rows with the column moved, weighted for a difference quotient; where it is missing they are left out."""
    X = rows.X
    column = X[:, [d]]
    column = np.asarray(column.toarray() if hasattr(column, "toarray") else column, dtype=np.float64)[:, 0]
    there = ~np.isnan(column)
    if not there.any():
        return [Average(X[:1], np.zeros(1), None if rows.offset is None else rows.offset[:1])]
    step = _STEP * (float(column[there].std()) or 1.0)
    try:
        draws.model.noise.check(min(float(column[there].min()), 0.0 if hasattr(X, "nnz") else np.inf) - step)
        places: tuple[tuple[float, float], ...] = ((1.0, 0.5 / step), (-1.0, -0.5 / step))
    except ValueError:
        places = ((0.0, -1.5 / step), (1.0, 2 / step), (2.0, -0.5 / step))
    weight = rows.weight * there / float(rows.weight[there].sum() or 1.0)
    return [Average(_shift(X, d, times * step), factor * weight, rows.offset) for times, factor in places]


def _shift(X: Any, d: int, length: float) -> Any:
    """Rows with ``length`` added to the column, float64."""
    if not hasattr(X, "nnz"):
        changed = np.array(X, dtype=np.float64)
        changed[:, d] += length
        return changed
    from scipy.sparse import csr_array

    n, p = X.shape
    more = csr_array((np.full(n, length), (np.arange(n), np.full(n, d))), shape=(n, p))
    return (csr_array(X.astype(np.float64)) + more).tocsr()


def _of_variables(rows: EffectRows, features: Any) -> Iterator[Effect]:
    """Average slopes in the numbers among the columns of a formula, and differences of the levels of its factors."""
    assert rows.encoder is not None
    for name in chosen(features, list(rows.encoder.columns)):
        if name in rows.factors:
            for level, other in level_changes(rows.factors[name], rows.reference.get(name), name):
                yield Effect(
                    (f"{name}[{level}] vs {name}[{other}]",),
                    lambda n=name, ends=(level, other): [  # type: ignore[misc]
                        rows.changed(rows.frame.assign(**{n: end}), sign * rows.weight)
                        for end, sign in zip(ends, (1.0, -1.0), strict=True)
                    ],
                    _slope,
                )
        else:
            yield Effect((name,), lambda n=name: _slopes(rows, n), _slope)  # type: ignore[misc]


def level_changes(levels: Sequence[Any], reference: Any, name: str) -> list[tuple[Any, Any]]:
    """Each level with the one that it is compared with, by default the first.

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


def _slopes(rows: EffectRows, name: str) -> list[Average]:
    """The rows with a number moved up and down, within what was fitted, weighted for a difference quotient."""
    assert rows.encoder is not None
    facts, values = rows.encoder.columns[name], rows.frame[name].to_numpy(dtype=np.float64)
    there = ~np.isnan(values)
    step = 0.5 * _STEP * (float(values[there].std()) or 1.0) if there.any() else 1.0
    inside = (values >= facts["low"]) & (values <= facts["high"]) & (facts["high"] - facts["low"] > step)
    up = np.where(inside, np.minimum(values + step, facts["high"]), values + step)
    down = np.where(inside, np.maximum(values - step, facts["low"]), values - step)
    weight = np.where(there, rows.weight, 0.0) / float(rows.weight[there].sum() or 1.0)
    quotient = weight / np.where(there, up - down, 1.0)
    return [rows.changed(rows.frame.assign(**{name: end}), sign * quotient) for end, sign in ((up, 1), (down, -1))]
