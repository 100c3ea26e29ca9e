"""The language of stored formulas: products of columns, splines, levels and expressions of a closed list of functions.

:mod:`.translation` writes a learnt formula in this language, :mod:`.interpreter` computes its columns on rows, and
:mod:`.reading` reads it from JSON, by the types of the fields. Nothing that a file holds is run as Python code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from .limits import FUNCTIONS, finite, short, within

__all__ = [
    "Apply", "BSpline", "Coding", "Column", "CubicSpline", "Encoding", "Expression", "Factor", "Hashed", "Levels",
    "Match", "Node", "Number", "Outside", "Polynomial", "Product", "Term", "check_terms", "columns_needed", "walk",
]  # fmt: skip

_ARITY = {name: getattr(function, "nin", 3) for name, function in FUNCTIONS.items()}
_BEYOND = ("raise", "clip", "na", "zero", "extend")


class Node:
    """A part of a formula."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of a table that the node needs, besides those of its parts."""
        return ()

    @property
    def width(self) -> int:
        """Number of columns."""
        return 1

    @property
    def entries(self) -> int:
        """Stored numbers per row; indicators store only the 1."""
        return self.width

    @property
    def cost(self) -> int:
        """Numbers computed for each row, besides those of its parts."""
        return self.entries

    @property
    def work(self) -> int:
        """Numbers computed for each row."""
        return self.cost + sum(part.work for part in _parts(self))


@dataclass(frozen=True)
class Number(Node):
    """A finite number or a truth value, the same in every row."""

    value: float | bool
    cost = 0

    def __post_init__(self) -> None:
        if not isinstance(self.value, bool):
            finite(self.value)


@dataclass(frozen=True)
class Column(Node):
    """A column of the table: numbers, or, as the argument of :class:`Levels`, values of any type."""

    name: str

    @property
    def needs(self) -> tuple[str, ...]:
        """Its name."""
        return (self.name,)


@dataclass(frozen=True)
class Match(Node):
    """Whether the values of a column equal a text or, unless ``is_equal``, differ from it."""

    column: str
    text: str
    is_equal: bool

    @property
    def needs(self) -> tuple[str, ...]:
        """Its column."""
        return (self.column,)


@dataclass(frozen=True)
class Apply(Node):
    """A function of :data:`.limits.FUNCTIONS`, applied row by row to its arguments."""

    function: str
    arguments: tuple[Expression, ...]

    def __post_init__(self) -> None:
        if self.function not in _ARITY:
            raise ValueError(f"{short(self.function)} is not in the list of functions")
        if len(self.arguments) != _ARITY[self.function]:
            raise ValueError(f"{self.function!r} takes {_ARITY[self.function]} expressions")


