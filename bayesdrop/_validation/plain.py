"""Plain arrays of NumPy that are right as they are, of which scikit-learn, a second to import, need not be asked.

Each function says yes only where scikit-learn's check would return the same; else that check is asked, or refuses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["are_classes", "check_matrix", "is_column", "plain_matrix"]

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
# Classes are numbers of whole values below it, which 32-bit integers hold.
_WHOLE = 2.0**31


def plain_matrix(X: Any) -> Any:
    """A finite matrix (n, p) in single or double precision, integers and truth values in double; None for all else.

    Examples
    --------
    >>> plain_matrix(np.array([[1, 2]])).tolist(), plain_matrix(np.array([[np.inf]])), plain_matrix([[1.0]])
    ([[1.0, 2.0]], None, None)
    """
    if type(X) is not np.ndarray or X.ndim != 2 or not X.size:
        return None
    if X.dtype.kind in "biu":
        return X.astype(np.float64)
    return X if X.dtype in _FLOATS and np.isfinite(X).all() else None


def check_matrix(X: Any, **options: Any) -> Any:
    """Features (n, p) in single or double precision, dense or in compressed rows.

    ``options`` are those of scikit-learn's ``check_array``, which words what is refused.
    """
    found = plain_matrix(X)
    if found is not None:
        return found
    from sklearn.utils import check_array

    return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X", **options)


def is_column(y: Any) -> bool:
    """Whether it is an array (n,) and nothing else."""
    return type(y) is np.ndarray and y.ndim == 1


def are_classes(y: Any, count: int) -> bool:
    """Whether an array (n,) with so many different values certainly holds classes: few whole numbers, or texts.

    Examples
    --------
    >>> are_classes(np.array([0.0, 1.0, 1.0, 1.0]), 2), are_classes(np.array([0.5, 1.0, 1.0, 1.0]), 2)
    (True, False)
    """
    if not is_column(y) or 2 * count > len(y):  # of more classes scikit-learn warns
        return False
    return y.dtype.kind in "biuU" or bool(
        y.dtype in _FLOATS and np.all(np.abs(y) < _WHOLE) and np.all(y == np.trunc(y))
    )
