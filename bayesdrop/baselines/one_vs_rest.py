"""Base class of the linear baselines: validation, one class against the rest, scores and classes.

Also read the noise and its fixed rates from the parameters of a baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._typing import AnyArray, Float, Shaped
from .._validation import check_count, check_flag, check_instance, check_number, shown
from ..designs import Design, as_design
from ..estimators.classes import check_rows, chosen_by, merge_rows, signs
from ..estimators.validation import check_new_matrix, intact
from ..linalg.systems import double_range, refuse_overflow
from ..noise import Dropout, Noise
from ..noise.base import require_zero_centre
from ..rates import Fixed, Rates
from ..rates.base import check_rate
from ..warnings import warn

__all__ = ["OneVsRest", "check_noise", "check_options", "fixed_rates", "keeps_zeros"]


def check_options(estimator: Any) -> None:
    """Raise ValueError if ``C``, ``tol`` or ``max_iter`` is out of range."""
    for name in ("C", "tol"):
        check_number(getattr(estimator, name), name, above=0)
    check_count(estimator.max_iter, "max_iter")
    check_flag(estimator.fit_intercept, "fit_intercept")


class OneVsRest(ClassifierMixin, BaseEstimator):
    """Base of the linear baselines; a subclass solves a block of two-class problems."""

    C: float
    fit_intercept: bool
    tol: float
    max_iter: int
    n_features_in_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _solve(
        self, design: Design, sign: Float[np.ndarray, "n K"], weight: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "q K"], int, bool]:
        """Weights (p + 1, K), iterations and whether they sufficed, for signs (n, K) and row weights (n,)."""
        raise NotImplementedError

    def _penalised(
        self, loss: float, gradient: Float[np.ndarray, " q"], weights: Float[np.ndarray, " q"]
    ) -> tuple[float, Float[np.ndarray, " q"]]:
        """``½‖w‖² + C`` times a loss, and its gradient (p + 1,), given those of the loss."""
        gradient = float(self.C) * gradient
        gradient[:-1] += weights[:-1]
        if not self.fit_intercept:
            gradient[-1] = 0.0
        return 0.5 * float(weights[:-1] @ weights[:-1]) + float(self.C) * loss, gradient

    def _noised_mean(self) -> tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]:
        """Gain and shift of the features' means at prediction; (p,) or numbers."""
        return np.ones(1), np.zeros(1)

    def _seen(self, X: Any) -> Any:
        """Checked features (n, p) as the weights see them."""
        return X

    @intact
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the weights.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Features, finite; sparse input is never made dense.
        y : array (n,)
            Two or more classes, any labels.
        sample_weight : array (n,), optional
            Row weights, >= 0; weight 2 is a row twice, weight 0 no row.

        Returns
        -------
        self
        """
        check_options(self)
        design, classes, code, origins = check_rows(self, X, y, sample_weight)
        design, code, weight = merge_rows(design, code, origins.weight)
        sign = signs(code, len(classes))
        with double_range():
            weights, self.n_iter_, converged = self._solve(design, sign, weight)
        refuse_overflow(weights=weights, objective=getattr(self, "objective_", 0.0))
        if not converged:
            warn(
                "Stopped before the tolerance was met: raise max_iter, loosen tol, or standardise the features.",
                ConvergenceWarning,
            )
        self.classes_ = classes
        self.coef_ = np.ascontiguousarray(weights[:-1].T)
        self.intercept_ = weights[-1].copy()
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, "m ..."]:
        """Score of each row, (n,) for two classes and (n, K) for more: its mean under the noise, if there is any.

        Under biased dropout that is ``((1 − η)∘w)ᵀx + b``.
        """
        check_is_fitted(self)
        checked = check_new_matrix(self, X)
        design = as_design(self._seen(checked))
        gain, shift = self._noised_mean()
        score = design.matvec((self.coef_ * gain).T) + ((self.coef_ * shift).sum(axis=1) + self.intercept_)
        return score if len(self.classes_) > 2 else score[:, 0]

    def predict(self, X: Any) -> Shaped[AnyArray, " m"]:
        """Class with the largest score, (n,)."""
        chosen = chosen_by(self.decision_function(X))
        return self.classes_[chosen]


def check_noise(noise: Any) -> Noise:
    """Return the noise, biased dropout about 0 by default.

    Raises
    ------
    TypeError
        If it is not a noise.
    ValueError
        If it has a centre other than 0, which the published baselines lack.

    Examples
    --------
    >>> check_noise(None)
    Dropout(unbiased=False, centre=None)
    """
    if noise is None:
        return Dropout(centre=None)
    checked: Noise = check_instance(noise, "noise", Noise, "an object such as bd.Dropout()")
    require_zero_centre(checked, "this baseline")
    return checked


def fixed_rates(rates: Any, noise: Noise, feature_names: Sequence[str]) -> Float[np.ndarray, " p"]:
    """Dropout rates (p,) of the features, zeros for a noise that has none.

    Parameters
    ----------
    rates : float, array (p,) or Fixed
        Rates in [0, 1); a baseline does not learn rates.
    noise : Noise
        Noise that the rates belong to.
    feature_names : sequence of p str
        Names of the columns.

    Examples
    --------
    >>> fixed_rates(0.25, Dropout(), ["age", "weight"])
    array([0.25, 0.25])
    """
    if isinstance(rates, Rates) and not isinstance(rates, Fixed | type):
        raise ValueError(
            f"rates: expected fixed dropout rates, such as 0.3, an array (p,) or bd.Fixed(0.3), got {shown(rates)}; "
            "this baseline does not learn rates. bd.DropoutLogisticRegression and bd.DropoutSVC do."
        )
    fixed = rates if isinstance(rates, Fixed) else Fixed(check_rate(rates, "rates"))
    if not noise.has_rate:
        return np.zeros(len(feature_names))
    return fixed.bind(feature_names).initial


def keeps_zeros(noise: Noise) -> bool:
    """True if the noise leaves an entry of zero unchanged, so that sparse data stay sparse.

    Examples
    --------
    >>> from bayesdrop.noise import GaussianNoise
    >>> keeps_zeros(Dropout()), keeps_zeros(GaussianNoise())
    (True, False)
    """
    coefficients = noise.coefficients(np.full(1, 0.5))
    return not (np.any(coefficients.shift) or np.any(coefficients.constant))
