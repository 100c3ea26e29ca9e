"""Encode random terms of a formula: ``(1 | site)``, an effect per level, and ``(0 + x | site)``, a slope per level.

``(x | site)`` is both, correlated, and ``(x || site)`` both, independent. Each effect becomes a term of its own here.

Their columns, one per level, come after the features: 1 or the variable of the slope in the rows of the level, 0 in
other rows. No level is dropped, because the effects have a prior. A level absent from the fit raises an error,
unless ``unseen="population"`` gives it no column, or ``unseen="draw"`` one after all others
(:meth:`.encoder.FormulaEncoder.with_levels`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..._typing import Float
from ..._validation import listed
from ..frames import SHOWN, no_column, refuse_missing
from ..levels import KnownLevels, level_text
from .language.encoding import words
from .language.interpreter import Rows, numbers_of
from .language.nodes import Factor
from .tokens import Token, operands, parts, text_of, without_added

__all__ = [
    "RandomTerm",
    "check_slopes",
    "columns_in",
    "learn_terms",
    "level_name",
    "random_columns",
    "without_random_terms",
]

ParsedTerm: TypeAlias = tuple[str, list[str], str]


@dataclass(frozen=True)
class RandomTerm:
    """One random term.

    Attributes
    ----------
    expression : str
        ``"1"``, or the variable of the slope.
    columns : list of str
        Columns whose values together are the levels.
    levels : sequence of tuples
        Known levels in order, a value per column; :mod:`..levels` decides which other values equal them.
    slope : Factor or None
        Variable of the slope; None for an intercept.
    block : str
        Correlated term that it belongs to, ``1+x|site``; empty if its effects are independent of others.

    Examples
    --------
    >>> RandomTerm("x", ["site"], [("north",), ("south",)]).feature_names
    ['x|site[north]', 'x|site[south]']
    >>> RandomTerm("1", ["site", "year"], [("s:1", 2000)]).feature_names
    ["1|site:year['s:1':2000]"]
    """

    expression: str
    columns: Sequence[str]
    levels: Sequence[tuple[Any, ...]]
    slope: Factor | None = field(default=None, repr=False)
    block: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """Name of the term, in the form of bambi: ``1|site``."""
        return f"{self.expression}|{':'.join(self.columns)}"

    @property
    def level_names(self) -> list[str]:
        """Distinct texts of the levels."""
        return [level_name(level) for level in self.levels]

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of the term."""
        return [f"{self.name}[{level}]" for level in self.level_names]

    def levels_in(self, frame: Any) -> list[tuple[Any, ...]]:
        """Level of each row, equal to a known one if possible; raise ValueError if a column is absent or incomplete."""
        columns = []
        for number, column in enumerate(self.columns):
            if column not in frame:
                raise ValueError(f"data: {no_column(column, frame.columns)} The term ({self.name}) needs it.")
            missing = int(frame[column].isna().sum())
            if missing:
                raise ValueError(
                    f"data: {column!r} is missing in {missing} of {len(frame)} rows, and says which effect of "
                    f"({self.name}) a row has; make it a level, leave those rows out, or take dropna=True."
                )
            levels = KnownLevels(level[number] for level in self.levels)
            values = frame[column].astype(object).tolist()
            place = {value: levels.add(value) for value in dict.fromkeys(values)}
            columns.append([levels.levels[place[value]] for value in values])
        return list(zip(*columns, strict=True))

    def values_of(self, rows: Rows) -> Float[np.ndarray, " n"]:
        """Factor on the effect of a row's level, (n,)."""
        if self.slope is None:
            return np.ones(len(rows))
        return check_slopes(np.array(numbers_of(self.slope, rows))[:, None], self.name)


def without_random_terms(formula: str) -> tuple[str, list[ParsedTerm]]:
    """The formula without its random terms, and for each term the expression, the grouping columns and the block.

    Raises
    ------
    ValueError
        If a term is not of a known form; the message says how to write it.

    Examples
    --------
    >>> without_random_terms("y ~ x + (1 | site) + (0 + np.log(x) | site:year)")
    ('y ~ x', [('1', ['site'], ''), ('np.log(x)', ['site', 'year'], '')])
    >>> without_random_terms("y ~ x + (1 | site/year)")
    ('y ~ x', [('1', ['site'], ''), ('1', ['site', 'year'], '')])
    >>> without_random_terms("y ~ x + (x || site)")
    ('y ~ x', [('1', ['site'], ''), ('x', ['site'], '')])
    >>> without_random_terms("y ~ x + (x | site)")
    ('y ~ x', [('1', ['site'], '1+x|site'), ('x', ['site'], '1+x|site')])
    """
    formula, brackets = without_added(formula, _has_bar)
    terms = [term for tokens in brackets for term in _read(tokens[1:-1])]
    plain = [term[:2] for term in terms]
    repeated = [term for k, term in enumerate(plain) if term in plain[:k]]
    if repeated:
        expression, columns = repeated[0]
        raise ValueError(f"formula: the random term ({expression}|{':'.join(columns)}) is there twice; leave one out.")
    return formula, terms


