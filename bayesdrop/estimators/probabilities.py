"""Class probabilities of a fit: averages over the noise of each row, the fit taken as one draw of a posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import AnyArray, Float, Int
from ..designs import Design
from ..linalg.factors import double_range, refuse_overflow
from ..losses.softmax import log_sum_exp
from ..model import Model
from ..posterior.draws.draws import Draws
from ..posterior.noise_average.class_chances import class_chances
from ..posterior.noise_average.probability import class_probability, costly_probability, few_probabilities, is_quick
from .validation import check_features

__all__ = ["joint_probability", "positive_probability"]


def positive_probability(estimator: Any, X: Any) -> Float[AnyArray, "m K"]:
    """Probability of the positive class of each problem, by the fit of a classifier: (n, 1) or (n, K).

    Raises
    ------
    ValueError
        If a score leaves double precision.
    """
    design, weights = estimator._about_centre(check_features(estimator, X))
    coef, rates = np.ascontiguousarray(weights[:-1].T), np.atleast_2d(estimator.rates_)
    intercept, loss, noise = weights[-1], estimator._loss(), estimator._noise()

    def draws_of(part: slice) -> Draws:
        return Draws(
            model=estimator._model(), feature_names=[], weight=coef[part], intercept=intercept[part],
            free_rate=rates[part], index=np.arange(coef.shape[1]), fixed_rate=rates[0] if len(rates) == 1 else None,
            C=np.full(len(coef[part]), estimator._loss_weight()), power=1.0, marginalised=False, classes=None, steps={},
        )  # fmt: skip

    if estimator.corrupted_inputs or not is_quick(loss, noise, len(coef)):
        draws = draws_of(slice(None))
        return _by_rows(design, lambda part: class_probability(draws, part, estimator.corrupted_inputs))
    kept = coef * (noise.coefficients(rates).gain / (1 - rates))

    def chances(part: Any) -> Float[np.ndarray, "n K"]:
        def hard(rows: Int[np.ndarray, " r"], j: int) -> Float[np.ndarray, " r"]:
            return costly_probability(draws_of(slice(j, j + 1)), part[rows], loss)[:, 0]

        return few_probabilities(part, kept, np.broadcast_to(rates, coef.shape), intercept, hard)

    return _by_rows(design, chances)


def joint_probability(estimator: Any, model: Model, X: Any) -> Float[AnyArray, "m K"]:
    """Probability of each class by a softmax fit: (n, K), the average that :func:`bayesdrop.predict` takes.

    Raises
    ------
    ValueError
        If a score leaves double precision.
    """
    design, weights = estimator._about_centre(check_features(estimator, X))
    if estimator.corrupted_inputs:
        scores = {rows.start: part.matvec(weights[:-1]) + weights[-1] for rows, part in design.parts()}
        return log_sum_exp(np.concatenate([scores[start] for start in sorted(scores)]))[1]
    draws = Draws(
        model=model, feature_names=[], weight=np.ascontiguousarray(weights[:-1].T)[None],
        intercept=weights[-1][None], free_rate=np.zeros((1, 0)), index=np.arange(len(weights) - 1),
        fixed_rate=estimator.rates_, C=np.ones(1), power=1.0, marginalised=False, classes=None, steps={},
    )  # fmt: skip
    return _by_rows(design, lambda part: class_chances(draws, part)[:, 0])


def _by_rows(design: Design, chances: Callable[[Any], Float[AnyArray, "_ K"]]) -> Float[AnyArray, "m K"]:
    """Chances of all rows of a design, a part at a time."""
    with double_range():
        found = {rows.start: chances(part.matrix()) for rows, part in design.parts()}
    # Of rows that several processes hold these are this process's, whose devices may come in any order.
    result = np.concatenate([found[start] for start in sorted(found)])
    refuse_overflow(probabilities=result)
    return result
