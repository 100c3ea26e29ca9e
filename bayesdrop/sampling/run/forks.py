"""A process that was forked once samplers had run has none of JAX's threads, and would wait for them for ever."""

from __future__ import annotations

import os

__all__ = ["check_process"]

_first: int | None = None


def check_process() -> None:
    """Remember the first process that samples; raise RuntimeError in one that was forked from it.

    Examples
    --------
    >>> check_process()
    """
    global _first
    if _first is None:
        _first = os.getpid()
    if _first != os.getpid():
        raise RuntimeError(
            f"this process was forked (os.fork) from process {_first}, which had sampled: the threads of JAX are not "
            'here, and sampling would wait for them for ever. Start workers by multiprocessing.get_context("spawn"), '
            "joblib or dask.distributed, or fork before the first sample is drawn."
        )
