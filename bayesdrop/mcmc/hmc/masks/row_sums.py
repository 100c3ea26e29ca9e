"""Which rows can have their masks summed, and by what: :mod:`.masks.sums` or :mod:`.masks.halves`."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from ...._typing import Bool, Float, PerRow
from ....losses.protocols import PiecewiseLinear, Thresholded
from .halves import LONGEST, MaskHalves
from .sums import FARTHEST, MaskSums

__all__ = ["RowSums", "row_sums", "rows_with_sums"]


@runtime_checkable
class RowSums(Protocol):
    """Rows whose masks are summed."""

    def costs(
        self,
        weight: Float[np.ndarray, "C p"],
        intercept: Float[np.ndarray, " C"],
        keep: Float[np.ndarray, "C p"],
        drop: Float[np.ndarray, "C p"],
    ) -> Float[np.ndarray, "C n"]:
        """Minus the log-likelihoods of the rows, (C, n), of weights ``w k(η)`` and the chances ``1 − η`` and ``η``."""


def rows_with_sums(loss: Any, entries: PerRow, reach: PerRow | float = 0.0) -> Bool[np.ndarray, " n"] | None:
    """Which rows of so many non-zero entries (n,) have a sum under a loss; None if it has none for any row.

    ``reach`` is how far from 0 their scores may be, (n,) or one number, where it is known.

    Examples
    --------
    >>> from bayesdrop.losses import Hinge, Logistic
    >>> rows_with_sums(Logistic(), np.array([3, 800])), rows_with_sums(Hinge(), np.array([3, 800]))
    (array([ True,  True]), array([ True, False]))
    """
    if isinstance(loss, Thresholded):
        return np.broadcast_to(reach <= FARTHEST, entries.shape)
    return entries <= LONGEST if isinstance(loss, PiecewiseLinear) else None


def row_sums(matrix: Any, loss: Any, target: PerRow, power: PerRow, offset: PerRow | None = None) -> RowSums:
    """Sums over the masks of rows that have them.

    Parameters
    ----------
    matrix : array or scipy sparse (n, p)
        Features.
    loss : Thresholded or PiecewiseLinear
        The loss, in its plain form.
    target, power : array (n,)
        Labels −1 and +1 or numbers, and ``C`` times the row weights.
    offset : array (n,), optional
        Known part of every row's score.
    """
    from scipy.sparse import csr_array

    rows = csr_array(matrix, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    kind: Any = MaskSums if isinstance(loss, Thresholded) else MaskHalves
    found: RowSums = kind(rows, loss, target, power, offset=offset)
    return found
