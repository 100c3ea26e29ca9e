"""Thread pool for files, NumPy, BLAS and compiled loops, which release the interpreter."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np

from .._typing import Float

__all__ = ["LIMITS", "Limits", "ahead", "cores", "in_pieces", "in_threads", "one_blas_thread", "side_by_side", "summed"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Limits:
    """Sizes that choose between ways of the designs.

    Attributes
    ----------
    piece, threaded : int
        Numbers of a piece, which stays in a core's cache, and of a block whose pieces are worth threads.
    parts, room : int
        Parts that sums over blocks are made in at most, and the numbers of them all, beyond which there are two.
    small, share : int, float
        A dense matrix of more entries, of which no more than such a share are not zero, has its products by
        compressed rows, which are faster then and take less memory than the matrix.
    compiled : int
        Entries of a sparse matrix from which on compiled loops save more than loading them costs.
    block_bytes : int
        Bytes of the blocks that threads work on, two precisions of each.
    lines, even : int
        Lines of a block of a text file, and a number of rows that those of a dense file are a multiple of, for
        compiled loops take some at a time.
    text, columns : int
        Bytes of a line of text, and of the lines that are read at once; and columns that a small file may have, for a
        few vectors over them take no more than what a session takes anyway.
    """

    piece: int = 1 << 15
    threaded: int = 1 << 17
    parts: int = 4
    room: int = 1 << 22
    small: int = 1 << 21
    share: float = 0.3
    compiled: int = 100_000
    block_bytes: int = 1 << 28
    lines: int = 1 << 14
    even: int = 32
    text: int = 1 << 26
    columns: int = 1 << 24


LIMITS = Limits()


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


def _in_a_thread() -> bool:
    """Whether the caller is one of several threads, which are to begin no others."""
    return threading.current_thread() is not threading.main_thread()


def side_by_side(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Results of calls that have nothing to do with each other, made in threads unless the caller is one of several.

    An error of one is raised when all have ended.

    Examples
    --------
    >>> side_by_side([lambda: 1, lambda: 2])
    [1, 2]
    """
    count = 1 if _in_a_thread() else min(cores(), len(calls))
    if count <= 1:
        return [call() for call in calls]
    results: list[Any] = [None] * len(calls)
    waiting, settings = deque(enumerate(calls)), np.geterr()

    def work() -> None:
        # What NumPy says of overflows is a thread's own matter.
        with np.errstate(**settings):
            while True:
                try:
                    place, call = waiting.popleft()
                except IndexError:
                    return
                results[place] = call()

    others = [_pool(count - 1).submit(work) for _ in range(count - 1)]
    try:
        work()
    finally:
        wait(others)
    for other in others:
        other.result()
    return results


def in_pieces(function: Callable[[slice], Result], rows: int, width: int) -> list[Result]:
    """What a function makes of the rows of blocks of so many columns, given a few at a time.

    What is made on the way then stays in a core's cache. The pieces depend on the sizes alone, and so does every bit.

    Examples
    --------
    >>> block = np.ones((3, 2))
    >>> in_pieces(lambda some: block[some].sum(), 3, 2)
    [np.float64(6.0)]
    """
    few = rows if rows * width <= LIMITS.piece else max(1, LIMITS.piece // width)
    pieces = [slice(start, min(start + few, rows)) for start in range(0, rows, few)] if rows else [slice(0, 0)]
    if rows * width < LIMITS.threaded:
        return [function(piece) for piece in pieces]
    return side_by_side([partial(function, piece) for piece in pieces])


@cache
def _blas() -> Any:
    """What BLAS the process has loaded; to look takes three milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread meanwhile; then it has as many as before.

    A thread of BLAS that has done its share waits for more with its core at full load, tens of milliseconds long, and
    takes it from what follows. Calls within each other end in turn; threads other than the main one change nothing.

    Examples
    --------
    >>> with one_blas_thread():
    ...     {library["num_threads"] for library in _blas().info()}
    {1}
    """
    if _in_a_thread():
        yield
        return
    with _blas().limit(limits=1):
        yield


def summed(
    size: int, step: int, shapes: Sequence[tuple[int, ...]], add: Callable[..., None]
) -> tuple[Float[np.ndarray, ...], ...]:
    """Sums of some shapes to which ``add(block, *sums)`` adds, for one slice of so many lines after another.

    Blocks are dealt out to parts, as many as the sizes tell, which go in threads, BLAS having one: no bit depends on
    how many there are.

    Examples
    --------
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> summed(3, 2, [(2,)], lambda rows, total: np.add(total, X[rows].sum(axis=0), out=total))[0].tolist()
    [6.0, 9.0]
    """
    starts = range(0, size, max(step, 1))
    numbers = sum(int(np.prod(shape)) for shape in shapes)
    count = min(LIMITS.parts if LIMITS.parts * numbers <= LIMITS.room else 2, len(starts))
    parts = [np.zeros((count, *shape)) for shape in shapes]
    if count == 1 and len(starts) == 1:
        add(slice(0, size), *(sums[0] for sums in parts))
        return tuple(sums[0] for sums in parts)

    def some(part: int) -> None:
        for start in starts[part::count]:
            add(slice(start, min(start + starts.step, size)), *(sums[part] for sums in parts))

    with one_blas_thread():
        side_by_side([partial(some, part) for part in range(count)])
    return tuple(sums.sum(axis=0) for sums in parts)


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


def in_threads(items: Iterator[tuple[Any, ...]], function: Callable[..., Result], threads: int) -> Iterator[Result]:
    """What a function makes of each item, in their order; the caller's thread reads while ``threads`` others work.

    One more than there are threads is held at most.

    Examples
    --------
    >>> list(in_threads(iter([(1, 2), (3, 4), (5, 6)]), lambda a, b: a + b, 2))
    [3, 7, 11]
    """
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, *item))
            del item  # it is the thread's now
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
