"""Checked data: a matrix, targets (two classes as signs, or numbers), row weights and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .dask_data import class_codes, numbers, row_weights
from .designs import DaskDesign, is_elsewhere, placed

__all__ = ["Data", "check_sample_weight", "feature_names_of", "prepare"]

Array = Any


@dataclass(frozen=True)
class Data:
    """Data of a two-class problem or a regression.

    Attributes
    ----------
    X : array, scipy sparse, Blocks or DaskDesign (n, p)
        Features, finite, float64 or float32.
    target : array (n,)
        Labels as −1 and +1, or numbers.
    weight : array (n,)
        Row weights, >= 0.
    feature_names : list of str
        Names of the columns, ``x0, x1, …`` where the input has none.
    classes : array (2,) or None
        The user's labels, negative class first; None in a regression.
    """

    X: Any
    target: Array
    weight: Array
    feature_names: list[str]
    classes: Array | None

    def with_weight(self) -> Data:
        """Leave out the rows of weight zero, which are no data."""
        keep = self.weight > 0
        # On a cluster they stay: rows that count nothing change nothing, and leaving them out would move the others.
        if isinstance(self.X, DaskDesign) or np.all(keep):
            return self
        return replace(self, X=self.X[keep], target=self.target[keep], weight=self.weight[keep])

    def occurrences(self, index: Array, size: int) -> Array:
        """Weighted number of non-zero entries behind each of ``size`` rates, (size,); ``index`` (p,) maps features."""
        count = np.asarray((self.X != 0).T @ self.weight, dtype=np.float64)
        return np.bincount(index, weights=count, minlength=size)[:size]


def feature_names_of(X: Any) -> list[str]:
    """Column names of a data frame (pandas, polars), else ``x0, x1, …``.

    Examples
    --------
    >>> feature_names_of(np.zeros((1, 2)))
    ['x0', 'x1']
    """
    columns = getattr(X, "columns", None)
    if columns is not None:
        return [str(name) for name in columns]
    return [f"x{d}" for d in range(np.shape(X)[1])]


def check_sample_weight(sample_weight: Any, n_rows: int) -> Array:
    """Row weights as an array (n,), ones by default; raise ValueError if negative, all zero or of another length."""
    if sample_weight is None:
        return np.ones(n_rows)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight: expected {n_rows} numbers (one per row), got shape {weight.shape}.")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ValueError("sample_weight: expected finite numbers >= 0, got a negative, NaN or infinite one.")
    if not np.any(weight > 0):
        raise ValueError("sample_weight: all weights are zero, so no row is left to fit; give some a weight above 0.")
    return weight


def prepare(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
    binary: bool = True,
    in_memory: bool = True,
) -> Data:
    """Check a two-class problem and code its labels as signs, or a regression if not ``binary``.

    Features that are read in blocks or lie on a cluster are checked there; they pass unless the caller keeps something
    for every entry and needs them ``in_memory``.

    Raises
    ------
    ValueError
        On NaN, infinite, complex or text features, no rows or columns, other than two classes, or weights and
        names that do not fit.
    TypeError
        If features that are elsewhere are needed in memory.

    Examples
    --------
    >>> prepare([[0.0], [1.0]], ["no", "yes"]).target.tolist()
    [-1.0, 1.0]
    """
    from sklearn.utils import check_array, check_consistent_length, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    names = list(feature_names) if feature_names is not None else None
    if names is None and hasattr(X, "columns"):
        names = feature_names_of(X)
    X = placed(X)
    if in_memory or not is_elsewhere(X):
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X")
    if names is None:
        names = feature_names_of(X)
    if len(names) != X.shape[1] or len(set(names)) != len(names):
        raise ValueError(
            f"feature_names: expected {X.shape[1]} different names (one per column), got {len(names)} names, "
            f"{len(set(names))} different."
        )
    if isinstance(X, DaskDesign):
        weight = row_weights(X, sample_weight)
        if not binary:
            return Data(X, numbers(X, y), weight, names, None)
        classes, code, totals = class_codes(X, y, weight)
    else:
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        weight = check_sample_weight(sample_weight, X.shape[0])
        if not binary:
            target = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
            return Data(X, target, weight, names, None)
        check_classification_targets(y)
        classes, code = np.unique(y, return_inverse=True)
        totals = np.bincount(code, weights=weight)
    if len(classes) != 2:
        advice = (
            "a classifier needs two"
            if len(classes) < 2
            else "use DropoutSVC or DropoutLogisticRegression, which "
            "solve more classes one against the rest, or take y == one_class"
        )
        raise ValueError(f"y: expected two classes, got {len(classes)} ({classes[:5].tolist()} …); {advice}.")
    for label, total in zip(classes, totals, strict=True):
        if total == 0:
            raise ValueError(f"sample_weight: every row of class {label} has weight zero; two classes are needed.")
    return Data(X, np.where(code == 1, 1.0, -1.0), weight, names, classes)
