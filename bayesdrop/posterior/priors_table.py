"""The table of priors: what each coefficient of a model has before there are data, in the units of its column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._typing import DataFrame, Float
from ..designs import as_local_design
from ..fitting.by_formula import FormulaOptions
from ..fitting.objective.centring import centre_problem
from ..model import Model
from ..priors import Normal, RandomEffects
from ..priors.by_name import DEFAULT, of_columns
from .prior_rows import PriorRows, read_prior_rows
from .response_units import with_spread

__all__ = ["priors_table"]

INTERCEPT = "Intercept"
STATED, BY_DEFAULT, LEARNT = "stated", "default", "learnt"


def priors_table(
    model: Model | str,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    feature_names: Any = None,
    full_rank: bool = False,
    unseen: str = "error",
    dropna: bool = False,
    random_scale: Any = None,
    correlation_shape: float | int = RandomEffects.eta,
) -> DataFrame:
    """Tabulate the prior of each coefficient, one row for each column of the features, and the intercept.

    Parameters
    ----------
    model : Model or str
        The model; or a formula with the data frame as ``X``, as in :func:`bayesdrop.sample`.
    X : array, data frame or scipy sparse (n, p)
        Features, from which the means and standard deviations of columns are taken; or a formula.
    y : response, or data frame where X is a formula, optional
        As in :func:`bayesdrop.prior_draws`.
    sample_weight : array (n,), optional
        Row weights, >= 0.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.
    full_rank, dropna : bool, default=False
        For a formula, as in :func:`bayesdrop.fit`.
    unseen : "error", "population" or "draw", default="error"
        For a formula, as in :func:`bayesdrop.sample`.
    random_scale : HalfNormal, HalfCauchy, float, or mapping from term to one of them, optional
        For a formula with random terms, as in :func:`bayesdrop.sample`.
    correlation_shape : float, default=2.0
        For a formula with correlated terms, as in :func:`bayesdrop.sample`.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``coefficient``, with ``term`` of the formula, ``family`` ("flat" for no prior), ``mean`` and ``sd``
        in the units of the column, and ``scale``: if ``sd`` is not a known number (NaN), what it is drawn from, times a
        known factor. ``source`` is "stated" by the user, "default", or "learnt" with the coefficients. The intercept is
        that at the means of the columns. With ``bd.Softmax()`` each class has these priors.

    Raises
    ------
    ValueError
        If names of the prior are not there, or the rows are invalid.

    See Also
    --------
    prior_draws, weights_table

    Examples
    --------
    >>> import bayesdrop as bd
    >>> model = bd.Model(weight_prior=bd.Normal({"age": 0.5, "default": 2.5}), intercept_prior=bd.Normal(2.5))
    >>> table = {"age": [31.0, 45, 52], "site": ["n", "s", "n"], "ill": [0, 1, 1]}
    >>> priors_table(model, "ill ~ age + site", table)[["term", "family", "sd", "source"]]
                 term  family   sd   source
    coefficient
    age           age  normal  0.5   stated
    site[n]      site  normal  2.5  default
    site[s]      site  normal  2.5  default
    Intercept       1  normal  2.5   stated
    """
    import pandas as pd

    options = FormulaOptions(full_rank, unseen, dropna, random_scale, correlation_shape)
    rows = read_prior_rows(
        model, X, y, options, feature_names=feature_names, sample_weight=sample_weight, offset=None, classes=None
    )
    design = as_local_design(rows.X)
    found = with_spread(
        centre_problem(rows.model, design, rows.weight, rows.model.bind(rows.names), rows.names), rows.spread
    )
    prior: Any = found.original_model.weight_prior
    p = len(rows.names)
    own = p - getattr(prior, "size", 0)
    features = getattr(prior, "features", prior)
    location = prior.location(p)
    sd, scale = _scales(features, own)
    term = [""] * p if rows.terms is None else list(rows.terms)
    table = pd.DataFrame(
        {
            "term": term,
            "family": [type(features).__name__.lower()] * own + ["normal"] * (p - own),
            "mean": np.zeros(p) if location is None else location,
            "sd": np.append(sd, np.full(p - own, np.nan)),
            "scale": scale + [""] * (p - own),
            "source": _sources(model, rows, features, own) + [""] * (p - own),
        },
        index=pd.Index(rows.names, name="coefficient"),
    )
    begin = own
    for levels, each in zip(prior.levels, prior.scale, strict=True) if p > own else ():
        part, begin = slice(begin, begin + len(levels)), begin + len(levels)
        known = isinstance(each, int | float)
        table.iloc[part, 3:] = [[float(each), "", STATED] if known else [np.nan, repr(each), LEARNT]] * len(levels)
    for name in prior.pairs() if p > own else ():
        table.loc[f"{name}|correlation"] = [name, "lkj", np.nan, np.nan, f"eta {prior.eta:g}", LEARNT]
    if rows.model.fit_intercept:
        level = found.original_model.intercept_prior
        flat = ["1", "flat", np.nan, np.nan, "", BY_DEFAULT]
        table.loc[INTERCEPT] = flat if level is None else ["1", "normal", level.mean, level.scale, "", STATED]
    for one in found.original_model.loss.parameters:
        law = repr(one.prior) if one.power == 1 else f"{one.name} ** {one.power:g} ~ {one.prior!r}"
        source = BY_DEFAULT if getattr(rows.model.loss, one.field) is None else STATED
        table.loc[one.name] = ["", type(one.prior).__name__.lower(), np.nan, np.nan, law, source]
    return table


def _scales(prior: Any, p: int) -> tuple[Float[np.ndarray, " p"], list[str]]:
    """Standard deviations (p,) as far as they are known, and what the others are drawn from."""
    if prior.gaussian:
        return prior.precision(p) ** -0.5, [""] * p
    learnt = prior.learnt_scale(p)
    if learnt is None:
        return np.full(p, np.nan), [repr(prior)] * p
    factors = ["" if unit == 1 else f" × {unit:.6g}" for unit in learnt.unit]
    return np.full(p, np.nan), [f"{prior.scale!r}{factor}" for factor in factors]


def _sources(stated: Any, rows: PriorRows, prior: Any, p: int) -> list[str]:
    """Where the prior of each of the first ``p`` columns comes from."""
    if not prior.gaussian:
        return [LEARNT] * p
    given = Normal() if isinstance(stated, str) else stated.weight_prior
    scale = getattr(given, "scale", None)
    if isinstance(scale, Mapping):
        marks = {name: float(name == DEFAULT) for name in scale}
        terms = None if rows.terms is None else rows.terms[:p]
        found = of_columns(marks, rows.names[:p], terms, "Normal scale", None)
        return [BY_DEFAULT if by_default else STATED for by_default in found]
    return [BY_DEFAULT if repr(given) == repr(Normal()) else STATED] * p
