"""Features in files, possibly larger than memory, for the command line: blocks, labels and names.

The cap covers the blocks at work and the vectors over the rows, which are held. What one block may take follows from
what those leave.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .._memory import check_memory
from .._typing import Float, Shaped
from ..designs import Blocks
from ..designs.blocks.sources import Files, check_room
from ..designs.blocks.svmlight import LineError, read_labels
from .column_facts import ColumnFacts
from .encoding import Encoding
from .responses import check_target
from .table_files import InputError

__all__ = ["Large", "parse_memory", "read_large", "read_new", "takes_blocks"]

_TEXT = (".svmlight", ".svm", ".libsvm")
_KINDS = (".npy", ".npz", *_TEXT)
# Copies of a block at work: as read, in double precision, standardised, squared; and the next one.
_COPIES = 8
# Vectors over the rows that a fit holds: scores, derivatives of the loss, curvatures, labels, weights.
_VECTORS = 30
# Python and the libraries.
_BASE = 300 * 2**20
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Large:
    """A two-class problem whose features are read when needed.

    Attributes
    ----------
    X : Blocks (n, p)
        Features.
    y : array (n,)
        Labels.
    feature_names : list of p str
        Names of the columns.
    centre, scale : array (p,)
        What was subtracted from and divided out of each feature.
    notes : list of str
        What a reader should know.
    """

    X: Blocks
    y: Shaped[np.ndarray, " n"]
    feature_names: list[str]
    centre: Float[np.ndarray, " p"]
    scale: Float[np.ndarray, " p"]
    notes: list[str] = field(default_factory=list)
    constant: list[str] = field(default_factory=list)
    target: str = ""
    classes: ClassVar[int] = 2
    in_blocks: ClassVar[bool] = True
    missing: ClassVar[None] = None
    column_types: ClassVar[tuple[()]] = ()

    @property
    def encoding(self) -> Encoding:
        """How the rows of a table become the same features."""
        p = len(self.feature_names)
        return Encoding(self.feature_names, [""] * p, np.zeros(p, dtype=bool), self.centre, self.scale, self.target)

    @property
    def groups(self) -> list[str]:
        """Every column is a group of its own."""
        return self.feature_names

    @property
    def kinds(self) -> str:
        """Words for where the features are."""
        return "read in blocks"


def parse_memory(text: str) -> int:
    """Bytes of a size such as ``4GB``; units are powers of 1024.

    Examples
    --------
    >>> parse_memory("1.5 GB")
    1610612736
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise InputError(f"--memory: expected a size such as 4GB or 500MB, got {text!r}.")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def takes_blocks(path: Path) -> bool:
    """True for files that hold features alone, or a folder of such files.

    Examples
    --------
    >>> takes_blocks(Path("a.npy")), takes_blocks(Path("a.csv"))
    (True, False)
    """
    return path.is_dir() or _kind(path) in _KINDS


def _kind(path: Path) -> str:
    name = path.name.lower()
    return Path(name.removesuffix(".gz") if name.endswith(tuple(f"{kind}.gz" for kind in _TEXT)) else name).suffix


def read_large(
    path: Path,
    target: str | None,
    labels: Path | None,
    drop: Sequence[str],
    memory: int | None,
    *,
    standardize: bool,
    progress: bool = False,
) -> Large:
    """Open a file, or all files of a folder in the order of their names, and read their labels.

    Labels are those of an svmlight file, the column ``target`` of a Parquet file, or in a ``.npy`` file of their own.

    Raises
    ------
    InputError
        If the files do not fit together, the labels do not have two classes, or the cap leaves no room for a block.
    """
    paths, kind = _of_one_kind(path)
    if kind not in (*_KINDS, ".parquet"):
        raise InputError(
            f"--memory: {path.name} cannot be read in blocks; expected .parquet, .npy, .npz or .svmlight, or a folder "
            "of one of them."
        )
    columns: list[str] | None = None
    if kind == ".parquet":
        if target is None:
            raise InputError("--target: expected the column with the two classes; a Parquet file needs it.")
        if labels is not None:
            raise InputError("--labels: a Parquet file has its labels in the column --target; leave the option out.")
        y, columns = _parquet(paths, target, drop)
    elif drop or target is not None:
        raise InputError(f"--target, --drop: {kind} files have no named columns; give the labels as --labels FILE.npy.")
    elif kind in _TEXT:
        if labels is not None:
            raise InputError(f"--labels: {path.name} holds its own labels; leave the option out.")
        y = _svmlight_labels(paths)
    else:
        y = _npy_labels(labels)
    y = check_target(y, "--target" if kind == ".parquet" else "--labels")
    rows, threads = (None, None) if memory is None else _rows(memory, kind, paths, len(y), columns)
    try:
        blocks = Blocks([str(part) for part in paths], rows=rows, columns=columns, threads=threads, progress=progress)
    except (ValueError, ImportError) as error:
        raise InputError(f"TABLE: {str(error).removeprefix('source: ')}") from None
    n, p = blocks.shape
    if n != len(y):
        raise InputError(f"--labels: expected {n} labels, one per row of {path.name}, got {len(y)}.")
    names = columns or [f"x{d}" for d in range(p)]
    centre, scale, notes = np.zeros(p), np.ones(p), []
    if standardize and kind in (".npy", ".parquet"):
        centre, scale = _moments(paths, rows, columns, n)
        made = partial(_standardised, paths, rows, columns, centre, scale)
        blocks = Blocks(made, columns=columns, threads=threads, progress=progress)
    elif standardize:
        notes.append("sparse features enter as they are, not standardised.")
    return Large(blocks, y, names, centre, scale, notes, target=target or "")


