"""Design matrices: a handful of products, for each storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scipy.sparse import issparse

from .admission import admit
from .base import Design
from .blocks import Blocks
from .dask import NOT_IN_MEMORY, DaskDesign, is_dask
from .dense import DenseDesign
from .sharded import ShardedDesign, is_sharded, on_this_machine
from .sparse import SparseDesign

__all__ = [
    "Blocks",
    "DaskDesign",
    "DenseDesign",
    "Design",
    "ShardedDesign",
    "SparseDesign",
    "admit",
    "as_design",
    "in_memory",
    "is_dask",
    "is_elsewhere",
    "is_sharded",
    "keeps_rows",
    "on_this_machine",
    "placed",
    "row_parts",
]


def as_design(X: Any) -> Design:
    """Wrap a checked matrix: scipy sparse stays sparse, what is elsewhere stays there, anything else is dense.

    Examples
    --------
    >>> import numpy as np
    >>> as_design(np.ones((2, 3))).shape
    (2, 3)
    """
    if is_elsewhere(X):
        return placed(X)
    return SparseDesign(X) if issparse(X) else DenseDesign(X)


def placed(X: Any) -> Any:
    """Make a Dask collection or a JAX array on several devices a design where it is; all else is admitted as it is.

    Examples
    --------
    >>> placed([[1.0]])
    [[1.0]]
    """
    if is_dask(X):
        return DaskDesign(X)
    return ShardedDesign.of(X) if is_sharded(X) else admit(X)


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
        raise TypeError(NOT_IN_MEMORY)
    return admit(on_this_machine(X), name)


def keeps_rows(X: Any) -> bool:
    """True for designs whose vectors over the rows, such as labels, are checked and coded where the rows are.

    Examples
    --------
    >>> import numpy as np
    >>> keeps_rows(np.ones((2, 3)))
    False
    """
    return isinstance(X, DaskDesign | ShardedDesign)


def is_elsewhere(X: Any) -> bool:
    """True for features that are checked and not held in memory: read when needed, on a cluster or on devices.

    Examples
    --------
    >>> import numpy as np
    >>> is_elsewhere(np.ones((2, 3)))
    False
    """
    return isinstance(X, Blocks | DaskDesign) or is_sharded(X)


def row_parts(X: Any, size: int) -> Iterator[tuple[slice, Design]]:
    """Designs of some rows each, with where they stand: ``size`` rows, or blocks as they are read.

    Examples
    --------
    >>> import numpy as np
    >>> [part.shape for _, part in row_parts(np.ones((5, 2)), 3)]
    [(3, 2), (2, 2)]
    """
    if isinstance(X, Blocks):
        yield from X.parts()
        return
    if is_sharded(X):
        yield from ShardedDesign.of(X).parts(size)
        return
    n = X.shape[0]
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        yield rows, as_design(X[rows])
