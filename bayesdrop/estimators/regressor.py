"""Base of the regressors: the data of a fit, updates by blocks of rows and predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from .._typing import AnyArray, ArvizData, Float
from ..data.responses import check_responses, refuse_response
from ..designs import as_design, with_missing
from ..designs.dask.design import by_blocks
from ..designs.rows import check_sample_weight
from ..fitting.objective.centring import CentredProblem
from ..fitting.problems.block import Task
from ..fitting.tuning.folds import Rows
from ..model import Model
from ..rates import Fixed
from .base import DropoutEstimator
from .validation import check_here, check_training, intact

__all__ = ["DropoutRegressor"]


class DropoutRegressor(RegressorMixin, DropoutEstimator):
    """Base of the regressors; a subclass defines its loss."""

    def _default_rates(self) -> Any:
        return Fixed(0.1)

    @intact
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fit the weights.

        Parameters
        ----------
        X : array, data frame, scipy sparse or Blocks (n, p)
            Features, finite except missing entries; sparse input is never made dense, and :class:`bayesdrop.Blocks` are
            read when needed.
        y : array (n,)
            Targets.
        sample_weight : array (n,), optional
            Row weights, >= 0; weight 2 counts a row twice, and weight 0 excludes it.
        groups : array (n,), optional
            Labels of rows that belong together, for ``rates=bd.Tuned()`` of the regressors of counts.

        Returns
        -------
        self
        """
        model = self._model()
        self._check_limits()
        rows = self._check_rows(X, y, sample_weight, groups)
        earlier = None
        if self.warm_start and getattr(self, "coef_", np.empty(0)).shape == (rows[0].shape[1],):
            earlier = self._earlier()
        return self._solve(*self._task_of_rows(model, rows), earlier)

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> tuple[Any, ...]:
        design = check_training(self, X)
        response, weight = design.targets(y), design.row_weights(sample_weight)
        refuse_response(design, response, getattr(self, "feature_names_in_", None), y)
        origins = Rows.of(weight, groups)
        design, weight, y = design.drop_zero_weight(weight, response)
        check_responses(self._loss(), design, y, fit_intercept=self.fit_intercept, whole=False)
        return design, y, replace(origins, weight=weight)

    def _task_of_rows(self, model: Model, rows: tuple[Any, ...]) -> tuple[CentredProblem, Task]:
        design, y, origins = rows
        centring = self._centre(model, design, origins.weight)
        return centring, self._task_of(centring, y[:, None], origins.weight, origins)

    @intact
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, n_total: float | None = None, forget: float = 0.0
    ) -> Any:
        """Fit a block of rows, together with what is stored of earlier blocks.

        See :mod:`bayesdrop.fitting.problems.online`. Of an earlier ``fit`` the weights are used, not its rows.

        Parameters
        ----------
        X : array or scipy sparse (n, p)
            Some rows.
        y : array (n,)
            Targets of the rows.
        sample_weight : array (n,), optional
            Row weights, >= 0.
        n_total : float, optional
            Number of rows per pass: the penalty of the weights counts once per pass. By default there is one pass.
        forget : float, default=0.0
            Share of what is stored that each new row replaces, for data that drift; 1e-3 keeps about a thousand rows.

        Returns
        -------
        self
        """
        model = self._online_model()
        fresh = not hasattr(self, "n_features_in_")
        X, y = check_here(self, X, y, y_numeric=True, reset=fresh)
        target = np.asarray(y, dtype=np.float64)[:, None]
        design = as_design(with_missing(X))
        check_responses(model.loss, design, target[:, 0], fit_intercept=False, whole=False)
        weight = check_sample_weight(sample_weight, X.shape[0])
        self._set_weights(self._step_online(model, design, target, weight, n_total, forget))
        return self

    def _set_weights(self, weights: Float[np.ndarray, "q 1"]) -> None:
        self.coef_ = weights[:-1, 0].copy()
        self.intercept_ = float(weights[-1, 0])

    @by_blocks
    def predict(self, X: Any) -> Float[AnyArray, " m"]:
        """Mean of the score under the noise, (n,).

        For biased dropout it is ``((1 − η)∘w)ᵀx + (η∘w)ᵀc + b`` with ``c = centre_``. With ``corrupted_inputs=True`` or
        ``expected_deletion`` it is ``wᵀx + b``.
        """
        return self._mean_scores(X)[:, 0]

    def sample(self, X: Any, y: Any, *, sample_weight: Any = None, **options: Any) -> ArvizData:
        """Draw from the posterior of the feature-noising model with this estimator's settings.

        Accepts the options of :func:`bayesdrop.sample` and returns its ArviZ object. Give the estimator free rates, as
        in ``rates=bd.PerFeature()``, to draw those, too. The scale of the likelihood is fixed as in the fit, for a
        squared loss at the variance ``1/C``, while ``bd.sample`` learns it.
        """
        from ..posterior.sampling import sample

        model = self._model()
        # The scale is 1 as in the fit; with the weight C of the loss a squared loss has the variance 1/C.
        scales = {one.field: 1.0 for one in model.loss.parameters if one.degree}
        loss: Any = model.loss
        model = replace(model, loss=replace(loss, **scales)) if scales else model
        return sample(model, X, y, sample_weight=sample_weight, **options)
