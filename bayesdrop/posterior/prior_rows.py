"""Rows to draw responses from the prior for, in every form that ``bd.sample`` takes; used by ``prior_draws``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._typing import Float, PerRow
from .._validation import check_names, check_numbers, shown
from ..data.column_facts import ColumnFacts
from ..data.dataset import default_names
from ..data.formulas.formula import FormulaDesign, encode_formula
from ..data.frames import as_frame
from ..data.responses import read_pairs
from ..designs import column_names, in_memory
from ..fitting.by_formula import (
    FormulaOptions,
    of_effects,
    of_rows,
    of_terms,
    one_offset,
    read_formula,
    takes_response_scale,
)
from ..model import Model, check_model

__all__ = ["PriorRows", "read_prior_rows"]


class PriorRows(NamedTuple):
    """A model with rows in memory.

    Attributes
    ----------
    model : Model
        The model; that of a formula if it was one.
    X : array or scipy sparse (n, p)
        Features.
    names : list of str
        Names of the columns.
    facts : ColumnFacts
        The encoding, if a formula made them.
    weight : array (n,)
        Row weights.
    offset : object
        Known part of the scores, unchecked.
    classes : object
        Labels for a loss with a score for each class, unchecked.
    terms : list of p str or None
        Term of the formula that each column is of, if one made them.
    trials : array (n,) or None
        Sums of successes and failures, if the response is pairs of them.
    spread : float
        Standard deviation of a numeric response, the unit of default priors; 1 without one.
    """

    model: Model
    X: Any
    names: list[str]
    facts: ColumnFacts
    weight: Float[np.ndarray, " n"]
    offset: Any
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
    if isinstance(model, str):
        model, X, y, feature_names, design = read_formula(model, X, y, feature_names, options)
    elif isinstance(X, str):
        if feature_names is not None:
            raise ValueError("feature_names: a formula names its columns; leave them out.")
        design = _encoded(check_model(model), X, y, options, classes)
        model = of_effects(of_terms(model, design), design, options)
        X, y, feature_names = design.X, design.y, design.feature_names
    else:  # an empty response stands for none: it is not needed here
        read_formula(check_model(model), X, () if y is None else y, feature_names, options)
    columns, X = column_names(X) if feature_names is None else feature_names, in_memory(X)
    if len(np.shape(X)) != 2:
        raise ValueError(f"X: expected a matrix (n, p), got shape {np.shape(X)}; give a single row as X[None, :].")
    n, p = np.shape(X)
    names = default_names(p) if columns is None else check_names(columns, p)
    weight = np.ones(n)
    if sample_weight is not None:
        weight = check_numbers(of_rows(design, sample_weight), "sample_weight", least=0)
        if weight.shape != (n,) or not np.any(weight):
            raise ValueError(
                f"sample_weight: expected {n} numbers, not all 0 (one per row of X), got {shown(sample_weight)}."
            )
    counts = None if y is None else read_pairs(model.loss, y)
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
    trials = None if counts is None else counts.sum(axis=1).astype(np.int64)
    known, spread = one_offset(design, offset), 1.0
    if takes_response_scale(model.loss) and y is not None and np.shape(y) == (n,):
        y = check_numbers(y, "y", least=-np.inf)
        spread = float(np.sqrt(np.cov(y, aweights=weight, ddof=0))) or 1.0
    return PriorRows(model, X, names, facts, weight, known, classes, terms, trials, spread)


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
