"""Targets and weights beside a matrix on a Dask cluster: checked and coded where the rows are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ._validation import refuse_masked
from .designs import DaskDesign

__all__ = ["class_codes", "numbers", "row_weights"]

Array = Any


def row_weights(X: DaskDesign, sample_weight: Any) -> Array:
    """Row weights (n,), ones by default; raise ValueError if negative, not finite, all zero or of another length."""
    if sample_weight is None:
        return X.zeros(1)[:, 0] + 1.0
    if np.ndim(sample_weight) == 0:
        sample_weight = np.full(X.shape[0], float(sample_weight))
    refuse_masked(sample_weight, "sample_weight")
    weight = X.vector(sample_weight, "sample_weight").astype(np.float64)
    facts = X.gather(_weight_facts, weight)
    if not all(finite and not negative for finite, negative, _ in facts):
        raise ValueError("sample_weight: expected finite numbers >= 0, got a negative, NaN or infinite one.")
    if not any(positive for _, _, positive in facts):
        raise ValueError("sample_weight: all weights are zero, so no row is left to fit; give some a weight above 0.")
    return weight


def numbers(X: DaskDesign, y: Any) -> Array:
    """Targets of a regression, (n,); raise ValueError if one is not finite."""
    refuse_masked(y, "y")
    target = X.vector(y, "y").astype(np.float64)
    if not all(finite for finite, _, _ in X.gather(_weight_facts, target)):
        raise ValueError("y: expected finite numbers, got a NaN or infinite one.")
    return target


def class_codes(X: DaskDesign, y: Any, weight: Array) -> tuple[Array, Array, Array]:
    """Classes (K,), the class number of each row (n,) and the weight of each class (K,).

    A class may occur in some blocks only.
    """
    from sklearn.utils.multiclass import check_classification_targets

    refuse_masked(y, "y")
    y = X.vector(y, "y")
    found = X.gather(_class_facts, y, weight)
    classes = np.unique(np.concatenate([labels for labels, _ in found]))
    # Three of each, since labels that all differ look like measurements.
    check_classification_targets(np.repeat(classes, 3))
    totals = np.zeros(len(classes))
    for labels, parts in found:
        totals[np.searchsorted(classes, labels)] += parts
    return classes, X.rowwise(partial(np.searchsorted, classes), y), totals


def _weight_facts(values: Array) -> tuple[bool, bool, bool]:
    return bool(np.all(np.isfinite(values))), bool(np.any(values < 0)), bool(np.any(values > 0))


def _class_facts(y: Array, weight: Array) -> tuple[Array, Array]:
    labels, code = np.unique(y, return_inverse=True)
    return labels, np.bincount(code, weights=weight, minlength=len(labels))