def _has_bar(tokens: Sequence[Token]) -> bool:
    """Whether an operand is a bracket with a bar."""
    return tokens[0].is_mark("(") and any(mark in ("|", "||") for mark, _ in operands(tokens[1:-1]))


def _read(inside: Sequence[Token], limit: int = 4) -> list[ParsedTerm]:
    """Expressions, columns and block of ``effects | groups``."""
    shown, sides = text_of(inside), list(parts(inside, "|", "||"))
    if len(sides) != 2:
        raise ValueError(f"formula: ({shown}) has several bars; expected effects | groups, as in (1 | site).")
    effects, is_independent = _effects(sides[0], shown), any(mark == "||" for mark, _ in operands(inside))
    nested = list(_groups(sides[1], shown))
    is_correlated = len(effects) > 1 and not is_independent
    if is_correlated and len(effects) > limit:
        raise ValueError(
            f"formula: ({shown}) has {len(effects)} correlated effects, and {limit} are the most; write "
            f"({text_of(sides[0])} || {text_of(sides[1])}), which are independent, each with its own scale."
        )
    blocks = [f"{'+'.join(effects)}|{':'.join(columns)}" if is_correlated else "" for columns in nested]
    return [(effect, columns, block) for columns, block in zip(nested, blocks, strict=True) for effect in effects]


def _effects(side: Sequence[Token], shown: str) -> list[str]:
    """``"1"`` for an intercept unless 0 or - 1 removes it, then the variable of each slope."""
    effects, has_intercept, sign, term = list[str](), True, "+", list[list[Token]]()
    for mark, tokens in [*operands(side), ("+", [])]:
        if mark not in ("+", "-"):
            term.append(tokens)
            continue
        text = text_of([token for one in term for token in one])
        if text in ("0", "1"):
            has_intercept = (text == "1") == (sign == "+")
        elif term and (len(term) > 1 or sign == "-" or term[0][0].is_mark("(", ".")):
            product = text.replace(":", " * ")
            raise ValueError(
                f"formula: ({shown}) has a slope that is not one variable, {text!r}; write (0 + I({product}) | "
                f"{shown.rpartition('|')[2].strip()}) for a product or a sum of numbers."
            )
        elif term:
            effects.append(text[1:-1].strip() if term[0][0].is_mark("{") else text)
        sign, term = mark, []
    effects = ["1"] * has_intercept + effects
    if not effects:
        raise ValueError(f"formula: ({shown}) has no effects; leave it out.")
    return effects


def _groups(side: Sequence[Token], shown: str) -> Iterator[list[str]]:
    """Columns of each group: for ``a/b`` those of ``a`` and of ``a:b``."""
    columns: list[str] = []
    for part in parts(side, "/"):
        for one in parts(part, ":"):
            words_of_part = [token for token in one if token.kind != "blank"]
            if len(words_of_part) != 1 or words_of_part[0].kind not in ("name", "quoted"):
                raise ValueError(
                    f"formula: ({shown}) groups by {text_of(side)!r}; expected a column, or columns joined as in "
                    "site:year. Values of any kind, numbers too, are levels: name the column without C()."
                )
            columns.append(words_of_part[0].text.strip("`"))
        yield list(columns)


def learn_terms(
    parsed: Sequence[ParsedTerm], frame: Any, learn: Callable[[str, Callable[[Any], Any]], Any]
) -> list[RandomTerm]:
    """Random terms with the levels of a data frame; ``learn`` translates the expression of a slope.

    Raises
    ------
    ValueError
        If a column is absent, has missing values or one value, or a slope is not a number.

    Examples
    --------
    >>> import pandas as pd
    >>> learn_terms([("1", ["site"], "")], pd.DataFrame({"site": [3, 1, 3]}), lambda *_: None)[0].levels
    [(1,), (3,)]
    """
    terms = []
    for expression, columns, block in parsed:
        plain = RandomTerm(expression, columns, [])
        levels = sorted(set(plain.levels_in(frame)), key=lambda level: list(map(_order, level)))
        if len(levels) == 1:
            raise ValueError(
                f"formula: {':'.join(columns)!r} has one level, {level_name(levels[0])!r}, in all rows, so that the "
                f"data say nothing about differences between levels; leave ({plain.name}) out."
            )
        slope = None
        if expression != "1":
            refuse_missing(
                [name for name in frame.columns if name in columns_in([(expression, [], "")])],
                frame,
                f", or take dropna=True: the slopes of ({plain.name}) take every value",
            )
            slope = learn(expression, partial(check_slopes, name=plain.name))
        terms.append(RandomTerm(expression, columns, levels, slope, block))
    return terms


