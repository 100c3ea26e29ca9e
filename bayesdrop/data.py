"""Checked data: a matrix, targets (two classes as signs, or numbers), row weights and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._validation import check_names, check_numbers, refuse_masked, refuse_scalar, refuse_surrogates
from .dask_data import class_codes, numbers, row_weights
from .designs import DaskDesign, ShardedDesign, in_memory, is_elsewhere, is_sharded, keeps_rows, placed

__all__ = ["Data", "check_sample_weight", "feature_names_of", "labels_elsewhere", "labels_of_processes", "prepare"]

Array = Any

_ALL_ZERO = "sample_weight: all weights are zero, so no row is left to fit; give some a weight above 0."


@dataclass(frozen=True)
class Data:
    """Data of a two-class problem or a regression.

    Attributes
    ----------
    X : array, scipy sparse, Blocks, DaskDesign or ShardedDesign (n, p)
        Features, finite, float64 or float32. Beside a design that keeps its rows the other fields lie where they are:
        on the cluster, or with the rows of this process.
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
        """Leave out the rows of weight zero, which are no data; sharded features keep them, to be shared equally."""
        keep = self.weight > 0
        # Where rows lie elsewhere they stay: rows that count nothing change nothing, and leaving them out moves others.
        if keeps_rows(self.X) or np.all(keep):
            return self
        return replace(self, X=self.X[keep], target=self.target[keep], weight=self.weight[keep])

    def minimum(self) -> float:
        """Smallest feature, 0 if there are none."""
        if is_sharded(self.X):
            return self.X.minimum()
        return float(self.X.min()) if 0 not in self.X.shape else 0.0

    def occurrences(self, index: Array, size: int) -> Array:
        """Weighted number of non-zero entries behind each of ``size`` rates, (size,); ``index`` (p,) maps features."""
        if is_sharded(self.X):
            return np.bincount(index, weights=sum(self.X.sign_sums(self.weight[:, None]))[:, 0], minlength=size)[:size]
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
    if len(np.shape(X)) != 2:
        raise ValueError(f"X: expected a matrix (n, p), got shape {np.shape(X)}; give a single row as X[None, :].")
    return [f"x{d}" for d in range(np.shape(X)[1])]


def check_sample_weight(sample_weight: Any, n_rows: int, all_zero: bool = False) -> Array:
    """Row weights as an array (n,), ones by default; raise ValueError if negative or of another length.

    Also if all are zero, unless that is allowed.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    weight = check_numbers(sample_weight, "sample_weight", f"{n_rows} numbers (one per row)")
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight: expected {n_rows} numbers (one per row), got shape {weight.shape}.")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ValueError("sample_weight: expected finite numbers >= 0, got a negative, NaN or infinite one.")
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not np.isfinite(total):
        raise ValueError(
            "sample_weight: expected weights whose sum is a finite number, got a sum that overflows; divide them all "
            "by the largest, and multiply C by it."
        )
    if not (all_zero or np.any(weight > 0)):
        raise ValueError(_ALL_ZERO)
    return weight


def prepare(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
    binary: bool = True,
    needs_memory: bool = True,
) -> Data:
    """Check a two-class problem and code its labels as signs, or a regression if not ``binary``.

    Features that are read in blocks or lie on a cluster are checked there; they pass unless the caller keeps something
    for every entry and needs them ``needs_memory``.

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

    if needs_memory and not isinstance(X, ShardedDesign):
        X = in_memory(X)
    else:
        X = placed(X)
    columns = feature_names_of(X) if feature_names is None and hasattr(X, "columns") else None
    if not is_elsewhere(X) or (needs_memory and not isinstance(X, ShardedDesign)):
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X")
    given = feature_names if feature_names is not None else columns
    names = check_names(feature_names_of(X) if given is None else given, X.shape[1])
    if keeps_rows(X):
        code, weight, classes, totals = labels_elsewhere(X, y, sample_weight, numeric=not binary)
        if classes is None:
            return Data(X, code, weight, names, None)
    else:
        refuse_masked(y, "y")
        refuse_scalar(y, "y")
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        weight = check_sample_weight(sample_weight, X.shape[0])
        if not binary:
            target = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
            return Data(X, target, weight, names, None)
        check_classification_targets(y)
        classes, code = np.unique(y, return_inverse=True)
        refuse_surrogates(classes.tolist(), "y")
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


def labels_elsewhere(X: Any, y: Any, sample_weight: Any, *, numeric: bool) -> tuple[Array, Array, Any, Any]:
    """Check the labels and weights of rows that a design keeps where they are.

    Returns
    -------
    target, weight : array (n,)
        Numbers, or the place of each row's class among the classes, and row weights: Dask arrays, or of the rows of
        this process.
    classes, totals : array (K,) or None
        Classes and the weight of each of them; None if ``numeric``.
    """
    if isinstance(X, DaskDesign):
        weight = row_weights(X, sample_weight)
        if numeric:
            return numbers(X, y), weight, None, None
        classes, code, totals = class_codes(X, y, weight)
        return code, weight, classes, totals
    target, weight, classes = labels_of_processes(X, y, sample_weight, numeric)
    if classes is None:
        return target, weight, None, None
    return target, weight, classes, X.total(np.bincount(target, weights=weight, minlength=len(classes))[None])


def labels_of_processes(X: ShardedDesign, y: Any, sample_weight: Any, numeric: bool) -> tuple[Array, Array, Any]:
    """Check the labels and weights of this process's rows, and agree with the other processes on the classes.

    Returns
    -------
    target : array (n,)
        Numbers, or the place of each row's class among the classes; ``n`` rows of this process.
    weight : array (n,)
        Row weights.
    classes : array (K,) or None
        Classes of all processes, None if ``numeric``.

    Raises
    ------
    ValueError
        In all processes, if something is wrong in one of them.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> labels_of_processes(ShardedDesign(jnp.ones((2, 1))), ["b", "a"], None, numeric=False)[0].tolist()
    [1, 0]
    """
    from sklearn.utils import check_array, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    target, weight = np.empty(0), np.empty(0)

    def check() -> Array | None:
        nonlocal target, weight
        target = column_or_1d(y, warn=True)
        if len(target) != X.rows:
            raise ValueError(
                f"y: expected {X.rows} entries, one for each row of X that this process holds, got {len(target)}."
            )
        weight = check_sample_weight(sample_weight, X.rows, all_zero=X.processes > 1)
        if numeric:
            target = check_array(target, ensure_2d=False, dtype=np.float64, input_name="y")
            return None
        check_classification_targets(target)
        return np.unique(target)

    found = X.together(check)
    if X.processes > 1 and not X.total(weight[:, None])[0] > 0:
        raise ValueError(_ALL_ZERO)
    if numeric:
        return target, weight, None
    classes = np.unique(np.concatenate(found))
    return np.searchsorted(classes, target), weight, classes
