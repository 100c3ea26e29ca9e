"""Connect to a Dask cluster, on this machine or a running one, and run the tasks of designs on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..._validation import check_count, check_instance, check_number, extra, shown
from ..threads import LIMITS

__all__ = ["cluster", "cluster_errors", "computed"]


def cluster(
    address: str = "local", *, workers: int | None = None, memory: str | int | None = None, timeout: float = 10.0
) -> Any:
    """Connect to a Dask cluster; fits of Dask collections run on it until it is closed.

    Without a cluster they run in threads of this process. Workers that it starts are processes that import the main
    script: in a script, unlike in a notebook, call it below ``if __name__ == "__main__":``.

    Parameters
    ----------
    address : str, default="local"
        Address of a scheduler, as in ``"tcp://10.0.0.1:8786"``; ``"local"`` starts workers on this machine, which end
        with the client. None is an error, because it may be a missing setting.
    workers : int, optional
        Number of worker processes to start here, of one thread each; by default one for each processor.
    memory : str or int, optional
        Memory limit of each worker, as in ``"2GB"``; by default an equal share of the machine's memory. A worker
        near its limit writes blocks to disk.
    timeout : float, default=10.0
        Seconds to wait for the scheduler.

    Returns
    -------
    dask.distributed.Client
        The client; close it after use, or use it in a ``with`` statement. Its ``dashboard_link`` shows what the workers
        do.

    Raises
    ------
    ImportError
        If Dask's scheduler is not installed.
    TimeoutError
        If there is no scheduler at the address.
    ValueError
        If both an address and workers to start are given, or the number of workers is not positive.

    See Also
    --------
    Blocks, fit

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import bayesdrop as bd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X[:, 0] > 0
    >>> with bd.cluster(workers=1):
    ...     result = bd.fit(bd.Model(rates=bd.Fixed(0.2)), da.from_array(X, chunks=(50, 3)), y)
    >>> result.status.name
    'CONVERGED'
    """
    client = extra("distributed", "bd.cluster needs", "dask").Client
    if not isinstance(address, str) or not address:
        raise TypeError(
            'address: expected the address of a scheduler such as "tcp://10.0.0.1:8786", or "local" to start workers '
            f"here, got {shown(address)}."
        )
    check_number(timeout, "timeout", above=0)
    if address == "local":
        if workers is not None:
            check_count(workers, "workers", most=LIMITS.workers)
        if memory is not None:
            check_instance(memory, "memory", (str, int), 'a size such as "2GB"')
        limit = "auto" if memory is None else memory
        try:
            # Any free port for the dashboard, because another cluster may use the usual one.
            return client(n_workers=workers, threads_per_worker=1, memory_limit=limit, dashboard_address="127.0.0.1:0")
        except RuntimeError as error:
            raise RuntimeError(
                "workers: no worker process could be started here. In a script call bd.cluster below "
                '`if __name__ == "__main__":`, since each worker imports the script.'
            ) from error
        except ValueError as error:
            raise ValueError(f'memory: expected a size such as "2GB", got {shown(memory)}; {error}.') from error
    if workers is not None or memory is not None:
        raise ValueError(
            "workers, memory: these are for a cluster that is started here; leave them out with an address."
        )
    try:
        return client(address, timeout=timeout)
    except (OSError, TimeoutError) as error:
        raise TimeoutError(
            f"address: no Dask scheduler answered at {address!r} within {timeout:g} s. Check the address and that "
            "`dask scheduler` runs there and is reachable from here, or leave the address out to start workers on "
            "this machine."
        ) from error


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Raise a RuntimeError with advice if the scheduler is lost."""
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
    """Results of tasks, computed on the cluster if there is one, or else in threads.

    A client waits for ever for a lost scheduler; therefore its connection is checked every few seconds.
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
                wait(futures, timeout=LIMITS.patience)
                return client.gather(futures)
            except TimeoutError:
                missed = 0 if client.status == "running" else missed + 1
                if missed > 1:
                    raise ConnectionError(f"the client is {client.status}") from None


def _is_loss(error: BaseException) -> bool:
    from concurrent.futures import CancelledError

    kinds = {"CommClosedError", "KilledWorker", "FutureCancelledError", "FuturesCancelledError", "CancelledError"}
    return isinstance(error, CancelledError | ConnectionError) or type(error).__name__ in kinds
