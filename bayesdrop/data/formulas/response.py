"""Read the response that a formula names, for :mod:`.formula` and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._typing import Shaped
from ..frames import no_column, refuse_missing
from .checks import with_doubles
from .language.encoding import columns_asked, columns_of, encode
from .language.interpreter import Rows, numbers_of
from .language.nodes import Column, Factor

__all__ = ["read_response", "response_values"]


def response_values(left: Any, right: Any, frame: Any, context: dict[str, Any]) -> Shaped[np.ndarray, "n ..."]:
    """Values of the left side of a formula, numbers or labels; both columns of ``successes + failures``.

    Raises
    ------
    ValueError
        If it is not a column, is among the terms, or has missing or infinite values.
    """
    if len(left) == 2:
        pair = [response_values(type(left)([term]), right, frame, context) for term in left]
        if any(column.dtype.kind not in "iuf" for column in pair):
            raise ValueError(
                f"formula: expected one response on the left side, or two columns of counts, successes + failures, got "
                f"{' + '.join(str(term) for term in left)!r}."
            )
        return np.column_stack(pair)
    factors = [factor for term in left for factor in term.factors]
    name = " + ".join(str(term) for term in left)
    if len(factors) != 1 or factors[0].eval_method.value == "literal":
        raise ValueError(f"formula: expected one response on the left side, got {name!r}.")
    if any(factors[0] in term.factors for term in right):
        raise ValueError(f"formula: the response {name!r} is among the terms; leave it out of the right side.")
    if factors[0].eval_method.value == "lookup":
        return _values(_column(name, frame), name)
    asked = columns_asked(str(factors[0].expr))
    refuse_missing(sorted(columns_of(factors[0], frame.columns) - asked), frame, ", or take dropna=True")
    encode(left, frame, context, ensure_full_rank=False)  # raises on one number for all rows, which pandas accepts
    matrix = encode(left, frame, context, output="pandas", ensure_full_rank=False)
    if matrix.shape[1] != 1:
        raise ValueError(
            f"formula: the response {name!r} gives {matrix.shape[1]} columns, expected one; write the column of "
            "labels itself, or one class as {column == 'label'}."
        )
    values = matrix.iloc[:, 0]
    if values.dtype.kind in "iu":  # powers of integers overflow silently
        doubles = encode(left, with_doubles(frame, factors), context, output="pandas", ensure_full_rank=False)
        values = values if np.array_equal(values, doubles.iloc[:, 0]) else doubles.iloc[:, 0]
    return _values(values, name)


def read_response(factors: Sequence[Factor], rows: Rows) -> Shaped[np.ndarray, "n ..."]:
    """Values of a translated response on other rows; see :func:`response_values`."""
    from pandas import Series

    columns = [
        _values(_column(factor.label, rows.frame), factor.label)
        if isinstance(factor.encoding, Column)
        else _values(Series(numbers_of(factor, rows)), factor.label)
        for factor in factors
    ]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def _column(name: str, frame: Any) -> Any:
    if name not in frame:
        raise ValueError(f"formula: {no_column(name, frame.columns)}")
    if frame[name].isna().any():
        refuse_missing([name], frame)
    return frame[name]


def _values(column: Any, name: str) -> Shaped[np.ndarray, " n"]:
    """Numbers or labels of a pandas Series."""
    from pandas.api import types

    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        y = column.to_numpy()
        if not np.all(np.isfinite(y)):
            raise ValueError(f"data: the response {name!r} has infinite values; replace them or leave those rows out.")
        return y
    kind = types.infer_dtype(column, skipna=True)
    if kind not in {"string", "boolean", "categorical"}:
        raise ValueError(f"data: the response {name!r} holds {kind} values; expected numbers, text or categories.")
    y = np.asarray(column)
    return y.astype(str) if all(isinstance(label, str) for label in y) else np.array(list(y))
