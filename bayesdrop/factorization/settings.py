"""What a factorisation asks of its settings, and of the entries that it is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Num
from .._validation import check_choice, check_count, check_flag, check_number
from ..estimators.validation import default_names

__all__ = ["check_observed", "check_settings", "widest"]

_SOLVERS = ("closed_form", "deterministic", "stochastic")
_MISSING = (None, "nan", "zeros")
# Columns of an iterative solver's factors where the number is not given.
_WIDTH = 50


def check_settings(model: Any) -> None:
    """Raise ValueError unless every setting of a ``DropoutMatrixFactorization`` is in its range.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> check_settings(bd.DropoutMatrixFactorization(retain=1.5))
    Traceback (most recent call last):
    ValueError: retain: expected a finite number in (0, 1), got 1.5; at 1 nothing is dropped, which is a plain singular
    value decomposition.
    """
    check_choice(model.solver, "solver", _SOLVERS)
    check_choice(model.missing, "missing", _MISSING)
    advice = "at 1 nothing is dropped, which is a plain singular value decomposition"
    check_number(model.retain, "retain", above=0, below=1, advice=advice)
    for name in ("n_components", "max_iter"):
        if getattr(model, name) is not None:
            check_count(getattr(model, name), name, none="")
    for name in ("tol", "learning_rate"):
        check_number(getattr(model, name), name, above=0)
    for name in ("adaptive", "centre"):
        check_flag(getattr(model, name), name)


def widest(model: Any, shape: tuple[int, int]) -> int:
    """Columns of the factors, or of the adaptive closed form the largest rank.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> widest(bd.DropoutMatrixFactorization(), (100, 70))
    70
    >>> widest(bd.DropoutMatrixFactorization(solver="deterministic"), (100, 70))
    50
    """
    side = min(shape)
    if not model.adaptive:
        if model.n_components is None:
            raise ValueError(
                "n_components: expected a number, got None; at a fixed retain probability the penalty depends on the "
                "width of the factors. Give it, or take adaptive=True, which learns it."
            )
        return int(model.n_components)
    if model.n_components is None:
        return side if model.solver == "closed_form" else min(side, _WIDTH)
    if model.n_components > side:
        raise ValueError(
            f"n_components: expected at most min(n, p) = {side}, got {model.n_components} with n_samples={shape[0]}, "
            f"n_features={shape[1]}; lower it, or leave it out to have it learnt."
        )
    return int(model.n_components)


def check_observed(model: Any, rows: Num[np.ndarray, " n"], columns: Num[np.ndarray, " p"]) -> None:
    """Raise ValueError if a row or a column has no observed entry, or the solver needs them all.

    Parameters
    ----------
    model : DropoutMatrixFactorization
        With its names of columns.
    rows, columns : array (n,) and (p,)
        Numbers of observed entries.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> model = bd.DropoutMatrixFactorization(solver="deterministic").fit(np.eye(3))
    >>> check_observed(model, np.array([2, 0, 1]), np.array([1, 1, 1]))
    Traceback (most recent call last):
    ValueError: X: expected an observed entry in every row and column, got none in 1 row (1); leave out what was never
    observed.
    """
    names = default_names(model)
    empty = {
        "row": [str(i) for i in np.flatnonzero(rows == 0)],
        "column": [names[j] for j in np.flatnonzero(columns == 0)],
    }
    for kind, found in empty.items():
        if found:
            shown = ", ".join(found[:10]) + (f" and {len(found) - 10} more" if len(found) > 10 else "")
            raise ValueError(
                f"X: expected an observed entry in every row and column, got none in {len(found)} {kind}"
                f"{'s' * (len(found) > 1)} ({shown}); leave out what was never observed."
            )
    if model.solver == "closed_form":
        raise ValueError(
            'solver: "closed_form" needs every entry, and some of X are missing; take solver="deterministic" (or '
            '"stochastic"), which minimise the expected loss of the observed ones.'
        )
