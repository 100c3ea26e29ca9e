"""Store facts about the columns of a fit with its results, and match new rows by them.

A table of the columns that a formula names is encoded by the formula.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._stored import stored_count
from ..designs import column_names, is_table_in_memory, read_as, with_columns_in
from .frames import SHOWN, as_frame

__all__ = [
    "ColumnFacts",
    "RowEncoder",
    "column_order",
    "complete_rows",
    "in_order",
    "offset_in",
    "read_alike",
    "response_in",
]

_NAMED, _ZERO_BASED = "has_names", "zero_based"


@runtime_checkable
class RowEncoder(Protocol):
    """Protocol of a formula, which makes features, offset and response from a user's columns."""

    @property
    def formula(self) -> str:
        """The formula."""

    @property
    def encoder(self) -> Any:
        """:class:`.formulas.encoder.FormulaEncoder`; raise ValueError if the formula cannot be read."""

    def takes_only(self, names: Sequence[str]) -> bool:
        """Whether the terms need exactly these columns; False if the formula cannot be read."""

    def to_json(self) -> str:
        """Text of the whole formula; raise ValueError if it cannot be stored as text."""


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about the columns of a fit besides their names.

    Attributes
    ----------
    has_names : bool
        True if the user named the columns; False if they have the names ``x0, x1, …`` by default.
    zero_based : bool or None
        Whether the indices of svmlight files begin at 0 rather than 1; None for other features.
    formula : RowEncoder or None
        Formula that made the features from the columns of a table, if any.
    """

    has_names: bool = True
    zero_based: bool | None = None
    formula: RowEncoder | None = field(default=None, repr=False, compare=False)

    def encoder_of(self, X: Any, names: Sequence[str]) -> Any:
        """Encoder of the fit's formula, if ``X`` is a table of its columns rather than of the features ``names``.

        If its terms are columns, the features have the names of the columns: a table in memory is then of columns,
        because the formula also says which rows to leave out, and the offset.
        """
        columns = None if self.formula is None else column_names(X)
        if self.formula is None or columns is None:
            return None
        of_features = not (is_table_in_memory(X) and self.formula.takes_only(names))
        return None if of_features and set(columns) == set(names) else self.formula.encoder

    def attributes(self) -> dict[str, int]:
        """Attributes of a dataset that :meth:`stored` reads.

        Examples
        --------
        >>> ColumnFacts(has_names=False, zero_based=True).attributes()
        {'has_names': 0, 'zero_based': 1}
        """
        flags = {_NAMED: self.has_names, _ZERO_BASED: self.zero_based}
        return {name: int(value) for name, value in flags.items() if value is not None}

    @classmethod
    def stored(cls, attrs: Mapping[str, Any]) -> ColumnFacts:
        """Read the facts that :meth:`attributes` wrote to a dataset; without an attribute, columns have names.

        Raises
        ------
        ValueError
            If an attribute is neither 0 nor 1.

        Examples
        --------
        >>> ColumnFacts.stored({"has_names": 0})
        ColumnFacts(has_names=False, zero_based=None)
        """
        flags = {name: stored_count(attrs[name], name) for name in (_NAMED, _ZERO_BASED) if name in attrs}
        if max(flags.values(), default=0) > 1:
            raise ValueError(f"expected 0 or 1, got {flags}")
        zero_based = flags.get(_ZERO_BASED)
        return cls(bool(flags.get(_NAMED, True)), None if zero_based is None else bool(zero_based))


def complete_rows(
    X: Any, names: Sequence[str], facts: ColumnFacts, *values: Any, with_response: bool = True
) -> tuple[Any, ...]:
    """Drop the rows that a fit by ``dropna=True`` leaves out from a table, and from values for each row.

    Other features do not change, nor do values that exist for the remaining rows only.

    Examples
    --------
    >>> complete_rows({"a": [1.0, 2.0]}, ["a"], ColumnFacts(), [3.0, 4.0])
    ({'a': [1.0, 2.0]}, [3.0, 4.0])
    """
    formula = facts.encoder_of(X, names)
    mask = None if formula is None else formula.complete_rows(X, with_response=with_response)
    if mask is None:
        return (X, *values)
    whole = [np.ndim(one) > 0 and len(one) == len(mask) for one in values]
    return as_frame(X, "X")[mask], *(np.asarray(one)[mask] if w else one for one, w in zip(values, whole, strict=True))


def read_alike(X: Any, names: Sequence[str], facts: ColumnFacts) -> Any:
    """Return new rows unchanged, or read svmlight files with the first index and number of features of a fit.

    Raises
    ------
    ValueError
        If the files do not fit these features.
    """
    return read_as(X, len(names), facts.zero_based)


def column_order(
    X: Any, names: Sequence[str], facts: ColumnFacts, name: str = "X", *, any_order: bool = True
) -> list[int] | None:
    """Positions of the columns of a fit in new rows; None if they are in order, or the new rows have no names.

    If the fit had no names, new rows may have any names and any number of columns; default names in another order,
    such as ``x1, x0``, are put in order.

    Parameters
    ----------
    X : features
        New rows.
    names : sequence of p str
        Columns of the fit.
    facts : ColumnFacts
        Other facts about these columns.
    name : str
        Argument, for messages.
    any_order : bool
        Whether columns in another order are accepted, or raise the error of scikit-learn.

    Raises
    ------
    ValueError
        If some are missing, unknown or, unless ``any_order``, in another order.

    Examples
    --------
    >>> column_order({"b": [1], "a": [2]}, ["a", "b"], ColumnFacts())
    [1, 0]
    >>> column_order({"b": [1], "a": [2]}, ["x0", "x1"], ColumnFacts(has_names=False)) is None
    True
    """
    columns = column_names(X, name)
    if columns is None or columns == list(names):
        return None
    place = {column: j for j, column in enumerate(columns)}
    name_lists = [list(names)]
    if not facts.has_names:
        # The labels that pandas gives to columns without names count as default names.
        name_lists.append([str(d) for d in range(len(names))])
    for one in name_lists:
        if place.keys() == set(one):
            if not any_order:
                raise ValueError(_refusal(columns, one, name, any_order))
            return [place[name] for name in one]
    if not facts.has_names and not any(place.keys() & set(one) for one in name_lists):
        return None
    raise ValueError(_refusal(columns, list(names), name, any_order))


def in_order(X: Any, names: Sequence[str], facts: ColumnFacts, name: str = "X") -> Any:
    """Return new rows in memory with their columns in the order of a fit; see :func:`column_order`.

    A table of the columns that the fit's formula names is encoded by it.

    Examples
    --------
    >>> in_order({"b": [1], "a": [2]}, ["a", "b"], ColumnFacts()).to_numpy().tolist()
    [[2, 1]]
    """
    formula = facts.encoder_of(X, names)
    if formula is not None:
        return formula.transform(X)
    return with_columns_in(X, column_order(X, names, facts, name), name)


def offset_in(X: Any, names: Sequence[str], facts: ColumnFacts, offset: Any) -> Any:
    """Return the offset passed with new rows, or the one that the formula of a fit reads from their columns.

    Examples
    --------
    >>> offset_in({"days": [1.0]}, ["age"], ColumnFacts(), 0.5)
    0.5
    """
    formula = facts.encoder_of(X, names) if offset is None else None
    return offset if formula is None else formula.offset_of(X)


def response_in(X: Any, names: Sequence[str], facts: ColumnFacts, y: Any) -> Any:
    """Return the responses passed with rows, or those that the formula of a fit reads from their columns.

    Examples
    --------
    >>> response_in({"age": [1.0]}, ["age"], ColumnFacts(), [2.0])
    [2.0]
    """
    formula = facts.encoder_of(X, names) if y is None else None
    return y if formula is None else formula.response_of(X)


def _refusal(columns: list[str], names: list[str], argument: str, any_order: bool) -> str:
    """Message for wrong names; if their order matters, with the words that scikit-learn's checks require."""
    unknown, missing = sorted(set(columns) - set(names)), sorted(set(names) - set(columns))
    difference = (
        f"missing: {missing[: SHOWN.few]}, unknown: {unknown[: SHOWN.few]}"
        if unknown or missing
        else "in another order"
    )
    lines = [f"{argument}: expected the {len(names)} columns of the fit, got {len(columns)}; {difference}."]
    if any_order:
        return f"{lines[0]} Give the same columns, in any order."
    lines.append("The feature names should match those that were passed during fit.")
    for heading, group in (
        ("Feature names unseen at fit time:", unknown),
        ("Feature names seen at fit time, yet now missing:", missing),
    ):
        if group:
            lines += [
                heading,
                *(f"- {name}" for name in group[: SHOWN.few]),
                *["- ..."] * (len(group) > SHOWN.few),
            ]
    if not (unknown or missing):
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(lines) + "\n"
