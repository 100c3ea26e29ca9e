"""Compute the features of rows by the language of :mod:`.nodes`: NumPy's arithmetic on arrays, and nothing else.

Every intermediate array holds doubles or truth values, one for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import md5
from typing import Any

import numpy as np

from ...._typing import Bool, Float, Int, Num, Shaped
from ...._validation import listed
from ...frames import SHOWN, no_column, refuse_missing
from ...levels import KnownLevels
from .encoding import QUESTIONS, columns_asked, hashed_texts, levels_listed
from .limits import FUNCTIONS
from .nodes import (
    Apply,
    BSpline,
    Column,
    CubicSpline,
    Factor,
    Hashed,
    Levels,
    Match,
    Number,
    Outside,
    Polynomial,
    Product,
    Term,
    columns_needed,
    walk,
)  # fmt: skip
from .splines import columns_of_spline

__all__ = ["Rows", "encode_terms", "evaluate", "numbers_of"]

# Functions that formulaic computes on truth values; the others convert them to 0 and 1.
_OF_BOOLEANS = {name for name, f in FUNCTIONS.items() if {"?->?", "??->?"} & set(getattr(f, "types", ("??->?",)))}
_ADVICE = ', take dropna=True, or missing="nan" (of bd.Model, for bd.fit)'


class Rows:
    """Columns of a data frame as arrays, and the treatment of missing values and unseen levels.

    Parameters
    ----------
    frame : pandas.DataFrame (n, ·)
        The rows.
    missing : None or "nan"
        Whether missing values raise an error or become NaN.
    unseen : "error", "population" or "draw"
        Whether an unseen level of a factor raises an error; for "population" the row has no level instead.
    run : callable, optional
        Values (n, k) of an :class:`.nodes.Outside` on the frame, in the session that made it.
    """

    def __init__(
        self,
        frame: Any,
        missing: str | None = None,
        unseen: str = "error",
        run: Callable[[Outside, Any, str], Any] | None = None,
    ) -> None:
        self.frame, self.missing, self.unseen = frame, missing, unseen
        self._run = run
        self._codes: dict[Any, tuple[Int[np.ndarray, " n"], Shaped[np.ndarray, " n"]]] = {}

    def __len__(self) -> int:
        return len(self.frame)

    def numbers(self, name: str) -> Num[np.ndarray, " n"]:
        """A column of numbers as doubles, or of truth values unchanged; raise ValueError on any other column."""
        values = np.asarray(self._column(name))
        if values.dtype.kind == "O":
            is_missing = self.is_missing(name)
            if not all(isinstance(value, bool | int | float | np.number | np.bool_) for value in values[~is_missing]):
                raise ValueError(_unfit(f"column {name!r} has text where the formula takes numbers."))
            values = np.where(is_missing, np.nan, values).astype(np.float64)
        if values.dtype.kind not in "biuf":
            raise ValueError(_unfit(f"column {name!r} has values of type {values.dtype}, expected numbers."))
        return values if values.dtype.kind == "b" else values.astype(np.float64)

    def values(self, name: str) -> Shaped[np.ndarray, " n"]:
        """Values of a column as Python objects, None where they are missing."""
        values = self._column(name).astype(object).to_numpy(copy=True)
        values[self.is_missing(name)] = None
        return np.asarray(values)

    def is_missing(self, name: str) -> Shaped[np.ndarray, " n"]:
        """Whether the values of a column are missing."""
        return np.asarray(self._column(name).isna(), dtype=bool)

    def gaps(self, node: Any) -> Shaped[np.ndarray, " n"]:
        """Rows in which an expression is missing, because a column is that it does not ask about.

        Raises
        ------
        ValueError
            If there are such rows and ``missing`` does not allow them.
        """
        is_missing = np.zeros(len(self), dtype=bool)
        names = sorted(columns_needed(node) - _columns_asked(node))
        for name in names:
            is_missing |= self.is_missing(name)
        if self.missing is None and is_missing.any():
            refuse_missing(names, self.frame, _ADVICE)
        return is_missing

    def run(self, node: Outside) -> Any:
        """Values (n, k) of Python code, csr; raise ValueError in another session."""
        if self._run is None:
            raise ValueError(
                f"it has {node.text!r}, which is Python code and runs only in the session that made the formula"
            )
        self.gaps(node)  # before an error of the code on missing values
        return self._run(node, self.frame, self.unseen)

    def codes(self, node: Levels | Hashed) -> tuple[Int[np.ndarray, " n"], Shaped[np.ndarray, " n"]]:
        """Number of the level of each row, −1 if it has none, and whether it is missing.

        Raises
        ------
        ValueError
            If a level is unseen or missing, and ``unseen`` or ``missing`` do not allow it.
        """
        key = (node.column, node.count) if isinstance(node, Hashed) else (node.argument, node.levels)
        if key not in self._codes:
            self._codes[key] = self._hashed(node) if isinstance(node, Hashed) else self._known(node)
        return self._codes[key]

    def _hashed(self, node: Hashed) -> tuple[Int[np.ndarray, " n"], Shaped[np.ndarray, " n"]]:
        is_missing, texts = self.gaps(node), hashed_texts(self._column(node.column))
        place = {
            text: int(md5(text.encode(), usedforsecurity=False).hexdigest(), 16) % node.count
            for text in dict.fromkeys(texts)
        }
        code = np.array([place[text] for text in texts], dtype=np.int64)
        code[is_missing] = -1
        return code, is_missing

    def _known(self, node: Levels) -> tuple[Int[np.ndarray, " n"], Shaped[np.ndarray, " n"]]:
        argument = node.argument
        if isinstance(argument, Outside):
            indicators = self.run(argument).tocsr()
            filled = (np.diff(indicators.indptr) > 0) & ~self.gaps(argument)
            code = np.full(len(self), -1)
            code[filled] = indicators.indices[indicators.indptr[:-1][filled]]
            is_missing = ~filled
            if self.unseen == "population":  # values that code makes of complete columns are unseen levels
                is_missing &= self.gaps(argument)
            return code, self._allowed(argument, is_missing)
        if isinstance(argument, Column):
            values, is_missing = self.values(argument.name), self.gaps(argument)
        else:
            values = evaluate(argument, self)
            is_missing = np.isnan(values)
        try:
            code = KnownLevels(node.levels).codes(values.tolist())
        except TypeError:
            raise ValueError(_unfit(f"the levels of {_shown(argument)} are neither numbers nor text.")) from None
        code[is_missing] = -1
        unseen = (code < 0) & ~is_missing
        if unseen.any() and self.unseen != "population":
            no_scale = "; a fixed factor has no scale to draw an effect from, as (1 | site) has"
            raise ValueError(
                f"data: {int(unseen.sum())} of {len(self)} rows have levels of {_shown(argument)} that the formula "
                f"has not seen: {levels_listed(dict.fromkeys(values[unseen].tolist()), SHOWN.few)}; known are "
                f"{levels_listed(node.levels, SHOWN.levels)}. Leave those rows out, recode them, name all levels in "
                'the first data, as in pandas.Categorical(values, categories=[...]), or take unseen="population", by '
                f"which such a row has no level of this factor{no_scale if self.unseen == 'draw' else ''}."
            )
        return code, self._allowed(argument, is_missing)

    def _allowed(self, argument: Any, is_missing: Bool[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Return whether levels are missing; raise ValueError if some are and ``missing`` does not allow it."""
        if is_missing.any() and self.missing is None:
            refuse_missing(sorted(columns_needed(argument)), self.frame, _ADVICE)
            raise ValueError(f"data: {_shown(argument)} has no value in some rows; leave those rows out.")
        return is_missing

    def _column(self, name: str) -> Any:
        if name not in self.frame:
            raise ValueError(f"data: {no_column(name, self.frame.columns)} The formula needs {name!r}.")
        return self.frame[name]


