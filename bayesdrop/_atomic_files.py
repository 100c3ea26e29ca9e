"""Files that are whole or absent.

A program can be killed at any moment, also while it writes. What is written here goes to a temporary file in the same
folder first, is flushed to the disk, and then takes the place of the old file in one step (``os.replace``), so that
whoever reads the path finds the old content or the new one and never a part of either.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._validation import check_path

__all__ = ["replacing", "write_netcdf"]


@contextmanager
def replacing(path: Any) -> Iterator[Path]:
    """Give a temporary path to write to; at the end its file takes the place of ``path``, after an error it vanishes.

    Raises
    ------
    FileNotFoundError
        If the folder of ``path`` does not exist.
    IsADirectoryError
        If ``path`` is a folder.

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
    # The name cannot be foreseen, so nobody can lay a link there that would lead elsewhere.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(target.parent)


def write_netcdf(data: Any, path: Any) -> None:
    """Write an xarray dataset, a tree of them or an ``InferenceData`` to a netCDF file; see :func:`replacing`.

    Examples
    --------
    >>> import tempfile
    >>> import xarray as xr
    >>> path = Path(tempfile.mkdtemp()) / "numbers.nc"
    >>> write_netcdf(xr.Dataset({"rate": 0.5}), path)
    >>> float(xr.load_dataset(path)["rate"])
    0.5
    """
    with replacing(path) as temporary:
        data.to_netcdf(str(temporary), engine="h5netcdf")


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
