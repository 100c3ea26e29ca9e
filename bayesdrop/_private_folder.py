"""Check that nobody else can write what is read from a folder as a program, by JAX or by Numba."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["check_private"]


def check_private(folder: Path, *, trusts_group: bool = False) -> None:
    """Raise PermissionError if another user may write to a folder, exchange it, or wrote what is in it.

    Links above the folder are followed; in the folder they are refused, as are pipes and devices, which block a reader.
    The group may write to the folders above, and with ``trusts_group`` to the folder itself.

    Examples
    --------
    >>> import tempfile
    >>> check_private(Path(tempfile.mkdtemp()))
    """
    if not hasattr(os, "getuid"):  # Windows keeps the folders of users apart
        return
    trusted = os.getuid(), 0
    place = Path(os.path.realpath(folder))
    for part in (place, *place.parents):
        info = part.stat()
        is_sticky = part != place and info.st_mode & stat.S_ISVTX  # as /tmp, where nobody may move another's files
        refused = stat.S_IWOTH if trusts_group or part != place else stat.S_IWOTH | stat.S_IWGRP
        if info.st_uid not in trusted:
            raise PermissionError(f"{str(part)!r} belongs to another user")
        if info.st_mode & refused and not is_sticky:
            raise PermissionError(f"others may write to {str(part)!r} (`chmod go-w` ends that)")
    for entry in place.rglob("*"):
        try:
            info = entry.lstat()
        except FileNotFoundError:  # another process has just renamed it
            continue
        if info.st_uid not in trusted or not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            raise PermissionError(f"{str(entry)!r} belongs to another user or is not a file; delete it")