def encode_terms(terms: Sequence[Term], rows: Rows, *, sparse: bool) -> Any:
    """Features (n, p) of rows, csr or an array.

    Raises
    ------
    ValueError
        If a column is absent or has the wrong type, or values are missing or levels unseen and that is not allowed.

    Examples
    --------
    >>> import pandas as pd
    >>> from .nodes import Coding
    >>> site = Factor("site", Levels(Column("site"), ("n", "s"), Coding((0, 1), ())))
    >>> term = Term("site:age", ("site[n]:age", "site[s]:age"), (Product((site, Factor("age", Column("age")))),))
    >>> encode_terms([term], Rows(pd.DataFrame({"age": [3, 5], "site": ["s", "n"]})), sparse=False).tolist()
    [[0.0, 3.0], [5.0, 0.0]]
    """
    parts: list[tuple[Any, Any]] = []
    gaps: list[tuple[Any, slice]] = []
    start = 0
    with np.errstate(all="ignore"):
        for term in terms:
            first = start
            for product in term.products:
                place, value = _product(product, rows)
                parts.append((np.where(place < 0, -1, place + start), value))
                # A missing number makes all columns of the product missing, also those of other levels.
                gaps.append((np.isnan(value).any(axis=1), slice(start, start + product.width)))
                start += product.width
            if not sparse:
                gaps.append((_without_level(term, rows), slice(first, start)))
    X = _compressed(parts, gaps, len(rows), start)
    return X if sparse else X.toarray()


