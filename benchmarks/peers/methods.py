"""The methods: each as a user would call it, and what it chooses it chooses on the training rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import bayesdrop as bd
from benchmarks.figures import FITS
from benchmarks.peers.sets import FAMILIES, SETS

__all__ = ["METHODS", "REFERENCE", "SHORT", "Method", "applies"]

REFERENCE = "ridge logistic, C by log loss"
"""What the others are measured against, in pairs."""

SHORT = "posterior, few draws"
"""Stands for the posterior in a smoke test."""


@dataclass(frozen=True)
class Method:
    """A method.

    Attributes
    ----------
    make : callable
        A new estimator.
    ours : bool
        True if it is of this package and no baseline.
    words, tables : bool
        Which kinds of data it is for.
    long_on : tuple of str
        Families of sets on which it only runs when asked to, for time.
    classes : bool
        False if it takes two classes only.
    rooms : tuple of str
        Folders of the package, or files, that its results depend on; none if it is of scikit-learn alone.
    """

    make: Callable[[], Any]
    ours: bool = False
    words: bool = True
    tables: bool = True
    long_on: tuple[str, ...] = ()
    classes: bool = True
    rooms: tuple[str, ...] = ()


class _Posterior:
    """Posterior means of the probabilities, as the estimator draws; beyond 100 features by HMC."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def fit(self, X: Any, y: np.ndarray) -> _Posterior:
        method = None if X.shape[1] <= 100 else bd.HMC()
        self.post = bd.DropoutLogisticRegression().sample(X, y, method=method, progress=False, **self.options)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        mean = bd.predict(self.post, X).mean
        return np.column_stack([1 - mean, mean])

    def predict(self, X: Any) -> np.ndarray:
        return self.predict_proba(X).argmax(axis=1)


def _logistic(**options: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000, **options)


def _logistic_cv(**options: Any) -> Any:
    from sklearn.linear_model import LogisticRegressionCV

    # What later releases of scikit-learn do without being told.
    options = {"l1_ratios": (0.0,), "use_legacy_attributes": False, "max_iter": 1000} | options
    return LogisticRegressionCV(**options)


def _elastic_net() -> Any:
    Cs = np.logspace(-2, 1, 4)
    return _logistic_cv(Cs=Cs, l1_ratios=(0.1, 0.5, 0.9), solver="saga", scoring="neg_log_loss", tol=1e-3, max_iter=500)


def _search(estimator: Any, grid: dict[str, Any], scoring: str = "neg_log_loss") -> Any:
    from sklearn.model_selection import GridSearchCV

    return GridSearchCV(estimator, grid, scoring=scoring, cv=5)


def _svc() -> Any:
    from sklearn.svm import LinearSVC

    return _search(LinearSVC(), {"C": np.logspace(-4, 2, 7)}, "accuracy")


def _naive_bayes() -> Any:
    from sklearn.naive_bayes import MultinomialNB

    return MultinomialNB()


def _nbsvm() -> Any:
    model = bd.baselines.NBSVM(loss="log_loss", tol=1e-6)
    return _search(model, {"C": np.logspace(-3, 1, 5), "beta": [0.25, 1.0]})


def _boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0)


def _neighbours() -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return _search(KNeighborsClassifier(), {"n_neighbors": [3, 7, 15, 31]})


_NBSVM = ("baselines", "designs", "fitting/problems", "fitting/solvers", "linalg", "losses")
_WORDS = ("words", "short texts", "many classes")

METHODS = {
    "dropout logistic": Method(bd.DropoutLogisticRegression, ours=True, rooms=FITS),
    "dropout logistic CV": Method(bd.DropoutLogisticRegressionCV, ours=True, rooms=FITS),
    "dropout SVC": Method(bd.DropoutSVC, ours=True, rooms=FITS),
    "dropout SVC CV": Method(bd.DropoutSVCCV, ours=True, rooms=FITS, long_on=_WORDS),
    "posterior": Method(_Posterior, ours=True, rooms=(".",), long_on=FAMILIES, classes=False),
    SHORT: Method(lambda: _Posterior(draws=50, tune=50, chains=2), ours=True, rooms=(".",), classes=False),
    REFERENCE: Method(lambda: _logistic_cv(scoring="neg_log_loss")),
    "ridge logistic, C by accuracy": Method(lambda: _logistic_cv(scoring="accuracy")),
    "ridge logistic, C = 1": Method(_logistic),
    "elastic net, by log loss": Method(_elastic_net, long_on=_WORDS),
    "linear SVC, C by accuracy": Method(_svc),
    "multinomial naive Bayes": Method(_naive_bayes, tables=False),
    "NBSVM": Method(bd.baselines.NBSVM, tables=False, rooms=_NBSVM),
    "NBSVM, logistic, by log loss": Method(_nbsvm, tables=False, rooms=_NBSVM),
    "gradient boosting": Method(_boosting, words=False),
    "nearest neighbours, by log loss": Method(_neighbours, words=False),
}


def applies(name: str, data: str, *, long: bool = True) -> bool:
    """Whether a method runs on a set; ``long`` if those that take long do too."""
    method, chosen = METHODS[name], SETS[data]
    kind = (method.words if chosen.words else method.tables) and (method.classes or chosen.family != "many classes")
    return kind and (long or chosen.family not in method.long_on)
