"""Validate objects, choices, names and array-likes, and word the errors, for every public function.

An error reads ``argument: expected …, got …; what to do.`` The module also checks for arguments under another
library's name, and imports the packages of extras.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib import import_module
from inspect import getattr_static
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

__all__ = [
    "check_choice",
    "check_flag",
    "check_instance",
    "check_names",
    "check_path",
    "extra",
    "listed",
    "refusal",
    "refuse_masked",
    "refuse_scalar",
    "refuse_surrogates",
    "shown",
    "stored_index",
    "takes_random_state",
    "takes_seed",
    "with_article",
]


def check_flag(value: Any, name: str, *, none: bool = False) -> Any:
    """True or False (or None, if ``none``); raise TypeError on anything else.

    Examples
    --------
    >>> check_flag(True, "unbiased")
    True
    >>> check_flag("no", "unbiased")
    Traceback (most recent call last):
    TypeError: unbiased: expected True or False, got 'no'.
    """
    if none and value is None:
        return None
    if not isinstance(value, bool | np.bool_):
        raise TypeError(refusal(name, "True, False or None" if none else "True or False", value, ""))
    return bool(value)


def check_choice(value: Any, name: str, choices: Iterable[Any], advice: str = "") -> Any:
    """One of a few texts (and None, if it is among them); raise ValueError on anything else.

    Examples
    --------
    >>> check_choice("float16", "dtype", ("float32", "float64"))
    Traceback (most recent call last):
    ValueError: dtype: expected "float32" or "float64", got 'float16'.
    """
    options = list(choices)
    # The value may be an array, whose comparison is not True or False.
    if (value is None or isinstance(value, str)) and value in options:
        return value
    words = [f'"{choice}"' if isinstance(choice, str) else repr(choice) for choice in options]
    expected = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    raise ValueError(refusal(name, expected, value, advice))


def check_instance(
    value: Any, name: str, kinds: Any, expected: str, *, none: bool = False, advice: str = "", text: bool = False
) -> Any:
    """An instance of some classes or protocols, and not a class; raise TypeError on anything else.

    If the object implements part of a protocol, the error lists the missing members.

    Parameters
    ----------
    value : object
        The value passed.
    name : str
        Argument, for the message.
    kinds : type or tuple of types
        Classes or runtime-checkable protocols.
    expected : str
        Words for them, such as ``"an object such as bd.Newton()"``.
    none : bool
        Accept None as well.
    advice : str
        What to do, for the message.
    text : bool
        Show the type of the value in the message rather than the value, which may be large.

    Examples
    --------
    >>> check_instance(3, "prior", str, "an object such as bd.Beta(1, 1)")
    Traceback (most recent call last):
    TypeError: prior: expected an object such as bd.Beta(1, 1), got 3.
    """
    if none and value is None:
        return None
    if isinstance(value, type):
        # A class has the attributes of a protocol, but is not an instance of it.
        advice = advice or f"call it, as in {value.__name__}(…)"
    elif isinstance(value, kinds):
        return value
    elif lacking := _lacking(value, kinds):
        advice = "; ".join(part for part in (f"it has no {', '.join(lacking)}", advice) if part)
    if text:
        ending = f"; {advice}" if advice else ""
        raise TypeError(f"{name}: expected {expected}, got {with_article(type(value).__name__)}{ending}.")
    raise TypeError(refusal(name, expected, value, advice))


def _members(kinds: Any) -> list[str]:
    """Names of the members of a protocol; empty for anything else."""
    if not isinstance(kinds, type) or Protocol not in kinds.__bases__:
        return []
    members = {
        name: None
        for kind in kinds.__mro__
        if kind not in (Protocol, object)
        for name in (*kind.__dict__.get("__annotations__", ()), *vars(kind))
        if not name.startswith("_")
    }
    return list(members)


def _lacking(value: Any, kinds: Any) -> list[str]:
    """Members of a protocol that an object lacks; empty if it has none of them, since it was not meant for it."""
    members, nothing = _members(kinds), object()
    lacking = [name for name in members if getattr_static(value, name, nothing) is nothing]
    return lacking if len(lacking) < len(members) else []


def check_path(path: Any, name: str = "path") -> Path:
    """Name of a file or folder; raise TypeError or ValueError on anything else.

    Examples
    --------
    >>> check_path(3)
    Traceback (most recent call last):
    TypeError: path: expected the name of a file or folder, got 3.
    """
    if not isinstance(path, str | os.PathLike) or isinstance(path, type):
        raise TypeError(refusal(name, "the name of a file or folder", path, ""))
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(refusal(name, "the name of a file or folder", path, ""))
    refuse_surrogates([text], name)
    return Path(text)


def check_names(names: Any, count: int, name: str = "feature_names") -> list[str]:
    """Different names of ``count`` columns as text; raise TypeError or ValueError if they are none.

    Examples
    --------
    >>> check_names([np.int64(3), "b"], 2)
    ['3', 'b']
    """
    if isinstance(names, str | bytes | Mapping) or not isinstance(names, Iterable):
        raise TypeError(refusal(name, "a sequence of names, one per column", names, ""))
    refuse_masked(names, name)
    values = list(names)
    for one in values:
        if not isinstance(one, str | numbers.Real):
            raise TypeError(refusal(name, "names that are text (or numbers)", one, ""))
    listed = [str(one) for one in values]
    if len(listed) != count or len(set(listed)) != len(listed):
        raise ValueError(
            f"{name}: expected {count} different names (one per column), got {len(listed)} names, "
            f"{len(set(listed))} different."
        )
    refuse_surrogates(listed, name)
    return listed


def refuse_surrogates(names: Iterable[Any], name: str) -> None:
    r"""Raise ValueError if one of the names holds half of a surrogate pair, which no file and no picture can show.

    Examples
    --------
    >>> refuse_surrogates(["a", chr(0xD800)], "X")
    Traceback (most recent call last):
    ValueError: X: expected names that can be written in Unicode, got '\ud800', half of a surrogate pair; rename it.
    """
    for one in names:
        if isinstance(one, str) and any("\ud800" <= letter <= "\udfff" for letter in one):
            raise ValueError(
                f"{name}: expected names that can be written in Unicode, got {shown(one)}, half of a surrogate pair; "
                "rename it."
            )


def refuse_masked(value: Any, name: str) -> None:
    """Raise TypeError on a masked NumPy array, or a list of them, whose masked values arithmetic would use.

    Examples
    --------
    >>> refuse_masked(np.ma.masked_equal([1.0, -999.0], -999.0), "y")
    Traceback (most recent call last):
    TypeError: y: expected a plain array, got a masked one, whose mask would be lost; leave the masked rows out, or
    fill them in, as in y.filled(0.0).
    """
    if isinstance(value, list | tuple):
        masked = any(np.ma.isMaskedArray(part) for part in value)
    else:
        masked = np.ma.isMaskedArray(value)
    if masked:
        raise TypeError(
            f"{name}: expected a plain array, got a masked one, whose mask would be lost; leave the masked rows out, "
            f"or fill them in, as in {name}.filled(0.0)."
        )


def refuse_scalar(value: Any, name: str) -> None:
    """Raise ValueError on a number or a text where a value for each row is expected.

    Examples
    --------
    >>> refuse_scalar(3, "y")
    Traceback (most recent call last):
    ValueError: y: expected one value for each row, got 3.
    """
    if isinstance(value, numbers.Number | str | bytes):
        raise ValueError(refusal(name, "one value for each row", value, ""))


_LONGEST = 160


def shown(value: Any) -> str:
    """Text of a value for a message: its ``repr`` on one line, shortened, or its type if ``repr`` fails.

    Examples
    --------
    >>> shown("text"), shown(10**5000)
    ("'text'", 'an int whose repr fails')
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a user's class may raise anything; an int of thousands of digits raises ValueError
        return f"{with_article(type(value).__name__)} whose repr fails"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def listed(values: Iterable[Any], limit: int = 20, text_of: Callable[[Any], str] = lambda one: repr(str(one))) -> str:
    """Text of values for a message: the first ones, and the number of the others.

    Examples
    --------
    >>> listed("abc", 2), listed([1, 2], text_of=str)
    ("'a', 'b' and 1 more", '1, 2')
    """
    texts = list(map(text_of, values))
    return ", ".join(texts[:limit]) + (f" and {len(texts) - limit} more" if len(texts) > limit else "")


