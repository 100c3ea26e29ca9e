"""Fits of Dask arrays: ``python -m benchmarks.dask_scale [--rows N]``.

A million rows by default, made on the workers by a seeded generator: dense in a hundred columns, and sparse with
twenty non-zeros in a hundred thousand. One worker of one thread against two: the time of a pass, which is one product
with the Hessian of the logistic energy, and the bytes that client and scheduler exchange in it, counted by a relay
between them. Then the optimum beside that of the data in memory, also when a worker is killed in the middle of the fit.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import placed
from bayesdrop.moments import ScoreMoments

__all__ = ["main"]

BLOCKS, PASSES = 8, 10
COLUMNS = {"dense": 100, "sparse": 100_000}
NONZEROS = 20
MODEL = bd.Model(rates=bd.Fixed(0.3))


class Relay:
    """Passes bytes on to an address and counts them."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("tcp://").rsplit(":", 1)
        self._to, self.count = (host, int(port)), 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(self._to)
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 20):
                self.count += len(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


def block(kind: str, number: int, size: int) -> Any:
    """Rows of one block."""
    rng, p = np.random.default_rng(number), COLUMNS[kind]
    if kind == "dense":
        return rng.normal(size=(size, p))
    indices = rng.integers(p // NONZEROS, size=(size, NONZEROS)) + np.arange(NONZEROS) * (p // NONZEROS)
    pointers = np.arange(0, indices.size + 1, NONZEROS)
    return sparse.csr_array((rng.exponential(size=indices.size), indices.ravel(), pointers), shape=(size, p))


def features(kind: str, n: int) -> Any:
    """Dask array whose blocks the workers make."""
    import dask
    import dask.array as da

    size = n // BLOCKS
    meta = np.empty((0, 0)) if kind == "dense" else sparse.csr_array((0, 0))
    made = [dask.delayed(block)(kind, number, size) for number in range(BLOCKS)]
    parts = [da.from_delayed(part, (size, COLUMNS[kind]), dtype=float, meta=meta) for part in made]
    return da.concatenate(parts)


def passes(kind: str, n: int, workers: int) -> tuple[float, float]:
    """Seconds and bytes of a pass."""
    from distributed import Client, LocalCluster

    local = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    relay = Relay(local.scheduler_address)
    with local, Client(relay.address):
        design, p = placed(features(kind, n)), COLUMNS[kind]
        moments = ScoreMoments(design, MODEL.noise, np.full((p, 1), 0.3))
        (omega,) = design.hold(design.zeros(1) + 0.25)
        direction = np.random.default_rng(1).normal(size=(p + 1, 1))

        def go() -> None:
            moments.mean_there_and_back(direction, lambda part, mean: omega[part] * mean)

        go()
        before, clock = relay.count, time.perf_counter()
        for _ in range(PASSES):
            go()
        return (time.perf_counter() - clock) / PASSES, (relay.count - before) / PASSES


def fits(n: int) -> tuple[float, float]:
    """Relative difference in energy to the fit in memory, and that of a fit that loses a worker."""
    from distributed import default_client

    X = np.concatenate([block("dense", number, n // BLOCKS) for number in range(BLOCKS)])
    rng = np.random.default_rng(0)
    y = X @ rng.normal(size=X.shape[1]) / 10 + rng.logistic(size=len(X)) > 0
    method = bd.Newton(tol=1e-12)
    energy = bd.fit(MODEL, X, y, method=method).objective_trace[-1]
    differences = []
    for deadly in (False, True):
        with bd.cluster(workers=2):
            if deadly:
                victim = next(iter(default_client().run(os.getpid).values()))
                # A fit of this size takes several seconds.
                threading.Timer(2.0, os.kill, (victim, signal.SIGKILL)).start()
            found = bd.fit(MODEL, features("dense", n), y, method=method)
        differences.append(abs(found.objective_trace[-1] / energy - 1))
    return differences[0], differences[1]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    n = parser.parse_args().rows
    print("| data | one worker, a pass | two workers | ratio | bytes a pass | in p |")
    print("|---|---|---|---|---|---|", flush=True)
    for kind, p in COLUMNS.items():
        (one, _), (two, size) = passes(kind, n, 1), passes(kind, n, 2)
        print(
            f"| {kind} {n:,} × {p:,} | {1e3 * one:.0f} ms | {1e3 * two:.0f} ms | **{one / two:.2f}** | {size:,.0f} "
            f"| **{size / p:.1f}** |",
            flush=True,
        )
    plain, deadly = fits(n)
    print(f"\nEnergy beside the fit in memory: {plain:.1e} relative; with a worker killed on the way: {deadly:.1e}.")


if __name__ == "__main__":
    main()
