"""Data frames of any kind as pandas with plain types and names that are text, and factors as 0/1 columns.

Errors name the columns, count the rows and say what to do. formulaic works on pandas, and so do the commands.

What a fit found of its columns, kept with its results, and new rows matched with it: by name, or refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np

from .._stored import stored_count
from .._typing import Float, Shaped
from .._validation import is_table, open_table, text_names
from ..designs import column_names, read_as, with_columns_in

__all__ = [
    "ColumnFacts",
    "RowEncoder",
    "as_frame",
    "column_order",
    "encode_factor",
    "few_filled",
    "in_order",
    "level_name",
    "listed",
    "mostly_zeros",
    "no_column",
    "offset_in",
    "read_alike",
    "refuse_kinds",
    "refuse_missing",
    "response_in",
    "to_pandas",
]


def mostly_zeros(X: Any) -> bool:
    """Whether compressed rows have so many zeros, seven in ten, that an array of them would waste time and memory.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> mostly_zeros(csr_array([[0.0, 0, 0, 1]])), mostly_zeros(csr_array([[0.0, 1]]))
    (True, False)
    """
    return few_filled(X.nnz, X.shape[0] * X.shape[1])


def few_filled(entries: int, cells: int) -> bool:
    """Whether so few of the cells of a matrix are not 0 that it is better kept sparse.

    Examples
    --------
    >>> few_filled(10, 100), few_filled(30, 100)
    (True, False)
    """
    return bool(entries < 0.3 * cells)


def listed(names: Iterable[Any], limit: int = 20) -> str:
    """Names as a message shows them: the first of them, and how many more there are."""
    names = [str(name) for name in names]
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(repr(name) for name in names[:limit]) + more


def no_column(name: str, columns: Iterable[str]) -> str:
    """Say that there is no such column, which one may have been meant, and which there are."""
    close = get_close_matches(name, list(columns), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"no column {name!r}{hint} The columns are {listed(columns)}."


def as_frame(data: Any, name: str = "data", why: str = "") -> Any:
    """Any table as a pandas data frame, with the names and types that it has, or raise.

    Parameters
    ----------
    data : table
        What came; see :mod:`bayesdrop._validation.table`.
    name, why : str
        Argument, and why it is to be a table, for the message.

    Examples
    --------
    >>> as_frame([1.0], "y", "for X is a formula")
    Traceback (most recent call last):
    TypeError: y: expected a data frame or a dict of columns, for X is a formula, got list; name the columns of an array
    by pandas.DataFrame(array, columns=names).
    """
    found = open_table(data, name)
    if not is_table(found):
        raise TypeError(
            f"{name}: expected a data frame or a dict of columns{', ' if why else ''}{why}, got {type(data).__name__}; "
            "name the columns of an array by pandas.DataFrame(array, columns=names)."
        )
    return found.to_pandas()


def to_pandas(data: Any) -> Any:
    """Any table as a pandas data frame with names that are text and plain types, or raise."""
    import pandas as pd
    from pandas.api import types

    frame = as_frame(data)
    text_names(frame.columns, "data")
    frame = frame.rename(columns=str).reset_index(drop=True)
    if len(frame) == 0:
        raise ValueError("data: expected at least one row, got none.")
    plain: dict[str, Any] = {}
    for name, column in frame.items():
        # formulaic knows NumPy's types: other text would be a number to it, and a number of Arrow an object.
        if isinstance(column.dtype, np.dtype | pd.CategoricalDtype):
            continue
        if types.is_string_dtype(column.dtype) or (types.is_bool_dtype(column.dtype) and column.hasnans):
            plain[str(name)] = column.astype(object)
        elif types.is_bool_dtype(column.dtype):
            plain[str(name)] = column.astype(bool)
        elif types.is_numeric_dtype(column.dtype):
            whole = types.is_integer_dtype(column.dtype) and not column.hasnans
            plain[str(name)] = column.astype(np.int64 if whole else np.float64)
    return frame.assign(**plain)


def refuse_missing(names: list[str], frame: Any, more: str = "") -> None:
    """Raise ValueError if one of these columns has missing values, with their numbers and ``more`` of what to do."""
    missing = frame[names].isna().sum()
    missing = missing[missing > 0]
    if len(missing):
        counts = ", ".join(f"{name!r} ({count} of {len(frame)} rows)" for name, count in missing.items())
        raise ValueError(f"data: missing values in {counts}; fill them in, or leave those rows out{more}.")


def refuse_kinds(names: list[str], frame: Any) -> None:
    """Raise ValueError if one of these columns holds neither numbers nor text, truth values or categories."""
    from pandas.api import types

    for name in names:
        kind = types.infer_dtype(frame[name], skipna=True)
        if kind not in {"string", "boolean", "categorical", "integer", "floating", "mixed-integer-float"}:
            raise ValueError(
                f"data: column {name!r} holds {kind} values, neither numbers nor text; turn it into numbers or text."
            )


def level_name(column: str, level: Any) -> str:
    """Name of the 0/1 column of a level, as formulas have it.

    Examples
    --------
    >>> level_name("color", "red")
    'color[red]'
    """
    return f"{column}[{level}]"


def encode_factor(column: Any) -> tuple[Any, list[str]]:
    """One 0/1 column for every level of a factor, and the names of the levels.

    Levels stand in the order of a categorical column, those that no row has left out, or else in that of their text.

    Parameters
    ----------
    column : pandas.Series (n,)
        Text, categories or truth values, none missing.

    Returns
    -------
    indicators : scipy.sparse.csr_array (n, levels)
        As a formula encodes the same column.
    levels : list of str
        Names of the levels.

    Raises
    ------
    ValueError
        If the column holds anything else; the message is the kind of what it holds.

    Examples
    --------
    >>> import pandas as pd
    >>> indicators, levels = encode_factor(pd.Series(["red", "blue"]))
    >>> indicators.toarray().tolist(), levels
    ([[0.0, 1.0], [1.0, 0.0]], ['blue', 'red'])
    """
    import pandas as pd
    from pandas.api import types
    from scipy.sparse import csr_array

    kind = types.infer_dtype(column, skipna=True)
    if kind not in {"string", "boolean", "categorical"}:
        raise ValueError(kind)
    if kind == "categorical":
        used = column.cat.remove_unused_categories()
        codes, levels = used.cat.codes.to_numpy(), [str(level) for level in used.cat.categories]
    else:
        codes, found = pd.factorize(np.array([str(value) for value in column], dtype=object), sort=True)
        levels = list(found)
    n = len(codes)
    return csr_array((np.ones(n), (np.arange(n), codes)), shape=(n, len(levels))), levels


_NAMED, _ZERO_BASED = "has_names", "zero_based"
# Names that a message lists.
_LISTED = 5


class RowEncoder(Protocol):
    """Protocol of what makes features, offset and response of a user's columns: a formula."""

    @property
    def formula(self) -> str:
        """The formula."""

    def to_json(self) -> str:
        """All of it as text; raise ValueError where text cannot say it."""

    def transform(self, data: Any) -> Any:
        """Features of rows, (m, p)."""

    def offset_of(self, data: Any) -> Float[np.ndarray, " m"] | None:
        """Known parts of their scores, (m,), or None."""

    def response_of(self, data: Any) -> Shaped[np.ndarray, "m ..."] | None:
        """Their responses; None where the table has none."""


@dataclass(frozen=True)
class ColumnFacts:
    """What a fit found of its columns beside their names.

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
    told = f"missing: {missing[:_LISTED]}, unknown: {strange[:_LISTED]}" if strange or missing else "in another order"
    lines = [f"{argument}: expected the {len(names)} columns of the fit, got {len(columns)}; {told}."]
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
