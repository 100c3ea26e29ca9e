"""The language of stored formulas: products of columns, splines, levels and expressions of a closed list of functions.

:mod:`.translation` writes what a formula has learnt in it, :mod:`.interpreter` computes it on rows, and :mod:`.reading`
reads it from JSON. Nothing in it is Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from .limits import FUNCTIONS, finite, short, within

__all__ = [
    "EXPRESSIONS", "Apply", "BSpline", "Coding", "Column", "CubicSpline", "Expression", "Factor", "Hashed", "Levels",
    "Match", "Number", "Outside", "Polynomial", "Product", "Term", "check_terms", "columns_needed", "walk",
]  # fmt: skip

_ARITY = {name: getattr(function, "nin", 3) for name, function in FUNCTIONS.items()}
_BEYOND = ("raise", "clip", "na", "zero", "extend")


def _check_numbers(*rows: Any) -> None:
    for row in rows:
        for value in row:
            finite(value)


@dataclass(frozen=True)
class Number:
    """A finite number or a truth value, the same in every row."""

    value: float | bool
    work = 0

    def __post_init__(self) -> None:
        if not isinstance(self.value, bool):
            finite(self.value)


@dataclass(frozen=True)
class Column:
    """A column of the table: its numbers, or its values as the argument of :class:`Levels`."""

    name: str
    work = 1


@dataclass(frozen=True)
class Match:
    """Whether the values of a column are, or are not, a text."""

    column: str
    text: str
    is_equal: bool
    work = 1


@dataclass(frozen=True)
class Apply:
    """One of :data:`.limits.FUNCTIONS` of one value per row."""

    function: str
    arguments: tuple[Expression, ...]

    def __post_init__(self) -> None:
        if self.function not in _ARITY:
            raise ValueError(f"{short(self.function)} is not in the list of functions")
        if len(self.arguments) != _ARITY[self.function] or not all(isinstance(a, EXPRESSIONS) for a in self.arguments):
            raise ValueError(f"{self.function!r} takes {_ARITY[self.function]} expressions")

    @property
    def work(self) -> int:
        """Numbers computed for each row."""
        return 1 + sum(argument.work for argument in self.arguments)


@dataclass(frozen=True)
class Outside:
    """Python code that the language does not have: it runs in the session that made the formula, and nowhere else."""

    text: str
    width: int
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        within(self.width, "columns")

    @property
    def entries(self) -> int:
        """Numbers in each row."""
        return self.width

    work = entries


Expression = Number | Column | Match | Apply
EXPRESSIONS = (Number, Column, Match, Apply)


@dataclass(frozen=True)
class _OfArgument:
    argument: Expression

    def __post_init__(self) -> None:
        if not isinstance(self.argument, EXPRESSIONS):
            raise ValueError(f"expected an expression, got {type(self.argument).__name__}")

    @property
    def entries(self) -> int:
        """Numbers in each row."""
        return int(self.width)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Polynomial(_OfArgument):
    """Columns ``P_i / scale_i``, with ``P_i = (x − centre_i) P_{i−1} − ratio_i P_{i−2}`` and ``P_0 = 1``."""

    centres: tuple[float, ...]
    ratios: tuple[float, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        within(len(self.centres), "degree")
        _check_numbers(self.centres, self.ratios, self.scales)
        if not len(self.centres) == len(self.ratios) == len(self.scales) or 0 in self.scales:
            raise ValueError("expected a centre, a ratio and a scale, which is not 0, for each degree")

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.centres)

    @property
    def work(self) -> int:
        """Numbers computed for each row."""
        return self.width + self.argument.work


@dataclass(frozen=True)
class BSpline(_OfArgument):
    """B-splines of sorted knots, the outer ones repeated; ``beyond`` says what becomes of values outside of them."""

    knots: tuple[float, ...]
    degree: int
    has_first: bool
    beyond: str

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self.degree, "degree")
        _check_knots(self.knots, 2 * self.degree + 2, self.beyond)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.knots) - self.degree - 1 - (not self.has_first)

    @property
    def work(self) -> int:
        """Numbers computed for each row."""
        return len(self.knots) * (self.degree + 1) + self.argument.work


@dataclass(frozen=True)
class CubicSpline(_OfArgument):
    """Natural or cyclic cubic splines by their values and second derivatives at different sorted knots."""

    knots: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    curvatures: tuple[tuple[float, ...], ...]
    is_cyclic: bool
    beyond: str

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_knots(self.knots, 2, self.beyond)
        _check_numbers(*self.values, *self.curvatures)
        widths = {len(row) for row in (*self.values, *self.curvatures)}
        if not len(self.knots) == len(self.values) == len(self.curvatures) == len(set(self.knots)) or len(widths) != 1:
            raise ValueError("expected values and curvatures of each column at each of different knots")

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.values[0])

    @property
    def work(self) -> int:
        """Numbers computed for each row."""
        return 4 * self.width + self.argument.work


def _check_knots(knots: tuple[float, ...], least: int, beyond: str) -> None:
    within(len(knots), "knots")
    _check_numbers(knots)
    if len(knots) < least or any(left > right for left, right in zip(knots, knots[1:], strict=False)):
        raise ValueError(f"expected {least} sorted knots or more, got {short(knots)}")
    if beyond not in _BEYOND:
        raise ValueError(f"expected one of {_BEYOND} beyond the knots, got {short(beyond)}")


@dataclass(frozen=True)
class Coding:
    """Columns made of the number of a level: indicators of the levels ``kept``, or a row of ``matrix`` for each level.

    ``matrix`` is empty where the columns are indicators.
    """

    kept: tuple[int, ...]
    matrix: tuple[tuple[float, ...], ...]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.matrix[0]) if self.matrix else len(self.kept)

    @property
    def entries(self) -> int:
        """Numbers in each row."""
        return self.width if self.matrix else 1

    def check(self, levels: int) -> None:
        """Raise ValueError unless it is of so many levels."""
        within(levels, "levels")
        _check_numbers(*self.matrix)
        if self.matrix and (len(self.matrix) != levels or self.kept or len({len(row) for row in self.matrix}) != 1):
            raise ValueError("expected a row of contrasts for each level")
        if len(set(self.kept)) < len(self.kept) or not all(0 <= place < levels for place in self.kept):
            raise ValueError("expected numbers of different levels")


@dataclass(frozen=True)
class Levels:
    """Contrasts of the levels of a column or of an expression."""

    argument: Expression | Outside
    levels: tuple[str | float | bool, ...]
    coding: Coding

    def __post_init__(self) -> None:
        if not isinstance(self.argument, (*EXPRESSIONS, Outside)) or not isinstance(self.coding, Coding):
            raise ValueError("expected an expression and a coding of levels")
        self.coding.check(len(self.levels))
        if len(set(self.levels)) < len(self.levels):
            raise ValueError("expected different levels")

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.coding.width

    @property
    def entries(self) -> int:
        """Numbers in each row."""
        return self.coding.entries

    @property
    def work(self) -> int:
        """Numbers computed for each row."""
        return self.entries + self.argument.work


@dataclass(frozen=True)
class Hashed:
    """Contrasts of ``count`` levels to which the MD5 sum of a value's text assigns it."""

    column: str
    count: int
    coding: Coding

    def __post_init__(self) -> None:
        if self.count < 1 or not isinstance(self.coding, Coding):
            raise ValueError("expected a level and a coding of levels")
        self.coding.check(self.count)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.coding.width

    @property
    def entries(self) -> int:
        """Numbers in each row."""
        return self.coding.entries

    @property
    def work(self) -> int:
        """Numbers computed for each row."""
        return self.entries + 1


