"""Progress of calls that take more than a second, and signals that must not strike in the middle of a step.

``tqdm`` shows the steps of a fit or search in a terminal or a notebook; the fits within a search are part of its bar.
Chains have a bar of their own. A notebook that is executed to be stored sets tqdm's ``TQDM_DISABLE=1``.

Interruptions from the keyboard, and on the command line signals that end the process, may be raised between any two
lines. They are held back where they would do harm, and raised again where they would be lost. An interrupted import
would leave half a library until the process ends.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = [
    "PATIENCE",
    "Ended",
    "ended_by_signals",
    "heard",
    "is_terminal",
    "is_watched",
    "quietly",
    "say",
    "step",
    "uninterrupted",
    "waiting",
]


def is_terminal(stream: Any) -> bool:
    """True if somebody looks at what is written there."""
    with contextlib.suppress(ValueError):  # it is closed
        return stream is not None and bool(stream.isatty())
    return False


def is_watched(stream: Any) -> bool:
    """True if somebody looks at what is written there while it is written: at a terminal, or at a notebook's output."""
    in_notebook = type(stream).__module__ == "ipykernel.iostream"
    return is_terminal(stream) or (in_notebook and os.environ.get("TQDM_DISABLE", "0") in ("", "0"))


def say(line: str) -> None:
    """Print a line on standard error, if that can be written to."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)


PATIENCE = 1.0
"""Seconds after which a task is shown."""

# The bar of the current task: None within a task that shows nothing, False outside of tasks.
_bar: ContextVar[Any] = ContextVar("bar", default=False)


@contextmanager
def waiting(task: str, unit: str, shown: bool = True) -> Iterator[None]:
    """Show the steps of a task by a bar in a terminal or notebook, unless it is part of another task.

    Examples
    --------
    >>> with waiting("fit", "step"), waiting("part of it", "step"):
    ...     step()
    """
    bar = None
    if shown and _bar.get() is False and is_watched(sys.stderr):
        from tqdm import tqdm

        bar = tqdm(desc=task, unit=unit, leave=False, delay=PATIENCE)
    token = _bar.set(bar)
    try:
        yield
    finally:
        _bar.reset(token)
        if bar is not None:
            bar.close()


def quietly() -> contextlib.AbstractContextManager[None]:
    """Show nothing, as in one of several processes."""
    return waiting("", "", shown=False)


def step() -> None:
    """Count a step of the current task."""
    bar = _bar.get()
    if bar is not None and bar is not False:
        bar.update()


@contextmanager
def heard() -> Iterator[None]:
    """Raise what a signal raised again if it fell where Python prints and forgets what is raised.

    That is in finalisers and in callbacks of the garbage collector. JAX has such a callback, which runs all the time
    while a program is traced; the run would go on as if nobody had pressed a key.

    Examples
    --------
    >>> with heard():
    ...     pass
    """
    before = sys.unraisablehook

    def again(number: signal.Signals) -> None:
        time.sleep(0.01)  # it would fall into the same callback
        _thread.interrupt_main(number)

    def hook(lost: Any) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            _thread.start_new_thread(again, (signal.SIGINT,))
        elif issubclass(lost.exc_type, Ended):
            _thread.start_new_thread(again, (lost.exc_value.number,))
        else:
            before(lost)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


class Ended(SystemExit):
    """The end of the process that a signal asked for; its exit code is the shell's, 128 and the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = signal.Signals(number)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise :class:`Ended` where SIGTERM or SIGHUP would end the process at once, so that it cleans up.

    Used by the command line. A signal that the process ignores, as under ``nohup``, or handles is left as it is.

    Examples
    --------
    >>> with ended_by_signals():
    ...     pass
    """

    def end(number: int, frame: Any) -> None:
        raise Ended(number)

    numbers = [number for number in _ENDS if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in numbers:
            signal.signal(number, end)
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


# Windows has no SIGHUP.
_ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def uninterrupted(late: list[Any] | None = None) -> Iterator[None]:
    """Hold signals back until the block is done, for what must happen whole or not at all.

    Those are an interruption from the keyboard, and those of :func:`ended_by_signals`.

    Parameters
    ----------
    late : list, optional
        List that takes interruptions from the keyboard instead of their being raised after the block.

    Examples
    --------
    >>> with uninterrupted():
    ...     pass
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDS)}
    handler_of: dict[int, Any] = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread() or not handler_of:
        yield  # no signal comes here
        return
    came: list[Any] = []
    try:
        for number in handler_of:
            signal.signal(number, lambda *what: came.append(what))
        yield
    finally:
        for number, handler in handler_of.items():
            signal.signal(number, handler)
        if late is not None:
            late += [what for what in came if what[0] == signal.SIGINT]
            came = [what for what in came if what[0] != signal.SIGINT]
    if came:
        handler_of[came[0][0]](*came[0])
