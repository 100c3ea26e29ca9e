"""Warnings that point at the line of the user's which caused them, however deep in the package they arise."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

__all__ = ["warn_caller"]

_PACKAGE = str(Path(__file__).resolve().parent)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the innermost line outside this package.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_caller("the chains disagree", UserWarning)
    >>> caught[0].filename.startswith(_PACKAGE)
    False
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
