"""Run reads of files, NumPy, BLAS and compiled loops, which release the interpreter lock, in threads, for designs."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np

from .._memory import BLOCK
from .._typing import Float

__all__ = ["LIMITS", "Limits", "cores", "in_pieces", "in_threads", "one_blas_thread", "side_by_side", "summed"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Limits:
    """Sizes from which designs change their algorithms, and limits of files.

    Attributes
    ----------
    piece, threaded : int
        Entries of a piece, which fits into a core's cache, and entries of a block from which threads pay.
    cached, fewest : int
        Entries of a block of rows that fits into a core's cache, and minimum rows of a block of a column summary.
    parts, room : int
        Maximum number of parts of a sum over blocks; two if the sums of all parts together exceed ``room`` numbers.
    products : int
        Stored entries of a sparse matrix from which threads pay.
    small, share : int, float
        Entries of a dense matrix beyond which it is multiplied in compressed rows if at most ``share`` are non-zero.
    few : int
        Columns up to which a Gram matrix is preferred even for fewer rows.
    block_bytes, entry_bytes : int
        Maximum bytes of the blocks that threads work on together, and bytes per entry assumed for them.
    lines, even : int
        Lines of a block of a text file, and the number of which the rows of a block of a dense file are a multiple.
    text, columns : int
        Maximum bytes of a line of text, and of lines read at once; and number of columns that even a small file may
        have, because a few vectors of this length fit into memory.
    sample : int
        Number of rows and of columns of a block whose entries are sampled to detect a change of the source.
    key_rounding : float
        Maximum relative difference between the keys of equal rows.
    fan_in, patience, workers : int, float, int
        Sums that a task on a cluster adds, seconds between checks of the connection, and maximum number of workers.
    """

    piece: int = 1 << 15
    threaded: int = 1 << 17
    cached: int = BLOCK // 8
    fewest: int = 16
    parts: int = 4
    room: int = 1 << 22
    products: int = 1 << 19
    small: int = 1 << 21
    share: float = 0.3
    few: int = 50
    block_bytes: int = 1 << 28
    entry_bytes: int = 16
    lines: int = 1 << 14
    even: int = 32
    text: int = 1 << 26
    columns: int = 1 << 24
    sample: int = 64
    key_rounding: float = 1e-9
    fan_in: int = 8
    patience: float = 2.0
    workers: int = 10_000


LIMITS = Limits()


def cores() -> int:
    """Number of cores that this process may use, at most ``OMP_NUM_THREADS``."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(count, max(int(asked), 1)) if asked.isdecimal() else count


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Pool of waiting threads, because starting one takes as long as a product of a million entries."""
    return ThreadPoolExecutor(threads, thread_name_prefix="bayesdrop")


if hasattr(os, "register_at_fork"):
    # A forked process has no threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _in_a_thread() -> bool:
    """Whether the caller is not the main thread; such a thread starts no others."""
    return threading.current_thread() is not threading.main_thread()


def side_by_side(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Results of independent calls, made in threads if the caller is the main thread.

    An error of a call is raised after all calls have ended.

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
        # NumPy has separate overflow settings per thread.
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
    """Apply a function to pieces of rows of ``width`` columns, and return the results.

    Intermediate results fit into a core's cache. Pieces, and thus results, depend on the sizes only.

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
    """Controller of the loaded BLAS, cached because the search takes three milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread within the ``with`` statement.

    A BLAS thread waits for more work for tens of milliseconds at full load, which slows down later code. Statements may
    be nested; in threads other than the main one this has no effect.

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
    """Return sums of some shapes to which ``add(block, *sums)`` adds each slice of ``step`` lines.

    Slices are distributed to parts, which run in threads, with one BLAS thread. The number of parts depends on sizes
    only, so that results do not depend on the number of threads.

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


def in_threads(items: Iterator[tuple[Any, ...]], function: Callable[..., Result], threads: int) -> Iterator[Result]:
    """Call ``function(*item)`` for each item in ``threads`` threads, while the caller's thread reads; keep the order.

    At most ``threads + 1`` items are in memory.

    Examples
    --------
    >>> list(in_threads(iter([(1, 2), (3, 4), (5, 6)]), lambda a, b: a + b, 2))
    [3, 7, 11]
    """
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, *item))
            del item  # the thread holds it
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
