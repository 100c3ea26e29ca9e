"""Fit the path of a linear model along the dropout rate: ``bd.RatePath``.

At each fixed rate ``η`` of a grid, ``w(η) = argmin ½‖w‖² + C Σ_i φ(y_i, m_i, v_i)`` with ``v_i`` the variance of the
score under dropout at ``η`` (Wager, Wang & Liang 2013; Chen, Zhu, Chen & Chen 2015). Neighbouring rates have
neighbouring optima: each fit starts at the weights of the one before, in the order given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from .._typing import Float, Shaped
from .._validation import check_folds, shown
from ..designs import column_names, in_memory
from ..designs.rows import check_sample_weight
from ..estimators.validation import check_here, default_names, intact, missing_of
from ..fitting.tuning.folds import Rows, make_folds, standard_error
from ..fitting.tuning.scores import SAME
from ..rates.base import check_rate

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["RatePath", "scorer_of", "take_rows"]


class RatePath(BaseEstimator):
    """Fits of one linear estimator on a grid of fixed dropout rates, with a score for each.

    Parameters
    ----------
    estimator : DropoutSVC, DropoutLogisticRegression, DropoutSVR or DropoutRidge
        Estimator with all settings except ``rates`` and ``warm_start``; it is cloned, not changed.
    rates : array (R,), optional
        Rates in [0, 1); ``np.linspace(0, 0.9, 10)`` by default.
    cv : int, splitter or iterable of (train, test), optional
        Folds for a score by cross-validation, the same for each rate; an int is a number of folds of shuffled rows, the
        same at every call and stratified by class.
    scoring : str or callable, optional
        As in scikit-learn, greater is better; the estimator's own ``score`` by default.

    Attributes
    ----------
    rates_ : array (R,)
        The grid.
    coefs_ : array (R, p) for a regression, (R, 1, p) or (R, K, p) for a classifier
        Weights, without noise, of the fits to all rows.
    intercepts_ : array (R,), (R, 1) or (R, K)
        Intercepts.
    objectives_ : array (R,) or (R, K)
        Energy at the optimum.
    scores_ : array (R,)
        Mean score over the folds if ``cv`` is given, else on the test rows passed to ``fit``, else on the training
        rows, which favours small rates.
    score_errors_ : array (R,) or None
        Standard errors of the means over the folds; None without ``cv``.
    scored_on_ : str
        ``"folds"``, ``"test"`` or ``"training"``.
    best_rate_ : float
        Rate with the best score, the first of equals.
    classes_ : array (K,)
        Class labels, of a classifier only.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    DropoutSVCCV, bayesdrop.plots.rate_path

    Examples
    --------
    >>> from bayesdrop import DropoutLogisticRegression
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> path = RatePath(DropoutLogisticRegression(), [0.0, 0.3, 0.6], cv=3).fit(X, y)
    >>> path.coefs_.shape, path.scores_.shape, path.best_rate_ in (0.0, 0.3, 0.6)
    ((3, 1, 30), (3,), True)
    >>> dict(path.to_dataset().sizes)
    {'rate': 3, 'class': 1, 'feature': 30}
    """

    rates_: Float[np.ndarray, " r"]
    coefs_: Float[np.ndarray, ...]
    intercepts_: Float[np.ndarray, ...]
    objectives_: Float[np.ndarray, ...]
    scores_: Float[np.ndarray, ...]
    n_features_in_: int

    def __init__(self, estimator: Any, rates: Any = None, *, cv: Any = None, scoring: Any = None) -> None:
        self.estimator = estimator
        self.rates = rates
        self.cv = cv
        self.scoring = scoring

    def _grid(self) -> Float[np.ndarray, " r"]:
        if self.rates is None:
            return np.linspace(0, 0.9, 10)
        grid = check_rate(self.rates, "rates")
        if grid.ndim != 1 or len(grid) == 0:
            raise ValueError(
                f"rates: expected a sequence of dropout rates, got {shown(self.rates)}; give a grid as [0.0, 0.3]."
            )
        return grid.copy()

    def _checked_estimator(self) -> Any:
        is_estimator = isinstance(self.estimator, BaseEstimator)
        parameters = self.estimator.get_params(deep=False) if is_estimator else {}
        if not {"rates", "warm_start"} <= set(parameters):
            raise TypeError(
                "estimator: expected a linear estimator with rates and warm_start, such as "
                f"bd.DropoutLogisticRegression(), got {shown(self.estimator)}; transform X before, not in a pipeline."
            )
        return clone(self.estimator)

    @intact
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, X_test: Any = None, y_test: Any = None, groups: Any = None
    ) -> RatePath:
        """Fit along the grid.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Features, finite but for missing ones; sparse input is never made dense.
        y : array (n,)
            Labels or numbers, as for the estimator.
        sample_weight : array (n,), optional
            Row weights, >= 0, of the fits and of the scores on folds or training rows.
        X_test, y_test : (n_test, p), (n_test,), optional
            Rows to score on, without ``cv``.
        groups : array (n,), optional
            Group of each row: folds then hold out whole groups, and splitters of groups receive them.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If the estimator has no rates to set.
        ValueError
            If the rates, the test rows or the data are invalid; the message names the argument and what to do.
        """
        grid, model = self._grid(), self._checked_estimator()
        if (X_test is None) != (y_test is None):
            missing = "X_test" if X_test is None else "y_test"
            raise ValueError(f"{missing}: expected both X_test and y_test or neither, got None; give the other one.")
        if self.cv is not None:
            check_folds(self.cv)
        if X_test is not None and self.cv is not None:
            raise ValueError("X_test: cv is given as well; score on test rows or on folds, not on both.")
        classifier = is_classifier(model)
        checked, y = check_here(self, X, y, missing=missing_of(model), y_numeric=not classifier)
        X = checked if column_names(X) is None else in_memory(X)
        weight = None if sample_weight is None else check_sample_weight(sample_weight, checked.shape[0])
        scorer_of(model, self.scoring)
        rows = (X, y, weight) if X_test is None else (X_test, y_test, None)
        fits = []
        for one in fits_along(model, grid, X, y, weight):
            score = score_of(one, self.scoring, *rows) if self.cv is None else None
            fits.append((one.coef_, one.intercept_, one.objective_trace_[-1], score))
        coefs, intercepts, objectives, scores = zip(*fits, strict=True)
        self.rates_ = grid
        self.coefs_ = np.stack(coefs)
        self.intercepts_ = np.array(intercepts)
        self.objectives_ = np.array(objectives)
        self.scores_ = np.array(scores)
        self.score_errors_ = None
        self.scored_on_ = "training" if X_test is None else "test"
        if classifier:
            self.classes_ = model.classes_
        if self.cv is not None:
            split = Rows.of(np.ones(len(y)) if weight is None else weight, groups)
            numbers = np.arange(len(y)) if split.number is None else split.number
            code = np.unique(y[numbers], return_inverse=True)[1] if classifier else None
            folds = make_folds(self.cv, replace(split, code=code))
            table = []
            for fold in folds:
                train, test = (numbers[rows] for rows in (np.flatnonzero(fold.count), fold.test))
                count = fold.count[fold.count > 0]  # 2 for a row that a fold has twice
                trained = count if weight is None else weight[train] * count
                rows = take_rows(X, test), y[test], None if weight is None else weight[test]
                path = fits_along(clone(model), grid, take_rows(X, train), y[train], trained)
                table.append([score_of(fit, self.scoring, *rows) for fit in path])
            self.scores_, self.score_errors_ = np.mean(table, axis=0), standard_error(np.transpose(table))
            self.scored_on_ = "folds"
        return self

    @property
    def best_rate_(self) -> float:
        """Rate with the best score, the first of equals."""
        check_is_fitted(self, "scores_")
        best = self.scores_[np.nanargmax(self.scores_)]
        return float(self.rates_[np.argmax(self.scores_ >= best - SAME * abs(best))])

    def to_dataset(self) -> xr.Dataset:
        """Return the path as an :class:`xarray.Dataset` on dims ``rate``, ``class``, ``feature``, with names.

        ``weight``, ``intercept``, ``objective``, ``score`` and, with folds, ``score_error``. Two classes are one
        problem, and their ``class`` is the positive one; a regression has no ``class``.
        """
        import xarray as xr

        check_is_fitted(self, "scores_")
        problem: tuple[str, ...] = ("class",) if self.coefs_.ndim == 3 else ()
        coords: dict[str, Any] = {"rate": self.rates_, "feature": default_names(self)}
        if problem:
            coords["class"] = self.classes_[-self.coefs_.shape[1] :]
        # A single energy, for joint classes or for two classes, has no class axis.
        objectives = self.objectives_
        if problem and self.coefs_.shape[1] == 1:
            objectives = objectives[:, None]
        data: dict[str, Any] = {
            "weight": (("rate", *problem, "feature"), self.coefs_),
            "intercept": (("rate", *problem), self.intercepts_),
            "objective": (("rate", *problem)[: objectives.ndim], objectives),
            "score": ("rate", self.scores_),
        }
        if self.score_errors_ is not None:
            data["score_error"] = ("rate", self.score_errors_)
        attrs = {"estimator": repr(self.estimator), "scored_on": self.scored_on_, "best_rate": self.best_rate_}
        return xr.Dataset(data, coords=coords, attrs=attrs)


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


def score_of(estimator: Any, scoring: Any, X: Any, y: Any, sample_weight: Float[np.ndarray, " n"] | None) -> float:
    """Score of a fitted estimator; not every scorer takes weights."""
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    return float(scorer_of(estimator, scoring)(estimator, X, y, **weights))


def fits_along(
    estimator: Any, rates: Float[np.ndarray, " r"], X: Any, y: Any, sample_weight: Float[np.ndarray, " n"] | None
) -> Iterator[Any]:
    """The estimator fitted at each of the ``rates``, each time from the weights of the fit before.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> path = fits_along(bd.DropoutRidge(), np.array([0.1, 0.2]), [[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0], None)
    >>> [round(float(fit.coef_[0]), 2) for fit in path]
    [0.52, 0.51]
    """
    estimator.warm_start = True
    for rate in rates.tolist():
        estimator.rates = rate
        yield estimator.fit(X, y, sample_weight=sample_weight)
