"""Regressions that choose the dropout rate and ``C`` by cross-validation; see :mod:`.base`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from .._typing import AnyArray, Float
from ..designs import column_names, in_memory
from ..designs.rows import check_sample_weight
from ..estimators.intact import intact
from ..estimators.parameters import set_parameters, with_parameters
from ..estimators.regressor import DropoutRidge, DropoutSVR
from ..estimators.validation import check_here
from ..fitting.tuning.task import Task
from .base import DropoutCV

__all__ = ["DropoutRidgeCV", "DropoutSVRCV"]

_RATES = (0.0, 0.1, 0.3, 0.5, 0.7)


class _DropoutRegressorCV(RegressorMixin, DropoutCV):
    """Shared by the regressions; a subclass names the plain one."""

    def _default_candidates(self) -> list[Any]:
        return list(_RATES)

    @intact
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Choose the rate and ``C`` on the folds, and fit with them to all rows.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Features, finite but for missing ones; sparse input is never made dense.
        y : array (n,)
            Targets.
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
        """
        checked, y = check_here(self, X, y, y_numeric=True)
        X = checked if column_names(X) is None else in_memory(X)
        weight = None if sample_weight is None else check_sample_weight(sample_weight, checked.shape[0])
        self._keep(self._choose(X, y, weight, groups, checked.shape[0]).fit(X, y, sample_weight=weight))
        return self

    def _task(self, plain: Any, X: Any, y: Any, weight: Float[np.ndarray, " n"], groups: Any) -> Task:
        design, y, origins = plain._check_rows(X, y, weight, groups)
        centring = plain._centre(plain._model(), design, origins.weight)
        return plain._task_of(centring, y[:, None], origins.weight, origins)

    def predict(self, X: Any) -> Float[AnyArray, " m"]:
        """Mean of the score under the noise, (n,)."""
        return self._chosen().predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score by ``scoring``, the coefficient of determination by default."""
        model = self._chosen()
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.scorer_(model, X, y, **weights))


@with_parameters
class DropoutRidgeCV(_DropoutRegressorCV):
    """:class:`DropoutRidge` with the dropout rate and ``C`` chosen by cross-validation.

    Parameters
    ----------
    {search}
    {noise}
    weight_prior, method, fit_intercept, corrupted_inputs, missing, tol, max_iter
        As in :class:`DropoutRidge`.

    Attributes
    ----------
    {chosen}
    {regressor}
    {fitted}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DropoutRidgeCV().fit(X / X.std(axis=0), y)
    >>> bool(model.score(X / X.std(axis=0), y) > 0.5)
    True
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
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        corrupted_inputs: bool = False,
        missing: str | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        set_parameters(self, locals())

    def _plain(self) -> type:
        return DropoutRidge


@with_parameters
class DropoutSVRCV(_DropoutRegressorCV):
    """:class:`DropoutSVR` with the dropout rate and ``C`` chosen by cross-validation.

    Parameters
    ----------
    {search}
    epsilon : float
        Half-width of the tube within which a residual costs nothing, in units of ``y``.
    {noise}
    expectation, weight_prior, method, fit_intercept, corrupted_inputs, missing, tol, max_iter
        As in :class:`DropoutSVR`.

    Attributes
    ----------
    {chosen}
    {regressor}
    {fitted}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DropoutSVRCV([0.0, 0.1], Cs=(1.0, 10.0), cv=3).fit(X / X.std(axis=0), y)
    >>> bool(model.score(X / X.std(axis=0), y) > 0.45)
    True
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
        epsilon: float = 0.1,
        noise: Any = None,
        expectation: str = "augmentation",
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        corrupted_inputs: bool = False,
        missing: str | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        set_parameters(self, locals())

    def _plain(self) -> type:
        return DropoutSVR
