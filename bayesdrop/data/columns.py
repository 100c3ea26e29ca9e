"""Types of the columns of a table, inferred from their values.

Nine cells in ten decide: a column of numbers is one, however they are written, and the cells that are none are named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._validation import LIMITS
from .frames import listed
from .numerals import ERRORS, Numerals, counted, is_missing_mark, is_number, writing
from .table_files import InputError

__all__ = [
    "KINDS",
    "Column",
    "Reading",
    "column_of",
    "decimal_mark",
    "describe",
    "known_labels",
    "place",
    "read_numbers",
    "read_texts",
    "refuse_cells",
]

# What a user may call a column; "date" and "empty" are found.
KINDS = ("number", "categories", "identifier")
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([T ]\d{1,2}:\d{2}.*)?"
    r"|\d{1,2}([-/.])\d{1,2}\3\d{2}(\d{2})?([T ,]+\d{1,2}:\d{2}.*)?"
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AaPp]\.?[Mm]\.?)?|\d{1,2}[-. ]+[^\W\d_]{3,9}[-., ]+\d{2,4}.*"
    r"|[^\W\d_]{3,9}[. ]+\d{1,2}(st|nd|rd|th)?,? +\d{4}.*"
)


@dataclass(frozen=True)
class Reading:
    """How the cells of a table are read, as the user says it.

    Attributes
    ----------
    types : mapping from str to str
        What a column is, one of :data:`KINDS`, where its values are not to decide.
    na : tuple of str
        Cells that stand for missing values, in any column.
    decimal : str
        Mark of the decimals, ``"."`` or ``","``; empty where the numbers show it.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    na: tuple[str, ...] = ()
    decimal: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table, read.

    Attributes
    ----------
    kind : str
        One of :data:`KINDS`, ``"date"`` or ``"empty"``.
    values : pandas.Series (n,)
        Numbers, texts or categories, NaN or None where there is none.
    numerals : Numerals
        How its numbers are written.
    why : str
        What a reader should know of how the kind was found; may be empty.
    marks : list of str
        Cells that were taken for missing values.
    """

    kind: str
    values: Any
    numerals: Numerals = Numerals()
    why: str = ""
    marks: list[str] = field(default_factory=list)


def place(index: Any, i: int) -> str:
    """Words for where a row stands: its line in a file, or else its number.

    Examples
    --------
    >>> import pandas as pd
    >>> place(pd.Index([2, 5], name="line"), 1), place(pd.RangeIndex(2), 1)
    ('line 5', 'row 2')
    """
    return f"line {index[i]}" if index.name == "line" else f"row {i + 1}"


def storage_of(column: Any) -> str:
    """One of number, truth, categories, text, date and empty, or what else pandas calls the values of a column."""
    from pandas.api import types

    if isinstance(column.dtype, types.CategoricalDtype):
        return "categories"
    if types.is_bool_dtype(column.dtype):
        return "truth"
    if types.is_numeric_dtype(column.dtype):
        return "number"
    kind = str(types.infer_dtype(column, skipna=True))
    named = {"string": "text", "boolean": "truth", "datetime64": "date", "datetime": "date", "time": "date"}
    numbers = ("integer", "floating", "mixed-integer-float", "decimal")
    return "number" if kind in numbers else named.get(kind, kind)


def text_of(value: Any) -> str:
    """A value as the text of a level: whole numbers without decimals, blanks around it left out."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return str(value).strip()


def read_texts(column: Any, na: Iterable[str] = ()) -> tuple[Any, list[str]]:
    """The texts of a column, None where there is none, and the cells that were taken for missing values.

    Parameters
    ----------
    column : pandas.Series (n,)
        Of whatever type.
    na : iterable of str
        Cells that stand for missing values, in addition to the errors of spreadsheets.
    """
    import pandas as pd

    if storage_of(column) == "text":
        texts = column.str.strip().fillna("").to_numpy(dtype=object).tolist()
    else:
        known = {value: "" if pd.isna(value) else text_of(value) for value in pd.unique(column)}
        texts = ["" if gone else known[value] for value, gone in zip(column, column.isna(), strict=True)]
    found, given = set(texts), set(na)
    marks = {text for text in found if text and (text in given or (text[0] == "#" and text.lower() in ERRORS))}
    if found - marks and all(text.lower() in ("true", "false", "") for text in found - marks):
        texts = [text if text in marks else text.capitalize() for text in texts]
    kept = [text if text and text not in marks else None for text in texts]
    return pd.Series(kept, index=column.index, dtype=object), sorted(marks)


def known_labels(texts: Any, classes: Iterable[Any] | None = None) -> Any:
    """Labels of a response, None where they say that it is not known; None and - may well be classes, NA is none.

    Examples
    --------
    >>> import pandas as pd
    >>> known_labels(pd.Series(["yes", "NA", "None"])).tolist()
    ['yes', None, 'None']
    """
    gone = {"na", "n/a", "<na>", "nan", "nat", "null", "(null)", "?"} - {
        str(label).lower() for label in (() if classes is None else classes)
    }
    return texts.astype(object).mask(texts.astype(str).str.lower().isin(gone), None)


