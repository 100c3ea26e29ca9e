"""A lock on a file, which the system drops when the process ends, however it ends."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["locked"]


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
