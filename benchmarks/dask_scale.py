"""Fits and posteriors of Dask arrays: ``python -m benchmarks.dask_scale [--rows N] [--sampling]``.

A million rows by default, made on the workers by a seeded generator: dense in two hundred columns, and sparse with two
hundred non-zeros in a hundred thousand. One worker of one thread against two: the time of a pass, which is one product
with the Hessian of the logistic energy, what two bare processes gain on the same products (they share the memory's
bandwidth), and the bytes that client and scheduler exchange in a pass, counted by a relay between them. Then the
optimum of a tenth of the rows beside that in memory, also when a worker is killed in the middle of the fit.

With ``--sampling`` the pass is that of a leapfrog step of four chains of ``bd.HMC()`` instead, and the fits are left
out.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from multiprocessing import get_context
from typing import Any

import numpy as np
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.moments import ScoreMoments

__all__ = ["main"]

BLOCKS, PASSES = 8, 10
COLUMNS = {"dense": 200, "sparse": 100_000}
NONZEROS = 200
# Classes of a pass: with one a core waits for memory, which two workers share, and with many it computes.
CASES = (("dense", 1), ("dense", 40), ("sparse", 1))
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


def slopes(score: Any, nothing: Any, target: Any) -> Any:
    """Slopes and costs of the logistic loss."""
    decay = np.exp(-target[:, None] * score)
    return -target[:, None] * decay / (1 + decay), nothing, np.log1p(decay)


def passes(kind: str, classes: int, n: int, workers: int, sampling: bool = False) -> tuple[float, float]:
    """Seconds and bytes of a pass, of so many classes or chains."""
    from distributed import Client, LocalCluster

    local = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    relay = Relay(local.scheduler_address)
    with local, Client(relay.address):
        design, p = as_design(features(kind, n)), COLUMNS[kind]
        moments = ScoreMoments(design, MODEL.noise, np.full((p, 1), 0.3))
        omega, target = design.persist(design.zeros(classes) + 0.25, design.zeros(1)[:, 0] + 1.0)
        direction = np.random.default_rng(1).normal(size=(p + 1, classes))

        def go() -> None:
            if sampling:
                design.product_sums(direction[:-1], direction[:-1, :0], slopes, target)
            else:
                moments.mean_normal_product(direction, lambda part, mean: omega[part] * mean)

        go()
        before, clock = relay.count, time.perf_counter()
        for _ in range(PASSES):
            go()
        return (time.perf_counter() - clock) / PASSES, (relay.count - before) / PASSES


def _bare(kind: str, classes: int, size: int, ready: Any, times: Any) -> None:
    design = as_design(block(kind, 0, size))
    w, r = np.ones((COLUMNS[kind], classes)), np.ones((size, classes))
    design.rmatvec(design.matvec(w) * r)
    ready.wait()
    clock = time.perf_counter()
    for _ in range(PASSES):
        design.rmatvec(design.matvec(w) * r)
    times.put((time.perf_counter() - clock) / PASSES)


def bare(kind: str, classes: int, n: int) -> float:
    """How much faster two processes do the products of half the rows each than one does those of a half, twice."""
    spawn = get_context("spawn")
    took = []
    for count in (1, 2):
        ready, times = spawn.Barrier(count), spawn.Queue()
        both = [spawn.Process(target=_bare, args=(kind, classes, n // BLOCKS * 2, ready, times)) for _ in range(count)]
        for process in both:
            process.start()
        took.append(max(times.get() for _ in both))
        for process in both:
            process.join()
    return 2 * took[0] / took[1]


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
    parser.add_argument("--sampling", action="store_true")
    options = parser.parse_args()
    n = options.rows
    print(
        "| data | classes | one worker, a pass | two workers | ratio | bare processes | bytes a pass | in p × classes |"
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for kind, classes in [("dense", 4), ("sparse", 4)] if options.sampling else CASES:
        (one, _), (two, size) = (passes(kind, classes, n, workers, options.sampling) for workers in (1, 2))
        p = COLUMNS[kind]
        print(
            f"| {kind} {n:,} × {p:,} | {classes} | {1e3 * one:.0f} ms | {1e3 * two:.0f} ms | **{one / two:.2f}** "
            f"| {bare(kind, classes, n):.2f} | {size:,.0f} | **{size / (p * classes):.1f}** |",
            flush=True,
        )
    if options.sampling:
        return
    plain, deadly = fits(n // 10)
    print(f"\nEnergy beside the fit in memory: {plain:.1e} relative; with a worker killed on the way: {deadly:.1e}.")


if __name__ == "__main__":
    main()
