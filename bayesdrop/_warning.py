"""Warnings that point at the line of the user's own code, however deep in the package they arise."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

__all__ = ["warn"]

_PACKAGE = str(Path(__file__).parent)
# Standard decorators and context managers lie between a public method and its caller.
_BETWEEN = ("contextlib.py", "functools.py")


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the first frame outside the package.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("slow", UserWarning)
    >>> str(caught[0].message)
    'slow'
    """
    frame, level = inspect.currentframe(), 0
    while frame is not None and (
        frame.f_code.co_filename.startswith(_PACKAGE) or Path(frame.f_code.co_filename).name in _BETWEEN
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1)
