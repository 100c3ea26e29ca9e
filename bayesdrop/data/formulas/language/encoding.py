"""Encode rows with formulaic, and translate its errors."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from ...._validation import listed
from ...frames import SHOWN, no_column, refuse_complex, refuse_kinds, refuse_missing
from ...levels import level_text, plain_level

__all__ = [
    "FORMULAIC",
    "QUESTIONS",
    "columns_asked",
    "columns_of",
    "encode",
    "hashed_texts",
    "levels_listed",
    "parsed",
    "without_intercept",
    "words",
]

# Python's parser is not thread-safe: on 3.11, "AST constructor recursion depth mismatch".
FORMULAIC = threading.RLock()
# Functions and methods that answer for missing values; elsewhere a missing value makes the expression missing.
QUESTIONS = frozenset(
    ("isnan", "isna", "isnull", "notna", "notnull", "isfinite")
    + ("fillna", "nan_to_num", "ffill", "bfill", "interpolate", "combine_first")
)


def columns_of(factor: Any, columns: Collection[str]) -> set[str]:
    """The ``columns`` that a factor needs: its own name, or the free names of its expression.

    A column takes precedence over a function or a value of the same name.

    Examples
    --------
    >>> from formulaic.parser.types import Factor
    >>> factor = Factor("np.log(`k.v` + a.abs()) * two * max + Q('b c')", eval_method="python")
    >>> sorted(columns_of(factor, ["a", "b", "k.v", "max", "b c"]))
    ['a', 'b c', 'k.v', 'max']
    """
    if factor.eval_method.value == "lookup":
        return {str(factor.expr)}.intersection(columns)
    try:
        tree, quoted = parsed(str(factor.expr))
    except (SyntaxError, RecursionError, MemoryError):
        return set()
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    free = {quoted.get(node.id, node.id) for node in names if node.id not in bound}
    return (free | _named_by_q(tree)).intersection(columns)


def _named_by_q(tree: ast.AST) -> set[str]:
    """Texts in the calls of ``Q('…')`` in a syntax tree."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Q"]
    return {str(part.value) for call in calls for part in call.args if isinstance(part, ast.Constant)}


def columns_asked(expression: str) -> set[str]:
    """Names in the calls by which an expression asks about missing values.

    Examples
    --------
    >>> sorted(columns_asked("np.where(np.isnan(a), b, a) + `two words`.fillna(c)"))
    ['a', 'c', 'np', 'two words']
    """
    tree, quoted = parsed(expression)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = [call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) in QUESTIONS]
    names = [node.id for call in calls for node in ast.walk(call) if isinstance(node, ast.Name)]
    return {quoted.get(name, name) for name in names}.union(*map(_named_by_q, calls))


def parsed(expression: str, columns: Collection[str] = ()) -> tuple[ast.expr, dict[str, str]]:
    """Syntax tree of an expression, and the names in backticks by the identifiers that formulaic puts in their place.

    Examples
    --------
    >>> tree, names = parsed("log(`two words`) == '`a`'")
    >>> ast.unparse(tree), names
    ("log(two_words) == '`a`'", {'two_words': 'two words'})
    """
    from formulaic.transforms import TRANSFORMS
    from formulaic.utils.code import sanitize_variable_names

    names: dict[str, str] = {}
    with FORMULAIC:
        if "`" in expression:
            expression = sanitize_variable_names(expression, dict.fromkeys((*columns, *TRANSFORMS)), names)
        return ast.parse(expression.strip(), mode="eval").body, names


def hashed_texts(values: Any) -> list[str]:
    """Texts of values that ``hashed`` turns into buckets: one text for 2, 2.0 and ``"2"``.

    Examples
    --------
    >>> hashed_texts([2.0, 2.5]), hashed_texts([2, "2"]), hashed_texts(np.array(["2020-01-01"], dtype="datetime64[s]"))
    (['2', '2.5'], ['2', '2'], ['2020-01-01'])
    """
    from pandas import Series

    plain = Series(np.asarray(values)).astype(object).tolist()
    keys = list(zip(map(type, plain), plain, strict=True))  # True equals 1 and has another text
    texts = {key: level_text(plain_level(key[1])) for key in set(keys)}
    return [texts[key] for key in keys]


def _hashed(data: Any, *arguments: Any, **options: Any) -> Any:
    """The ``hashed`` of formulaic on the texts of levels."""
    from formulaic.transforms import TRANSFORMS

    return TRANSFORMS["hashed"](np.array(hashed_texts(data), dtype=object), *arguments, **options)


def words(text: str) -> set[str]:
    """Words that may name columns in a formula: not texts, called functions or names of arguments."""
    text = re.sub("'[^']*'|\"[^\"]*\"", " ", text)
    return {quoted or word for quoted, word in re.findall(r"`([^`]+)`|\b([^\W\d]\w*)\b(?!\s*\(|\s*=(?!=))", text)}


