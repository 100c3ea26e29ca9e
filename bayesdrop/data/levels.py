"""Decide whether two values of any types are the same level of a factor, for fixed and random factors.

- Numbers are equal as numbers, and True and False are 1 and 0: ``2``, ``2.0`` and ``numpy.int64(2)`` are one level.
  Integers are compared exactly, also those beyond the doubles.
- Texts are equal up to blanks around them; ``"1.0"`` and ``"1"`` are two levels, such as versions.
- A number equals a text that reads as exactly that number, without leading zeros: ``2000`` is ``"2000"`` and
  ``"2e3"``, but ``1067`` is not the code ``"01067"``. True and False also equal the texts of these words. If several
  texts read as one number, it equals the shortest of them, ``"1.1"`` and not ``"1.10"``.
- A date or time, of pandas, NumPy or Python, equals its ISO text, with or without a time of midnight.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from .._typing import Int

__all__ = ["NO_DRAWS", "UNSEEN", "KnownLevels", "level_text", "plain_level"]

# Treatment of a level absent from the fit: an error, no effect, or an effect drawn from the scale of its term.
UNSEEN = ("error", "population", "draw")
NO_DRAWS = (
    '"draw" draws an effect for each draw of a posterior, and a point fit has none; take "population", or sample by '
    "bd.sample."
)
_NUMBER = re.compile(r"[-+]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][-+]?\d{1,3})?|[-+]?\.\d+")
# At most the digits of an unsigned integer of 64 bits; a double is what longer texts equal.
_INTEGER = re.compile(r"([-+]?(?:0|[1-9]\d{,19}))(?:\.0*)?")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?0*)?)?")
_TRUTH = {"true": True, "false": False}


def plain_level(value: Any) -> str | float | int | bool:
    """Convert a level to a number, a truth value or a text; dates and other values become texts.

    Examples
    --------
    >>> plain_level(np.int64(3)), plain_level(" a "), plain_level(np.datetime64("2020-01-01T00:00"))
    (3, 'a', '2020-01-01')
    """
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float):
        return value
    text = value.isoformat() if isinstance(value, date) else str(value).strip()
    if not _MOMENT.fullmatch(text):
        return text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment.isoformat().removesuffix("T00:00:00")


def level_text(value: Any) -> str:
    """Text of a level in names, whole numbers without a point.

    Examples
    --------
    >>> level_text(2000.0), level_text(True), level_text("s")
    ('2000', 'True', 's')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read(level: Any) -> float | None:
    """Number that a plain level is or reads as; None for another text.

    Integers are exact, because a double does not tell long ids apart.
    """
    if not isinstance(level, str):
        return float(level) if isinstance(level, float) else int(level)
    if level.lower() in _TRUTH:
        return _TRUTH[level.lower()]
    if integer := _INTEGER.fullmatch(level):
        return int(integer[1])
    return float(level) if _NUMBER.fullmatch(level) else None


class KnownLevels:
    """Known levels, with which values of other tables are compared.

    Parameters
    ----------
    levels : iterable of values
        Levels; of equal ones the first counts.

    Examples
    --------
    >>> known = KnownLevels([1, 2, "west"])
    >>> known.codes(["1.0", True, 2.0, " west", "east"]).tolist()
    [0, 0, 1, 2, -1]
    """

    def __init__(self, levels: Iterable[Any] = ()) -> None:
        self.levels: list[Any] = []
        self._exact: dict[Any, int] = {}
        self._texts: dict[float, int] = {}
        for level in levels:
            self.add(level)

    def find(self, value: Any) -> int:
        """Number of the level that equals a value; −1 if there is none."""
        level = plain_level(value)
        if level in self._exact:
            return self._exact[level]
        number = _read(level)
        if number is None:
            return -1
        # A text is compared with numbers, and a number with texts; two texts were compared above.
        return self._exact.get(number, -1) if isinstance(level, str) else self._texts.get(number, -1)

    def add(self, value: Any) -> int:
        """Add a level unless it is known, and return its number."""
        place = self.find(value)
        if place >= 0:
            return place
        level, place = plain_level(value), len(self.levels)
        self.levels.append(level)
        self._exact[level] = place
        number = _read(level)
        if isinstance(level, str) and number is not None:
            before = self._texts.get(number)
            if before is None or len(level) < len(self.levels[before]):
                self._texts[number] = place
        return place

    def codes(self, values: Sequence[Any]) -> Int[np.ndarray, " n"]:
        """Numbers of the levels of values, −1 for values that are not levels."""
        places = {value: self.find(value) for value in dict.fromkeys(values)}
        return np.fromiter((places[value] for value in values), np.int64, len(values))
