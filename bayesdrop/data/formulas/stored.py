"""What a formula has learnt as text, and which of its expressions a file may run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import numpy as np

from .encoding import columns_of

__all__ = ["column_facts", "is_plain", "made_up", "packed", "plain_values", "terms_listed", "unpacked"]

# Calls with the names of numbers alone that a file may ask for; every ufunc of NumPy is another.
_FUNCTIONS = {"where", "clip"}
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
    ast.Constant, ast.Name, ast.Tuple, ast.List, ast.keyword, ast.Load, ast.Call, ast.Attribute,
)  # fmt: skip


def is_plain(expression: str) -> bool:
    """Whether an expression computes with columns and numbers alone, by operators and functions of formulaic and NumPy.

    Examples
    --------
    >>> is_plain("np.log(dose + 1) * `two words`"), is_plain("bs(age, df=4)"), is_plain("C(site, contr.sum)")
    (True, True, True)
    >>> is_plain("__import__('os').system('ls')"), is_plain("np.load('x')"), is_plain("9**9**9")
    (False, False, False)
    """
    from formulaic.transforms import TRANSFORMS

    try:
        tree = ast.parse(re.sub("`[^`]+`", "quoted", expression).strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            return False
        if isinstance(node, ast.Name) and (
            node.id.startswith("_") or (id(node) in called and node.id not in TRANSFORMS)
        ):
            return False
        if isinstance(node, ast.Attribute):
            base = node.value.id if isinstance(node.value, ast.Name) else ""
            function = getattr(np, node.attr, None) if base == "np" and node.attr.isidentifier() else None
            known = isinstance(function, np.ufunc | float) or (base == "np" and node.attr in _FUNCTIONS)
            if not (known or (base == "contr" and not node.attr.startswith("_"))):
                return False
        if isinstance(node, ast.BinOp):
            if any(isinstance(side, ast.Constant) and not _is_number(side.value) for side in (node.left, node.right)):
                return False  # a text times a number is memory
            if isinstance(node.op, ast.Pow) and not _small_power(node):
                return False
    return True


def _small_power(node: ast.BinOp) -> bool:
    """Whether a power is one of columns or of one number, and not of a number of unbounded size."""
    exponent = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
    return isinstance(exponent, ast.Constant) and _is_number(exponent.value) and abs(exponent.value) <= 64 and not (
        any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow) for part in ast.walk(node.left))
    )  # fmt: skip


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float)


def terms_listed(formula: Any) -> list[list[list[str]]]:
    """Expression and kind of each factor of each term."""
    return [[[str(factor.expr), factor.eval_method.value] for factor in term.factors] for term in formula]


def made_up(columns: Mapping[str, Mapping[str, Any]], levels: Mapping[str, Any]) -> Any:
    """Rows that have the columns with their kinds and all their levels; their numbers mean nothing."""
    import pandas as pd

    m = max([64, *(2 * len(column.get("levels", ())) for column in columns.values())])
    if m > 2**22:
        raise ValueError("it has more levels than a table has rows")
    shares = (np.arange(m) * 0.6180339887498949) % 1
    made: dict[str, Any] = {}
    for number, (name, column) in enumerate(columns.items()):
        if "levels" in column:
            values = [column["levels"][i % len(column["levels"])] for i in range(m)]
            plain = all(isinstance(value, bool | int | float) for value in values)
            made[name] = np.asarray(values) if plain else pd.Categorical(values, categories=column["levels"])
            if plain and any(levels.get(name, [None])[0] == name for _ in "1"):
                made[name] = pd.Categorical(values, categories=column["levels"])
        else:
            low, high = float(column["low"]), float(column["high"])
            numbers = low + (high - low) * np.roll(shares, 7 * number)
            numbers[:2] = low, high
            made[name] = np.round(numbers).astype(np.int64) if column["whole"] else numbers
    return pd.DataFrame(made)


def plain_values(values: Iterable[Any]) -> list[Any]:
    """Levels as numbers, truth values and texts of Python's own."""
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def packed(value: Any) -> Any:
    """What a stateful transform holds, as JSON has it: dicts whose keys are no texts, and arrays, are marked."""
    if isinstance(value, Mapping):
        return {"dict": [[packed(key), packed(part)] for key, part in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, list | tuple):
        return [packed(part) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"a function of the formula holds {type(value).__name__}, which is not kept")


def unpacked(value: Any) -> Any:
    """Inverse of :func:`packed`.

    Examples
    --------
    >>> import json
    >>> unpacked(json.loads(json.dumps(packed({"scale(a)": {0: np.float64(0.1), "knots": [0.5, None]}}))))
    {'scale(a)': {0: 0.1, 'knots': [0.5, None]}}
    """
    if isinstance(value, list):
        return [unpacked(part) for part in value]
    if isinstance(value, dict):
        if "array" in value:
            return np.array(value["array"])
        return {unpacked(key): unpacked(part) for key, part in value["dict"]}
    return value


def column_facts(
    frame: Any, specs: Iterable[Any], context: Mapping[str, Any], levels: Mapping[str, Any]
) -> dict[str, Any]:
    """What is known of each column that formulas use: its levels, or the range, the mean and the kind of its numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from formulaic import Formula
    >>> spec = Formula("age").get_model_matrix(pd.DataFrame({"age": [20, 40]})).model_spec
    >>> column_facts(pd.DataFrame({"age": [20, 40]}), [spec], {}, {})
    {'age': {'low': 20.0, 'high': 40.0, 'mean': 30.0, 'whole': True}}
    """
    from pandas.api import types

    factors = dict(levels.values())
    used = {name for spec in specs for term in spec.formula for f in term.factors for name in columns_of(f, context)}
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
            facts.setdefault(name, {})["levels"] = plain_values(seen)
            most = column.mode()
            facts[name]["mode"] = plain_values(most.iloc[:1].tolist())[0] if len(most) else None
    return facts
