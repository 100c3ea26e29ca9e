"""Design matrices: a handful of products, for each storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scipy.sparse import issparse

from .base import Design
from .blocks import Blocks
from .dense import DenseDesign
from .sharded import ShardedDesign, is_sharded, on_this_machine
from .sparse import SparseDesign

__all__ = [
    "Blocks",
    "DenseDesign",
    "Design",
    "ShardedDesign",
    "SparseDesign",
    "as_design",
    "is_read_in_blocks",
    "is_sharded",
    "on_this_machine",
    "row_parts",
]


def as_design(X: Any) -> Design:
    """Wrap a checked matrix: sparse stays sparse, blocks stay blocks, JAX arrays stay on their devices, else dense.

    Examples
    --------
    >>> import numpy as np
    >>> as_design(np.ones((2, 3))).shape
    (2, 3)
    """
    if is_read_in_blocks(X):
        return X
    if is_sharded(X):
        return ShardedDesign.of(X)
    return SparseDesign(X) if issparse(X) else DenseDesign(X)


def is_read_in_blocks(X: Any) -> bool:
    """True for features that are read when needed: checked as they are read, and never to be made an array.

    Examples
    --------
    >>> import numpy as np
    >>> is_read_in_blocks(np.ones((2, 3)))
    False
    """
    return isinstance(X, Blocks)


def row_parts(X: Any, size: int) -> Iterator[tuple[slice, Design]]:
    """Designs of some rows each, with where they stand: ``size`` rows, or blocks as they are read.

    Examples
    --------
    >>> import numpy as np
    >>> [part.shape for _, part in row_parts(np.ones((5, 2)), 3)]
    [(3, 2), (2, 2)]
    """
    if is_read_in_blocks(X):
        yield from X.parts()
        return
    if is_sharded(X):
        yield from ShardedDesign.of(X).parts(size)
        return
    n = X.shape[0]
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        yield rows, as_design(X[rows])
