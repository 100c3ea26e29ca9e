"""Read a design matrix a block of rows at a time, for data larger than memory.

Every product is one pass over the blocks: each block is a design, whose results are summed or written to its rows. Only
vectors of length n and p and two or three blocks are in memory. The next block is read and checked while the current
one is multiplied; in the passes of a sampler each core reads, checks and multiplies its own block, if these fit into a
quarter of a gigabyte.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from copy import copy
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..._progress import is_watched
from ..._typing import AnyArray, Bool, Float, Num, PerRow
from ..._validation import check_count, check_flag, check_instance, check_names
from ..base import Between, Blockwise, ByColumn, Design, PerColumn, RowFunction, SquaredByColumn, added
from ..rows import LocalRows
from ..sparse import of_matrix
from ..threads import LIMITS, cores, in_threads
from .records import Record, as_matrix, is_same, record_of
from .sources import Load, open_source
from .svmlight import zero_or_one

__all__ = ["Blocks"]

_AGAIN = (
    "the source no longer yields what it did when bd.Blocks was made, and fits and samplers need the same data in "
    "every pass; make bd.Blocks again from data that stand still"
)


def _loaded(where: str, load: Load) -> tuple[str, Any]:
    """Name of a block, and the block as a matrix of real numbers, in compressed rows if sparse."""
    return where, as_matrix(load(), f"source: {where}")


class Blocks(Blockwise, LocalRows):
    """Matrix of n rows and p columns in blocks of rows, read when needed; replaces ``X`` in :func:`fit`.

    Creating one reads the data once, checks them and records the size and sums of each block, so that a later pass
    raises an error if they changed. Labels are an ordinary array, in the order of the rows. A fit needs five or six
    passes per Newton step if p is at most 2000, and about eight otherwise, so that a fast local disk pays; without
    masks, a draw of all chains by ``bd.HMC()`` needs one or two passes.

    Parameters
    ----------
    source : path, list of paths, list of matrices, or function
        ``.npy`` (dense), ``.npz`` (of :func:`scipy.sparse.save_npz`), ``.parquet`` (extra ``parquet``) or ``.svmlight``
        (``.svm``, ``.libsvm``, also with ``.gz``), whose labels are not read; or a function without arguments that
        returns a fresh iterator of dense or scipy sparse matrices (n_i, p), the same ones at every call.
    rows : int, optional
        Maximal number of rows of a block of a file; by default a block of a dense file has a million entries. A
        ``.npz`` file is one block, and needs three times its size in memory.
    columns : sequence of p str, optional
        Names of the columns; of a Parquet file those to read, by default all but the index that pandas wrote.
    target : str, optional
        Column of Parquet files that is the response, not a feature; fits use it if ``y`` is omitted.
    n_features : int, optional
        Number ``p`` of features of svmlight files, which omit zeros; by default the largest index determines it. New
        rows for a fit are read with the features of the fit.
    zero_based : bool, optional
        Whether indices of svmlight files begin at 0 rather than 1; by default they do if some index is 0. New rows for
        a fit are read as the rows of the fit were.
    threads : int, optional
        Maximal number of threads, each with one block, in the passes of a sampler; by default one for each core.
    progress : bool, default=False
        Show a progress bar for each pass that takes more than a second, in a terminal or notebook.

    Attributes
    ----------
    shape : (int, int)
        ``(n, p)``.
    passes : int
        Number of passes over the data, including the first one.
    columns : list of str or None
        Names of the columns.
    response : array (n,) or None
        Values of the column ``target``.
    zero_based : bool or None
        Whether the indices of svmlight files begin at 0; None for other sources.

    Raises
    ------
    TypeError
        If the source has another type, or is an iterator that can be read only once.
    ValueError
        If a block has no columns, other columns than the first, NaN, infinite or non-numeric values; in a later pass,
        if the data have changed.

    See Also
    --------
    cluster, fit, HMC

    Examples
    --------
    >>> import bayesdrop as bd
    >>> rng = np.random.default_rng(0)
    >>> parts = [rng.normal(size=(50, 3)) for _ in range(4)]
    >>> y = np.concatenate([part[:, 0] > 0 for part in parts])
    >>> X = bd.Blocks(lambda: iter(parts))
    >>> X
    Blocks(200 rows, 3 columns, 4 blocks)
    >>> bd.fit(bd.Model(rates=bd.Fixed(0.2)), X, y).status.name
    'CONVERGED'
    """

    def __init__(
        self,
        source: Any,
        *,
        rows: int | None = None,
        columns: Sequence[str] | None = None,
        target: str | None = None,
        n_features: int | None = None,
        zero_based: bool | None = None,
        threads: int | None = None,
        progress: bool = False,
    ) -> None:
        if rows is not None:
            rows = check_count(rows, "rows")
        self._most_threads = None if threads is None else check_count(threads, "threads")
        check_flag(progress, "progress")
        if columns is not None:
            check_instance(columns, "columns", Sequence, "a list of names, one per column")
            columns = check_names(columns, len(columns), "columns")
        n_features = None if n_features is None else check_count(n_features, "n_features")
        check_flag(zero_based, "zero_based", none=True)
        self._source = open_source(source, rows, columns, n_features, zero_based)
        self.response = None if target is None else self._source.take(target)
        if self._source.indices is None and not (n_features is zero_based is None):
            raise ValueError(
                "n_features, zero_based: expected svmlight files, which leave out features; other sources have all of "
                "their columns, so leave both out."
            )
        indices = self._source.indices
        self.zero_based = None if indices is None else bool(indices.zero_based)
        self._shift = 0
        self._records: list[Record] = []
        self._masks: list[Bool[np.ndarray, " rows"]] | None = None
        self._minimum: float | None = None
        self._centre: Float[np.ndarray, " p"] | None = None
        self._progress = progress
        self._passes = [1]
        p = None
        for number, (where, block) in enumerate(in_threads(self._shown(self._source.pieces()), _loaded, 1)):
            if p is None:
                p = block.shape[1]
                if p == 0:
                    raise ValueError(f"source: {where} has no columns; at least one feature is needed.")
            elif block.shape[1] != p:
                raise ValueError(
                    f"source: {where} (block {number} of all) has {block.shape[1]} columns, and the blocks before it "
                    f"have {p}; every block needs the same columns in the same order."
                )
            self._records.append(record_of(block, where, self._end))
            if block.shape[0]:
                minimum = of_matrix(block).minimum()
                self._minimum = minimum if self._minimum is None else min(self._minimum, minimum)
        self.columns = self._source.columns
        n = self._end
        if p is None or n == 0:
            raise ValueError("source: there are no rows; check that the files or the function are the right ones.")
        if self.columns is not None and len(self.columns) != p:
            raise ValueError(f"columns: expected {p} names, one per column, got {len(self.columns)}.")
        self.shape: tuple[int, int] = (n, p)
        self._width = p
        self.prefers_gram = p <= self.gram_columns

    @property
    def _end(self) -> int:
        return sum(record.rows for record in self._records)

    @property
    def passes(self) -> int:
        """Number of passes over the data, including those of objects derived from these blocks."""
        return self._passes[0]

    def __repr__(self) -> str:
        n, p = self.shape
        return f"Blocks({n} rows, {p} columns, {len(self._records)} blocks)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.matrix()

    def matrix(self) -> Any:
        """Raise TypeError: the rows are never in memory at once."""
        raise TypeError(
            "X: bd.Blocks are read when needed and never held in memory at once. bd.fit, bd.sample with bd.HMC(), "
            "bd.predict, bd.elpd, and fit and predict of the linear estimators take them; whatever keeps something for "
            "every entry, such as samplers with their masks, does not. Pass an array or a scipy sparse matrix: all "
            "rows if they fit in memory, a random sample of them, or one block after the other."
        )

    def __getitem__(self, keep: Any) -> Blocks:
        """Select rows by a boolean mask (n,); the others are dropped as the blocks are read."""
        keep = np.asarray(keep) if not isinstance(keep, tuple | slice) else np.empty(0)
        if keep.dtype != bool or keep.shape != self.shape[:1]:
            raise TypeError(
                f"X: bd.Blocks take a boolean mask of {self.shape[0]} rows and no other index, since they are read in "
                "order; pass an array or a scipy sparse matrix, or make bd.Blocks of the rows you want."
            )
        result = copy(self)
        old = self._masks or [np.ones(record.rows, dtype=bool) for record in self._records]
        result._masks, start = [], 0
        for mask in old:
            count = int(mask.sum())
            part = mask.copy()
            part[mask] = keep[start : start + count]
            result._masks.append(part)
            start += count
        result.shape = (int(keep.sum()), self.shape[1])
        result.response = None if self.response is None else self.response[keep]
        result._minimum = None
        return result

    def shifted(self, centre: Float[np.ndarray, " p"]) -> Blocks:
        """``X − c``, computed as the blocks are read."""
        result = copy(self)
        result._centre = centre if self._centre is None else self._centre + centre
        result._minimum = None
        return result

    def read_as(self, n_features: int, zero_based: bool | None) -> Blocks:
        """Read svmlight files with the features of a fit: their number, and whether indices begin at 0.

        Blocks of other sources, and any blocks if the fit had no such files, are returned unchanged.

        Raises
        ------
        ValueError
            If ``zero_based`` was given differently for these blocks, or an index is not one of these features.
        """
        indices = self._source.indices
        if indices is None or zero_based is None or (n_features, zero_based) == (self.shape[1], self.zero_based):
            return self
        if indices.explicit and zero_based != indices.zero_based:
            raise ValueError(
                f"X: expected svmlight files with {zero_or_one(zero_based)}, as those of the fit, got "
                f"zero_based={indices.zero_based}; leave it out, and new rows are read as those of the fit were."
            )
        try:
            indices.check(zero_based, n_features)
        except ValueError as error:
            raise ValueError(f"X: {error}") from None
        result = copy(self)
        result.zero_based, result._shift = zero_based, int(zero_based) - int(indices.zero_based)
        result.shape = (self.shape[0], n_features)
        result._minimum = None
        return result

    def _pieces(self) -> Generator[tuple[int, int, str, Load]]:
        """Number, first row, name and reader of each block; raise ValueError if their number has changed."""
        number, start = -1, 0
        for number, (where, load) in enumerate(self._source.pieces()):
            if number >= len(self._records):
                raise ValueError(
                    f"source: {where} is one block more than the {len(self._records)} there were: {_AGAIN}."
                )
            yield number, start, where, load
            start += self._records[number].rows if self._masks is None else int(self._masks[number].sum())
        if number + 1 < len(self._records):
            raise ValueError(
                f"source: it ended after {number + 1} of {len(self._records)} blocks: {_AGAIN}. A function must return "
                "a fresh iterator at every call, not the same one again."
            )

    def _design(self, number: int, start: int, where: str, load: Load) -> tuple[slice, Design]:
        """Read a block, and return the slice of its rows and its design; raise ValueError if it has changed."""
        block = as_matrix(load(), f"source: {where}")
        if not is_same(self._records[number], block, self._width):
            raise ValueError(f"source: {where} (block {number} of all) has changed: {_AGAIN}.")
        if (self._shift, self._width) != (0, self.shape[1]):
            parts = (block.data, block.indices + self._shift, block.indptr)
            block = csr_array(parts, shape=(block.shape[0], self.shape[1]))
        if self._masks is not None:
            block = block[self._masks[number]]
        design = of_matrix(block)
        return slice(start, start + block.shape[0]), design if self._centre is None else design.shifted(self._centre)

    def parts(self, size: int | None = None) -> Iterator[tuple[slice, Design]]:
        """Make one pass: the slice of the rows of each block, with its design; ``size`` has no effect."""
        self._passes[0] += 1
        return in_threads(self._shown(self._pieces()), self._design, 1)

    def _shown(self, blocks: Iterator[Any]) -> Iterator[Any]:
        """Show a progress bar over the items if requested."""
        if not (self._progress and is_watched(sys.stderr)):
            return blocks
        from tqdm import tqdm

        name, total = f"pass {self.passes} over the data", len(self._records) or None
        return iter(tqdm(blocks, name, total, leave=False, delay=1.0, unit="block"))

    def product_sums(
        self, w: ByColumn, w_sq: SquaredByColumn, function: RowFunction, *rows: PerRow
    ) -> tuple[Float[np.ndarray, ...], ...]:
        """See :class:`bayesdrop.designs.Design`; one pass, with a block in each of several threads."""

        def sums(number: int, start: int, where: str, load: Load) -> tuple[Float[np.ndarray, ...], ...]:
            span, block = self._design(number, start, where, load)
            return block.product_sums(w, w_sq, function, *(part[span] for part in rows))

        self._passes[0] += 1
        total: tuple[Any, ...] = ()
        with closing(self._pieces()) as pieces:
            # In the order of the rows, so that the sums do not depend on the order of the threads.
            for sums_of_block in in_threads(self._shown(pieces), sums, self._threads()):
                total = added(total, sums_of_block)
        return total

    def _threads(self) -> int:
        """Number of threads: one per core, or fewer if their blocks do not fit into ``LIMITS.block_bytes``."""
        largest = LIMITS.entry_bytes * max(record.stored for record in self._records)
        return int(np.clip(LIMITS.block_bytes // max(largest, 1), 1, min(self._most_threads or cores(), cores())))

    def _forward(self, method: str, tails: list[tuple[int, ...]], *weights: Num[AnyArray, "p ..."]) -> list[PerRow]:
        """Products of the blocks with weights, one pass; see :class:`.base.Blockwise`."""
        products = [np.empty((self.shape[0], *tail)) for tail in tails]
        for rows, block in self.parts():
            for whole, part in zip(products, getattr(block, method)(*weights), strict=True):
                whole[rows] = part
        return products

    def sum_over_parts(self, method: str, *rows: PerRow) -> list[Any]:
        """Sums over the blocks, one pass; see :class:`.base.Blockwise`."""
        total: tuple[Any, ...] = ()
        for part, block in self.parts():
            result = getattr(block, method)(*(row[part] for row in rows))
            total = added(total, result if isinstance(result, tuple) else (result,))
        return list(total)

    def normal_product(self, w: ByColumn, w_sq: SquaredByColumn, between: Between) -> tuple[PerRow, ...]:
        """Both products in one pass; see :class:`bayesdrop.designs.Design`."""
        n, total = self.shape[0], ()
        first, second = np.empty((n, w.shape[1])), np.empty((n, w_sq.shape[1]))
        for rows, block in self.parts():
            first[rows], second[rows] = block.pair_matvec(w, w_sq)
            total = added(total, block.back_sums(*between(rows, first[rows], second[rows])))
        return first, second, *total

    def sampled_products(
        self, left: PerRow, right: ByColumn, square: PerColumn, linear: PerColumn
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)`` in one pass; see :class:`bayesdrop.designs.Design`."""
        forward, back = np.empty(left.shape), np.zeros(right.shape)
        for rows, block in self.parts():
            forward[rows], part = block.sampled_products(left[rows], right, square, linear)
            back += part
        return forward, back

    def outer_gram(self, scale: PerColumn) -> Float[np.ndarray, "n n"]:
        """``X diag(s) Xᵀ``, dense (n, n), in two passes: for few rows only."""
        return self.matvec(scale[:, None] * self.rmatvec(np.eye(self.shape[0])))
