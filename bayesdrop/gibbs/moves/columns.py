"""The features of the mask sampler: blocks of padded columns, and products with masked and whole matrices.

Only the entries ``x_id ≠ 0`` have masks. Columns of similar length make a block, whose shorter ones are padded by
zeros, which change nothing: a zero entry has the same score kept or dropped. The blocks are chosen so that padding
costs little whatever the lengths (those of words follow a power law), and there are few of them, because each is
compiled. A feature without entries has no masks and is in no block. A dense matrix is one block with all its rows
(``m = n``), so no index is needed. This module is independent of losses and rates.

Products with a sparse matrix are gathers in both directions: ``by_row`` has the positions of each row's entries.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``q`` features and ``m`` entries each in a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Bool, Float, Int, MatrixLike
from ...designs import as_design
from ...sampling.matrix import Matrix, placed, product, samplers_matrix, squared_product

__all__ = ["Block", "Columns", "dense_columns", "partition", "sparse_columns"]


class Block(NamedTuple):
    """Columns of similar length.

    Attributes
    ----------
    features : int array (q,)
        Indices of these columns.
    values : array (q, m)
        Entries, padded by zeros.
    occurs : bool array (q, m)
        True where there is a non-zero entry.
    rows : int array (q, m) or None
        Row of each entry, ``n`` for padding; None if entry ``i`` is row ``i``.
    """

    features: Int[jax.Array, " q"]
    values: Float[jax.Array, "q m"]
    occurs: Bool[jax.Array, "q m"]
    rows: Int[jax.Array, "q m"] | None

    def masked(self, mask: Bool[jax.Array, "q C m"]) -> Float[jax.Array, "q C m"]:
        """Entries that are kept: masks (q, C, m) to (q, C, m)."""
        return jnp.where(mask, self.values[:, None, :], 0)


def gather(rowwise: Float[jax.Array, "C n"], rows: Int[jax.Array, " m"] | None) -> Float[jax.Array, "C m"]:
    """Values of the rows of one column: (C, n) to (C, m)."""
    if rows is None:
        return rowwise
    return rowwise.at[:, rows].get(mode="fill", fill_value=0)


def scatter(
    rowwise: Float[jax.Array, "C n"], rows: Int[jax.Array, " m"] | None, change: Float[jax.Array, "C m"]
) -> Float[jax.Array, "C n"]:
    """Add values (C, m) of the rows of one column to (C, n)."""
    if rows is None:
        return rowwise + change
    return rowwise.at[:, rows].add(change, mode="drop")


class Columns(NamedTuple):
    """A matrix by columns. Masks are one array (q, C, m) per block.

    Attributes
    ----------
    blocks : tuple of Block
        All features that occur.
    empty : int array (e,)
        Features that never occur.
    place : int array (p,)
        Position of each feature in the list of the features of all blocks, then the empty ones.
    by_row : tuple of int arrays (lines, length)
        For rows of similar length, positions of their entries among those of all blocks, one past the end for padding.
        Empty for a dense matrix.
    row_place : int array (n,)
        Position of each row in the list of the rows of ``by_row``.
    matrix : Matrix or None
        The same matrix for products without masks; None for a dense one, which uses its block.
    """

    blocks: tuple[Block, ...]
    empty: Int[jax.Array, " e"]
    place: Int[jax.Array, " p"]
    by_row: tuple[Int[jax.Array, "_ _"], ...]
    row_place: Int[jax.Array, " n"]
    matrix: Matrix | None

    @property
    def is_dense(self) -> bool:
        """Whether the matrix is dense."""
        return self.matrix is None

    @property
    def occurrences(self) -> Int[jax.Array, " p"]:
        """Number of entries of each feature, int (p,)."""
        return self.per_feature(
            [jnp.sum(block.occurs, axis=1, dtype=jnp.int32) for block in self.blocks], (), jnp.int32
        )

    def per_feature(self, parts: Sequence[jax.Array], shape: tuple[int, ...], dtype: Any) -> jax.Array:
        """Join arrays (q, *shape) of the blocks into one by feature, (p, *shape); 0 for features without entries."""
        return jnp.concatenate([*parts, jnp.zeros((self.empty.shape[0], *shape), dtype)])[self.place]

    def product(
        self, masks: Sequence[Bool[jax.Array, "_ C _"]], weight: Float[jax.Array, "C p"], n: int
    ) -> Float[jax.Array, "C n"]:
        """``Z w``: masks and weights (C, p) to (C, n)."""
        if self.is_dense:
            (block,) = self.blocks
            return jnp.einsum("pn,pcn,cp->cn", block.values, masks[0].astype(weight.dtype), weight)
        table = weight.T
        parts = [
            jnp.moveaxis(block.masked(mask) * table[block.features][:, :, None], 1, 2).reshape(-1, weight.shape[0])
            for block, mask in zip(self.blocks, masks, strict=True)
        ]
        entries = jnp.concatenate([*parts, jnp.zeros((1, weight.shape[0]), weight.dtype)])
        sums = [jnp.sum(entries[place], axis=1) for place in self.by_row]
        return jnp.concatenate(sums)[self.row_place].T

    def full_product(self, weight: Float[jax.Array, "C p"]) -> Float[jax.Array, "C n"]:
        """``X w`` with nothing dropped: weights (C, p) to (C, n)."""
        return weight @ self.blocks[0].values if self.matrix is None else product(self.matrix, weight)

    def full_squared_product(self, weight: Float[jax.Array, "C p"]) -> Float[jax.Array, "C n"]:
        """``X² w``, the square elementwise: weights (C, p) to (C, n)."""
        if self.matrix is None:
            return weight @ (self.blocks[0].values * self.blocks[0].values)
        return squared_product(self.matrix, weight)

    def transposed_product(
        self, masks: Sequence[Bool[jax.Array, "_ C _"]], rowwise: Float[jax.Array, "C n"], square: bool = False
    ) -> Float[jax.Array, "C p"]:
        """``Zᵀ r``, or with every entry of ``Z`` squared: masks and (C, n) to (C, p)."""
        if self.is_dense:
            (block,) = self.blocks
            values = block.values * block.values if square else block.values
            return jnp.einsum("pn,pcn,cn->cp", values, masks[0].astype(rowwise.dtype), rowwise)
        table = jnp.concatenate([rowwise.T, jnp.zeros((1, rowwise.shape[0]), rowwise.dtype)])
        parts = []
        for block, mask in zip(self.blocks, masks, strict=True):
            values = block.values * block.values if square else block.values
            picked = jnp.moveaxis(table[block.rows], 2, 1)
            parts.append(jnp.sum(jnp.where(mask, values[:, None, :] * picked, 0), axis=-1))
        return self.per_feature(parts, (rowwise.shape[0],), rowwise.dtype).T

    def rows(
        self, masks: Sequence[Bool[jax.Array, "_ C _"]], chosen: Int[jax.Array, "C k"]
    ) -> Float[jax.Array, "C k p"]:
        """Rows of ``Z``, a choice for each chain: masks and indices (C, k) to (C, k, p)."""
        if self.is_dense:
            row_masks = jnp.take_along_axis(masks[0], chosen[None], axis=2)
            return jnp.moveaxis(jnp.where(row_masks, self.blocks[0].values[:, chosen], 0), 0, 2)
        (chains, k), p, dtype = chosen.shape, self.place.shape[0], self.blocks[0].values.dtype
        parts = [
            jnp.moveaxis(block.masked(mask), 1, 2).reshape(-1, chains)
            for block, mask in zip(self.blocks, masks, strict=True)
        ]
        entries = jnp.concatenate([*parts, jnp.zeros((1, chains), dtype)])
        features = [jnp.repeat(block.features, block.values.shape[1]) for block in self.blocks]
        feature = jnp.concatenate([*features, jnp.full(1, p, jnp.int32)])
        chain, line = jnp.arange(chains)[:, None, None], jnp.arange(k)[None, :, None]
        place, out = self.row_place[chosen], jnp.zeros((chains, k, p + 1), dtype)
        for lines in self.by_row:
            inside = (place >= 0) & (place < lines.shape[0])
            position = jnp.where(inside[:, :, None], lines[jnp.where(inside, place, 0)], entries.shape[0] - 1)
            out = out.at[chain, line, feature[position]].add(entries[position, chain])
            place = place - lines.shape[0]
        return out[:, :, :p]


def dense_columns(X: MatrixLike, dtype: str | np.dtype[Any]) -> Columns:
    """Columns of a dense (n, p) matrix or design."""
    values = as_design(X).transposed(dtype)
    features, nothing = (placed(np.arange(count), np.int32) for count in (len(values), 0))
    block = Block(features, values, placed(np.asarray(values) != 0), None)
    return Columns((block,), nothing, features, (), nothing, None)


def sparse_columns(X: MatrixLike, dtype: str | np.dtype[Any]) -> Columns:
    """Columns of a scipy sparse (n, p) matrix; memory grows as the number of non-zero entries."""
    matrix = X.tocsc(copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    n, p = matrix.shape
    start = matrix.indptr.astype(np.int64)
    length = np.diff(start)
    blocks, position, offset = [], np.zeros(matrix.nnz, np.int64), 0
    for features in partition(length):
        m = int(length[features].max())
        inside = np.arange(m)[None] < length[features, None]
        entry = np.where(inside, start[features, None] + np.arange(m)[None], 0)
        values = np.where(inside, matrix.data[entry], 0).astype(dtype)
        rows = np.where(inside, matrix.indices[entry], n).astype(np.int32)
        position[entry[inside]] = offset + np.flatnonzero(inside)
        offset += inside.size
        blocks.append(Block(placed(features, np.int32), placed(values), placed(inside), placed(rows)))
    empty = np.flatnonzero(length == 0)
    order = np.concatenate([*(np.asarray(block.features) for block in blocks), empty])
    by_row, row_place = _by_row(matrix, position, offset)
    return Columns(
        tuple(blocks),
        placed(empty, np.int32),
        placed(np.argsort(order), np.int32),
        by_row,
        row_place,
        samplers_matrix(X, dtype, False),
    )


def _by_row(
    matrix: Any, position: Int[np.ndarray, " nnz"], total: int
) -> tuple[tuple[Int[jax.Array, "_ _"], ...], Int[jax.Array, " n"]]:
    """Positions of the entries of each row, rows of similar length together, and the position of each row."""
    n = matrix.shape[0]
    order = np.argsort(matrix.indices, kind="stable")
    length = np.bincount(matrix.indices, minlength=n)
    start = np.append(0, np.cumsum(length))
    lines, members = [], []
    size = np.ceil(np.log2(np.maximum(length, 1))).astype(int)
    for block in np.unique(size):
        rows = np.flatnonzero(size == block)
        longest = max(int(length[rows].max()), 1)
        inside = np.arange(longest)[None] < length[rows, None]
        line = np.full(inside.shape, total, np.int64)
        line[inside] = position[order[(start[rows, None] + np.arange(longest)[None])[inside]]]
        lines.append(placed(line, np.int32))
        members.append(rows)
    return tuple(lines), placed(np.argsort(np.concatenate(members)), np.int32)


def partition(
    length: Int[np.ndarray, " p"], max_blocks: int = 5, worth: float = 0.1, overhead: int = 64
) -> list[np.ndarray]:
    """Cut columns into few blocks of similar length, each padded to its longest, at minimum total cost.

    Parameters
    ----------
    length : int array (p,)
        Entries of each column; columns without entries are left out.
    overhead : int
        Cost of a column in addition to its entries, in units of one entry: one step of a loop.

    Returns
    -------
    list of int arrays
        Columns of each block, the longest first.

    Examples
    --------
    >>> [block.tolist() for block in partition(np.array([3, 1000, 2, 0, 900]))]
    [[1, 4], [0, 2]]
    """
    # Another block must save at least the share ``worth`` of the cost.
    columns = np.argsort(-length, kind="stable")
    columns = columns[: np.count_nonzero(length)]
    if not len(columns):
        return []
    lengths, first = np.unique(-length[columns], return_index=True)
    lengths = -lengths
    if len(lengths) > 400:  # these are enough: the cost is flat around its minimum
        keep = np.unique(np.geomspace(1, len(lengths), 400).astype(int) - 1)
        lengths, first = lengths[keep], first[keep]
    ends = np.append(first[1:], len(columns))
    # cost[i, j]: cost of a block from candidate i to candidate j; best[j]: least cost of blocks up to candidate j.
    number = ends[None] - first[:, None]
    cost = np.where(number > 0, (lengths[:, None] + overhead) * number, np.inf)
    best, starts, cuts = cost[0], [], [0]
    while len(cuts) < min(max_blocks, len(lengths)):
        ways = best[:-1, None] + cost[1:]
        starts.append(1 + np.argmin(ways, axis=0))
        cheaper = np.min(ways, axis=0)
        if cheaper[-1] > (1 - worth) * best[-1]:
            break
        best, cuts, j = cheaper, [], len(lengths) - 1
        for start in reversed(starts):
            cuts.append(int(start[j]))
            j = cuts[-1] - 1
        cuts.append(0)
    return np.split(columns, first[sorted(cuts)][1:])
