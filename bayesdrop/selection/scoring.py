"""Fits along a path of settings on the training rows of a fold, scored on its test rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring

from .._typing import Float, Shaped
from .._validation import shown

__all__ = ["score_along", "scorer_of", "take_rows"]


def take_rows(X: Any, index: Shaped[np.ndarray, " some"]) -> Any:
    """Rows of an array, a csr matrix or a data frame (pandas, polars), which keeps its names.

    Examples
    --------
    >>> take_rows(np.eye(3), np.array([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return X.iloc[index] if hasattr(X, "iloc") else X[index]


def scorer_of(estimator: Any, scoring: Any) -> Any:
    """Scorer of scikit-learn for an estimator; raise TypeError if ``scoring`` is a class, which scikit-learn calls."""
    if isinstance(scoring, type):
        raise TypeError(f"scoring: expected a name, a callable scorer(estimator, X, y) or None, got {shown(scoring)}.")
    return check_scoring(estimator, scoring=scoring)


def score_along(
    estimator: Any,
    settings: Iterable[Mapping[str, Any]],
    X: Any,
    y: Shaped[np.ndarray, " n"],
    sample_weight: Float[np.ndarray, " n"] | None,
    fold: tuple[Shaped[np.ndarray, " train"], Shaped[np.ndarray, " test"]],
    scorer: Any,
) -> list[float]:
    """Scores on the test rows of a fold of fits on its training rows, each started from the one before.

    Parameters
    ----------
    estimator : estimator with ``warm_start``
        Cloned, not fitted.
    settings : iterable of dict
        Parameters of each fit, in order.
    X, y : (n, p), (n,)
        Checked data; a data frame keeps its names.
    sample_weight : array (n,), optional
        Row weights of fits and scores.
    fold : (int array, int array)
        Training rows and test rows.
    scorer : callable
        ``scorer(estimator, X, y)``, and ``sample_weight`` if there are weights.
    """
    model = clone(estimator).set_params(warm_start=True)
    train, test = fold
    X_train, X_test = take_rows(X, train), take_rows(X, test)
    weights = {} if sample_weight is None else {"sample_weight": sample_weight[test]}
    scores = []
    for setting in settings:
        model.set_params(**setting)
        model.fit(X_train, y[train], sample_weight=None if sample_weight is None else sample_weight[train])
        scores.append(float(scorer(model, X_test, y[test], **weights)))
    return scores
