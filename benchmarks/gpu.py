"""Fits and sampler sweeps on a GPU, in absolute times: ``python -m benchmarks.gpu``.

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
from benchmarks.data import mnist

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


def digits(share: float) -> tuple[str, Array, Array]:
    """MNIST, or noise of its shape where the files are absent."""
    n = max(int(60_000 * share), 100)
    try:
        X, y = mnist()
        return "MNIST", X[:n], y[:n]
    except FileNotFoundError:
        rng = np.random.default_rng(0)
        X = rng.random((n, 784)) * (rng.random((n, 784)) < 0.2)
        return "MNIST's shape, made up", X, np.digitize(X[:, :50].sum(axis=1), np.linspace(4, 6, 9))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="run on the CPU where there is no GPU")
    parser.add_argument("--share", type=float, default=1.0, help="share of the rows")
    options = parser.parse_args()
    import jax

    from bayesdrop.designs import ShardedDesign

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

    name, X, y = digits(options.share)
    rng = np.random.default_rng(0)
    n, p = max(int(1_000_000 * options.share), 1000), 100
    tall = rng.normal(size=(n, p)).astype(np.float32)
    outcome = (tall @ rng.normal(size=p) / 10 + rng.normal(size=n) > 0).astype(int)
    plain, few = bd.Model(rates=bd.Fixed(0.0)), max(int(20_000 * options.share), 200)
    several: dict[str, Any] = {"draws": 20, "tune": 20, "progress": False}
    for precision in ("float32", "float64"):
        with jax.enable_x64(True):
            placed, placed_tall = (
                ShardedDesign(jax.device_put(matrix.astype(precision), device)) for matrix in (X, tall)
            )
        size = f"{X.shape[0]:,} × {X.shape[1]}"
        for kind in (bd.DropoutLogisticRegression, bd.DropoutSVC):
            for rates, label in ((0.3, "fixed"), (bd.PerFeature(), "learnt")):
                estimator = kind(rates, C=0.01, tol=1e-6)
                row(f"fit, {kind.__name__}, {label} rates, {name} {size}", precision,
                    lambda estimator=estimator, placed=placed: estimator.fit(placed, y))  # fmt: skip
        row(f"fit, plain logistic, {n:,} × {p}", precision, lambda placed=placed_tall: bd.fit(plain, placed, outcome))
        some = jax.device_put(tall[:few], device)
        for model, method, matrix, labels in (
            (bd.Model(), bd.Gibbs(dtype=precision), ShardedDesign(some), outcome[:few]),
            (plain, bd.HMC(dtype=precision), placed_tall, outcome),
        ):
            row(f"40 draws of 4 chains, bd.{type(method).__name__}, {matrix.shape[0]:,} × {p}", precision,
                lambda model=model, method=method, matrix=matrix, labels=labels: bd.sample(
                    model, matrix, labels, method=method, **several))  # fmt: skip


if __name__ == "__main__":
    main()
