"""Write files atomically, read regular files only, and check who may write to a folder.

A program can be killed at any moment, also while it writes. What is written here goes to a temporary file in the same
folder first, is flushed to the disk, and then takes the place of the old file in one step (``os.replace``), so that
whoever reads the path finds the old content or the new one and never a part of either. The new file has the mode and
the owner of the old one, and while it is written nobody may read it who may not read the old one.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from ._validation import check_path

__all__ = ["check_private", "open_regular", "replace_file", "replacing"]

# No room on the disk, none left for this user, or none for so large a file.
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG}


@contextmanager
def replacing(path: Any, like: Path | None = None) -> Iterator[Path]:
    """Give an empty file to write to; at the end it takes the place of ``path``, after an error it vanishes.

    Parameters
    ----------
    path : path
        Name of the file.
    like : pathlib.Path, optional
        File whose mode and owner a new file takes, if it exists; by default the process's.

    Raises
    ------
    FileNotFoundError
        If the folder of ``path`` does not exist.
    IsADirectoryError
        If ``path`` is a folder.
    FileExistsError
        If ``path`` is a device, a pipe or a socket.
    OSError
        If the disk is full, or the file cannot be written for another reason, such as a name that is too long.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with replacing(path) as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('1 2 3', 1)
    """
    target = _target(path)
    old = _stat(target) or _stat(like)
    # The name cannot be foreseen, so nobody can lay a link there that would lead elsewhere.
    temporary = target.with_name(f".bayesdrop-{secrets.token_hex(6)}.tmp")
    try:
        mode = 0o666 if old is None else 0o600 | (old.st_mode & 0o777)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        replace_file(temporary, target, like)
    except OSError as error:
        if error.errno is not None and error.errno in _FULL:
            raise OSError(
                error.errno,
                f"path: {str(target)!r} cannot be written: {os.strerror(error.errno)}. Nothing was changed, and what "
                "was to be written is still in memory: free some room, or give a path on another disk.",
            ) from error
        if error.filename == str(temporary):
            raise _unwritable(target, error) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(target.parent)


def replace_file(temporary: Path, target: Path, like: Path | None = None) -> None:
    """Move a file to ``target``, with the mode and, if this user may, the owner of the old file, or of ``like``."""
    old = _stat(target) or _stat(like)
    if old is not None:
        mode = old.st_mode & 0o777
        if not (_chown(temporary, old.st_uid, old.st_gid) or _chown(temporary, -1, old.st_gid)):
            mode &= ~stat.S_IRWXG  # the rights were another group's
        with suppress(OSError):  # the file system has no modes
            os.chmod(temporary, mode)
    os.replace(temporary, target)


def _chown(path: Path, user: int, group: int) -> bool:
    try:
        os.chown(path, user, group)
    except AttributeError:  # Windows has no owners
        return True
    except OSError:
        return False
    return True


def _target(path: Any) -> Path:
    """File that a path leads to, or is to: of a link the file that it points to."""
    path = check_path(path)
    target = Path(os.path.realpath(path))
    try:
        old = _stat(path)  # by the path itself: /dev/stdout leads to a pipe, which has no other
        if not target.parent.is_dir():
            raise FileNotFoundError(f"path: the folder {str(target.parent)!r} does not exist; make it first.")
    except OSError as error:
        raise (error if error.errno is None else _unwritable(path, error)) from None
    if old is not None and stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(f"path: expected the name of a file, got the folder {str(target)!r}; add a file name.")
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise FileExistsError(f"path: {str(target)!r} is a device, a pipe or a socket; give the name of a file.")
    return target


def _stat(path: Path | None) -> os.stat_result | None:
    """Facts of the file that a path leads to, None if there is none."""
    try:
        return None if path is None else path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _unwritable(path: Path, error: OSError) -> OSError:
    reason = error.strerror or str(error)
    return OSError(error.errno, f"path: {str(path)!r} cannot be written: {reason}; give another name or folder.")


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
