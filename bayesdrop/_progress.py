"""Show progress bars for calls that take more than a second, and delay signals while files or state are written.

``tqdm`` shows the steps of a fit or search in a terminal or a notebook; the fits within a search are part of its bar.
MCMC chains have a separate bar (:mod:`bayesdrop.sampling.run.runner`). Set ``TQDM_DISABLE=1`` to run a notebook
without bars in its stored output.

Python may raise a keyboard interrupt, and on the command line a termination signal, between any two lines.
:func:`uninterrupted` delays them until a block ends: an interrupted import, for one, would leave a module half loaded
until the process ends. :func:`heard` raises them again if Python has discarded them.
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
    """Whether a stream is a terminal."""
    with contextlib.suppress(ValueError):  # the stream is closed
        return stream is not None and bool(stream.isatty())
    return False


def is_watched(stream: Any) -> bool:
    """Whether output appears as it is written: in a terminal, or in a notebook with bars enabled."""
    in_notebook = type(stream).__module__ == "ipykernel.iostream"
    return is_terminal(stream) or (in_notebook and os.environ.get("TQDM_DISABLE", "0") in ("", "0"))


def say(line: str) -> None:
    """Print a line on standard error, if that can be written to."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)


PATIENCE = 1.0
"""Seconds after which the bar of a task appears."""

# The bar of the current task: None within a task without a bar, False outside of tasks.
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
    """Show no bar, for a fit in one of several parallel processes."""
    return waiting("", "", shown=False)


def step() -> None:
    """Count a step of the current task."""
    bar = _bar.get()
    if bar is not None and bar is not False:
        bar.update()


@contextmanager
def heard() -> Iterator[None]:
    """Raise interrupts again that Python discards because they occur in a finaliser or a garbage collection callback.

    Python prints such exceptions and continues. JAX has such a callback, which often runs while a program is traced,
    so that without this the run would ignore the key. Used by samplers and the command line.

    Examples
    --------
    >>> with heard():
    ...     pass
    """
    before = sys.unraisablehook

    def again(number: signal.Signals) -> None:
        time.sleep(0.01)  # without the pause it would be raised in the same callback
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
    """Exit requested by a signal; the exit code is 128 plus the number of the signal, as in a shell."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = signal.Signals(number)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise :class:`Ended` when SIGTERM or SIGHUP would end the process at once, so that it cleans up.

    Used by the command line. A signal that has another handler, or is ignored as under ``nohup``, is unchanged.

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
    """Delay keyboard interrupts and the signals of :func:`ended_by_signals` until the block ends.

    Used to import modules and to write files.

    Parameters
    ----------
    late : list, optional
        List to which keyboard interrupts are appended; without it they are raised after the block.

    Examples
    --------
    >>> with uninterrupted():
    ...     pass
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDS)}
    handler_of: dict[int, Any] = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread() or not handler_of:
        yield  # Python handles signals in the main thread only
        return
    signals: list[Any] = []
    try:
        for number in handler_of:
            signal.signal(number, lambda *arguments: signals.append(arguments))
        yield
    finally:
        for number, handler in handler_of.items():
            signal.signal(number, handler)
        if late is not None:
            late += [arguments for arguments in signals if arguments[0] == signal.SIGINT]
            signals = [arguments for arguments in signals if arguments[0] != signal.SIGINT]
    if signals:
        handler_of[signals[0][0]](*signals[0])
