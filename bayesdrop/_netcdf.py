"""netCDF files, written atomically and validated when they are read.

If HDF5 cannot write to a file, it cannot close it either: it reports the error, and ends the process when it tries
again. Therefore it writes to an object that stores the error, which is raised after HDF5 has closed the file.

A file ends in the SHA-256 checksum of the preceding bytes, which other programs ignore, and remove when they write to
the file. If it is present, it is compared before HDF5 reads anything. As a file may be forged with its checksum, its
declared sizes are checked before memory is allocated, and no other file that it names is opened.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ._atomic_files import open_regular, replacing
from ._memory import check_memory
from ._progress import uninterrupted
from ._validation import check_path

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["MOST_COMPRESSED", "checked_file", "new_netcdf", "read_netcdf", "reading", "write_netcdf"]

_MARK = b"bayesdrop sha256"
# Largest compression ratio of Deflate, which netCDF files use.
MOST_COMPRESSED = 1032
# Number of bytes of text to read at a time when measuring its size.
_TEXT = 2**26


class _Sink:
    """A file for HDF5 that raises no errors: it stores the first error, and keeps later writes in memory.

    Later writes must be readable, because HDF5 reads addresses that it has written.
    """

    def __init__(self, file: FileIO) -> None:
        self._file, self._place, self._end = file, 0, 0
        self._unwritten: list[tuple[int, bytes]] = []
        self._error: BaseException | None = None

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        self._place += len(left)
        self._end = max(self._end, self._place)
        try:
            self.check()
            self._file.seek(self._place - len(left))
            while left:
                left = left[self._file.write(left) :]
        except BaseException as error:
            self._error = error
            self._unwritten.append((self._place - len(left), bytes(left)))
        return len(data)

    def read(self, size: int) -> bytes:  # by which h5py knows a file
        room = bytearray(size)
        return bytes(room[: self.readinto(room)])

    def readinto(self, room: Any) -> int:
        view = memoryview(room).cast("B")
        first, size = self._place, len(view)
        self._place += size
        content = b""
        try:
            self._file.seek(first)
            while len(content) < size and (part := self._file.read(size - len(content))):
                content += part
        except BaseException as error:
            self._error = self._error or error
        view[:] = content.ljust(size, b"\0")
        for start, data in self._unwritten:
            low, high = max(start, first), min(start + len(data), first + size)
            if low < high:
                view[low - first : high - first] = data[low - start : high - start]
        return size

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = offset + (0, self._place, self._end)[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def truncate(self, size: int) -> int:
        self._end = size
        try:
            self._file.truncate(size)
        except BaseException as error:
            self._error = self._error or error
        return size

    def flush(self) -> None:
        """Nothing: the file has no buffer."""


@contextmanager
def new_netcdf(path: Any) -> Iterator[tuple[Any, Callable[[], None]]]:
    """A ``h5netcdf.File`` to write to, and a function that raises the first error in writing.

    The caller writes under :func:`bayesdrop._progress.uninterrupted`. At the end the file replaces ``path``; after an
    error it is deleted.

    Raises
    ------
    OSError
        If the disk is full, or the file cannot be written for another reason.
    """
    with uninterrupted():
        import h5netcdf

    with replacing(path) as temporary, FileIO(temporary, "r+b") as file:
        sink = _Sink(file)
        with uninterrupted():
            target = h5netcdf.File(sink, "w")
        try:
            yield target, sink.check
        finally:
            with uninterrupted():
                target.close()
        sink.check()
        file.seek(0)
        checksum = hashlib.file_digest(file, "sha256").digest()
        sink.seek(0, os.SEEK_END)
        sink.write(_MARK + checksum)
        sink.check()


def write_netcdf(groups: Mapping[str, xr.Dataset], path: Any) -> None:
    """Write datasets by the name of their group (``"/"`` for the root) to a netCDF file; on failure write no file.

    Examples
    --------
    >>> import tempfile
    >>> import xarray as xr
    >>> path = Path(tempfile.mkdtemp()) / "numbers.nc"
    >>> write_netcdf({"/": xr.Dataset({"rate": 0.5})}, path)
    >>> float(read_netcdf(path)["/"]["rate"])
    0.5
    """
    with uninterrupted():
        from xarray.backends import H5NetCDFStore

    with new_netcdf(path) as (file, _), uninterrupted():
        for name, data in groups.items():
            packed = {key: {"zlib": True} for key, part in data.variables.items() if part.ndim and _is_number(part)}
            data.dump_to_store(H5NetCDFStore(file, group=name, mode="a"), encoding=packed)


def _is_number(variable: Any) -> bool:
    return variable.dtype.kind in "biuf"


@contextmanager
def reading(path: Any, what: str, writer: str, advice: str) -> Iterator[Path]:
    """Give the path of a file to read ``what`` from; any error in the block becomes one that names the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If an error was raised.

    Examples
    --------
    >>> with reading("absent.nc", "a fit", "Fit.save", "fit again"):
    ...     pass
    Traceback (most recent call last):
    ...
    FileNotFoundError: path: there is no file 'absent.nc'; Fit.save writes one.
    """
    file = check_path(path)
    if not file.exists():
        raise FileNotFoundError(f"path: there is no file {str(file)!r}; {writer} writes one.")
    try:
        yield file
    except Exception as error:  # HDF5, netCDF and xarray raise many kinds for a damaged file
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise ValueError(
            f"path: {str(file)!r} cannot be read as {what} ({kind}{str(error)[:300].rstrip('.')}). It was truncated, "
            f"changed, or written by another program; {advice}, or read it with the program that wrote it."
        ) from error


def read_netcdf(path: Path) -> dict[str, xr.Dataset]:
    """Datasets of a file in memory, by the name of their group, ``"/"`` for the root; see :func:`reading`."""
    with uninterrupted():
        import h5netcdf
        import xarray as xr
        from xarray.backends import H5NetCDFStore

    with checked_file(path) as root, h5netcdf.File(root, "r", decode_vlen_strings=True) as whole:
        if any(whole[name].groups for name in whole.groups):
            raise ValueError("its groups have groups")
        groups = {
            name: xr.open_dataset(H5NetCDFStore(whole, group=name, mode="r")).load() for name in ("/", *whole.groups)
        }
        for group in groups.values():
            group.set_close(None)  # the default closes the file, and a reference to a file cannot be pickled
        return groups


@contextmanager
def checked_file(path: Path) -> Iterator[Any]:
    """Open a file by h5py; raise ValueError or OSError unless it is whole and needs no other files."""
    with uninterrupted():
        import h5py

    with open_regular(path) as file:
        _check_sum(file)
        with h5py.File(file, "r") as root:
            _check_contents(root, os.fstat(file.fileno()).st_size)
            yield root


def _check_sum(file: BinaryIO) -> None:
    """Raise ValueError if a file ends in a wrong checksum; return to the start of the file."""
    end = file.seek(0, os.SEEK_END)
    first = file.seek(max(end - len(_MARK) - 32, 0))
    last = file.read()
    file.seek(0)
    if _MARK not in last:
        return
    left, digest = first + last.index(_MARK), hashlib.sha256()
    written = last[last.index(_MARK) + len(_MARK) :]
    while left:
        part = file.read(min(left, 2**20))
        digest.update(part)
        left -= len(part)
    file.seek(0)
    if digest.digest() != written:
        raise ValueError("it is damaged: its checksum is not that of its content")


def _check_contents(root: Any, length: int) -> None:
    """Raise ValueError if an HDF5 file refers to other files, or declares more than it can hold or memory allows."""
    import h5py

    total, text, seen, groups = 0, 0, set(), [root]
    while groups:
        group = groups.pop()
        address = h5py.h5o.get_info(group.id).addr
        if address in seen:
            raise ValueError("its groups hold one another")
        seen.add(address)
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{name!r} is a link to another place")
            entry = group[name]
            if isinstance(entry, h5py.Group):
                groups.append(entry)
            elif isinstance(entry, h5py.Dataset):
                total += _checked_size(name, entry)
                text += _text_size(entry, length)
        # A text that is stored once may be referenced in many places.
        text += sum(_attribute_size(entry, length) for entry in (group, *group.values()))
        if text > length:
            raise ValueError(f"it claims {text} bytes of text and has {length}")
    check_memory("its numbers take", total, "read parts of it with xarray")


def _checked_size(name: str, entry: Any) -> int:
    """Bytes of memory for a dataset of an HDF5 file; 0 for a netCDF dimension without labels."""
    import h5py

    if entry.external or entry.is_virtual:
        raise ValueError(f"{name!r} lies in another file")
    if entry.dtype.kind not in "biufS" and h5py.check_string_dtype(entry.dtype) is None:
        raise ValueError(f"{name!r} holds neither numbers nor text, but {entry.dtype}")
    stored = int(entry.id.get_storage_size())
    if stored == 0 and "This is a netCDF dimension but not a netCDF variable" in str(entry.attrs.get("NAME")):
        return 0
    if entry.scaleoffset is not None or entry.compression not in (None, "gzip", "lzf"):
        raise ValueError(f"{name!r} has a compression other than deflate")
    limit = stored if entry.compression is None else MOST_COMPRESSED * stored
    size, whole = int(entry.size or 0) * entry.dtype.itemsize, True
    if entry.chunks is not None and size:
        pieces = math.prod(-(-length // piece) for length, piece in zip(entry.shape, entry.chunks, strict=True))
        whole = math.prod(entry.chunks) * entry.dtype.itemsize <= limit and entry.id.get_num_chunks() == pieces
    if size > limit or not whole:
        raise ValueError(f"{name!r} claims {size} bytes of numbers, and not all of them are stored")
    return size


def _text_size(entry: Any, length: int) -> int:
    """Bytes of the texts of any length in a dataset, up to more than there can be."""
    import h5py

    kind, total = h5py.check_string_dtype(entry.dtype), 0
    if kind is None or kind.length is not None or not entry.size:
        return 0
    rows = len(entry) if entry.ndim else 1
    step = max(1, _TEXT * rows // (length * entry.size))
    for first in range(0, rows, step):
        total += sum(len(text) for text in np.ravel(entry[first : first + step] if entry.ndim else entry[()]))
        if total > length:
            break
    return total


def _attribute_size(entry: Any, length: int) -> int:
    """Bytes of the texts in the attributes of an entry; HDF5 reads all texts of an attribute at once."""
    import h5py

    total = 0
    for name in entry.attrs:
        attribute = h5py.h5a.open(entry.id, name.encode())
        kind = h5py.check_string_dtype(attribute.dtype)
        if kind is None or kind.length is not None:
            continue
        count = math.prod(attribute.shape)
        if count * length > max(_TEXT, 100 * length):
            raise ValueError(f"the attribute {name!r} holds {count} texts")
        total += sum(len(text) for text in np.ravel(entry.attrs[name]))
        if total > length:
            break
    return total
