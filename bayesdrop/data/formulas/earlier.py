"""Read formulas as bayesdrop 0.1.0 stored them: expressions as text, which are translated and never evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..._validation import extra
from .language.encoding import columns_of
from .language.limits import within
from .language.nodes import Coding, Factor, Product, Term
from .language.reading import plain
from .language.translation import LearntLevels, Translator

__all__ = ["read_earlier"]


def read_earlier(known: Mapping[str, Any]) -> dict[str, Any]:
    """The same formula as it is stored now; raise ValueError if it has more than the language."""
    extra("formulaic", "a formula that bayesdrop 0.1.0 stored needs", "formula")
    if known["full_rank"]:
        raise ValueError("it was stored by bayesdrop 0.1.0 with full_rank=True, which kept no contrasts")
    slopes = [listed for *_, listed, _ in known["random"] if listed]
    every = [
        *known["terms"],
        *(known["offset"] or []),
        *(known["response"] or []),
        *(term for s in slopes for term in s),
    ]
    within(sum(len(text) for term in every for text, kind in term if kind == "python"), "code")
    levels = {text: tuple(values) for text, (_, values) in known["levels"].items()}
    columns, names, groups = frozenset(known["columns"]), known["feature_names"], known["groups"]

    def factors_of(listed: Sequence[Any], state: Any) -> list[Factor]:
        found = []
        for text, kind in listed:
            factor = SimpleNamespace(expr=str(text), eval_method=SimpleNamespace(value=kind))
            values = levels.get(text)
            coding = None if values is None else LearntLevels(values, Coding(tuple(range(len(values))), ()))
            translator = Translator(columns | columns_of(factor, {}), _unpacked(state))
            found.append(translator.factor(factor, False, coding))
        return found

    def one(listed: Any, state: Any) -> Any:
        return None if not listed else plain(factors_of(listed[0], state)[0])

    terms, start = [], 0
    for listed in known["terms"]:
        if all(kind == "literal" for _, kind in listed):  # the intercept
            continue
        product = Product(tuple(factors_of(listed, known["state"])))
        end = start + product.width
        if end > len(names):
            raise ValueError("it has more columns than names")
        name = groups[start] if product.width else ":".join(text for text, _ in listed)
        terms.append(Term(str(name), tuple(names[start:end]), (product,)))
        start = end
    random = [
        [expression, columns, [_split(level, len(columns)) for level in levels], one(terms, state), ""]
        for expression, columns, levels, terms, state in known["random"]
    ]
    return {
        **known,
        "terms": plain(tuple(terms)),
        "offset": one(known["offset"], known["offset_state"]),
        "response": known["response"] and [one([term], {"dict": []}) for term in known["response"]],
        "random": random,
        "classes": [False, True],
        "dropna": False,
        "unseen": {"baseline": "population"}.get(known["unseen"], known["unseen"]),
    }


def _split(level: str, count: int) -> list[str]:
    """The parts of a level that was stored joined by colons."""
    parts = level.split(":") if count > 1 else [level]
    if len(parts) != count:
        raise ValueError(f"the level {level!r} of a random term has colons, which bayesdrop 0.1.0 did not tell apart")
    return parts


def _unpacked(value: Any) -> Any:
    """Statistics of functions: dicts whose keys are no texts, and arrays, are marked."""
    if isinstance(value, list):
        return [_unpacked(part) for part in value]
    if isinstance(value, dict):
        if "array" in value:
            return np.array(value["array"], dtype=np.float64)
        return {_unpacked(key): _unpacked(part) for key, part in value["dict"]}
    return value
