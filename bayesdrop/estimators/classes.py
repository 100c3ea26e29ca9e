"""Labels and weights of the classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from .._memory import check_memory
from .._typing import AnyArray, Float, PerRow, Shaped
from ..designs import Design
from ..designs.dask.methods import by_blocks
from .validation import check_training

__all__ = ["ClassScores", "check_class_memory", "check_rows", "shares", "signs"]


def check_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[Design, Shaped[np.ndarray, " K"], PerRow, PerRow]:
    """Check the data of a fit: rows of some weight, the classes, the class number and the weight of each row.

    Raises
    ------
    ValueError
        If there are fewer than two classes, or none of the rows of one has weight.
    """
    design = check_training(estimator, X)
    classes, code = design.codes(y)
    weight = design.row_weights(sample_weight)
    if len(classes) < 2:
        raise ValueError(f"y: expected at least two classes, got one class ({classes[0]}); a classifier needs two.")
    totals = design.class_totals(code, weight, len(classes))
    if np.any(totals == 0):
        raise ValueError(
            f"sample_weight: every row of class {classes[np.argmin(totals)]} has weight zero; leave the class out "
            "or give a row some weight."
        )
    design, weight, code = design.drop_zero_weight(weight, code)
    return design, classes, code, weight


def check_class_memory(n_classes: int, shape: tuple[int, int], *, rows_here: bool) -> None:
    """Raise ValueError if a fit of so many classes has no room.

    It holds two numbers at least for each row and class, where the rows are here, and four for each feature and class:
    weights, gradient, curvature and a step.

    Examples
    --------
    >>> check_class_memory(10**6, (10**7, 20), rows_here=True)
    Traceback (most recent call last):
    ...
    ValueError: y: a fit of 1,000,000 classes takes at least 160,001 GB, and this process may have ...
    """
    n, p = shape
    check_memory(
        f"y: a fit of {n_classes:,} classes takes at least",
        8 * n_classes * (2 * n * rows_here + 4 * (p + 1)),
        "join rare classes, take fewer rows, or a regressor if y is a number.",
    )


def signs(code: PerRow, n_classes: int) -> PerRow:
    """Signs of one problem per class, (n, K), or of the one problem of two classes, (n, 1).

    Examples
    --------
    >>> signs(np.array([0, 1]), 2).tolist()
    [[-1.0], [1.0]]
    """
    positive = np.arange(n_classes) if n_classes > 2 else np.array([1])
    return np.where(code[:, None] == positive, 1.0, -1.0)


def shares(positive: Float[AnyArray, "m K"]) -> Float[AnyArray, "m classes"]:
    """Class probabilities, rows summing to 1, from those of the positive class (n, 1), or of each against the rest.

    Examples
    --------
    >>> shares(np.array([[0.25]])).tolist(), shares(np.array([[0.2, 0.1, 0.1]])).tolist()
    ([[0.75, 0.25]], [[0.5, 0.25, 0.25]])
    """
    positive = np.clip(positive, 0.0, 1.0)
    if positive.shape[1] == 1:
        return np.hstack([1 - positive, positive])
    total = positive.sum(axis=1, keepdims=True)
    return np.where(total > 0, positive / np.where(total > 0, total, 1.0), 1 / positive.shape[1])


class ClassScores(ClassifierMixin):
    """Classes and their logarithmic probabilities from the scores and probabilities of a classifier."""

    classes_: Shaped[np.ndarray, " K"]

    def decision_function(self, X: Any) -> Float[AnyArray, "m ..."]:
        """Scores, (n,) for two classes and (n, K) for more."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> Float[AnyArray, "m K"]:
        """Class probabilities, (n, K); rows sum to 1."""
        raise NotImplementedError

    @by_blocks
    def predict(self, X: Any) -> Shaped[AnyArray, " m"]:
        """Class with the largest score, (n,)."""
        score = self.decision_function(X)
        index = score.argmax(axis=1) if score.ndim == 2 else (score > 0).astype(int)
        return self.classes_[index]

    @by_blocks
    def predict_log_proba(self, X: Any) -> Float[AnyArray, "m K"]:
        """Logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
