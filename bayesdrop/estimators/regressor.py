"""Linear regression under feature noise, following the scikit-learn API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from .._typing import AnyArray, ArvizData, Float
from .._validation import check_number
from ..data.responses import check_responses, refuse_response
from ..designs import as_design, with_missing
from ..designs.dask.design import by_blocks
from ..designs.rows import check_sample_weight
from ..fitting.tuning.folds import Rows
from ..losses import EpsilonInsensitive, Loss, Quantile, Squared
from ..model import Model
from ..rates import Fixed
from .base import DropoutEstimator
from .validation import check_here, check_training, intact, set_parameters

__all__ = ["DropoutQuantileRegressor", "DropoutRegressor", "DropoutRidge", "DropoutSVR"]


class DropoutRegressor(RegressorMixin, DropoutEstimator):
    """Shared by the regressors; a subclass names its loss."""

    def _default_rates(self) -> Any:
        return Fixed(0.1)

    @intact
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fit the weights.

        Parameters
        ----------
        X : array, data frame, scipy sparse or Blocks (n, p)
            Features, finite but for missing ones; sparse input is never made dense, :class:`bayesdrop.Blocks` are read
            when needed.
        y : array (n,)
            Targets.
        sample_weight : array (n,), optional
            Row weights, >= 0; weight 2 is a row twice, weight 0 no row.
        groups : array (n,), optional
            Labels of the rows that belong together, for ``rates=bd.Tuned()``, which counts take.

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
        return self._fit_rows(model, rows, earlier)

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> tuple[Any, ...]:
        design = check_training(self, X)
        response, weight = design.targets(y), design.row_weights(sample_weight)
        refuse_response(design, response, getattr(self, "feature_names_in_", None), y)
        origins = Rows.of(weight, groups)
        design, weight, y = design.drop_zero_weight(weight, response)
        check_responses(self._loss(), design, y, fit_intercept=self.fit_intercept, whole=False)
        return design, y, replace(origins, weight=weight)

    def _fit_rows(self, model: Model, rows: tuple[Any, ...], earlier: Any) -> Any:
        design, y, origins = rows
        centring = self._centre(model, design, origins.weight)
        return self._solve(centring, self._task_of(centring, y[:, None], origins.weight, origins), earlier)

    @intact
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, n_total: float | None = None, forget: float = 0.0
    ) -> Any:
        """Fit a block of rows with what is remembered of the blocks before.

        See :mod:`bayesdrop.fitting.problems.online`. Of an earlier ``fit`` the weights are remembered, not its rows.

        Parameters
        ----------
        X : array or scipy sparse (n, p)
            Some rows.
        y : array (n,)
            Their targets.
        sample_weight : array (n,), optional
            Row weights, >= 0.
        n_total : float, optional
            Rows in one of several passes: the penalty of the weights counts once a pass. By default there is one.
        forget : float, default=0.0
            Share of what is remembered that a new row replaces, if data drift; 1e-3 remembers about a thousand rows.

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

        Under biased dropout that is ``((1 − η)∘w)ᵀx + (η∘w)ᵀc + b``, ``c`` being ``centre_``. With
        ``corrupted_inputs=True`` it is ``wᵀx + b``.
        """
        return self._mean_scores(X)[:, 0]

    def sample(self, X: Any, y: Any, *, sample_weight: Any = None, **options: Any) -> ArvizData:
        """Draw from the posterior of the feature-noising model with this estimator's settings.

        Takes the options of :func:`bayesdrop.sample` and returns its ArviZ object. Give the estimator free rates, as
        in ``rates=bd.PerFeature()``, to draw those too.
        """
        from ..posterior.sampling import sample

        return sample(self._model(), X, y, sample_weight=sample_weight, **options)


class DropoutSVR(DropoutRegressor):
    """Linear support vector regression trained under marginalised feature noise.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with the bound of the expected ε-insensitive loss (Chen, Zhu, Chen & Chen
    2015, section 4.3). At rate 0 it is the ordinary linear SVR. ``C`` is c of Chen et al. (2015).

    Parameters
    ----------
    rates : float, array (p,) or Fixed, optional
        Dropout rates in [0, 1), 0.1 by default. The sign rule that learns rates needs two classes; ``sample`` draws
        the rates of a regression from their posterior.
    epsilon : float, default=0.1
        Half-width of the tube within which a residual costs nothing, in units of ``y``.
    C : float, default=1.0
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged, and a dropped one becomes 0, or its mean where 0 is
        not a typical value (``centre="auto"``). Other noises have no ``rates``.
    expectation : str, default="augmentation"
        ``"augmentation"`` or ``"gaussian"``; see :mod:`bayesdrop.losses.base`.
    weight_prior : Normal, optional
        ``bd.Normal(1.0)`` by default; the intercept is neither penalised nor noised.
    method : Newton or EM, optional
        Minimiser, with its tolerance; by default ``bd.Newton(tol=tol, max_iter=max_iter)``.
    fit_intercept : bool, default=True
        Add an intercept.
    warm_start : bool, default=False
        Start from the last fit's weights and rates.
    corrupted_inputs : bool, default=False
        Whether the rows to predict are corrupted already, with zeros for missing features: their score is then ``wᵀx``
        instead of its mean under the noise, ``(g∘w)ᵀx``, probabilities are not averaged over the noise, and
        ``centre="auto"`` means None.
    missing : None or "nan", optional
        How NaN in the features is treated. None (default): as an error. ``"nan"``: as a missing entry, that is, as a
        dropped one: it becomes ``centre_``, in training as in prediction, by default the mean of the entries that are
        not missing; see :class:`bayesdrop.Model`.
    tol : float, default=1e-08
        Estimated suboptimality, relative to the energy, at which to stop.
    max_iter : int, default=200
        Maximal number of Newton steps.

    Attributes
    ----------
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
    DropoutSVRCV, DropoutQuantileRegressor

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DropoutSVR(0.1, C=10.0).fit(X / X.std(axis=0), y)
    >>> bool(model.score(X / X.std(axis=0), y) > 0.48)
    True
    """

    def __init__(
        self,
        rates: Any = None,
        *,
        epsilon: float = 0.1,
        C: float = 1.0,
        noise: Any = None,
        expectation: str = "augmentation",
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        warm_start: bool = False,
        corrupted_inputs: bool = False,
        missing: str | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        set_parameters(self, locals())

    def _loss(self) -> Loss:
        return EpsilonInsensitive(self.epsilon, self.expectation)


class DropoutQuantileRegressor(DropoutRegressor):
    """Linear quantile regression trained under marginalised feature noise.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with a bound of the expected check loss (Koenker & Bassett 1978; the auxiliary
    variables are those of Kozumi & Kobayashi 2011). At rate 0 it is quantile regression with a quadratic penalty, where
    scikit-learn's ``QuantileRegressor`` has an absolute one; without a penalty, that is with a large ``C`` here and
    ``alpha=0`` there, the two are the same.

    Parameters
    ----------
    rates : float, array (p,) or Fixed, optional
        Dropout rates in [0, 1), 0.1 by default. The sign rule that learns rates needs two classes; ``sample`` draws
        the rates of a regression from their posterior.
    quantile : float, default=0.5
        Level of the quantile of ``y`` to predict, in (0, 1); 0.5 is the median.
    C : float, default=1.0
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged, and a dropped one becomes 0, or its mean where 0 is
        not a typical value (``centre="auto"``). Other noises have no ``rates``.
    expectation : str, default="augmentation"
        ``"augmentation"`` or ``"gaussian"``; see :mod:`bayesdrop.losses.base`.
    weight_prior, method, fit_intercept, warm_start, corrupted_inputs, missing, tol, max_iter : see DropoutSVR
        As in :class:`DropoutSVR`.

    Attributes
    ----------
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
    DropoutSVR, DropoutRidge

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DropoutQuantileRegressor(0.1, quantile=0.9, C=10.0).fit(X / X.std(axis=0), y)
    >>> float(round((y <= model.predict(X / X.std(axis=0))).mean(), 1))
    0.9
    """

    def __init__(
        self,
        rates: Any = None,
        *,
        quantile: float = 0.5,
        C: float = 1.0,
        noise: Any = None,
        expectation: str = "augmentation",
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        warm_start: bool = False,
        corrupted_inputs: bool = False,
        missing: str | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        set_parameters(self, locals())

    def _loss(self) -> Loss:
        # Checked here as well, under the name that this parameter goes by.
        check_number(self.quantile, "quantile", above=0, below=1, advice="the median has 0.5, the upper decile 0.9")
        return Quantile(self.quantile, expectation=self.expectation)


class DropoutRidge(DropoutRegressor):
    """Ridge regression trained under marginalised feature noise, in closed form.

    Minimises ``½‖w‖² + ½C Σ E(y − wᵀx̃ − b)² = ½‖w‖² + ½C Σ [(y − m)² + v]``, exactly (van der Maaten, Chen, Tyree &
    Weinberger 2013, section 3.1). At rate 0 it is scikit-learn's ``Ridge`` with ``alpha = 1/C``.

    Parameters
    ----------
    rates : float, array (p,) or Fixed, optional
        Dropout rates in [0, 1), 0.1 by default. The sign rule that learns rates needs two classes; ``sample`` draws
        the rates of a regression from their posterior.
    C : float, default=1.0
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged, and a dropped one becomes 0, or its mean where 0 is
        not a typical value (``centre="auto"``). Other noises have no ``rates``.
    weight_prior : Normal, optional
        ``bd.Normal(1.0)`` by default; the intercept is neither penalised nor noised.
    method : Newton or EM, optional
        Minimiser, with its tolerance; by default ``bd.Newton(tol=tol, max_iter=max_iter)``.
    fit_intercept : bool, default=True
        Add an intercept.
    warm_start : bool, default=False
        Start from the last fit's weights and rates.
    corrupted_inputs : bool, default=False
        Whether the rows to predict are corrupted already, with zeros for missing features: their score is then ``wᵀx``
        instead of its mean under the noise, ``(g∘w)ᵀx``, probabilities are not averaged over the noise, and
        ``centre="auto"`` means None.
    missing : None or "nan", optional
        How NaN in the features is treated. None (default): as an error. ``"nan"``: as a missing entry, that is, as a
        dropped one: it becomes ``centre_``, in training as in prediction, by default the mean of the entries that are
        not missing; see :class:`bayesdrop.Model`.
    tol : float, default=1e-08
        Estimated suboptimality, relative to the energy, at which to stop.
    max_iter : int, default=200
        Maximal number of Newton steps.

    Attributes
    ----------
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
    DropoutRidgeCV, DropoutSVR

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DropoutRidge(0.1).fit(X / X.std(axis=0), y)
    >>> bool(model.score(X / X.std(axis=0), y) > 0.48)
    True
    """

    def __init__(
        self,
        rates: Any = None,
        *,
        C: float = 1.0,
        noise: Any = None,
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        warm_start: bool = False,
        corrupted_inputs: bool = False,
        missing: str | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        set_parameters(self, locals())

    def _loss(self) -> Loss:
        return Squared()
