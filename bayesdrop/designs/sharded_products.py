"""Products of a matrix whose rows are spread over devices: each sums its own rows, then the devices sum theirs.

Compiled once for each shape, and called in double precision (``jax.enable_x64``). Single precision is widened, and
squares are taken, a block of a device's rows at a time, so that neither is ever there for the whole matrix. ``mesh``
has the axes ``chains`` and ``rows``; devices that differ in the first hold the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec

__all__ = [
    "added",
    "backward",
    "finite",
    "forward",
    "gram",
    "gram_of_some",
    "least",
    "outer_gram",
    "sign_sums",
    "transposed",
]

Array = Any

# Entries of a block: large enough that a GPU has work, small beside the memory.
_BLOCK = 1 << 21

_ROWS, _SAME = Spec("rows"), Spec()


def _on_devices(mesh: Mesh, function: Callable[..., Any], rows: bool) -> Callable[..., Any]:
    """Run a function on each device's rows of its arguments; what it returns is rows too, or is the same everywhere."""

    def run(by_row: tuple[Array, ...], same: tuple[Array, ...]) -> Any:
        return jax.shard_map(
            function, mesh=mesh, in_specs=(_ROWS, _SAME), out_specs=_ROWS if rows else _SAME, check_vma=False
        )(by_row, same)

    return run


