"""Compiled programs, in a folder that only the user may write to.

A sampler takes seconds to compile, and the same one again in every process. What XLA makes of a :class:`Program` is
written to ``bayesdrop/compiled`` where the platform has its caches, and read from there by later processes, unless the
user has set a cache of JAX's, which then does both, or switched JAX's off. No setting of JAX is touched.
``BAYESDROP_CACHE=0`` switches the folder off and ``BAYESDROP_CACHE=PATH`` moves it. What lies there is run, so a folder
that others may write to is refused. The oldest programs are removed once all take half a gigabyte.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import platform
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from jax.experimental import serialize_executable
from jax.sharding import NamedSharding
from jaxlib.version import __version__ as jaxlib_version

from ._atomic_files import replacing
from ._progress import uninterrupted

__all__ = ["VARIABLE", "Program", "cache_folder", "drop_programs", "map_share", "prepare", "program"]

VARIABLE = "BAYESDROP_CACHE"

_log = logging.getLogger("bayesdrop")

T = TypeVar("T")


class Program(Generic[T]):
    """A function of arrays that XLA compiles, once for all processes of a user.

    It is compiled for each choice of the constants and of the arrays' shapes, dtypes and devices, as by ``jax.jit``.

    Parameters
    ----------
    function : callable
        Of positional arguments.
    constants : int
        How many of the first arguments are no arrays: hashable, and part of what is compiled.
    seconds : float
        How long XLA has to take for a program to be kept for other processes.
    most_maps : float
        Share of the memory maps that a process may have, beyond which what is compiled is dropped before more is. A
        sampler takes up to a thousand of usually 65,530, and XLA aborts the process where there are none left.

    Attributes
    ----------
    traced : callable
        ``jax.jit`` of the function: to be called within other compiled functions, or for its shapes.

    See Also
    --------
    program : The same, as a decorator.
    """

    def __init__(self, function: Callable[..., T], constants: int, seconds: float, most_maps: float = 0.7) -> None:
        self.traced = jax.jit(function, static_argnums=tuple(range(constants)))
        self.constants, self.seconds, self.most_maps = constants, seconds, most_maps

    def __call__(self, *arguments: Any) -> T:
        """Call the function, compiled; within ``jax.disable_jit()`` as Python runs it."""
        if _without_jit():
            return self.traced(*arguments)
        form = self._form(arguments)
        compiled = form.compiled
        if compiled is None:
            if map_share() > self.most_maps:
                drop_programs()
                form = self._form(arguments)
            lowered = self._lowered(form, arguments)
            compiled = form.compiled = _load_or_compile(lowered, _devices(arguments), self.seconds)
            form.lowered = None
        result: T = compiled(*arguments[self.constants :])
        return result

    def lower(self, *arguments: Any) -> None:
        """Trace the function for such arguments, so that the first call need not."""
        form = self._form(arguments)
        if form.compiled is None and not _without_jit():
            self._lowered(form, arguments)

    def _lowered(self, form: _Form, arguments: Sequence[Any]) -> Any:
        lowered = form.lowered  # read once: another thread may have compiled it meanwhile
        if lowered is None:
            lowered = form.lowered = self.traced.lower(*arguments)
        return lowered

    def _form(self, arguments: Sequence[Any]) -> _Form:
        leaves, tree = jax.tree.flatten(arguments[self.constants :])
        return _form_of(self, tuple(arguments[: self.constants]), tree, tuple(_kind(leaf) for leaf in leaves))


def program(constants: int = 0, seconds: float = 0.2) -> Callable[[Callable[..., T]], Program[T]]:
    """Decorator that makes a function a :class:`Program`.

    Parameters
    ----------
    constants : int, default 0
        How many of its first arguments are no arrays.
    seconds : float, default 0.2
        How long XLA has to take for a program to be kept for other processes.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> @program(constants=1)
    ... def power(exponent, x):
    ...     return x**exponent
    >>> float(power(2, jnp.asarray(3.0)))
    9.0
    """
    return lambda function: Program(function, constants, seconds)


class _Form:
    """A program for one kind of arguments: what JAX made of it, and what XLA made of that."""

    lowered: Any = None
    compiled: Any = None


def _without_jit() -> bool:
    config: Any = jax.config  # JAX makes its settings as it is imported
    return bool(config.jax_disable_jit)


@lru_cache(maxsize=256)
def _form_of(of: Program[Any], *kind: Any) -> _Form:
    return _Form()


def map_share() -> float:
    """Share of the memory maps a process may have that this one has; 0 where the system is not Linux.

    Examples
    --------
    >>> 0 <= map_share() < 1
    True
    """
    maps, most = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
    if not (maps.exists() and most.exists()):
        return 0.0
    with maps.open("rb") as lines:
        return sum(1 for _ in lines) / int(most.read_text())


def drop_programs() -> None:
    """Forget what is compiled, here and in JAX: it is compiled again, or read from its file, where it is called."""
    _form_of.cache_clear()
    jax.clear_caches()


def _kind(leaf: Any) -> tuple[Any, ...]:
    """What of an array is compiled."""
    return (
        np.shape(leaf),
        getattr(leaf, "dtype", type(leaf)),
        getattr(leaf, "weak_type", False),
        getattr(leaf, "sharding", None),
    )


def _devices(arguments: Sequence[Any]) -> list[Any]:
    """The devices that share the arrays, in the order in which their mesh has them."""
    shardings = [leaf.sharding for leaf in jax.tree.leaves(arguments) if isinstance(leaf, jax.Array)]
    meshes = [list(sharding.mesh.devices.flat) for sharding in shardings if isinstance(sharding, NamedSharding)]
    return max(meshes or [list(sharding.device_set) for sharding in shardings] or [jax.devices()[:1]], key=len)


def _load_or_compile(lowered: Any, devices: list[Any], seconds: float) -> Any:
    """A program of other processes, or a new one that is written where they find it."""
    config: Any = jax.config
    elsewhere = config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache
    folder = None if elsewhere else cache_folder()
    if folder is None or not prepare(folder):
        return lowered.compile()
    file = folder / _digest(lowered, devices)
    try:
        if file.exists():
            content = zlib.decompress(file.read_bytes())
            trees = jax.tree.structure(lowered.args_info), lowered.out_tree
            return serialize_executable.deserialize_and_load(content, *trees, execution_devices=devices)
    except Exception as error:  # of a file that is damaged any may come
        _log.debug("a compiled program is made anew: %s: %s", file, error)
    begun = time.perf_counter()
    compiled = lowered.compile()
    if time.perf_counter() - begun >= seconds:
        _keep(compiled, file)
    return compiled


def _keep(compiled: Any, file: Path) -> None:
    try:
        content = zlib.compress(serialize_executable.serialize(compiled)[0], 1)
        with uninterrupted(), replacing(file) as temporary:
            temporary.write_bytes(content)
    except Exception as error:  # where XLA cannot write a program down, or the disk is full
        _log.debug("a compiled program is not kept: %s", error)


def _digest(lowered: Any, devices: list[Any]) -> str:
    """Name that differs where a compiled program does: by what is compiled, by what, how, and for which devices."""
    client, config = devices[0].client, jax.config
    options = ("disable_most_optimizations", "exec_time_optimization_effort", "optimization_level")
    parts = [lowered.as_text(), jax.__version__, jaxlib_version, client.platform, client.platform_version]
    parts += [str(getattr(config, f"jax_{name}", None)) for name in options]
    parts += [os.environ.get("XLA_FLAGS", ""), *(f"{device.id} {device.device_kind}" for device in devices)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def cache_folder() -> Path | None:
    """Folder for this processor's programs, or None if the cache is switched off or there is no place for it."""
    wanted = os.environ.get(VARIABLE, "")
    places = {"win32": ("LOCALAPPDATA", "~/AppData/Local"), "darwin": ("", "~/Library/Caches")}
    variable, usual = places.get(sys.platform, ("XDG_CACHE_HOME", "~/.cache"))
    base = Path(os.path.expanduser(wanted or os.path.join(os.environ.get(variable) or usual, "bayesdrop")))
    # Without a home the path would begin with ~ and be made where the user happens to be.
    return None if wanted == "0" or str(base)[0] == "~" else base.absolute() / "compiled" / _processor()


