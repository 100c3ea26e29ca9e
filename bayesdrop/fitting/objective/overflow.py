"""Fits whose numbers leave double precision: told, never returned.

Features of 1e160 have squares that no double holds, and an energy that is infinite or NaN compares as below every
tolerance. What a fit returns is looked at once, at its end; on the way NumPy's warnings would only say the same before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["double_range", "refuse_overflow"]

_ADVICE = (
    "X, y, sample_weight, unlabelled, C: the numbers leave double precision (their {what}); bring features and targets "
    "to a size around 1, as sklearn.preprocessing.StandardScaler does, and lower C or the weights if they are huge."
)


@contextmanager
def double_range() -> Iterator[None]:
    """Keep NumPy's warnings about overflow to itself, and put failed factorisations into this module's words.

    Examples
    --------
    >>> with double_range():
    ...     _ = np.linalg.cholesky(-np.eye(2))
    Traceback (most recent call last):
    ValueError: X, y, sample_weight, unlabelled, C: the numbers leave double precision (their linear algebra: Matrix is
    not positive definite); bring features and targets to a size around 1, as sklearn.preprocessing.StandardScaler does,
    and lower C or the weights if they are huge.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            yield
    except (np.linalg.LinAlgError, OverflowError) as error:
        raise ValueError(_ADVICE.format(what=f"linear algebra: {error}")) from error
    except ValueError as error:
        # What scipy.linalg says of a matrix that overflowed.
        if "infs or NaNs" not in str(error):
            raise
        raise ValueError(_ADVICE.format(what="linear algebra")) from error


def refuse_overflow(**parts: Any) -> None:
    """Raise ValueError if a result is not finite; names of the parts are words for the message.

    Examples
    --------
    >>> refuse_overflow(weights=np.ones(2), energy=np.ones(1))
    """
    broken = [name.replace("_", " ") for name, part in parts.items() if not np.all(np.isfinite(part))]
    if broken:
        raise ValueError(_ADVICE.format(what=f"{' and '.join(broken)} overflow"))
