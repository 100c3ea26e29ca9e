"""Read point fits from a fit or an estimator, for tables and effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..estimators.base import DropoutEstimator
from ..estimators.classes import joint_model
from ..estimators.validation import default_names, facts_of
from ..fitting.results.result import Fit
from ..losses import Logistic
from ..posterior.draws.draws import Draws
from ..posterior.draws.new_rows import draws_of_fit
from ..rates import Fixed

__all__ = ["PointFit", "chosen_of", "draws_of", "point_fits"]


@dataclass(frozen=True)
class PointFit:
    """A point fit of one problem.

    Attributes
    ----------
    fit : Fit
        The fit.
    label : str or None
        Class that the fit separates from all others, if there is a fit for each class.
    """

    fit: Fit
    label: str | None


def chosen_of(result: Any) -> Any:
    """Return the estimator that a search chose, or what is passed."""
    return getattr(result, "best_estimator_", result)


def draws_of(fits: Sequence[PointFit], result: Any, corrupted_inputs: bool) -> list[Draws]:
    """Return the point fits of a result as draws, whose probabilities are those of ``predict_proba``."""
    return [draws_of_fit(_calibrated(one.fit, result, corrupted_inputs)) for one in fits]


def _calibrated(fit: Fit, result: Any, corrupted_inputs: bool) -> Fit:
    """Return the plain logistic regression that has the calibrated log-odds of two classes, or the fit.

    Such log-odds are linear in the mean score.
    """
    estimator = chosen_of(result)
    found = estimator._calibrated() if hasattr(estimator, "_calibrated") and len(estimator.classes_) == 2 else None
    if found is None or found.corrupted_inputs != corrupted_inputs:
        return fit
    plain = estimator.to_sklearn()
    return replace(
        fit, model=replace(fit.model, loss=Logistic(), rates=Fixed(0.0)), weight=found.slope * plain.coef_[0],
        intercept=float(found.slope * plain.intercept_[0]), rates=np.zeros(len(fit.rates)), rate_posterior=None,
    )  # fmt: skip


def point_fits(result: Any) -> list[PointFit] | None:
    """Point fits of the result of ``bd.fit`` or of a fitted linear estimator; None for anything else.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.

    Examples
    --------
    >>> from bayesdrop.estimators import DropoutSVC
    >>> X = [[0.0, 1.0], [0.1, 1.1], [1.0, 0.0], [1.1, 0.1], [2.0, 2.0], [2.1, 2.0]]
    >>> three = DropoutSVC(0.2).fit(X, [*"aabbcc"])
    >>> [one.label for one in point_fits(three)]
    ['a', 'b', 'c']
    """
    if isinstance(result, Fit):
        return [PointFit(result, None)]
    estimator = chosen_of(result)
    if not isinstance(estimator, DropoutEstimator) or isinstance(estimator, type):
        return None
    check_is_fitted(estimator)
    if hasattr(estimator, "hidden_coef_"):
        return None
    model: Any = estimator._online_model()
    classes: Any = getattr(estimator, "classes_", None)
    joint = classes is not None and estimator._is_joint(classes)
    if joint:
        model = joint_model(estimator, model)
    coef, rates = np.atleast_2d(estimator.coef_), np.asarray(estimator.rates_)
    intercept = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), len(coef))
    several = classes is not None and len(classes) > 2 and not joint
    posterior = getattr(estimator, "rate_posterior_", None)
    covariances = getattr(estimator, "_covariances", None)
    trace = np.atleast_1d(getattr(estimator, "objective_trace_", np.nan))

    def fit_of(k: int) -> Fit:
        rate_posterior = posterior
        if several and posterior is not None and posterior.occurrences.ndim > 1:
            law = type(posterior.law)(*(part[:, k] for part in posterior.law))
            rate_posterior = replace(posterior, law=law, occurrences=posterior.occurrences[:, k])
        return Fit(
            weight=coef if joint else coef[k],
            intercept=intercept if joint else float(intercept[k]),
            rates=rates[k] if several and rates.ndim > 1 else rates if joint else np.atleast_2d(rates)[0],
            rate_posterior=rate_posterior,
            objective_trace=trace[:, k] if trace.ndim > 1 else trace,
            status=getattr(estimator, "status_", None),  # type: ignore[arg-type]
            n_iter=estimator.n_iter_,
            feature_names=default_names(estimator),
            facts=facts_of(estimator),
            classes=np.array([False, True]) if several else classes,
            model=model,
            centre=estimator.centre_,
            covariance=None if covariances is None else covariances[k],
        )

    if not several:
        return [PointFit(fit_of(0), None)]
    return [PointFit(fit_of(k), str(label)) for k, label in enumerate(classes)]
