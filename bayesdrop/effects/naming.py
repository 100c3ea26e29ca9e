"""Name a response and its prediction, for the axes of plots and the attributes of tables."""

from __future__ import annotations

from typing import Any

from ..losses.base import Loss

__all__ = ["prediction_name", "response_name"]


def response_name(formula: Any) -> str:
    """Left side of a formula, without the label of ``ill['yes'] ~ …``; ``y`` without a formula or a left side.

    Parameters
    ----------
    formula : FormulaEncoder, StoredFormula or None
        Formula of a fit or a posterior.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> response_name(bd.from_formula("ill['yes'] ~ age", {"age": [1.0, 2.0, 3.0], "ill": ["yes", "no", "no"]}))
    'ill'
    >>> response_name(None)
    'y'
    """
    left, sign, _ = str(getattr(formula, "formula", "")).partition("~")
    name = left.strip()
    if name.endswith("]"):
        name = name[: name.index("[")].strip()
    return name.strip("`") if sign and name else "y"


def prediction_name(loss: Loss, classes: Any, formula: Any) -> str:
    """Name of a prediction: the probability of an event, or an expected response.

    Parameters
    ----------
    loss : Loss
        Loss of the model.
    classes : sequence of labels or None
        Labels; the negative class is the first of two.
    formula : FormulaEncoder, StoredFormula or None
        Formula, which names the response.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> prediction_name(bd.Logistic(), ["no", "yes"], None), prediction_name(bd.Poisson(), None, None)
    ('P(y = yes)', 'Expected y')
    """
    name = response_name(formula)
    if loss.multiclass:
        return f"P({name} = class)"
    if loss.binary:
        return f"P({name} = {1 if classes is None else classes[1]})"
    return "P(success)" if loss.ratio == "odds_ratio" else f"Expected {name}"
