"""Read a table from a file: CSV with any usual separator and encoding, TSV or Parquet.

Cells of a text file remain texts, since their type follows from whole columns (:mod:`.columns`); the index of such
a frame holds the lines where the rows stand.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from .._memory import check_memory
from .frames import listed, no_column
from .numerals import Numerals, is_missing_mark, writing

__all__ = ["InputError", "TableFile", "known_column", "read_file"]

_READERS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"}
_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class InputError(ValueError):
    """What the user gave cannot be used; the message names it and says what to do."""


@dataclass(frozen=True)
class TableFile:
    """A table as it stands in a file.

    Attributes
    ----------
    frame : pandas.DataFrame (n, ·)
        Its columns; texts, indexed by their lines, if the file is one of text.
    separator : str
        What stands between the columns; empty for Parquet.
    notes : list of str
        What a reader should know.
    """

    frame: Any
    separator: str = ""
    notes: list[str] = field(default_factory=list)


def read_file(path: Path, header: str = "auto", names: Iterable[str] = ()) -> TableFile:
    r"""Read a table from a file, or raise InputError.

    Parameters
    ----------
    path : Path
        A .csv or .tsv file, maybe with .gz, or a .parquet file.
    header : str
        ``"first"``: the first line holds the names of the columns; ``"none"``: it is a row, and the columns are called
        ``x0, x1, …``; ``"auto"``: as ``"first"``, but refused if it looks like a row.
    names : iterable of str
        Columns that are to be there: a first line with one of them is no row.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "export.csv"
    >>> _ = path.write_text("sep=;\nsize;color\n1,5;red\n2,5;blue\n")
    >>> read_file(path).frame["size"].to_dict()
    {3: '1,5', 4: '2,5'}
    """
    import pandas as pd

    name = path.name.lower()
    kind = _READERS.get(Path(name.removesuffix(".gz")).suffix if name.endswith(".gz") else Path(name).suffix)
    if path.is_dir():
        raise InputError(f"TABLE: {path} is a folder; give a .csv, .tsv or .parquet file.")
    if not path.exists():
        raise InputError(f"TABLE: {path} does not exist; check the path (the current folder is {Path.cwd()}).")
    if kind is None or (kind == "parquet" and name.endswith(".gz")):
        raise InputError(f"TABLE: unknown format of {path.name}; expected .csv, .tsv (also .gz) or .parquet.")
    try:
        if kind == "parquet":
            from pyarrow import parquet

            _no_duplicates(parquet.read_schema(path).names)
            metadata = parquet.read_metadata(path)
            check_memory(
                "its cells take", 8 * metadata.num_rows * metadata.num_columns, "read it in blocks, by --memory"
            )
            return TableFile(pd.read_parquet(path))
        return _read_text(path, "\t" if kind == "tsv" else "", header, set(names))
    except InputError:
        raise
    except (OSError, EOFError, ValueError, csv.Error) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"TABLE: {path.name} cannot be read as {kind}: {reason}") from None


def known_column(name: str, columns: Sequence[str], option: str) -> None:
    """Raise InputError unless there is a column of that name."""
    if name not in columns:
        raise InputError(f"{option}: {no_column(name, columns)}")


def _read_text(path: Path, separator: str, header: str, wanted: set[str]) -> TableFile:
    """A file of text as a table of texts."""
    import pandas as pd

    text, notes = _decoded(path)
    text, separator, first, comments = _without_preamble(text, separator)
    text = _without_unquoted_na(text, separator)
    records = ((first + line, fields) for line, fields in _records(text, separator) if fields)
    line, head = next(records, (0, []))
    if not head:
        raise InputError(f"TABLE: {path.name} is empty; expected a header line and rows.")
    lines, rows, parts, width, blank = list[int](), list[list[str]](), list[Any](), len(head), 0
    if header == "none":
        lines, rows = [line], [head]
    for line, fields in records:
        if not any(map(str.strip, fields)):
            blank += 1
        elif len(fields) == width or (len(fields) > width and not any(map(str.strip, fields[width:]))):
            lines.append(line)
            rows.append(fields[:width])
        elif fields[0].startswith("#"):
            comments += 1
        else:
            more = "more" if len(fields) > width else "less"
            raise InputError(
                f"TABLE: line {line} of {path.name} has {more} fields than its header, {len(fields)} instead of "
                f"{width}; name every column, and put cells that hold {separator!r} in quotes."
            )
        if len(rows) == 1 << 14:  # which pandas holds in less memory than lists do
            parts, rows = [*parts, pd.DataFrame(rows, dtype="str")], []
    frame = pd.concat([*parts, pd.DataFrame(rows, columns=range(width), dtype="str")], ignore_index=True)
    names = [f"x{j}" for j in range(width)]
    if header != "none":
        names = [name.strip() or f"Unnamed: {j}" for j, name in enumerate(head)]
        cell = "" if header == "first" else _cell_of_row(names, frame[:200].to_numpy().tolist(), wanted)
        if cell:
            raise InputError(
                f"TABLE: the first line of {path.name} looks like a row and not like names, as {cell!r} does; --header "
                "none makes it a row and calls the columns x0, x1, …; --header first takes it for names."
            )
        _no_duplicates(names)
    frame = frame.set_axis(names, axis=1).set_axis(pd.Index(lines, name="line"), axis=0)
    nameless = [name for name, cell in zip(names, head, strict=True) if not (cell or any(map(str.strip, frame[name])))]
    for count, what in ((comments, "beginning with # skipped"), (blank, "without any value skipped")):
        notes += [f"{count} line{'s' if count > 1 else ''} {what}."] if count else []
    return TableFile(frame.drop(columns=nameless), separator, notes)


def _decoded(path: Path) -> tuple[str, list[str]]:
    """The text of a file, and how it was read if that is no matter of course."""
    with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
        raw = file.read()
    encoding = next((name for mark, name in _ENCODINGS.items() if raw.startswith(mark)), "utf-8")
    zeros = [raw[start:1000:2].count(0) for start in (0, 1)]
    if encoding == "utf-8" and max(zeros) > 100 and not min(zeros):  # UTF-16 without a mark of it
        encoding = "utf-16-be" if zeros[0] else "utf-16-le"
    notes = []
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        try:
            text = raw.decode("cp1252" if encoding == "utf-8" else encoding)
        except UnicodeDecodeError:
            also = ", UTF-16 nor Windows-1252" if encoding == "utf-8" else f", nor the {encoding} that it begins with"
            raise InputError(f"TABLE: {path.name} is neither UTF-8{also}; save it as CSV in UTF-8.") from None
        word = re.search(r"\w*[^\W\x00-\x7f]\w*", text)
        seen = f" (so that it has the word {word[0]!r})" if word else ""
        notes.append(f"{path.name} is no UTF-8: read as Windows-1252{seen}.")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"TABLE: line {line} of {path.name} holds a NUL byte, so the file is damaged or no text; export it again."
        )
    return unicodedata.normalize("NFC", text), notes


def _records(text: str, separator: str, *, strict: bool = True) -> Iterator[tuple[int, list[str]]]:
    """Last line and fields of each record; raise InputError on quotes that do not close."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=strict)
    try:
        for fields in reader:
            yield reader.line_num, fields
    except csv.Error as error:
        raise csv.Error(f"line {reader.line_num}: {error}; look for a quote that is not closed") from None


