"""What every estimator asks of its data: the types it takes, their checks and the names of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.validation import validate_data

from .._validation import refuse_masked, refuse_scalar
from ..designs import in_memory, is_elsewhere, keeps_rows, placed

__all__ = ["FLOATS", "check_features", "check_here", "check_labelled", "default_names"]

Array = Any

FLOATS = (np.float64, np.float32)
"""Types that a design keeps as they are."""


def default_names(estimator: Any) -> list[str]:
    """Feature names of a fitted estimator, ``x0, x1, …`` where the data had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{d}" for d in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]


def check_labelled(estimator: Any, X: Any, y: Any, *, y_numeric: bool = False) -> tuple[Any, Array]:
    """Check the features and labels of a fit, and keep the number and the names of the features.

    Features that are read in blocks or lie on a cluster are checked there, and so are labels beside the latter.
    """
    X = placed(X)
    refuse_masked(y, "y")
    refuse_scalar(y, "y")
    if not is_elsewhere(X):
        return validate_data(estimator, X, y, accept_sparse="csr", dtype=FLOATS, y_numeric=y_numeric)
    if not keeps_rows(X):
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        check_consistent_length(X, y)
    estimator.n_features_in_ = X.shape[1]
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    if X.columns is not None:
        estimator.feature_names_in_ = np.array(X.columns, dtype=object)
    return X, y


def check_here(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[Any, Array]:
    """Check features and labels that have to be in memory; ``options`` are those of ``validate_data``."""
    refuse_masked(y, "y")
    refuse_scalar(y, "y")
    return validate_data(estimator, in_memory(X), y, accept_sparse="csr", dtype=FLOATS, **options)


def check_features(estimator: Any, X: Any) -> Any:
    """Check new rows of a fitted estimator; raise ValueError if their columns are not those of the fit."""
    X = placed(X)
    if not is_elsewhere(X):
        return validate_data(estimator, X, accept_sparse="csr", dtype=FLOATS, reset=False)
    names = getattr(estimator, "feature_names_in_", None)
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X: {type(estimator).__name__} was fitted to {estimator.n_features_in_} features, and these rows have "
            f"{X.shape[1]}; pass the same columns."
        )
    if names is not None and X.columns is not None and list(names) != X.columns:
        raise ValueError(f"X: expected the columns {list(names)} of the fit in this order, got {X.columns}.")
    return X
