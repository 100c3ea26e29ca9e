"""Parse numbers as written in tables: decimal commas, thousands, currencies, percent signs and units."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._typing import Float

__all__ = ["ERRORS", "Numerals", "Writing", "counted", "is_missing_mark", "is_number", "writing"]

# What stands for a missing value among numbers; spreadsheets write the errors also among texts.
ERRORS = frozenset(
    {"#n/a", "#n/a n/a", "#na", "#nv", "#div/0!", "#value!", "#wert!", "#ref!", "#name?", "#num!", "#null!"}
)
MISSING = ERRORS | frozenset(
    {"na", "n/a", "n.a.", "<na>", "nan", "-nan", "nat", "null", "(null)", "none", "nil", "missing", "unknown"}
    | {"-", "--", "---", "\u2013", "\u2014", "?", ".", "..", "...", "\u2026", "*", "/", "n/d", "n.d.", "k.a.", "k. a."}
)  # fmt: skip

_SPACE = " \u00a0\u2009\u202f"
_CURRENCY = (
    "(?:[A-Z]{0,3}[$\u00a2-\u00a5\u0e3f\u20a0-\u20cf]|Rs\\.?|Fr\\.?|kr\\.?|z\u0142|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD"
    "|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|TRY|USD|ZAR)"
)
_CELL = re.compile(
    rf"(?P<open>\()?(?P<sign>[-+\u2212])?[{_SPACE}]*(?P<before>{_CURRENCY})?[{_SPACE}]*(?P<minus>[-\u2212])?"
    rf"(?P<digits>[.,]?\d(?:[\d.,'\u2019{_SPACE}]*[\d.,])?)(?P<power>[eE][-+]?\d{{1,4}})?"
    rf"[{_SPACE}]*(?P<unit>[^\W\d_](?:[^\d:;,]{{0,15}}[^\d\s:;,])?[23\u00b2\u00b3]?|[%\u2030\u00b0$\u00a2-\u00a5\u20a0-\u20cf][^\W\d_]?)?(?P<close>\))?"
)  # fmt: skip
_PLAIN = re.compile(r"[-+]?(?:0|[1-9]\d{0,14})(?:\.\d*)?(?:[eE][-+]?\d{1,4})?|[-+]?\.\d+")
_CODE_LINE = re.compile(r"^(?:0\d+|\d{16,})$", re.MULTILINE)
_EITHER_LINE = re.compile(r"^[-+]?[1-9]\d{0,2}\.\d{3}$", re.MULTILINE)
_DECIMALS = re.compile(r"^[-+]?(?:0?\.\d|\d+\.(?!\d{3}$)\d*$|\d{4,}\.)", re.MULTILINE)
_INFINITE = re.compile(r"[-+]?inf(?:inity)?", re.IGNORECASE)
_CODE = re.compile(r"0\d+|\d{16,}")


def _body(decimal: str, other: str) -> re.Pattern[str]:
    group = rf"[{re.escape(other)}'\u2019{_SPACE}]"
    grouped = rf"[1-9]\d{{0,2}}(?:(?P<mark>{group})\d{{2,3}}(?:(?P=mark)\d{{2,3}})*(?<={group}\d{{3}}))"
    return re.compile(
        rf"[-+]?(?:(?:{grouped}|\d+)(?:{re.escape(decimal)}\d*)?|{re.escape(decimal)}\d+)(?:[eE][-+]?\d+)?"
    )


_BODY = {".": _body(".", ","), ",": _body(",", ".")}


def is_missing_mark(text: str) -> bool:
    """True of what stands for a missing value among numbers."""
    return text.lower() in MISSING


def is_number(text: str) -> bool:
    """True of a number, with whatever marks and unit.

    Examples
    --------
    >>> [is_number(text) for text in ("1.234,5", "3 kg", "€ 3", "7 %", "18-25", "Q1")]
    [True, True, True, True, False, False]
    """
    return _split(text) is not None


def _split(text: str) -> tuple[str, str] | None:
    """A cell as a number without its unit, and the unit; None if it is not a number."""
    if _PLAIN.fullmatch(text) or _INFINITE.fullmatch(text):
        return text, ""
    found = _CELL.fullmatch(text)
    if found is None or bool(found["open"]) != bool(found["close"]) or (found["sign"] and found["minus"]):
        return None
    negative = bool(found["open"]) or (found["sign"] or found["minus"] or "+") != "+"
    body = f"{'-' if negative else ''}{found['digits']}{found['power'] or ''}"
    if not any(pattern.fullmatch(body) for pattern in _BODY.values()):
        return None
    return body, " ".join(part for part in (found["before"], found["unit"]) if part)


@dataclass(frozen=True)
class Numerals:
    """How the numbers of a column are written.

    Attributes
    ----------
    decimal : "." or ","
        Mark of the decimals; the other one, blanks and apostrophes may set thousands apart.
    unit : str
        What stands before or after every number, such as ``€``, ``%`` or ``kg``; empty for none.
    """

    decimal: str = "."
    unit: str = ""

    def number(self, text: str) -> float | None:
        """The number that a cell holds, None if it holds none that is written so.

        Examples
        --------
        >>> Numerals(",", "€").number("1.234,5 €"), Numerals(".", "").number("1.234,5 €")
        (1234.5, None)
        """
        cell = _split(text)
        if cell is None or cell[1] != self.unit:
            return None
        body = cell[0]
        if _INFINITE.fullmatch(body):
            return float(body)
        if not _BODY[self.decimal].fullmatch(body):
            return None
        digits = "".join(mark for mark in body if mark.isdigit() or mark in f"{self.decimal}-+eE")
        return float(digits.replace(",", "."))

    def numbers(self, cells: Sequence[str | None]) -> Float[np.ndarray, " n"]:
        """The numbers of cells, NaN where there is none that is written so.

        Examples
        --------
        >>> Numerals(",", "€").numbers(["1,5 €", None, "1,5"]).tolist()
        [1.5, nan, nan]
        """
        import pandas as pd

        if self == Numerals():
            found = pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce").to_numpy(dtype=float, copy=True)
        else:
            found = np.full(len(cells), np.nan)
        known: dict[str, float | None] = {}
        for i in map(int, np.flatnonzero(np.isnan(found))):
            cell = cells[i]
            if cell is not None:
                if cell not in known:
                    known[cell] = self.number(cell)
                found[i] = np.nan if known[cell] is None else known[cell]
        return found

    def __str__(self) -> str:
        comma = "decimal commas" if self.decimal == "," else ""
        return ", ".join(part for part in (comma, f"in {self.unit}" if self.unit else "") if part)


class Writing(NamedTuple):
    """What the cells of a column are, as far as they can be numbers.

    Attributes
    ----------
    share : float
        Part of the cells that are numbers in ``unit``.
    share_any : float
        Part of the cells that are numbers in whatever unit.
    unit : str
        The most frequent unit.
    marks : tuple of str
        Decimal marks by which all of them are numbers: both where it does not show, none where the cells contradict
        each other.
    same : bool
        Whether either mark gives the same numbers.
    code : str
        A cell that is a code rather than a number, with a leading zero or too many digits; empty for none.
    """

    share: float
    share_any: float
    unit: str
    marks: tuple[str, ...]
    same: bool
    code: str

    def mark(self, cells: Mapping[str, int]) -> str:
        """The decimal mark that most of the cells agree to, where they contradict each other."""
        written = {mark: Numerals(mark, self.unit) for mark in ".,"}
        return max(".,", key=lambda mark: sum(n for cell, n in cells.items() if written[mark].number(cell) is not None))


def counted(cells: Sequence[str]) -> Counter[str]:
    """Cells with their counts, without those that stand for missing values; of plain numbers one of each kind.

    Examples
    --------
    >>> counted(["1", "2", "2.5", "1.234", "1,5", "-"])
    Counter({'0': 2, '1,5': 1, '1.234': 1, '0.5': 1})
    """
    import pandas as pd

    values = pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce").to_numpy(dtype=float)
    others = [cells[int(i)] for i in np.flatnonzero(np.isnan(values))]
    found = Counter({"0": len(cells) - len(others)}) + Counter(text for text in others if not is_missing_mark(text))
    lines = "\n".join(cells)
    # One instead of all numbers that are such codes, may have a mark for thousands, or have decimals.
    if found["0"]:
        for kind, shown in ((_CODE_LINE, ""), (_EITHER_LINE, ""), (_DECIMALS, "0.5")):
            if one := kind.search(lines):
                found += Counter({shown or one[0]: 1})
                found["0"] -= 1
    return +found


def writing(cells: Mapping[str, int]) -> Writing:
    """Find how the numbers among cells are written.

    Parameters
    ----------
    cells : mapping from str to int
        How often each text occurs, none of them missing.

    Examples
    --------
    >>> writing({"1.234,5": 1, "7": 3}).marks, writing({"1.234": 1}).marks, writing({"01067": 2}).code
    ((',',), ('.', ','), '01067')
    """
    total = max(sum(cells.values()), 1)
    found = {text: _split(text) for text in cells}
    units: Counter[str] = Counter()
    for text, cell in found.items():
        if cell is not None:
            units[cell[1]] += cells[text]
    unit = units.most_common(1)[0][0] if units else ""
    bodies = [cell[0] for cell in found.values() if cell is not None and cell[1] == unit]
    marked = [body for body in bodies if "." in body or "," in body]
    marks = tuple(mark for mark in ".," if all(_BODY[mark].fullmatch(body) for body in marked))
    code = next((body for body in bodies if _CODE.fullmatch(body)), "") if not unit else ""
    return Writing(units[unit] / total, units.total() / total, unit, marks, not marked or len(marks) < 2, code)
