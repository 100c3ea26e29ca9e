"""The response of a table: classes or numbers, told by its values and by the loss that is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .columns import Column, Reading, column_of, known_labels
from .encoding import numbers
from .table_files import InputError

__all__ = ["check_target", "response_column", "response_of"]

# Whole numbers of so many values are classes unless a loss for numbers is asked for.
_MOST_CODES = 10


def response_column(column: Any, target: str, reading: Reading, mark: str = "", separator: str = "") -> Column:
    """The column of the response, as :func:`.column_of` reads others, but NA among classes is none.

    Examples
    --------
    >>> import pandas as pd
    >>> response_column(pd.Series(["yes", "NA", "None"]), "ill", Reading()).values.tolist()
    ['yes', None, 'None']
    """
    found = column_of(column, target, reading, mark, separator)
    if found.kind != "categories" or target in reading.types:
        return found
    values = known_labels(found.values)
    return replace(found, values=values, marks=[*found.marks, *found.values[values.isna()].dropna().unique()])


def response_of(found: Column, target: str, wanted: str) -> tuple[np.ndarray, int, list[str]]:
    """The response, its number of classes (0 of a number), and notes."""
    from pandas.api import types

    column = found.values
    if wanted == "number" and found.kind != "number":
        raise InputError(f"--target: a loss for numbers needs a column of numbers, got {target!r} of {found.kind}.")
    if found.kind != "number":
        y = check_target(np.array([str(label) for label in column]), "--target", target, several=True)
        return y, len(np.unique(y)), []
    y = column.to_numpy(dtype=float if types.is_float_dtype(column.dtype) else None)
    values = np.unique(y[np.isfinite(y.astype(float))])
    codes = len(values) <= 2 or (len(values) <= _MOST_CODES and bool(np.all(values == np.round(values))))
    if wanted == "number" or (wanted == "auto" and not codes):
        y = numbers(column, target)
        if np.all(y == y[0]):
            raise InputError(f"--target: {target!r} is {y[0]:g} in every row, so there is nothing to explain.")
        return y, 0, []
    y = check_target(y, "--target", target, several=True)
    notes = []
    if wanted == "auto" and len(values) > 2:
        notes = [f"{target!r} has {len(values)} whole numbers: classes. --loss squared takes it for a number."]
    return y, len(values), notes


def check_target(y: np.ndarray, option: str, name: str = "the labels", *, several: bool = False) -> np.ndarray:
    """Return the labels, as text unless they are numbers; raise InputError unless there are two classes, or several."""
    numeric = y.dtype.kind in "iuf"
    y = y if numeric else np.array([str(label) for label in y])
    if numeric and not np.all(np.isfinite(y)):
        raise InputError(f"{option}: {name} has missing values; leave out such rows.")
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) == 2 or (several and 2 < len(classes) <= max(len(y) // 2, 2)):
        return y
    pairs = zip(classes[:6], counts[:6], strict=True)
    found = ", ".join(f"{label} ({count} row{'s' if count > 1 else ''})" for label, count in pairs)
    more = "" if len(classes) <= 6 else f" and {len(classes) - 6} more"
    if len(classes) == 1:
        advice = "give a table with rows of both classes."
    elif several:
        advice = "most rows have a class of their own; name the column of the response."
    elif numeric and len(classes) > 20:
        advice = "it looks like a measurement: cut it into two classes first."
    else:
        advice = (
            "write a column that is true for one class, or use DropoutSVC or DropoutLogisticRegression in Python, "
            "which solve one class against the rest."
        )
    wanted = "classes of several rows each" if several and len(classes) > 2 else "two classes"
    raise InputError(f"{option}: expected {wanted} in {name!r}, got {len(classes)}: {found}{more}; {advice}")
