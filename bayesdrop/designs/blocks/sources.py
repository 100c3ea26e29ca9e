"""Read blocks of rows from files, a list of matrices or a function, for :class:`.blocks.design.Blocks`.

A source is read from its start in every pass. For each block it yields a name for messages and a function that reads
the block as a dense or scipy sparse matrix, so that each thread can read its own. Files are read, not mapped into
memory: a file that shrinks while it is mapped ends the process, while a short read raises an error.

The sizes that a file declares are compared with its length before memory is allocated: a header of a hundred bytes can
declare terabytes, and one wrong index a billion columns.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import load_npz

from ..._memory import BLOCK
from ..._netcdf import MOST_COMPRESSED
from ..._validation import extra, shown, stored_index, table_names
from ..threads import LIMITS
from .svmlight import Indices, LineError, check_width, indices_of, read_rows

__all__ = ["Files", "Made", "check_archive", "header", "open_source", "room"]

_ADVICE = (
    "give a path or a list of paths (.npy, .npz, .parquet, .svmlight, .svm, .libsvm, each of the last three also with "
    ".gz), a list of matrices, or a function without arguments that returns a fresh iterator of matrices"
)
_RESPONSE = "pass the response as y, in the order of the rows"

# Function that reads a block.
Load = Callable[[], Any]


def open_source(
    source: Any,
    rows: int | None,
    columns: list[str] | None,
    n_features: int | None = None,
    zero_based: bool | None = None,
) -> Files | Made:
    """Return a source for the argument of :class:`.blocks.design.Blocks`; raise TypeError for other types.

    Examples
    --------
    >>> next(open_source([np.ones((2, 3))], None, None).pieces())[1]().shape
    (2, 3)
    """
    if isinstance(source, str | os.PathLike):
        return Files([Path(source)], rows, columns, n_features, zero_based)
    if isinstance(source, list | tuple) and source:
        paths = [isinstance(part, str | os.PathLike) for part in source]
        if all(paths):
            return Files([Path(path) for path in source], rows, columns, n_features, zero_based)
        if not any(paths):
            return Made(lambda: iter(source), columns)
    if callable(source):
        return Made(source, columns)
    kind = type(source).__name__
    if hasattr(source, "__next__"):
        raise TypeError(
            f"source: a fit reads the blocks several times, and this {kind} can be read only once; pass the function "
            "that makes it, as in bd.Blocks(read) rather than bd.Blocks(read())."
        )
    raise TypeError(f"source: expected blocks of rows, got {kind}; {_ADVICE}.")


class Made:
    """Blocks from a function that makes them anew in every pass; ``columns`` are their names or None."""

    indices: Indices | None = None

    def take(self, name: str) -> Any:
        """Raise ValueError: a block that a function makes holds features only."""
        raise ValueError(f"target: expected Parquet files for {shown(name)}, got blocks of features; {_RESPONSE}.")

    def __init__(self, make: Callable[[], Iterator[Any]], columns: list[str] | None) -> None:
        self._make, self.columns = make, columns

    def pieces(self) -> Iterator[tuple[str, Load]]:
        """The blocks from the start, each as a name for messages and a function by which any thread can read it."""
        blocks = self._make()
        if not isinstance(blocks, Iterable):
            raise TypeError(f"source: expected a function that returns blocks of rows, got {shown(blocks)} from it.")
        names: list[str] | None = None
        for number, block in enumerate(blocks):
            columns = table_names(block, f"source: block {number}")
            if number == 0:
                names = columns
                self.columns = names if self.columns is None else self.columns
            elif columns != names:
                raise ValueError(
                    f"source: block {number}: expected the columns {names} of the first block in their order, got "
                    f"{columns}; give all blocks the same columns."
                )
            yield f"block {number}", _there(block)


class Files:
    """Blocks from files in order, each cut into blocks of at most ``rows`` rows (.npz files: one block each)."""

    def __init__(
        self,
        paths: list[Path],
        rows: int | None,
        columns: list[str] | None,
        n_features: int | None = None,
        zero_based: bool | None = None,
    ) -> None:
        self._paths, self._rows, self.columns = paths, rows, columns
        self._readers = [self._reader(path) for path in paths]
        self._stamps = [_stamp(path) for path in paths]
        self.indices: Indices | None = None
        text = [path for path, reader in zip(paths, self._readers, strict=True) if reader == self._svmlight]
        if text:
            with _naming(text[0]):
                self.indices = indices_of(text, n_features, zero_based)
        if columns is None and all(reader == self._parquet for reader in self._readers):
            with _naming(paths[0]):
                with _parquet_file(paths[0]) as file:
                    self.columns = _columns(file)

    def _reader(self, path: Path) -> Callable[[Path], Iterator[Load]]:
        name = path.name.removesuffix(".gz")
        readers = {
            ".npy": self._npy,
            ".npz": self._npz,
            ".parquet": self._parquet,
            **dict.fromkeys((".svmlight", ".svm", ".libsvm"), self._svmlight),
        }
        reader = readers.get(Path(name).suffix)
        if reader is None or (name != path.name and reader != self._svmlight):
            raise ValueError(f"source: {path} is not one of the known kinds of file; {_ADVICE}.")
        return reader

    def take(self, name: str) -> Any:
        """Return one column of Parquet files, (n,), and remove it from the features.

        Raises
        ------
        ValueError
            If the files are of another kind, or there is no such column.
        """
        if not all(reader == self._parquet for reader in self._readers):
            raise ValueError(f"target: expected Parquet files, whose columns have names, for {name!r}; {_RESPONSE}.")
        values = []
        for path in self._paths:
            with _naming(path), _parquet_file(path) as file:
                names = list(file.schema_arrow.names)
                if name not in names:
                    raise _Complete(f"target: {path} has no column {name!r}, only {names}.")
                values.append(file.read(columns=[name]).column(name).to_pandas().to_numpy())
        self.columns = [column for column in self.columns or names if column != name]
        return np.concatenate(values)

    def pieces(self) -> Iterator[tuple[str, Load]]:
        """The blocks from the start, each as a name for messages and a function by which any thread can read it."""
        for path, reader, stamp in zip(self._paths, self._readers, self._stamps, strict=True):
            with _naming(path):
                _unchanged(path, stamp)
                for number, load in enumerate(reader(path)):
                    yield f"block {number} of {path}", partial(_loaded, path, stamp, load)

    def _npy(self, path: Path) -> Iterator[Load]:
        with path.open("rb") as file:
            shape, by_columns, dtype = header(file)
            if len(shape) != 2:
                raise ValueError(f"expected a matrix of numbers, got shape {shape} of {dtype}")
            begin, (n, p) = file.tell(), shape
            room(n * p * dtype.itemsize, path.stat().st_size - begin)
        limit = max(1, BLOCK // max(p, 1))
        rows = self._rows or max(limit - limit % LIMITS.even, min(limit, LIMITS.even))
        for first in range(0, n, rows):
            yield partial(_some_rows, path, begin, dtype, (n, p), by_columns, first, min(rows, n - first))

    def _npz(self, path: Path) -> Iterator[Load]:
        yield partial(_archive, path)

    def _parquet(self, path: Path) -> Iterator[Load]:
        import pyarrow as pa

        with _parquet_file(path) as file:
            names = self.columns if self.columns is not None else _columns(file)
            missing = [name for name in names if name not in file.schema_arrow.names]
            if missing:
                raise _Complete(f"columns: {path} has no columns {missing}, only {file.schema_arrow.names}.")
            if not names:
                raise _Complete(
                    f"columns: expected features beside the target, got none of the columns {file.schema_arrow.names} "
                    f"of {path}; name at least one."
                )
            kinds = {name: file.schema_arrow.field(name).type for name in names}
            other = {
                name: str(kind)
                for name, kind in kinds.items()
                if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))
            }
            if other:
                raise _Complete(
                    f"source: {path}: expected numbers, got columns {other}; name the features in `columns`."
                )
            rows = self._rows or max(1, BLOCK // max(len(names), 1))
            for batch in file.iter_batches(batch_size=rows, columns=names):
                # A missing number becomes NaN, which the check of the block rejects.
                values = [batch.column(name).to_numpy(zero_copy_only=False).astype(float) for name in names]
                yield _there(np.column_stack(values))

    def _svmlight(self, path: Path) -> Iterator[Load]:
        assert self.indices is not None
        width, zero_based = self.indices.width, self.indices.zero_based
        return map(_there, read_rows(path, self._rows or LIMITS.lines, width, zero_based))


def _there(block: Any) -> Load:
    """Reader of a block that is in memory."""
    return lambda: block


def _loaded(path: Path, stamp: tuple[int, int], load: Load) -> Any:
    """Read a block, and raise an error if the file has changed."""
    with _naming(path):
        try:
            return load()
        finally:  # a change explains why a block cannot be read
            _unchanged(path, stamp)


def _archive(path: Path) -> Any:
    """Matrix of a file written by :func:`scipy.sparse.save_npz`."""
    # Open the file here, because NumPy leaves a file open if it is not an archive.
    with path.open("rb") as file:
        check_archive(file)
        file.seek(0)
        return load_npz(file)


def _some_rows(
    path: Path, begin: int, dtype: Any, shape: tuple[int, int], by_columns: bool, first: int, count: int
) -> Any:
    """Rows ``first`` to ``first + count`` of a matrix that starts at byte ``begin`` of a file."""
    n, p = shape
    if not by_columns:
        return _numbers(path, dtype, count * p, begin + first * p * dtype.itemsize).reshape(count, p)
    columns = [_numbers(path, dtype, count, begin + (d * n + first) * dtype.itemsize) for d in range(p)]
    return np.stack(columns).T


def _numbers(path: Path, dtype: Any, count: int, offset: int) -> Any:
    """Read ``count`` numbers at an offset of a file."""
    values = np.fromfile(path, dtype, count, offset=offset)
    if len(values) < count:
        raise ValueError(f"the file ends early, {count - len(values)} numbers are missing")
    return values


class _naming:
    """Name the file in errors of reading, except in errors that already name it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        kinds = ValueError | OSError | EOFError | KeyError | zipfile.BadZipFile | zlib.error
        if isinstance(error, kinds) and not isinstance(error, FileNotFoundError | _Complete | LineError):
            raise ValueError(
                f"source: {self._path} cannot be read, it may be truncated or of another kind: {error}. Write the file "
                "anew and fit again."
            ) from error