def _compressed(parts: list[tuple[Any, Any]], gaps: list[tuple[Any, slice]], n: int, p: int) -> Any:
    from scipy.sparse import coo_array, csr_array

    place = np.concatenate([np.empty((n, 0), dtype=np.int64), *(part for part, _ in parts)], axis=1)
    value = np.concatenate([np.empty((n, 0)), *(part for _, part in parts)], axis=1)
    filled = (place >= 0) & (value != 0) & ~np.isnan(value)
    starts = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
    X = csr_array((value[filled], place[filled], starts), shape=(n, p))
    cells = [
        np.meshgrid(np.flatnonzero(is_missing), np.arange(p)[columns])
        for is_missing, columns in gaps
        if is_missing.any()
    ]
    if cells:
        row, column = (np.concatenate([cell[k].ravel() for cell in cells]) for k in (0, 1))
        X = csr_array(X + coo_array((np.full(len(row), np.nan), (row, column)), shape=(n, p)))
    X.sort_indices()
    return X


def _product(product: Product, rows: Rows) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    """Column of each entry of each row, −1 for none, and the entries."""
    place, value = np.zeros((len(rows), 1), dtype=np.int64), np.ones((len(rows), 1))
    width = 1
    for factor in product.factors:
        column, entry = _factor(factor, rows)
        column = column[:, :, None]
        place = np.where((column < 0) | (place[:, None, :] < 0), -1, column * width + place[:, None, :])
        value = entry[:, :, None] * value[:, None, :]
        place, value = place.reshape(len(rows), -1), value.reshape(len(rows), -1)
        width *= factor.width
    return place, value


def _factor(factor: Factor, rows: Rows) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    node, n = factor.encoding, len(rows)
    if isinstance(node, Levels | Hashed):
        code, _ = rows.codes(node)
        if not node.coding.matrix:
            column = np.full(node.count + 1, -1)
            column[list(node.coding.places)] = np.arange(node.width)
            return column[code][:, None], np.ones((n, 1))
        columns = np.where(code[:, None] < 0, -1, np.arange(node.width))
        return columns, np.array(node.coding.matrix)[code]
    if isinstance(node, Outside):
        values = _present(node, _dense(rows.run(node), node), rows)
    elif isinstance(node, Polynomial | BSpline | CubicSpline):
        x = _floats(evaluate(node.argument, rows))
        values = columns_of_spline(node, x, factor.label)
    else:
        values = _floats(evaluate(node, rows))[:, None]
    _check_present(factor, values, rows)
    return np.broadcast_to(np.arange(values.shape[1]), values.shape), values


def _check_present(factor: Factor, values: Num[np.ndarray, ...], rows: Rows) -> None:
    """Raise ValueError if values are missing and that is not allowed."""
    if rows.missing is None and np.isnan(values).any():
        refuse_missing(
            [name for name in rows.frame.columns if name in columns_needed(factor.encoding)], rows.frame, _ADVICE
        )
        raise ValueError(
            f"data: {factor.label!r} is not a number in some rows, though its columns are complete; leave those rows "
            "out, or use another function."
        )


