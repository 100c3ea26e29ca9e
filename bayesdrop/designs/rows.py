"""Check, code and sum vectors over the rows of designs in memory, for the designs and for fits.

A minimiser has a score, a target and a weight for each row, and uses only arithmetic and the methods of this file. The
design codes labels and checks weights. In this file vectors over the rows are NumPy arrays; on a cluster they are Dask
arrays, and only sums over the rows leave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._typing import AnyArray, Float, Int, Num, PerRow, Shaped
from .._validation import (
    are_classes,
    as_numbers,
    check_numbers,
    is_column,
    one_per_row,
    plain_matrix,
    refuse_surrogates,
    shown,
)
from .base import Design
from .columns import ColumnSummary, summarise
from .threads import in_pieces

__all__ = [
    "ALL_ZERO",
    "NOT_ALL",
    "TOO_LARGE",
    "LocalRows",
    "RowsInMemory",
    "check_sample_weight",
    "code_labels",
    "unique_labels",
]

ALL_ZERO = "sample_weight: all weights are zero, so no row is left to fit; give some a weight above 0."
NOT_ALL = "sample_weight: expected finite numbers >= 0, got a negative, NaN or infinite one."
TOO_LARGE = (
    "sample_weight: expected weights whose sum is a finite number, got a sum that overflows; divide them all by the "
    "largest, and multiply C by it."
)
_NO_ORDER = "{}: expected labels that are all numbers or all text, got {}."


def check_sample_weight(
    sample_weight: Any, n_rows: int, all_zero: bool = False, name: str = "sample_weight"
) -> Float[np.ndarray, " n"]:
    """Row weights as an array (n,), ones by default; a number is the weight of every row.

    Raise ValueError if a weight is negative or not finite, if there are not n, if their sum overflows or, without
    ``all_zero``, if all are zero. ``name`` is the argument in messages.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    weight = check_numbers(sample_weight, name, f"{n_rows} numbers (one per row)")
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"{name}: expected {n_rows} numbers (one per row), got shape {weight.shape}.")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ValueError(NOT_ALL.replace("sample_weight", name))
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not np.isfinite(total):
        raise ValueError(TOO_LARGE.replace("sample_weight", name))
    if not (all_zero or np.any(weight > 0)):
        raise ValueError(ALL_ZERO.replace("sample_weight", name))
    return weight


def code_labels(y: Any) -> tuple[Shaped[np.ndarray, " K"], Int[np.ndarray, " n"]]:
    """Classes (K,) in order and the class number of each row, (n,); raise ValueError unless ``y`` holds classes.

    Examples
    --------
    >>> [part.tolist() for part in code_labels(np.array(["b", "a"]))]
    [['a', 'b'], [1, 0]]
    """
    coded = None
    if is_column(y) and y.dtype.kind in "biufU":
        coded = np.unique(y, return_inverse=True)
    if coded is None or not are_classes(y, len(coded[0])):
        from sklearn.utils.multiclass import check_classification_targets

        try:
            check_classification_targets(y)
            coded = coded or np.unique(y, return_inverse=True)
        except TypeError:
            raise TypeError(_NO_ORDER.format("y", shown(y))) from None
    classes, code = coded
    refuse_surrogates(classes.tolist(), "y")
    return classes, code


def unique_labels(values: Shaped[AnyArray, " m"], name: str) -> Shaped[np.ndarray, " K"]:
    """Distinct labels in order; raise TypeError if they cannot be ordered, such as text and None.

    Examples
    --------
    >>> unique_labels(np.array(["b", "a", "b"]), "classes").tolist()
    ['a', 'b']
    """
    try:
        labels = np.unique(values)
    except TypeError:
        raise TypeError(_NO_ORDER.format(name, shown(values))) from None
    refuse_surrogates(labels.tolist(), name)
    return labels


class LocalRows(Design):
    """Methods of designs whose vectors over the rows are NumPy arrays."""

    __getitem__: Callable[..., Any]

    def _responses(self, y: Any) -> PerRow:
        """Labels or numbers (n,); raise ValueError unless there is one per row."""
        return one_per_row(y, self.shape[0])

    def codes(self, y: Any) -> tuple[Shaped[np.ndarray, " K"], PerRow]:
        """Classes (K,) and the class number of each row, (n,)."""
        y = self._responses(y)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            from sklearn.utils import assert_all_finite

            assert_all_finite(y, input_name="y")
        return code_labels(y)

    def targets(self, y: Any) -> PerRow:
        """Numbers of a regression, (n,)."""
        y = self._responses(y)
        y = as_numbers(y, "y", " among the responses")
        plain = plain_matrix(y[:, None])
        if plain is not None:
            return plain[:, 0].astype(np.float64, copy=False)
        from sklearn.utils import check_array

        with np.errstate(over="ignore", invalid="ignore"):  # long doubles overflow, infinities of both signs cancel
            return check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")

    def row_weights(self, sample_weight: Any) -> PerRow:
        """Row weights (n,), ones by default."""
        return check_sample_weight(sample_weight, self.shape[0])

    def class_totals(self, code: PerRow, weight: PerRow, n_classes: int) -> Float[AnyArray, " K"]:
        """Weight of the rows of each class, (K,)."""
        return self.total(np.bincount(code, weights=weight, minlength=n_classes)[None])

    def drop_zero_weight(self, weight: PerRow, *rows: PerRow) -> tuple[Any, ...]:
        """Return the design, the weights and other vectors over the rows, without the rows of weight zero."""
        keep = weight > 0
        if np.all(keep):
            return self, weight, *rows
        return self[keep], weight[keep], *(part[keep] for part in rows)

    def zeros(self, columns: int) -> PerRow:
        """Zeros, (n, columns)."""
        return np.zeros((self.shape[0], columns))

    def rowwise(self, function: Callable[..., Any], *rows: PerRow, widths: Sequence[int] | None = None) -> Any:
        """Apply a function that treats every row separately to some rows at a time, in threads.

        ``widths`` are the numbers of columns of the results, if it returns several.
        """
        n, width = len(rows[0]), max(vector[0].size for vector in rows) if len(rows[0]) else 0
        pieces = in_pieces(lambda piece: function(*(vector[piece] for vector in rows)), n, width)
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if widths is None else tuple(map(np.concatenate, zip(*pieces, strict=True)))

    def total(self, rows: PerRow) -> Num[AnyArray, ...]:
        """Sum over the rows, (K,) for (n, K)."""
        return rows.sum(axis=0)


class RowsInMemory(LocalRows):
    """Methods of designs whose rows are in this process's memory, as one array or sparse matrix."""

    is_local = True

    def column_summary(self, weight: Num[AnyArray, " n"]) -> ColumnSummary:
        """Summary of the columns under row weights; see :func:`summarise`."""
        return summarise(self.matrix(), weight)

    def parts(self, size: int | None = None) -> Iterator[tuple[slice, Any]]:
        """Blocks of ``size`` rows in order, or all rows at once."""
        n = self.shape[0]
        for start in range(0, n, size or max(n, 1)):
            rows = slice(start, min(start + (size or n), n))
            yield rows, self if rows == slice(0, n) else self[rows]
