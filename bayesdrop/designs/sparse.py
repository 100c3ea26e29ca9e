"""Sparse design matrix on scipy; it is never made dense."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["SparseDesign"]

Array = Any


class SparseDesign:
    """Compressed sparse rows, float64; see :class:`bayesdrop.designs.Design` for the methods.

    Takes every scipy format, arrays and matrices, int32 and int64 indices. Explicit zeros count as absent.
    For 0/1 data the square is the matrix itself and is not stored.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> SparseDesign(sparse.eye_array(2) * 3).sq_matvec(np.array([1.0, 2.0])).tolist()
    [9.0, 18.0]
    """

    def __init__(self, X: Any) -> None:
        csr = sparse.csr_array(X)
        if csr.indices.dtype == np.int64 and max(csr.nnz, *csr.shape) < np.iinfo(np.int32).max:
            # Half the index traffic, and the same numbers.
            csr = sparse.csr_array(
                (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32)), shape=csr.shape
            )
        if csr.dtype != np.float64:
            csr = csr.astype(np.float64)
        if not csr.has_canonical_format or np.any(csr.data == 0):
            csr = csr.copy()  # the caller's matrix stays as it is
            csr.sum_duplicates()
            csr.eliminate_zeros()
        self._x = csr
        # Transposes are views in compressed columns: nothing is copied.
        self._xt = csr.T
        self.shape: tuple[int, int] = csr.shape
        self.is_binary = bool(np.all(csr.data == 1))
        self._sq = csr if self.is_binary else self._with_data(csr.data**2)
        self._sqt = self._sq.T
        n, p = self.shape
        # A dense Gram matrix only where it takes no more room than the entries themselves.
        self.prefers_gram = p * p <= csr.nnz and p <= 1000
        self.prefers_outer_gram = not self.prefers_gram and n * n <= csr.nnz and n <= 1000

    def _with_data(self, data: Array) -> Any:
        return sparse.csr_array((data, self._x.indices, self._x.indptr), shape=self.shape)

    def matvec(self, w: Array) -> Array:
        """``X w``."""
        return _product(self._x, w)

    def rmatvec(self, r: Array) -> Array:
        """``Xᵀ r``."""
        return _product(self._xt, r)

    def sq_matvec(self, w: Array) -> Array:
        """``X² w``."""
        return _product(self._sq, w)

    def sq_rmatvec(self, r: Array) -> Array:
        """``(X²)ᵀ r``."""
        return _product(self._sqt, r)

    def pair_matvec(self, w: Array, w_sq: Array) -> tuple[Array, Array]:
        """``(X w, X² w_sq)``."""
        return _product(self._x, w), _product(self._sq, w_sq)

    def pair_rmatvec(self, r: Array, r_sq: Array) -> tuple[Array, Array]:
        """``(Xᵀ r, (X²)ᵀ r_sq)``."""
        if self.is_binary:  # one matrix: scatter both in one pass
            K = r.shape[1]
            both = self._xt @ np.concatenate([r, r_sq], axis=1)
            return both[:, :K], both[:, K:]
        return _product(self._xt, r), _product(self._sqt, r_sq)

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
        above = _product(self._with_data((self._x.data > 0).astype(np.float64)).T, r)
        if self.minimum() >= 0:
            return above, np.zeros_like(above)
        return above, _product(self._with_data((self._x.data < 0).astype(np.float64)).T, r)

    def minimum(self) -> float:
        """Smallest entry, absent zeros included."""
        return min(0.0, float(self._x.data.min())) if self._x.nnz else 0.0


def _product(matrix: Any, block: Array) -> Array:
    """Product with a vector or a block; one column goes by the vector path, which is faster."""
    if block.ndim == 2 and block.shape[1] == 1:
        return (matrix @ block[:, 0])[:, None]
    return matrix @ block
