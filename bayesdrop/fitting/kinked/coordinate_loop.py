r"""Passes over the coordinates of the dual of a kinked loss, for some problems that share the rows.

A row has one coordinate for each of its kinks, ``β`` between the ends ``l`` and ``u``. With the score ``s``, which
moves by ``q`` times what ``β`` does, and ``r`` the root of the variance the best ``β`` is where

    t − s(β) + r ½(l + u − 2β) / √((β − l)(u − β)) = 0.

In ``β = ½(l + u) + ½(u − l) x/√(1 + x²)`` that is ``r x + h x/√(1 + x²) = a`` with ``h = ½q(u − l)``: odd, increasing
and concave above zero, so that Newton's method from below cannot miss. Without noise ``β`` is what it is without ends,
cut off at these.

Up to eight problems go over the rows in one order, their weights side by side, so that an entry is read once for all
(:mod:`._coordinate_kernels` has the loops, compiled by Numba). The eights go in threads, and as each has its own
numbers and its own order, what comes out does not depend on how many there are.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Num, PerRow
from ...designs.block_threads import side_by_side
from ..shapes import FeatureBlock, ProblemVector

__all__ = ["CompressedRows", "Coordinates", "Passes"]

# Problems whose weights lie side by side, at most.
_LANES = 8
# Rows that stay together in the random order where there are more entries than a core's cache holds: a processor
# fetches what comes next in memory.
_NEIGHBOURS = 16
_CACHED = 1 << 18


class CompressedRows(NamedTuple):
    """Compressed rows: where each begins, columns and values of the entries; whether these are all 1."""

    pointers: Any
    columns: Any
    values: Any
    binary: bool


class Coordinates(NamedTuple):
    """Kinks ``t``, ends ``l`` and ``u``, and ``β`` and ``x``, which the passes change, (n, kinks, K) each."""

    centre: Any
    low: Any
    high: Any
    beta: Any
    place: Any


class Passes:
    """Passes of ``K`` problems; the order of the rows goes on from call to call.

    Parameters
    ----------
    rows : CompressedRows
        That they share.
    n : int
        How many rows.
    K : int
        Problems.
    """

    def __init__(self, rows: CompressedRows, n: int, K: int) -> None:
        self.rows = rows
        self._groups = _groups(K)
        self._orders = [np.arange(n, dtype=np.uint64) for _ in self._groups]
        self._neighbours = np.int64(_NEIGHBOURS if len(rows.values) > _CACHED else 1)
        self._seeds = np.full(K, 88172645463325252, dtype=np.uint64)

    def __call__(
        self,
        coordinates: Coordinates,
        root: PerRow,
        size: PerRow,
        stiffness: ProblemVector,
        weights: FeatureBlock,
        gain: FeatureBlock,
        intercept: ProblemVector,
        passes: int,
    ) -> None:
        """Make some passes, which change the coordinates, the ``weights`` (p, K) and the ``intercept`` (K,) in place.

        ``root`` and ``size`` are ``r`` and ``q`` (n, K); ``gain`` (p, K) is what a weight gains from a pull, and the
        ``stiffness`` (K,) what the intercept does.
        """
        from ._coordinate_kernels import alone, together

        def one(group: slice, order: Num[np.ndarray, " n"]) -> None:
            width = group.stop - group.start
            lanes = _LANES if width > 1 else 1
            pair = np.zeros((len(weights), 2 * lanes))
            pair[:, :width], pair[:, lanes : lanes + width] = weights[:, group], gain[:, group]
            numbers = (root, size, stiffness, intercept, self._seeds, pair, order)
            kernel = together if width > 1 else alone
            kernel(*self.rows, *coordinates, *numbers, passes, self._neighbours, group.start, width)
            weights[:, group] = pair[:, :width]

        side_by_side([partial(one, *some) for some in zip(self._groups, self._orders, strict=True)])


def _groups(K: int) -> list[slice]:
    """Problems in groups of like sizes.

    Examples
    --------
    >>> _groups(10)
    [slice(0, 5, None), slice(5, 10, None)]
    """
    parts = np.array_split(np.arange(K), -(-K // _LANES))
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
