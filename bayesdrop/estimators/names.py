"""What every estimator asks of its data: the types it takes and the names of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["FLOATS", "default_names"]

FLOATS = (np.float64, np.float32)
"""Types that a design keeps as they are."""


def default_names(estimator: Any) -> list[str]:
    """Feature names of a fitted estimator, ``x0, x1, …`` where the data had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{d}" for d in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]
