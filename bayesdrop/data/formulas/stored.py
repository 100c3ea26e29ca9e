"""Read a stored formula from JSON, within the limits: terms, facts of columns, factors and random terms."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..._validation import listed
from ..levels import UNSEEN
from .language.limits import LIMITS, finite, within
from .language.nodes import Column, Expression, Factor, Outside, Term, check_terms, walk
from .language.reading import read_node
from .language.translation import plain_levels
from .random_terms import RandomTerm

__all__ = ["SETTINGS", "VERSION", "column_facts", "read_facts", "read_factor", "read_formula_text", "read_json"]

# Version of the text of a stored formula; another one is refused. In version 2 hashed() had other buckets.
VERSION = 3
_FLAG = (False, True)
# Settings that a file stores unchanged, and their allowed values.
SETTINGS: dict[str, tuple[Any, ...]] = {
    "has_intercept": _FLAG, "full_rank": _FLAG, "missing": (None, "nan"), "unseen": UNSEEN, "is_sparse": _FLAG,
    "dropna": _FLAG,
}  # fmt: skip


def read_formula_text(text: str) -> dict[str, Any]:
    """Arguments of :class:`.encoder.FormulaEncoder` from its stored text.

    Raises
    ------
    ValueError
        If the text is not a stored formula.
    """
    try:
        parts = read_json(text)
        if parts.get("version") != VERSION:
            raise ValueError("another version of bayesdrop stored it; fit again")
        terms = tuple(read_node(term, Term) for term in parts["terms"])
        check_terms(terms)
        offset, response, label = parts["offset"], parts["response"], parts["label"]
        within(max(len(parts["random"]), len(response or ())), "factors")
        random = [_random_term(part) for part in parts["random"]]
        label = None if label is None else _level(label)
        classes = None if label is None else tuple(_level(name) for name in parts["classes"])
        if classes is not None and len(set(map(str, classes))) != 2:
            raise ValueError("expected the names of two classes")
        for name, choices in SETTINGS.items():
            if not any(type(parts[name]) is type(choice) and parts[name] == choice for choice in choices):
                raise ValueError(f"expected one of {choices} for {name!r}")
        facts = read_facts(parts["columns"])
        absent = sorted({node.name for node in walk(terms) if isinstance(node, Column)} - set(facts))
        if absent:
            raise ValueError(f"expected facts of the columns {listed(absent)}")
        return dict(
            **{name: parts[name] for name in SETTINGS},
            formula=str(parts["formula"]),
            terms=terms,
            columns=facts,
            random_terms=random,
            _offset=None if offset is None else read_factor(offset),
            _response=None if response is None else tuple(read_factor(part) for part in response),
            _label=label,
            _classes=classes,
        )
    except (LookupError, TypeError, AttributeError, RecursionError, ArithmeticError) as error:
        raise ValueError(f"this is not a formula as bayesdrop stores it: {error}") from None


def read_json(text: str) -> dict[str, Any]:
    """The object in a JSON text; raise ValueError if it exceeds the limits or is not a JSON object.

    Examples
    --------
    >>> read_json('{"formula": "~ age"}'), LIMITS.values
    ({'formula': '~ age'}, 1000000)
    """
    if len(text) > LIMITS.text or sum(text.count(mark) for mark in "[{,:") > LIMITS.values:
        raise ValueError(f"it is larger than {LIMITS.text:,} characters or {LIMITS.values:,} values")
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(parts, dict):
        raise ValueError("it is not a formula as bayesdrop stores it")
    return parts


def read_facts(value: Any) -> dict[str, dict[str, Any]]:
    """Facts of columns, checked to be like those of :func:`column_facts`; raise ValueError otherwise."""
    facts: dict[str, dict[str, Any]] = {}
    for name, fact in value.items():
        numbers = {key: float(fact[key]) for key in ("low", "high", "mean") if key in fact}
        checked: dict[str, Any] = {**numbers, **({"whole": bool(fact["whole"])} if "whole" in fact else {})}
        if "levels" in fact:
            checked |= {"levels": list(fact["levels"]), "mode": fact.get("mode")}
            if not all(
                isinstance(part, bool | int | float | str | None) for part in (*checked["levels"], checked["mode"])
            ):
                raise ValueError(f"expected levels of {name!r} that are numbers or texts")
        if not (len(numbers) == 3 and "whole" in checked) and "levels" not in checked:
            raise ValueError(f"expected levels of {name!r}, or numbers")
        facts[name] = checked
    return facts


def read_factor(value: Any) -> Factor:
    """A factor of one column of numbers, such as an offset."""
    factor: Factor = read_node(value, Factor)
    if not isinstance(factor.encoding, Expression | Outside) or factor.width != 1 or factor.work > LIMITS.work:
        raise ValueError("expected a factor of one column of numbers")
    return factor


def _random_term(value: Any) -> RandomTerm:
    """A random term, ``[expression, columns, levels, variable of the slope, block]``."""
    expression, columns, levels, slope, block = value
    texts = [expression, block, *columns]
    if not 0 < len(columns) <= LIMITS.factors or not all(
        isinstance(text, str) and len(text) <= LIMITS.name for text in texts
    ):
        raise ValueError("expected texts in a random term")
    within(len(levels), "levels")
    values = [tuple(_level(part) for part in level) for level in levels]
    if len(set(values)) < len(values) or any(len(level) != len(columns) for level in values):
        raise ValueError("expected different levels of a random term, with a value of each column")
    return RandomTerm(expression, list(columns), values, None if slope is None else read_factor(slope), block)


def _level(value: Any) -> Any:
    """A text of bounded length, an integer of 64 bits, a finite number or a truth value."""
    if isinstance(value, str) and len(value) <= LIMITS.name or isinstance(value, bool):
        return value
    return value if isinstance(value, int) and abs(value) < 2**64 else finite(value)


def column_facts(frame: Any, used: Collection[str], factors: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Facts of each column in ``used``: levels and mode, or range and mean of numbers and whether they are integers.

    Examples
    --------
    >>> import pandas as pd
    >>> column_facts(pd.DataFrame({"age": [20, 40]}), ["age"], {})
    {'age': {'low': 20.0, 'high': 40.0, 'mean': 30.0, 'whole': True}}
    """
    from pandas.api import types

    facts: dict[str, Any] = {}
    for name in [column for column in frame.columns if column in used]:
        column = frame[name]
        numeric = types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype)
        if numeric:
            low, high, mean = (float(part) for part in (column.min(), column.max(), column.mean()))
            facts[name] = {"low": low, "high": high, "mean": mean, "whole": bool(types.is_integer_dtype(column.dtype))}
        if not numeric or name in factors:
            levels = factors.get(name)
            seen = levels if levels is not None else sorted(column.dropna().unique().tolist(), key=str)
            facts.setdefault(name, {})["levels"] = list(plain_levels(seen))
            modes = column.mode()
            facts[name]["mode"] = plain_levels(modes.iloc[:1].tolist())[0] if len(modes) else None
    return facts
