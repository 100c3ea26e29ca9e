"""A design matrix whose rows lie on the workers of a Dask cluster, for data that outgrow a machine.

Each block of rows is checked once, becomes a design of its own and stays where it is; so do the vectors over its rows,
which are Dask arrays. What travels are weights on their way out and sums over the rows on their way back, ``p`` numbers
for each class. A worker that is lost takes its blocks along; Dask makes them anew from where they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import getitem
from typing import Any
from uuid import uuid4

import numpy as np

from .base import Design
from .checks import as_matrix, check_finite, of_matrix
from .rows import Between

__all__ = ["NOT_IN_MEMORY", "DaskDesign", "is_dask"]

Array = Any

# Blocks whose sums are added in one task.
_FAN_IN = 8
NOT_IN_MEMORY = (
    "X: a Dask collection stays on its workers. bd.fit, and fit and predict of the linear estimators take it; samplers "
    "and whatever keeps something for every entry do not: pass X.compute() if it fits in memory, or a random sample of "
    "its rows."
)
# Seconds between two looks at whether the scheduler is still there.
_PATIENCE = 2.0


def is_dask(X: Any) -> bool:
    """True for a Dask array or data frame.

    Examples
    --------
    >>> is_dask(np.ones((2, 3)))
    False
    """
    return hasattr(X, "__dask_graph__")


class DaskDesign:
    """Blocks of rows on a Dask cluster; see :class:`bayesdrop.designs.Design` for the methods.

    Parameters
    ----------
    X : dask array or dask data frame (n, p)
        Dense, or with blocks of scipy sparse; of real numbers, finite.

    Attributes
    ----------
    columns : list of str or None
        Names of the columns of a data frame.

    Raises
    ------
    ValueError
        If a block holds NaN, infinite values or other things than real numbers, or blocks differ in their columns.
    RuntimeError
        If the scheduler is lost.

    Examples
    --------
    >>> import dask.array as da
    >>> design = DaskDesign(da.ones((6, 2), chunks=(4, 2)))
    >>> design.shape, float(design.total(design.matvec(np.array([1.0, 2.0]))))
    ((6, 2), 18.0)
    """

    # A Gram matrix would send p² numbers.
    prefers_gram = False
    prefers_outer_gram = False

    def __init__(self, X: Any) -> None:
        import dask

        self.columns = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        array = X.to_dask_array() if self.columns is not None else X
        if getattr(array, "ndim", 0) != 2:
            raise ValueError(
                f"X: expected a Dask array or data frame of two dimensions, (rows, columns), got {type(X).__name__} "
                f"of {getattr(array, 'ndim', 0)}."
            )
        if array.numblocks[1] > 1:
            array = array.rechunk({1: -1})
        parts = array.to_delayed().ravel()
        make = dask.delayed(_design)
        with _cluster():
            self._blocks = list(dask.persist(*(make(part, k) for k, part in enumerate(parts))))
        facts = _computed([dask.delayed(_facts)(block) for block in self._blocks])
        widths = [p for _, p, _ in facts]
        if not facts or sum(n for n, _, _ in facts) == 0:
            raise ValueError("X: there are no rows; check where the Dask collection comes from.")
        if widths[0] == 0:
            raise ValueError("X: there are no columns; at least one feature is needed.")
        if len(set(widths)) > 1:
            odd = next(k for k, width in enumerate(widths) if width != widths[0])
            raise ValueError(
                f"X: block {odd} has {widths[odd]} columns, and the blocks before it have {widths[0]}; every block "
                "needs the same columns in the same order."
            )
        self._rows = tuple(n for n, _, _ in facts)
        self._minimum = min(least for n, _, least in facts if n)
        self.shape: tuple[int, int] = (sum(self._rows), widths[0])

    def __repr__(self) -> str:
        n, p = self.shape
        return f"DaskDesign({n} rows, {p} columns, {len(self._blocks)} blocks)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError(NOT_IN_MEMORY)

    def __getitem__(self, keep: Any) -> Array:
        return self.__array__()

    # Vectors over the rows

    def vector(self, values: Any, name: str) -> Array:
        """Numbers or labels, one per row, as a Dask array (n,) in blocks like those of the matrix.

        Raises
        ------
        ValueError
            If there are not as many as rows, or a Dask collection of unknown sizes is cut otherwise.
        """
        import dask
        import dask.array as da

        n = self.shape[0]
        if is_dask(values):
            if hasattr(values, "to_dask_array"):
                # By way of NumPy, since Dask warns about columns of text.
                parts = [dask.delayed(np.asarray)(part) for part in values.to_delayed()]
                shape = (np.nan, *values.shape[1:])
                values = da.concatenate([da.from_delayed(part, shape, dtype=object) for part in parts])
            if values.ndim == 2 and values.shape[1] == 1:
                values = values[:, 0]
            if any(np.isnan(size) for size in values.chunks[0]):
                with _cluster():
                    values = values.compute_chunk_sizes()
        else:
            values = np.asarray(values)
        if values.ndim != 1 or len(values) != n:
            raise ValueError(f"{name}: expected {n} entries, one per row of X, got shape {tuple(values.shape)}.")
        return values.rechunk((self._rows,)) if is_dask(values) else da.from_array(values, chunks=(self._rows,))

    def zeros(self, columns: int) -> Array:
        """Zeros, (n, columns)."""
        import dask.array as da

        return da.zeros((self.shape[0], columns), chunks=(self._rows, columns))

    def rowwise(self, function: Callable[..., Any], *rows: Array, widths: Sequence[int] | None = None) -> Any:
        """Apply a function that treats every row by itself; see :class:`.rows.LocalRows`."""
        import dask

        sent, apply = dask.delayed(function, traverse=False), dask.delayed(_apply, pure=False)
        made = [apply(sent, *chunks) for chunks in zip(*(self._chunks(part) for part in rows), strict=True)]
        if widths is not None:
            return tuple(self._joined(made, k, (width,)) for k, width in enumerate(widths))
        return self._joined(made, 0, np.broadcast_shapes(*(part.shape[1:] for part in rows)))

    def gather(self, function: Callable[..., Any], *rows: Array) -> list[Any]:
        """What a function makes of each block's part of vectors over the rows: something small."""
        import dask

        apply = dask.delayed(function, pure=False, traverse=False)
        return _computed([apply(*parts) for parts in zip(*(self._chunks(part) for part in rows), strict=True)])

    def total(self, rows: Array) -> Array:
        """Sum over the rows, (K,) for (n, K)."""
        import dask

        return self._summed([dask.delayed(_total)(chunk) for chunk in self._chunks(rows)])[0]

    def hold(self, *rows: Array) -> tuple[Array, ...]:
        """Compute on the workers, where the result stays."""
        import dask

        with _cluster():
            return dask.persist(*rows)

    def _chunks(self, rows: Array) -> list[Any]:
        """Pieces of a vector over the rows, one for each block."""
        import dask.array as da

        columns = rows.shape[1:]
        if not is_dask(rows):
            rows = da.from_array(rows, chunks=(self._rows, *columns))
        return list(rows.rechunk((self._rows, *columns)).to_delayed().ravel())

    def _joined(self, parts: list[Any], item: int, tail: tuple[int, ...]) -> Array:
        """Vector over the rows from its pieces, which are the given item of tuples."""
        import dask.array as da
        from dask.highlevelgraph import HighLevelGraph

        name = f"rows-{uuid4().hex}"
        columns = (0,) * len(tail)
        layer: dict[Any, Any] = {(name, k, *columns): (getitem, part.key, item) for k, part in enumerate(parts)}
        graph = HighLevelGraph.from_collections(name, layer, dependencies=parts)
        return da.Array(graph, name, (self._rows, *((width,) for width in tail)), dtype=np.float64)

    # Products

    def _forward(self, method: str, tails: list[tuple[int, ...]], *weights: Array) -> list[Array]:
        """Products of every block with weights that are sent to the workers; they stay there."""
        import dask

        apply = dask.delayed(_call, pure=False)
        sent = [dask.delayed(np.ascontiguousarray(weight)) for weight in weights]
        with _cluster():
            made = dask.persist(*(apply(method, block, *sent) for block in self._blocks))
        return [self._joined(list(made), k, tail) for k, tail in enumerate(tails)]

    def _backward(self, method: str, *rows: Array) -> list[Array]:
        """Sums of the products of every block with its part of vectors over the rows."""
        import dask

        apply = dask.delayed(_call, pure=False)
        chunks = zip(*(self._chunks(part) for part in rows), strict=True)
        return self._summed([apply(method, block, *parts) for block, parts in zip(self._blocks, chunks, strict=True)])

    def _summed(self, parts: list[Any]) -> list[Array]:
        """Sums of tuples of arrays, added a few at a time on the workers."""
        import dask

        add = dask.delayed(_add, pure=False)
        while len(parts) > 1:
            parts = [add(parts[k : k + _FAN_IN]) for k in range(0, len(parts), _FAN_IN)]
        return list(_computed(parts)[0])

    def matvec(self, w: Array) -> Array:
        """``X w``."""
        return self._forward("matvec", [w.shape[1:]], w)[0]

    def rmatvec(self, r: Array) -> Array:
        """``Xᵀ r``."""
        return self._backward("rmatvec", r)[0]

    def sq_matvec(self, w: Array) -> Array:
        """``X² w``."""
        return self._forward("sq_matvec", [w.shape[1:]], w)[0]

    def sq_rmatvec(self, r: Array) -> Array:
        """``(X²)ᵀ r``."""
        return self._backward("sq_rmatvec", r)[0]

    def pair_matvec(self, w: Array, w_sq: Array) -> tuple[Array, Array]:
        """``(X w, X² w_sq)``."""
        first, second = self._forward("pair_matvec", [w.shape[1:], w_sq.shape[1:]], w, w_sq)
        return first, second

    def pair_rmatvec(self, r: Array, r_sq: Array) -> tuple[Array, Array]:
        """``(Xᵀ r, (X²)ᵀ r_sq)``."""
        first, second = self._backward("pair_rmatvec", r, r_sq)
        return first, second

    def there_and_back(self, w: Array, w_sq: Array, between: Between) -> tuple[Array, ...]:
        """Both products and the sums; see :class:`.rows.LocalRows`."""
        if w_sq.shape[1]:
            first, second = self.pair_matvec(w, w_sq)
            r, s = between(slice(None), first, second)
            return first, second, *self._backward("_pair_back", r, s)
        # Fewer tasks, and each of them costs the scheduler a millisecond.
        first, second, nothing = self.matvec(w), self.zeros(0), np.zeros((self.shape[1], 0))
        back, total = self._backward("_back", between(slice(None), first, second)[0])
        return first, second, back, nothing, total, nothing.sum(axis=0)

    def gram(self, omega: Array) -> Array:
        """``Xᵀ diag(ω) X``, dense (p, p); it sends p² numbers."""
        return self._backward("gram", omega)[0]

    def outer_gram(self, scale: Array) -> Array:
        """Refused: an n × n matrix belongs in memory."""
        raise TypeError(
            "X: an n × n matrix of a Dask collection is not formed; use bd.Newton() as it is, or X.compute()."
        )

    def sign_sums(self, r: Array) -> tuple[Array, Array]:
        """``(1[X > 0]ᵀ r, 1[X < 0]ᵀ r)``."""
        above, below = self._backward("sign_sums", r)
        return above, below

    def minimum(self) -> float:
        """Smallest entry, known from the first look."""
        return self._minimum

    def entries(self) -> Iterator[tuple[Array, Array, Array]]:
        """Refused: the entries stay on the workers."""
        raise TypeError("X: this method goes through single entries, which stay on Dask's workers; pass X.compute().")


