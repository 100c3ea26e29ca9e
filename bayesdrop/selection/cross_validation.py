"""Classifiers that choose the dropout rate and ``C`` by cross-validation, on one set of folds.

For each structure of rates and each ``C`` the score of a fold is that of ``argmin ½‖w‖² + C Σ φ(y, m, v)`` on the
other folds, and the pair with the best mean score is refitted on all the data. The rate and ``C`` are chosen together
because both shrink: dropout at rate ``η`` adds about ``½C Σ_d w_d² η(1 − η) Σ_i φ''(m_i) x_id²`` to the loss (Wager,
Wang & Liang 2013), beside the ``½‖w‖²``. Along ``C`` each fit starts from the one before.

The threshold of the decision is another choice, and scikit-learn makes it from the probabilities:

>>> from bayesdrop import DropoutLogisticRegression
>>> from sklearn.datasets import make_classification
>>> from sklearn.metrics import balanced_accuracy_score
>>> from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
>>> X, y = make_classification(600, 10, weights=[0.9], class_sep=0.7, random_state=0)
>>> X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
>>> plain = DropoutLogisticRegression(0.3).fit(X, y)
>>> tuned = TunedThresholdClassifierCV(DropoutLogisticRegression(0.3), scoring="balanced_accuracy", cv=5).fit(X, y)
>>> bool(tuned.best_threshold_ < 0.3)
True
>>> scores = [balanced_accuracy_score(y_test, model.predict(X_test)) for model in (plain, tuned)]
>>> bool(scores[1] > scores[0] + 0.1)
True
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from .._typing import AnyArray, Float, Shaped
from .._validation import check_count, check_numbers, shown
from ..designs.rows import check_sample_weight
from ..estimators.classifier import DropoutLogisticRegression, DropoutSVC
from ..estimators.intact import intact
from ..estimators.parameters import set_parameters, with_parameters
from ..estimators.validation import check_here
from ..rates import PerFeature, Rates
from .folds import score_along, scorer_of, split, standard_error

__all__ = ["DropoutLogisticRegressionCV", "DropoutSVCCV"]

_FIXED = tuple(round(0.1 * step, 1) for step in range(10))
_FITTED = (
    "coef_",
    "intercept_",
    "classes_",
    "rates_",
    "centre_",
    "rate_posterior_",
    "objective_trace_",
    *("n_iter_", "status_"),
)
# Decimals of a mean score that count: sums of the same numbers in another order are a tie.
_DECIMALS = 10


class _DropoutClassifierCV(ClassifierMixin, BaseEstimator):
    """Shared by the classifiers; a subclass names the plain one."""

    rates: Any
    Cs: Any
    cv: Any
    scoring: Any
    n_jobs: Any
    noise: Any
    corrupted_inputs: bool
    best_estimator_: Any
    classes_: Shaped[np.ndarray, " K"]
    n_features_in_: int

    def _plain(self) -> type:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _estimator(self) -> Any:
        """The plain estimator with this one's parameters, and its defaults for those that are searched."""
        names = set(inspect.signature(self._plain()).parameters) - {"rates", "C", "warm_start"}
        mine = self.get_params(deep=False)
        return self._plain()(**{name: mine[name] for name in names & set(mine)})

    def _learns(self, n_classes: int) -> bool:
        """True if the model may learn its rates."""
        return True

    def _candidates(self, n_classes: int) -> list[Any]:
        if self.rates is None:
            if self.noise is not None and not getattr(self.noise, "has_rate", True):
                return [None]
            return [*_FIXED, *([PerFeature()] if self._learns(n_classes) else [])]
        if isinstance(self.rates, str | Rates) or not isinstance(self.rates, Sequence | np.ndarray):
            raise ValueError(
                f"rates: expected a sequence of candidates, got {shown(self.rates)}; give rates in [0, 1) and objects "
                "such as bd.PerFeature() in a list, as in [0.0, 0.5, bd.PerFeature()], also for a single one."
            )
        if len(self.rates) == 0:
            raise ValueError("rates: expected at least one candidate, got none; give a list such as [0.0, 0.3, 0.6].")
        return list(self.rates)

    def _strengths(self) -> Float[np.ndarray, " c"]:
        expected = "a sequence of finite numbers above 0"
        given = check_numbers(self.Cs, "Cs", expected, above=0, advice="for a single one give (1.0,)")
        Cs = np.unique(given)
        if given.ndim != 1 or len(Cs) == 0:
            raise ValueError(f"Cs: expected {expected}, got {shown(self.Cs)}; for a single one give (1.0,).")
        return Cs

    @intact
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Choose the rate and ``C`` on the folds, and fit with them to all rows.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Features, finite; sparse input is never made dense.
        y : array (n,)
            Two or more classes, any labels.
        sample_weight : array (n,), optional
            Row weights, >= 0, of fits and of scores alike.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a candidate, the folds or the data do not fit; the message names the argument and what to do.
        """
        checked, y = check_here(self, X, y)
        check_classification_targets(y)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"y: expected at least two classes, got one class ({classes[0]}); a classifier needs two.")
        X = X if hasattr(X, "columns") else checked
        weight = None if sample_weight is None else check_sample_weight(sample_weight, checked.shape[0])
        candidates, Cs = self._candidates(len(classes)), self._strengths()
        if self.n_jobs is not None and (check_count(self.n_jobs, "n_jobs", -1024, 1024) == 0):
            raise ValueError("n_jobs: expected a number of processes, -1 for all processors or None, got 0.")
        plain = self._estimator()
        scorer = scorer_of(plain, self.scoring)
        folds = split(self.cv, checked, y, classifier=True)
        paths = [[{"rates": rates, "C": float(C)} for C in Cs] for rates in candidates]
        scores = Parallel(n_jobs=self.n_jobs)(
            delayed(score_along)(plain, path, X, y, weight, fold, scorer) for fold in folds for path in paths
        )
        self._tabulate(candidates, Cs, np.reshape(scores, (len(folds), len(candidates), len(Cs))))
        self.scorer_ = scorer
        self.n_splits_ = len(folds)
        best = plain.set_params(rates=self.best_rates_, C=self.C_).fit(X, y, sample_weight=weight)
        self.best_estimator_ = best
        for name in _FITTED:
            setattr(self, name, getattr(best, name))
        return self

    def _tabulate(
        self, candidates: list[Any], Cs: Float[np.ndarray, " c"], scores: Float[np.ndarray, "folds r c"]
    ) -> None:
        """Set the table and the choice from scores (folds, rates, C); rows run along the rates, then along C."""
        table = np.transpose(scores, (2, 1, 0)).reshape(-1, len(scores))
        if np.all(np.isnan(table)):
            raise ValueError("scoring: every score is NaN; expected numbers, so give another scoring or other folds.")
        rates = np.empty(len(table), dtype=object)
        rates[:] = candidates * len(Cs)
        strengths = np.repeat(Cs, len(candidates))
        mean = table.mean(axis=1)
        rounded = np.where(np.isnan(mean), -np.inf, np.round(mean, _DECIMALS))
        rank = rankdata(-rounded, method="min").astype(np.int32)
        self.cv_results_: dict[str, Any] = {
            "param_rates": rates,
            "param_C": strengths,
            "params": [{"rates": r, "C": float(C)} for r, C in zip(rates, strengths, strict=True)],
            **{f"split{k}_test_score": table[:, k] for k in range(table.shape[1])},
            "mean_test_score": mean,
            "std_test_score": table.std(axis=1),
            "standard_error_test_score": standard_error(table),
            "rank_test_score": rank,
        }
        self.best_index_ = int(rank.argmin())
        self.best_score_ = float(mean[self.best_index_])
        self.best_rates_ = rates[self.best_index_]
        self.C_ = float(strengths[self.best_index_])

    def _chosen(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.set_params(corrupted_inputs=self.corrupted_inputs)

    def decision_function(self, X: Any) -> Float[AnyArray, "m ..."]:
        """Score of each row, (n,) for two classes and (n, K) for more: its mean under the noise."""
        return self._chosen().decision_function(X)

    def predict(self, X: Any) -> Shaped[AnyArray, " m"]:
        """Class with the largest score, (n,)."""
        return self._chosen().predict(X)

    def predict_proba(self, X: Any) -> Float[AnyArray, "m K"]:
        """Class probabilities, (n, K); rows sum to 1."""
        return self._chosen().predict_proba(X)

    def predict_log_proba(self, X: Any) -> Float[AnyArray, "m K"]:
        """Logarithm of :meth:`predict_proba`."""
        return self._chosen().predict_log_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score by ``scoring``, the accuracy by default."""
        model = self._chosen()
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.scorer_(model, X, y, **weights))

    def sample(self, X: Any, y: Any, *, sample_weight: Any = None, **options: Any) -> Any:
        """Draw from the posterior of the feature-noising model with the chosen rates and ``C``.

        Takes the options of :func:`bayesdrop.sample` and returns its ArviZ object.
        """
        return self._chosen().sample(X, y, sample_weight=sample_weight, **options)


