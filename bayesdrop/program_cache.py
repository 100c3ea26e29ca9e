"""Keep what JAX compiles for later processes, when the user asks for it."""

from __future__ import annotations

import os
import sys
from os import PathLike
from pathlib import Path
from typing import Any

from ._atomic_files import check_private
from ._validation import check_path

__all__ = ["cache_programs"]


def cache_programs(folder: str | PathLike[str] | None = None) -> Path:
    """Keep compiled programs in a folder, so that later processes need not compile them.

    A sampler takes seconds to compile in each process. This call sets JAX's own persistent compilation cache for the
    current process, as ``jax.config.update("jax_compilation_cache_dir", ...)`` does, after it checked that no other
    user can write to the folder: JAX runs what it finds there. Later processes that make the same call read the
    programs. The environment variable ``JAX_COMPILATION_CACHE_DIR`` does the same without the check, and JAX's other
    settings, such as ``JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS``, hold as well.

    Parameters
    ----------
    folder : path, optional
        Folder for the programs, made if it does not exist; by default that of JAX's setting if there is one, such as
        ``JAX_COMPILATION_CACHE_DIR``, else ``bayesdrop`` in the user's cache folder
        (``$XDG_CACHE_HOME`` if that is an absolute path, else ``~/.cache``; ``~/Library/Caches`` on macOS,
        ``%LOCALAPPDATA%`` on Windows). JAX removes nothing from it; you may delete it at any time.

    Returns
    -------
    pathlib.Path
        The folder.

    Raises
    ------
    OSError
        If the folder cannot be made or written, or is a link, or another user may write to it or to a folder above it.
    ValueError
        If JAX keeps the programs of this process in another folder already.

    See Also
    --------
    sample : What takes seconds to compile.

    Examples
    --------
    >>> import tempfile
    >>> import jax
    >>> import bayesdrop as bd
    >>> before = jax.config.jax_compilation_cache_dir
    >>> jax.config.update("jax_compilation_cache_dir", None)  # as in a process without a cache
    >>> folder = bd.cache_programs(tempfile.mkdtemp())
    >>> jax.config.jax_compilation_cache_dir == str(folder)
    True

    Back to the setting before:

    >>> jax.config.update("jax_compilation_cache_dir", before)
    """
    import jax

    config: Any = jax.config  # JAX makes its settings as it is imported
    before = config.jax_compilation_cache_dir
    if folder is None and before:
        return Path(before)
    try:
        wanted = _user_folder() / "bayesdrop" if folder is None else check_path(folder, "folder")
        if wanted.is_symlink():
            raise PermissionError(f"{str(wanted)!r} is a link")
        place = Path(os.path.realpath(wanted))
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(place)
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(f"{str(place)!r} cannot be written")
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home folder
        raise OSError(
            f"folder: compiled programs cannot be kept: {error}; give a folder that you, and nobody else, may write to."
        ) from error
    if before and os.path.realpath(before) != str(place):
        raise ValueError(f"folder: JAX has one cache for a process, and it is {before!r} already; give no folder.")
    config.update("jax_compilation_cache_dir", str(place))
    return place


def _user_folder() -> Path:
    """Folder of the platform for caches of this user."""
    variable, usual = {"win32": ("LOCALAPPDATA", "AppData/Local"), "darwin": ("", "Library/Caches")}.get(
        sys.platform, ("XDG_CACHE_HOME", ".cache")
    )
    folder = Path(os.environ.get(variable, ""))
    return folder if folder.is_absolute() else Path.home() / usual
