"""Sampler sweeps on a GPU, in absolute times: ``python -m benchmarks.gpu``.

Without a GPU it says so and ends; ``--cpu`` runs it there, ``--share 0.01`` on a hundredth of the rows.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

import bayesdrop as bd

__all__ = ["main"]

Array = Any


def seconds(call: Callable[[], Any]) -> tuple[float, float]:
    """Time of the first call, compilation included, and of the second."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times[0], times[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="run on the CPU where there is no GPU")
    parser.add_argument("--share", type=float, default=1.0, help="share of the rows")
    options = parser.parse_args()
    import jax

    device = jax.devices()[0]
    if device.platform == "cpu" and not options.cpu:
        print("There is no GPU that JAX can use; nothing was measured. --cpu runs the same on the CPU.")
        return
    warnings.simplefilter("ignore")
    names = ", ".join(f"{name} {version(name)}" for name in ("bayesdrop", "jax", "jaxlib", "numpy"))
    print(
        f"{device.device_kind} ({device.platform}, {len(jax.devices())}); {names}; Python {platform.python_version()}\n"
    )
    print("| what | precision | first, s | again, s |\n|---|---|---|---|")

    def row(what: str, precision: str, call: Callable[[], Any]) -> None:
        first, again = seconds(call)
        print(f"| {what} | {precision} | {first:.2f} | **{again:.2f}** |", flush=True)

    rng = np.random.default_rng(0)
    n, p, few = max(int(1_000_000 * options.share), 1000), 100, max(int(20_000 * options.share), 200)
    X = rng.normal(size=(n, p)).astype(np.float32)
    y = (X @ rng.normal(size=p) / 10 + rng.normal(size=n) > 0).astype(int)
    for precision in ("float32", "float64"):
        for model, method, rows in (
            (bd.Model(), bd.Gibbs(dtype=precision), few),
            (bd.Model(rates=bd.Fixed(0.0)), bd.HMC(dtype=precision), n),
        ):
            row(f"40 draws of 4 chains, bd.{type(method).__name__}, {rows:,} × {p}", precision,
                lambda model=model, method=method, rows=rows: bd.sample(
                    model, X[:rows], y[:rows], method=method, draws=20, tune=20, progress=False))  # fmt: skip


if __name__ == "__main__":
    main()
