"""What a file says of its sizes, held against its length before anything is made for it.

A header of a hundred bytes can speak of terabytes, and one wrong index of a matrix of a billion columns.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["check_archive", "check_room", "check_width", "header", "room"]


def header(file: Any) -> tuple[tuple[int, ...], bool, Any]:
    """Shape, whether it lies by columns, and type of the array in NumPy's format where the file stands."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"expected numbers, got shape {shape} of {dtype}")
    return shape, by_columns, dtype


def room(needed: int, there: int) -> None:
    """Raise ValueError unless a file has the bytes that its header speaks of, before anything is made for them."""
    if needed > there:
        raise ValueError(
            f"the file ends early: its header speaks of {needed:,} bytes of numbers and {there:,} are there"
        )


# Deflate makes nothing smaller than one part in 1032.
_MOST_PACKED = 1032
# Columns that a small file may have: a few vectors over them take no more than what a session takes anyway.
_MOST_COLUMNS = 1 << 24


def check_archive(file: Any) -> None:
    """Raise ValueError if a part of an archive speaks of more numbers than it can hold, or the matrix of too many."""
    with zipfile.ZipFile(file) as archive:
        parts = {part.filename: part for part in archive.infolist()}
        for name, part in parts.items():
            if part.file_size > _MOST_PACKED * max(part.compress_size, 1):
                raise ValueError(f"{name} claims {part.file_size:,} bytes and has {part.compress_size:,} packed")
            with archive.open(part) as inner:
                shape, _, dtype = header(inner)
                room(int(np.prod(shape, dtype=object)) * dtype.itemsize, part.file_size)
        if "shape.npy" in parts:
            with archive.open("shape.npy") as inner:
                sizes = np.lib.format.read_array(inner, allow_pickle=False)
            held = sum(part.file_size for part in parts.values())
            # Rows have a pointer each in the file, but in columns or coordinates they cost nothing there.
            for size in np.ravel(sizes).tolist():
                check_width(size, held)


def check_width(columns: int, held: int) -> None:
    """Raise ValueError for more columns (or rows) than a file of so many bytes can mean."""
    if columns > max(_MOST_COLUMNS, held):
        raise ValueError(
            f"it speaks of {columns:,} rows or columns, and holds {held:,} bytes: an index is wrong, or hash the "
            f"features to at most {_MOST_COLUMNS:,}"
        )


def check_room(path: Path) -> None:
    """Raise ValueError if the header of a file in NumPy's format speaks of more numbers than the file holds.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    """
    with path.open("rb") as file:
        shape, _, dtype = header(file)
        room(int(np.prod(shape, dtype=object)) * dtype.itemsize, path.stat().st_size - file.tell())
