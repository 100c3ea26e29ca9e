"""Random terms of a formula: ``(1 | site)``, an effect of each level, and ``(0 + x | site)``, a slope of each.

Their columns, one for each level, stand behind those of the features: 1 or the variable of the slope in the rows of the
level, 0 in the others. No level is dropped, for the effects have a prior, and a level that was not there before is no
error: it has no column, or one of its own behind all others (:meth:`.encoder.FormulaEncoder.with_levels`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..._typing import Float, Shaped
from ..frames import listed, no_column, refuse_missing
from .language.encoding import words
from .language.interpreter import Rows, numbers_of

__all__ = [
    "RandomTerm",
    "check_slopes",
    "closing",
    "columns_in",
    "learn_terms",
    "random_columns",
    "without_random_terms",
]


@dataclass(frozen=True)
class RandomTerm:
    """One random term.

    Attributes
    ----------
    expression : str
        ``"1"``, or the variable of the slope.
    columns : list of str
        Columns whose values, joined by a colon, are the levels.
    levels : list of str
        Levels that are known, in order.
    slope : Factor or None
        The variable, in the language of :mod:`.language.nodes`; None of an intercept.

    Examples
    --------
    >>> RandomTerm("x", ["site"], ["north", "south"], None).feature_names
    ['x|site[north]', 'x|site[south]']
    """

    expression: str
    columns: Sequence[str]
    levels: Sequence[str]
    slope: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """As bambi names it: ``1|site``."""
        return f"{self.expression}|{':'.join(self.columns)}"

    @property
    def feature_names(self) -> list[str]:
        """Names of its columns."""
        return [f"{self.name}[{level}]" for level in self.levels]

    def level_of(self, frame: Any) -> Shaped[np.ndarray, " n"]:
        """The level of each row, as text; raise ValueError if a column is absent or has missing values."""
        for column in self.columns:
            if column not in frame:
                raise ValueError(f"data: {no_column(column, frame.columns)} The term ({self.name}) needs it.")
            missing = int(frame[column].isna().sum())
            if missing:
                raise ValueError(
                    f"data: {column!r} is missing in {missing} of {len(frame)} rows, and says which effect of "
                    f"({self.name}) a row has; make it a level, leave those rows out, or take dropna=True."
                )
        parts = [np.array([_text(value) for value in frame[column]], dtype=object) for column in self.columns]
        joined = parts[0]
        for part in parts[1:]:
            joined = joined + ":" + part
        return joined

    def values_of(self, rows: Rows) -> Float[np.ndarray, " n"]:
        """What multiplies the effect of a row's level, (n,)."""
        if self.slope is None:
            return np.ones(len(rows))
        return check_slopes(np.array(numbers_of(self.slope, rows))[:, None], self.name)


def without_random_terms(formula: Any) -> tuple[Any, list[tuple[str, list[str]]]]:
    """The formula without its random terms, and of each the expression and the columns of the groups.

    Raises
    ------
    ValueError
        If a term is none that is known here; the message says how to write it.

    Examples
    --------
    >>> without_random_terms("y ~ x + (1 | site) + (0 + np.log(x) | site:year)")
    ('y ~ x', [('1', ['site']), ('np.log(x)', ['site', 'year'])])
    >>> without_random_terms("y ~ x + (x | site)")
    Traceback (most recent call last):
    ValueError: formula: (x | site) has intercepts and slopes that are correlated; write (1 | site) + ...
    """
    terms: list[tuple[str, list[str]]] = []
    if not isinstance(formula, str) or "|" not in formula:
        return formula, terms
    begin = 0
    while (start := formula.find("(", begin)) >= 0:
        begin, end = start + 1, closing(formula, start + 1)
        before, after = formula[:start].rstrip(), formula[end + 1 :].lstrip()
        inside = formula[start + 1 : end]
        if re.search(r"[\w`)\]]$", before) or not _has_bar(inside):  # a function's, or no term by group
            continue
        if (before and before[-1] not in "+~") or (after and after[0] not in "+-") or "~" in after:
            raise ValueError(
                f"formula: ({inside.strip()}) cannot be combined with other terms; add it by itself, by +."
            )
        terms.append(_read(inside.strip()))
        if before.endswith("+"):
            before = before[:-1].rstrip()
        elif after.startswith("+"):
            after = after[1:].lstrip()
        # Nothing but an intercept is left of a lone term.
        formula, begin = f"{before} {after}".strip() if after or not before.endswith("~") else f"{before} 1", 0
    repeated = [f"{expression}|{':'.join(columns)}" for k, (expression, columns) in enumerate(terms)
                if (expression, columns) in terms[:k]]  # fmt: skip
    if repeated:
        raise ValueError(f"formula: the random term ({repeated[0]}) is there twice; leave one out.")
    return formula, terms


def closing(text: str, start: int) -> int:
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