def _parts(x: Array) -> tuple[int, int, int]:
    """Rows of a block, number of whole blocks, rows that remain."""
    size = min(max(1, _BLOCK // max(x.shape[1], 1)), x.shape[0])
    return size, x.shape[0] // size, x.shape[0] % size


def _cut(arrays: tuple[Array, ...], start: Any, size: int) -> tuple[Array, ...]:
    """Some rows; those of the matrix, which comes first, in double precision."""
    x, *others = (lax.dynamic_slice_in_dim(part, start, size) for part in arrays)
    return x.astype(jnp.float64), *others


def _sum(arrays: tuple[Array, ...], function: Callable[..., Any]) -> Any:
    """Sum over the blocks of a device's rows and over the devices."""
    size, whole, rest = _parts(arrays[0])

    def add(i: Array, total: Any) -> Any:
        return jax.tree.map(jnp.add, total, function(*_cut(arrays, i * size, size)))

    total = function(*_cut(arrays, 0, size))
    if whole > 1:
        total = lax.fori_loop(1, whole, add, total)
    if rest:
        total = jax.tree.map(jnp.add, total, function(*_cut(arrays, whole * size, rest)))
    return lax.psum(total, "rows")


@partial(jax.jit, static_argnames="mesh")
def forward(x: Array, w: Array, w_sq: Array, *, mesh: Mesh) -> tuple[Array, Array]:
    """``(X w, X² w_sq)``: (p, K) and (p, L) to (n, K) and (n, L), by rows."""

    def local(rows: tuple[Array], weights: tuple[Array, Array]) -> tuple[Array, Array]:
        size, whole, rest = _parts(rows[0])

        def products(start: Any, size: int = size) -> tuple[Array, Array]:
            (block,) = _cut(rows, start, size)
            return block @ weights[0], (block * block) @ weights[1]

        parts = lax.map(products, size * jnp.arange(whole))
        result = [part.reshape(whole * size, part.shape[-1]) for part in parts]
        if rest:
            result = [jnp.concatenate(pair) for pair in zip(result, products(whole * size, rest), strict=True)]
        return result[0], result[1]

    return _on_devices(mesh, local, rows=True)((x,), (w, w_sq))


@partial(jax.jit, static_argnames="mesh")
def backward(x: Array, r: Array, r_sq: Array, *, mesh: Mesh) -> tuple[Array, Array]:
    """``(Xᵀ r, (X²)ᵀ r_sq)``: (n, K) and (n, L) to (p, K) and (p, L)."""

    def local(rows: tuple[Array, Array, Array], _: tuple[()]) -> Any:
        return _sum(rows, lambda block, r, r_sq: (block.T @ r, (block * block).T @ r_sq))

    return _on_devices(mesh, local, rows=False)((x, r, r_sq), ())


@partial(jax.jit, static_argnames="mesh")
def gram(x: Array, omega: Array, *, mesh: Mesh) -> Array:
    """``Xᵀ diag(ω) X``, (p, p), for ``ω`` of shape (n,)."""

    def local(rows: tuple[Array, Array], _: tuple[()]) -> Array:
        return _sum(rows, lambda block, omega: block.T @ (omega[:, None] * block))

    return _on_devices(mesh, local, rows=False)((x, omega), ())


@partial(jax.jit, static_argnames=("mesh", "count"))
def gram_of_some(x: Array, omega: Array, *, mesh: Mesh, count: int) -> Array:
    """``Xᵀ diag(ω) X`` where no more than ``count`` entries of ``ω`` are not zero."""

    def local(rows: tuple[Array, Array], _: tuple[()]) -> Array:
        x, omega = rows
        chosen = jnp.nonzero(omega, size=count, fill_value=x.shape[0])[0]
        weight = jnp.take(omega, chosen, mode="fill", fill_value=0.0)
        block = jnp.take(x, chosen, axis=0, mode="fill", fill_value=0).astype(jnp.float64)
        return lax.psum(block.T @ (weight[:, None] * block), "rows")

    return _on_devices(mesh, local, rows=False)((x, omega), ())


@partial(jax.jit, static_argnames="mesh")
def sign_sums(x: Array, r: Array, *, mesh: Mesh) -> tuple[Array, Array]:
    """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)`` for ``r`` of shape (n, K)."""

    def local(rows: tuple[Array, Array], _: tuple[()]) -> Any:
        return _sum(rows, lambda block, r: tuple(sign.astype(jnp.float64).T @ r for sign in (block > 0, block < 0)))

    return _on_devices(mesh, local, rows=False)((x, r), ())


@partial(jax.jit, static_argnames="mesh")
def outer_gram(x: Array, scale: Array, *, mesh: Mesh) -> Array:
    """``X diag(s) Xᵀ``, (n, n), for ``s`` of shape (p,)."""

    def local(rows: tuple[Array], scale: tuple[Array]) -> Array:
        (x,) = rows
        whole = lax.all_gather(x, "rows", tiled=True).astype(jnp.float64)
        return (x.astype(jnp.float64) * scale[0][None]) @ whole.T

    return _on_devices(mesh, local, rows=True)((x,), (scale,))


@partial(jax.jit, static_argnames="mesh")
def least(x: Array, *, mesh: Mesh) -> Array:
    """Smallest entry."""
    return _on_devices(mesh, lambda rows, _: lax.pmin(jnp.min(rows[0]), "rows"), rows=False)((x,), ())


@partial(jax.jit, static_argnames="mesh")
def finite(x: Array, *, mesh: Mesh) -> tuple[Array, Array]:
    """Numbers of devices that hold NaN and that hold infinite entries."""

    def local(rows: tuple[Array], _: tuple[()]) -> tuple[Array, Array]:
        found = jnp.any(jnp.isnan(rows[0])), jnp.any(jnp.isinf(rows[0]))
        return lax.psum(tuple(part.astype(jnp.int32) for part in found), "rows")

    return _on_devices(mesh, local, rows=False)((x,), ())


@partial(jax.jit, static_argnames="mesh")
def added(parts: Array, *, mesh: Mesh) -> Array:
    """Sum of the rows of a (devices, K) array, the same on all of them."""
    return _on_devices(mesh, lambda rows, _: lax.psum(jnp.sum(rows[0], axis=0), "rows"), rows=False)((parts,), ())


@partial(jax.jit, static_argnames=("mesh", "dtype"))
def transposed(x: Array, *, mesh: Mesh, dtype: str) -> Array:
    """``Xᵀ``, (p, n), its columns where the rows are."""
    move = jax.shard_map(
        lambda x: x.T.astype(dtype), mesh=mesh, in_specs=_ROWS, out_specs=Spec(None, "rows"), check_vma=False
    )
    return move(x)