def random_columns(terms: Sequence[RandomTerm], rows_of: Rows, more: Sequence[tuple[int, tuple[Any, ...]]] = ()) -> Any:
    """Columns of the levels of all terms, then of ``more``, pairs of a term's number and a level: csr (n, q).

    Raises
    ------
    ValueError
        If rows have unknown levels and ``unseen`` is "error".
    """
    from scipy.sparse import csr_array

    rows, places, values, width = [], [], [], sum(len(term.levels) for term in terms)
    start = 0
    for number, term in enumerate(terms):
        place = {level: start + k for k, level in enumerate(term.levels)}
        place |= {level: width + k for k, (owner, level) in enumerate(more) if owner == number}
        levels = term.levels_in(rows_of.frame)
        column = np.array([place.get(level, -1) for level in levels], dtype=np.int64)
        rows_of_levels = np.flatnonzero(column >= 0)
        if rows_of.unseen == "error" and len(rows_of_levels) < len(levels):
            unseen = [level_name(level) for level, k in zip(levels, column, strict=True) if k < 0]
            raise ValueError(
                f"data: {len(unseen)} of {len(levels)} rows have levels of ({term.name}) that the formula has not "
                f"seen: {', '.join(list(dict.fromkeys(unseen))[: SHOWN.few])}; known are "
                f"{', '.join(term.level_names[: SHOWN.levels])}"
                f"{', …' * (len(term.levels) > SHOWN.levels)}. Leave those rows out, recode them, or take "
                'unseen="population", without an effect of their own, or unseen="draw", with one that is drawn from '
                "the scale of the term."
            )
        rows.append(rows_of_levels)
        places.append(column[rows_of_levels])
        values.append(term.values_of(rows_of)[rows_of_levels])
        start += len(term.levels)
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(places))
    return csr_array(entries, shape=(len(rows_of), width + len(more)))


def level_name(level: tuple[Any, ...]) -> str:
    """Text of a level in names; a part with a colon is quoted, so that different levels have different names.

    Examples
    --------
    >>> level_name(("a", 2000.0)), level_name(("a:b", "c")), level_name(("a", "b:c"))
    ('a:2000', "'a:b':c", "a:'b:c'")
    """
    texts = [level_text(part) for part in level]
    if len(texts) > 1:
        texts = [repr(text) if ":" in text or text[:1] in "'\"" else text for text in texts]
    return ":".join(texts)


def columns_in(terms: Sequence[ParsedTerm]) -> set[str]:
    """Names of the columns of a table that random terms may need."""
    return {column for _, columns, _ in terms for column in columns} | {
        word for expression, *_ in terms if expression != "1" for word in words(f"{expression}")
    }


def check_slopes(matrix: Any, name: str) -> Float[np.ndarray, " n"]:
    """The only column of an encoded slope; raise ValueError unless there is one, of finite numbers."""
    values = np.asarray(matrix)
    if values.ndim != 2 or values.shape[1] != 1 or values.dtype.kind not in "biuf":
        raise ValueError(
            f"formula: the slope of ({name}) is not a number; expected a column of numbers, or a function of one. The "
            f"effects of pairs of levels are those of (1 | {name.replace('|', ':')})."
        )
    wrong = int(np.sum(~np.isfinite(values.astype(np.float64))))
    if wrong:
        raise ValueError(
            f"data: the slope of ({name}) is infinite or not a number in {wrong} of {len(values)} rows; replace those "
            "values, or leave the rows out."
        )
    return values[:, 0].astype(np.float64)


def _order(level: Any) -> tuple[bool, float, str]:
    """Sort key: numbers by size, before texts."""
    text = level_text(level)
    is_number = bool(re.fullmatch(r"-?\d+(\.\d+)?", text))
    return not is_number, float(text) if is_number else 0.0, text


def described(terms: Sequence[RandomTerm]) -> str:
    """The terms, for a message.

    Examples
    --------
    >>> described([RandomTerm("1", ["site"], [])])
    "'(1|site)'"
    """
    return listed([f"({term.name})" for term in terms])
