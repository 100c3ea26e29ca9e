"""One process and two (gloo, one thread each) on the same rows: Gram matrix, product and fit.

``python -m benchmarks.sharding [--rows 200000] [--columns 200]``
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from typing import Any

import numpy as np

import bayesdrop as bd

__all__ = ["main", "measure"]

Array = Any

_REPEATS = 5
_ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def problem(n: int, p: int) -> tuple[Array, Array]:
    """Normal features and labels of a noisy linear rule, the same in every process."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return X, (X @ rng.normal(size=p) / np.sqrt(p) + rng.normal(size=n) > 0).astype(int)


def seconds(call: Any) -> float:
    """Median time, the first call apart."""
    call()
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def measure(rank: int, count: int, port: int, n: int, p: int) -> dict[str, Any]:
    """Times and results of one of ``count`` processes."""
    if hasattr(os, "sched_setaffinity"):
        # One core each: XLA's threads would otherwise take all of them in one process as well.
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from bayesdrop.designs import ShardedDesign

    if count > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=count, process_id=rank)
    X, y = problem(n, p)
    rows = slice(rank * n // count, (rank + 1) * n // count)
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows", None))
    with jax.enable_x64(True):
        placed = jax.make_array_from_process_local_data(sharding, X[rows])
    design = ShardedDesign(placed)
    omega, block = np.random.default_rng(1).random(n)[rows], np.full((p, 1), 0.1)
    model, method = bd.Model(rates=bd.Fixed(0.3)), bd.Newton(tol=1e-18)
    fit = bd.fit(model, placed, y[rows], method=method)
    gram = design.gram(omega)
    return {
        "Gram matrix": seconds(lambda: design.gram(omega)),
        "there and back": seconds(lambda: design.rmatvec(design.matvec(block))),
        "fit": seconds(lambda: bd.fit(model, placed, y[rows], method=method)),
        "gram": gram[0].tolist(),
        "weights": fit.weight.tolist(),
        "objective": [fit.objective_trace[-1]],
    }


def start(rank: int, count: int, port: int, n: int, p: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.sharding", "--rows", str(n), "--columns", str(p)]
    return subprocess.Popen(
        [*command, "--part", str(rank), str(count), str(port)],
        env=os.environ | _ONE_THREAD,
        stdout=subprocess.PIPE,
        text=True,
    )


def together(count: int, n: int, p: int) -> list[dict[str, Any]]:
    """What each of ``count`` processes measures."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [start(rank, count, port, n, p) for rank in range(count)]
    try:
        said = [process.communicate(timeout=3600)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode for process in processes):
        raise RuntimeError("a process failed; its message is above.")
    return [json.loads(text.splitlines()[-1]) for text in said]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--part", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    n, p = options.rows, options.columns
    if options.part is not None:
        print(json.dumps(measure(*options.part, n, p)))
        return
    (one,), two = together(1, n, p), together(2, n, p)

    def apart(name: str) -> float:
        whole = np.array(one[name])
        return max(float(np.max(np.abs(half[name] - whole)) / np.max(np.abs(whole))) for half in two)

    names = ", ".join(f"{name} {version(name)}" for name in ("bayesdrop", "jax", "numpy"))
    print(f"Dense, float64, {n:,} × {p}; {names}; Python {platform.python_version()}; {os.cpu_count()} cores\n")
    print("| what | one process, s | two processes, s | faster by |\n|---|---|---|---|")
    for name in ("Gram matrix", "there and back", "fit"):
        both = max(half[name] for half in two)
        print(f"| {name} | {one[name]:.3f} | {both:.3f} | **{one[name] / both:.2f}** |")
    differences = ", ".join(f"{name} {apart(name):.0e}" for name in ("gram", "weights", "objective"))
    print(f"\nLargest difference between one process and two, relative: {differences}")


if __name__ == "__main__":
    main()
