"""Read the language of :mod:`.nodes` from JSON, ``["Apply", "log", [["Column", "dose"]]]``, and write it, for files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from ...._validation import MOST
from .limits import finite, short, within
from .nodes import (
    Apply,
    BSpline,
    Coding,
    Column,
    CubicSpline,
    Factor,
    Hashed,
    Levels,
    Match,
    Number,
    Outside,
    Polynomial,
    Product,
    Term,
)  # fmt: skip

__all__ = ["plain", "read_node"]


def plain(node: Any) -> Any:
    """Return a node as JSON stores it, ``[name of its class, parts …]``.

    Examples
    --------
    >>> plain(Apply("log", (Column("dose"),)))
    ['Apply', 'log', [['Column', 'dose']]]
    """
    if isinstance(node, tuple):
        return [plain(part) for part in node]
    if is_dataclass(node):
        return [type(node).__name__, *(plain(getattr(node, part.name)) for part in fields(node))]
    return node


def read_node(value: Any, depth: int = 0) -> Any:
    """Return the node that :func:`plain` wrote; raise ValueError if the value is not a node or exceeds the limits.

    Examples
    --------
    >>> read_node(["Apply", "log", [["Column", "dose"]]])
    Apply(function='log', arguments=(Column(name='dose'),))
    >>> read_node(["Apply", "system", [["Column", "dose"]]])
    Traceback (most recent call last):
    ValueError: 'system' is not in the list of functions
    """
    within(depth, "depth")
    found = _NODES.get(value[0]) if isinstance(value, list) and value and isinstance(value[0], str) else None
    if found is None or len(value) != len(found[1]) + 1:
        raise ValueError(f"expected a node of a formula, got {short(value)}")
    kind, readers = found
    return kind(*(reader(part, depth + 1) for reader, part in zip(readers, value[1:], strict=True)))


def _text(value: Any, depth: int) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {short(value)}")
    within(len(value), "name")
    return value


def _flag(value: Any, depth: int) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {short(value)}")
    return value


def _count(value: Any, depth: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise ValueError(f"expected a whole number, got {short(value)}")
    return value


def _real(value: Any, depth: int) -> float:
    return finite(value)


def _scalar(value: Any, depth: int) -> Any:
    return value if isinstance(value, bool) else finite(value)


def _level(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _text(value, depth)
    if isinstance(value, int) and abs(value) < 2**64:
        return value
    return _scalar(value, depth)


def _each(reader: Callable[..., Any]) -> Callable[..., Any]:
    def read(value: Any, depth: int) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {short(value)}")
        return tuple(reader(part, depth) for part in value)

    return read


_NODES: dict[str, tuple[type, tuple[Callable[..., Any], ...]]] = {
    "Number": (Number, (_scalar,)),
    "Column": (Column, (_text,)),
    "Match": (Match, (_text, _text, _flag)),
    "Apply": (Apply, (_text, _each(read_node))),
    "Outside": (Outside, (_text, _count, _each(_text))),
    "Polynomial": (Polynomial, (read_node, _each(_real), _each(_real), _each(_real))),
    "BSpline": (BSpline, (read_node, _each(_real), _count, _flag, _text)),
    "CubicSpline": (CubicSpline, (read_node, _each(_real), _each(_each(_real)), _each(_each(_real)), _flag, _text)),
    "Coding": (Coding, (_each(_count), _each(_each(_real)))),
    "Levels": (Levels, (read_node, _each(_level), read_node)),
    "Hashed": (Hashed, (_text, _count, read_node)),
    "Factor": (Factor, (_text, read_node)),
    "Product": (Product, (_each(read_node),)),
    "Term": (Term, (_text, _each(_text), _each(read_node))),
}
