"""One thread for BLAS where the package has threads of its own.

A thread of BLAS that has done its share waits for more with its core at full load, tens of milliseconds long, and takes
it from compiled products that follow: half of their time where there are as many cores as threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any

import numpy as np

from .._typing import Float
from .block_threads import cores, in_a_thread, side_by_side

__all__ = ["has_one_thread", "one_thread", "summed"]

# Parts that sums over blocks are made in at most, and the numbers of them all, beyond which there are two.
_PARTS, _ROOM = 4, 1 << 22


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


def summed(
    size: int, step: int, shapes: Sequence[tuple[int, ...]], add: Callable[..., None]
) -> tuple[Float[np.ndarray, ...], ...]:
    """Sums of some shapes to which ``add(block, *sums)`` adds, for one slice of so many lines after another.

    Blocks are dealt out to parts, as many as the sizes tell, so that no bit depends on the threads: where BLAS has one,
    the parts go side by side.

    Examples
    --------
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> summed(3, 2, [(2,)], lambda rows, total: np.add(total, X[rows].sum(axis=0), out=total))[0].tolist()
    [6.0, 9.0]
    """
    starts = range(0, size, max(step, 1))
    numbers = sum(int(np.prod(shape)) for shape in shapes)
    count = min(_PARTS if _PARTS * numbers <= _ROOM else 2, len(starts))
    parts = [np.zeros((count, *shape)) for shape in shapes]

    def some(part: int) -> None:
        for start in starts[part::count]:
            add(slice(start, min(start + starts.step, size)), *(sums[part] for sums in parts))

    calls = [partial(some, part) for part in range(count)]
    if has_one_thread():
        side_by_side(calls)
    else:
        for call in calls:
            call()
    return tuple(sums.sum(axis=0) for sums in parts)