def numbers_of(factor: Factor, rows: Rows) -> Num[np.ndarray, " n"]:
    """Values of a factor of one column, such as an offset, without missing values."""
    complete = Rows(rows.frame, None, rows.unseen, rows._run)
    values = evaluate(factor.encoding, complete)
    _check_present(factor, values, complete)
    return values


def _dense(values: Any, node: Outside) -> Float[np.ndarray, "n k"]:
    matrix = np.asarray(values.toarray(), dtype=np.float64)
    if matrix.shape[1] < node.width:
        raise ValueError(f"data: {node.text!r} gives {matrix.shape[1]} columns, expected {node.width}.")
    return matrix[:, matrix.shape[1] - node.width :]


def _without_level(term: Term, rows: Rows) -> Shaped[np.ndarray, " n"]:
    """Rows in which the level of a factor is missing, which makes all columns of an array missing."""
    is_missing = np.zeros(len(rows), dtype=bool)
    for factor in (factor for product in term.products for factor in product.factors):
        if rows.missing is not None and isinstance(factor.encoding, Levels | Hashed):
            is_missing |= rows.codes(factor.encoding)[1]
    return is_missing


def evaluate(node: Any, rows: Rows) -> Num[np.ndarray, " n"]:
    """Values of an expression, doubles or truth values, one for each row.

    Examples
    --------
    >>> import pandas as pd
    >>> from .nodes import Apply
    >>> rows = Rows(pd.DataFrame({"dose": [1, 4]}))
    >>> evaluate(Apply("sqrt", (Column("dose"),)), rows).tolist(), evaluate(Number(2.0), rows).tolist()
    ([1.0, 2.0], [2.0, 2.0])
    """
    if isinstance(node, Outside):
        return _present(node, _dense(rows.run(node), node)[:, 0], rows)
    with np.errstate(all="ignore"):
        return _present(node, np.broadcast_to(_evaluate(node, rows), (len(rows),)), rows)


def _present(node: Any, values: Num[np.ndarray, "n ..."], rows: Rows) -> Num[np.ndarray, "n ..."]:
    """Values of an expression, NaN where a column is missing that it does not ask about, as in R."""
    gaps = rows.gaps(node)
    if gaps.any():
        values = _floats(values).copy()
        values[gaps] = np.nan
    return values


def _columns_asked(node: Any) -> set[str]:
    """Columns about whose missing values an expression asks."""
    asked = set()
    for part in walk(node):
        if isinstance(part, Apply) and part.function in QUESTIONS:
            asked |= columns_needed(part)
        elif isinstance(part, Outside):
            asked |= columns_asked(part.text)
    return asked


def _evaluate(node: Any, rows: Rows) -> Any:
    if isinstance(node, Number):
        return np.asarray(node.value)
    if isinstance(node, Column):
        return rows.numbers(node.name)
    if isinstance(node, Match):
        is_text = np.array([value == node.text for value in rows.values(node.column).tolist()], dtype=bool)
        return is_text if node.is_equal else ~is_text
    values = [_evaluate(argument, rows) for argument in node.arguments]
    if not (node.function in _OF_BOOLEANS and all(value.dtype.kind == "b" for value in values)):
        values = [_floats(value) for value in values]
    try:
        result = np.asarray(FUNCTIONS[node.function](*values))
    except TypeError:
        raise ValueError(_unfit(f"{node.function!r} takes no values of this kind.")) from None
    return result if result.dtype.kind == "b" else _floats(result)


def _floats(values: Any) -> Float[np.ndarray, ...]:
    return np.asarray(values, dtype=np.float64)


def _unfit(reason: str) -> str:
    return f"data: the formula cannot be worked out on these columns. {reason}"


def _shown(argument: Any) -> str:
    """The argument of levels, for a message."""
    if isinstance(argument, Column):
        return repr(argument.name)
    return f"a function of {listed(sorted(columns_needed(argument)))}"
