"""Rows about a centre, ``X − c``: dense ones, columns of sparse ones that are filled, and products of the others."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .._typing import Float, Num
from .kernels import ROUNDING
from .products import Products
from .threads import side_by_side

__all__ = ["ShiftedProducts", "shift", "shift_columns"]

# Entries of a block that a thread shifts at once.
_AT_ONCE = 1 << 20


def shift(X: Float[np.ndarray, "n p"], centre: Float[np.ndarray, " p"], dtype: Any) -> Float[np.ndarray, "n p"]:
    """``X − c``; entries at ``c`` but for rounding become 0, for 0 is what noise leaves alone.

    Examples
    --------
    >>> shift(np.array([[1.0, 0.0], [3.0, 5.0]]), np.array([1.0, 0.0]), np.float64).tolist()
    [[0.0, 0.0], [2.0, 5.0]]
    """
    result = np.empty(X.shape, dtype=dtype)
    columns = slice(None) if np.all(centre) else np.flatnonzero(centre)
    about = centre[columns]

    def some(rows: slice) -> None:
        if len(about) < len(centre):
            result[rows] = X[rows]
        part = X[rows, columns] - about
        part[np.abs(part) <= ROUNDING * np.abs(about)] = 0.0
        result[rows, columns] = part

    # Half of the time goes into memory that is written for the first time, which threads share.
    step = max(1, _AT_ONCE // max(X.shape[1], 1))
    side_by_side([partial(some, slice(start, start + step)) for start in range(0, len(X), step)])
    return result


def shift_columns(X: Any, centre: Float[np.ndarray, " p"]) -> Any:
    """``X − 1cᵀ`` of canonical compressed rows, whose columns are filled where ``c`` is not zero.

    Examples
    --------
    >>> shift_columns(sparse.csr_array([[0.0, 2.0], [0.0, 3.0]]), np.array([0.0, 2.0])).toarray().tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    columns = np.flatnonzero(centre)
    if not len(columns):
        return X
    filled = sparse.csr_array(shift(X[:, columns].toarray(), centre[columns], np.float64))
    filled = sparse.csr_array((filled.data, columns[filled.indices], filled.indptr), shape=X.shape)
    rest = X.copy()
    rest.data[centre[X.indices] != 0] = 0
    rest.eliminate_zeros()
    return sparse.csr_array(rest + filled)


class ShiftedProducts:
    """Products of ``X − 1cᵀ`` by those of ``X``; see :class:`.products.Products`.

        (X − 1cᵀ)w = Xw − cᵀw,        (X − 1cᵀ)²w = X²w − 2X(c∘w) + (c²)ᵀw

    Examples
    --------
    >>> from .products import ScipyProducts
    >>> products = ShiftedProducts(ScipyProducts(sparse.csr_array([[2.0, 0.0]]), False), np.array([0.0, 1.0]))
    >>> [part.tolist() for part in products.forward(np.ones((2, 1)), np.ones((2, 1)))]
    [[[1.0]], [[5.0]]]
    """

    def __init__(self, products: Products, centre: Float[np.ndarray, " p"]) -> None:
        self._products, self._centre = products, centre[:, None]

    def forward(
        self, w: Num[np.ndarray, "p K"], w_sq: Num[np.ndarray, "p L"]
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]:
        """See :class:`.products.Products`."""
        K, c = w.shape[1], self._centre
        first, second = self._products.forward(np.concatenate([w, c * w_sq], axis=1), w_sq)
        second = second - 2 * first[:, K:] + (c * c * w_sq).sum(axis=0)
        if not np.any(w_sq < 0):
            second = np.maximum(second, 0.0)  # but for rounding it is
        return first[:, :K] - (c * w).sum(axis=0), second

    def backward(
        self, r: Num[np.ndarray, "n K"], r_sq: Num[np.ndarray, "n L"]
    ) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """See :class:`.products.Products`."""
        K, c = r.shape[1], self._centre
        first, second = self._products.backward(np.concatenate([r, r_sq], axis=1), r_sq)
        return first[:, :K] - c * r.sum(axis=0), second - 2 * c * first[:, K:] + c * c * r_sq.sum(axis=0)

    def sampled(
        self,
        left: Num[np.ndarray, "n K"],
        right: Num[np.ndarray, "p K"],
        square: Num[np.ndarray, " p"],
        linear: Num[np.ndarray, " p"],
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]:
        """See :class:`.products.Products`."""
        c = self._centre[:, 0]
        forward, back = self._products.sampled(left, right, square, linear - 2 * square * c)
        level = ((square * c - linear) * c)[:, None]
        return forward + left @ (right.T @ (level * right)), back + level * (right @ (left.T @ left))

    def gram(self, omega: Num[np.ndarray, " n"]) -> Float[np.ndarray, "p p"]:
        """See :class:`.products.Products`."""
        c = self._centre[:, 0]
        side = np.outer(self._products.backward(omega[:, None], omega[:, None][:, :0])[0], c)
        return self._products.gram(omega) - side - side.T + omega.sum() * np.outer(c, c)
