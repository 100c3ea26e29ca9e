"""Write files atomically, and read regular files only.

A program can be killed at any moment, also while it writes. What is written here goes to a temporary file in the same
folder first, is flushed to the disk, and then takes the place of the old file in one step (``os.replace``), so that
whoever reads the path finds the old content or the new one and never a part of either.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from ._validation import check_path

__all__ = ["open_regular", "replacing"]

# No room on the disk, none left for this user, or none for so large a file.
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG}


@contextmanager
def replacing(path: Any) -> Iterator[Path]:
    """Give a temporary path to write to; at the end its file takes the place of ``path``, after an error it vanishes.

    Raises
    ------
    FileNotFoundError
        If the folder of ``path`` does not exist.
    IsADirectoryError
        If ``path`` is a folder.
    FileExistsError
        If ``path`` is a device, a pipe or a socket.
    OSError
        If the disk is full.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with replacing(path) as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('1 2 3', 1)
    """
    # A link stays a link: what it points to is replaced.
    target = Path(os.path.realpath(check_path(path)))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path: the folder {str(target.parent)!r} does not exist; make it first.")
    if target.is_dir():
        raise IsADirectoryError(f"path: expected the name of a file, got the folder {str(target)!r}; add a file name.")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"path: {str(target)!r} is a device, a pipe or a socket; give the name of a file.")
    # The name cannot be foreseen, so nobody can lay a link there that would lead elsewhere.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if error.errno is None or error.errno not in _FULL:
            raise
        raise OSError(
            error.errno,
            f"path: {str(target)!r} cannot be written: {os.strerror(error.errno)}. Nothing was changed, and what was "
            "to be written is still in memory: free some room, or give a path on another disk.",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(target.parent)


def open_regular(path: Path, *, follow_links: bool = True) -> BufferedReader:
    """Open a file to be read; a pipe or a device, which might be read for ever, is refused before it is opened.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    follow_links : bool, default True
        Whether the path may be a link to a file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    OSError
        If it cannot be opened.
    ValueError
        If it is anything but a file; the text says what, as in "it is a folder".

    Examples
    --------
    >>> open_regular(Path(os.devnull))
    Traceback (most recent call last):
    ...
    ValueError: it is a device, a pipe or a socket
    """
    _check_regular(os.stat(path, follow_symlinks=follow_links).st_mode)
    flags = (getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
    descriptor = os.open(path, sum(flags) | (0 if follow_links else getattr(os, "O_NOFOLLOW", 0)))
    try:
        _check_regular(os.fstat(descriptor).st_mode)  # it may have been exchanged since
    except ValueError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        folder, link = stat.S_ISDIR(mode), stat.S_ISLNK(mode)
        raise ValueError(f"it is {'a folder' if folder else 'a link' if link else 'a device, a pipe or a socket'}")


def _flush_folder(folder: Path) -> None:
    """Make a new name in a folder durable; Windows has no such call and needs none."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError:  # some network file systems cannot; the file itself is on the disk
            pass
        finally:
            os.close(descriptor)
