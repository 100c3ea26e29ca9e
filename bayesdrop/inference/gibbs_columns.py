"""The data of the mask sampler, one padded column per feature.

Masks live on the entries ``x_id ≠ 0`` that a feature has. A column holds the ``m`` entries of the feature with most
of them; shorter ones are padded by zeros, which change nothing: a zero entry has the same score kept or dropped. A
dense matrix keeps all its rows (``m = n``), so no index is needed. Nothing here knows of losses or rates.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``m`` entries a column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

__all__ = ["Columns", "dense_columns", "sparse_columns"]

Array = Any


class Columns(NamedTuple):
    """A matrix by columns.

    Attributes
    ----------
    values : array (p, m)
        Entries, padded by zeros.
    occurs : bool array (p, m)
        True where there is a non-zero entry.
    rows : int array (p, m) or None
        Row of each entry, ``n`` for padding; None if entry ``i`` is row ``i``.
    """

    values: Array
    occurs: Array
    rows: Array | None

    def gather(self, rowwise: Array, rows: Array | None) -> Array:
        """Values of the rows of one column: (C, n) to (C, m)."""
        if rows is None:
            return rowwise
        return rowwise.at[:, rows].get(mode="fill", fill_value=0)

    def scatter(self, rowwise: Array, rows: Array | None, change: Array) -> Array:
        """Add a column's (C, m) to (C, n)."""
        if rows is None:
            return rowwise + change
        return rowwise.at[:, rows].add(change, mode="drop")

    def product(self, kept: Array, weight: Array, n: int) -> Array:
        """``Z w``: masks (p, C, m) and weights (C, p) to (C, n)."""
        if self.rows is None:
            return jnp.einsum("pn,pcn,cp->cn", self.values, kept.astype(weight.dtype), weight)
        entries = jnp.where(kept, self.values[:, None, :], 0) * weight.T[:, :, None]
        total = jnp.zeros((weight.shape[0], n), weight.dtype)
        flat = jnp.moveaxis(entries, 1, 0).reshape(weight.shape[0], -1)
        return total.at[:, self.rows.reshape(-1)].add(flat, mode="drop")

    def full_product(self, weight: Array, n: int) -> Array:
        """``X w`` with nothing dropped: weights (C, p) to (C, n)."""
        if self.rows is None:
            return weight @ self.values
        entries = (weight[:, :, None] * self.values[None]).reshape(weight.shape[0], -1)
        total = jnp.zeros((weight.shape[0], n), weight.dtype)
        return total.at[:, self.rows.reshape(-1)].add(entries, mode="drop")

    def squared(self) -> Columns:
        """The matrix with every entry squared."""
        return self._replace(values=self.values * self.values)

    def transposed_product(self, kept: Array, rowwise: Array) -> Array:
        """``Zᵀ r``: masks (p, C, m) and (C, n) to (C, p)."""
        if self.rows is None:
            return jnp.einsum("pn,pcn,cn->cp", self.values, kept.astype(rowwise.dtype), rowwise)
        picked = rowwise.at[:, self.rows].get(mode="fill", fill_value=0)
        return jnp.sum(jnp.where(kept, self.values[:, None, :], 0) * jnp.moveaxis(picked, 0, 1), axis=-1).T


def dense_columns(X: Array, dtype: Any) -> Columns:
    """Columns of a dense (n, p) matrix."""
    values = np.ascontiguousarray(np.transpose(X), dtype=dtype)
    return Columns(jnp.asarray(values), jnp.asarray(values != 0), None)


def sparse_columns(X: Array, dtype: Any) -> Columns:
    """Columns of a scipy sparse (n, p) matrix; memory grows as ``p`` times the longest column."""
    matrix = X.tocsc(copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    n, p = matrix.shape
    length = np.diff(matrix.indptr)
    longest = max(int(length.max(initial=0)), 1)
    feature = np.repeat(np.arange(p), length)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1].astype(np.int64), length)
    values = np.zeros((p, longest), dtype)
    rows = np.full((p, longest), n, np.int32)
    values[feature, place] = matrix.data
    rows[feature, place] = matrix.indices
    return Columns(jnp.asarray(values), jnp.asarray(rows < n), jnp.asarray(rows))
