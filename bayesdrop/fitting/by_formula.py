"""A formula in the place of features: ``bd.fit("y ~ x + C(site)", data)``, and ``bd.sample`` the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..data.formulas.formula import FormulaDesign, from_formula
from ..data.frames import as_frame
from ..losses import Binomial, Logistic, Softmax, Squared
from ..model import Model
from ..rates import Fixed

__all__ = ["Stated", "offset_beside", "stated"]

# Of a loss for numbers no rule learns rates: the rate that DropoutRidge has by default.
_RATE = 0.1


class Stated(NamedTuple):
    """A model with its data, and the design if a formula made them."""

    model: Any
    X: Any
    y: Any
    feature_names: Sequence[str] | None
    design: FormulaDesign | None


def stated(model: Any, X: Any, y: Any, feature_names: Sequence[str] | None) -> Stated:
    """Read a formula in the place of the model or of the features; anything else stays as it is.

    Parameters
    ----------
    model : Model or str
        A model, or a formula with the data frame as ``X``: two labels of the response then mean ``bd.Logistic()``,
        more ``bd.Softmax()``, numbers ``bd.Squared()`` at a fixed rate of 0.1, and two columns, as in
        ``"successes + failures ~ dose"``, ``bd.Binomial()``.
    X : features, str or data frame
        Features, or a formula with the data frame as ``y``.
    y : response or data frame
        The response; None beside a formula for the model.
    feature_names : sequence of p str, optional
        Names of the columns; a formula gives its own.

    Raises
    ------
    TypeError
        If the response is missing, or there is one beside a formula.
    ValueError
        If the formula has no response, or names are given beside it; or as :func:`bayesdrop.from_formula` has it.

    Examples
    --------
    >>> data = {"age": [31.0, 45, 52, 28], "ill": ["no", "yes", "yes", "no"]}
    >>> stated("ill ~ age - 1", data, None, None).model.fit_intercept
    False
    """
    if not isinstance(model, str) and not isinstance(X, str):
        if y is None:
            raise TypeError("y: expected a response beside X; only a formula, such as 'y ~ a + b', names its own.")
        return Stated(model, X, y, feature_names, None)
    if isinstance(model, str):
        if y is not None:
            raise TypeError(
                "y: the formula names the response, a column of the data; to give a model write it first, as in "
                'bd.fit(bd.Model(), "y ~ a + b", data).'
            )
        formula, data, given = model, as_frame(X, "X", "for model is a formula"), None
    else:
        formula, data, given = X, as_frame(y, "y", "for X is a formula"), model
    if feature_names is not None:
        raise ValueError("feature_names: a formula names its columns; leave them out.")
    design = from_formula(formula, data, missing=getattr(given, "missing", None))
    if design.y is None:
        raise ValueError(f"formula: expected a response, as in 'y ~ {formula.strip().lstrip('~').strip()}'.")
    chosen = _default(design.y) if given is None else given
    if isinstance(chosen, Model) and not design.has_intercept:
        chosen = replace(chosen, fit_intercept=False)
    return Stated(chosen, design.X, design.y, design.feature_names, design)


def offset_beside(design: FormulaDesign | None, offset: Any) -> Any:
    """The offset that came, or that of a formula; raise ValueError if both came.

    Examples
    --------
    >>> offset_beside(None, 0.5)
    0.5
    """
    known = None if design is None else design.offset
    if known is not None and offset is not None:
        raise ValueError("offset: the formula has an offset(...) of its own; put both into it, as in offset(a + b).")
    return offset if known is None else known


def _default(y: np.ndarray) -> Model:
    """The model of a response."""
    if y.ndim > 1:
        return Model(Binomial())
    if y.dtype.kind in "iuf" and len(np.unique(y)) > 2:
        return Model(Squared(), rates=Fixed(_RATE))
    return Model(Softmax() if len(np.unique(y)) > 2 else Logistic())