@dataclass(frozen=True)
class Factor:
    """One factor of a term: its text in the formula, and how it is computed."""

    label: str
    encoding: Any

    def __post_init__(self) -> None:
        known = (*EXPRESSIONS, Outside, Polynomial, BSpline, CubicSpline, Levels, Hashed)
        if not isinstance(self.encoding, known):
            raise ValueError(f"expected the encoding of a factor, got {type(self.encoding).__name__}")

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(getattr(self.encoding, "width", 1))

    @property
    def entries(self) -> int:
        """Numbers in each row."""
        return int(getattr(self.encoding, "entries", 1))


@dataclass(frozen=True)
class Product:
    """Products of one column of each factor, the first factor running fastest; ones without any factor."""

    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        within(len(self.factors), "factors")
        if not all(isinstance(factor, Factor) for factor in self.factors):
            raise ValueError("expected factors")

    @property
    def width(self) -> int:
        """Number of columns."""
        return math.prod(factor.width for factor in self.factors)

    @property
    def work(self) -> int:
        """Numbers computed for each row."""
        own = sum(int(factor.encoding.work) for factor in self.factors)
        return own + math.prod(factor.entries for factor in self.factors)


@dataclass(frozen=True)
class Term:
    """The columns of one term, which are those of one product or, under full rank, of several."""

    name: str
    columns: tuple[str, ...]
    products: tuple[Product, ...]

    def __post_init__(self) -> None:
        if not all(isinstance(product, Product) for product in self.products):
            raise ValueError("expected products")
        width = sum(product.width for product in self.products)
        if width != len(self.columns):
            raise ValueError(f"the term {self.name!r} has {width:,} columns and {len(self.columns):,} names")


def check_terms(terms: tuple[Term, ...]) -> None:
    """Raise ValueError unless these are terms, whose columns have different names, within the limits."""
    if not all(isinstance(term, Term) for term in terms):
        raise ValueError("expected terms")
    names = [name for term in terms for name in term.columns]
    within(len(names), "columns")
    within(sum(1 + sum(product.work for product in term.products) for term in terms), "work")
    if len(set(names)) < len(names):
        raise ValueError("expected different names of columns")


def walk(node: Any) -> Iterator[Any]:
    """A node and all nodes within it."""
    if is_dataclass(node):
        yield node
        for part in fields(node):
            yield from walk(getattr(node, part.name))
    elif isinstance(node, tuple) and node and (is_dataclass(node[0]) or isinstance(node[0], tuple)):
        for part in node:
            yield from walk(part)


def columns_needed(node: Any) -> set[str]:
    """Names of the columns of a table that a node, or a tuple of nodes, needs."""
    found: set[str] = set()
    for part in walk(node):
        if isinstance(part, Column):
            found.add(part.name)
        elif isinstance(part, Match | Hashed):
            found.add(part.column)
        elif isinstance(part, Outside):
            found.update(part.columns)
    return found
