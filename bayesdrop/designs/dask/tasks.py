"""Tasks on a Dask cluster: their results, and what is said when the scheduler is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["cluster_errors", "computed"]

# Seconds between two looks at whether the scheduler is still there.
_PATIENCE = 2.0


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Say what to do when the scheduler is gone."""
    try:
        yield
    except Exception as error:
        if _is_loss(error):
            raise RuntimeError(
                "The Dask scheduler, or too many of its workers, were lost, and with them the fit; nothing was kept "
                f"({type(error).__name__}: {str(error)[:200]}). Start a cluster, as with bd.cluster(), and fit again."
            ) from error
        raise


def computed(parts: list[Any]) -> list[Any]:
    """Results of tasks, from the cluster if there is one, or from threads.

    A client whose scheduler has gone waits for ever, so that it is asked now and then whether it is still connected.
    """
    import dask

    with cluster_errors():
        client = getattr(dask.base.get_scheduler(collections=parts), "__self__", None)
        if client is None:
            return list(dask.compute(*parts))
        from distributed import wait

        futures, missed = client.compute(parts), 0
        while True:
            try:
                wait(futures, timeout=_PATIENCE)
                return client.gather(futures)
            except TimeoutError:
                missed = 0 if client.status == "running" else missed + 1
                if missed > 1:
                    raise ConnectionError(f"the client is {client.status}") from None


def _is_loss(error: BaseException) -> bool:
    from concurrent.futures import CancelledError

    kinds = {"CommClosedError", "KilledWorker", "FutureCancelledError", "FuturesCancelledError", "CancelledError"}
    return isinstance(error, CancelledError | ConnectionError) or type(error).__name__ in kinds
