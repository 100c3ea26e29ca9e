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

from ..._memory import BLOCK
from ..._typing import Float, Int, Num

__all__ = [
    "backward",
    "column_summary",
    "finite",
    "forward",
    "gram",
    "least",
    "outer_gram",
    "sampled",
    "shifted",
    "sign_sums",
    "transposed",
]


_ROWS, _SAME = Spec("rows"), Spec()


def _on_devices(mesh: Mesh, function: Callable[..., Any], rows: bool) -> Callable[..., Any]:
    """Run a function on each device's rows of its arguments; what it returns is rows too, or is the same everywhere."""

    def run(by_row: tuple[Num[jax.Array, ...], ...], same: tuple[Num[jax.Array, ...], ...]) -> Any:
        return jax.shard_map(
            function, mesh=mesh, in_specs=(_ROWS, _SAME), out_specs=_ROWS if rows else _SAME, check_vma=False
        )(by_row, same)

    return run


def _parts(x: Float[jax.Array, "n p"]) -> tuple[int, int, int]:
    """Rows of a block, number of whole blocks, rows that remain."""
    size = min(max(1, BLOCK // max(x.shape[1], 1)), x.shape[0])
    return size, x.shape[0] // size, x.shape[0] % size


def _cut(arrays: tuple[Num[jax.Array, ...], ...], start: Any, size: int) -> tuple[Num[jax.Array, ...], ...]:
    """Some rows; those of the matrix, which comes first, in double precision."""
    x, *others = (lax.dynamic_slice_in_dim(part, start, size) for part in arrays)
    return x.astype(jnp.float64), *others


def _sum(arrays: tuple[Num[jax.Array, ...], ...], function: Callable[..., Any]) -> Any:
    """Sum over the blocks of a device's rows and over the devices."""
    size, whole, rest = _parts(arrays[0])

    def add(i: Any, total: Any) -> Any:
        return jax.tree.map(jnp.add, total, function(*_cut(arrays, i * size, size)))

    total = function(*_cut(arrays, 0, size))
    if whole > 1:
        total = lax.fori_loop(1, whole, add, total)
    if rest:
        total = jax.tree.map(jnp.add, total, function(*_cut(arrays, whole * size, rest)))
    return lax.psum(total, "rows")


def _map(arrays: tuple[Num[jax.Array, ...], ...], function: Callable[..., Any]) -> Any:
    """What a function makes of the blocks of a device's rows, tuples of (rows, K), put together."""
    size, whole, rest = _parts(arrays[0])

    def made(start: Any, size: int = size) -> Any:
        return function(*_cut(arrays, start, size))

    found = [part.reshape(whole * size, part.shape[-1]) for part in lax.map(made, size * jnp.arange(whole))]
    if rest:
        found = [jnp.concatenate(pair) for pair in zip(found, made(whole * size, rest), strict=True)]
    return tuple(found)


@partial(jax.jit, static_argnames="mesh")
def forward(
    x: Float[jax.Array, "n p"], w: Num[jax.Array, "p K"], w_sq: Num[jax.Array, "p L"], *, mesh: Mesh
) -> tuple[Float[jax.Array, "n K"], Float[jax.Array, "n L"]]:
    """``(X w, X² w_sq)``: (p, K) and (p, L) to (n, K) and (n, L), by rows."""

    def local(rows: tuple[Num[jax.Array, ...], ...], weights: tuple[Num[jax.Array, ...], ...]) -> Any:
        return _map(rows, lambda block: (block @ weights[0], (block * block) @ weights[1]))

    return _on_devices(mesh, local, rows=True)((x,), (w, w_sq))


@partial(jax.jit, static_argnames="mesh")
def backward(
    x: Float[jax.Array, "n p"], r: Num[jax.Array, "n K"], r_sq: Num[jax.Array, "n L"], *, mesh: Mesh
) -> tuple[Float[jax.Array, "p K"], Float[jax.Array, "p L"]]:
    """``(Xᵀ r, (X²)ᵀ r_sq)``: (n, K) and (n, L) to (p, K) and (p, L)."""

    def local(rows: tuple[Num[jax.Array, ...], ...], _: tuple[()]) -> Any:
        return _sum(rows, lambda block, r, r_sq: (block.T @ r, (block * block).T @ r_sq))

    return _on_devices(mesh, local, rows=False)((x, r, r_sq), ())


@partial(jax.jit, static_argnames="mesh")
def sampled(
    x: Float[jax.Array, "n p"],
    left: Num[jax.Array, "n K"],
    right: Num[jax.Array, "p K"],
    square: Num[jax.Array, " p"],
    linear: Num[jax.Array, " p"],
    *,
    mesh: Mesh,
) -> tuple[Float[jax.Array, "n K"], Float[jax.Array, "p K"]]:
    """``(E R, Eᵀ L)``, the first by rows; see :meth:`bayesdrop.designs.Design.sampled_products`."""

    def tilted(
        block: Num[jax.Array, "rows p"], left: Num[jax.Array, "rows K"], same: tuple[Num[jax.Array, "p ..."], ...]
    ) -> Num[jax.Array, "rows p"]:
        return block * (same[1][None] * block + same[2][None]) * (left @ same[0].T)

    def by_row(rows: tuple[Num[jax.Array, ...], ...], same: tuple[Num[jax.Array, ...], ...]) -> Any:
        return _map(rows, lambda block, left: (tilted(block, left, same) @ same[0],))[0]

    def summed(rows: tuple[Num[jax.Array, ...], ...], same: tuple[Num[jax.Array, ...], ...]) -> Any:
        return _sum(rows, lambda block, left: tilted(block, left, same).T @ left)

    rows, same = (x, left), (right, square, linear)
    return _on_devices(mesh, by_row, rows=True)(rows, same), _on_devices(mesh, summed, rows=False)(rows, same)


@partial(jax.jit, static_argnames="mesh")
def gram(x: Float[jax.Array, "n p"], omega: Num[jax.Array, " n"], *, mesh: Mesh) -> Float[jax.Array, "p p"]:
    """``Xᵀ diag(ω) X``, (p, p), for ``ω`` of shape (n,)."""

    def local(rows: tuple[Num[jax.Array, ...], ...], _: tuple[()]) -> Any:
        return _sum(rows, lambda block, omega: block.T @ (omega[:, None] * block))

    return _on_devices(mesh, local, rows=False)((x, omega), ())


@partial(jax.jit, static_argnames="mesh")
def sign_sums(
    x: Float[jax.Array, "n p"], r: Num[jax.Array, "n K"], *, mesh: Mesh
) -> tuple[Float[jax.Array, "p K"], Float[jax.Array, "p K"]]:
    """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)`` for ``r`` of shape (n, K)."""

    def local(rows: tuple[Num[jax.Array, ...], ...], _: tuple[()]) -> Any:
        return _sum(rows, lambda block, r: tuple(sign.astype(jnp.float64).T @ r for sign in (block > 0, block < 0)))

    return _on_devices(mesh, local, rows=False)((x, r), ())


@partial(jax.jit, static_argnames="mesh")
def outer_gram(x: Float[jax.Array, "n p"], scale: Num[jax.Array, " p"], *, mesh: Mesh) -> Float[jax.Array, "n n"]:
    """``X diag(s) Xᵀ``, (n, n), for ``s`` of shape (p,)."""

    def local(rows: tuple[Num[jax.Array, ...], ...], scale: tuple[Num[jax.Array, " p"]]) -> Any:
        (x,) = rows
        whole = lax.all_gather(x, "rows", tiled=True).astype(jnp.float64)
        return (x.astype(jnp.float64) * scale[0][None]) @ whole.T

    return _on_devices(mesh, local, rows=True)((x,), (scale,))


@partial(jax.jit, static_argnames="mesh")
def least(x: Float[jax.Array, "n p"], *, mesh: Mesh) -> Float[jax.Array, ""]:
    """Smallest entry."""
    return _on_devices(mesh, lambda rows, _: lax.pmin(jnp.min(rows[0]), "rows"), rows=False)((x,), ())


@partial(jax.jit, static_argnames="mesh")
def finite(x: Float[jax.Array, "n p"], *, mesh: Mesh) -> tuple[Int[jax.Array, ""], Int[jax.Array, ""]]:
    """Numbers of devices that hold NaN and that hold infinite entries."""

    def local(rows: tuple[Num[jax.Array, ...], ...], _: tuple[()]) -> Any:
        found = jnp.any(jnp.isnan(rows[0])), jnp.any(jnp.isinf(rows[0]))
        return lax.psum(tuple(part.astype(jnp.int32) for part in found), "rows")

    return _on_devices(mesh, local, rows=False)((x,), ())


@partial(jax.jit, static_argnames=("mesh", "dtype"))
def transposed(x: Float[jax.Array, "n p"], *, mesh: Mesh, dtype: str) -> Float[jax.Array, "p n"]:
    """``Xᵀ``, (p, n), its columns where the rows are."""
    move = jax.shard_map(
        lambda x: x.T.astype(dtype), mesh=mesh, in_specs=_ROWS, out_specs=Spec(None, "rows"), check_vma=False
    )
    return move(x)


@partial(jax.jit, static_argnames=("rounding", "mesh"))
def shifted(
    x: Float[jax.Array, "n p"], centre: Num[jax.Array, " p"], rounding: float, *, mesh: Mesh
) -> Float[jax.Array, "n p"]:
    """``X − c`` in the precision of ``X``; entries at ``c`` but for rounding are 0."""

    def local(rows: tuple[Float[jax.Array, "n p"]], same: tuple[Num[jax.Array, " p"]]) -> Any:
        centre = same[0][None]
        apart = rows[0].astype(jnp.float64) - centre
        return jnp.where(jnp.abs(apart) <= rounding * jnp.abs(centre), 0.0, apart).astype(x.dtype)

    return _on_devices(mesh, local, rows=True)((x,), (centre,))


@partial(jax.jit, static_argnames="mesh")
def column_summary(x: Float[jax.Array, "n p"], weight: Num[jax.Array, " n"], *, mesh: Mesh) -> tuple[Any, ...]:
    """What :class:`bayesdrop.designs.columns.ColumnSummary` holds of the rows of some weight, about a common origin."""

    def local(rows: tuple[Num[jax.Array, ...], ...], _: tuple[()]) -> Any:
        x, weight = rows
        first = lax.axis_index("rows") == 0
        origin = lax.psum(jnp.where(first, x[0].astype(jnp.float64), 0.0), "rows")
        there, infinite = (weight > 0)[:, None], jnp.inf
        low, high, least = (
            jnp.min(jnp.where(there & kept, part, infinite), axis=0)
            for part, kept in ((x, True), (-x, True), (jnp.abs(x), x != 0))
        )

        def sums(block: Float[jax.Array, "rows p"], weight: Num[jax.Array, " rows"]) -> Any:
            apart, s = block - origin[None], weight[:, None]
            parts = s * (block != 0).astype(s.dtype), s * apart, s * apart**2
            return jnp.sum(weight > 0), jnp.sum(weight), *(jnp.sum(part, axis=0) for part in parts)

        count, total, nonzero, one, two = _sum(rows, sums)
        mean = one / total
        ends = (lax.pmin(low, "rows"), -lax.pmin(high, "rows"), lax.pmin(least, "rows"))
        ends = tuple(part.astype(jnp.float64) for part in ends)
        return count, jnp.full_like(one, total), nonzero, origin + mean, jnp.maximum(two - one * mean, 0.0), *ends

    return _on_devices(mesh, local, rows=False)((x, weight), ())
