"""Store a design matrix on the workers of a Dask cluster, for data larger than a machine.

Each block of rows is checked once and becomes a design, which stays on its worker; so do the vectors over its rows,
which are Dask arrays. Only weights are sent, and only sums over the rows are returned, ``p`` numbers per class. If a
worker is lost, Dask computes its blocks again from their source.

Predictions for Dask collections are a lazy Dask array, made by the estimator's own method a block at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial, wraps
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np

from ..._typing import AnyArray, Float, Num, PerRow
from ..._validation import text_names
from ..base import Blockwise, ByColumn, Design, EntryBlocks, PerColumn, RowFunction, SquaredByColumn
from ..blocks.records import as_matrix, check_finite
from ..sparse import of_matrix
from .cluster import cluster_errors, computed
from .rows import DaskRows, is_dask, is_frame

__all__ = ["DaskDesign", "by_blocks", "NOT_IN_MEMORY"]

NOT_IN_MEMORY = (
    "a Dask collection stays on its workers. bd.fit, bd.sample with bd.HMC(), bd.predict, bd.elpd, and fit and predict "
    "of the linear estimators take it; whatever keeps something for every entry, such as samplers with their masks, "
    "does not: pass X.compute() if it fits in memory, or a random sample of its rows."
)


class DaskDesign(Blockwise, DaskRows):
    """Blocks of rows on a Dask cluster; see :class:`bayesdrop.designs.Design` for the methods.

    Parameters
    ----------
    X : dask array or dask data frame (n, p)
        Finite real numbers, in dense or scipy sparse blocks.

    Attributes
    ----------
    columns : list of str or None
        Names of the columns of a data frame.

    Raises
    ------
    ValueError
        If a block holds NaN, infinite or non-numeric values, or blocks differ in their columns.
    RuntimeError
        If the scheduler is lost.

    Examples
    --------
    >>> import dask.array as da
    >>> design = DaskDesign(da.ones((6, 2), chunks=(4, 2)))
    >>> design.shape, float(design.total(design.matvec(np.array([1.0, 2.0]))))
    ((6, 2), 18.0)
    """

    gram_columns = 500

    def __init__(self, X: Any) -> None:
        import dask

        if getattr(X, "ndim", 0) != 2:
            raise ValueError(
                f"X: expected a Dask array or data frame of two dimensions, (rows, columns), got {type(X).__name__} "
                f"of {getattr(X, 'ndim', 0)}."
            )
        self.columns = text_names(X.columns) if is_frame(X) else None
        if not is_frame(X) and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        parts = np.ravel(X.to_delayed())
        make = dask.delayed(_design)
        with cluster_errors():
            self._blocks = list(dask.persist(*(make(part, k) for k, part in enumerate(parts))))
        facts = computed([dask.delayed(_facts)(block) for block in self._blocks])
        widths = [p for _, p, _ in facts]
        if not facts or sum(n for n, _, _ in facts) == 0:
            raise ValueError("X: there are no rows; check where the Dask collection comes from.")
        if widths[0] == 0:
            raise ValueError("X: there are no columns; at least one feature is needed.")
        if len(set(widths)) > 1:
            odd = next(k for k, width in enumerate(widths) if width != widths[0])
            raise ValueError(
                f"X: block {odd} has {widths[odd]} columns, and the blocks before it have {widths[0]}; every block "
                "needs the same columns in the same order."
            )
        self._rows = tuple(n for n, _, _ in facts)
        self._minimum: float | None = min(minimum for n, _, minimum in facts if n)
        self.shape: tuple[int, int] = (sum(self._rows), widths[0])
        self.prefers_gram = self.shape[1] <= self.gram_columns

    def __repr__(self) -> str:
        n, p = self.shape
        return f"DaskDesign({n} rows, {p} columns, {len(self._blocks)} blocks)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.matrix()

    def __getitem__(self, keep: Any) -> Any:
        return self.matrix()

    def matrix(self) -> Any:
        """Raise TypeError: the rows stay on the workers."""
        raise TypeError(f"X: {NOT_IN_MEMORY}")

    def parts(self, size: int | None = None) -> Iterator[tuple[slice, Design]]:
        """Raise TypeError: the rows stay on the workers."""
        return self.matrix()

    def shifted(self, centre: Float[np.ndarray, " p"]) -> DaskDesign:
        """``X − c``, on the workers."""
        result = copy(self)
        result._blocks, result._minimum = self._persisted(self._tasks("shifted", centre)), None
        return result

    def _tasks(self, method: str, *sent: Any, rows: Sequence[PerRow] = (), **named: Any) -> list[Any]:
        """Tasks that call a method of each block, with arguments sent to all blocks and its parts of ``rows``."""
        import dask

        apply, send = dask.delayed(_call, pure=False), partial(dask.delayed, traverse=False)
        same, others = [send(part) for part in sent], {name: send(part) for name, part in named.items()}
        chunks = zip(*(self._chunks(part) for part in rows), strict=True) if rows else [()] * len(self._blocks)
        return [
            apply(method, block, *same, *parts, **others) for block, parts in zip(self._blocks, chunks, strict=True)
        ]

    def _persisted(self, tasks: list[Any]) -> list[Any]:
        import dask

        with cluster_errors():
            return list(dask.persist(*tasks))

    def _forward(self, method: str, tails: list[tuple[int, ...]], *weights: Num[np.ndarray, "p ..."]) -> list[PerRow]:
        """Send weights to the workers and apply a method of every block to them; the products stay there."""
        results = self._persisted(self._tasks(method, *map(np.ascontiguousarray, weights)))
        return [self._joined(results, k, tail) for k, tail in enumerate(tails)]

    def sum_over_parts(self, method: str, *rows: PerRow) -> list[Num[AnyArray, ...]]:
        """Sums over the blocks of a method of each block applied to its parts of ``rows``."""
        return self._summed(self._tasks(method, rows=rows))

    def product_sums(
        self, w: ByColumn, w_sq: SquaredByColumn, function: RowFunction, *rows: PerRow
    ) -> tuple[Float[np.ndarray, ...], ...]:
        """See :class:`bayesdrop.designs.Design`; one task for each block."""
        return tuple(self._summed(self._tasks("product_sums", w, w_sq, function, rows=rows)))

    def each_block(self, function: Callable[..., Any], *rows: PerRow) -> list[Any]:
        """See :class:`bayesdrop.designs.Design`; on the workers."""
        return list(chain(*computed(self._tasks("each_block", function, rows=rows))))

    def sampled_products(
        self, left: PerRow, right: ByColumn, square: PerColumn, linear: PerColumn
    ) -> tuple[PerRow, Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)``; see :class:`bayesdrop.designs.Design`."""
        import dask

        results = self._persisted(
            self._tasks("sampled_products", rows=[left], right=right, square=square, linear=linear)
        )
        back = self._summed([dask.delayed(_second)(part) for part in results])[0]
        return self._joined(results, 0, (right.shape[1],)), back

    def outer_gram(self, scale: PerColumn) -> Float[np.ndarray, "n n"]:
        """Raise TypeError: an n × n matrix needs rows in memory."""
        raise TypeError(
            "X: an n × n matrix of a Dask collection is not formed; use bd.Newton() without settings, or X.compute()."
        )

    def entries(self) -> EntryBlocks:
        """Raise TypeError: the entries stay on the workers."""
        return self.matrix()


