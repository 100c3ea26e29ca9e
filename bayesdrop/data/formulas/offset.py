"""``offset(...)`` in a formula: a known part of the score, which is no term and has no weight."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..._typing import Float
from .encoding import encode

__all__ = ["offset_by", "offset_learnt", "without_offsets"]


def without_offsets(formula: Any) -> tuple[Any, str | None]:
    """The formula without its offsets, and the sum of those as one Python expression, None if there are none.

    Raises
    ------
    ValueError
        If an offset is within another term, taken off, or on the left side.

    Examples
    --------
    >>> without_offsets("events ~ offset(np.log(days)) + age + offset(known)")
    ('events ~ age', '(np.log(days)) + (known)')
    >>> without_offsets("events ~ age:offset(days)")
    Traceback (most recent call last):
    ValueError: formula: offset(...) is no term that others go with, got 'age:offset(days)'; add it by itself, as in ...
    """
    found = []
    while isinstance(formula, str) and (start := re.search(r"\boffset\s*\(", formula)) is not None:
        end = _closing(formula, start.end())
        before, after = formula[: start.start()].rstrip(), formula[end + 1 :].lstrip()
        misplaced = "~" in after or (before and before[-1] not in "+~") or (after and after[0] not in "+-")
        if end == len(formula) or misplaced:
            term = formula.rpartition("~")[2].strip()
            raise ValueError(
                f"formula: offset(...) is no term that others go with, got {term!r}; add it by itself, as in "
                "'events ~ age + offset(np.log(days))'."
            )
        found.append(f"({formula[start.end() : end].strip()})")
        if before.endswith("+"):
            before = before[:-1].rstrip()
        elif after.startswith("+"):
            after = after[1:].lstrip()
        # Nothing but an intercept is left of a lone offset.
        formula = f"{before} {after}".strip() if after or not before.endswith("~") else f"{before} 1"
    return formula, " + ".join(found) or None


def offset_learnt(expression: str, frame: Any, context: dict[str, Any]) -> tuple[Float[np.ndarray, " n"], Any]:
    """Offset of rows (n,), and what formulaic has learnt of them, such as the mean of ``center(...)``."""
    from formulaic import Formula

    matrix = encode(Formula(f"0 + {{{expression}}}"), frame, context, output="pandas")
    return _values(matrix, expression), matrix.model_spec


def offset_by(learnt: Any, frame: Any, context: dict[str, Any]) -> Float[np.ndarray, " m"]:
    """Offset of other rows that have its columns, (m,)."""
    expression = next(factor.expr for term in learnt.formula for factor in term.factors)
    return _values(encode(learnt, frame, context, output="pandas"), str(expression))


def _closing(text: str, start: int) -> int:
    """Place of the bracket that closes one opened before ``start``; the length of the text if there is none."""
    depth, quote = 1, ""
    for place in range(start, len(text)):
        mark = text[place]
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "'\"`":
            quote = mark
        else:
            depth += (mark == "(") - (mark == ")")
            if depth == 0:
                return place
    return len(text)


def _values(matrix: Any, expression: str) -> Float[np.ndarray, " n"]:
    """The one column of an encoded offset; raise ValueError unless it is one of finite numbers.

    Examples
    --------
    >>> _values(np.array([[1.0], [2.0]]), "(days)").tolist()
    [1.0, 2.0]
    """
    values = np.asarray(matrix, dtype=np.float64)
    if values.shape[1] != 1:
        raise ValueError(
            f"formula: offset{expression} is no number, but gives {values.shape[1]} columns; expected a column of "
            "numbers, or a function of one."
        )
    wrong = int(np.sum(~np.isfinite(values)))
    if wrong:
        raise ValueError(
            f"data: offset{expression} is infinite or no number in {wrong} of {len(values)} rows; a count without "
            "exposure says nothing: leave those rows out."
        )
    return values[:, 0]
