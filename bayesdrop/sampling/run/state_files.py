"""Arrays and sampler states in NumPy files that are not trusted when they are read again.

A state, whatever its structure, is stored as the flat list of its leaves, keys as their words. It is read against
the structure that the kernel makes, so that a file brings numbers and nothing else.

A folder is locked by a file, whose lock the system drops when the process ends, however it ends.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._atomic_files import open_regular, replacing

__all__ = ["DamagedFile", "Shapes", "locked", "pack", "read_arrays", "stored_shapes", "unpack", "write_arrays"]

Shapes = Mapping[str, tuple[Sequence[int], np.dtype]]


# Bytes at most of what NumPy and zip say of an array, and of all of them.
_HEADER = 4096


class DamagedFile(Exception):
    """A file is not what was written; the text says why, as in "is missing"."""


def pack(state: Any) -> dict[str, np.ndarray]:
    """Leaves of a state as plain arrays.

    Examples
    --------
    >>> pack({"key": jax.random.key(5), "weight": jnp.zeros(2)})
    {'leaf0': array([0, 5], dtype=uint32), 'leaf1': array([0., 0.], dtype=float32)}
    """
    return {
        f"leaf{i}": np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
        for i, leaf in enumerate(jax.tree.leaves(state))
    }


def stored_shapes(shapes: Any) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shapes and dtypes of what ``pack`` makes of a state with these ``jax.ShapeDtypeStruct`` leaves."""
    plain = jax.eval_shape(
        lambda leaves: [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in leaves],
        jax.tree.leaves(shapes),
    )
    return {f"leaf{i}": (tuple(leaf.shape), np.dtype(leaf.dtype)) for i, leaf in enumerate(plain)}


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


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], like: Path | None = None) -> str:
    """Write arrays, whole or not at all, and return the SHA-256 checksum of the file.

    A new file takes the mode and the owner of the file ``like``, if there is one.

    Raises
    ------
    TypeError
        If NumPy files have no name for a dtype (objects, or JAX's own such as bfloat16).
    """
    plain = {name: np.asarray(value) for name, value in arrays.items()}
    strange = sorted({str(value.dtype) for value in plain.values() if value.dtype.kind not in "biufc"})
    if strange:
        raise TypeError(
            f"checkpoint: expected arrays of numbers or truth values in the sampler's state, got {strange}."
        )
    with replacing(path, like) as temporary:
        with open(temporary, "wb") as file:
            np.savez(file, **plain)  # type: ignore[arg-type]
        with open(temporary, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def read_arrays(path: Path, checksum: str, expected: Shapes) -> dict[str, np.ndarray]:
    """Read arrays of the expected names, shapes and dtypes.

    Raises
    ------
    DamagedFile
        If the file is missing, another, or holds anything else.

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
    bayesdrop.sampling.run.state_files.DamagedFile: holds a as float64 (3,), and float64 (4,) is expected
    """
    try:
        with open_regular(path, follow_links=False) as file:
            size = os.fstat(file.fileno()).st_size
            if size > sum(math.prod(shape) * dtype.itemsize + _HEADER for shape, dtype in expected.values()) + _HEADER:
                raise DamagedFile("is larger than the arrays that it should hold")
            if hashlib.file_digest(file, "sha256").hexdigest() != checksum:
                raise DamagedFile("is damaged: its checksum is not the one in the manifest")
            with zipfile.ZipFile(file) as archive:
                if sorted(archive.namelist()) != sorted(f"{name}.npy" for name in expected):
                    raise DamagedFile("does not hold the arrays that a run of this model writes")
                return {name: _read_array(archive, name, *expected[name], size) for name in expected}
    except FileNotFoundError:
        raise DamagedFile("is missing") from None
    except DamagedFile:
        raise
    except Exception as error:  # a hostile archive can fail anywhere in zipfile
        raise DamagedFile(f"is damaged ({str(error)[:100]})") from None


def _read_array(archive: zipfile.ZipFile, name: str, shape: Sequence[int], dtype: np.dtype, size: int) -> np.ndarray:
    """One array, whose header is compared before memory is taken."""
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED:
        raise DamagedFile("is compressed, and checkpoints are not")  # it could swell without end
    with archive.open(info) as member:
        major, _ = np.lib.format.read_magic(member)
        read_header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        found_shape, _, found_dtype = read_header(member)
        if found_shape != tuple(shape) or found_dtype != dtype:
            raise DamagedFile(f"holds {name} as {found_dtype} {found_shape}, and {dtype} {tuple(shape)} is expected")
        if math.prod(shape) * dtype.itemsize > size:
            raise DamagedFile(f"holds less of {name} than it says")
        member.seek(0)
        return np.lib.format.read_array(member, allow_pickle=False)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if there is none, and neither read nor changed.

    Raises
    ------
    BlockingIOError
        If another process, or this one, holds it.
    OSError
        If there is a link, a pipe or anything else but a file, or the file system has no locks.

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
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FileExistsError(f"{path} is no file")
    more = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | sum(more), 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileExistsError(f"{path} is no file")
        _take(descriptor)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from None
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
