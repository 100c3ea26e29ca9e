"""Validation of numbers, counts, seeds and arrays of numbers.

Plain arrays of NumPy that are right as they are, of which scikit-learn, a second to import, need not be asked.

Each function says yes only where scikit-learn's check would return the same; else that check is asked, or refuses.
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
]

MOST = 2**31 - 1
"""Largest count: what a 32-bit counter of a sampler holds."""


def check_count(
    value: Any, name: str, least: int = 1, most: int = MOST, *, none: str | None = None, advice: str = ""
) -> int:
    """Whole number from ``least`` to ``most``, as an ``int``.

    Parameters
    ----------
    value : int
        What came; True and False are not numbers.
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
    """Finite number within bounds, as a ``float``; ``above`` and ``below`` are left out of the range.

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
        On text, objects, dates, or numbers out of range; ``expected`` says it in other words.

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
        On anything else, None included: a result that cannot be computed again is not asked for by chance.

    Examples
    --------
    >>> check_seed(-1)
    Traceback (most recent call last):
    ValueError: seed: expected a whole number of at least 0, got -1; the same seed gives the same result.
    """
    return check_count(drawn_seed(seed), name, 0, 2**64 - 1, advice="the same seed gives the same result")


def check_random_state(random_state: Any) -> np.random.RandomState:
    """Generator as scikit-learn makes it from a seed, a generator, old or new, or None; or ValueError that names it.

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
# Classes are numbers of whole values below it, which 32-bit integers hold.
_WHOLE = 2.0**31


def plain_matrix(X: Any) -> Any:
    """A finite matrix (n, p) in single or double precision, integers and truth values in double; None for all else.

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

    ``options`` are those of scikit-learn's ``check_array``, which words what is refused.
    """
    found = plain_matrix(X)
    if found is not None:
        return found
    from sklearn.utils import check_array

    return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X", **options)


def is_column(y: Any) -> bool:
    """Whether it is an array (n,) and nothing else."""
    return type(y) is np.ndarray and y.ndim == 1


def are_classes(y: Any, count: int) -> bool:
    """Whether an array (n,) with so many different values certainly holds classes: few whole numbers, or texts.

    Examples
    --------
    >>> are_classes(np.array([0.0, 1.0, 1.0, 1.0]), 2), are_classes(np.array([0.5, 1.0, 1.0, 1.0]), 2)
    (True, False)
    """
    if not is_column(y) or 2 * count > len(y):  # of more classes scikit-learn warns
        return False
    return y.dtype.kind in "biuU" or bool(
        y.dtype in _FLOATS and np.all(np.abs(y) < _WHOLE) and np.all(y == np.trunc(y))
    )
