"""The one place that words a refusal: arguments that are numbers, counts, choices, objects, seeds or names.

Every function returns the checked value, or raises ``ValueError`` (a number out of its range, or no number at all) or
``TypeError`` (an object of another kind) whose message reads ``argument: expected …, got …; what to do.``
scikit-learn's ``check_scalar`` is not underneath: it takes True for 1 and lets NaN through, and its import takes a
second that ``bd.Beta(1, 1)`` should not.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "MOST",
    "check_axes",
    "check_choice",
    "check_count",
    "check_figure",
    "check_flag",
    "check_instance",
    "check_names",
    "check_number",
    "check_numbers",
    "check_path",
    "check_random_state",
    "check_seed",
    "refuse_masked",
    "refuse_scalar",
    "refuse_surrogates",
    "shown",
]

MOST = 2**31 - 1
"""Largest count: what a 32-bit counter of a sampler holds."""

_LONGEST = 160


def shown(value: Any) -> str:
    """What a message shows of a value: its ``repr`` on one line, cut short, whatever the value does when asked.

    Examples
    --------
    >>> shown("text"), shown(10**5000)
    ("'text'", 'an int that is too long to be shown')
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an object of the user's own may raise anything
        return f"{_with_article(type(value).__name__)} that is too long to be shown"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _with_article(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


def _refusal(name: str, expected: str, value: Any, advice: str) -> str:
    return f"{name}: expected {expected}, got {shown(value)}{f'; {advice}' if advice else ''}."


def check_count(
    value: Any, name: str, least: int = 1, most: int = MOST, *, none: str | None = None, advice: str = ""
) -> int:
    """Whole number from ``least`` to ``most``, as an ``int``.

    Parameters
    ----------
    value : int
        What came; True and False are no numbers.
    name : str
        Argument, for the message.
    least, most : int
        Range.
    none : str, optional
        What None would have meant, where the caller takes None as well and has dealt with it.
    advice : str
        What to do, for the message.

    Raises
    ------
    ValueError
        If it is anything else.

    Examples
    --------
    >>> check_count(np.int64(3), "draws")
    3
    >>> check_count(0, "draws")
    Traceback (most recent call last):
    ValueError: draws: expected a whole number of at least 1, got 0.
    """
    ending = "" if none is None else f", or None {none}".rstrip()
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
    count = int(value) if whole else least - 1
    if count < least:
        raise ValueError(_refusal(name, f"a whole number of at least {least}{ending}", value, advice))
    if count > most:
        raise ValueError(_refusal(name, f"a whole number of at most {most:,}{ending}", value, advice))
    return count


def check_number(
    value: Any,
    name: str,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    advice: str = "",
) -> float:
    """Finite number within bounds, as a ``float``; ``above`` and ``below`` are left out of the range.

    Raises
    ------
    ValueError
        If it is no number, not finite, or out of its range.

    Examples
    --------
    >>> check_number(0.3, "rate", least=0, below=1)
    0.3
    >>> check_number("0.3", "tol", above=0)
    Traceback (most recent call last):
    ValueError: tol: expected a finite number above 0, got '0.3'.
    """
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        inside = (above is None or number > above) and (least is None or number >= least)
        inside &= (below is None or number < below) and (most is None or number <= most)
        if math.isfinite(number) and inside:
            return number
    raise ValueError(_refusal(name, f"a finite number{_range(above, least, below, most)}", value, advice))


def _range(above: float | None, least: float | None, below: float | None, most: float | None) -> str:
    """Words for a range, with a space before them."""
    low, high = above if above is not None else least, below if below is not None else most
    if low is None and high is None:
        return ""
    if high is None:
        return f" above {low:g}" if above is not None else f" >= {low:g}"
    if low is None:
        return f" below {high:g}" if below is not None else f" <= {high:g}"
    return f" in {'(' if above is not None else '['}{low:g}, {high:g}{')' if below is not None else ']'}"


def check_numbers(value: Any, name: str, expected: str = "numbers") -> np.ndarray:
    """Real numbers as an array of doubles of any shape; raise ValueError on text, objects, dates or a mask.

    Whether they are finite and in range is the caller's question.

    Examples
    --------
    >>> check_numbers([1, 2], "scale").tolist()
    [1.0, 2.0]
    >>> check_numbers("a", "scale", "finite numbers above 0")
    Traceback (most recent call last):
    ValueError: scale: expected finite numbers above 0, got 'a'.
    """
    refuse_masked(value, name)
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iufO" or isinstance(value, str | bytes | bool):
            raise TypeError
        return array.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(_refusal(name, expected, value, "")) from None


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
        raise TypeError(_refusal(name, "True, False or None" if none else "True or False", value, ""))
    return bool(value)


def check_choice(value: Any, name: str, choices: Iterable[Any], advice: str = "") -> Any:
    """One of a few texts (and None, if it is among them); raise ValueError on anything else.

    Examples
    --------
    >>> check_choice("float16", "dtype", ("float32", "float64"))
    Traceback (most recent call last):
    ValueError: dtype: expected "float32" or "float64", got 'float16'.
    """
    known = list(choices)
    # What is compared may be an array, whose equality is no answer.
    if (value is None or isinstance(value, str)) and value in known:
        return value
    words = [f'"{choice}"' if isinstance(choice, str) else repr(choice) for choice in known]
    expected = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    raise ValueError(_refusal(name, expected, value, advice))


def check_instance(
    value: Any, name: str, kinds: Any, expected: str, *, none: bool = False, advice: str = "", text: bool = False
) -> Any:
    """An object of one of some classes or protocols, and no class itself; raise TypeError on anything else.

    Parameters
    ----------
    value : object
        What came.
    name : str
        Argument, for the message.
    kinds : type or tuple of types
        Classes or runtime-checkable protocols.
    expected : str
        Words for them, such as ``"an object such as bd.Newton()"``.
    none : bool
        Take None as well.
    advice : str
        What to do, for the message.
    text : bool
        Show the type of what came rather than the value, which may be large.

    Examples
    --------
    >>> check_instance(3, "prior", str, "an object such as bd.Beta(1, 1)")
    Traceback (most recent call last):
    TypeError: prior: expected an object such as bd.Beta(1, 1), got 3.
    """
    if none and value is None:
        return None
    if isinstance(value, type):
        # A class has the attributes that a protocol asks for, and is still no object of it.
        advice = advice or f"call it, as in {value.__name__}(…)"
    elif isinstance(value, kinds):
        return value
    if text:
        ending = f"; {advice}" if advice else ""
        raise TypeError(f"{name}: expected {expected}, got {_with_article(type(value).__name__)}{ending}.")
    raise TypeError(_refusal(name, expected, value, advice))


def check_path(path: Any, name: str = "path") -> Path:
    """Name of a file or folder; raise TypeError or ValueError on anything else.

    Examples
    --------
    >>> check_path(3)
    Traceback (most recent call last):
    TypeError: path: expected the name of a file or folder, got 3.
    """
    if not isinstance(path, str | os.PathLike) or isinstance(path, type):
        raise TypeError(_refusal(name, "the name of a file or folder", path, ""))
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(_refusal(name, "the name of a file or folder", path, ""))
    refuse_surrogates([text], name)
    return Path(text)


def check_seed(seed: Any, name: str = "seed") -> int:
    """Whole number from 0 to 2⁶⁴ − 1, which starts a generator; raise ValueError on anything else.

    Examples
    --------
    >>> check_seed(-1)
    Traceback (most recent call last):
    ValueError: seed: expected a whole number of at least 0, got -1; the same seed gives the same result.
    """
    return check_count(seed, name, 0, 2**64 - 1, advice="the same seed gives the same result")


def check_random_state(random_state: Any) -> np.random.RandomState:
    """Generator as scikit-learn makes it from a seed, a generator or None; raise ValueError that names it.

    Examples
    --------
    >>> check_random_state(-1)
    Traceback (most recent call last):
    ValueError: random_state: expected a whole number from 0 to 2³² − 1, a RandomState or None, got -1.
    """
    from sklearn.utils import check_random_state as made

    try:
        return made(random_state)
    except (ValueError, TypeError):
        expected = "a whole number from 0 to 2³² − 1, a RandomState or None"
        raise ValueError(_refusal("random_state", expected, random_state, "")) from None


def check_names(names: Any, count: int, name: str = "feature_names") -> list[str]:
    """Different names of ``count`` columns as text; raise TypeError or ValueError if they are none.

    Examples
    --------
    >>> check_names([np.int64(3), "b"], 2)
    ['3', 'b']
    """
    if isinstance(names, str | bytes | Mapping) or not isinstance(names, Iterable):
        raise TypeError(_refusal(name, "a sequence of names, one per column", names, ""))
    refuse_masked(names, name)
    found = list(names)
    for one in found:
        if not isinstance(one, str | numbers.Real):
            raise TypeError(_refusal(name, "names that are text (or numbers)", one, ""))
    listed = [str(one) for one in found]
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
    """Raise TypeError on a masked array of NumPy, or a list of them: plain arithmetic would read what is masked.

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
        raise ValueError(_refusal(name, "one value for each row", value, ""))


def check_axes(ax: Any, name: str = "ax") -> Any:
    """Matplotlib axes, or None; raise TypeError on anything else."""
    if ax is None:
        return None
    from matplotlib.axes import Axes

    return check_instance(ax, name, Axes, "axes of matplotlib, such as plt.subplots()[1], or None")


def check_figure(figure: Any, name: str = "figure") -> Any:
    """Matplotlib figure or subfigure, or None; raise TypeError on anything else."""
    if figure is None:
        return None
    from matplotlib.figure import FigureBase

    return check_instance(figure, name, FigureBase, "a figure of matplotlib, such as plt.figure(), or None")