def read_numbers(column: Any, numerals: Numerals, na: Iterable[str] = ()) -> tuple[Any, list[str], list[int]]:
    """The numbers of a column, NaN where there is none.

    Parameters
    ----------
    column : pandas.Series (n,)
        Numbers, or texts.
    numerals : Numerals
        How they are written.
    na : iterable of str
        Cells that stand for missing values, in addition to those that do so among numbers.

    Returns
    -------
    values : pandas.Series (n,)
        Whole numbers where all of them are written so.
    marks : list of str
        Cells that were taken for missing values.
    odd : list of int
        Positions of the cells that are neither.
    """
    import pandas as pd

    if storage_of(column) == "number":
        values = column if isinstance(column.dtype, np.dtype) and column.dtype != object else pd.to_numeric(column)
        gone = [float(mark) for mark in na if Numerals().number(mark) is not None]
        return (values.mask(values.isin(gone)) if gone and values.isin(gone).any() else values), [], []
    return _numbers(*read_texts(column, na), numerals, na)


def _numbers(texts: Any, marks: list[str], numerals: Numerals, na: Iterable[str]) -> tuple[Any, list[str], list[int]]:
    """The numbers of texts, what else was taken for missing values than ``marks``, and the positions of other cells."""
    import pandas as pd

    cells = texts.tolist()
    values = numerals.numbers(cells)
    none = [(int(i), cells[i]) for i in np.flatnonzero(np.isnan(values)) if cells[i] is not None]
    odd = [i for i, cell in none if not is_missing_mark(cell)]
    stand = {cell for _, cell in none if is_missing_mark(cell)}
    whole = not odd and all(cell is not None and cell.lstrip("+-").isdigit() for cell in cells)
    gone = [number for mark in na if (number := numerals.number(mark)) is not None]
    values = np.where(np.isin(values, gone), np.nan, values)
    whole = whole and bool(np.all(np.abs(values) < 2**53))
    return pd.Series(values.astype(np.int64) if whole else values, index=texts.index), [*marks, *sorted(stand)], odd


def decimal_mark(frame: Any, reading: Reading) -> str:
    """The mark of the decimals that the columns of text agree on; empty if none shows one, or two show different ones.

    Examples
    --------
    >>> import pandas as pd
    >>> decimal_mark(pd.DataFrame({"a": ["1.234", "5"], "b": ["0,5", "2,5"]}), Reading())
    ','
    """
    if reading.decimal:
        return reading.decimal
    found = set()
    for name in frame.columns:
        column = frame[name].iloc[:10_000]
        if storage_of(column) == "text" and reading.types.get(name, "number") == "number":
            seen = writing(counted(read_texts(column, reading.na)[0].dropna().tolist()))
            if seen.share >= LIMITS.number_share and len(seen.marks) == 1 and not seen.code:
                found |= set(seen.marks)
    return found.pop() if len(found) == 1 else ""


def column_of(column: Any, name: str, reading: Reading, mark: str = "", separator: str = "") -> Column:
    """Find what a column is, and read it.

    Parameters
    ----------
    column : pandas.Series (n,)
        The column.
    name : str
        Its name.
    reading : Reading
        What the user says.
    mark : str
        The mark of decimals of the table, as :func:`decimal_mark` finds it.
    separator : str
        Of the file, which says something about decimals; empty if unknown.

    Raises
    ------
    InputError
        If nine tenths of the cells are numbers and the others are none, with their places; if it cannot be told
        whether a mark sets decimals or thousands apart; or if the values are of another kind.

    Examples
    --------
    >>> import pandas as pd
    >>> column_of(pd.Series(["1.234,5", "-", "7"]), "price", Reading()).values.tolist()
    [1234.5, nan, 7.0]
    >>> column_of(pd.Series(["01067", "80331"]), "zip", Reading()).why
    "codes such as '01067'"
    """
    requested, storage = reading.types.get(name, ""), storage_of(column)
    if storage not in ("number", "truth", "categories", "text", "date", "empty"):
        raise InputError(
            f"TABLE: column {name!r} holds {storage} values, neither numbers nor text; turn it into numbers or text, "
            f"or leave it out with --drop."
        )
    if storage == "empty" or (storage == "number" and requested in ("", "number")):
        return Column("empty" if storage == "empty" else "number", read_numbers(column, Numerals(), reading.na)[0])
    if requested in ("categories", "identifier"):
        texts, marks = read_texts(column, reading.na)
        return Column(requested, texts, why="as --types says", marks=marks)
    if storage == "date" and not requested:
        return Column("date", column)
    if storage == "categories" and not requested:
        return _categories(column, reading)
    texts, marks = read_texts(column, reading.na)
    there = texts.dropna().tolist()
    cells = counted(there)
    seen = writing(cells)
    if requested == "number" or (seen.share >= LIMITS.number_share and not seen.code):
        numerals = Numerals(reading.decimal or _mark(texts, name, cells, mark, separator), seen.unit)
        values, marks, odd = _numbers(texts, marks, numerals, reading.na)
        if odd:
            how = f" ({numerals})" if str(numerals) else ""
            advice = (
                f"write them in one way, or --na {texts.iloc[odd[0]]!r} takes such a cell for missing, "
                f"--types {name}=categories takes every value for a level, --drop {name} leaves the column out"
            )
            raise refuse_cells(texts, name, odd, f"holds numbers{how}", advice)
        shown = numerals if not seen.same or len(seen.marks) == 1 else replace(numerals, decimal=".")
        return Column("number", values, numerals, str(shown), marks)
    different = len(set(there))
    if not there:
        return Column("empty", texts, marks=marks)
    if different > LIMITS.few_levels and not seen.code:
        if seen.share_any >= LIMITS.number_share:
            _, _, odd = _numbers(texts, marks, Numerals(seen.marks[0] if seen.marks else ".", seen.unit), reading.na)
            unit = f"in {seen.unit!r}" if seen.unit else "without a unit"
            advice = f"give one unit to all, or --types {name}=categories takes every value for a level"
            raise refuse_cells(texts, name, odd, f"holds numbers {unit}", advice)
        total = sum(cells.values())
        if sum(count for text, count in cells.items() if _DATE.fullmatch(text)) >= LIMITS.number_share * total:
            return Column("date", texts, marks=marks)
    why = f"codes such as {seen.code!r}" if seen.code and seen.share >= LIMITS.number_share else ""
    if 0.5 <= seen.share < LIMITS.number_share and different > LIMITS.few_levels:
        others = [text for text in cells if not is_number(text)]
        why = f"numbers but for {listed(others, 3)}; --na takes such a cell for missing"
    return Column("categories", texts, why=why, marks=marks)


