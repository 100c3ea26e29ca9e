"""Packages that only some of the library needs, and how they are installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["extra"]


def extra(module: str, what: str, name: str) -> Any:
    """Import a module of an extra; raise ImportError that says what needs it and how it is installed.

    Parameters
    ----------
    module : str
        Module with its dots.
    what : str
        What needs it, with a verb: ``"bd.plots needs"``.
    name : str
        Extra of the package; where there is none, ``""``, the module's own package is named.

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