def _without_preamble(text: str, separator: str) -> tuple[str, str, int, int]:
    """The text from its header on, the separator, and the numbers of lines and of comments before the header."""
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n|$)", text[: 1 << 20])
    start = next((k for k, line in enumerate(lines) if line.strip()), 0)
    if declared := re.fullmatch(r"sep=(.)", lines[start].rstrip("\r\n"), re.IGNORECASE):
        separator, start = declared[1], start + 1
    first, comments = start, 0
    while first < len(lines) and (lines[first].startswith("#") or not lines[first].strip()):
        comments += lines[first].startswith("#")
        first += 1
    rest = text[sum(map(len, lines[:first])) :]
    separator = separator or _separator(rest)
    last = lines[first - 1] if first > start else ""
    if re.match(r"#\w", last):  # names may begin so, where there are as many of them as columns
        found = [len(fields) for _, fields in islice(_records(last + rest, separator, strict=False), 2)]
        if len(found) == 2 and found[0] == found[1] > 1:
            return last[1:] + rest, separator, first - 1, comments - 1
    return rest, separator, first, comments


def _separator(text: str) -> str:
    """The one of comma, semicolon, tab and bar of which the first lines have equally many, and the header the most."""
    found = {}
    for mark in ",;\t|":
        counts = [len(fields) for _, fields in islice(_records(text[: 1 << 20], mark, strict=False), 20) if fields]
        header = counts[0] if counts else 1
        found[mark] = (header > 1 and set(counts[:-1]) <= {header}, header)
    return max(found, key=lambda mark: found[mark])


def _without_unquoted_na(text: str, separator: str) -> str:
    """The text without the NA of programs that quote every text, as R does: there "NA" is a text, and NA is none."""
    mark = re.escape(separator)
    if not re.match(rf'"[^"\r\n]*"(?:{mark}"[^"\r\n]*")*[\r\n]', text):
        return text
    parts = text.split('"')
    parts[::2] = [re.sub(rf"(^|{mark}|[\r\n])NA(?={mark}|[\r\n]|$)", r"\1", part) for part in parts[::2]]
    return '"'.join(parts)


def _cell_of_row(names: list[str], rows: list[list[str]], wanted: set[str]) -> str:
    """A cell by which the first line is a row rather than names; empty if it is none."""
    candidates = []
    for name, cells in zip(names, zip(*rows, strict=True), strict=False):
        values = [cell.strip() for cell in cells if cell.strip() and not is_missing_mark(cell.strip())]
        found = writing(Counter(values))
        numbers, repeated = found.share >= 0.9, len(set(values)) < len(values)
        if any(Numerals(mark, found.unit).number(name) is not None for mark in ".,") and (numbers or name in values):
            candidates.append(name)
        elif not is_missing_mark(name) and (numbers or name in wanted or (repeated and name not in values)):
            return ""
        elif name in values:
            candidates.append(name)
    whole = [int(name) if re.fullmatch(r"\d{1,9}", name) else -1 for name in candidates]
    steps = {after - before for before, after in zip(whole[:-1], whole[1:], strict=True)}
    # Columns may be called 0, 1, 2 or by years.
    counted = len(whole) > 1 and (steps == {1} or (min(steps) > 0 and 1800 <= min(whole) <= max(whole) <= 2100))
    return "" if counted or not candidates else candidates[0]


def _no_duplicates(columns: Sequence[Any]) -> None:
    repeated = sorted(str(name) for name, count in Counter(columns).items() if count > 1)
    if repeated:
        raise InputError(
            f"TABLE: the column name {listed(repeated, 8)} occurs more than once; rename the columns. (--header none "
            "if the first line of the file is a row.)"
        )
