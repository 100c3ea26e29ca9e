"""Conversion of a fitted estimator to scikit-learn's own linear model, for converters to ONNX and PMML."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..losses import EpsilonInsensitive, Hinge, Logistic, Squared

__all__ = ["as_sklearn"]


# scikit-learn's model for each loss whose predictions are made of mean scores alone.
_COUNTERPARTS: dict[type, tuple[str, str]] = {
    Logistic: ("sklearn.linear_model", "LogisticRegression"),
    Hinge: ("sklearn.svm", "LinearSVC"),
    Squared: ("sklearn.linear_model", "Ridge"),
    EpsilonInsensitive: ("sklearn.svm", "LinearSVR"),
}


def as_sklearn(estimator: Any) -> Any:
    """Scikit-learn's linear model with the mean scores of a fitted estimator.

    The mean score under the noise is linear in the features, ``Σ_d w_d (g_d x_d + h_d) + b`` with ``E[x̃|x] = g x + h``.

    Parameters
    ----------
    estimator : DropoutEstimator
        Fitted.

    Returns
    -------
    LogisticRegression, LinearSVC, Ridge or LinearSVR
        Fitted, with the settings that it has by default.

    Raises
    ------
    TypeError
        If there is none with the same predictions.
    """
    found = None if hasattr(estimator, "hidden_coef_") else _COUNTERPARTS.get(type(estimator._loss()))
    if found is None:
        raise TypeError(
            f"{type(estimator).__name__} has no counterpart in scikit-learn with the same predictions; keep it by "
            "pickle, joblib or skops."
        )
    check_is_fitted(estimator)
    plain: Any = getattr(import_module(found[0]), found[1])()
    weights = estimator._weights()
    coef, intercept = weights[:-1], weights[-1]
    if not estimator.corrupted_inputs:
        own = estimator._model().noise.coefficients(np.atleast_2d(estimator.rates_).T)
        coef, intercept = coef * own.gain, intercept + np.sum(coef * own.shift, axis=0)
        if estimator.centre_ is not None:
            intercept = intercept + estimator.centre_ @ (weights[:-1] - coef)
    coef, intercept = np.ascontiguousarray(coef.T), intercept - estimator._threshold()
    classes = getattr(estimator, "classes_", None)
    plain.coef_ = coef if classes is not None else coef[0]
    plain.intercept_ = intercept if classes is not None else float(intercept[0])
    for name in ("classes_", "n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(plain, name, getattr(estimator, name))
    plain.n_iter_ = np.ravel(estimator.n_iter_)
    return plain
