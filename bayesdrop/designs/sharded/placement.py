"""JAX arrays on devices: which ones stay there, whether they have the form of a matrix, and who holds which rows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["check_form", "holders", "is_sharded"]


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
