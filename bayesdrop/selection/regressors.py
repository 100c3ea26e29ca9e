"""Regressions that choose the dropout rate and ``C`` by cross-validation; see :mod:`.base`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from .._typing import AnyArray, Float
from ..data.responses import response_sd
from ..estimators.linear_regressors import DropoutRidge, DropoutSVR
from ..fitting.objective.centring import CentredProblem
from ..fitting.problems.block import Task
from .base import DropoutCV

__all__ = ["DropoutRidgeCV", "DropoutSVRCV"]


class _DropoutRegressorCV(RegressorMixin, DropoutCV):
    """Shared by the regressions; a subclass names the plain one."""

    score = DropoutCV.score
    # Power of the unit of the response in the loss.
    _degree: ClassVar[int]

    def _default_candidates(self) -> list[Any]:
        return [0.0, 0.1, 0.3, 0.5, 0.7]

    def _start(self, centring: CentredProblem, task: Task) -> float:
        # Weights are in units of the response by those of the columns: at a fixed C other units are another penalty.
        if self.weight_prior is not None:
            return task.model.C
        square = task.design.column_summary(task.weight).usual_square
        unit = float(10.0 ** np.round(np.log10(response_sd(task.target[:, 0], task.weight, None) or 1.0)))
        return replace(centring, usual_square=square).usual_C * unit ** (2 - self._degree)

    def predict(self, X: Any) -> Float[AnyArray, " m"]:
        """Mean of the score under the noise, (n,)."""
        return self._chosen().predict(X)


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutRidgeCV(_DropoutRegressorCV):
    """:class:`DropoutRidge` with the dropout rate and ``C`` chosen by cross-validation.

    Parameters
    ----------
    rates : sequence or Tuned, optional
        Candidates: dropout rates in [0, 1), and objects such as ``bd.PerFeature()`` that learn rates. By default 0,
        0.1, 0.3, 0.5 and 0.7.
    Cs : sequence of float, optional
        Candidates for ``C``, the weight of the loss with scikit-learn's meaning; by default 14 values from 1e-4 to 1e4
        times a power of ten that suits the units of columns and response, or with ``weight_prior`` times 1. Of equal
        scores the smallest ``C`` is chosen, and at this ``C`` the first of the ``rates``.
    cv : int, splitter, iterable of (train, test) or "loo", optional
        Folds, as in scikit-learn, except that an int is a number of folds of shuffled rows, the same at every call
        (seed 0), as tables are often sorted. ``groups`` of ``fit`` keeps rows together; splitters and pairs are used
        unchanged. ``"loo"`` leaves out one row at a time, approximately, from one fit to all rows
        (:mod:`bayesdrop.fitting.objective.leave_one_out`); the rows with most influence are left out by a fit without
        them. A whole ``sample_weight`` counts copies, of which one is left out. By default ``"loo"`` for losses with
        second derivatives and tables that are not large and have at least four rows per column, unless ``scoring`` is
        given; else 5.
    scoring : str or callable, optional
        Greater is better. By default minus the plain loss. It receives the ``sample_weight`` of the test rows. With
        default ``rates``, or only ``bd.Tuned`` objects as in
        ``[bd.Tuned(), bd.Tuned(bd.PerGroup(groups))]``, and default ``scoring`` the search climbs from this power
        of ten and drops candidates that are clearly worse (:mod:`bayesdrop.fitting.tuning.search`); otherwise all
        candidates are tried on all folds.
    one_standard_error : bool, default=False
        Choose the smallest ``C``, and at this ``C`` the strongest noise, with a score within one standard error (of the
        paired difference) of the best. By default within a quarter of a standard error; with ``scoring`` the best.
    n_jobs : int, optional
        Number of processes for the folds, as in scikit-learn; worthwhile for large data only.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged, and a dropped one becomes 0, or its mean where 0 is
        not a typical value (``centre="auto"``). Other noises have no ``rates``.
    weight_prior : Normal, optional
        As in :class:`DropoutRidge`.
    method : Newton or EM, optional
        As in :class:`DropoutRidge`.
    fit_intercept : bool, default=True
        As in :class:`DropoutRidge`.
    corrupted_inputs : bool, default=False
        As in :class:`DropoutRidge`.
    expected_deletion : float, array (p,) or mapping of column names, optional
        As in :class:`DropoutRidge`; ``C`` is chosen by the mean loss of rows that lose entries, and ``rates`` and
        ``scoring`` are left out.
    missing : None or "nan", optional
        As in :class:`DropoutRidge`.
    tol : float, default=1e-08
        As in :class:`DropoutRidge`.
    max_iter : int, default=200
        As in :class:`DropoutRidge`.

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
    coef_ : array (p,)
        Weights, without noise.
    intercept_ : float
        Intercept.
    rates_ : array (p,)
        Dropout rates of the features.
    objective_trace_ : array ``(n_iter_,)``
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
    DropoutRidge, DropoutSVRCV

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DropoutRidgeCV().fit(X / X.std(axis=0), y)
    >>> bool(model.score(X / X.std(axis=0), y) > 0.5)
    True
    """

    _plain: ClassVar[type] = DropoutRidge
    _degree: ClassVar[int] = 2


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutSVRCV(_DropoutRegressorCV):
    """:class:`DropoutSVR` with the dropout rate and ``C`` chosen by cross-validation.

    Parameters
    ----------
    rates : sequence or Tuned, optional
        Candidates: dropout rates in [0, 1), and objects such as ``bd.PerFeature()`` that learn rates. By default 0,
        0.1, 0.3, 0.5 and 0.7.
    Cs : sequence of float, optional
        Candidates for ``C``, the weight of the loss with scikit-learn's meaning; by default 14 values from 1e-4 to 1e4
        times a power of ten that suits the units of columns and response, or with ``weight_prior`` times 1. Of equal
        scores the smallest ``C`` is chosen, and at this ``C`` the first of the ``rates``.
    cv : int, splitter, iterable of (train, test) or "loo", optional
        Folds, as in scikit-learn, except that an int is a number of folds of shuffled rows, the same at every call
        (seed 0), as tables are often sorted. ``groups`` of ``fit`` keeps rows together; splitters and pairs are used
        unchanged. ``"loo"`` leaves out one row at a time, approximately, from one fit to all rows
        (:mod:`bayesdrop.fitting.objective.leave_one_out`); the rows with most influence are left out by a fit without
        them. A whole ``sample_weight`` counts copies, of which one is left out. By default ``"loo"`` for losses with
        second derivatives and tables that are not large and have at least four rows per column, unless ``scoring`` is
        given; else 5.
    scoring : str or callable, optional
        Greater is better. By default minus the plain loss. It receives the ``sample_weight`` of the test rows. With
        default ``rates``, or only ``bd.Tuned`` objects as in
        ``[bd.Tuned(), bd.Tuned(bd.PerGroup(groups))]``, and default ``scoring`` the search climbs from this power
        of ten and drops candidates that are clearly worse (:mod:`bayesdrop.fitting.tuning.search`); otherwise all
        candidates are tried on all folds.
    one_standard_error : bool, default=False
        Choose the smallest ``C``, and at this ``C`` the strongest noise, with a score within one standard error (of the
        paired difference) of the best. By default within a quarter of a standard error; with ``scoring`` the best.
    n_jobs : int, optional
        Number of processes for the folds, as in scikit-learn; worthwhile for large data only.
    epsilon : float, default=0.1
        Half-width of the tube within which a residual costs nothing, in units of ``y``.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged, and a dropped one becomes 0, or its mean where 0 is
        not a typical value (``centre="auto"``). Other noises have no ``rates``.
    expectation : str, default="augmentation"
        As in :class:`DropoutSVR`.
    weight_prior : Normal, optional
        As in :class:`DropoutSVR`.
    method : Newton or EM, optional
        As in :class:`DropoutSVR`.
    fit_intercept : bool, default=True
        As in :class:`DropoutSVR`.
    corrupted_inputs : bool, default=False
        As in :class:`DropoutSVR`.
    expected_deletion : float, array (p,) or mapping of column names, optional
        As in :class:`DropoutSVR`; ``C`` is chosen by the mean loss of rows that lose entries, and ``rates`` and
        ``scoring`` are left out.
    missing : None or "nan", optional
        As in :class:`DropoutSVR`.
    tol : float, default=1e-08
        As in :class:`DropoutSVR`.
    max_iter : int, default=200
        As in :class:`DropoutSVR`.

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
    coef_ : array (p,)
        Weights, without noise.
    intercept_ : float
        Intercept.
    rates_ : array (p,)
        Dropout rates of the features.
    objective_trace_ : array ``(n_iter_,)``
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
    DropoutSVR, DropoutRidgeCV

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DropoutSVRCV([0.0, 0.1], Cs=(1.0, 10.0), cv=3).fit(X / X.std(axis=0), y)
    >>> bool(model.score(X / X.std(axis=0), y) > 0.45)
    True
    """

    epsilon: float = 0.1
    expectation: str = "augmentation"

    _plain: ClassVar[type] = DropoutSVR
    _degree: ClassVar[int] = 1
