"""Keep vectors over the rows of a matrix on a Dask cluster, with the rows, for :mod:`.design`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import getitem
from typing import Any
from uuid import uuid4

import numpy as np

from ..._typing import AnyArray, Float, Num, PerRow, Shaped
from ..._validation import plain_column, refuse_masked, refuse_scalar
from ..base import Design
from ..rows import ALL_ZERO, NOT_ALL, TOO_LARGE, unique_labels
from ..threads import LIMITS
from .cluster import cluster_errors, computed

__all__ = ["DaskRows", "is_dask", "is_frame"]


def is_dask(X: Any) -> bool:
    """True for a Dask array or data frame, but not for an xarray object that holds one.

    Examples
    --------
    >>> is_dask(np.ones((2, 3)))
    False
    """
    return any(kind.__module__.startswith("dask.") for kind in type(X).__mro__)


def is_frame(X: Any) -> bool:
    """True for a Dask collection in partitions of pandas, whose numbers of rows are unknown."""
    return is_dask(X) and hasattr(X, "npartitions") and not hasattr(X, "numblocks")


class DaskRows(Design):
    """Methods of :class:`.design.DaskDesign` for vectors over its rows, which are Dask arrays."""

    _rows: tuple[int, ...]

    def vector(self, values: Any, name: str) -> PerRow:
        """Numbers or labels, one per row, as a Dask array (n,) in blocks like those of the matrix.

        Raises
        ------
        ValueError
            If there is not one value per row, or a Dask collection of unknown sizes has other blocks.
        """
        import dask
        import dask.array as da

        n = self.shape[0]
        if is_dask(values):
            if is_frame(values):
                # Convert by NumPy, because Dask warns about columns of text.
                parts = [dask.delayed(plain_column)(part, name) for part in values.to_delayed()]
                shape = (np.nan, *values.shape[1:])
                values = da.concatenate([da.from_delayed(part, shape, dtype=object) for part in parts])
            if values.ndim == 2 and values.shape[1] == 1:
                values = values[:, 0]
            if any(np.isnan(size) for size in values.chunks[0]):
                with cluster_errors():
                    values = values.compute_chunk_sizes()
        else:
            values = plain_column(values, name)
        if values.ndim != 1 or len(values) != n:
            raise ValueError(f"{name}: expected {n} entries, one per row of X, got shape {tuple(values.shape)}.")
        return values.rechunk((self._rows,)) if is_dask(values) else da.from_array(values, chunks=(self._rows,))

    def zeros(self, columns: int) -> PerRow:
        """Zeros, (n, columns)."""
        import dask.array as da

        return da.zeros((self.shape[0], columns), chunks=(self._rows, columns))

    def rowwise(self, function: Callable[..., Any], *rows: PerRow, widths: Sequence[int] | None = None) -> Any:
        """Apply a function that treats every row separately; see :class:`.rows.LocalRows`."""
        import dask

        sent, apply = dask.delayed(function, traverse=False), dask.delayed(_apply, pure=False)
        results = [apply(sent, *chunks) for chunks in zip(*(self._chunks(part) for part in rows), strict=True)]
        if widths is not None:
            return tuple(self._joined(results, k, (width,)) for k, width in enumerate(widths))
        return self._joined(results, 0, np.broadcast_shapes(*(part.shape[1:] for part in rows)))

    def gather(self, function: Callable[..., Any], *rows: PerRow) -> list[Any]:
        """Apply a function to each block's parts of vectors over the rows, and return its small results here."""
        import dask

        apply = dask.delayed(function, pure=False, traverse=False)
        return computed([apply(*parts) for parts in zip(*(self._chunks(part) for part in rows), strict=True)])

    def total(self, rows: PerRow) -> Num[AnyArray, ...]:
        """Sum over the rows, (K,) for (n, K)."""
        import dask

        return self._summed([dask.delayed(_total)(chunk) for chunk in self._chunks(rows)])[0]

    def persist(self, *rows: PerRow) -> tuple[PerRow, ...]:
        """Compute vectors over the rows on the workers, where they stay."""
        import dask

        with cluster_errors():
            return dask.persist(*rows)

    def _chunks(self, rows: PerRow) -> list[Any]:
        """Pieces of a vector over the rows, one for each block."""
        import dask.array as da

        columns = rows.shape[1:]
        if not is_dask(rows):
            rows = da.from_array(rows, chunks=(self._rows, *columns))
        return list(rows.rechunk((self._rows, *columns)).to_delayed().ravel())

    def _joined(self, parts: list[Any], item: int, tail: tuple[int, ...]) -> PerRow:
        """Vector over the rows, (n, *tail), whose pieces are the given ``item`` of tuples on the workers."""
        import dask.array as da
        from dask.highlevelgraph import HighLevelGraph

        name = f"rows-{uuid4().hex}"
        columns = (0,) * len(tail)
        layer: dict[Any, Any] = {(name, k, *columns): (getitem, part.key, item) for k, part in enumerate(parts)}
        graph = HighLevelGraph.from_collections(name, layer, dependencies=parts)
        return da.Array(graph, name, (self._rows, *((width,) for width in tail)), dtype=np.float64)

    def _summed(self, parts: list[Any]) -> list[Num[AnyArray, ...]]:
        """Sum arrays, or tuples of arrays item by item, on the workers, a few at a time."""
        import dask

        add = dask.delayed(_add, pure=False)
        while len(parts) > 1:
            parts = [add(parts[k : k + LIMITS.fan_in]) for k in range(0, len(parts), LIMITS.fan_in)]
        total = computed(parts)[0]
        return list(total) if isinstance(total, tuple) else [total]

    def codes(self, y: Any) -> tuple[Shaped[np.ndarray, " K"], PerRow]:
        """Classes (K,) and the class number of each row (n,); a class may occur in some blocks only."""
        from sklearn.utils.multiclass import check_classification_targets

        refuse_masked(y, "y")
        refuse_scalar(y, "y")
        y = self.vector(y, "y")
        classes = unique_labels(np.concatenate(self.gather(partial(unique_labels, name="y"), y)), "y")
        # Repeat each label, because the check takes labels that are all different for measurements.
        check_classification_targets(np.repeat(classes, 3))
        return classes, self.rowwise(partial(np.searchsorted, classes), y)

    def targets(self, y: Any) -> PerRow:
        """Numbers of a regression, (n,)."""
        refuse_masked(y, "y")
        refuse_scalar(y, "y")
        target = self.vector(y, "y").astype(np.float64)
        if not all(finite for finite, _, _ in self.gather(_weight_facts, target)):
            raise ValueError("y: expected finite numbers, got a NaN or infinite one.")
        return target

    def row_weights(self, sample_weight: Any) -> PerRow:
        """Row weights (n,), ones by default."""
        if sample_weight is None:
            return self.zeros(1)[:, 0] + 1.0
        if np.ndim(sample_weight) == 0:
            sample_weight = np.full(self.shape[0], float(sample_weight))
        refuse_masked(sample_weight, "sample_weight")
        weight = self.vector(sample_weight, "sample_weight").astype(np.float64)
        facts = self.gather(_weight_facts, weight)
        if not all(finite and not negative for finite, negative, _ in facts):
            raise ValueError(NOT_ALL)
        total = sum(part for _, _, part in facts)
        if not np.isfinite(total):
            raise ValueError(TOO_LARGE)
        if not total:
            raise ValueError(ALL_ZERO)
        return weight

    def class_totals(self, code: PerRow, weight: PerRow, n_classes: int) -> Float[AnyArray, " K"]:
        """Weight of the rows of each class, (K,)."""
        return self.total(weight[:, None] * (code[:, None] == np.arange(n_classes)))


def _weight_facts(values: PerRow) -> tuple[bool, bool, float]:
    """Whether all values are finite, whether some are negative, and their sum."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.all(np.isfinite(values))), bool(np.any(values < 0)), float(np.sum(values))


def _apply(function: Callable[..., Any], *chunks: Shaped[np.ndarray, "rows ..."]) -> tuple[Any, ...]:
    result = function(*chunks)
    return tuple(result) if isinstance(result, tuple) else (result,)


def _total(chunk: Num[AnyArray, "rows ..."]) -> tuple[Num[AnyArray, ...]]:
    return (chunk.sum(axis=0),)


def _add(parts: list[Any]) -> Any:
    if not isinstance(parts[0], tuple):
        return sum(parts[1:], start=parts[0])
    return tuple(sum(same[1:], start=same[0]) for same in zip(*parts, strict=True))
