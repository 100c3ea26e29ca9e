"""Merge equal rows of a design, for fits whose result depends on the order of sums and for corrupted copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from .._typing import Bool, Float, Int, Num
from .base import Design
from .threads import LIMITS

__all__ = ["merge_duplicates"]


def merge_duplicates(
    design: Design, labels: Num[np.ndarray, "n m"], weight: Float[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, " g"], Float[np.ndarray, " g"]]:
    """Return the index of one row of each group of equal rows, and the total weight of the group.

    The order of the groups depends neither on the order of the rows nor on the columns' origins and units, so that a
    row of weight 2 and the row twice give the same result.

    Parameters
    ----------
    design : Design (n, p)
        Features.
    labels : array (n, m)
        Further values that must be equal in equal rows.
    weight : array (n,)
        Row weights.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> merge_duplicates(as_design(np.array([[2.0], [1.0], [2.0]])), np.zeros((3, 1)), np.array([1.0, 2.0, 1.0]))
    (array([1, 0]), array([2., 2.]))
    """
    n = len(weight)
    # Dividing by the columns' spreads makes the keys independent of units and of the order of the rows.
    columns = design.column_summary(weight)
    spread = np.where(columns.scatter > 0, np.sqrt(columns.scatter), 1.0)
    key = np.asarray(design.matvec(np.random.default_rng(0).normal(size=len(spread)) / spread))
    order = np.lexsort((key, *labels.T))
    # Keys of equal rows differ by round-off, which depends on the position of a row in its block.
    is_near = np.abs(np.diff(key[order])) <= LIMITS.key_rounding * np.max(np.abs(key), initial=np.finfo(float).tiny)
    is_near &= np.all(labels[order[1:]] == labels[order[:-1]], axis=1)
    leader = np.arange(n)
    if np.any(is_near):
        candidates = np.zeros(n, dtype=bool)
        candidates[order[1:][is_near]] = candidates[order[:-1][is_near]] = True
        first: dict[bytes, int] = {}
        for row, text in _contents(design, candidates):
            leader[row] = first.setdefault(text + labels[row].tobytes(), row)
    rows, place, number = np.unique(leader[order], return_index=True, return_inverse=True)
    total = np.bincount(number, weight[order])
    ranks = np.argsort(place)
    return rows[ranks], total[ranks]


def _contents(design: Design, is_candidate: Bool[np.ndarray, " n"]) -> Iterator[tuple[int, bytes]]:
    """Index of each candidate row with its contents as bytes, which are equal for equal rows only."""
    for rows, part in design.parts():
        numbers = np.flatnonzero(is_candidate[rows])
        candidates = part.matrix()[numbers]
        if not part.is_sparse:
            texts = (row.tobytes() for row in np.asarray(candidates, dtype=np.float64) + 0.0)
        else:
            candidates = csr_array(candidates, dtype=np.float64)
            candidates.sum_duplicates()
            candidates.eliminate_zeros()
            ends = zip(candidates.indptr[:-1], candidates.indptr[1:], strict=True)
            columns = candidates.indices.astype(np.int64)
            texts = (columns[a:b].tobytes() + candidates.data[a:b].tobytes() for a, b in ends)
        yield from zip((rows.start + numbers).tolist(), texts, strict=True)
