"""Rows without labels, checked against the labelled ones and put below them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from ..designs import is_dask, is_elsewhere
from .names import FLOATS

__all__ = ["check_unlabelled", "stack"]


def check_unlabelled(rows: Any, share: Any, labelled: Any) -> Any:
    """Return the rows as a checked matrix, or raise ValueError if they or their weight do not fit.

    Examples
    --------
    >>> check_unlabelled([[1.0, 2.0]], 0.5, np.zeros((3, 2))).shape
    (1, 2)
    """
    if not (isinstance(share, float | int | np.number) and np.isfinite(share) and share >= 0):
        raise ValueError(f"weight: expected a finite number >= 0 for the unlabelled rows, got {share!r}.")
    if is_elsewhere(labelled) or is_elsewhere(rows) or is_dask(rows):
        raise TypeError(
            "unlabelled: rows without labels join rows in memory only; for both of them pass an array or a scipy "
            "sparse matrix."
        )
    rows = check_array(rows, accept_sparse="csr", dtype=FLOATS, input_name="unlabelled")
    if rows.shape[1] != labelled.shape[1]:
        raise ValueError(
            f"unlabelled: expected {labelled.shape[1]} columns as in X, got {rows.shape[1]}; transform both with the "
            "same vocabulary or encoder."
        )
    return rows


def stack(labelled: Any, rows: Any) -> Any:
    """Both matrices as one: sparse if either is, for sparse rows are the many and never made dense."""
    if hasattr(labelled, "tocsr") or hasattr(rows, "tocsr"):
        parts: Any = [sparse.csr_array(part) for part in (labelled, rows)]
        return sparse.vstack(parts, format="csr")
    return np.concatenate([labelled, rows])
