"""Limits of stored formulas: their sizes, their numbers, and the functions that they may name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["FUNCTIONS", "LIMITS", "Limits", "finite", "short", "within"]


@dataclass(frozen=True)
class Limits:
    """Maximum sizes of a stored formula, checked before anything of that size is allocated.

    Attributes
    ----------
    text : int
        Characters of the JSON text.
    values : int
        Numbers, texts and lists in the JSON text.
    name : int
        Characters of a name, a level or an expression.
    depth : int
        Nesting of functions.
    degree : int
        Degree of a polynomial or of a B-spline.
    knots : int
        Knots of a spline.
    factors : int
        Factors of a term.
    levels : int
        Levels of a factor.
    columns : int
        Features of all terms.
    work : int
        Numbers computed for each row.
    """

    text: int = 2**24
    values: int = 10**6
    name: int = 4000
    depth: int = 50
    degree: int = 50
    knots: int = 300
    factors: int = 20
    levels: int = 10**6
    columns: int = 10**6
    work: int = 50_000


LIMITS = Limits()


def _where(condition: Any, then: Any, otherwise: Any) -> Any:
    return np.where(condition != 0, then, otherwise)


# Functions of one value per row, without side effects; the result is as long as the arguments.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.fmod, np.power, np.float_power,
        np.negative, np.positive, np.absolute, np.fabs, np.sign, np.rint, np.floor, np.ceil, np.trunc,
        np.sqrt, np.cbrt, np.square, np.reciprocal, np.hypot, np.heaviside, np.copysign,
        np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.logaddexp, np.logaddexp2,
        np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.arctan2, np.degrees, np.radians, np.deg2rad,
        np.rad2deg, np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh,
        np.maximum, np.minimum, np.fmax, np.fmin, np.isnan, np.isfinite, np.isinf, np.signbit,
        np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
        np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
        np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert,
    )
}  # fmt: skip
FUNCTIONS["where"] = _where


def finite(value: Any) -> float:
    """A finite number; raise ValueError on anything else."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise ValueError(f"expected a finite number, got {short(value)}")


def within(size: int, limit: str) -> None:
    """Raise ValueError if a size is beyond one of :class:`Limits`."""
    largest = getattr(LIMITS, limit)
    if not 0 <= size <= largest:
        raise ValueError(f"expected at most {largest:,} for {limit!r}, got {size:,}")


def short(value: Any) -> str:
    """Text of a value for a message, shortened, or the name of its type."""
    text = repr(value) if isinstance(value, str | bool | float | tuple) else type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}…"
