"""Statements of each loss by the programs, which tests compare with the library.

A program of a loss has ``STATES``, from the name of the loss's class to a :class:`Statement`.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import bayesdrop.models

__all__ = ["Statement", "statements"]


class Statement(NamedTuple):
    """A loss as its program has it.

    Attributes
    ----------
    program : callable
        The program without noise.
    log_likelihood : callable
        ``(y, score, **settings)``: minus the plain loss, up to what depends on ``y`` alone, for arrays of NumPy or JAX.
    bound : callable or None
        ``(y, mean, var, **settings)``: the bound of its augmentation; None where it has none.
    settings : mapping
        Settings of the loss under which it is tried. A default may hide an error, such as a sign that a median does
        not see.
    options : mapping
        What ``program`` is given for these settings.
    kinks : tuple of callables
        Scores ``(y, **settings)`` at which the plain loss bends.
    """

    program: Callable[..., Any]
    log_likelihood: Callable[..., Any]
    bound: Callable[..., Any] | None = None
    settings: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    kinks: tuple[Callable[..., Any], ...] = ()


def statements() -> dict[str, Statement]:
    """Statement of each loss, by the name of its class."""
    found: dict[str, Statement] = {}
    for one in pkgutil.iter_modules(bayesdrop.models.__path__):
        found.update(getattr(importlib.import_module(f"bayesdrop.models.{one.name}"), "STATES", {}))
    return found
