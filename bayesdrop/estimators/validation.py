"""What every estimator asks of its data: the types it takes, their checks and the names of the columns."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from .._typing import AnyArray, Shaped
from .._validation import refuse_masked, refuse_scalar
from ..designs import Design, as_design, in_memory

__all__ = ["FLOATS", "check_features", "check_here", "check_training", "default_names"]

FLOATS = (np.float64, np.float32)
"""Types that a design keeps as they are."""


def default_names(estimator: Any) -> list[str]:
    """Feature names of a fitted estimator, ``x0, x1, …`` where the data had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return list(_numbered(estimator.n_features_in_)) if names is None else [str(name) for name in names]


@lru_cache(maxsize=4)
def _numbered(count: int) -> tuple[str, ...]:
    """Names that a fit asks for several times, which of many columns takes as long as a step of it."""
    return tuple(f"x{d}" for d in range(count))


def check_training(estimator: Any, X: Any) -> Design:
    """Check the features of a fit where they are, and keep the number and the names of the features."""
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    design = as_design(X, partial(validate_data, estimator, accept_sparse="csr", dtype=FLOATS))
    estimator.n_features_in_ = design.shape[1]
    if design.columns is not None:
        estimator.feature_names_in_ = np.array(design.columns, dtype=object)
    return design


def check_here(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[Any, Shaped[AnyArray, "n ..."]]:
    """Check features and labels that have to be in memory; ``options`` are those of ``validate_data``."""
    refuse_masked(y, "y")
    refuse_scalar(y, "y")
    return validate_data(estimator, in_memory(X), y, accept_sparse="csr", dtype=FLOATS, **options)


def check_features(estimator: Any, X: Any) -> Design:
    """Check new rows of a fitted estimator; raise ValueError if their columns are not those of the fit."""
    design = as_design(X, partial(validate_data, estimator, accept_sparse="csr", dtype=FLOATS, reset=False))
    names = getattr(estimator, "feature_names_in_", None)
    if design.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X: {type(estimator).__name__} was fitted to {estimator.n_features_in_} features, and these rows have "
            f"{design.shape[1]}; pass the same columns."
        )
    if names is not None and design.columns is not None and list(names) != design.columns:
        raise ValueError(f"X: expected the columns {list(names)} of the fit in this order, got {design.columns}.")
    return design
