"""Arguments that other libraries, or other parts of this one, call by another word."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from .words import shown

__all__ = ["takes_random_state", "takes_seed"]

P = ParamSpec("P")
R = TypeVar("R")


def _called(name: str, other: str, why: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def checked(*args: P.args, **options: P.kwargs) -> R:
            if other in options:
                given = shown(options[other])
                raise TypeError(f"{other}: this is called {name} here, for {why}; give {name}={given}.")
            return function(*args, **options)

        return checked

    return decorate


takes_seed = _called("seed", "random_state", "functions take seed, and estimators random_state")
"""Decorator of a function that takes ``seed``: ``random_state=0`` is an error that says so.

Examples
--------
>>> @takes_seed
... def draw(seed=0):
...     return seed
>>> draw(random_state=3)
Traceback (most recent call last):
TypeError: random_state: this is called seed here, for functions take seed, and estimators random_state; give seed=3.
"""

takes_random_state = _called("random_state", "seed", "estimators take random_state, and functions seed")
"""Decorator of the constructor of an estimator that takes ``random_state``: ``seed=0`` is an error that says so."""
