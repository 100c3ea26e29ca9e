"""Interruptions from the keyboard, which Python may raise between any two lines, held back where they would do harm.

An import that is interrupted leaves a library that is half there, until the process ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["uninterrupted"]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold an interruption from the keyboard back until the block is done, for what must happen whole or not at all.

    Examples
    --------
    >>> with uninterrupted():
    ...     pass
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # no interruption comes here
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda *what: came.append(what))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        before(*came[0])
