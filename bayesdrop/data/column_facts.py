"""Facts about the columns of a fit, stored with its results, by which new rows are matched or refused.

A table of the columns that a formula names is encoded by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._stored import stored_count
from .._typing import Bool, Float, Shaped
from ..designs import column_names, read_as, with_columns_in
from .frames import as_frame

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
# Names that a message lists.
_LISTED = 5


@runtime_checkable
class RowEncoder(Protocol):
    """Protocol of what makes features, offset and response of a user's columns: a formula."""

    @property
    def formula(self) -> str:
        """The formula."""

    @property
    def classes(self) -> Shaped[np.ndarray, " 2"] | None:
        """Names of the two classes, the positive one last, if it names them; else None."""

    def to_json(self) -> str:
        """All of it as text; raise ValueError where text cannot say it."""

    def complete_rows(self, data: Any, *, with_response: bool) -> Bool[np.ndarray, " m"] | None:
        """The rows that have all values, if rows that lack some are to be left out; else None."""

    def transform(self, data: Any) -> Any:
        """Features of rows, (m, p)."""

    def offset_of(self, data: Any) -> Float[np.ndarray, " m"] | None:
        """Known parts of their scores, (m,), or None."""

    def response_of(self, data: Any) -> Shaped[np.ndarray, "m ..."] | None:
        """Their responses; None where the table has none."""


@dataclass(frozen=True)
class ColumnFacts:
    """What a fit found of its columns besides their names.

    Attributes
    ----------
    has_names : bool
        True if the user named the columns; False if they are called ``x0, x1, …`` for want of names.
    zero_based : bool or None
        Whether the indices of svmlight files begin at 0 rather than 1; None of features from elsewhere.
    formula : RowEncoder or None
        What made the features of the columns of a table, if a formula did.
    """

    has_names: bool = True
    zero_based: bool | None = None
    formula: RowEncoder | None = field(default=None, repr=False, compare=False)

    def encoder_of(self, X: Any, names: Sequence[str]) -> RowEncoder | None:
        """The formula, if ``X`` is a table of the columns that it names and not one of the features ``names``."""
        columns = None if self.formula is None else column_names(X)
        return None if columns is None or set(columns) == set(names) else self.formula

    def attributes(self) -> dict[str, int]:
        """Attributes of a dataset that :meth:`stored` reads.

        Examples
        --------
        >>> ColumnFacts(has_names=False, zero_based=True).attributes()
        {'has_names': 0, 'zero_based': 1}
        """
        known = {_NAMED: self.has_names, _ZERO_BASED: self.zero_based}
        return {name: int(value) for name, value in known.items() if value is not None}

    @classmethod
    def stored(cls, attrs: Mapping[str, Any]) -> ColumnFacts:
        """What :meth:`attributes` put into a dataset; names count as given where nothing is said of them.

        Raises
        ------
        ValueError
            If an attribute is neither 0 nor 1.

        Examples
        --------
        >>> ColumnFacts.stored({"has_names": 0})
        ColumnFacts(has_names=False, zero_based=None)
        """
        found = {name: stored_count(attrs[name], name) for name in (_NAMED, _ZERO_BASED) if name in attrs}
        if max(found.values(), default=0) > 1:
            raise ValueError(f"expected 0 or 1, got {found}")
        zero_based = found.get(_ZERO_BASED)
        return cls(bool(found.get(_NAMED, True)), None if zero_based is None else bool(zero_based))


def complete_rows(
    X: Any, names: Sequence[str], facts: ColumnFacts, *values: Any, with_response: bool = True
) -> tuple[Any, ...]:
    """A table without the rows that a fit by ``dropna=True`` leaves out, and values for each row without theirs.

    Other features are unchanged, as are values that there are for the rows left alone.

    Examples
    --------
    >>> complete_rows({"a": [1.0, 2.0]}, ["a"], ColumnFacts(), [3.0, 4.0])
    ({'a': [1.0, 2.0]}, [3.0, 4.0])
    """
    formula = facts.encoder_of(X, names)
    kept = None if formula is None else formula.complete_rows(X, with_response=with_response)
    if kept is None:
        return (X, *values)
    whole = [np.ndim(one) > 0 and len(one) == len(kept) for one in values]
    return as_frame(X, "X")[kept], *(np.asarray(one)[kept] if w else one for one, w in zip(values, whole, strict=True))


