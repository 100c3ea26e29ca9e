"""Dense design matrix on JAX devices, its rows spread over several of them, and over several processes.

A product runs where the rows are, and only sums over the rows travel between the devices. Vectors over the rows are
NumPy arrays of the rows that this process holds: all of them, unless ``jax.distributed`` runs several. Every process
then calls the same functions in the same order with labels and weights of its own rows; sums, and hence fits, are the
same in all of them. The processes should run on machines of one kind, since each decides by the sums when to stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from ..._memory import BLOCK
from ..._typing import AnyArray, Float, Num, PerRow
from ..columns import ColumnSummary
from ..dense import DenseDesign
from ..kernels import ROUNDING
from .rows import ProcessRows, check_form, holders

__all__ = ["ShardedDesign"]


class ShardedDesign(ProcessRows):
    """Dense JAX array (n, p) with its rows on one or more devices; see :class:`bayesdrop.designs.Design`.

    Products are in double precision, for any precision of the array, which is unchanged; integers are made
    float64. Devices that hold the same rows repeat each other's work in a fit, and share the chains of a sampler.

    Parameters
    ----------
    X : jax.Array (n, p)
        Features; any sharding that does not cut the columns. JAX wants as many rows on each device: fill up with
        rows of ``sample_weight`` 0.

    Attributes
    ----------
    shape : (int, int)
        ``(n, p)``, the rows of all processes.
    rows : int
        Rows that this process holds.
    copies : int
        Devices that hold each row.
    processes : int
        Processes that hold rows.

    Raises
    ------
    ValueError
        If the array is not a matrix of finite real numbers, or columns lie on different devices, or rows in different
        processes are the same.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> design = ShardedDesign(jnp.array([[1.0, -2.0], [3.0, 4.0]]))
    >>> design.sq_matvec(np.ones(2)).tolist(), design.gram(np.ones(2)).tolist()
    ([5.0, 25.0], [[10.0, 10.0], [10.0, 20.0]])
    """

    def __init__(self, X: Any) -> None:
        import jax

        check_form(X)
        starts = holders(X)
        grid = np.array(list(starts.values()), dtype=object).T
        self.shape: tuple[int, int] = X.shape
        self.copies = grid.shape[0]
        self._mesh = jax.sharding.Mesh(grid, ("chains", "rows"))
        self.processes = len({device.process_index for device in grid.ravel()})
        if self.processes not in (1, jax.process_count()):
            raise ValueError(
                f"X: its rows lie in {self.processes} of {jax.process_count()} processes; spread them over the devices "
                "of all processes (jax.devices()) or of this one (jax.local_devices())."
            )
        self._height = X.shape[0] // grid.shape[1]
        # Where the rows of each of this process's devices stand among its own rows.
        mine, owner = jax.process_index(), [{device.process_index for device in column} for column in grid.T]
        if any(len(processes) > 1 for processes in owner):
            raise ValueError(
                "X: several processes hold the same rows; spread the rows over the devices of all processes, as with "
                'PartitionSpec("rows", None) on a mesh of one axis, "rows".'
            )
        held = [k for k, processes in enumerate(owner) if mine in processes]
        if not held:
            raise ValueError("X: no row is on a device of this process; every process needs rows of its own.")
        self._place = {k: slice(i * self._height, (i + 1) * self._height) for i, k in enumerate(held)}
        self.rows = len(held) * self._height
        with jax.enable_x64(True):
            if X.dtype not in (np.float64, np.float32):
                wide = np.float32 if X.dtype.itemsize < 4 and jax.numpy.issubdtype(X.dtype, np.floating) else np.float64
                X = X.astype(wide)
            # The same shards on a mesh of known axes, nothing copied.
            shards = [shard.data for shard in X.addressable_shards]
            self._x = jax.make_array_from_single_device_arrays(X.shape, self._sharding("rows"), shards)
        self._check_finite()
        n, p = self.shape
        self.prefers_gram = p <= self.gram_columns and p <= max(n, 50)
        self.prefers_outer_gram = not self.prefers_gram and n <= self.gram_columns and self.processes == 1

    def __repr__(self) -> str:
        n, p = self.shape
        return f"ShardedDesign({n} rows, {p} columns, {self._mesh.size} devices)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.matrix().astype(dtype or self._x.dtype, copy=False)

    def matrix(self) -> Float[np.ndarray, "rows p"]:
        """Copy of the rows in this process's memory; raise TypeError if other processes hold some."""
        if self.processes > 1:
            raise TypeError(
                f"X: {self.processes} processes hold its rows, and this needs them all in one. bd.fit, and fit and "
                "predict of the linear estimators take such an array; for the rest pass the rows of one process, "
                "or a sample of all."
            )
        return self._local(self._x)

    def transposed(self, dtype: Any) -> Any:
        """``Xᵀ`` as a JAX array (p, n) on a mesh with the axes ``chains`` and ``rows``, for samplers."""
        import jax

        from . import products

        with jax.enable_x64(True):
            found = products.transposed(self._x, mesh=self._mesh, dtype=str(np.dtype(dtype)))
            # Where the rows are on one device XLA names the axes as it likes.
            return jax.device_put(found, self._sharding(None, "rows"))

    def shifted(self, centre: Float[np.ndarray, " p"]) -> ShardedDesign:
        """``X − c``, where the rows are."""
        import jax

        from . import products

        result = copy(self)
        vars(result).pop("_least", None)
        with jax.enable_x64(True):
            result._x = products.shifted(self._x, self._everywhere(centre), ROUNDING, mesh=self._mesh)
        return result

    def column_summary(self, weight: PerRow) -> ColumnSummary:
        """Summary of the columns under row weights, (n,) of this process, made where the rows are."""
        return ColumnSummary(*self._sums("column_summary", weight))

    def _check_finite(self) -> None:
        nan, infinite = self._sums("finite")
        if nan or infinite:
            from sklearn.utils import assert_all_finite

            assert_all_finite(np.array([np.nan if nan else np.inf], dtype=self._x.dtype), input_name="X")

    def _sharding(self, *axes: str | None) -> Any:
        from jax.sharding import NamedSharding, PartitionSpec

        return NamedSharding(self._mesh, PartitionSpec(*axes))

    def _spread(self, rows: PerRow) -> Any:
        """Put a vector over this process's rows where the rows are."""
        import jax

        shape = (self.shape[0], *rows.shape[1:])
        return jax.make_array_from_process_local_data(self._sharding("rows"), rows, shape)

    def _everywhere(self, block: Num[np.ndarray, "q K"]) -> Any:
        """Put what has no rows on every device."""
        import jax

        return jax.make_array_from_process_local_data(self._sharding(), block, block.shape)

    def _local(self, array: Any) -> Num[np.ndarray, "rows ..."]:
        """Rows that this process holds, as a NumPy array."""
        result = np.empty((self.rows, *array.shape[1:]), dtype=array.dtype)
        for shard in array.addressable_shards if result.size else ():  # JAX shards no array without entries
            if shard.replica_id == 0:
                result[self._place[(shard.index[0].start or 0) // self._height]] = shard.data
        return result

    def _sums(self, name: str, *rows: PerRow, **options: Any) -> Any:
        """Call a product that returns the same on all devices."""
        import jax

        from . import products

        with jax.enable_x64(True):
            found = getattr(products, name)(self._x, *map(self._spread, rows), mesh=self._mesh, **options)
            return jax.tree.map(lambda part: np.array(part.addressable_data(0)), found)

    def pair_matvec(
        self, w: Num[AnyArray, "p K"], w_sq: Num[AnyArray, "p L"]
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n L"]]:
        """``(X w, X² w_sq)``, reading X once."""
        import jax

        from . import products

        K, L = w.shape[1], w_sq.shape[1]
        with jax.enable_x64(True):
            blocks = (self._everywhere(_widened(block)) for block in (w, w_sq))
            first, second = products.forward(self._x, *blocks, mesh=self._mesh)
            return self._local(first)[:, :K], self._local(second)[:, :L]

    def pair_rmatvec(
        self, r: Num[AnyArray, "n K"], r_sq: Num[AnyArray, "n L"]
    ) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p L"]]:
        """``(Xᵀ r, (X²)ᵀ r_sq)``, reading X once."""
        K, L = r.shape[1], r_sq.shape[1]
        first, second = self._sums("backward", _widened(r), _widened(r_sq))
        return first[:, :K], second[:, :L]

    def sampled_products(
        self, left: PerRow, right: Num[AnyArray, "p K"], square: Num[AnyArray, " p"], linear: Num[AnyArray, " p"]
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)``; see :class:`bayesdrop.designs.Design`."""
        import jax

        from . import products

        K = right.shape[1]
        with jax.enable_x64(True):
            same = (self._everywhere(np.asarray(part)) for part in (_widened(right), square, linear))
            forward, back = products.sampled(self._x, self._spread(_widened(left)), *same, mesh=self._mesh)
            return self._local(forward)[:, :K], np.array(back.addressable_data(0))[:, :K]

    def gram(self, omega: Num[AnyArray, " n"]) -> Float[np.ndarray, "p p"]:
        """``Xᵀ diag(ω) X``, dense (p, p)."""
        return self._sums("gram", omega)

    def outer_gram(self, scale: Num[AnyArray, " p"]) -> Float[np.ndarray, "n n"]:
        """``X diag(s) Xᵀ``, dense (n, n), for rows of one process."""
        import jax

        from . import products

        if self.processes > 1:
            raise ValueError(
                f"X: {self.processes} processes hold its rows, and a matrix of all pairs of rows would not fit one; "
                "use the preconditioner Cholesky() or Jacobi(), or leave it out."
            )
        with jax.enable_x64(True):
            return self._local(products.outer_gram(self._x, self._everywhere(scale), mesh=self._mesh))

    def sign_sums(self, r: Num[AnyArray, "n K"]) -> tuple[Float[np.ndarray, "p K"], Float[np.ndarray, "p K"]]:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)``."""
        K = r.shape[1]
        above, below = self._sums("sign_sums", _widened(r))
        return above[:, :K], below[:, :K]

    def minimum(self) -> float:
        """Smallest entry, of all processes."""
        return self._least

    @cached_property
    def _least(self) -> float:
        return float(self._sums("least"))

    def parts(self, size: int | None = None) -> Iterator[tuple[slice, DenseDesign]]:
        """Copy this process's rows to the host, so many at a time, each as a design with where they stand."""
        size = size or max(1, BLOCK // self.shape[1])
        for shard in sorted(self._x.addressable_shards, key=lambda shard: shard.index[0].start or 0):
            if shard.replica_id == 0:
                first = self._place[(shard.index[0].start or 0) // self._height].start
                for start in range(0, self._height, size):
                    rows = np.asarray(shard.data[start : start + size])
                    yield slice(first + start, first + start + len(rows)), DenseDesign(rows)


def _widened(block: Num[np.ndarray, "q K"]) -> Num[np.ndarray, "q _"]:
    """Fill up with columns of zeros to a power of two, so that few widths are compiled."""
    K = block.shape[1]
    more = (1 << (K - 1).bit_length()) - K if K else 0
    return np.pad(block, ((0, 0), (0, more))) if more else np.ascontiguousarray(block)
