"""Classifiers that choose the dropout rates and ``C`` by cross-validation; see :mod:`.base`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from .._typing import AnyArray, Float, Shaped
from ..designs import column_names, in_memory
from ..designs.rows import check_sample_weight
from ..estimators.classes import signs
from ..estimators.classifier import DropoutLogisticRegression
from ..estimators.intact import intact
from ..estimators.parameters import set_parameters, with_parameters
from ..estimators.softmax import joint_model
from ..estimators.svc import DropoutSVC
from ..estimators.validation import check_here
from ..fitting.tuning.task import Task
from ..rates import Tuned
from .base import FITTED, DropoutCV

__all__ = ["DropoutLogisticRegressionCV", "DropoutSVCCV"]


class _DropoutClassifierCV(ClassifierMixin, DropoutCV):
    """Shared by the classifiers; a subclass names the plain one."""

    classes_: Shaped[np.ndarray, " K"]
    _own: tuple[str, ...] = (*FITTED, "classes_")

    def _default_candidates(self) -> list[Any]:
        return Tuned().candidates

    @intact
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Choose the rates and ``C`` on the folds, and fit with them to all rows.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Features, finite but for missing ones; sparse input is never made dense.
        y : array (n,)
            Two or more classes, any labels.
        sample_weight : array (n,), optional
            Row weights, >= 0, of fits and of scores alike; weight 2 is a row twice, weight 0 no row.
        groups : array (n,), optional
            Labels of the rows that belong together, such as patients: a number of folds then holds out whole groups,
            and a splitter of groups is given them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a candidate, the folds or the data do not fit; the message names the argument and what to do.

        Warns
        -----
        SelectionWarning
            If the largest class, with ``scoring`` the rarest, has fewer rows than there should be folds: there are
            then fewer.
        """
        checked, y = check_here(self, X, y)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y: expected at least two classes, got one class ({self.classes_[0]}); a classifier needs two."
            )
        X = checked if column_names(X) is None else in_memory(X)
        weight = None if sample_weight is None else check_sample_weight(sample_weight, checked.shape[0])
        self._keep(self._choose(X, y, weight, groups, checked.shape[0]).fit(X, y, sample_weight=weight))
        return self

    def _task(self, plain: Any, X: Any, y: Any, weight: Float[np.ndarray, " n"], groups: Any) -> Task:
        design, classes, code, weight, origins = plain._check_rows(X, y, weight, groups)
        plain.classes_, joint = classes, plain._resolve_multiclass(classes, design.shape)
        if hasattr(plain, "multiclass_"):
            plain.multiclass = plain.multiclass_  # whatever the folds leave
        model = joint_model(plain, plain._model()) if joint else plain._model()
        target, many = (code, len(classes)) if joint else (signs(code, len(classes)), None)
        return plain._task_of(plain._centre(model, design, weight), target, weight, origins, many)

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


@with_parameters
class DropoutLogisticRegressionCV(_DropoutClassifierCV):
    """:class:`DropoutLogisticRegression` with the dropout rates and ``C`` chosen by cross-validation.

    Parameters
    ----------
    {search}
    {noise}
    expectation, multiclass, weight_prior, method, fit_intercept, class_weight, corrupted_inputs, missing, tol, max_iter
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
        Cs: Any = None,
        cv: Any = None,
        scoring: Any = None,
        one_standard_error: bool = False,
        n_jobs: int | None = None,
        noise: Any = None,
        expectation: str | None = None,
        multiclass: str = "auto",
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        corrupted_inputs: bool = False,
        missing: str | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        set_parameters(self, locals())

    def _plain(self) -> type:
        return DropoutLogisticRegression


@with_parameters
class DropoutSVCCV(_DropoutClassifierCV):
    """:class:`DropoutSVC` with the dropout rates and ``C`` chosen by cross-validation.

    Probabilities are those that held-out scores of the choice had; see ``calibration_`` of :class:`DropoutSVC`.

    Parameters
    ----------
    {search}
    {noise}
    expectation, weight_prior, method, fit_intercept, class_weight, corrupted_inputs, missing, tol, max_iter
        As in :class:`DropoutSVC`.

    Attributes
    ----------
    {chosen}
    {classifier}
    {calibration}
    {fitted}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DropoutSVCCV([0.0, 0.2], Cs=(1.0, 10.0), cv=3).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _own = (*_DropoutClassifierCV._own, "calibration_")

    def __init__(
        self,
        rates: Any = None,
        *,
        Cs: Any = None,
        cv: Any = None,
        scoring: Any = None,
        one_standard_error: bool = False,
        n_jobs: int | None = None,
        noise: Any = None,
        expectation: str = "augmentation",
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        corrupted_inputs: bool = False,
        missing: str | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        set_parameters(self, locals())

    def _plain(self) -> type:
        return DropoutSVC

    def _keep(self, best: Any) -> None:
        best.calibration_ = self.selection_.calibration
        super()._keep(best)
