"""Resolve numbers of a prior that are given by name, of a column or of a term of the formula."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._typing import Float
from .._validation import listed, shown

__all__ = ["DEFAULT", "check_by_name", "of_columns", "variables_of"]

DEFAULT = "default"
"""Key of the value for all columns without another key."""


def check_by_name(values: Mapping[Any, Any], what: str, check: Callable[[Any, str], Any]) -> None:
    """Raise an error unless every key is a text and ``check`` accepts every value; messages start with ``what``.

    Examples
    --------
    >>> check_by_name({3: 1.0}, "Normal scale", lambda value, name: value)
    Traceback (most recent call last):
    TypeError: Normal scale: expected names of terms or columns as keys, got 3.
    """
    if not values:
        raise ValueError(f"{what}: expected a number for each term or column, got {{}}; give {{'{DEFAULT}': 1.0}}.")
    for name, value in values.items():
        if not isinstance(name, str):
            raise TypeError(f"{what}: expected names of terms or columns as keys, got {shown(name)}.")
        if np.ndim(value):
            raise ValueError(f"{what}[{name!r}]: expected one number, got {shown(value)}.")
        check(value, f"{what}[{name!r}]")


def of_columns(
    values: Mapping[str, Any], names: Sequence[str], terms: Sequence[str] | None, what: str, otherwise: float | None
) -> Float[np.ndarray, " p"]:
    """Value of each column: by its name, by its term, or the default.

    Parameters
    ----------
    values : mapping from name to number
        Values by name of a column or a term; ``"default"`` for the others.
    names : sequence of p str
        The columns.
    terms : sequence of p str, optional
        Term of the formula for each column.
    what : str
        Start of error messages.
    otherwise : float, optional
        Value of columns without a key or default; None raises an error for them.

    Returns
    -------
    array (p,)
        The values.

    Raises
    ------
    ValueError
        If a name is unknown, or a column has no value; the message lists the names.

    Examples
    --------
    >>> of_columns({"rx": 2.0, "default": 1.0}, ["age", "rx[b]", "rx[c]"], ["age", "rx", "rx"], "scale", None).tolist()
    [1.0, 2.0, 2.0]
    """
    by_column = {_plain(name): name for name in names}
    by_term = {} if terms is None else {_plain(term): term for term in terms}
    by_text: dict[str, Any] = {_plain(name): value for name, value in values.items()}
    if len(by_text) < len(values):
        raise ValueError(f"{what}: two of the names {listed(values)} differ by spaces only; leave one out.")
    unknown = [name for name in values if _plain(name) not in {*by_column, *by_term, DEFAULT}]
    if unknown:
        advice = f"the columns are {listed(names)}"
        if terms is not None:
            advice = f"the terms are {listed(dict.fromkeys(terms))}, and {advice}"
        raise ValueError(f"{what}: {listed(unknown)} is not there; {advice}.")
    default = by_text.get(DEFAULT, otherwise)
    numbers = [
        by_text.get(_plain(name), default if terms is None else by_text.get(_plain(terms[d]), default))
        for d, name in enumerate(names)
    ]
    missing = [name for name, value in zip(names, numbers, strict=True) if value is None]
    if missing:
        raise ValueError(
            f"{what}: {listed(missing)} {'has' if len(missing) == 1 else 'have'} none; name every term or column, or "
            f'give {{"{DEFAULT}": ...}} for the others.'
        )
    return np.array(numbers, dtype=np.float64)


def variables_of(term: str) -> frozenset[str]:
    """Parts of a term of a formula, between colons outside brackets and quotes.

    Examples
    --------
    >>> sorted(variables_of("poly(a, 2):Q('b:c')"))
    ["Q('b:c')", 'poly(a, 2)']
    """
    parts, depth, quote = [""], 0, ""
    for mark in term:
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "'\"`":
            quote = mark
        depth += 0 if quote else (mark in "([{") - (mark in ")]}")
        if mark == ":" and not quote and not depth:
            parts.append("")
        else:
            parts[-1] += mark
    return frozenset(part.strip() for part in parts)


def _plain(name: str) -> str:
    return re.sub(r"\s", "", name)
