"""Loops compiled by Numba (the extra ``fast``), when they are first used, and kept on disk."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from inspect import unwrap
from typing import Any

__all__ = ["available", "compiled"]


@cache
def available() -> bool:
    """True if Numba is installed."""
    return find_spec("numba") is not None


@cache
def compiled(loop: Any, *fast: str) -> Any:
    """A loop over arrays, which other threads may run beside; ``fast`` are what of arithmetic it may change.

    ``"reassoc"`` lets sums be ordered as the processor likes, ``"contract"`` makes a product and a sum one operation,
    ``"nnan"`` and ``"nsz"`` take for granted that nothing is NaN and that the sign of zero does not matter.
    """
    import numba

    options: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "fastmath": set(fast)}
    # A test run may wrap functions in checks of their types, which Numba cannot compile.
    return numba.njit(**options)(unwrap(loop))
