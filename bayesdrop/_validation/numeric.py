"""Validate numbers, counts, seeds and arrays of numbers, for every public function.

Plain NumPy arrays are accepted without scikit-learn, whose import takes a second. A function accepts such an array only
if scikit-learn's check would return the same; otherwise it calls that check.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from .objects import refusal, refuse_masked

__all__ = [
    "are_classes",
    "check_count",
    "check_matrix",
    "check_number",
    "check_numbers",
    "check_random_state",
    "check_seed",
    "drawn_seed",
    "is_column",
    "plain_matrix",
    "MOST",
    "MOST_PARTS",
]

MOST = 2**31 - 1
"""Largest count that a 32-bit counter of a sampler holds."""
MOST_PARTS = 1_000_000
"""Largest number of units, starts, copies or components of a model; a larger one is taken for an error."""


def check_count(
    value: Any, name: str, least: int = 1, most: int = MOST, *, none: str | None = None, advice: str = ""
) -> int:
    """Whole number from ``least`` to ``most``, as an ``int``.

    Parameters
    ----------
    value : int
        The value passed; True and False are not numbers.
    name : str
        Argument, for the message.
    least, most : int
        Range.
    none : str, optional
        Meaning of None, for a caller that accepts None and has handled it.
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
        raise ValueError(refusal(name, f"a whole number of at least {least}{ending}", value, advice))
    if count > most:
        raise ValueError(refusal(name, f"a whole number of at most {most:,}{ending}", value, advice))
    return count


def check_number(
    value: Any,
    name: str,
    *,
    above: float | int | None = None,
    least: float | int | None = None,
    below: float | int | None = None,
    most: float | int | None = None,
    advice: str = "",
) -> float:
    """Finite number within bounds, as a ``float``; the bounds ``above`` and ``below`` are excluded.

    Raises
    ------
    ValueError
        If it is not a number, not finite, or out of its range.

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
    raise ValueError(refusal(name, f"a finite number{_range(above, least, below, most)}", value, advice))


def _range(
    above: float | int | None, least: float | int | None, below: float | int | None, most: float | int | None
) -> str:
    """Words for a range, with a space before them."""
    low, high = above if above is not None else least, below if below is not None else most
    if low is None and high is None:
        return ""
    if high is None:
        return f" above {low:g}" if above is not None else f" >= {low:g}"
    if low is None:
        return f" below {high:g}" if below is not None else f" <= {high:g}"
    return f" in {'(' if above is not None else '['}{low:g}, {high:g}{')' if below is not None else ']'}"


def check_numbers(
    value: Any,
    name: str,
    expected: str = "",
    *,
    above: float | int | None = None,
    least: float | int | None = None,
    most: float | int | None = None,
    advice: str = "",
) -> np.ndarray:
    """Real numbers as an array of doubles of any shape, finite and within bounds if one is given.

    Raises
    ------
    ValueError
        On text, objects, dates, or numbers out of range; ``expected`` replaces the words of the message.

    Examples
    --------
    >>> check_numbers([1, 2], "scale", above=0).tolist()
    [1.0, 2.0]
    >>> check_numbers("a", "scale", above=0)
    Traceback (most recent call last):
    ValueError: scale: expected finite numbers above 0, got 'a'.
    """
    refuse_masked(value, name)
    bounded = not above is least is most is None
    words = expected or (f"finite numbers{_range(above, least, None, most)}" if bounded else "numbers")
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iufO" or isinstance(value, str | bytes | bool):
            raise TypeError
        array = array.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(refusal(name, words, value, advice)) from None
    low, high = -np.inf if least is None else least, np.inf if most is None else most
    inside = np.isfinite(array) & (array >= low) & (array <= high) & (above is None or array > above)
    if bounded and not np.all(inside):
        raise ValueError(refusal(name, words, value, advice))
    return array


def drawn_seed(seed: Any) -> Any:
    """A whole number below 2³² drawn from a generator of NumPy, old or new; anything else unchanged.

    Examples
    --------
    >>> drawn_seed(np.random.RandomState(0)) == drawn_seed(np.random.RandomState(0)), drawn_seed(5)
    (True, 5)
    """
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**32))
    return int(seed.randint(2**32, dtype=np.uint64)) if isinstance(seed, np.random.RandomState) else seed


def check_seed(seed: Any, name: str = "seed") -> int:
    """Whole number from 0 to 2⁶⁴ − 1, which starts a generator, or one drawn from a generator of NumPy.

    Raises
    ------
    ValueError
        On anything else; also on None, so that every result is reproducible.

    Examples
    --------
    >>> check_seed(-1)
    Traceback (most recent call last):
    ValueError: seed: expected a whole number of at least 0, got -1; the same seed gives the same result.
    """
    return check_count(drawn_seed(seed), name, 0, 2**64 - 1, advice="the same seed gives the same result")


def check_random_state(random_state: Any) -> np.random.RandomState:
    """Random generator, as scikit-learn makes it from a seed, a generator of either kind or None; raise ValueError.

    Examples
    --------
    >>> check_random_state(-1)
    Traceback (most recent call last):
    ValueError: random_state: expected a whole number from 0 to 2³² − 1, a generator of NumPy or None, got -1.
    """
    from sklearn.utils import check_random_state as made

    try:
        if isinstance(random_state, bool | np.bool_):
            raise TypeError
        return made(drawn_seed(random_state) if isinstance(random_state, np.random.Generator) else random_state)
    except (ValueError, TypeError):
        expected = "a whole number from 0 to 2³² − 1, a generator of NumPy or None"
        raise ValueError(refusal("random_state", expected, random_state, "")) from None


_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
# Numbers are classes only if they are integers below this bound, so that 32-bit integers hold them.
_WHOLE = 2.0**31


def plain_matrix(X: Any) -> Any:
    """A finite matrix (n, p) in single or double precision, integers and truth values as doubles; else None.

    Examples
    --------
    >>> plain_matrix(np.array([[1, 2]])).tolist(), plain_matrix(np.array([[np.inf]])), plain_matrix([[1.0]])
    ([[1.0, 2.0]], None, None)
    """
    if type(X) is not np.ndarray or X.ndim != 2 or not X.size:
        return None
    if X.dtype.kind in "biu":
        return X.astype(np.float64)
    return X if X.dtype in _FLOATS and np.isfinite(X).all() else None


def check_matrix(X: Any, **options: Any) -> Any:
    """Features (n, p) in single or double precision, dense or in compressed rows.

    ``options`` are those of scikit-learn's ``check_array``, which raises the errors.
    """
    plain = plain_matrix(X)
    if plain is not None:
        return plain
    from sklearn.utils import check_array

    return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X", **options)


def is_column(y: Any) -> bool:
    """Whether the value is a NumPy array (n,), and not of a subclass."""
    return type(y) is np.ndarray and y.ndim == 1


def are_classes(y: Any, count: int) -> bool:
    """Whether an array (n,) with ``count`` different values certainly holds classes: few integers, or texts.

    Examples
    --------
    >>> are_classes(np.array([0.0, 1.0, 1.0, 1.0]), 2), are_classes(np.array([0.5, 1.0, 1.0, 1.0]), 2)
    (True, False)
    """
    if not is_column(y) or 2 * count > len(y):  # scikit-learn warns of more classes
        return False
    return y.dtype.kind in "biuU" or bool(
        y.dtype in _FLOATS and np.all(np.abs(y) < _WHOLE) and np.all(y == np.trunc(y))
    )
