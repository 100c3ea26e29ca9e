"""Linear regression under feature noise, following the scikit-learn API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._validation import check_number
from ..losses import EpsilonInsensitive, Loss, Quantile, Squared
from .regressor import DropoutRegressor
from .validation import LinearParameters

__all__ = ["DropoutQuantileRegressor", "DropoutRidge", "DropoutSVR"]


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutSVR(LinearParameters, DropoutRegressor):
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
        instead of its mean under the noise, ``(g∘w)ᵀx``, predictions are not averaged over the noise, and
        ``centre="auto"`` means None.
    expected_deletion : float, array (p,) or mapping of column names, optional
        Share of the entries of each column that the rows to predict will lose, in [0, 1); columns that a mapping does
        not name lose none. Fit complete rows, without ``rates``: the noise is this deletion. An entry that is lost
        comes as NaN and becomes ``centre_``, by default the mean of its column (``missing="nan"`` is implied);
        with ``corrupted_inputs=True`` it comes as a zero.
    missing : None or "nan", optional
        How NaN in the features is treated. None (default): as an error. ``"nan"``: as a missing entry, that is, as a
        dropped one: it becomes ``centre_``, in training and in prediction, by default the mean of the observed entries
        of its column; see :class:`bayesdrop.Model`.
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

    epsilon: float = 0.1
    C: float = 1.0
    expectation: str = "augmentation"
    expected_deletion: Any = None

    def _loss(self) -> Loss:
        return EpsilonInsensitive(self.epsilon, self.expectation)


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutQuantileRegressor(LinearParameters, DropoutRegressor):
    """Linear quantile regression trained under marginalised feature noise.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with a bound of the expected check loss (Koenker & Bassett 1978; auxiliary
    variables of Kozumi & Kobayashi 2011). At rate 0 it is quantile regression with a quadratic penalty, where
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
    weight_prior, method, fit_intercept, warm_start, corrupted_inputs : see DropoutSVR
        As in :class:`DropoutSVR`.
    expected_deletion, missing, tol, max_iter : see DropoutSVR
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

    quantile: float = 0.5
    C: float = 1.0
    expectation: str = "augmentation"
    expected_deletion: Any = None

    def _loss(self) -> Loss:
        # Check here, too, for a message with this parameter's name.
        check_number(self.quantile, "quantile", above=0, below=1, advice="the median has 0.5, the upper decile 0.9")
        return Quantile(self.quantile, expectation=self.expectation)


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutRidge(LinearParameters, DropoutRegressor):
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
        instead of its mean under the noise, ``(g∘w)ᵀx``, predictions are not averaged over the noise, and
        ``centre="auto"`` means None.
    expected_deletion : float, array (p,) or mapping of column names, optional
        Share of the entries of each column that the rows to predict will lose, in [0, 1); columns that a mapping does
        not name lose none. Fit complete rows, without ``rates``: the noise is this deletion. An entry that is lost
        comes as NaN and becomes ``centre_``, by default the mean of its column (``missing="nan"`` is implied);
        with ``corrupted_inputs=True`` it comes as a zero.
    missing : None or "nan", optional
        How NaN in the features is treated. None (default): as an error. ``"nan"``: as a missing entry, that is, as a
        dropped one: it becomes ``centre_``, in training and in prediction, by default the mean of the observed entries
        of its column; see :class:`bayesdrop.Model`.
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

    C: float = 1.0
    expected_deletion: Any = None

    def _loss(self) -> Loss:
        return Squared()
