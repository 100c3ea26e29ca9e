"""Design matrices: a handful of products, for each storage; and the doors at which a user's features become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .admission import admit
from .base import Design
from .blocks.design import Blocks
from .dask import NOT_IN_MEMORY, DaskDesign, is_dask
from .dense import DenseDesign
from .incomplete import FOR_MISSING, checking, with_missing
from .sharded import ShardedDesign, is_sharded
from .sparse import SparseDesign

__all__ = [
    "FOR_MISSING",
    "Blocks",
    "DaskDesign",
    "DenseDesign",
    "Design",
    "ShardedDesign",
    "SparseDesign",
    "admit",
    "as_design",
    "as_local_design",
    "as_sampling_design",
    "as_streamed_design",
    "checking",
    "in_memory",
    "with_missing",
]

Check = Callable[[Any], Any]


def as_design(X: Any, check: Check | None = None, name: str = "X") -> Design:
    """Wrap features where they are: scipy sparse stays sparse, what is elsewhere stays there, anything else is dense.

    Parameters
    ----------
    X : array, data frame, scipy sparse, Blocks, Dask collection, sharded jax.Array or Design (n, p)
        Features; a design is returned as it is.
    check : function, optional
        Makes an array or a sparse matrix in compressed rows of features in memory, or raises; others are checked where
        they are.
    name : str
        Argument, for messages.

    Examples
    --------
    >>> import numpy as np
    >>> as_design(np.ones((2, 3))).shape
    (2, 3)
    """
    # What is common first: to look for the methods of a protocol takes longer than a product of a small matrix.
    plain = isinstance(X, np.ndarray) or issparse(X)
    if not plain and (isinstance(X, DenseDesign | SparseDesign) or isinstance(X, Design)):
        return X
    if is_dask(X):
        return DaskDesign(X)
    if is_sharded(X):
        return ShardedDesign(X)
    if check is not None:
        X = check(admit(X, name))
        if isinstance(X, DenseDesign | SparseDesign):  # with missing entries
            return X
    return SparseDesign(X) if issparse(X) else DenseDesign(X)


def as_local_design(X: Any, check: Check | None = None) -> Design:
    """Wrap features in memory, as :func:`as_design` does; those on devices come here, all others are refused.

    Raises
    ------
    TypeError
        If they lie on a cluster or are read when needed, or other processes hold some of the rows.
    """
    return X if isinstance(X, DenseDesign | SparseDesign) else as_design(in_memory(X), check)


def as_streamed_design(X: Any) -> Design | None:
    """Wrap features that are read when needed or lie on a cluster; None for all others.

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
    """Wrap features as samplers take them: in memory, on the devices of one process, or streamed, which not all take.

    Raises
    ------
    ValueError
        If several processes hold the rows.
    """
    streamed = as_streamed_design(X)
    if streamed is not None:
        return streamed
    if not (isinstance(X, ShardedDesign) or is_sharded(X)):
        return as_local_design(X, check)
    design = X if isinstance(X, ShardedDesign) else ShardedDesign(X)
    if design.processes > 1:
        raise ValueError(
            f"X: {design.processes} processes hold its rows, and bd.sample takes those of one, on as many devices as "
            "it has; run the sampler in one process, on fewer rows if need be. bd.fit takes rows of several."
        )
    return design


def in_memory(X: Any, name: str = "X") -> Any:
    """Return features for what works on arrays alone: those on devices come here, all others are admitted as they are.

    Raises
    ------
    TypeError
        If they lie on a cluster, or other processes hold some of the rows; or as :func:`admit` has it.

    Examples
    --------
    >>> in_memory([[1.0]])
    [[1.0]]
    """
    if is_dask(X):
        raise TypeError(f"{name}: {NOT_IN_MEMORY}")
    if is_sharded(X):
        X = ShardedDesign(X)
    return X.matrix() if isinstance(X, Design) else admit(X, name)
