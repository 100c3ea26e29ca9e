"""Duplicate columns, found once for a sparse matrix.

Most words of a text occur once or twice, and those of one document alone have the same column. A model that treats
columns alike gives them the same weight, so that one of them can stand for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Bool, Float, Int

__all__ = ["DistinctColumns", "first_of_duplicates"]

# Columns with so few entries are those that are alike, and below this share of all columns it is not worth a look.
_FEW, _SHARE = 2, 0.2


@dataclass(frozen=True)
class DistinctColumns:
    """One column for all duplicates.

    Attributes
    ----------
    design : Design (n, u)
        The distinct columns.
    first : int array (u,)
        The first of those that each stands for, in order.
    index : int array (p,)
        Which of them stands for each column.
    copies : array (u,)
        How many each stands for.
    """

    design: Any
    first: Int[np.ndarray, " u"]
    index: Int[np.ndarray, " p"]
    copies: Float[np.ndarray, " u"]


def first_of_duplicates(csr: Any) -> tuple[Int[np.ndarray, " u"], Int[np.ndarray, " p"]] | None:
    """The first of each set of equal columns, (u,) in order, and the set of each column, (p,); None if few are alike.

    Parameters
    ----------
    csr : scipy.sparse.csr_array (n, p)
        Canonical, without explicit zeros.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> [part.tolist() for part in first_of_duplicates(csr_array([[0.0, 2, 2, 1], [0, 0, 0, 1]]))]
    [[0, 1, 3], [0, 1, 1, 2]]
    >>> first_of_duplicates(csr_array(np.ones((3, 2)))) is None
    True
    """
    n, p = csr.shape
    count = np.bincount(csr.indices, minlength=p)
    if np.sum(count <= _FEW) < _SHARE * p:
        return None
    # Equal columns have equal sums of numbers drawn for their rows; what has equal sums is then compared.
    drawn = np.repeat(np.random.default_rng(0).random(n), np.diff(csr.indptr)) * csr.data
    signature = np.bincount(csr.indices, weights=drawn, minlength=p)
    order = np.lexsort((signature, count))
    same = (np.diff(count[order]) == 0) & (np.diff(signature[order]) == 0)
    pairs = np.flatnonzero(same)
    same[pairs] = _equal(csr.tocsc(), order[pairs], order[pairs + 1])
    begins = np.append(True, ~same)[: len(order)]
    # The order is stable: the first of a set has the lowest number.
    first = order[begins]
    if len(first) > (1 - _SHARE) * p:
        return None
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    index = np.empty(p, dtype=np.intp)
    index[order] = rank[np.cumsum(begins) - 1]
    return np.sort(first), index


def _equal(csc: Any, one: Int[np.ndarray, " m"], other: Int[np.ndarray, " m"]) -> Bool[np.ndarray, " m"]:
    """Whether columns with equally many entries are equal, pair by pair."""
    size = np.diff(csc.indptr)[one]
    pair = np.repeat(np.arange(len(one)), size)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(size) - size, size)
    left, right = (csc.indptr[columns][pair] + within for columns in (one, other))
    differs = (csc.indices[left] != csc.indices[right]) | (csc.data[left] != csc.data[right])
    return np.bincount(pair, weights=differs, minlength=len(one)) == 0