class _Complete(ValueError):
    """Error of a file that can be read, whose message is complete."""


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _unchanged(path: Path, stamp: tuple[int, int]) -> None:
    """Raise an error if the file has been written to since it was first seen."""
    if _stamp(path) != stamp:
        raise _Complete(
            f"source: {path} has changed since bd.Blocks first read it, so that one fit would mix two versions of the "
            "data; wait until it is written, make bd.Blocks again and fit again."
        )


def _parquet_file(path: Path) -> Any:
    return extra("pyarrow.parquet", "source: Parquet files need", "parquet").ParquetFile(path)


def _columns(file: Any) -> list[str]:
    """Columns of a Parquet file, without the index that pandas wrote."""
    index = stored_index(file.schema_arrow)
    return [name for name in file.schema_arrow.names if name not in index]


def header(file: Any) -> tuple[tuple[int, ...], bool, Any]:
    """Shape, order (by columns or not) and dtype of the NumPy array at the file's position."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"expected numbers, got shape {shape} of {dtype}")
    return shape, by_columns, dtype


def room(needed: int, size: int) -> None:
    """Raise ValueError if a file has fewer bytes than its header declares, before memory is allocated."""
    if needed > size:
        raise ValueError(f"the file ends early: its header declares {needed:,} bytes of numbers and {size:,} are there")


def check_archive(file: Any) -> None:
    """Raise ValueError if an archive declares more numbers, rows or columns than its bytes can hold."""
    with zipfile.ZipFile(file) as archive:
        parts = {part.filename: part for part in archive.infolist()}
        for name, part in parts.items():
            if part.file_size > MOST_COMPRESSED * max(part.compress_size, 1):
                raise ValueError(f"{name} claims {part.file_size:,} bytes and has {part.compress_size:,} packed")
            with archive.open(part) as inner:
                shape, _, dtype = header(inner)
                room(int(np.prod(shape, dtype=object)) * dtype.itemsize, part.file_size)
        if "shape.npy" in parts:
            with archive.open("shape.npy") as inner:
                sizes = np.lib.format.read_array(inner, allow_pickle=False)
            size_of_parts = sum(part.file_size for part in parts.values())
            # Compressed rows store a pointer per row, but compressed columns and coordinates do not.
            for size in np.ravel(sizes).tolist():
                check_width(size, size_of_parts)