@dataclass(frozen=True)
class Outside(Node):
    """Python code that this language cannot express; it runs only in the session that made the formula."""

    text: str
    count: int
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        within(self.count, "columns")

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns that the code names."""
        return self.columns

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.count


@dataclass(frozen=True)
class Polynomial(Node):
    """Columns ``P_i / scale_i``, with ``P_i = (x − centre_i) P_{i−1} − ratio_i P_{i−2}`` and ``P_0 = 1``."""

    argument: Expression
    centres: tuple[float, ...]
    ratios: tuple[float, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        within(len(self.centres), "degree")
        if not len(self.centres) == len(self.ratios) == len(self.scales) or 0 in self.scales:
            raise ValueError("expected a centre, a ratio and a scale, which is not 0, for each degree")

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.centres)


@dataclass(frozen=True)
class BSpline(Node):
    """B-splines on sorted knots, with repeated outer knots.

    ``has_first`` keeps the first column; ``beyond`` is the treatment of values outside the knots.
    """

    argument: Expression
    knots: tuple[float, ...]
    degree: int
    has_first: bool
    beyond: str

    def __post_init__(self) -> None:
        within(self.degree, "degree")
        _check_knots(self.knots, 2 * self.degree + 2, self.beyond)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.knots) - self.degree - 1 - (not self.has_first)

    @property
    def cost(self) -> int:
        """Numbers computed for each row, besides those of its argument."""
        return len(self.knots) * (self.degree + 1)


@dataclass(frozen=True)
class CubicSpline(Node):
    """Natural or cyclic cubic splines, by values and second derivatives (knots, columns) at distinct sorted knots."""

    argument: Expression
    knots: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    curvatures: tuple[tuple[float, ...], ...]
    is_cyclic: bool
    beyond: str

    def __post_init__(self) -> None:
        _check_knots(self.knots, 2, self.beyond)
        widths = {len(row) for row in (*self.values, *self.curvatures)}
        if not len(self.knots) == len(self.values) == len(self.curvatures) == len(set(self.knots)) or len(widths) != 1:
            raise ValueError("expected distinct knots, with a value and a curvature of each column at each knot")

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.values[0])

    @property
    def cost(self) -> int:
        """Numbers computed for each row, besides those of its argument."""
        return 4 * self.width


def _check_knots(knots: tuple[float, ...], minimum: int, beyond: str) -> None:
    within(len(knots), "knots")
    if len(knots) < minimum or any(left > right for left, right in zip(knots, knots[1:], strict=False)):
        raise ValueError(f"expected {minimum} sorted knots or more, got {short(knots)}")
    if beyond not in _BEYOND:
        raise ValueError(f"expected one of {_BEYOND} beyond the knots, got {short(beyond)}")


@dataclass(frozen=True)
class Coding(Node):
    """Columns that code a level: indicators of the levels numbered ``places``, or the level's row of ``matrix``.

    ``matrix`` is empty if the columns are indicators.
    """

    places: tuple[int, ...]
    matrix: tuple[tuple[float, ...], ...]
    cost = 0

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.matrix[0]) if self.matrix else len(self.places)

    @property
    def entries(self) -> int:
        """Stored numbers per row; indicators store only the 1."""
        return self.width if self.matrix else 1

    def check(self, levels: int) -> None:
        """Raise ValueError unless the coding is for this number of levels."""
        within(levels, "levels")
        if self.matrix and (len(self.matrix) != levels or self.places or len({len(row) for row in self.matrix}) != 1):
            raise ValueError("expected a row of contrasts for each level")
        if len(set(self.places)) < len(self.places) or not all(0 <= place < levels for place in self.places):
            raise ValueError("expected numbers of different levels")


class _Coded(Node):
    """Contrasts of ``count`` levels."""

    coding: Coding
    count: int

    def __post_init__(self) -> None:
        self.coding.check(self.count)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.coding.width

    @property
    def entries(self) -> int:
        """Stored numbers per row; indicators store only the 1."""
        return self.coding.entries


@dataclass(frozen=True)
class Levels(_Coded):
    """Contrasts of the levels of a column or of an expression."""

    argument: Expression | Outside
    levels: tuple[str | float | bool, ...]
    coding: Coding

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.levels)) < self.count:
            raise ValueError("expected different levels")

    @property
    def count(self) -> int:  # type: ignore[override]
        """Number of levels."""
        return len(self.levels)


@dataclass(frozen=True)
class Hashed(_Coded):
    """Contrasts of ``count`` levels; the level of a value is the MD5 sum of its text modulo ``count``."""

    column: str
    count: int
    coding: Coding

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 1:
            raise ValueError("expected a level")

    @property
    def needs(self) -> tuple[str, ...]:
        """Its column."""
        return (self.column,)


Expression = Number | Column | Match | Apply
Encoding = Expression | Outside | Polynomial | BSpline | CubicSpline | Levels | Hashed


@dataclass(frozen=True)
class Factor(Node):
    """One factor of a term: its text in the formula, and how it is computed."""

    label: str
    encoding: Encoding
    cost = 0

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.encoding.width

    @property
    def entries(self) -> int:
        """Stored numbers per row; indicators store only the 1."""
        return self.encoding.entries


@dataclass(frozen=True)
class Product(Node):
    """Products of one column of each factor, the first factor running fastest; without factors a column of ones."""

    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        within(len(self.factors), "factors")

    @property
    def width(self) -> int:
        """Number of columns."""
        return math.prod(factor.width for factor in self.factors)

    @property
    def entries(self) -> int:
        """Stored numbers per row; indicators store only the 1."""
        return math.prod(factor.entries for factor in self.factors)


@dataclass(frozen=True)
class Term(Node):
    """The columns of one term: of one product or, with full-rank coding, of several."""

    name: str
    columns: tuple[str, ...]
    products: tuple[Product, ...]
    cost = 1

    def __post_init__(self) -> None:
        width = sum(product.width for product in self.products)
        if width != len(self.columns):
            raise ValueError(f"the term {self.name!r} has {width:,} columns and {len(self.columns):,} names")


def check_terms(terms: tuple[Term, ...]) -> None:
    """Raise ValueError unless the columns of terms have different names, and are within the limits."""
    names = [name for term in terms for name in term.columns]
    within(len(names), "columns")
    within(sum(term.work for term in terms), "work")
    if len(set(names)) < len(names):
        raise ValueError("expected different names of columns")


def _parts(node: Any) -> Iterator[Node]:
    """The nodes directly in the fields of a node, or in a tuple."""
    for part in node if isinstance(node, tuple) else [getattr(node, field.name) for field in fields(node)]:
        if isinstance(part, Node):
            yield part
        elif isinstance(part, tuple) and part and isinstance(part[0], Node | tuple):
            yield from _parts(part)


def walk(node: Any) -> Iterator[Node]:
    """A node, or the nodes of a tuple, and all nodes within."""
    if isinstance(node, Node):
        yield node
    for part in () if node is None else _parts(node):
        yield from walk(part)


def columns_needed(node: Any) -> set[str]:
    """Names of the columns of a table that a node, or a tuple of nodes, needs."""
    return {name for part in walk(node) for name in part.needs}
