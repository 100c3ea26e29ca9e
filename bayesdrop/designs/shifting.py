"""Dense rows about a centre, ``X − c``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .._typing import Float
from .block_threads import side_by_side
from .compiled.entries import ROUNDING

__all__ = ["shift"]

# Entries of a block that a thread shifts at once.
_AT_ONCE = 1 << 20


def shift(X: Float[np.ndarray, "n p"], centre: Float[np.ndarray, " p"], dtype: Any) -> Float[np.ndarray, "n p"]:
    """``X − c``; entries at ``c`` but for rounding become 0, for 0 is what noise leaves alone.

    Examples
    --------
    >>> shift(np.array([[1.0, 0.0], [3.0, 5.0]]), np.array([1.0, 0.0]), np.float64).tolist()
    [[0.0, 0.0], [2.0, 5.0]]
    """
    result = np.empty(X.shape, dtype=dtype)
    columns = slice(None) if np.all(centre) else np.flatnonzero(centre)
    about = centre[columns]

    def some(rows: slice) -> None:
        if len(about) < len(centre):
            result[rows] = X[rows]
        part = X[rows, columns] - about
        part[np.abs(part) <= ROUNDING * np.abs(about)] = 0.0
        result[rows, columns] = part

    # Half of the time goes into memory that is written for the first time, which threads share.
    step = max(1, _AT_ONCE // max(X.shape[1], 1))
    side_by_side([partial(some, slice(start, start + step)) for start in range(0, len(X), step)])
    return result
