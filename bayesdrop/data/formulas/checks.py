"""Check levels, names, terms, labels and entries where formulaic raises no error, for :mod:`.formula`.

Also take ``offset(...)``, a known part of the score without a weight, out of a formula.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..._typing import Bool, Float, Shaped
from ..._validation import listed
from ..frames import SHOWN, refuse_complex, refuse_kinds, refuse_text
from ..levels import KnownLevels, level_text, plain_level
from .language.encoding import columns_of, levels_listed, words
from .language.translation import plain_levels
from .tokens import Token, text_of, without_added

__all__ = [
    "check_columns",
    "check_finite",
    "classes_of",
    "check_offset_values",
    "is_label",
    "refuse_texts",
    "with_doubles",
    "with_label",
    "with_levels_of",
    "with_plain_levels",
    "without_offsets",
]

# Expressions that need a column's values unchanged: levels, and operators on bits.
_OF_WHOLE = re.compile(r"^(C|hashed)\(|[&|~]|<<|>>|bitwise")
# Kinds of values in C() that sort otherwise than their texts: "(2, 10]" comes before "(10, 20]".
_IN_ORDER = ("interval", "period", "timedelta", "timedelta64", "time", "decimal")


def check_columns(names: list[str], spec: Any, frame: Any, full_rank: bool) -> None:
    """Raise ValueError on values that cannot be levels, contrasts without effect and repeated names."""
    from formulaic.transforms.contrasts import TreatmentContrasts

    refuse_kinds([factor.expr for factor in spec.factor_contrasts if factor.expr in frame], frame)
    for factor, state in spec.factor_contrasts.items():
        default = type(state.contrasts) is TreatmentContrasts and state.contrasts == TreatmentContrasts()
        if not (full_rank or default):
            raise ValueError(
                f"formula: the contrasts of {factor.expr!r} have no effect when every level has a column; pass "
                "full_rank=True, or leave them out."
            )
    for factor, state in spec.factor_contrasts.items():
        if len(state.levels) == 1 and not full_rank:
            raise ValueError(
                f"formula: {factor.expr!r} has one level, {levels_listed(state.levels, 1)}, in all rows, so that its "
                "effect is unknown; leave it out, or declare all levels, as in pandas.Categorical(values, "
                "categories=[...])."
            )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"formula: two features would both be called {listed(repeated)}; rename a column.")
    if spec.term_indices.keys() - {"1"} and not names:
        raise ValueError("data: no features, for every factor has one level only; give rows that differ.")


def refuse_texts(frame: Any, left: Any, right: Any) -> None:
    """Raise ValueError if a text column, without ``C()`` or categories, is a term or the response but not a factor."""
    for side, is_response in ((left or [], True), (right, False)):
        for factor in {factor for term in side for factor in term.factors if factor.eval_method.value == "lookup"}:
            name = str(factor.expr)
            if name in frame:
                quoted = name if name.isidentifier() else f"`{name}`"
                advice = "if it has labels," if is_response else f"if it is a factor, write C({quoted}) or"
                refuse_text(name, frame, f"{advice} make it a pandas.Categorical")


def with_plain_levels(frame: Any, right: Any, groups: Iterable[str] = ()) -> Any:
    """Convert texts that are factors, categories, and dates and intervals in ``C()``, by :func:`.plain_level`.

    Raises
    ------
    ValueError
        If levels, of factors or of the columns ``groups`` of random terms, are doubles too large to tell ids apart.
    """
    from pandas.api import types

    plain, texts = {}, {str(factor.expr) for term in right for factor in term.factors}
    _refuse_rounded(frame, texts, groups)
    for text in texts:
        inner = re.fullmatch(r"C\(\s*(?:`([^`]+)`|([^`,()]+?))\s*(,.*)?\)", text)
        name = text if inner is None else inner[1] or inner[2]
        column = frame[name] if name in frame else None
        if column is None:
            continue
        kind = types.infer_dtype(column, skipna=True)
        if kind in _IN_ORDER and inner is not None:
            column = column.astype("category")
        if isinstance(column.dtype, types.CategoricalDtype):
            categories = column.cat.categories.tolist()
            if list(plain_levels(categories)) != categories:
                plain[name] = column.cat.rename_categories(plain_levels(categories))
        elif kind == "string" or (kind in ("date", "datetime", "datetime64") and inner is not None):
            plain[name] = column.map({value: plain_level(value) for value in column.dropna().unique()}).astype(object)
    return _replaced(frame, plain)


def _refuse_rounded(frame: Any, factors: Iterable[str], groups: Iterable[str]) -> None:
    """Raise ValueError if levels are doubles too large to tell integers apart, such as long ids with gaps."""
    calls = (re.match(r"(?:C|hashed)\(\s*(?:`([^`]+)`|([^\W\d]\w*))\s*[,)]", text) for text in factors)
    for name in sorted({call[1] or call[2] for call in calls if call}.union(groups).intersection(frame.columns)):
        column = frame[name]
        largest = float(abs(column).max()) if column.dtype.kind == "f" else 0.0
        if 2.0**53 <= largest < np.inf:
            raise ValueError(
                f"data: levels of {name!r} such as {largest:.0f} are doubles, as integers with missing values "
                "become, and doubles of more than 15 digits do not tell ids apart; give text, or leave the rows with "
                "missing values out and give integers."
            )


def with_levels_of(frame: Any, levels: Mapping[str, Iterable[Any]]) -> Any:
    """Convert texts and dates of factors in other rows as :func:`with_plain_levels` did in those of the fit.

    ``levels`` has the levels of the fit by column; a text that is one of them keeps its blanks.

    Examples
    --------
    >>> import pandas as pd
    >>> with_levels_of(pd.DataFrame({"site": ["n ", "s"]}), {"site": ["n", "s"]}).site.tolist()
    ['n', 's']
    """
    from pandas.api import types

    plain = {}
    for name in levels.keys() & set(frame.columns):
        column = frame[name].astype(object)
        if types.infer_dtype(column, skipna=True) in ("string", "date", "datetime", "datetime64"):
            known = set(levels[name])
            places = {value: value if value in known else plain_level(value) for value in column.dropna().unique()}
            if any(value is not level for value, level in places.items()):
                plain[name] = column.map(places).astype(object)
    return _replaced(frame, plain)


def _replaced(frame: Any, columns: Mapping[str, Any]) -> Any:
    frame = frame.copy(deep=False)
    for name, column in columns.items():  # not by assign(**columns): a column may be called self
        frame[name] = column
    return frame


def with_doubles(frame: Any, factors: Iterable[Any], others: Iterable[str] = (), response: Iterable[Any] = ()) -> Any:
    """Convert integers to doubles in columns that factors compute with, because their powers would overflow.

    Columns that are used as levels, labels or bits do not change. ``others`` are the expressions of offsets and slopes.
    """
    texts = [(words(text), text) for text in others]
    texts += [(columns_of(factor, frame.columns), str(factor.expr)) for factor in factors]
    whole = {name for names, text in texts if _OF_WHOLE.search(text) for name in names}
    whole |= {name for factor in response for name in columns_of(factor, frame.columns)}
    computed = {name for names, _ in texts for name in names if name in frame} - whole
    return frame.astype({name: np.float64 for name in computed if frame[name].dtype.kind in "iu"})


def check_finite(X: Any, groups: list[str], missing: str | None, new: bool = False) -> None:
    """Raise ValueError on infinite entries of features, and on NaN unless it is missing.

    Unless the rows are ``new``, also on columns that are all NaN; ``X`` is then csr.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> check_finite(csr_array([[np.nan], [1.0]]), ["age"], "nan")
    >>> check_finite(csr_array([[np.nan], [np.nan]]), ["age"], "nan")
    Traceback (most recent call last):
    ValueError: data: every entry of the terms 'age' is missing; leave it out, or take the column itself where a ...
    """

    def counted(wrong: Bool[np.ndarray, ...]) -> Counter[str]:
        columns = X.indices[wrong] if hasattr(X, "nnz") else np.nonzero(wrong)[1]
        return Counter(groups[j] for j in columns)

    entries = X.data if hasattr(X, "nnz") else X
    if bad := counted(~np.isfinite(entries) if missing is None else np.isinf(entries)):
        counts = ", ".join(f"{term!r} ({count})" for term, count in bad.items())
        raise ValueError(f"data: values that are infinite or not numeric in the terms {counts}; replace them.")
    if missing is None or new:
        return
    empty = np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1]) == X.shape[0]
    if np.any(empty):
        raise ValueError(
            f"data: every entry of the terms {listed(dict.fromkeys(groups[j] for j in np.flatnonzero(empty)))} is "
            "missing; leave it out, or take the column itself where a function of the whole column makes all of it NaN."
        )


def with_label(formula: Any) -> tuple[Any, str | float | None]:
    """The formula without the label of ``response['label'] ~ …``, and the label.

    Examples
    --------
    >>> with_label("ill['yes'] ~ age"), with_label("code[2] ~ age")
    (('ill ~ age', 'yes'), ('code ~ age', 2))
    """
    if not isinstance(formula, str):
        return formula, None
    match = re.match(r"\s*(`[^`]+`|[^\W\d]\w*)\[(?:(['\"])(.*?)\2|([-+]?\d+\.?\d*))\]\s*~", formula)
    if match is None:
        return formula, None
    number = match[4]
    label = match[3] if number is None else float(number) if "." in number else int(number)
    return f"{match[1]} ~{formula[match.end() :]}", label


def is_label(y: Shaped[np.ndarray, " n"], label: str | float) -> Bool[np.ndarray, " n"]:
    """Whether each response equals a label, by the rules of :mod:`..levels`.

    Examples
    --------
    >>> is_label(np.array([1.0, 2.0]), "1").tolist(), is_label(np.array(["1", "2"]), 2.0).tolist()
    ([True, False], [False, True])
    """
    levels = KnownLevels(np.unique(y).tolist())
    return (levels.codes(y.tolist()) == levels.find(label)) & (levels.find(label) >= 0)


def classes_of(y: Shaped[np.ndarray, " n"], label: str | float) -> tuple[Any, Any]:
    """Names of the two classes of ``response[label]``: the other label, or ``"not …"`` for several, and the label.

    Raises
    ------
    ValueError
        If no row has the label.

    Examples
    --------
    >>> classes_of(np.array(["no", "yes"]), "yes"), classes_of(np.array([1, 2, 3]), 2.0)
    (('no', 'yes'), ('not 2', '2'))
    """
    labels = np.unique(y)
    chosen = is_label(labels, label)
    if not chosen.any():
        raise ValueError(
            f"formula: no row has the label {label!r}; the labels are {levels_listed(labels, SHOWN.levels)}."
        )
    if len(labels) == 2:
        negative, positive = labels[np.argsort(chosen)].tolist()
        return negative, positive
    text = level_text(labels[chosen][0].item())
    return f"not {text}", text


def without_offsets(formula: str) -> tuple[str, str | None]:
    """Return the formula without its offsets, and their sum as one Python expression, None without offsets.

    Raises
    ------
    ValueError
        If an offset is within another term, subtracted, or on the left side.

    Examples
    --------
    >>> without_offsets("events ~ offset(np.log(days)) + age + offset(known)")
    ('events ~ age', '(np.log(days)) + (known)')
    >>> without_offsets("events ~ age:offset(days)")
    Traceback (most recent call last):
    ValueError: formula: offset(days) cannot be combined with other terms; add it by itself, by +.
    """
    without, terms = without_added(formula, lambda tokens: tokens[0].text == "offset" and len(tokens) > 1)
    offsets = [f"({text_of(tokens[tokens.index(Token('mark', '(')) + 1 : -1])})" for tokens in terms]
    return without, " + ".join(offsets) or None


def check_offset_values(matrix: Any, expression: str) -> Float[np.ndarray, " n"]:
    """The only column of an encoded offset; raise ValueError unless there is one, of finite numbers.

    Examples
    --------
    >>> check_offset_values(np.array([[1.0], [2.0]]), "(days)").tolist()
    [1.0, 2.0]
    """
    values = np.asarray(matrix)
    refuse_complex(values, [f"offset{expression}"] * values.shape[1])
    values = values.astype(np.float64)
    if values.shape[1] != 1:
        raise ValueError(
            f"formula: offset{expression} is not a number: it gives {values.shape[1]} columns; expected a column of "
            "numbers, or a function of one."
        )
    wrong = int(np.sum(~np.isfinite(values)))
    if wrong:
        raise ValueError(
            f"data: offset{expression} is infinite or not a number in {wrong} of {len(values)} rows; a count without "
            "exposure carries no information: leave those rows out."
        )
    return values[:, 0]
