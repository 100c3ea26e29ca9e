"""Read and write the language of :mod:`.nodes` as JSON, ``["Apply", "log", [["Column", "dose"]]]``, for files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from ...._validation import MOST
from .limits import finite, short, within
from .nodes import Coding, Encoding, Expression, Factor, Node, Outside, Product, Term

__all__ = ["plain", "read_node"]


def plain(node: Any) -> Any:
    """Return a node as JSON stores it, ``[name of its class, parts …]``.

    Examples
    --------
    >>> from .nodes import Apply, Column
    >>> plain(Apply("log", (Column("dose"),)))
    ['Apply', 'log', [['Column', 'dose']]]
    """
    if isinstance(node, tuple):
        return [plain(part) for part in node]
    if is_dataclass(node):
        return [type(node).__name__, *(plain(getattr(node, part.name)) for part in fields(node))]
    return node


def read_node(value: Any, kinds: Any, depth: int = 0) -> Any:
    """Return the node that :func:`plain` wrote; raise ValueError if it is not of these kinds or exceeds the limits.

    Examples
    --------
    >>> read_node(["Apply", "log", [["Column", "dose"]]], Expression)
    Apply(function='log', arguments=(Column(name='dose'),))
    >>> read_node(["Apply", "system", [["Column", "dose"]]], Expression)
    Traceback (most recent call last):
    ValueError: 'system' is not in the list of functions
    """
    within(depth, "depth")
    entry = _NODES.get(value[0]) if isinstance(value, list) and value and isinstance(value[0], str) else None
    if entry is None or not issubclass(entry[0], kinds) or len(value) != len(entry[1]) + 1:
        raise ValueError(f"expected a node of a formula, got {short(value)}")
    kind, readers = entry
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


def _scalar(value: Any, depth: int) -> Any:
    return value if isinstance(value, bool) else finite(value)


def _level(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _text(value, depth)
    if isinstance(value, int) and abs(value) < 2**64:
        return value
    return _scalar(value, depth)


def _reader(kind: str) -> Callable[[Any, int], Any]:
    """Reader of a field, by its type."""
    if not kind.startswith("tuple["):
        return _READERS.get(kind) or (lambda value, depth: read_node(value, _KINDS[kind], depth))
    reader = _reader(kind.removeprefix("tuple[").removesuffix(", ...]"))

    def read(value: Any, depth: int) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {short(value)}")
        return tuple(reader(part, depth) for part in value)

    return read


_READERS: dict[str, Callable[[Any, int], Any]] = {
    "str": _text, "bool": _flag, "int": _count, "float": lambda value, depth: finite(value), "float | bool": _scalar,
    "str | float | bool": _level,
}  # fmt: skip
_KINDS = {
    "Expression": Expression, "Expression | Outside": Expression | Outside, "Encoding": Encoding,
    "Coding": Coding, "Factor": Factor, "Product": Product,
}  # fmt: skip
_NODES: dict[str, tuple[type[Node], list[Callable[[Any, int], Any]]]] = {
    kind.__name__: (kind, [_reader(str(part.type)) for part in fields(kind)])
    for kind in (*get_args(Encoding), Coding, Factor, Product, Term)
}