def _has_bar(inside: str) -> bool:
    """Whether there is a bar outside brackets and quotes."""
    plain = re.sub("'[^']*'|\"[^\"]*\"|`[^`]*`", "", inside)
    while (shorter := re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", plain)) != plain:
        plain = shorter
    return "|" in plain


def _read(inside: str) -> tuple[str, list[str]]:
    """Expression and columns of ``expression | columns``."""
    left, _, right = (part.strip() for part in inside.rpartition("|"))
    if left.endswith("|"):
        raise ValueError(
            f"formula: ({inside}) is written with one bar here, one term for each variable: (1 | g) + (0 + x | g), "
            "whose effects are independent of each other."
        )
    if "/" in right:
        outer, _, inner = (part.strip() for part in right.partition("/"))
        raise ValueError(
            f"formula: ({inside}) has groups within groups; write ({left} | {outer}) + ({left} | {outer}:{inner})."
        )
    columns = [part.strip() for part in right.split(":")]
    if not all(re.fullmatch(r"`[^`]+`|[^\W\d]\w*", column) for column in columns):
        raise ValueError(
            f"formula: ({inside}) groups by {right!r}; expected a column, or columns joined as in site:year. Values of "
            "any kind, numbers too, are levels: name the column without C()."
        )
    names = [column.strip("`") for column in columns]
    if left == "1":
        return left, names
    slope = re.fullmatch(r"0\s*\+\s*(.+)|-\s*1\s*\+\s*(.+)|(.+?)\s*-\s*1|(.+?)\s*\+\s*0", left)
    one = next((part for part in slope.groups() if part), "") if slope else re.sub(r"^1\s*\+\s*", "", left)
    if slope and "+" not in re.sub(r"\([^()]*\)", "", one):
        return one, names
    terms = [part.strip() for part in one.split("+")]
    each = " + ".join(f"(0 + {part} | {right})" for part in terms)
    raise ValueError(
        f"formula: ({inside}) has {'slopes' if slope else 'intercepts and slopes'} that are correlated; write "
        f"{'' if slope else f'(1 | {right}) + '}{each}, which are independent, each with its own scale."
    )


def learn_terms(
    parsed: Sequence[tuple[str, list[str]]], frame: Any, learn: Callable[[str, Callable[[Any], Any]], Any]
) -> list[RandomTerm]:
    """The terms with the levels, means and scales of a data frame; ``learn`` translates the expression of a slope.

    Raises
    ------
    ValueError
        If a column is absent, has missing values or one value, or a slope is no number.

    Examples
    --------
    >>> import pandas as pd
    >>> learn_terms([("1", ["site"])], pd.DataFrame({"site": [3, 1, 3]}), None)[0].levels
    ['1', '3']
    """
    terms = []
    for expression, columns in parsed:
        plain = RandomTerm(expression, columns, [])
        levels = _in_order(plain.level_of(frame))
        if len(levels) == 1:
            raise ValueError(
                f"formula: {':'.join(columns)!r} has one level, {levels[0]!r}, in all rows, so that the data say "
                f"nothing about differences between levels; leave ({plain.name}) out."
            )
        slope = None
        if expression != "1":
            refuse_missing(
                [name for name in frame.columns if name in columns_in([(expression, [])])],
                frame,
                f", or take dropna=True: the slopes of ({plain.name}) take every value",
            )
            slope = learn(expression, partial(check_slopes, name=plain.name))
        terms.append(RandomTerm(expression, columns, levels, slope))
    return terms


def random_columns(terms: Sequence[RandomTerm], rows_of: Rows, more: Sequence[tuple[int, str]] = ()) -> Any:
    """Columns of the levels of all terms, then of ``more``, pairs of a term's number and a level: csr (n, q)."""
    from scipy.sparse import csr_array

    rows, places, values, width = [], [], [], sum(len(term.levels) for term in terms)
    start = 0
    for number, term in enumerate(terms):
        place = {level: start + k for k, level in enumerate(term.levels)}
        place |= {level: width + k for k, (own, level) in enumerate(more) if own == number}
        column = np.array([place.get(level, -1) for level in term.level_of(rows_of.frame)], dtype=np.int64)
        known = np.flatnonzero(column >= 0)
        rows.append(known)
        places.append(column[known])
        values.append(term.values_of(rows_of)[known])
        start += len(term.levels)
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(places))
    return csr_array(entries, shape=(len(rows_of), width + len(more)))


def columns_in(found: Sequence[tuple[str, list[str]]]) -> set[str]:
    """Names that random terms may need of a table."""
    return {column for _, columns in found for column in columns} | {
        word for expression, _ in found if expression != "1" for word in words(f"{expression}")
    }


def check_slopes(matrix: Any, name: str) -> Float[np.ndarray, " n"]:
    """The one column of an encoded slope; raise ValueError unless it is one of finite numbers."""
    values = np.asarray(matrix)
    if values.ndim != 2 or values.shape[1] != 1 or values.dtype.kind not in "biuf":
        raise ValueError(
            f"formula: the slope of ({name}) is not a number; expected a column of numbers, or a function of one. For "
            "levels within levels write (1 | a) + (1 | a:b)."
        )
    wrong = int(np.sum(~np.isfinite(values.astype(np.float64))))
    if wrong:
        raise ValueError(
            f"data: the slope of ({name}) is infinite or not a number in {wrong} of {len(values)} rows; replace those "
            "values, or leave the rows out."
        )
    return values[:, 0].astype(np.float64)


def _text(value: Any) -> str:
    """A level as text: whole numbers without a point, however they are stored."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value.item() if isinstance(value, np.generic) else value)


def _in_order(levels: Shaped[np.ndarray, " n"]) -> list[str]:
    """Different levels, numbers by their size and before texts."""
    different: Mapping[str, None] = dict.fromkeys(levels.tolist())

    def key(level: str) -> tuple[bool, float, str]:
        number = bool(re.fullmatch(r"-?\d+(\.\d+)?", level))
        return not number, float(level) if number else 0.0, level

    return sorted(different, key=key)


def described(terms: Sequence[RandomTerm]) -> str:
    """The terms, for a message.

    Examples
    --------
    >>> described([RandomTerm("1", ["site"], [])])
    "'(1|site)'"
    """
    return listed([f"({term.name})" for term in terms])
