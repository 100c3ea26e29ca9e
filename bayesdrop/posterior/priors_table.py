"""Tabulate the priors of all coefficients in the units of their columns (``bd.priors_table``); read rows for priors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._typing import DataFrame, Float, PerRow
from .._validation import check_names, check_numbers, one_per_row, shown
from ..data.column_facts import ColumnFacts
from ..data.dataset import check_offset, default_names
from ..data.formulas.formula import FormulaDesign, encode_formula
from ..data.frames import as_frame
from ..data.responses import read_pairs, response_sd
from ..designs import as_local_design, column_names, in_memory
from ..fitting.by_formula import (
    FormulaOptions,
    RowArguments,
    of_effects,
    of_terms,
    read_formula,
    takes_response_scale,
)
from ..fitting.objective.centring import centre_problem
from ..model import Model, check_model
from ..priors import Normal, RandomEffects
from ..priors.by_name import DEFAULT, of_columns
from .response_units import with_spread

__all__ = ["PriorRows", "priors_table", "read_prior_rows"]

INTERCEPT = "Intercept"
STATED, BY_DEFAULT, LEARNT = "stated", "default", "learnt"


def priors_table(
    model: Model | str,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    offset: Any = None,
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
        Row weights, >= 0, times those of their classes, as in :func:`bayesdrop.prior_draws`.
    offset : array (n,) or float, optional
        Known part of every row's score, as in :func:`bayesdrop.sample`.
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
        in the units of the column, and ``scale``: if ``sd`` is not known (NaN), its prior, times a known factor.
        ``source`` is "stated" by the user, "default", or "learnt" with the coefficients. The intercept is that at the
        means of the columns. With ``bd.Softmax()`` each class has these priors.

    Raises
    ------
    ValueError
        If names in the prior are unknown, or the rows are invalid.

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
        model, X, y, options, feature_names=feature_names, sample_weight=sample_weight, offset=offset, classes=None
    )
    design = as_local_design(rows.X)
    centring = with_spread(
        centre_problem(rows.model, design, rows.weight, rows.model.bind(rows.names), rows.names), rows.spread
    )
    prior: Any = centring.original_model.weight_prior
    p = len(rows.names)
    n_features = p - getattr(prior, "size", 0)
    features = getattr(prior, "features", prior)
    location = prior.location(p)
    sd, scale = _scales(features, n_features)
    term = [""] * p if rows.terms is None else list(rows.terms)
    mean = np.zeros(p) if location is None else location
    names, family = list(rows.names), type(features).__name__.lower()
    sources = _sources(model, rows, features, n_features)
    lines = [[term[j], family, mean[j], sd[j], scale[j], sources[j]] for j in range(n_features)]
    for levels, each in zip(prior.levels, prior.scale, strict=True) if p > n_features else ():
        law = [float(each), "", STATED] if isinstance(each, int | float) else [np.nan, repr(each), LEARNT]
        lines += [[term[j], "normal", mean[j], *law] for j in range(len(lines), len(lines) + len(levels))]
    for name in prior.pairs() if p > n_features else ():
        names.append(f"{name}|correlation")
        lines.append([name, "lkj", np.nan, np.nan, f"eta {prior.eta:g}", LEARNT])
    if rows.model.fit_intercept:
        level = centring.original_model.intercept_prior
        flat = ["1", "flat", np.nan, np.nan, "", BY_DEFAULT]
        names.append(INTERCEPT)
        lines.append(flat if level is None else ["1", "normal", level.mean, level.scale, "", STATED])
    for one in centring.original_model.loss.parameters:
        form = repr(one.prior) if one.power == 1 else f"{one.name} ** {one.power:g} ~ {one.prior!r}"
        source = BY_DEFAULT if getattr(rows.model.loss, one.field) is None else STATED
        names.append(one.name)
        lines.append(["", type(one.prior).__name__.lower(), np.nan, np.nan, form, source])
    columns = ["term", "family", "mean", "sd", "scale", "source"]
    return pd.DataFrame(lines, columns=columns, index=pd.Index(names, name="coefficient"))


def _scales(prior: Any, p: int) -> tuple[Float[np.ndarray, " p"], list[str]]:
    """Standard deviations (p,), NaN if unknown, and the priors of the unknown ones."""
    if prior.gaussian:
        return prior.precision(p) ** -0.5, [""] * p
    learnt = prior.learnt_scale(p)
    if learnt is None:
        return np.full(p, np.nan), [repr(prior)] * p
    factors = ["" if unit == 1 else f" × {unit:.6g}" for unit in learnt.unit]
    return np.full(p, np.nan), [f"{prior.scale!r}{factor}" for factor in factors]


def _sources(model: Any, rows: PriorRows, prior: Any, p: int) -> list[str]:
    """Source of the prior of each of the first ``p`` columns."""
    if not prior.gaussian:
        return [LEARNT] * p
    weight_prior = Normal() if isinstance(model, str) else model.weight_prior
    scale = getattr(weight_prior, "scale", None)
    if isinstance(scale, Mapping):
        marks = {name: float(name == DEFAULT) for name in scale}
        terms = None if rows.terms is None else rows.terms[:p]
        is_default = of_columns(marks, rows.names[:p], terms, "Normal scale", None)
        return [BY_DEFAULT if by_default else STATED for by_default in is_default]
    return [BY_DEFAULT if repr(weight_prior) == repr(Normal()) else STATED] * p


class PriorRows(NamedTuple):
    """A model with rows in memory.

    Attributes
    ----------
    model : Model
        The model, or the model that a formula stands for.
    X : array or scipy sparse (n, p)
        Features.
    names : list of str
        Names of the columns.
    facts : ColumnFacts
        The encoding, if the features are those of a formula.
    weight : array (n,)
        Row weights; of successes and failures times the trials.
    offset : array (n,) or None
        Known part of the scores.
    classes : object
        Labels for a softmax loss, unchecked.
    terms : list of p str or None
        Term of the formula for each column; None without a formula.
    trials : array (n,) or None
        Numbers of trials, if the response is successes and failures.
    spread : float
        Standard deviation of a numeric response minus its offset, the unit of default priors; 1 without one.
    """

    model: Model
    X: Any
    names: list[str]
    facts: ColumnFacts
    weight: Float[np.ndarray, " n"]
    offset: Float[np.ndarray, " n"] | None
    classes: Any
    terms: list[str] | None
    trials: PerRow | None
    spread: float


def read_prior_rows(
    model: Any,
    X: Any,
    y: Any,
    options: FormulaOptions,
    *,
    feature_names: Any,
    sample_weight: Any,
    offset: Any,
    classes: Any,
) -> PriorRows:
    """Read a model and its rows; the arguments are those of :func:`bayesdrop.prior_draws`.

    Raises
    ------
    ValueError
        If names, weights or the formula do not fit the rows.

    Examples
    --------
    >>> table = {"age": [3.0, 5.0], "ill": ["no", "yes"]}
    >>> plain = dict.fromkeys(["feature_names", "sample_weight", "offset", "classes"])
    >>> rows = read_prior_rows("ill ~ age", table, None, FormulaOptions(), **plain)
    >>> rows.names, rows.weight.tolist()
    (['age'], [1.0, 1.0])
    """
    design: FormulaDesign | None = None
    rows = RowArguments(sample_weight, offset=offset)
    if isinstance(model, str):
        model, X, y, feature_names, design, rows = read_formula(model, X, y, feature_names, options, rows)
    elif isinstance(X, str):
        if feature_names is not None:
            raise ValueError("feature_names: a formula names its columns; leave them out.")
        design = _encoded(check_model(model), X, y, options, classes)
        rows = rows.of_design(design)
        model = of_effects(of_terms(model, design), design, options, rows)
        X, y, feature_names = design.X, design.y, design.feature_names
    else:  # the response is not needed
        read_formula(check_model(model), X, () if y is None else y, feature_names, options)
    columns, X = column_names(X) if feature_names is None else feature_names, in_memory(X)
    if len(np.shape(X)) != 2:
        raise ValueError(f"X: expected a matrix (n, p), got shape {np.shape(X)}; give a single row as X[None, :].")
    n, p = np.shape(X)
    if n == 0:
        raise ValueError("X: expected at least one row, got none.")
    names = default_names(p) if columns is None else check_names(columns, p)
    weight = np.ones(n)
    if sample_weight is not None:
        weight = check_numbers(rows.sample_weight, "sample_weight", least=0)
        if weight.shape != (n,) or not np.any(weight):
            raise ValueError(
                f"sample_weight: expected {n} numbers, not all 0 (one per row of X), got {shown(sample_weight)}."
            )
    counts = None if y is None else read_pairs(model.loss, y)
    trials = None if counts is None else one_per_row(counts.sum(axis=1), n).astype(np.int64)
    weight = weight if trials is None else weight * trials
    if not np.any(weight):
        raise ValueError("y: expected a trial in some row of positive weight, got none.")
    if counts is None and y is not None and (isinstance(y, Mapping) or np.ndim(y) > 1 and np.shape(y)[1] != 1):
        raise ValueError(
            f"y: expected {n} labels or numbers, one for each row of X, got {shown(y)}; it is a table only where X or "
            "model is a formula, and two columns only under bd.Binomial()."
        )
    if model.loss.multiclass and classes is None and y is not None:
        classes = np.unique(np.asarray(y))
    facts, terms = ColumnFacts(columns is not None), None
    if design is not None:
        facts, terms = ColumnFacts(formula=design.encoder), list(design.groups)
    offset, spread = None if rows.offset is None else check_offset(rows.offset, n), 1.0
    if takes_response_scale(model.loss) and y is not None and np.shape(y) in ((n,), (n, 1)):
        found = response_sd(check_numbers(y, "y", least=-np.inf).ravel(), weight, offset)
        spread = found if 0 < found < np.inf else 1.0
    return PriorRows(model, X, names, facts, weight, offset, classes, terms, trials, spread)


def _encoded(model: Model, formula: str, data: Any, options: FormulaOptions, classes: Any) -> FormulaDesign:
    """Features of a formula, with its response if the prior of the model depends on it."""
    table = as_frame(data, "data", "for X is a formula")
    how = options.encoding()
    response, _, terms = formula.rpartition("~")
    encoded = encode_formula(f"~ {terms.strip()}", table, missing=model.missing, **how)
    in_units = takes_response_scale(model.loss)
    in_classes = model.loss.multiclass and classes is None
    if response.strip() and (in_units or in_classes or "+" in response):
        return encode_formula(formula, table, missing=model.missing, **how)
    return encoded
