"""Vectors over the rows of one process, of a matrix that several processes may share.

Every process calls the same methods in the same order with labels and weights of its own rows, and all of them learn
the same classes and sums.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._typing import AnyArray, Num, PerRow, Shaped
from ..._validation import refuse_masked, refuse_scalar
from ..rows import ALL_ZERO, LocalRows, check_sample_weight, code_labels, unique_labels

__all__ = ["ProcessRows", "check_form", "holders", "is_sharded"]


class ProcessRows(LocalRows):
    """What :class:`.design.ShardedDesign` does with vectors over its rows."""

    rows: int
    processes: int

    def zeros(self, columns: int) -> PerRow:
        """Zeros for the rows of this process."""
        return np.zeros((self.rows, columns))

    def total(self, rows: PerRow) -> Num[AnyArray, ...]:
        """Sum over the rows, those of the other processes included."""
        own = rows.sum(axis=0)
        return own if self.processes == 1 else np.sum(self._gather(own), axis=0)

    def together(self, check: Callable[[], Any]) -> list[Any]:
        """What a check returns in each process, in their order; a ValueError in one of them is raised in all."""
        if self.processes == 1:
            return [check()]
        try:
            replies = self._gather((check(), None))
        except ValueError as error:
            replies = self._gather((None, str(error)))
        for process, (_, problem) in enumerate(replies):
            if problem is not None:
                raise ValueError(f"process {process}: {problem}")
        return [found for found, _ in replies]

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

    def _responses(self, y: Any) -> PerRow:
        from sklearn.utils import column_or_1d

        refuse_masked(y, "y")
        refuse_scalar(y, "y")
        y = column_or_1d(y, warn=True)
        if len(y) != self.rows:
            raise ValueError(
                f"y: expected {self.rows} entries, one for each row of X that this process holds, got {len(y)}."
            )
        return y

    def codes(self, y: Any) -> tuple[Shaped[np.ndarray, " K"], PerRow]:
        """Classes of all processes, (K,), and the class number of each row (n,) of this one."""
        target = np.empty(0)

        def check() -> Shaped[np.ndarray, " k"]:
            nonlocal target
            target = self._responses(y)
            return code_labels(target)[0]

        classes = unique_labels(np.concatenate(self.together(check)), "y")
        return classes, np.searchsorted(classes, target)

    def targets(self, y: Any) -> PerRow:
        """Numbers of a regression, (n,)."""
        target = np.empty(0)

        def check() -> None:
            nonlocal target
            target = LocalRows.targets(self, y)

        self.together(check)
        return target

    def row_weights(self, sample_weight: Any) -> PerRow:
        """Row weights (n,) of this process, ones by default; only in all processes together must one be above 0."""
        weight = np.empty(0)

        def check() -> None:
            nonlocal weight
            weight = check_sample_weight(sample_weight, self.rows, all_zero=self.processes > 1)

        self.together(check)
        if self.processes > 1 and not self.total(weight[:, None])[0] > 0:
            raise ValueError(ALL_ZERO)
        return weight

    def drop_zero_weight(self, weight: PerRow, *rows: PerRow) -> tuple[Any, ...]:
        """All of them, to be shared equally by the devices; a weight of zero counts nothing."""
        return self, weight, *rows


def is_sharded(X: Any) -> bool:
    """True for features that stay on their devices: a JAX array on several of them, or on one that is not a CPU.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> is_sharded(np.ones((2, 3))), is_sharded(jnp.ones((2, 3)))
    (False, False)
    """
    jax = sys.modules.get("jax")  # an array of JAX's has imported it
    if jax is None or not isinstance(X, jax.Array) or isinstance(X, jax.core.Tracer):
        return False
    devices = X.sharding.device_set
    return len(devices) > 1 or any(device.platform != "cpu" for device in devices)


def check_form(X: Any) -> None:
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


def holders(X: Any) -> dict[int, list[Any]]:
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
