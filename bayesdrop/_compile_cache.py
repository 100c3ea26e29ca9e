"""Compiled programs kept from one process to the next, in a folder of the user's own.

A sampler takes seconds to compile, and the same one again in every process. While chains run, JAX's own cache is set to
``bayesdrop/compiled`` where the platform has its caches, unless the user has set one or switched JAX's off; before and
after, JAX is as it was. ``BAYESDROP_CACHE=0`` switches it off and ``BAYESDROP_CACHE=PATH`` moves it. What lies there is
run, so a folder that others may write to is refused. A file that was not there when a run ended well may be half
written: it is removed, and the oldest ones are once all take half a gigabyte.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import platform
import stat
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ._atomic_files import replacing
from ._progress import uninterrupted

__all__ = ["VARIABLE", "cache_folder", "compile_cache", "prepare"]

VARIABLE, _INDEX, _LARGEST = "BAYESDROP_CACHE", "index.json", 2**29

_log = logging.getLogger("bayesdrop")
# Who is within the context, and the settings of JAX before the first of them.
_guard, _inside, _before = threading.Lock(), set[object](), dict[str, Any]()


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
    me, whole = object(), False
    try:
        with uninterrupted(), _guard:
            _inside.add(me)
            _enter(seconds)
        yield
        whole = True
    finally:
        with uninterrupted(), _guard:
            _inside.discard(me)
            if not _inside and _before:
                _leave(whole)


def cache_folder() -> Path | None:
    """Folder for this processor's programs, or None if the cache is switched off or there is no place for it."""
    wanted = os.environ.get(VARIABLE, "")
    places = {"win32": ("LOCALAPPDATA", "~/AppData/Local"), "darwin": ("", "~/Library/Caches")}
    variable, usual = places.get(sys.platform, ("XDG_CACHE_HOME", "~/.cache"))
    base = Path(os.path.expanduser(wanted or os.path.join(os.environ.get(variable) or usual, "bayesdrop")))
    # Without a home the path would begin with ~ and be made where the user happens to be.
    return None if wanted == "0" or str(base)[0] == "~" else base.absolute() / "compiled" / _processor()


def _enter(seconds: float) -> None:
    import jax

    config: Any = jax.config
    if _before or config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache:
        return
    folder = cache_folder()
    if folder is not None and prepare(folder):
        told: dict[str, Any] = {"jax_compilation_cache_dir": str(folder), "jax_compilation_cache_max_size": -1}
        told["jax_persistent_cache_min_compile_time_secs"] = seconds
        _before.update({name: (value, getattr(config, name)) for name, value in told.items()})
        _set(told)


def _leave(whole: bool) -> None:
    """Restore what the user has not changed since; after a run that ended well its programs are whole."""
    import jax

    folder = Path(_before["jax_compilation_cache_dir"][0])
    _set({name: before for name, (told, before) in _before.items() if getattr(jax.config, name) == told})
    _before.clear()
    with contextlib.suppress(OSError, ValueError):
        files = _files(folder)
        if whole and files.keys() - _index(folder).keys():
            with replacing(folder / _INDEX) as temporary:
                temporary.write_text(json.dumps(files), encoding="utf-8")


def _set(settings: dict[str, Any]) -> None:
    import jax
    from jax.experimental.compilation_cache import compilation_cache as jax_cache

    for name, value in settings.items():
        jax.config.update(name, value)
    jax_cache.reset_cache()  # it reads the settings once


@cache
def prepare(folder: Path) -> bool:
    """Make the folder or check it, and remove from it what may be half written, and what is too much."""
    try:
        for part in (*reversed(folder.parents), folder):
            if not part.exists():
                part.mkdir(mode=0o700)
            _check_own(part, strict=part == folder)
        files, known = _files(folder), _index(folder)
        whole = sorted((name for name in files if files[name] == known.get(name)), key=lambda name: files[name][1])
        while sum(files[name][0] for name in whole) > _LARGEST:
            del whole[0]
        for name in files.keys() - set(whole):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        _log.warning("compiled programs are not kept: %s; %s=PATH names another folder", error, VARIABLE)
        return False
    _log.debug("compiled programs are kept in %s", folder)
    return True


def _check_own(folder: Path, *, strict: bool) -> None:
    """Raise PermissionError if another user may exchange a folder's content; of its parents a group is trusted."""
    info = os.stat(folder, follow_symlinks=not strict)
    kept = bool(info.st_mode & stat.S_ISVTX) and not strict  # as of /tmp, where nobody may move what is another's
    others = info.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if strict else 0)) and not kept
    if hasattr(os, "getuid") and (others or info.st_uid not in (os.getuid(), 0)):
        raise PermissionError(f"others may write to {folder}")


def _files(folder: Path) -> dict[str, list[int]]:
    """Size and time of each file."""
    found = {entry.name: entry.stat(follow_symlinks=False) for entry in os.scandir(folder) if entry.name != _INDEX}
    return {name: [info.st_size, info.st_mtime_ns] for name, info in found.items() if stat.S_ISREG(info.st_mode)}


def _index(folder: Path) -> dict[str, Any]:
    """The same of the files that were whole when a run ended."""
    with contextlib.suppress(OSError, ValueError):
        known = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
        return known if isinstance(known, dict) else {}
    return {}


@cache
def _processor() -> str:
    """Short text that differs where a compiled program might not run: home folders are shared by unlike machines."""
    said = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        said += sorted({line for line in lines if line.split("\t")[0].strip() in ("flags", "Features", "model name")})
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:12]
