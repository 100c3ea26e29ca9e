"""Compile loops by Numba (the extra ``fast``), for solvers that products of a matrix cannot express.

Loops are compiled at their first use, and cached on disk if possible.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from inspect import unwrap
from pathlib import Path
from typing import Any

from .._atomic_files import check_private

__all__ = ["ROUNDING", "available", "compiled"]

# Relative difference below which an entry equals a centre: the mean of equal numbers differs from them by rounding.
ROUNDING = 1e-12


@cache
def available() -> bool:
    """True if Numba is installed."""
    return find_spec("numba") is not None


@cache
def compiled(loop: Any, *fast: str) -> Callable[..., Any]:
    """Compile a loop over arrays, which threads may run in parallel; ``fast`` lists permitted changes of arithmetic.

    ``"reassoc"`` permits any order of sums, ``"contract"`` fuses a product and a sum, ``"nnan"`` and ``"nsz"`` assume
    that no number is NaN and that the sign of zero does not matter.

    Numba's cache is used if its folder is writable, and not by users outside the group. Otherwise, and if a file is
    damaged or the disk is full, each process compiles for itself.
    """
    import numba

    options: dict[str, Any] = {"nogil": True, "boundscheck": False, "fastmath": set(fast)}
    # Tests may wrap functions in type checks, which Numba cannot compile.
    function = unwrap(loop)
    plain = chosen = numba.njit(**options)(function)
    if not hasattr(plain, "stats"):  # NUMBA_DISABLE_JIT
        return plain
    # RuntimeError: Numba found no folder that it may write to.
    with suppress(OSError, RuntimeError):
        stored = numba.njit(cache=True, **options)(function)
        check_private(Path(stored.stats.cache_path), trusts_group=True)
        chosen = stored

    def run(*arguments: Any) -> Any:
        nonlocal chosen
        try:
            return chosen(*arguments)
        except Exception:  # reading a damaged file may raise any error; the loops raise none
            if chosen is plain:
                raise
            chosen = plain
            return plain(*arguments)

    return run
