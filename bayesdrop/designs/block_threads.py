"""Blocks read ahead and worked on by threads: files, NumPy and BLAS leave the interpreter to each other."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from itertools import islice, pairwise, repeat
from typing import Any, TypeVar

import numpy as np

from .._typing import Num, Shaped

__all__ = ["Scratch", "ahead", "cores", "falling", "in_a_thread", "in_threads", "shares", "side_by_side"]

Result = TypeVar("Result")


def cores() -> int:
    """Cores that this process may use; no more than ``OMP_NUM_THREADS``, by which workers are kept to their share."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(here, max(int(asked), 1)) if asked.isdecimal() else here


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that wait for work: to begin one takes as long as a product of a million entries."""
    return ThreadPoolExecutor(threads, thread_name_prefix="bayesdrop")


if hasattr(os, "register_at_fork"):
    # A forked process has none of the threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def side_by_side(calls: Sequence[Callable[[], None]]) -> None:
    """Make calls that have nothing to do with each other: in threads, unless the caller is one of several.

    An error of one is raised when all have ended.

    Examples
    --------
    >>> found: set[int] = set()
    >>> side_by_side([lambda: found.add(1), lambda: found.add(2)])
    >>> sorted(found)
    [1, 2]
    """
    count = 1 if in_a_thread() else min(cores(), len(calls))
    if count <= 1:
        for call in calls:
            call()
        return
    waiting, settings = deque(calls), np.geterr()

    def work() -> None:
        # What NumPy says of overflows is a thread's own matter.
        with np.errstate(**settings):
            while True:
                try:
                    call = waiting.popleft()
                except IndexError:
                    return
                call()

    others = [_pool(count - 1).submit(work) for _ in range(count - 1)]
    try:
        work()
    finally:
        wait(others)
    for other in others:
        other.result()


def in_a_thread() -> bool:
    """Whether the caller is one of several threads, which are to begin no others."""
    return threading.current_thread() is not threading.main_thread()


def shares(pointers: Num[np.ndarray, " pointers"], count: int) -> list[slice]:
    """Compressed lines in so many parts of like numbers of entries, at most.

    Examples
    --------
    >>> shares(np.array([0, 5, 6, 7, 10]), 2)
    [slice(0, 1, None), slice(1, 4, None)]
    """
    lines, entries = len(pointers) - 1, int(pointers[-1])
    ends = np.searchsorted(pointers, np.arange(1, count) * (entries / count))
    return [slice(a, b) for a, b in pairwise([0, *ends.tolist(), lines]) if b > a]


def ahead(blocks: Generator[Any]) -> Iterator[Any]:
    """Items of a generator, each made in a thread while the one before is in use.

    Examples
    --------
    >>> list(ahead(k for k in range(3)))
    [0, 1, 2]
    """
    try:
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(next, blocks, None)
            while (item := coming.result()) is not None:
                coming = pool.submit(next, blocks, None)
                yield item
    finally:
        # The pool is done by now, so that nothing reads any more; this closes the files.
        blocks.close()


class Scratch(threading.local):
    """Memory for the numbers of a block, each thread its own, used again for the next: fresh memory costs a copy.

    Examples
    --------
    >>> scratch = Scratch()
    >>> np.shares_memory(scratch.empty(3, np.float32), scratch.empty(2, np.float32))
    True
    """

    def __init__(self) -> None:
        self._room = np.empty(0, dtype=np.uint8)

    def empty(self, count: int, dtype: Any) -> Shaped[np.ndarray, " count"]:
        """Room for so many numbers, where those of the call before were."""
        size = count * np.dtype(dtype).itemsize
        if size > len(self._room):
            self._room = np.empty(size, dtype=np.uint8)
        return self._room[:size].view(dtype)


def in_threads(
    items: Iterator[tuple[Any, ...]], function: Callable[..., Result], threads: int, sizes: Iterable[int] = repeat(1)
) -> Iterator[Result]:
    """What a function makes of each item, in their order; the caller's thread reads while ``threads`` others work.

    Each is given as many items at once as ``sizes`` says, one after the other; of single ones, one more than there are
    threads is held at most.

    Examples
    --------
    >>> list(in_threads(iter([(1, 2), (3, 4), (5, 6)]), lambda a, b: a + b, 2, [2, 1]))
    [3, 7, 11]
    """

    def several(group: list[tuple[Any, ...]]) -> list[Result]:
        return [function(*item) for item in group]

    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[list[Result]]] = deque()
        for size in sizes:
            group = list(islice(items, size))
            if not group:
                break
            waiting.append(pool.submit(several, group))
            del group  # it is the thread's now
            if len(waiting) > threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def falling(total: int, threads: int, most: int) -> Iterator[int]:
    """How many of so many items to give each thread at once: fewer in the end, so that all end at about the same time.

    Examples
    --------
    >>> list(falling(12, 2, 4))
    [3, 2, 1, 1, 1, 1, 1, 1, 1]
    """
    while total > 0:
        size = max(1, min(most, total // (2 * threads)))
        yield size
        total -= size
