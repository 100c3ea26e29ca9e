"""Design matrices: a handful of products, for each storage."""

from __future__ import annotations

from typing import Any

from scipy.sparse import issparse

from .base import Design
from .dense import DenseDesign
from .sparse import SparseDesign

__all__ = ["DenseDesign", "Design", "SparseDesign", "as_design"]


def as_design(X: Any) -> Design:
    """Wrap a checked matrix: scipy sparse stays sparse, anything else is dense.

    Examples
    --------
    >>> import numpy as np
    >>> as_design(np.ones((2, 3))).shape
    (2, 3)
    """
    return SparseDesign(X) if issparse(X) else DenseDesign(X)
