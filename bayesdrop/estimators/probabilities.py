"""Class probabilities of a fit: averages over the noise of each row, the fit taken as one draw of a posterior."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..centring import moved, shifted
from ..designs import is_elsewhere, row_parts
from ..draws import Draws, blocks
from ..expectation import class_probability
from ..overflow import double_range, refuse_overflow
from .names import check_features

__all__ = ["positive_probability"]

Array = Any

# Rows that are read at once for probabilities, where they are not in memory.
_ROWS = 2048


def positive_probability(estimator: Any, X: Any) -> Array:
    """Probability of the positive class of each problem, by the fit of a classifier: (n, 1) or (n, K).

    Raises
    ------
    ValueError
        If a score leaves double precision.
    """
    X, weights, centre = estimator._about_centre(check_features(estimator, X))
    if estimator.corrupted_inputs:
        centre = None  # wᵀx + b, with no noise to centre
    coef, rates = np.ascontiguousarray(weights[:-1].T), np.atleast_2d(estimator.rates_)
    draws = Draws(
        model=estimator._model(), feature_names=[], weight=coef, intercept=moved(weights, centre, 1.0)[-1],
        free_rate=rates, index=np.arange(coef.shape[1]), fixed_rate=rates[0] if len(rates) == 1 else None,
        C=np.full(len(coef), float(estimator.C)), power=1.0, marginalised=False, classes=None, steps={},
    )  # fmt: skip
    with double_range():
        found = {
            rows.start: class_probability(draws, part, estimator.corrupted_inputs)
            for rows, part in _matrices(X, centre)
        }
    # Of rows that several processes hold these are this process's, whose devices may come in any order.
    result = np.concatenate([found[start] for start in sorted(found)])
    refuse_overflow(probabilities=result)
    return result


def _matrices(X: Any, centre: Array | None) -> Iterator[tuple[slice, Any]]:
    """Rows less the centre and where they stand; a few at a time if they are elsewhere or the shift would fill them."""
    if centre is None and not is_elsewhere(X):
        yield slice(0, X.shape[0]), X
        return
    for rows, design in row_parts(X, _ROWS):
        parts = [np.concatenate(column) for column in zip(*design.entries(), strict=True)]
        row, column, value = parts or (np.zeros(0, int), np.zeros(0, int), np.zeros(0))
        matrix = csr_array((value, (row, column)), shape=design.shape)
        if centre is None:
            yield rows, matrix
            continue
        for few in blocks(*design.shape):
            yield slice(rows.start + few.start, rows.start + few.stop), shifted(matrix[few].toarray(), centre)
