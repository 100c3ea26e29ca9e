"""Columns of text that hold numbers but for a few cells, or a level for nearly every row. Used by every door."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["LIMITS", "Limits", "cells_shown", "is_number", "spoilt_cells"]

_CODE = re.compile(r"\s*0\d+\s*")


@dataclass(frozen=True)
class Limits:
    """From where on text is not taken for a factor.

    Attributes
    ----------
    number_share : float
        Share of cells that are numbers: the other tenth is marks of missing values or typing errors.
    level_share : float
        Levels for each row: with hardly a second row, the effect of a level cannot be told from its one row.
    few_levels : int
        Levels that are a factor even so, of numbers or in as few rows: of a small table nothing can be said.
    """

    number_share: float = 0.9
    level_share: float = 0.9
    few_levels: int = 10


LIMITS = Limits()


def is_number(value: Any) -> bool:
    """Whether a cell is a number or the text of one.

    Examples
    --------
    >>> is_number(" 2.5"), is_number("-"), is_number([1.0])
    (True, False, False)
    """
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return getattr(value, "ndim", 0) == 0


def spoilt_cells(cells: Sequence[Any], limits: Limits = LIMITS) -> list[int] | None:
    """Places of the cells that keep a column from being numbers, None if it is not nearly one, or has codes.

    Examples
    --------
    >>> spoilt_cells(["1.5"] * 9 + ["-"]), spoilt_cells(["1.5", "-"]), spoilt_cells(["01067", "80331"])
    ([9], None, None)
    """
    if any(isinstance(cell, str) and _CODE.fullmatch(cell) for cell in cells):
        return None
    odd = [place for place, cell in enumerate(cells) if not is_number(cell)]
    return odd if len(cells) - len(odd) >= limits.number_share * len(cells) > 0 else None


def cells_shown(cells: Sequence[Any], rows: Sequence[int], places: Sequence[int]) -> str:
    """Some cells with their rows, for a message.

    Examples
    --------
    >>> cells_shown(["1", "-", "?"], [4, 5, 6], [1, 2])
    "row 5 '-', row 6 '?'"
    """
    shown = ", ".join(f"row {rows[place]} {cells[place]!r}" for place in places[:3])
    return shown + (f" and {len(places) - 3} more" if len(places) > 3 else "")