def read_new(path: Path, encoding: Encoding, facts: ColumnFacts) -> tuple[Blocks, Shaped[np.ndarray, " n"] | None]:
    """Open files of features as new rows of a model: read as those of the fit were, a block at a time.

    Parameters
    ----------
    path : Path
        A file, or a folder of files of one kind.
    encoding : Encoding
        What the model says of its features.
    facts : ColumnFacts
        Where the indices of its svmlight files began.

    Returns
    -------
    X : Blocks (n, p)
        Features.
    y : array (n,) or None
        Labels of an svmlight file, or the column of the response in Parquet files that have it.

    Raises
    ------
    InputError
        If they are no files of features, or not of those of the model.
    """
    paths, kind = _of_one_kind(path)
    p, columns, labels = len(encoding.columns), None, None
    if encoding.is_level.any() or (encoding.target and kind != ".parquet"):
        raise InputError(
            f"TABLE: the model was fitted to the columns of a table, and {path.name} has none of their names; give a "
            ".csv, .tsv or .parquet file."
        )
    options: dict[str, Any] = {}
    try:
        if kind == ".parquet":
            columns = encoding.columns
            _, others = _parquet(paths, columns[0], ())
            labels = _parquet(paths, encoding.target, ())[0] if encoding.target in others else None
        elif kind in _TEXT:
            options, labels = {"n_features": p, "zero_based": facts.zero_based}, _svmlight_labels(paths)
        blocks = Blocks([str(part) for part in paths], columns=columns, **options)
    except (ValueError, ImportError) as error:
        raise InputError(f"TABLE: {str(error).removeprefix('source: ').removeprefix('TABLE: ')}") from None
    if blocks.shape[1] != p:
        raise InputError(f"TABLE: {path.name} has {blocks.shape[1]} columns, and the model was fitted to {p}.")
    if np.any(encoding.centre) or np.any(encoding.scale != 1):
        blocks = Blocks(partial(_standardised, paths, None, columns, encoding.centre, encoding.scale), columns=columns)
    return blocks, labels


def _of_one_kind(path: Path) -> tuple[list[Path], str]:
    """A file, or all files of a folder in the order of their names, and what kind they are of."""
    paths = _paths(path)
    kinds = {_kind(part) for part in paths}
    if len(kinds) > 1:
        raise InputError(f"TABLE: {path} holds files of several kinds, {sorted(kinds)}; keep one kind in a folder.")
    return paths, kinds.pop()


def _paths(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"TABLE: {path} does not exist; check the path (the current folder is {Path.cwd()}).")
    if not path.is_dir():
        return [path]
    paths = sorted(part for part in path.iterdir() if part.is_file() and not part.name.startswith("."))
    if not paths:
        raise InputError(f"TABLE: the folder {path} is empty; expected files of features.")
    return paths


