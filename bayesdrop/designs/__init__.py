"""Convert a user's features to a design, which has the products of a matrix whatever its storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._validation import table_names, text_names
from .admission import FOR_MISSING, admit, checking, with_missing
from .base import Design
from .blocks.design import Blocks
from .dask import NOT_IN_MEMORY, DaskDesign, is_dask, is_frame
from .dense import DenseDesign
from .sparse import SparseDesign

__all__ = [
    "FOR_MISSING",
    "Blocks",
    "DaskDesign",
    "DenseDesign",
    "Design",
    "SparseDesign",
    "admit",
    "as_design",
    "as_local_design",
    "as_sampling_design",
    "as_streamed_design",
    "checking",
    "column_names",
    "in_memory",
    "is_table_in_memory",
    "read_as",
    "with_columns_in",
    "with_missing",
]

Check = Callable[[Any], Any]


def as_design(X: Any, check: Check | None = None, name: str = "X") -> Design:
    """Wrap features as a design; sparse, streamed and Dask features remain so, and all others become dense.

    Parameters
    ----------
    X : array, data frame, scipy sparse, Blocks, Dask collection or Design (n, p)
        Features; a design is returned unchanged.
    check : function, optional
        Check of features in memory, which returns an array, compressed rows or a design, or raises.
    name : str
        Name of the argument in messages.

    Examples
    --------
    >>> import numpy as np
    >>> as_design(np.ones((2, 3))).shape
    (2, 3)
    """
    if not (isinstance(X, np.ndarray) or issparse(X)):
        if isinstance(X, Design):
            return X
        if is_dask(X):
            return DaskDesign(X)
    if check is not None:
        X = check(admit(X, name))
        if isinstance(X, DenseDesign | SparseDesign):  # with missing entries
            return X
    return SparseDesign(X) if issparse(X) else DenseDesign(X)


def column_names(X: Any, name: str = "X") -> list[str] | None:
    """Names of the columns of features of any kind; None if they have none.

    Examples
    --------
    >>> import numpy as np
    >>> column_names({"age": [31.0], 2020: [1.0]}), column_names(np.ones((1, 2)))
    (['age', '2020'], None)
    """
    if isinstance(X, np.ndarray) or issparse(X):
        return table_names(X, name)
    if isinstance(X, Design):
        return X.columns
    if is_dask(X):
        return text_names(X.columns, name) if is_frame(X) and X.ndim == 2 else None
    return table_names(X, name)


def is_table_in_memory(X: Any) -> bool:
    """Whether features with names are a table in memory rather than a design or a Dask frame."""
    return column_names(X) is not None and not (isinstance(X, Design) or is_dask(X))


def with_columns_in(X: Any, order: list[int] | None, name: str = "X") -> Any:
    """Return a table in memory with its columns in ``order``; for None, and for designs and Dask, ``X`` unchanged.

    Examples
    --------
    >>> with_columns_in({"b": [1], "a": [2]}, [1, 0]).columns.tolist()
    ['a', 'b']
    """
    return X if order is None or isinstance(X, Design) or is_dask(X) else admit(X, name).iloc[:, order]


def read_as(X: Any, n_features: int, zero_based: bool | None) -> Any:
    """Read svmlight files with the features of a fit, see :meth:`Blocks.read_as`; return other features unchanged."""
    return X.read_as(n_features, zero_based) if isinstance(X, Blocks) else X


def as_local_design(X: Any, check: Check | None = None) -> Design:
    """Wrap features in memory, as :func:`as_design` does.

    Raises
    ------
    TypeError
        If the features are on a cluster or streamed.
    """
    return X if isinstance(X, DenseDesign | SparseDesign) else as_design(in_memory(X), check)


def as_streamed_design(X: Any) -> Design | None:
    """Wrap features that are streamed or on a cluster; None for all others.

    Examples
    --------
    >>> import numpy as np
    >>> as_streamed_design(np.ones((2, 3))) is None
    True
    """
    if is_dask(X):
        return DaskDesign(X)
    return X if isinstance(X, Blocks | DaskDesign) else None


def as_sampling_design(X: Any, check: Check | None = None) -> Design:
    """Wrap features for a sampler: in memory, or streamed, which not every sampler accepts."""
    streamed = as_streamed_design(X)
    return as_local_design(X, check) if streamed is None else streamed


def in_memory(X: Any, name: str = "X") -> Any:
    """Return features as a matrix in memory, for code that works on arrays alone.

    Raises
    ------
    TypeError
        If the features are streamed or on a cluster, or as :func:`admit` raises.

    Examples
    --------
    >>> in_memory([[1.0]]).shape
    (1, 1)
    """
    if is_dask(X):
        raise TypeError(f"{name}: {NOT_IN_MEMORY}")
    return X.matrix() if isinstance(X, Design) else admit(X, name)