def _design(block: Any, number: int) -> Design:
    """Design of a block, on the worker."""
    matrix = as_matrix(block, f"X: block {number}")
    check_finite(matrix, f"X: block {number}")
    return of_matrix(matrix)


def _facts(block: Design) -> tuple[int, int, float]:
    return *block.shape, block.minimum() if block.shape[0] else 0.0


def _second(results: tuple[Any, ...]) -> tuple[Any]:
    return (results[1],)


def _call(method: str, block: Design, *arguments: Any, **named: Any) -> Any:
    return getattr(block, method)(*arguments, **named)


Method = TypeVar("Method", bound=Callable[..., Any])


def by_blocks(method: Method) -> Method:
    """Let a method of a fitted estimator that maps rows to values accept Dask collections and return Dask arrays."""

    @wraps(method)
    def taking_both(self: Any, X: Any) -> Any:
        return _mapped(self, method.__name__, X) if is_dask(X) else method(self, X)

    return cast(Method, taking_both)


def _mapped(estimator: Any, name: str, X: Any) -> Any:
    import dask
    import dask.array as da

    example = getattr(estimator, name)(_example(X))
    if is_frame(X):
        parts, sizes = X.to_delayed(), [np.nan] * X.npartitions
    else:
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        parts, sizes = X.to_delayed().ravel(), X.chunks[0]
    # Sent once, not with every block.
    sent, apply = dask.delayed(estimator, traverse=False), dask.delayed(_apply)
    return da.concatenate(
        [
            da.from_delayed(apply(sent, name, part, example[:0]), (size, *example.shape[1:]), dtype=example.dtype)
            for part, size in zip(parts, sizes, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )


def _apply(estimator: Any, name: str, rows: Any, nothing: Any) -> Any:
    return getattr(estimator, name)(rows) if rows.shape[0] else nothing


def _example(X: Any) -> Any:
    """Row of zeros with the columns of ``X``: its result has the shape and type of all results."""
    zeros = np.zeros((1, X.shape[1]))
    if not is_frame(X):
        return zeros
    import pandas as pd

    return pd.DataFrame(zeros, columns=list(X.columns))
