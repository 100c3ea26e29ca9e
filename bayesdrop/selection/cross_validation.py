"""Classifiers that choose the dropout rates and ``C`` by cross-validation; see :mod:`.base`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin

from .._typing import AnyArray, Float, Shaped
from ..estimators.linear_classifiers import DropoutLogisticRegression, DropoutSVC
from ..rates import Tuned
from .base import FITTED, DropoutCV

__all__ = ["DropoutLogisticRegressionCV", "DropoutSVCCV"]


class _DropoutClassifierCV(ClassifierMixin, DropoutCV):
    """Base of the classifiers; a subclass names the estimator without search in ``_plain``."""

    classes_: Shaped[np.ndarray, " K"]
    _copied: tuple[str, ...] = (*FITTED, "classes_")
    score = DropoutCV.score

    def _default_candidates(self) -> list[Any]:
        return Tuned().candidates

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


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutLogisticRegressionCV(_DropoutClassifierCV):
    """:class:`DropoutLogisticRegression` with the dropout rates and ``C`` chosen by cross-validation.

    Parameters
    ----------
    rates : sequence or Tuned, optional
        Candidates: dropout rates in [0, 1), and objects such as ``bd.PerFeature()`` that learn rates. By default those
        of ``bd.Tuned()``: learnt rates per feature, scaled by strengths from 1 (the published rule) to 0 (no noise).
    Cs : sequence of float, optional
        Candidates for ``C``, the weight of the loss with scikit-learn's meaning; by default 14 values from 1e-4 to 1e4
        times the ``C`` at which the plain class starts. Of equal scores the smallest ``C`` is chosen, and at this ``C``
        the first of the ``rates``.
    cv : int, splitter, iterable of (train, test) or "loo", optional
        Folds, as in scikit-learn, except that an int is a number of folds of shuffled rows, the same at every call
        (seed 0) and stratified by class, as tables are often sorted. ``groups`` of ``fit`` keeps rows together;
        splitters and pairs are used unchanged. ``"loo"`` leaves out one row at a
        time, approximately, from one fit to all rows (:mod:`bayesdrop.fitting.objective.leave_one_out`); the rows with
        most influence are left out by a fit without them. A whole ``sample_weight`` counts copies, of which one is left
        out. By default ``"loo"`` for losses with second derivatives and tables that are not large and have at least
        four rows per column, unless ``scoring`` is given; else 5.
    scoring : str or callable, optional
        Greater is better. By default for a logistic regression minus the log loss of the classes under a normal score;
        for a support vector machine minus the error (the share of wrong classes) and minus the log loss of the scores
        after the best rescaling, which decides between candidates with similar errors. It receives the
        ``sample_weight`` of the test rows. With default ``rates``, or only ``bd.Tuned`` objects as in
        ``[bd.Tuned(), bd.Tuned(bd.PerGroup(groups))]``, and default ``scoring`` the search climbs from the default
        ``C`` of the plain class and drops candidates that are clearly worse (:mod:`bayesdrop.fitting.tuning.search`);
        otherwise all candidates are tried on all folds.
    one_standard_error : bool, default=False
        Choose the smallest ``C``, and at this ``C`` the strongest noise, with a score within one standard error (of the
        paired difference) of the best. By default within a quarter of a standard error; with ``scoring`` the best.
    n_jobs : int, optional
        Number of processes for the folds, as in scikit-learn; worthwhile for large data only.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged, and a dropped one becomes 0, or its mean where 0 is
        not a typical value (``centre="auto"``). Other noises have no ``rates``.
    expectation : str, optional
        As in :class:`DropoutLogisticRegression`.
    multiclass : str, default="auto"
        As in :class:`DropoutLogisticRegression`.
    weight_prior : Normal, optional
        As in :class:`DropoutLogisticRegression`.
    method : Newton or EM, optional
        As in :class:`DropoutLogisticRegression`.
    fit_intercept : bool, default=True
        As in :class:`DropoutLogisticRegression`.
    class_weight : dict or "balanced", optional
        As in :class:`DropoutLogisticRegression`.
    corrupted_inputs : bool, default=False
        As in :class:`DropoutLogisticRegression`.
    expected_deletion : float, array (p,) or mapping of column names, optional
        As in :class:`DropoutLogisticRegression`; ``C`` is chosen; leave out ``rates`` and ``scoring``.
    missing : None or "nan", optional
        As in :class:`DropoutLogisticRegression`.
    tol : float, default=1e-08
        As in :class:`DropoutLogisticRegression`.
    max_iter : int, default=200
        As in :class:`DropoutLogisticRegression`.

    Attributes
    ----------
    C_ : float
        Chosen ``C``.
    best_rates_ : float or Rates
        Chosen candidate; ``rates_`` has the resulting rates.
    best_score_ : float
        Mean score of the chosen candidate, over the held-out rows by their weights; with ``scoring`` over the folds.
    best_index_ : int
        Index of the chosen candidate in ``cv_results_``.
    best_estimator_ : estimator
        The plain estimator with the chosen settings, fitted to all rows.
    selection_ : Selection
        The choice and its score; ``print(model.selection_)`` explains it, ``bd.plots.selection`` plots it.
    cv_results_ : dict of arrays
        Results of all candidates, NaN on folds for which a candidate was not fitted: ``param_rates``, ``param_C``,
        ``params``, ``mean_test_score``, ``std_test_score``, ``standard_error_test_score`` (of the mean),
        ``rank_test_score`` and ``split0_test_score``, …
    scorer_, n_splits_
        As in ``GridSearchCV``.
    coef_ : array (1, p) or (K, p)
        Weights, without noise.
    intercept_ : array (1,) or (K,)
        Intercepts.
    classes_ : array (K,)
        Class labels.
    rates_ : array (p,) or (K, p)
        Dropout rates of the features.
    rate_posterior_ : RatePosterior or None
        Plug-in posterior of the free rates, (k,) or (k, K); None if they are fixed.
    objective_trace_ : array ``(n_iter_,)`` or ``(n_iter_, K)``
        Energy after each iteration.
    n_iter_ : int
        Iterations.
    status_ : Status
        How the fit ended; ``status_.value`` says what to do.
    centre_ : array (p,) or None
        Value that a dropped entry takes, the ``centre`` of the noise; None if it is 0 for all columns.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    DropoutLogisticRegression, DropoutSVCCV

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

    expectation: str | None = None
    multiclass: str = "auto"
    class_weight: Any = None

    _plain: ClassVar[type] = DropoutLogisticRegression


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutSVCCV(_DropoutClassifierCV):
    """:class:`DropoutSVC` with the dropout rates and ``C`` chosen by cross-validation.

    Probabilities are calibrated on the held-out scores of the chosen settings; see ``calibration_`` of
    :class:`DropoutSVC`.

    Parameters
    ----------
    rates : sequence or Tuned, optional
        Candidates: dropout rates in [0, 1), and objects such as ``bd.PerFeature()`` that learn rates. By default those
        of ``bd.Tuned()``: learnt rates per feature, scaled by strengths from 1 (the published rule) to 0 (no noise).
    Cs : sequence of float, optional
        Candidates for ``C``, the weight of the loss with scikit-learn's meaning; by default 14 values from 1e-4 to 1e4
        times the ``C`` at which the plain class starts. Of equal scores the smallest ``C`` is chosen, and at this ``C``
        the first of the ``rates``.
    cv : int, splitter, iterable of (train, test) or "loo", optional
        Folds, as in scikit-learn, except that an int is a number of folds of shuffled rows, the same at every call
        (seed 0) and stratified by class, as tables are often sorted. ``groups`` of ``fit`` keeps rows together;
        splitters and pairs are used unchanged. ``"loo"`` leaves out one row at a
        time, approximately, from one fit to all rows (:mod:`bayesdrop.fitting.objective.leave_one_out`); the rows with
        most influence are left out by a fit without them. A whole ``sample_weight`` counts copies, of which one is left
        out. By default ``"loo"`` for losses with second derivatives and tables that are not large and have at least
        four rows per column, unless ``scoring`` is given; else 5.
    scoring : str or callable, optional
        Greater is better. By default for a logistic regression minus the log loss of the classes under a normal score;
        for a support vector machine minus the error (the share of wrong classes) and minus the log loss of the scores
        after the best rescaling, which decides between candidates with similar errors. It receives the
        ``sample_weight`` of the test rows. With default ``rates``, or only ``bd.Tuned`` objects as in
        ``[bd.Tuned(), bd.Tuned(bd.PerGroup(groups))]``, and default ``scoring`` the search climbs from the default
        ``C`` of the plain class and drops candidates that are clearly worse (:mod:`bayesdrop.fitting.tuning.search`);
        otherwise all candidates are tried on all folds.
    one_standard_error : bool, default=False
        Choose the smallest ``C``, and at this ``C`` the strongest noise, with a score within one standard error (of the
        paired difference) of the best. By default within a quarter of a standard error; with ``scoring`` the best.
    n_jobs : int, optional
        Number of processes for the folds, as in scikit-learn; worthwhile for large data only.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged, and a dropped one becomes 0, or its mean where 0 is
        not a typical value (``centre="auto"``). Other noises have no ``rates``.
    margin : float, default=1.0
        As in :class:`DropoutSVC`.
    expectation : str, default="augmentation"
        As in :class:`DropoutSVC`.
    weight_prior : Normal, optional
        As in :class:`DropoutSVC`.
    method : Newton or EM, optional
        As in :class:`DropoutSVC`.
    fit_intercept : bool, default=True
        As in :class:`DropoutSVC`.
    class_weight : dict or "balanced", optional
        As in :class:`DropoutSVC`.
    corrupted_inputs : bool, default=False
        As in :class:`DropoutSVC`.
    expected_deletion : float, array (p,) or mapping of column names, optional
        As in :class:`DropoutSVC`; ``C`` is chosen; leave out ``rates`` and ``scoring``.
    missing : None or "nan", optional
        As in :class:`DropoutSVC`.
    tol : float, default=1e-08
        As in :class:`DropoutSVC`.
    max_iter : int, default=200
        As in :class:`DropoutSVC`.

    Attributes
    ----------
    C_ : float
        Chosen ``C``.
    best_rates_ : float or Rates
        Chosen candidate; ``rates_`` has the resulting rates.
    best_score_ : float
        Mean score of the chosen candidate, over the held-out rows by their weights; with ``scoring`` over the folds.
    best_index_ : int
        Index of the chosen candidate in ``cv_results_``.
    best_estimator_ : estimator
        The plain estimator with the chosen settings, fitted to all rows.
    selection_ : Selection
        The choice and its score; ``print(model.selection_)`` explains it, ``bd.plots.selection`` plots it.
    cv_results_ : dict of arrays
        Results of all candidates, NaN on folds for which a candidate was not fitted: ``param_rates``, ``param_C``,
        ``params``, ``mean_test_score``, ``std_test_score``, ``standard_error_test_score`` (of the mean),
        ``rank_test_score`` and ``split0_test_score``, …
    scorer_, n_splits_
        As in ``GridSearchCV``.
    coef_ : array (1, p) or (K, p)
        Weights, without noise.
    intercept_ : array (1,) or (K,)
        Intercepts.
    classes_ : array (K,)
        Class labels.
    rates_ : array (p,) or (K, p)
        Dropout rates of the features.
    rate_posterior_ : RatePosterior or None
        Plug-in posterior of the free rates, (k,) or (k, K); None if they are fixed.
    objective_trace_ : array ``(n_iter_,)`` or ``(n_iter_, K)``
        Energy after each iteration.
    calibration_ : Calibration or None
        ``slope`` and ``intercept`` of the probability as a function of the score; None if no rows were held out.
    n_iter_ : int
        Iterations.
    status_ : Status
        How the fit ended; ``status_.value`` says what to do.
    centre_ : array (p,) or None
        Value that a dropped entry takes, the ``centre`` of the noise; None if it is 0 for all columns.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    DropoutSVC, DropoutLogisticRegressionCV

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DropoutSVCCV([0.0, 0.2], Cs=(1.0, 10.0), cv=3).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _copied = (*_DropoutClassifierCV._copied, "calibration_")

    margin: float = 1.0
    expectation: str = "augmentation"
    class_weight: Any = None

    _plain: ClassVar[type] = DropoutSVC

    def _keep(self, best: Any) -> None:
        best.calibration_ = self.selection_.calibration
        super()._keep(best)