@with_parameters
class DropoutLogisticRegressionCV(_DropoutClassifierCV):
    """:class:`DropoutLogisticRegression` with the dropout rates and ``C`` chosen by cross-validation.

    Parameters
    ----------
    {search}
    {noise}
    expectation, multiclass, weight_prior, method, fit_intercept, class_weight, corrupted_inputs, tol, max_iter
        As in :class:`DropoutLogisticRegression`.

    Attributes
    ----------
    {chosen}
    {classifier}
    {fitted}

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> rates = [0.0, 0.3, bd.PerFeature()]
    >>> model = DropoutLogisticRegressionCV(rates, Cs=(0.1, 1.0), cv=3, scoring="neg_log_loss").fit(X, y)
    >>> model.best_rates_ in rates and model.C_ in (0.1, 1.0)
    True
    >>> model.cv_results_["mean_test_score"].shape
    (6,)
    """

    def __init__(
        self,
        rates: Any = None,
        *,
        Cs: Any = (0.01, 0.1, 1.0, 10.0),
        cv: Any = 5,
        scoring: Any = None,
        n_jobs: int | None = None,
        noise: Any = None,
        expectation: str | None = None,
        multiclass: str = "one_vs_rest",
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        corrupted_inputs: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        set_parameters(self, locals())

    def _plain(self) -> type:
        return DropoutLogisticRegression

    def _learns(self, n_classes: int) -> bool:
        return self.multiclass != "softmax" or n_classes == 2


@with_parameters
class DropoutSVCCV(_DropoutClassifierCV):
    """:class:`DropoutSVC` with the dropout rates and ``C`` chosen by cross-validation.

    Parameters
    ----------
    {search}
    {noise}
    expectation, weight_prior, method, fit_intercept, class_weight, corrupted_inputs, tol, max_iter
        As in :class:`DropoutSVC`.

    Attributes
    ----------
    {chosen}
    {classifier}
    {fitted}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DropoutSVCCV([0.0, 0.2], Cs=(1.0, 10.0), cv=3).fit(X, y)
    >>> bool(model.best_score_ > 0.9)
    True
    """

    def __init__(
        self,
        rates: Any = None,
        *,
        Cs: Any = (0.01, 0.1, 1.0, 10.0),
        cv: Any = 5,
        scoring: Any = None,
        n_jobs: int | None = None,
        noise: Any = None,
        expectation: str = "augmentation",
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        corrupted_inputs: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        set_parameters(self, locals())

    def _plain(self) -> type:
        return DropoutSVC
