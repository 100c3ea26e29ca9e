"""Compiled programs kept from one process to the next, in a folder of the user's own.

A sampler takes seconds to compile, and the same one again in every process. JAX keeps what it compiled wherever a
folder is named for it, and by itself names none. While chains run this module names one, unless a folder is set
already, by ``JAX_COMPILATION_CACHE_DIR`` or ``jax.config``, or JAX's own cache is switched off. Before and after, JAX
is as it was: programs of the user's own are kept where they always were.

The folder is ``bayesdrop/compiled`` where the platform has its caches (``~/.cache`` or ``XDG_CACHE_HOME`` on Linux).
``BAYESDROP_CACHE=0`` switches it off and ``BAYESDROP_CACHE=PATH`` moves it. JAX removes what was not used for longest
once there is more than half a gigabyte, and locks the folder, so that processes may share it. Where it cannot be
written to there is no cache, and the log says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import platform
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["VARIABLE", "cache_folder", "compile_cache"]

VARIABLE = "BAYESDROP_CACHE"
# Bytes that are kept, and seconds of compilation that make a program worth it.
_LARGEST, _SECONDS = 2**29, 0.2
# Names that JAX gives to its lock, to a program, and to the time of its last use, which is written after it.
_LOCK, _PROGRAM, _USED = ".lockfile", "-cache", "-atime"

_log = logging.getLogger("bayesdrop")
# How many are within the context, what they told JAX, and what it was told before.
_guard, _inside = threading.Lock(), 0
_told, _before = dict[str, Any](), dict[str, Any]()


@contextlib.contextmanager
def compile_cache() -> Iterator[None]:
    """Keep what is compiled within the context, unless that is switched off or the user keeps it elsewhere.

    Examples
    --------
    >>> import jax
    >>> before = jax.config.jax_compilation_cache_dir
    >>> with compile_cache():
    ...     pass
    >>> jax.config.jax_compilation_cache_dir == before
    True
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def cache_folder() -> Path | None:
    """Folder for this processor's programs, or None if the cache is switched off or there is no place for it."""
    from platformdirs import user_cache_path

    wanted = os.environ.get(VARIABLE, "")
    if wanted == "0":
        return None
    base = Path(os.path.expanduser(wanted)).absolute() if wanted else user_cache_path("bayesdrop", appauthor=False)
    # Without a home the path would begin with ~ and be made where the user happens to be.
    return base / "compiled" / _processor() if base.is_absolute() else None


def _enter() -> None:
    """Name the folder to JAX, for the first of those that are within the context."""
    global _inside
    import jax

    with _guard:
        _inside += 1
        config: Any = jax.config
        if _inside > 1 or config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache:
            return
        folder = cache_folder()
        if folder is None or not _is_ready(folder):
            return
        _told.update(
            jax_compilation_cache_dir=str(folder),
            jax_compilation_cache_max_size=_LARGEST,
            jax_persistent_cache_min_compile_time_secs=_SECONDS,
        )
        _before.update({name: getattr(config, name) for name in _told})
        _set(_told)


def _leave() -> None:
    """Restore JAX's settings, for the last of those within the context; what the user has changed since stays."""
    global _inside
    import jax

    with _guard:
        _inside -= 1
        if _inside == 0 and _told:
            _set({name: _before[name] for name, value in _told.items() if getattr(jax.config, name) == value})
            _told.clear()


def _set(settings: dict[str, Any]) -> None:
    import jax
    from jax.experimental.compilation_cache import compilation_cache as jax_cache

    for name, value in settings.items():
        jax.config.update(name, value)
    jax_cache.reset_cache()  # it reads the settings once


@cache
def _is_ready(folder: Path) -> bool:
    """Whether the folder can be written to and locked; what a kill left half written is removed from it."""
    from filelock import FileLock, Timeout

    try:
        # What lies there is run: nobody else may write to it.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(folder / _LOCK, timeout=1):
            for program in folder.glob(f"*{_PROGRAM}"):
                if not program.with_name(program.name.removesuffix(_PROGRAM) + _USED).exists():
                    program.unlink(missing_ok=True)
    except Timeout:
        pass  # another process is at it, and JAX waits
    except (OSError, NotImplementedError) as error:
        _log.warning("compiled programs are not kept: %s; %s=PATH names another folder", error, VARIABLE)
        return False
    _log.debug("compiled programs are kept in %s", folder)
    return True


@cache
def _processor() -> str:
    """Short text that differs where a compiled program might not run: home folders are shared by unlike machines."""
    said = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        said += sorted({line for line in lines if line.split("\t")[0].strip() in ("flags", "Features", "model name")})
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:12]
