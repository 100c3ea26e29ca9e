"""Read svmlight files, lines of ``label index:value …``, and name the line of an error.

A file does not state the number of features, because zeros are omitted, nor whether the first index is 0 or 1. Both are
inferred from the files of a fit unless the user gives them, and new rows are read like the rows of the fit.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..._validation import shown
from ..threads import LIMITS

__all__ = ["Indices", "LineError", "check_width", "indices_of", "read_rows", "zero_or_one"]


def check_width(columns: int, size: int) -> None:
    """Raise ValueError for more columns (or rows) than plausible in a file of ``size`` bytes."""
    if columns > max(LIMITS.columns, size):
        raise ValueError(
            f"it declares {columns:,} rows or columns, and holds {size:,} bytes: an index is wrong, or hash the "
            f"features to at most {LIMITS.columns:,}"
        )


class LineError(ValueError):
    """Error in a line of a file; its message names the line and is complete."""


@dataclass(frozen=True)
class Indices:
    """First index and number of features of some files.

    Attributes
    ----------
    ends : tuple of (int, str)
        Smallest and largest index, and their lines; empty if all features are zero in all rows.
    zero_based : bool
        Whether the first feature has the index 0.
    explicit : bool
        False if ``zero_based`` was inferred.
    width : int
        Number of features.
    """

    ends: tuple[tuple[int, str], ...]
    zero_based: bool
    explicit: bool
    width: int

    def check(self, zero_based: bool, width: int) -> None:
        """Raise ValueError that names the line unless all indices belong to ``width`` features.

        Examples
        --------
        >>> Indices(((1, "a.svm, line 1"), (7, "a.svm, line 3")), False, False, 7).check(False, 5)
        Traceback (most recent call last):
        ValueError: a.svm, line 3: expected indices from 1 to 5, got 7; the file has other features, or give n_features
        and zero_based, as in bd.Blocks(path, n_features=7, zero_based=False), for the rows of the fit and for new
        rows.
        """
        first, last = (0, width - 1) if zero_based else (1, width)
        for index, line in self.ends:
            if not first <= index <= last:
                raise ValueError(
                    f"{line}: expected indices from {first} to {last}, got {index}; the file has other features, or "
                    f"give n_features and zero_based, as in bd.Blocks(path, n_features={max(width, self.width)}, "
                    f"zero_based={index == 0 or zero_based}), for the rows of the fit and for new rows."
                )


def zero_or_one(zero_based: bool) -> str:
    """Description of the first index in messages."""
    return "indices from 0" if zero_based else "indices from 1"


def indices_of(paths: Sequence[Path], n_features: int | None, zero_based: bool | None) -> Indices:
    """Range of the indices of files, from the first and the last entry of every line.

    Raises
    ------
    ValueError
        If an index is not a number or out of the given range, or implies too many columns for the size of the files.
    """
    ends: tuple[tuple[int, str], ...] = ()
    for path in paths:
        for number, line in _lines(path):
            entries = _entries(line)
            if not entries:
                continue
            ends_of_line = [entries[place].split(b":")[0] for place in (0, -1)]
            if not all(index.isdigit() for index in ends_of_line):
                raise _fault([line], number, path) or LineError(f"source: {path}, line {number}: no index.")
            candidates = (*ends, *((int(index), f"{path}, line {number}") for index in ends_of_line))
            ends = (min(candidates, key=lambda one: one[0]), max(candidates, key=lambda one: one[0]))
    smallest, largest = (ends[0][0], ends[1][0]) if ends else (1, 0)
    first_is_zero = smallest == 0 if zero_based is None else zero_based
    width = max(largest + first_is_zero, 1) if n_features is None else n_features
    if n_features is None:
        check_width(width, sum(path.stat().st_size for path in paths))
    indices = Indices(ends, first_is_zero, zero_based is not None, width)
    try:
        indices.check(first_is_zero, width)
    except ValueError as error:
        raise LineError(f"source: {error}") from None
    return indices


def read_rows(path: Path, rows: int, width: int, zero_based: bool) -> Iterator[Any]:
    """Read a file as compressed rows (rows, width), ``rows`` at a time; raise ValueError that names a bad line."""
    from io import BytesIO

    from sklearn.datasets import load_svmlight_file

    for start, lines in _gathered(path, rows):
        try:
            block, _ = load_svmlight_file(BytesIO(b"".join(lines)), n_features=width, zero_based=zero_based)
        except ValueError as error:
            raise _fault(lines, start, path) or error from None
        if not np.isfinite(block.data).all():
            raise _fault(lines, start, path) or ValueError("an entry is not finite")
        yield block


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers; raise ValueError on a line that is too long, as compressed files may hide."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, LIMITS.text), b""), 1):
            if len(line) == LIMITS.text:
                raise LineError(f"source: {path}, line {number}: it is longer than {LIMITS.text:,} bytes, so no row.")
            yield number, line


def _gathered(path: Path, rows: int) -> Iterator[tuple[int, list[bytes]]]:
    """Number of the first of up to ``rows`` lines, and the lines; fewer if they are long."""
    gathered, size = list[bytes](), 0
    for number, line in _lines(path):
        gathered.append(line)
        size += len(line)
        if len(gathered) == rows or size > LIMITS.text:
            yield number + 1 - len(gathered), gathered
            gathered, size = [], 0
    if gathered:
        yield number + 1 - len(gathered), gathered


def _entries(line: bytes) -> list[bytes]:
    """Words of a line after its label, without query identifiers."""
    return [word for word in line.split(b"#", 1)[0].split()[1:] if not word.startswith(b"qid:")]


def _fault(lines: Sequence[bytes], start: int, path: Path) -> LineError | None:
    """Error of the first bad line, or None; ``start`` is the number of the first line."""
    for number, line in enumerate(lines, start):
        words, before, where = line.split(b"#", 1)[0].split(), -1, f"source: {path}, line {number}"
        if words and not _is_number(words[0]):
            return LineError(f"{where}: expected a number for the label, got {_word(words[0])}.")
        for place, word in enumerate(_entries(line), 1):
            index, _, value = word.partition(b":")
            if not index.isdigit() or not _is_number(value):
                return LineError(f"{where}, entry {place}: expected index:value, finite numbers, got {_word(word)}.")
            if int(index) <= before:
                return LineError(
                    f"{where}, entry {place}: expected ascending indices, got {int(index)} after {before}."
                )
            before = int(index)
    return None


def _is_number(word: bytes) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _word(word: bytes) -> str:
    return shown(word.decode("utf-8", "replace"))
