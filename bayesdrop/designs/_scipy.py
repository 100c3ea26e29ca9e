"""Products of a sparse matrix with blocks, by scipy; :mod:`.compiled.products` has the same in one pass.

``forward(w, w_sq)`` is ``(X w, X² w_sq)`` and ``backward(r, r_sq)`` is ``(Xᵀ r, (X²)ᵀ r_sq)``, for blocks of any width,
zero included; the square is elementwise. For 0/1 data the square is the matrix itself and is not stored.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from .._typing import AnyArray, Float, Num

__all__ = ["Products", "ScipyProducts", "as_block"]

# Numbers of a block that are gathered at once: 8 MB.
_GATHERED = 1 << 20


@runtime_checkable
class Products(Protocol):
    """Protocol of the products."""

    def forward(
        self, w: Num[np.ndarray, "p K"], w_sq: Num[np.ndarray, "p L"]
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]:
        """``(X w, X² w_sq)``: (p, K) and (p, L) to (n, K) and (n, L)."""

    def backward(
        self, r: Num[np.ndarray, "n K"], r_sq: Num[np.ndarray, "n L"]
    ) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """``(Xᵀ r, (X²)ᵀ r_sq)``: (n, K) and (n, L) to (p, K) and (p, L)."""

    def sampled(
        self,
        left: Num[np.ndarray, "n K"],
        right: Num[np.ndarray, "p K"],
        square: Num[np.ndarray, " p"],
        linear: Num[np.ndarray, " p"],
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)``; see :meth:`bayesdrop.designs.Design.sampled_products`."""


class ScipyProducts:
    """Products by scipy, float64.

    Examples
    --------
    >>> products = ScipyProducts(sparse.csr_array([[2.0, 0.0], [0.0, 3.0]]), False)
    >>> [part.tolist() for part in products.forward(np.ones((2, 1)), np.ones((2, 1)))]
    [[[2.0], [3.0]], [[4.0], [9.0]]]
    """

    def __init__(self, csr: Any, binary: bool) -> None:
        self._x = csr.astype(np.float64, copy=False)
        self._binary = binary
        self._sq = self._x
        if not binary:
            self._sq = sparse.csr_array((self._x.data**2, csr.indices, csr.indptr), shape=csr.shape)
        # Transposes are views in compressed columns: nothing is copied.
        self._xt, self._sqt = self._x.T, self._sq.T

    def forward(
        self, w: Num[np.ndarray, "p K"], w_sq: Num[np.ndarray, "p L"]
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]:
        """See :class:`Products`."""
        return _product(self._x, w), _product(self._sq, w_sq)

    def backward(
        self, r: Num[np.ndarray, "n K"], r_sq: Num[np.ndarray, "n L"]
    ) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """See :class:`Products`."""
        K = r.shape[1]
        if self._binary and K and r_sq.shape[1]:  # one matrix: scatter both in one pass
            both = self._xt @ np.concatenate([r, r_sq], axis=1)
            return both[:, :K], both[:, K:]
        return _product(self._xt, r), _product(self._sqt, r_sq)

    def sampled(
        self,
        left: Num[np.ndarray, "n K"],
        right: Num[np.ndarray, "p K"],
        square: Num[np.ndarray, " p"],
        linear: Num[np.ndarray, " p"],
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]:
        """See :class:`Products`."""
        x, columns = self._x.data, self._x.indices
        rows = np.repeat(np.arange(self._x.shape[0]), np.diff(self._x.indptr))
        inner = np.empty(len(x))
        step = max(1, _GATHERED // max(left.shape[1], 1))
        for start in range(0, len(x), step):
            some = slice(start, start + step)
            np.einsum("mk,mk->m", left[rows[some]], right[columns[some]], out=inner[some])
        inner *= x * (square[columns] * x + linear[columns])
        tilted = sparse.csr_array((inner, columns, self._x.indptr), shape=self._x.shape)
        return tilted @ right, tilted.T @ left


def _product(matrix: Any, block: Num[np.ndarray, "rows K"]) -> Float[AnyArray, "size K"]:
    """Product with a block; one column goes by the vector path, which is faster."""
    if block.shape[1] == 1:
        return (matrix @ block[:, 0])[:, None]
    return matrix @ block if block.shape[1] else np.zeros((matrix.shape[0], 0))


def as_block(vector: Num[np.ndarray, "rows ..."]) -> Num[np.ndarray, "rows K"]:
    """Return a vector (n,) as a block (n, 1), and a block as it is."""
    return vector if vector.ndim == 2 else vector[:, None]
