"""Keep all draws if an interruption comes after the last one: in groups, corrections, likelihoods or diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from ..._progress import uninterrupted
from ...warnings import IncompleteWarning, warn

__all__ = ["LateInterruption"]

T = TypeVar("T")


class LateInterruption:
    """Interruptions after the last draw, for the functions that make a posterior.

    Attributes
    ----------
    came : list
        Interruptions so far.
    left_out : list of str
        Optional parts that they stopped or prevented.

    Examples
    --------
    >>> late = LateInterruption()
    >>> with late.whole():
    ...     groups = {"posterior": 1}
    >>> late.optional("the diagnosis", lambda: 2, 0)
    2
    """

    def __init__(self) -> None:
        self.came: list[Any] = []
        self.left_out: list[str] = []

    def whole(self) -> AbstractContextManager[None]:
        """Context whose block runs to its end, even if an interruption comes."""
        return uninterrupted(self.came)

    def optional(self, part: str, make: Callable[[], T], otherwise: T) -> T:
        """Return ``make()``, or ``otherwise`` if an interruption came before or comes meanwhile."""
        if not self.came:
            try:
                return make()
            except KeyboardInterrupt as interruption:
                self.came.append(interruption)
        self.left_out.append(part)
        return otherwise

    def warn(self) -> None:
        """Warn of the interruption, and name the parts that are missing."""
        if self.came:
            lost = f" without {', '.join(self.left_out)}" if self.left_out else ""
            warn(f"interrupted after the last draw: all draws are returned{lost}.", IncompleteWarning)