@contextmanager
def _cluster() -> Iterator[None]:
    """Say what to do when the scheduler is gone."""
    try:
        yield
    except Exception as error:
        if _is_loss(error):
            raise RuntimeError(
                "The Dask scheduler, or too many of its workers, were lost, and with them the fit; nothing was kept "
                f"({type(error).__name__}: {str(error)[:200]}). Start a cluster, as with bd.cluster(), and fit again."
            ) from error
        raise


def _computed(parts: list[Any]) -> list[Any]:
    """Results of tasks, from the cluster if there is one, or from threads.

    A client whose scheduler has gone waits for ever, so that it is asked now and then whether it is still connected.
    """
    import dask

    with _cluster():
        client = getattr(dask.base.get_scheduler(collections=parts), "__self__", None)
        if client is None:
            return list(dask.compute(*parts))
        from distributed import wait

        futures, missed = client.compute(parts), 0
        while True:
            try:
                wait(futures, timeout=_PATIENCE)
                return client.gather(futures)
            except TimeoutError:
                missed = 0 if client.status == "running" else missed + 1
                if missed > 1:
                    raise ConnectionError(f"the client is {client.status}") from None


def _is_loss(error: BaseException) -> bool:
    from concurrent.futures import CancelledError

    kinds = {"CommClosedError", "KilledWorker", "FutureCancelledError", "FuturesCancelledError", "CancelledError"}
    return isinstance(error, CancelledError | ConnectionError) or type(error).__name__ in kinds


def _design(block: Any, number: int) -> Design:
    """Design of a block, on the worker."""
    matrix = as_matrix(block, f"X: block {number}")
    check_finite(matrix, f"X: block {number}")
    return of_matrix(matrix)


def _facts(block: Design) -> tuple[int, int, float]:
    return *block.shape, block.minimum() if block.shape[0] else 0.0


def _call(method: str, block: Design, *arguments: Array) -> tuple[Array, ...]:
    if method == "_back":
        return block.rmatvec(arguments[0]), block.total(arguments[0])
    if method == "_pair_back":
        r, s = arguments
        return *block.pair_rmatvec(r, s), block.total(r), block.total(s)
    result = getattr(block, method)(*arguments)
    return result if isinstance(result, tuple) else (result,)


def _apply(function: Callable[..., Any], *chunks: Array) -> tuple[Array, ...]:
    result = function(*chunks)
    return tuple(result) if isinstance(result, tuple) else (result,)


def _total(chunk: Array) -> tuple[Array]:
    return (chunk.sum(axis=0),)


def _add(parts: list[tuple[Array, ...]]) -> tuple[Array, ...]:
    return tuple(sum(same[1:], start=same[0]) for same in zip(*parts, strict=True))
