"""Progress line in a terminal, for calls that take more than a second.

Fits and searches are mostly over before one could read a line. Of a long one ``tqdm`` shows the steps so far, while it
lasts, in a terminal or a notebook; the fits within a search are part of its line. Chains have a bar of their own, and
one line at their end where nobody looks: a log would keep all that a bar draws. ``TQDM_DISABLE=1`` of the environment,
which is tqdm's own, says so of a notebook that is executed to be stored.

Interruptions from the keyboard, and on the command line signals that end the process, which Python may raise between
any two lines, are held back where they would do harm, and raised again where they would be lost.

An import that is interrupted leaves a library that is half there, until the process ends.
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
from typing import Any, ClassVar

__all__ = [
    "Ended",
    "Line",
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


class Line:
    """The line of one task; ``shown`` is False within another task, which has a line already.

    What is over before ``patience`` seconds is not shown.
    """

    patience: ClassVar[float] = 1.0

    def __init__(self, task: str, unit: str, shown: bool) -> None:
        self._task, self._unit = task, unit
        self._count, self._begin = 0, time.perf_counter()
        self._bar: Any = None
        self._shown = shown

    def step(self, count: int = 1) -> None:
        """Count so many steps."""
        self._count += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._shown and time.perf_counter() - self._begin > self.patience and is_watched(sys.stderr):
            from tqdm import tqdm

            self._bar = tqdm(desc=self._task, initial=self._count, unit=self._unit, leave=False)

    def close(self) -> None:
        """Take the line away."""
        if self._bar is not None:
            self._bar.close()


_current: ContextVar[Line | None] = ContextVar("task", default=None)


@contextlib.contextmanager
def waiting(task: str, unit: str, shown: bool = True) -> Iterator[Line]:
    """Show a task by its line, unless it is part of another.

    Examples
    --------
    >>> with waiting("fit", "step") as line, waiting("part of it", "step"):
    ...     step()
    >>> line._count
    0
    """
    line = Line(task, unit, shown and _current.get() is None)
    token = _current.set(line)
    try:
        yield line
    finally:
        _current.reset(token)
        line.close()


def quietly() -> contextlib.AbstractContextManager[Line]:
    """Show nothing, as in one of several processes."""
    return waiting("", "", shown=False)


def step() -> None:
    """Count a step of the innermost task."""
    line = _current.get()
    if line is not None:
        line.step()


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
    held: dict[int, Any] = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread() or not held:
        yield  # no signal comes here
        return
    came: list[Any] = []
    try:
        for number in held:
            signal.signal(number, lambda *what: came.append(what))
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if late is not None:
            late += [what for what in came if what[0] == signal.SIGINT]
            came = [what for what in came if what[0] != signal.SIGINT]
    if came:
        held[came[0][0]](*came[0])