def with_article(word: str) -> str:
    """Return a word with its article, a or an."""
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


def refusal(name: str, expected: str, value: Any, advice: str) -> str:
    """Message of an error."""
    return f"{name}: expected {expected}, got {shown(value)}{f'; {advice}' if advice else ''}."


P = ParamSpec("P")
R = TypeVar("R")


def _called(name: str, other: str, why: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def checked(*args: P.args, **options: P.kwargs) -> R:
            if other in options:
                value = shown(options[other])
                raise TypeError(f"{other}: use {name} here: {why}; give {name}={value}.")
            return function(*args, **options)

        return checked

    return decorate


takes_seed = _called("seed", "random_state", "functions take seed, estimators random_state")
"""Decorator of a function that takes ``seed``: ``random_state=0`` raises an error that names ``seed``.

Examples
--------
>>> @takes_seed
... def draw(seed=0):
...     return seed
>>> draw(random_state=3)
Traceback (most recent call last):
TypeError: random_state: use seed here: functions take seed, estimators random_state; give seed=3.
"""

takes_random_state = _called("random_state", "seed", "estimators take random_state, functions seed")
"""Decorator of the constructor of an estimator that takes ``random_state``: ``seed=0`` raises an error."""


def stored_index(schema: Any) -> list[str]:
    """Columns of an Arrow schema that hold the index of the data frame from which pandas wrote it.

    Examples
    --------
    >>> import pandas as pd
    >>> import pyarrow as pa
    >>> stored_index(pa.Schema.from_pandas(pd.DataFrame({"age": [31, 45]}, index=[1, 0])))
    ['__index_level_0__']
    """
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [column for column in index if isinstance(column, str)]  # a range is no column


def extra(module: str, what: str, name: str) -> Any:
    """Import a module of an extra; raise ImportError that names what needs it and how to install it.

    Parameters
    ----------
    module : str
        Module with its dots.
    what : str
        Subject and verb of the message: ``"bd.plots needs"``.
    name : str
        Extra of the package; if empty, the message names the module's own package.

    Examples
    --------
    >>> extra("no_such_module", "bd.nothing needs", "plot")
    Traceback (most recent call last):
    ImportError: bd.nothing needs no_such_module, which is not installed; pip install 'bayesdrop[plot]'.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        wanted = f"'bayesdrop[{name}]'" if name else package
        raise ImportError(f"{what} {package}, which is not installed; pip install {wanted}.") from error