@cache
def prepare(folder: Path, most: int = 2**29) -> bool:
    """Make the folder or check it, and remove the oldest files if all take more bytes than that."""
    try:
        for part in (*reversed(folder.parents), folder):
            if not part.exists():
                part.mkdir(mode=0o700)
            _check_private(part, strict=part == folder)
        files = sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime_ns)
        while sum(entry.stat().st_size for entry in files) > most:
            _remove([files.pop(0)])
    except OSError as error:
        _log.warning("compiled programs are not kept: %s; %s=PATH names another folder", error, VARIABLE)
        return False
    _log.debug("compiled programs are kept in %s", folder)
    return True


def _remove(files: Iterable[os.DirEntry[str]]) -> None:
    for entry in files:
        Path(entry.path).unlink(missing_ok=True)


def _check_private(folder: Path, *, strict: bool) -> None:
    """Raise PermissionError if another user may exchange a folder's content; of its parents a group is trusted."""
    info = os.stat(folder, follow_symlinks=not strict)
    kept = bool(info.st_mode & stat.S_ISVTX) and not strict  # as of /tmp, where nobody may move what is another's
    others = info.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if strict else 0)) and not kept
    if hasattr(os, "getuid") and (others or info.st_uid not in (os.getuid(), 0)):
        raise PermissionError(f"others may write to {folder}")


@cache
def _processor() -> str:
    """Short text that differs where a compiled program might not run: home folders are shared by unlike machines."""
    parts = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        parts += sorted({line for line in lines if line.split("\t")[0].strip() in ("flags", "Features", "model name")})
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