def _categories(column: Any, reading: Reading) -> Column:
    """A column of categories, in their order."""
    import pandas as pd

    texts, marks = read_texts(column, reading.na)
    order = list(dict.fromkeys(text_of(level) for level in column.cat.categories))
    return Column("categories", pd.Series(pd.Categorical(texts, categories=order), index=column.index), marks=marks)


def _mark(texts: Any, name: str, cells: Mapping[str, int], mark: str, separator: str) -> str:
    """The mark of the decimals of a column; raise InputError if it could be either."""
    seen = writing(cells)
    if len(seen.marks) < 2:
        return seen.marks[0] if seen.marks else seen.mark(Counter(texts.dropna()))
    if seen.same or mark:
        return mark or "."
    marked = [text for text in cells if "." in text or "," in text]
    used = {mark for mark in ".," for text in marked if mark in text}
    # In files with commas between the columns a comma for decimals is not to be expected, and so on.
    if separator == ",":
        return "."
    if len(used) == 1 and used != ({"."} if separator == ";" else {","}):
        return used.pop()
    one = marked[0]
    where = place(texts.index, texts.tolist().index(one))
    either = [f"{Numerals(mark, seen.unit).number(one):g}" for mark in ".,"]
    raise InputError(
        f"TABLE: column {name!r}, {where}: {one!r} may be {either[0]} or {either[1]}; say which mark sets decimals "
        "apart by --decimal . or --decimal ,"
    )


def describe(column: Column, role: str = "") -> tuple[str, str]:
    """What a column was taken for, or is by its ``role``, and what a reader should know of that.

    Examples
    --------
    >>> import pandas as pd
    >>> describe(column_of(pd.Series(["3 kg", "?", "12.5 kg"]), "weight", Reading()))
    ('number', "3 to 12.5, in kg; 1 missing ('?')")
    """
    values, missing = column.values, int(column.values.isna().sum())
    names = {"identifier": "left out", "date": "left out"}
    if column.kind == "number":
        words = [f"{_short(values.min())} to {_short(values.max())}" + (f", {column.why}" if column.why else "")]
    elif column.kind == "categories":
        levels = values.dropna().unique()
        words = [f"{len(levels)} levels: {listed(sorted(map(str, levels)), 4)}", column.why]
    else:
        words = ["dates" if column.kind == "date" else "tells rows apart"]
    marks = f" ({listed(column.marks, 3)})" if column.marks else ""
    words += [f"{missing} missing{marks}"] if missing else []
    kind = f"target: {role}" if role else names.get(column.kind, column.kind)
    return kind, "; ".join(word for word in words if word)


def _short(value: Any) -> str:
    """A number in four digits, or all of those before the point."""
    found = float(value)
    if found.is_integer() and abs(found) < 1e15:
        return str(int(found))
    return f"{found:.0f}" if 1e4 <= abs(found) < 1e15 else f"{found:.4g}"


def refuse_cells(column: Any, name: str, odd: list[int], wanted: str, advice: str) -> InputError:
    """The error that cells of a column are not what they should be, with the places of the first."""
    first = [f"{place(column.index, i)} {text_of(column.iloc[i])!r}" for i in odd[:3]]
    more = f" and {len(odd) - 3} more" if len(odd) > 3 else ""
    return InputError(
        f"TABLE: column {name!r} {wanted}, but not in {len(odd)} of {len(column)} cells: {', '.join(first)}{more}; "
        f"{advice}."
    )
