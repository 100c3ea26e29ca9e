"""Fits along a path of rates on the training rows of a fold, scored on its test rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.metrics import check_scoring, r2_score

from .._typing import Float, Shaped
from .._validation import shown
from ..estimators.base import DropoutEstimator
from ..estimators.validation import check_features
from ..fitting.tuning.folds import Fold

__all__ = ["Scores", "score_along", "scorer_of", "take_rows"]


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


class Scores:
    """Scores of fits of one estimator on the same rows, which are checked at the first alone.

    Parameters
    ----------
    scoring : str, callable or None
        As in scikit-learn; None for the estimator's own ``score``.
    X, y : (n, p), (n,)
        Rows.
    sample_weight : array (n,), optional
        Their weights.

    Examples
    --------
    >>> from bayesdrop import DropoutRidge
    >>> X, y = [[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0]
    >>> model, scores = DropoutRidge(0.0).fit(X, y), Scores(None, X, y, None)
    >>> bool(scores.of(model) == scores.of(model) == model.score(X, y))
    True
    """

    def __init__(self, scoring: Any, X: Any, y: Any, sample_weight: Float[np.ndarray, " n"] | None) -> None:
        self._scoring, self._X, self._y, self._weight = scoring, X, y, sample_weight
        self._design: Any = None

    def of(self, estimator: Any) -> float:
        """Score of a fitted estimator."""
        if self._design is None:
            weights = {} if self._weight is None else {"sample_weight": self._weight}
            found = float(scorer_of(estimator, self._scoring)(estimator, self._X, self._y, **weights))
            plain = type(estimator).score in (ClassifierMixin.score, RegressorMixin.score)
            if self._scoring is None and plain and isinstance(estimator, DropoutEstimator):
                self._design, self._y = check_features(estimator, self._X), np.ravel(np.asarray(self._y))
            return found
        predicted = estimator.predict(self._design)
        if is_classifier(estimator):
            # The accuracy of scikit-learn without its checks, which take as long as the fit of a neighbour.
            return float(np.average(predicted == self._y, weights=self._weight))
        return float(r2_score(self._y, predicted, sample_weight=self._weight))


def fits_along(
    estimator: Any, rates: Float[np.ndarray, " r"], X: Any, y: Any, sample_weight: Float[np.ndarray, " n"] | None
) -> Iterator[tuple[int, Any]]:
    """Place in ``rates`` and the estimator fitted there, each time from the weights of the fit before.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> path = fits_along(bd.DropoutRidge(), np.array([0.1, 0.2]), [[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0], None)
    >>> [(place, round(float(fit.coef_[0]), 2)) for place, fit in path]
    [(0, 0.52), (1, 0.51)]
    """
    estimator.warm_start = True
    for place in range(len(rates)):
        estimator.rates = float(rates[place])
        yield place, estimator.fit(X, y, sample_weight=sample_weight)


def score_along(
    estimator: Any,
    rates: Float[np.ndarray, " r"],
    X: Any,
    y: Shaped[np.ndarray, " n"],
    sample_weight: Float[np.ndarray, " n"] | None,
    fold: Fold,
    scoring: Any,
) -> list[float]:
    """Scores on the test rows of a fold of fits on its training rows, each started from those before.

    Parameters
    ----------
    estimator : estimator with ``rates`` and ``warm_start``
        Cloned, not fitted.
    rates : array (r,)
        Rate of each fit, in order.
    X, y : (n, p), (n,)
        Checked data; a data frame keeps its names.
    sample_weight : array (n,), optional
        Row weights of fits and scores.
    fold : Fold
        Which rows are fitted, and which are scored.
    scoring : str, callable or None
        As in scikit-learn.
    """
    train, given = np.flatnonzero(fold.count), np.ones(len(y)) if sample_weight is None else sample_weight
    own = (given * fold.count)[train]
    # Not every scorer takes weights.
    others = None if sample_weight is None and fold.share is None else fold.held_weight(given)
    scores = Scores(scoring, take_rows(X, fold.test), y[fold.test], others)
    path = fits_along(clone(estimator), rates, take_rows(X, train), y[train], own)
    found = {place: scores.of(fit) for place, fit in path}
    return [found[place] for place in range(len(rates))]