def read_alike(X: Any, names: Sequence[str], facts: ColumnFacts) -> Any:
    """New rows as they are; those of svmlight files are read by the first index and the number of features of a fit.

    Raises
    ------
    ValueError
        If the files cannot be read so.
    """
    return read_as(X, len(names), facts.zero_based)


def column_order(
    X: Any, names: Sequence[str], facts: ColumnFacts, name: str = "X", *, any_order: bool = True
) -> list[int] | None:
    """Where the columns of a fit stand in new rows; None if they stand in order, or the new rows have no names.

    Where the fit had no names, new rows may have names of their own, in any number of columns; names that would do for
    other columns of the fit, such as ``x1, x0``, put them in order.

    Parameters
    ----------
    X : features
        New rows.
    names : sequence of p str
        Columns of the fit.
    facts : ColumnFacts
        What else it found of them.
    name : str
        Argument, for messages.
    any_order : bool
        Whether columns in another order are taken, or refused as scikit-learn refuses them.

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
    known = [list(names)]
    if not facts.has_names:
        # The labels that pandas gives to columns without names stand for the same.
        known.append([str(d) for d in range(len(names))])
    for one in known:
        if place.keys() == set(one):
            if not any_order:
                raise ValueError(_refusal(columns, one, name, any_order))
            return [place[name] for name in one]
    if not facts.has_names and not any(place.keys() & set(one) for one in known):
        return None
    raise ValueError(_refusal(columns, list(names), name, any_order))


def in_order(X: Any, names: Sequence[str], facts: ColumnFacts, name: str = "X") -> Any:
    """New rows in memory with their columns as a fit has them; see :func:`column_order`.

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
    """The offset that came with new rows, or else what the formula of a fit reads from their columns.

    Examples
    --------
    >>> offset_in({"days": [1.0]}, ["age"], ColumnFacts(), 0.5)
    0.5
    """
    formula = facts.encoder_of(X, names) if offset is None else None
    return offset if formula is None else formula.offset_of(X)


def response_in(X: Any, names: Sequence[str], facts: ColumnFacts, y: Any) -> Any:
    """The responses that came with rows, or else what the formula of a fit reads from their columns.

    Examples
    --------
    >>> response_in({"age": [1.0]}, ["age"], ColumnFacts(), [2.0])
    [2.0]
    """
    formula = facts.encoder_of(X, names) if y is None else None
    return y if formula is None else formula.response_of(X)


def _refusal(columns: list[str], names: list[str], argument: str, any_order: bool) -> str:
    """What is wrong with names; where their order counts, in the words that scikit-learn's checks ask for as well."""
    strange, missing = sorted(set(columns) - set(names)), sorted(set(names) - set(columns))
    difference = (
        f"missing: {missing[:_LISTED]}, unknown: {strange[:_LISTED]}" if strange or missing else "in another order"
    )
    lines = [f"{argument}: expected the {len(names)} columns of the fit, got {len(columns)}; {difference}."]
    if any_order:
        return f"{lines[0]} Give the same columns, in any order."
    lines.append("The feature names should match those that were passed during fit.")
    for heading, some in (
        ("Feature names unseen at fit time:", strange),
        ("Feature names seen at fit time, yet now missing:", missing),
    ):
        if some:
            lines += [heading, *(f"- {name}" for name in some[:_LISTED]), *["- ..."] * (len(some) > _LISTED)]
    if not (strange or missing):
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(lines) + "\n"
