"""Dense design matrix on JAX devices, its rows spread over several of them, and over several processes.

A product runs where the rows are, and only sums over the rows travel between the devices. Vectors over the rows are
NumPy arrays of the rows that this process holds: all of them, unless ``jax.distributed`` runs several. Every process
then calls the same functions in the same order with labels and weights of its own rows; sums, and hence fits, are the
same in all of them. The processes should run on machines of one kind, since each decides by the sums when to stop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from .dense import DenseDesign
from .rows import LocalRows

__all__ = ["ShardedDesign", "is_sharded", "on_this_machine"]

Array = Any

_GRAM_COLUMNS = 2000
# Entries of a block that is copied to the host.
_BLOCK = 1 << 20


def is_sharded(X: Any) -> bool:
    """True for features that stay on their devices: a JAX array on several of them, or on one that is not a CPU.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> is_sharded(np.ones((2, 3))), is_sharded(jnp.ones((2, 3)))
    (False, False)
    """
    if isinstance(X, ShardedDesign):
        return True
    jax = sys.modules.get("jax")  # an array of JAX's has imported it
    if jax is None or not isinstance(X, jax.Array) or isinstance(X, jax.core.Tracer):
        return False
    devices = X.sharding.device_set
    return len(devices) > 1 or any(device.platform != "cpu" for device in devices)


def on_this_machine(X: Any) -> Any:
    """Return sharded features as a NumPy array, and others as they are, for what works on arrays alone.

    Raises
    ------
    TypeError
        If other processes hold some of the rows.

    Examples
    --------
    >>> on_this_machine([[1.0]])
    [[1.0]]
    """
    return np.asarray(ShardedDesign.of(X)) if is_sharded(X) else X


class ShardedDesign(LocalRows):
    """Dense JAX array (n, p) with its rows on one or more devices; see :class:`bayesdrop.designs.Design`.

    Products are in double precision, whatever the precision of the array, which stays as it is; integers are made
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

    columns: list[str] | None = None

    def __init__(self, X: Any) -> None:
        import jax

        _check_form(X)
        starts = _holders(X)
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
        self.prefers_gram = p <= _GRAM_COLUMNS and p <= max(n, 50)
        self.prefers_outer_gram = not self.prefers_gram and n <= _GRAM_COLUMNS and self.processes == 1

    @classmethod
    def of(cls, X: Any) -> ShardedDesign:
        """Wrap an array, and leave a design as it is."""
        return X if isinstance(X, cls) else cls(X)

    def __repr__(self) -> str:
        n, p = self.shape
        return f"ShardedDesign({n} rows, {p} columns, {self._mesh.size} devices)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.processes > 1:
            raise TypeError(
                f"X: {self.processes} processes hold its rows, and this needs them all in one. bd.fit, and fit and "
                "predict of the linear estimators take such an array; for the rest pass the rows of one process, "
                "or a sample of all."
            )
        return self._local(self._x).astype(dtype or self._x.dtype, copy=False)

    def transposed(self, dtype: str) -> Any:
        """``Xᵀ`` as a JAX array (p, n) on a mesh with the axes ``chains`` and ``rows``, for samplers."""
        import jax

        from .sharded_products import transposed

        with jax.enable_x64(True):
            found = transposed(self._x, mesh=self._mesh, dtype=str(np.dtype(dtype)))
            # Where the rows are on one device XLA names the axes as it likes.
            return jax.device_put(found, self._sharding(None, "rows"))

    def _check_finite(self) -> None:
        nan, infinite = self._sums("finite")
        if nan or infinite:
            from sklearn.utils import assert_all_finite

            assert_all_finite(np.array([np.nan if nan else np.inf], dtype=self._x.dtype), input_name="X")

    def _sharding(self, *axes: str | None) -> Any:
        from jax.sharding import NamedSharding, PartitionSpec

        return NamedSharding(self._mesh, PartitionSpec(*axes))

    def _spread(self, rows: Array) -> Any:
        """Put a vector over this process's rows where the rows are."""
        import jax

        shape, sharding = (self.shape[0], *rows.shape[1:]), self._sharding("rows")
        parts = []
        for device, index in sharding.addressable_devices_indices_map(shape).items():
            number = (index[0].start or 0) // self._height
            parts.append(jax.device_put(rows[self._place[number]], device))
        return jax.make_array_from_single_device_arrays(shape, sharding, parts)

    def _everywhere(self, block: Array) -> Any:
        """Put what has no rows on every device."""
        import jax

        sharding = self._sharding()
        parts = [jax.device_put(block, device) for device in sharding.addressable_devices]
        return jax.make_array_from_single_device_arrays(block.shape, sharding, parts)

    def _local(self, array: Any) -> Array:
        """Rows that this process holds, as a NumPy array."""
        result = np.empty((self.rows, *array.shape[1:]), dtype=array.dtype)
        for shard in array.addressable_shards if result.size else ():  # JAX shards no array without entries
            if shard.replica_id == 0:
                result[self._place[(shard.index[0].start or 0) // self._height]] = shard.data
        return result

    def _sums(self, name: str, *rows: Array, **options: Any) -> Any:
        """Call a product that returns the same on all devices."""
        import jax

        from . import sharded_products

        with jax.enable_x64(True):
            found = getattr(sharded_products, name)(self._x, *map(self._spread, rows), mesh=self._mesh, **options)
            return jax.tree.map(lambda part: np.array(part.addressable_data(0)), found)

    def _forward(self, w: Array, w_sq: Array) -> tuple[Array, Array]:
        import jax

        from .sharded_products import forward

        K, L = w.shape[1], w_sq.shape[1]
        with jax.enable_x64(True):
            blocks = (self._everywhere(_widened(block)) for block in (w, w_sq))
            first, second = forward(self._x, *blocks, mesh=self._mesh)
            return self._local(first)[:, :K], self._local(second)[:, :L]

    def _backward(self, r: Array, r_sq: Array) -> tuple[Array, Array]:
        K, L = r.shape[1], r_sq.shape[1]
        first, second = self._sums("backward", _widened(r), _widened(r_sq))
        return first[:, :K], second[:, :L]

    def matvec(self, w: Array) -> Array:
        """``X w``."""
        block = w.reshape(len(w), -1)
        return self._forward(block, block[:, :0])[0].reshape(-1, *w.shape[1:])

    def rmatvec(self, r: Array) -> Array:
        """``Xᵀ r``."""
        block = r.reshape(len(r), -1)
        return self._backward(block, block[:, :0])[0].reshape(-1, *r.shape[1:])

    def sq_matvec(self, w: Array) -> Array:
        """``X² w``."""
        block = w.reshape(len(w), -1)
        return self._forward(block[:, :0], block)[1].reshape(-1, *w.shape[1:])

    def sq_rmatvec(self, r: Array) -> Array:
        """``(X²)ᵀ r``."""
        block = r.reshape(len(r), -1)
        return self._backward(block[:, :0], block)[1].reshape(-1, *r.shape[1:])

    def pair_matvec(self, w: Array, w_sq: Array) -> tuple[Array, Array]:
        """``(X w, X² w_sq)``, reading X once."""
        return self._forward(w, w_sq)

    def pair_rmatvec(self, r: Array, r_sq: Array) -> tuple[Array, Array]:
        """``(Xᵀ r, (X²)ᵀ r_sq)``, reading X once."""
        return self._backward(r, r_sq)

    def gram(self, omega: Array) -> Array:
        """``Xᵀ diag(ω) X``, dense (p, p)."""
        count = int(self.total(np.asarray(omega != 0, dtype=np.float64)[:, None])[0])
        if 4 * count >= self.shape[0]:
            return self._sums("gram", omega)
        # A power of two, so that few are compiled.
        return self._sums("gram_of_some", omega, count=1 << max(count - 1, 1).bit_length())

    def outer_gram(self, scale: Array) -> Array:
        """``X diag(s) Xᵀ``, dense (n, n), for rows of one process."""
        import jax

        from .sharded_products import outer_gram

        if self.processes > 1:
            raise ValueError(
                f"X: {self.processes} processes hold its rows, and a matrix of all pairs of rows would not fit one; "
                "use the preconditioner Cholesky() or Jacobi(), or leave it out."
            )
        with jax.enable_x64(True):
            return self._local(outer_gram(self._x, self._everywhere(scale), mesh=self._mesh))

    def sign_sums(self, r: Array) -> tuple[Array, Array]:
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

    def zeros(self, columns: int) -> Array:
        """Zeros for the rows of this process."""
        return np.zeros((self.rows, columns))

    def total(self, rows: Array) -> Array:
        """Sum over the rows, those of the other processes included."""
        own = rows.sum(axis=0)
        if self.processes == 1:
            return own
        import jax

        from .sharded_products import added

        # One of this process's devices brings its sum, the others nothing.
        shape, sharding = (self._mesh.shape["rows"], *own.shape), self._sharding("rows")
        first = min(self._place)
        with jax.enable_x64(True):
            parts = [
                jax.device_put((own if (index[0].start or 0) == first else 0 * own)[None], device)
                for device, index in sharding.addressable_devices_indices_map(shape).items()
            ]
            placed = jax.make_array_from_single_device_arrays(shape, sharding, parts)
            return np.array(added(placed, mesh=self._mesh).addressable_data(0))

    def together(self, check: Callable[[], Any]) -> list[Any]:
        """What a check returns in each process, in their order; a ValueError in one of them is raised in all."""
        if self.processes == 1:
            return [check()]
        try:
            said = self._gather((check(), None))
        except ValueError as error:
            said = self._gather((None, str(error)))
        for process, (_, problem) in enumerate(said):
            if problem is not None:
                raise ValueError(f"process {process}: {problem}")
        return [found for found, _ in said]

    def _gather(self, facts: Any) -> list[Any]:
        """What each process says."""
        import pickle

        from jax.experimental.multihost_utils import process_allgather

        text = np.frombuffer(pickle.dumps(facts), dtype=np.uint8)
        lengths = np.ravel(process_allgather(np.array([len(text)], dtype=np.int32)))
        padded = np.zeros(lengths.max(), dtype=np.uint8)
        padded[: len(text)] = text
        texts = process_allgather(padded).reshape(len(lengths), -1)
        return [pickle.loads(line[:length].tobytes()) for line, length in zip(texts, lengths, strict=True)]

    def parts(self, size: int) -> Iterator[tuple[slice, DenseDesign]]:
        """Copy this process's rows to the host, so many at a time, each as a design with where they stand."""
        for shard in self._x.addressable_shards:
            if shard.replica_id == 0:
                first = self._place[(shard.index[0].start or 0) // self._height].start
                for start in range(0, self._height, size):
                    rows = np.asarray(shard.data[start : start + size])
                    yield slice(first + start, first + start + len(rows)), DenseDesign(rows)

    def entries(self) -> Iterator[tuple[Array, Array, Array]]:
        """Non-zero entries of this process's rows as ``(rows, columns, values)`` in blocks of rows."""
        for rows, part in sorted(self.parts(max(1, _BLOCK // self.shape[1])), key=lambda item: item[0].start):
            for within, columns, values in part.entries():
                yield within + rows.start, columns, values


def _check_form(X: Any) -> None:
    """Raise ValueError unless an array is a matrix of real numbers with at least one row and column."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X has the shape {X.shape}; reshape it.")
    from jax import numpy as jnp

    real = any(jnp.issubdtype(X.dtype, kind) for kind in (np.floating, np.integer, np.bool_))
    if not (real and X.size):
        from sklearn.utils import check_array

        # A stand-in, so that the message is that of any other array.
        check_array(np.zeros(X.shape if not X.size else (1, 1), dtype=np.float64 if real else complex), input_name="X")
        raise ValueError(f"X: expected real numbers, got {X.dtype}.")


def _holders(X: Any) -> dict[int, list[Any]]:
    """Devices that hold the rows from each start on, in the order of the rows."""
    n, p = X.shape
    holders: dict[int, list[Any]] = {}
    for device, (rows, columns) in X.sharding.devices_indices_map(X.shape).items():
        if columns.indices(p) != (0, p, 1):
            raise ValueError(
                f"X: its columns lie on different devices ({X.sharding}), and every device needs whole rows; spread "
                'the rows instead, as with jax.device_put(X, NamedSharding(mesh, PartitionSpec("rows", None))).'
            )
        holders.setdefault(rows.indices(n)[0], []).append(device)
    return {start: sorted(holders[start], key=lambda device: device.id) for start in sorted(holders)}


def _widened(block: Array) -> Array:
    """Fill up with columns of zeros to a power of two, so that few widths are compiled."""
    K = block.shape[1]
    more = (1 << (K - 1).bit_length()) - K if K else 0
    return np.pad(block, ((0, 0), (0, more))) if more else np.ascontiguousarray(block)
