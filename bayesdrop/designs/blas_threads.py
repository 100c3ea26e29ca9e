"""One thread for BLAS where the package has threads of its own.

A thread of BLAS that has done its share waits for more with its core at full load, tens of milliseconds long, and takes
it from compiled products that follow: half of their time where there are as many cores as threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from .block_threads import cores, in_a_thread

__all__ = ["has_one_thread", "one_thread"]


@cache
def _libraries() -> Any:
    """What BLAS the process has loaded; to look takes three milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class _Limit:
    """How many callers ask for one thread: the first to come takes the others away, the last to go brings them back."""

    def __init__(self) -> None:
        self.lock, self.callers, self.taken = threading.Lock(), 0, ExitStack()

    def enter(self) -> None:
        with self.lock:
            if not self.callers:
                self.taken.enter_context(_libraries().limit(limits=1, user_api="blas"))
            self.callers += 1

    def leave(self) -> None:
        with self.lock:
            self.callers -= 1
            if not self.callers:
                self.taken.close()


_limit = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread meanwhile; it has as many as before when the last who asked for it is done.

    Examples
    --------
    >>> with one_thread():
    ...     has_one_thread()
    True
    """
    if in_a_thread():
        yield
        return
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def has_one_thread() -> bool:
    """Whether BLAS has one thread for sure, so that several of its calls are best made side by side."""
    return _limit.callers > 0 or cores() == 1
