"""Regression of counts under feature noise, following the scikit-learn API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from .._typing import AnyArray, Float, PerRow
from ..designs.dask.design import by_blocks
from ..designs.rows import check_sample_weight
from ..linalg.systems import double_range, refuse_overflow
from ..losses import Loss, NegativeBinomial, Poisson
from .regressor import DropoutRegressor
from .validation import LinearParameters, check_here

__all__ = ["DropoutNegativeBinomialRegressor", "DropoutPoissonRegressor"]


@dataclass(frozen=True)
class _Moments:
    """Distributions of scores by ``m`` and ``v``, ``E e^s = exp(m + v/2)``; see :class:`.losses.base.NoisedScores`."""

    location: PerRow
    var: PerRow

    def mean(self) -> PerRow:
        return self.location

    def log_exponential(self) -> PerRow:
        return self.location + 0.5 * self.var

    def sigmoid(self) -> PerRow:
        raise NotImplementedError("no estimator has binomial counts")


class _DropoutCountRegressor(DropoutRegressor):
    """Base of the regressors of counts; a subclass defines its loss and its deviance."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _half_deviance(self, y: Float[np.ndarray, " n"], mean: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        raise NotImplementedError

    @by_blocks
    def predict(self, X: Any) -> Float[AnyArray, " m"]:
        """Expected count under the noise, (n,): ``E e^s`` for a Poisson count, ``r E e^s`` for a negative binomial one.

        Exact, by the moment-generating function of the noise, except for rows on a cluster, whose scores are treated as
        normal. With ``corrupted_inputs=True`` the score is ``wᵀx + b``, without noise.
        """
        moments, weights = self._score_moments(X, exponential=True)
        with double_range():
            mean, var = moments.scores(weights)
            counts = self._loss().expected_response(_Moments(mean, var))[:, 0]
        refuse_overflow(scores=mean, variances=var, expected_counts=counts)
        return counts

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Explained share of the deviance, D², as in scikit-learn's ``PoissonRegressor.score``: at most 1.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Rows.
        y : array (n,)
            Counts of the rows.
        sample_weight : array (n,), optional
            Row weights, >= 0.

        Returns
        -------
        float
            One minus the deviance divided by the deviance of a constant.
        """
        rows, y = check_here(self, X, y, y_numeric=True, reset=False)
        weight = check_sample_weight(sample_weight, rows.shape[0])
        y = np.asarray(y, dtype=np.float64)
        constant = np.full(len(y), np.average(y, weights=weight))
        deviance, null_deviance = (float(weight @ self._half_deviance(y, mean)) for mean in (self.predict(X), constant))
        return 1 - deviance / null_deviance if null_deviance > 0 else float(deviance == 0)


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutPoissonRegressor(LinearParameters, _DropoutCountRegressor):
    """Poisson regression trained under marginalised feature noise.

    Minimises ``½‖w‖² + C Σ E(e^s − y s)``, with ``E e^s`` exact for every noise. At rate 0 it is scikit-learn's
    ``PoissonRegressor`` with ``alpha = 1/(C Σ sample_weight)``, because its loss is a mean and this one is a sum. The
    targets are counts, or events per unit of exposure with the exposure as ``sample_weight``; ``sample`` needs counts.

    Parameters
    ----------
    rates : float, array (p,) or Rates, optional
        Dropout rates in [0, 1), 0.1 by default, or ``bd.PerFeature()`` and similar objects to learn them. In the sign
        rule a row counts ``y`` times in favour of a higher score, and as often as the mean count in favour of a lower
        one.
    C : float, default=1.0
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged, and a dropped one becomes 0, or its mean where 0 is
        not a typical value (``centre="auto"``). Other noises have no ``rates``.
    expectation : str, default="exact"
        ``"exact"`` (default), ``"gaussian"`` (required for data on a cluster) or ``"taylor"``; see
        :class:`bayesdrop.Poisson`.
    weight_prior : Normal, optional
        ``bd.Normal(1.0)`` by default; the intercept is neither penalised nor noised.
    method : Newton, optional
        As in :class:`DropoutSVR`, but without EM: this loss has no auxiliary variables.
    fit_intercept : bool, default=True
        Add an intercept.
    warm_start : bool, default=False
        Start from the last fit's weights and rates.
    corrupted_inputs : bool, default=False
        Whether the rows to predict are corrupted already, with zeros for missing features: their score is then ``wᵀx``
        instead of its mean under the noise, ``(g∘w)ᵀx``, predictions are not averaged over the noise, and
        ``centre="auto"`` means None.
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
    DropoutNegativeBinomialRegressor, Poisson

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = rng.poisson(np.exp(0.5 + X[:, 0]))
    >>> bool(DropoutPoissonRegressor(0.1).fit(X, y).score(X, y) > 0.5)
    True
    """

    C: float = 1.0
    expectation: str = "exact"

    def _loss(self) -> Loss:
        return Poisson(self.expectation)

    def _half_deviance(self, y: Float[np.ndarray, " n"], mean: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return np.asarray(xlogy(y, y) - xlogy(y, mean) - y + mean)


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutNegativeBinomialRegressor(LinearParameters, _DropoutCountRegressor):
    """Negative binomial regression of overdispersed counts, trained under marginalised feature noise.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with the bound of the expected loss ``(y + r) log(1 + e^s) − y s`` by
    Polya-Gamma variables. The score is the logarithm of ``μ/r``, and a count of mean ``μ`` has the variance
    ``μ + μ²/r``; ``r`` is given.

    Parameters
    ----------
    rates : float, array (p,) or Rates, optional
        Dropout rates in [0, 1), 0.1 by default, or ``bd.PerFeature()`` and similar objects to learn them. In the sign
        rule a row counts ``y`` times in favour of a higher score, and as often as the mean count in favour of a lower
        one.
    dispersion : float, default=1.0
        Parameter ``r > 0``; see :class:`bayesdrop.NegativeBinomial`. For large ``r`` counts are nearly Poisson.
    C : float, default=1.0
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged, and a dropped one becomes 0, or its mean where 0 is
        not a typical value (``centre="auto"``). Other noises have no ``rates``.
    expectation : str, default="augmentation"
        ``"augmentation"`` (default), ``"gaussian"`` or ``"taylor"``; see :mod:`bayesdrop.losses.base`.
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
    DropoutPoissonRegressor, NegativeBinomial

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = rng.negative_binomial(2, 1 / (1 + np.exp(X[:, 0])))
    >>> bool(DropoutNegativeBinomialRegressor(0.1, dispersion=2.0).fit(X, y).score(X, y) > 0.2)
    True
    """

    dispersion: float = 1.0
    C: float = 1.0
    expectation: str = "augmentation"

    def _loss(self) -> Loss:
        return NegativeBinomial(self.dispersion, self.expectation)

    def _half_deviance(self, y: Float[np.ndarray, " n"], mean: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        r = self.dispersion
        return np.asarray(xlogy(y, y) - xlogy(y, mean) - (y + r) * (np.log(y + r) - np.log(mean + r)))
