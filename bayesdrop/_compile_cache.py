"""Cache of compiled programs, in a folder that only the user may write to.

A sampler takes seconds to compile, and the same one again in every process. While chains run, JAX's own cache is set to
``bayesdrop/compiled`` where the platform has its caches, unless the user has set one or switched JAX's off; before and
after, JAX is as it was. ``BAYESDROP_CACHE=0`` switches it off and ``BAYESDROP_CACHE=PATH`` moves it. What lies there is
run, so a folder that others may write to is refused. Of a run that does not end well nothing is kept, and the oldest
programs are removed once all take half a gigabyte.
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
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ._progress import uninterrupted

__all__ = ["VARIABLE", "cache_folder", "compile_cache", "prepare"]

VARIABLE = "BAYESDROP_CACHE"

_log = logging.getLogger("bayesdrop")


@contextlib.contextmanager
def compile_cache(seconds: float = 0.2) -> Iterator[None]:
    """Keep what is compiled within the context, unless that is switched off or the user keeps it elsewhere.

    Parameters
    ----------
    seconds : float, default 0.2
        How long a program has to take to be kept.

    Examples
    --------
    >>> import jax
    >>> before = jax.config.jax_compilation_cache_dir
    >>> with compile_cache():
    ...     pass
    >>> jax.config.jax_compilation_cache_dir == before
    True
    """
    import jax

    config: Any = jax.config
    elsewhere = config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache
    folder = None if elsewhere else cache_folder()
    if folder is None or not prepare(folder):
        yield
        return
    options: dict[str, Any] = {"jax_compilation_cache_dir": str(folder), "jax_compilation_cache_max_size": -1}
    options["jax_persistent_cache_min_compile_time_secs"] = seconds
    before = {name: getattr(config, name) for name in options}
    begun, whole = time.time_ns() - 10**8, False  # file systems have coarse clocks
    try:
        with uninterrupted():
            _set(options)
        yield
        whole = True
    finally:
        with uninterrupted():
            # What the user has set since stays.
            _set({name: before[name] for name, value in options.items() if getattr(config, name) == value})
            if not whole:  # what was being written may be half of a program
                with contextlib.suppress(OSError):
                    _remove(entry for entry in os.scandir(folder) if entry.stat().st_mtime_ns >= begun)


def cache_folder() -> Path | None:
    """Folder for this processor's programs, or None if the cache is switched off or there is no place for it."""
    wanted = os.environ.get(VARIABLE, "")
    places = {"win32": ("LOCALAPPDATA", "~/AppData/Local"), "darwin": ("", "~/Library/Caches")}
    variable, usual = places.get(sys.platform, ("XDG_CACHE_HOME", "~/.cache"))
    base = Path(os.path.expanduser(wanted or os.path.join(os.environ.get(variable) or usual, "bayesdrop")))
    # Without a home the path would begin with ~ and be made where the user happens to be.
    return None if wanted == "0" or str(base)[0] == "~" else base.absolute() / "compiled" / _processor()


def _set(settings: dict[str, Any]) -> None:
    import jax
    from jax.experimental.compilation_cache import compilation_cache as jax_cache

    for name, value in settings.items():
        jax.config.update(name, value)
    jax_cache.reset_cache()  # it reads the settings once


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