def _parquet(paths: list[Path], target: str, drop: Sequence[str]) -> tuple[Shaped[np.ndarray, " n"], list[str]]:
    """Labels, and the columns that are features."""
    from pyarrow import ArrowException, parquet

    from .table_files import known_column

    try:
        names = parquet.read_schema(paths[0]).names
        known_column(target, names, "--target")
        for name in drop:
            known_column(name, names, "--drop")
        rows = sum(parquet.read_metadata(part).num_rows for part in paths)
        check_memory("TABLE: its labels take", 8 * _VECTORS * rows, "give fewer rows")
        y = [parquet.read_table(part, columns=[target])[target].to_numpy() for part in paths]
    except InputError:
        raise
    except (ArrowException, OSError, KeyError) as error:
        raise InputError(f"TABLE: {paths[0].parent} cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    columns = [name for name in names if name != target and name not in drop]
    if not columns:
        raise InputError(f"TABLE: no column is left besides the target {target!r}; expected at least one feature.")
    return np.concatenate(y), columns


def _svmlight_labels(paths: list[Path]) -> Float[np.ndarray, " n"]:
    found = []
    for path in paths:
        try:
            found.append(read_labels(path))
        except (ValueError, OSError, EOFError, zlib.error) as error:
            cut = f"{path.name} cannot be read, it may be truncated: {error}."
            message = str(error) if isinstance(error, LineError) else cut
            raise InputError(f"TABLE: {message.removeprefix('source: ')}") from None
    return np.concatenate(found)


def _npy_labels(path: Path | None) -> Shaped[np.ndarray, " n"]:
    if path is None:
        raise InputError("--labels: .npy and .npz files hold features alone; name a .npy file with one label per row.")
    try:
        check_room(path)
        y = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"--labels: {path} cannot be read as .npy: {error}.") from None
    if getattr(y, "ndim", 0) != 1:
        raise InputError(f"--labels: expected one label per row, got an array of shape {getattr(y, 'shape', None)}.")
    return y


def _rows(memory: int, kind: str, paths: list[Path], n: int, columns: list[str] | None) -> tuple[int | None, int]:
    """Rows of a block that the cap leaves room for, and how many threads may work on such blocks."""
    left = memory - _BASE - 8 * _VECTORS * n
    if kind == ".npz":
        largest = max(part.stat().st_size for part in paths)
        _enough(left, _COPIES // 2 * largest, memory, n, "; write smaller .npz files, each of them is one block")
        return None, max(1, left // (_COPIES // 2 * largest))
    if kind in _TEXT:
        # A line takes less than twice its text once it is read.
        largest = max(part.stat().st_size * (5 if part.suffix == ".gz" else 1) for part in paths)
        row = 2 * _COPIES * max(1, largest * len(paths) // n)
    else:
        row = 8 * _COPIES * (len(columns) if columns is not None else _npy_columns(paths[0]))
    _enough(left, row, memory, n, "")
    rows = max(1, min(left // row, 1 + (1 << 20) // max(1, row // (8 * _COPIES))))
    return rows, max(1, left // (row * rows))


def _enough(left: int, needed: int, memory: int, n: int, advice: str) -> None:
    if left < needed:
        wanted = (memory - left + needed) / 2**20
        raise InputError(
            f"--memory: {memory / 2**20:,.0f} MB leave no room for one block in addition to what a fit of {n:,} rows "
            "holds; "
            f"give at least {wanted:,.0f} MB{advice}."
        )


def _npy_columns(path: Path) -> int:
    try:
        check_room(path)
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"TABLE: {path} cannot be read as .npy: {error}.") from None
    return int(array.shape[1]) if array.ndim == 2 else 1


def _batches(paths: list[Path], rows: int | None, columns: list[str] | None) -> Iterator[Float[np.ndarray, "rows p"]]:
    for _, block in Files(paths, rows, columns).read():
        yield np.asarray(block, dtype=np.float64)


def _moments(
    paths: list[Path], rows: int | None, columns: list[str] | None, n: int
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """Means and standard deviations of the columns in two passes, which loses no digits; 1 where all is the same."""
    mean: Float[np.ndarray, " p"] = sum(block.sum(axis=0) for block in _batches(paths, rows, columns)) / n
    var: Float[np.ndarray, " p"] = (
        sum(((block - mean) ** 2).sum(axis=0) for block in _batches(paths, rows, columns)) / n
    )
    deviation = np.sqrt(var)
    return mean, np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0)


def _standardised(
    paths: list[Path],
    rows: int | None,
    columns: list[str] | None,
    centre: Float[np.ndarray, " p"],
    scale: Float[np.ndarray, " p"],
) -> Iterator[Float[np.ndarray, "rows p"]]:
    return ((block - centre) / scale for block in _batches(paths, rows, columns))
