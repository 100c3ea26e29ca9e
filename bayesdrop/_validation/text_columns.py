"""Detect text columns that hold mostly numbers, or a level for nearly every row, for tables and formulas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .objects import listed

__all__ = ["LIMITS", "Limits", "cells_shown", "is_number", "spoilt_cells"]

_CODE = re.compile(r"\s*0\d+\s*")


@dataclass(frozen=True)
class Limits:
    """Limits beyond which text is not a factor, and of what messages show.

    Attributes
    ----------
    number_share : float
        Share of cells that are numbers; the others are marks of missing values or typing errors.
    level_share : float
        Levels per row: if most levels have one row, their effects are not identified.
    few_levels : int
        Number of levels up to which text is a factor in any case, since a small table proves nothing.
    names : int
        Names of columns that a message shows.
    """

    number_share: float = 0.9
    level_share: float = 0.9
    few_levels: int = 10
    names: int = 5


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
    """Places of the cells that are not numbers in a column of numbers; None for a column of text or of codes.

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
    """Text of some cells with their rows, for a message.

    Examples
    --------
    >>> cells_shown(["1", "-", "?"], [4, 5, 6], [1, 2])
    "row 5 '-', row 6 '?'"
    """
    return listed(places, 3, lambda place: f"row {rows[place]} {cells[place]!r}")
