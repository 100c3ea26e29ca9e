"""Labels and weights of the classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..data import check_sample_weight
from .names import FLOATS

__all__ = ["check_rows", "signs", "weigh_classes"]

Array = Any


def check_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Array, Array]:
    """Check the data of a fit: rows of some weight, the classes, the class number and the weight of each row.

    Raises
    ------
    ValueError
        If there are fewer than two classes, or none of the rows of one has weight.
    """
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=FLOATS)
    check_classification_targets(y)
    classes, code = np.unique(y, return_inverse=True)
    weight = check_sample_weight(sample_weight, X.shape[0])
    if len(classes) < 2:
        raise ValueError(f"y: expected at least two classes, got one class ({classes[0]}); a classifier needs two.")
    totals = np.bincount(code, weights=weight)
    if np.any(totals == 0):
        raise ValueError(
            f"sample_weight: every row of class {classes[np.argmin(totals)]} has weight zero; leave the class out "
            "or give a row some weight."
        )
    if np.any(weight == 0):
        X, code, weight = X[weight > 0], code[weight > 0], weight[weight > 0]
    return X, classes, code, weight


def weigh_classes(class_weight: Any, classes: Array, code: Array, weight: Array) -> Array:
    """Weights of the rows times those of their classes, (n,)."""
    if class_weight is None:
        return weight
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(code, weights=weight, minlength=len(classes))
        return weight * (weight.sum() / (len(classes) * totals))[code]
    return weight * compute_class_weight(class_weight, classes=classes, y=classes[code])[code]


def signs(code: Array, n_classes: int) -> Array:
    """Signs of one problem per class, (n, K), or of the one problem of two classes, (n, 1).

    Examples
    --------
    >>> signs(np.array([0, 1]), 2).tolist()
    [[-1.0], [1.0]]
    """
    positive = np.arange(n_classes) if n_classes > 2 else np.array([1])
    return np.where(code[:, None] == positive, 1.0, -1.0)