def encode(
    source: Any,
    frame: Any,
    context: dict[str, Any],
    missing: str | None = None,
    output: str = "sparse",
    unseen: str = "error",
    **options: Any,
) -> Any:
    """Model matrix of a formula or of its fitted specification; errors have this module's messages."""
    from formulaic.errors import DataMismatchWarning, FactorEvaluationError, FormulaicError

    numbers = [name for name in frame.columns if frame[name].dtype.kind == "c"]
    if numbers:
        factors = [factor for term in getattr(source, "formula", source) for factor in term.factors]
        used = set().union(*(columns_of(factor, numbers) for factor in factors))
        for name in used:
            refuse_complex(frame[[name]].to_numpy(), [name])
    with FORMULAIC, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error", DataMismatchWarning)
        if unseen == "population":  # formulaic makes these levels missing
            warnings.simplefilter("ignore", DataMismatchWarning)
            warnings.filterwarnings("ignore", "Constructing a Categorical with a dtype and values")
        if missing is not None:
            warnings.filterwarnings("ignore", r".*: \{(np\.float64\()?(nan|None|<NA>)\)?\}\.", DataMismatchWarning)
        try:
            na_action = "raise" if missing is None else "ignore"
            functions = {"hashed": _hashed, **context}
            return source.get_model_matrix(frame, context=functions, output=output, na_action=na_action, **options)
        except FactorEvaluationError as error:
            if isinstance(error.__cause__, NameError):
                name = re.findall(r"[`']([^`']+)[`']", str(error.__cause__))[0]
                raise ValueError(
                    f"formula: {no_column(name, frame.columns)} Functions and values of your own go into "
                    f"context={{{name!r}: ...}}."
                ) from None
            raise ValueError(f"formula: {error}") from error
        except DataMismatchWarning as error:
            raise ValueError(
                f"data: levels that the formula has not seen. {error} Leave those rows out, recode them, or take "
                'unseen="population", by which such a row has no level of this factor.'
            ) from None
        except (AttributeError, IndexError, SyntaxError) as error:  # from a term without a value per row
            raise ValueError(
                "formula: expected terms with a value for each row, got others in "
                f"{_without_rows(source, frame, context)}; a number that all rows share, such as a mean, goes into an "
                "expression with a column; center(a) and scale(a) keep those of these rows."
            ) from error
        except (FormulaicError, TypeError) as error:
            raise ValueError(f"data: the formula cannot be worked out on these columns. {error}") from error
        except ValueError as error:
            formula = getattr(source, "formula", source)
            used = {word for term in formula for factor in term.factors for word in words(f"`{factor.expr}`")}
            used |= {word for term in formula for factor in term.factors for word in words(factor.expr)}
            refuse_missing(
                [name for name in frame.columns if name in used],
                frame,
                ', take dropna=True, or missing="nan" (of bd.Model, for bd.fit)',
            )
            refuse_kinds([name for name in frame.columns if name in used], frame)
            null = re.match("Error encountered while checking for nulls in `(.*?)`: ", str(error))
            if null is None:
                raise ValueError(f"data: the formula cannot be worked out on these columns. {error}") from error
            raise ValueError(
                f"data: {null.group(1)!r} is not a number in some rows, though its columns are complete; leave those "
                "rows out, or use another function."
            ) from None


def _without_rows(source: Any, frame: Any, context: Mapping[str, Any]) -> str:
    """Terms that formulaic cannot encode alone, for a message."""
    from formulaic import Formula

    terms = []
    for term in getattr(source, "formula", source):
        try:
            Formula([term]).get_model_matrix(frame, context=context, output="sparse", na_action="ignore")
        except Exception:  # a user's expression may raise any error
            terms.append(str(term))
    return listed(terms or map(str, getattr(source, "formula", source)), SHOWN.few)


def levels_listed(levels: Iterable[Any], limit: int) -> str:
    """Levels for a message, texts in quotes and numbers without.

    Examples
    --------
    >>> levels_listed(["1", np.int64(1), 2.0], 2)
    "'1', 1 and 1 more"
    """
    plain = [level.item() if isinstance(level, np.generic) else level for level in levels]
    return listed(plain, limit, repr)


def without_intercept(matrix: Any, spec: Any) -> Any:
    """Columns of a model matrix except the intercept, csr of doubles."""
    from scipy import sparse

    places = [j for term, indices in spec.term_indices.items() if term.degree for j in indices]
    columns = matrix.__wrapped__[:, places]
    refuse_complex(columns, [spec.column_names[j] for j in places])
    return sparse.csr_array(columns, dtype=np.float64)
