"""A formula in the place of features: ``bd.fit("y ~ x + C(site)", data)``, and ``bd.sample`` the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._validation import check_choice, check_flag
from ..data.formulas.formula import FormulaDesign, from_formula
from ..data.frames import as_frame
from ..losses import Binomial, Logistic, Poisson, Softmax, Squared
from ..model import Model
from ..rates import Fixed
from ..warnings import DefaultModelWarning, warn

__all__ = ["FormulaOptions", "Stated", "of_rows", "of_terms", "offset_beside", "stated"]

# Of a loss for numbers no rule learns rates: the rate that DropoutRidge has by default.
_RATE = 0.1


class FormulaOptions(NamedTuple):
    """How ``bd.fit`` and ``bd.sample`` encode a formula; see :func:`bayesdrop.from_formula`."""

    full_rank: bool = False
    unseen: str = "error"
    dropna: bool = False


class Stated(NamedTuple):
    """A model with its data, and the design if a formula made them."""

    model: Any
    X: Any
    y: Any
    feature_names: Sequence[str] | None
    design: FormulaDesign | None


def stated(
    model: Any, X: Any, y: Any, feature_names: Sequence[str] | None, options: FormulaOptions | None = None
) -> Stated:
    """Read a formula in the place of the model or of the features; anything else stays as it is.

    Parameters
    ----------
    model : Model or str
        A model, or a formula with the data frame as ``X``: two labels of the response then mean ``bd.Logistic()``,
        more ``bd.Softmax()``, numbers ``bd.Squared()`` at a fixed rate of 0.1, and two columns, as in
        ``"successes + failures ~ dose"``, ``bd.Binomial()``. Whole numbers with an offset mean ``bd.Poisson()`` at a
        rate of 0.1, and a warning says so.
    X : features, str or data frame
        Features, or a formula with the data frame as ``y``.
    y : response or data frame
        The response; None beside a formula for the model.
    feature_names : sequence of p str, optional
        Names of the columns; a formula gives its own.
    options : FormulaOptions
        How a formula is encoded.

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
        for name in _given(options):
            raise ValueError(f"{name}: it says how a formula is encoded, and there is none; leave it out.")
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
    design = from_formula(
        formula, data, missing=getattr(given, "missing", None), **(options or FormulaOptions())._asdict()
    )
    if design.y is None:
        raise ValueError(f"formula: expected a response, as in 'y ~ {formula.strip().lstrip('~').strip()}'.")
    chosen = _default(design) if given is None else given
    return Stated(of_terms(chosen, design), design.X, design.y, design.feature_names, design)


def of_terms(model: Any, design: FormulaDesign) -> Any:
    """A model without an intercept where the formula has none, with its terms where rates have groups of no name.

    Examples
    --------
    >>> from bayesdrop import PerGroup
    >>> design = from_formula("~ age + site", {"age": [3.0, 5.0], "site": ["n", "s"]})
    >>> of_terms(Model(rates=PerGroup()), design).rates.groups
    ['age', 'site', 'site']
    """
    if not isinstance(model, Model):
        return model
    if not design.has_intercept:
        model = replace(model, fit_intercept=False)
    rates: Any = model.rates
    if getattr(rates, "groups", ()) is None:
        model = replace(model, rates=replace(rates, groups=design.groups))
    return model


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
    return of_rows(design, offset) if known is None else known


def _given(options: FormulaOptions | None) -> list[str]:
    """Names of options that are not the default ones; raise an error on what is none of them."""
    if options is None:
        return []
    check_flag(options.full_rank, "full_rank")
    check_choice(options.unseen, "unseen", ("error", "baseline"))
    check_flag(options.dropna, "dropna")
    return [name for name, value in options._asdict().items() if value != FormulaOptions()._asdict()[name]]


def of_rows(design: FormulaDesign | None, values: Any) -> Any:
    """What came for each row of a table, for the rows that a formula has kept of it.

    Examples
    --------
    >>> design = from_formula("ill ~ age", {"age": [3.0, None, 5.0], "ill": [0, 1, 1]}, dropna=True)
    >>> of_rows(design, [1.0, 2.0, 3.0]).tolist(), of_rows(None, [1.0])
    ([1.0, 3.0], [1.0])
    """
    if design is None or values is None or np.ndim(values) == 0:
        return values
    return np.asarray(values)[design.rows] if len(values) > len(design.rows) else values


def _default(design: FormulaDesign) -> Model:
    """The model of a response."""
    y = np.asarray(design.y)
    if y.ndim > 1:
        return Model(Binomial())
    if design.offset is not None and y.dtype.kind in "iuf" and np.all((y >= 0) & (y == np.round(y))):
        warn(
            "whole numbers with an offset are taken for counts: the model is "
            f"bd.Model(bd.Poisson(), rates=bd.Fixed({_RATE})). To choose, write it before the formula.",
            DefaultModelWarning,
        )
        return Model(Poisson(), rates=Fixed(_RATE))
    if y.dtype.kind in "iuf" and len(np.unique(y)) > 2:
        return Model(Squared(), rates=Fixed(_RATE))
    return Model(Softmax() if len(np.unique(y)) > 2 else Logistic())
