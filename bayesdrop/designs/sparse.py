"""Sparse design matrix; it is never made dense.

Products are scipy's, or compiled ones for a large matrix if Numba is installed: see :mod:`.products`, :mod:`.compiled`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from .compiled import CompiledProducts, available
from .products import Products, ScipyProducts, as_block
from .rows import LocalRows

__all__ = ["SparseDesign"]

Array = Any

# Below this many entries the kernels save less than loading them costs.
_COMPILED_FROM = 100_000

# Entries are handed out so many at a time, to bound the memory of what is computed from them.
_BLOCK = 1 << 17


class SparseDesign(LocalRows):
    """Compressed sparse rows; see :class:`bayesdrop.designs.Design` for the methods.

    Takes every scipy format, arrays and matrices, int32 and int64 indices. Explicit zeros count as absent.
    For 0/1 data the square is the matrix itself and is not stored.

    Parameters
    ----------
    X : scipy sparse (n, p)
        Finite numbers.
    binary : bool, optional
        Whether all entries are 1, for a matrix that is known to be in canonical format without explicit zeros: to look
        costs as much as a product.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> SparseDesign(sparse.eye_array(2) * 3).sq_matvec(np.array([1.0, 2.0])).tolist()
    [9.0, 18.0]
    """

    def __init__(self, X: Any, binary: bool | None = None) -> None:
        csr = sparse.csr_array(X)
        known = binary is not None
        if csr.indices.dtype == np.int64 and max(csr.nnz, *csr.shape) < np.iinfo(np.int32).max:
            # Half the index traffic, and the same numbers.
            csr = sparse.csr_array(
                (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32)), shape=csr.shape
            )
        compiled = csr.nnz >= _COMPILED_FROM and available()
        if csr.dtype != np.float64 and not (compiled and csr.dtype == np.float32):
            csr = csr.astype(np.float64)
        if not known and (not csr.has_canonical_format or not np.all(csr.data)):
            csr = csr.copy()  # the caller's matrix stays as it is
            csr.sum_duplicates()
            csr.eliminate_zeros()
        self._x = csr
        self.shape: tuple[int, int] = csr.shape
        self.is_binary = bool(np.all(csr.data == 1)) if binary is None else binary
        self._products: Products = (CompiledProducts if compiled else ScipyProducts)(csr, self.is_binary)
        n, p = self.shape
        # A dense Gram matrix only where it takes no more room than the entries themselves.
        self.prefers_gram = p * p <= csr.nnz and p <= 1000
        self.prefers_outer_gram = not self.prefers_gram and n * n <= csr.nnz and n <= 1000

    def __sizeof__(self) -> int:
        """Bytes of the matrix, by which a scheduler knows what it would cost to move it."""
        return object.__sizeof__(self) + int(self._x.data.nbytes + self._x.indices.nbytes + self._x.indptr.nbytes)

    def _with_data(self, data: Array) -> Any:
        return sparse.csr_array((data, self._x.indices, self._x.indptr), shape=self.shape)

    def matvec(self, w: Array) -> Array:
        """``X w``."""
        block = as_block(w)
        return self._products.forward(block, block[:, :0])[0].reshape(self.shape[0], *w.shape[1:])

    def rmatvec(self, r: Array) -> Array:
        """``Xᵀ r``."""
        block = as_block(r)
        return self._products.backward(block, block[:, :0])[0].reshape(self.shape[1], *r.shape[1:])

    def sq_matvec(self, w: Array) -> Array:
        """``X² w``."""
        block = as_block(w)
        return self._products.forward(block[:, :0], block)[1].reshape(self.shape[0], *w.shape[1:])

    def sq_rmatvec(self, r: Array) -> Array:
        """``(X²)ᵀ r``."""
        block = as_block(r)
        return self._products.backward(block[:, :0], block)[1].reshape(self.shape[1], *r.shape[1:])

    def pair_matvec(self, w: Array, w_sq: Array) -> tuple[Array, Array]:
        """``(X w, X² w_sq)``."""
        return self._products.forward(w, w_sq)

    def pair_rmatvec(self, r: Array, r_sq: Array) -> tuple[Array, Array]:
        """``(Xᵀ r, (X²)ᵀ r_sq)``."""
        return self._products.backward(r, r_sq)

    def gram(self, omega: Array) -> Array:
        """``Xᵀ diag(ω) X``, dense (p, p)."""
        root = np.sqrt(omega)
        scaled = self._with_data(self._x.data * np.repeat(root, np.diff(self._x.indptr)))
        return (scaled.T @ scaled).toarray()

    def outer_gram(self, scale: Array) -> Array:
        """``X diag(s) Xᵀ``, dense (n, n)."""
        scaled = self._with_data(self._x.data * np.sqrt(scale)[self._x.indices])
        return (scaled @ scaled.T).toarray()

    def sign_sums(self, r: Array) -> tuple[Array, Array]:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)``."""
        if self.is_binary:
            return self.rmatvec(r), np.zeros((self.shape[1], r.shape[1]))
        above = self._with_data((self._x.data > 0).astype(np.float64)).T @ r
        if self.minimum() >= 0:
            return above, np.zeros_like(above)
        return above, self._with_data((self._x.data < 0).astype(np.float64)).T @ r

    def minimum(self) -> float:
        """Smallest entry, absent zeros included."""
        return min(0.0, float(self._x.data.min())) if self._x.nnz else 0.0

    def entries(self) -> Iterator[tuple[Array, Array, Array]]:
        """Non-zero entries as ``(rows, columns, values)`` in blocks of rows."""
        ends = self._x.indptr
        start, n = 0, self.shape[0]
        while start < n:
            # The last row that still fits, and one row at least.
            stop = max(int(np.searchsorted(ends, ends[start] + _BLOCK, side="right")) - 1, start + 1)
            part = slice(ends[start], ends[stop])
            if ends[stop] > ends[start]:
                rows = np.repeat(np.arange(start, stop), np.diff(ends[start : stop + 1]))
                yield rows, self._x.indices[part], self._x.data[part]
            start = stop
