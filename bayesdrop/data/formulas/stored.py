"""Read a stored formula: its JSON within the limits, facts of columns, factors and random terms."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .language.limits import LIMITS
from .language.nodes import EXPRESSIONS, Factor, Outside
from .language.reading import read_node
from .language.translation import plain_levels
from .random_terms import RandomTerm

__all__ = ["column_facts", "read_facts", "read_factor", "read_json", "read_random_term"]


def read_json(text: str) -> dict[str, Any]:
    """The object that a text of JSON holds; raise ValueError if it is beyond the limits or no such text.

    Examples
    --------
    >>> read_json('{"formula": "~ age"}'), LIMITS.values
    ({'formula': '~ age'}, 1000000)
    """
    if len(text) > LIMITS.text or sum(text.count(mark) for mark in "[{,:") > LIMITS.values:
        raise ValueError(f"it is larger than {LIMITS.text:,} characters or {LIMITS.values:,} values")
    try:
        known = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(known, dict):
        raise ValueError("it is not a formula as bayesdrop stores it")
    return known


def read_facts(value: Any) -> dict[str, dict[str, Any]]:
    """Facts of columns as :func:`column_facts` made them; raise ValueError on anything else."""
    facts: dict[str, dict[str, Any]] = {}
    for name, fact in value.items():
        numbers = {key: float(fact[key]) for key in ("low", "high", "mean") if key in fact}
        found: dict[str, Any] = {**numbers, **({"whole": bool(fact["whole"])} if "whole" in fact else {})}
        if "levels" in fact:
            found |= {"levels": list(fact["levels"]), "mode": fact.get("mode")}
            if not all(isinstance(part, bool | int | float | str | None) for part in (*found["levels"], found["mode"])):
                raise ValueError(f"expected levels of {name!r} that are numbers or texts")
        if not (len(numbers) == 3 and "whole" in found) and "levels" not in found:
            raise ValueError(f"expected levels of {name!r}, or numbers")
        facts[name] = found
    return facts


def read_factor(value: Any) -> Factor:
    """A factor of one column, such as an offset."""
    factor = read_node(value)
    if not isinstance(factor, Factor) or factor.width != 1 or factor.entries != 1:
        raise ValueError("expected a factor of one column")
    if not isinstance(factor.encoding, (*EXPRESSIONS, Outside)) or factor.encoding.work > LIMITS.work:
        raise ValueError("expected a factor of numbers")
    return factor


def read_random_term(value: Any) -> RandomTerm:
    """A random term, ``[expression, columns, levels, variable of the slope]``."""
    expression, columns, levels, slope = value
    texts = [expression, *columns, *levels]
    if not 0 < len(columns) <= LIMITS.factors or not all(
        isinstance(text, str) and len(text) <= LIMITS.name for text in texts
    ):
        raise ValueError("expected texts in a random term")
    if len(levels) > LIMITS.levels or len(set(levels)) < len(levels):
        raise ValueError("expected different levels of a random term")
    return RandomTerm(expression, list(columns), list(levels), None if slope is None else read_factor(slope))


def column_facts(frame: Any, used: Collection[str], factors: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Facts of each column that formulas use: its levels, or the range, the mean and the kind of its numbers.

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
            known = factors.get(name)
            seen = known if known is not None else sorted(column.dropna().unique().tolist(), key=str)
            facts.setdefault(name, {})["levels"] = list(plain_levels(seen))
            most = column.mode()
            facts[name]["mode"] = plain_levels(most.iloc[:1].tolist())[0] if len(most) else None
    return facts
