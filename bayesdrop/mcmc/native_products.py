"""Products on a processor as calls of loops that Numba compiles (the extra ``fast``), made from within XLA's programs.

XLA takes five to ten times as long for the gathers of a sparse product, and reads a matrix anew for each chain. Where
Numba is missing, another device than a processor is the default, or XLA's interface is no longer the one that
:mod:`._native` was written for, products are XLA's own.

Shapes: ``C`` chains.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._typing import Float, Int
from ..designs.compiled.jit import available
from .placing import placed

__all__ = ["CompressedLines", "compressed_lines", "native", "row_combinations", "row_products"]


def native(kind: str, dtype: Any) -> str | None:
    """Name under which programs call a loop, or None where they cannot.

    ``kind`` is ``"ones"``, ``"values"``, ``"squares"``, ``"pairs"``, ``"rows"`` or ``"combinations"``.
    """
    # What is registered before there are devices is checked too late.
    return _registered(f"{kind}_{np.dtype(dtype).name}") if available() and jax.default_backend() == "cpu" else None


@cache
def _registered(name: str) -> str | None:
    from ._native import HANDLERS

    make, target = HANDLERS.get(name), f"bayesdrop_{name}"
    if make is None:
        return None
    handler = make()
    try:
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(ctypes.cast(handler.address, ctypes.c_void_p)), "cpu")
    except Exception:  # XLA says by errors of several kinds that it no longer has this interface
        return None
    _kept.append(handler)
    return target


# Machine code lives as long as what made it.
_kept: list[Any] = []


class CompressedLines(NamedTuple):
    """Lines (rows or columns) of a sparse matrix, one after another.

    Attributes
    ----------
    pointers : int array (lines + 1,)
        Where each line begins among the entries, and where the last one ends.
    places : int array (m,)
        Where the entries stand in their line.
    values : array (m,), optional
        The entries; none if all are 1.
    """

    pointers: Int[jax.Array, " pointers"]
    places: Int[jax.Array, " m"]
    values: Float[jax.Array, " m"] | None

    def dot(self, vectors: Float[jax.Array, "C length"], square: bool) -> Float[jax.Array, "C lines"]:
        """Product of every line with vectors: (C, length) to (C, lines)."""
        return self._call("squares" if square else "values", vectors.T).T

    def pair_dot(
        self, vectors: Float[jax.Array, "C length"], squares: Float[jax.Array, "C length"]
    ) -> tuple[Float[jax.Array, "C lines"], Float[jax.Array, "C lines"]]:
        """Product of every line with vectors, and of its square with others, in one pass over the entries."""
        both = self._call("pairs", jnp.concatenate([vectors, squares]).T).T
        return both[: len(vectors)], both[len(vectors) :]

    def _call(self, kind: str, table: Float[jax.Array, "length K"]) -> Float[jax.Array, "lines K"]:
        name = native("ones" if self.values is None else kind, table.dtype)
        if name is None:
            raise TypeError(f"X: expected float32 or float64 vectors on a processor, got {table.dtype}.")
        made = jax.ShapeDtypeStruct((self.pointers.shape[0] - 1, table.shape[1]), table.dtype)
        given = (self.pointers, self.places) if self.values is None else (self.pointers, self.places, self.values)
        found: jax.Array = jax.ffi.ffi_call(name, made, vmap_method="sequential")(*given, table)
        return found


def compressed_lines(matrix: Any, dtype: Any) -> CompressedLines | None:
    """Lines of a canonical scipy matrix in compressed rows or columns, or None where no program could read them."""
    if matrix.nnz >= np.iinfo(np.int32).max or native("ones", dtype) is None:
        return None
    values = None if np.all(matrix.data == 1) else placed(matrix.data, dtype)
    return CompressedLines(placed(matrix.indptr, np.int32), placed(matrix.indices, np.int32), values)


def row_products(matrix: Float[jax.Array, "m n"], rows: Float[jax.Array, "C n"]) -> Float[jax.Array, "C m"] | None:
    """``Mr`` for every chain, or None where XLA has to make it."""
    return _product("rows", matrix.shape[0], matrix, rows, rows)


def row_combinations(
    factors: Float[jax.Array, "C m"], matrix: Float[jax.Array, "m n"]
) -> Float[jax.Array, "C n"] | None:
    """``Mᵀf`` for every chain, or None where XLA has to make it."""
    return _product("combinations", matrix.shape[1], factors, matrix, factors)


def _product(kind: str, size: int, left: Any, right: Any, chains: Float[jax.Array, "C _"]) -> Any:
    name = native(kind, chains.dtype)
    if name is None:
        return None
    made = jax.ShapeDtypeStruct((chains.shape[0], size), chains.dtype)
    return jax.ffi.ffi_call(name, made, vmap_method="sequential")(left, right)
