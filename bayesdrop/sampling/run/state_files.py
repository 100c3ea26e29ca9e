"""Arrays and sampler states in NumPy files, which are checked when they are read again, and the lock of a folder.

A state of any structure is stored as the flat list of its leaves, random keys as their words. The kernel gives the
structure into which it is read, so that a file provides numbers only.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._atomic_files import open_regular, replacing

__all__ = ["Shapes", "locked", "pack", "read_arrays", "stored_shapes", "unpack", "write_arrays"]

Shapes = Mapping[str, tuple[Sequence[int], np.dtype]]


def _leaves(state: Any) -> dict[str, Any]:
    leaves = jax.tree.leaves(state)
    return {f"leaf{i}": jax.random.key_data(leaf) if _is_key(leaf) else leaf for i, leaf in enumerate(leaves)}


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def pack(state: Any) -> dict[str, np.ndarray]:
    """Leaves of a state as plain arrays.

    Examples
    --------
    >>> pack({"key": jax.random.key(5), "weight": jnp.zeros(2)})
    {'leaf0': array([0, 5], dtype=uint32), 'leaf1': array([0., 0.], dtype=float32)}
    """
    return {name: np.asarray(leaf) for name, leaf in _leaves(state).items()}


def stored_shapes(shapes: Any) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shapes and dtypes of the packed arrays of a state with these ``jax.ShapeDtypeStruct`` leaves."""
    plain = jax.eval_shape(_leaves, shapes)
    return {name: (tuple(leaf.shape), np.dtype(leaf.dtype)) for name, leaf in plain.items()}


def unpack(arrays: Mapping[str, np.ndarray], shapes: Any, key: PRNGKeyArray) -> Any:
    """Inverse of ``pack``: a state of the structure of ``shapes``, its keys of the kind of ``key``."""
    leaves, structure = jax.tree.flatten(shapes)
    values = [jnp.asarray(arrays[f"leaf{i}"]) for i in range(len(leaves))]
    kind = jax.random.key_impl(key)
    restored = [
        jax.random.wrap_key_data(value, impl=kind) if _is_key(leaf) else value
        for value, leaf in zip(values, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, restored)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], like: Path | None = None) -> str:
    """Write arrays completely or not at all, and return the SHA-256 checksum of the file.

    A new file takes the mode and the owner of the file ``like``, if there is one.
    """
    with replacing(path, like) as temporary:
        with open(temporary, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        with open(temporary, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def read_arrays(path: Path, checksum: str, expected: Shapes) -> dict[str, np.ndarray]:
    """Read arrays of the expected names, shapes and dtypes, without pickle; any exception means an unusable file.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.npz"
    >>> checksum = write_arrays(path, {"a": np.arange(3.0)})
    >>> read_arrays(path, checksum, {"a": ((3,), np.dtype(float))})
    {'a': array([0., 1., 2.])}
    >>> read_arrays(path, checksum, {"a": ((4,), np.dtype(float))})
    Traceback (most recent call last):
    ...
    ValueError: it holds a as float64 (3,), and float64 (4,) is expected
    """
    with open_regular(path, follow_links=False) as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != checksum:
            raise ValueError("its checksum is not the one in the manifest")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in expected}
    for name, (shape, dtype) in expected.items():
        if arrays[name].shape != tuple(shape) or arrays[name].dtype != dtype:
            raise ValueError(
                f"it holds {name} as {arrays[name].dtype} {arrays[name].shape}, and {dtype} {tuple(shape)} is expected"
            )
    return arrays


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, made if it is absent; the system releases it when the process ends for any reason.

    Raises
    ------
    BlockingIOError
        If another process, or this one, holds it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lock"
    >>> with locked(path), locked(path):
    ...     pass
    Traceback (most recent call last):
    ...
    BlockingIOError: ...
    """
    with open(path, "ab") as file:
        if sys.platform == "win32":
            import msvcrt

            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            except PermissionError as error:
                raise BlockingIOError(*error.args) from None
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
