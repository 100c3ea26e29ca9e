"""A matrix for samplers: products with the weights of all chains at once, differentiable, dense or sparse.

A sparse matrix is stored twice, by rows and by columns, so that both products are gathers, which run several times
faster than scattered additions. Lines of similar length make a block, padded by zeros to less than twice their length.
A loop over positions adds one entry of every line at a time, in a third of the time of a sum over a gathered block.

Shapes: ``C`` chains, ``n`` rows, ``p`` features.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._typing import Float, Int, MatrixLike
from ..designs import as_design

__all__ = [
    "Matrix",
    "PaddedLines",
    "backward_product",
    "placed",
    "product",
    "samplers_matrix",
    "squared_product",
]


class PaddedLines(NamedTuple):
    """Lines (rows or columns) of a sparse matrix in blocks of similar length.

    Attributes
    ----------
    places : tuple of int arrays (length, lines)
        Position of each entry in its line, 0 for padding.
    values : tuple of arrays (length, lines)
        The entries, 0 for padding.
    order : int array
        Position of each line of the matrix in the list of the lines of all blocks.
    """

    places: tuple[Int[jax.Array, "_ _"], ...]
    values: tuple[Float[jax.Array, "_ _"], ...]
    order: Int[jax.Array, " lines"]

    # Compiled as a whole, also if Python calls it: a loop over places would be compiled again at every call.
    @partial(jax.jit, static_argnames=("square", "at_once"), inline=True)
    def dot(self, vectors: Float[jax.Array, "C length"], square: bool, at_once: int = 8) -> Float[jax.Array, "C lines"]:
        """Product of every line, or its square, with vectors: (C, length) to (C, lines); unrolled by ``at_once``."""
        table = vectors.T

        def add(total: Float[jax.Array, "_ C"], entry: tuple[Int[jax.Array, " _"], Float[jax.Array, " _"]]) -> Any:
            place, value = entry
            factor = (value * value if square else value)[:, None]
            return total + factor * table.at[place].get(mode="promise_in_bounds"), None

        sums = []
        for place, value in zip(self.places, self.values, strict=True):
            nothing = jnp.zeros((place.shape[1], table.shape[1]), table.dtype)
            sums.append(jax.lax.scan(add, nothing, (place, value), unroll=min(at_once, len(place)))[0])
        return jnp.concatenate(sums)[self.order].T


class Matrix(NamedTuple):
    """A matrix of ``n`` rows and ``p`` columns, dense or sparse; the fields of the other kind are None.

    Attributes
    ----------
    dense : array (p, n) or None
        The transpose, which suits both products.
    square : array (p, n) or None
        Elementwise square of the transpose, if it is stored.
    rows, columns : PaddedLines or None
        A sparse matrix by rows and by columns.
    """

    dense: Float[jax.Array, "p n"] | None
    square: Float[jax.Array, "p n"] | None
    rows: PaddedLines | None
    columns: PaddedLines | None


def samplers_matrix(X: MatrixLike, dtype: str | np.dtype[Any], square: bool) -> Matrix:
    """Convert a matrix or design (n, p) for the samplers; a matrix on devices stays there.

    ``square``: store the square of a dense matrix too.
    """
    design = as_design(X)
    if design.is_sparse:
        lines = design.matrix()
        return Matrix(None, None, _lines(lines.copy(), dtype), _lines(lines.tocsc(copy=True), dtype))
    dense = design.transposed(dtype)
    return Matrix(dense, dense * dense if square else None, None, None)


def _lines(matrix: Any, dtype: str | np.dtype[Any]) -> PaddedLines:
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    start = matrix.indptr.astype(np.int64)
    length = np.diff(start)
    block = np.ceil(np.log2(np.maximum(length, 1))).astype(int)
    places, values, members = [], [], []
    for size in np.unique(block):
        lines = np.flatnonzero(block == size)
        longest = max(int(length[lines].max()), 1)
        offset = np.arange(longest)[:, None]
        inside = offset < length[lines]
        position = np.where(inside, start[lines] + offset, 0)
        empty = matrix.nnz == 0
        places.append(placed(np.where(inside, 0 if empty else matrix.indices[position], 0), np.int32))
        values.append(placed(np.where(inside, 0 if empty else matrix.data[position], 0), dtype))
        members.append(lines)
    order = np.argsort(np.concatenate(members), kind="stable")
    return PaddedLines(tuple(places), tuple(values), placed(order, np.int32))


def _forward(matrix: Matrix, weight: Float[jax.Array, "C p"], square: bool) -> Float[jax.Array, "C n"]:
    if matrix.rows is not None:
        return matrix.rows.dot(weight, square)
    return weight @ _dense(matrix, square)


def _backward(matrix: Matrix, rowwise: Float[jax.Array, "C n"], square: bool) -> Float[jax.Array, "C p"]:
    if matrix.columns is not None:
        return matrix.columns.dot(rowwise, square)
    dense, (chains, double) = _dense(matrix, square), (rowwise.shape[0], rowwise.dtype == jnp.float64)
    # How XLA lays out this reduction over the long axis decides its speed. A few chains go one by one, up to 1.9 times
    # faster than together in single precision.
    if chains <= (2 if double else 8):
        return jnp.stack([dense @ one for one in rowwise])
    # In double precision a transposed copy of the small factor is twice as fast; the barrier keeps XLA from fusing it
    # into the product.
    if double:
        return (dense @ jax.lax.optimization_barrier(rowwise.T)).T
    return jax.lax.optimization_barrier(rowwise) @ dense.T


def _dense(matrix: Matrix, square: bool) -> Float[jax.Array, "p n"]:
    if square and matrix.square is not None:
        return matrix.square
    dense: Any = matrix.dense
    return dense * dense if square else dense


# The derivative of a product is the other product; the derivative of the loop would be scattered additions.
@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _product(matrix: Matrix, vectors: Float[jax.Array, "C _"], square: bool, turned: bool) -> Float[jax.Array, "C _"]:
    return (_backward if turned else _forward)(matrix, vectors, square)


_product.defvjp(
    lambda matrix, vectors, square, turned: (_product(matrix, vectors, square, turned), matrix),
    lambda square, turned, matrix, slope: (None, _product(matrix, slope, square, not turned)),
)


def product(matrix: Matrix, weight: Float[jax.Array, "C p"]) -> Float[jax.Array, "C n"]:
    """``X w`` for every chain: (C, p) to (C, n); derivatives are taken in the weights only."""
    return _product(matrix, weight, False, False)


def backward_product(matrix: Matrix, rowwise: Float[jax.Array, "C n"]) -> Float[jax.Array, "C p"]:
    """``Xᵀ r`` for every chain: (C, n) to (C, p)."""
    return _product(matrix, rowwise, False, True)


def squared_product(matrix: Matrix, weight: Float[jax.Array, "C p"]) -> Float[jax.Array, "C n"]:
    """``X² w``, the square elementwise: (C, p) to (C, n); derivatives are taken in the weights only."""
    return _product(matrix, weight, True, False)


def placed(part: Any, dtype: Any = None) -> jax.Array:
    """An array on the default device, converted by NumPy.

    ``jnp.asarray`` compiles a program for each shape and dtype that it has not seen, which takes 14 ms; a first draw
    would wait for fifteen of them.

    Examples
    --------
    >>> placed([1, 2], np.float32).dtype
    dtype('float32')
    """
    return jax.device_put(np.asarray(part, dtype=dtype))
