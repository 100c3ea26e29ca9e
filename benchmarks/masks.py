"""Cost of a sweep of the mask sampler on word counts, by number of non-zero entries: ``python -m benchmarks.masks``.

Synthetic rows of 100 different words out of 5,000, frequencies by Zipf's law; four chains, single precision, no joint
moves; seconds of a sweep after compilation (least of three), peak memory of the process, and the slope of log cost
against log entries.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset

__all__ = ["main"]

WORDS, PER_ROW, CHAINS = 5000, 100, 4
ROWS = (1_000, 3_000, 10_000, 30_000, 100_000)


def words(n: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Rows of ``PER_ROW`` words and labels that a few of them decide."""
    generator = np.random.default_rng(seed)
    log_frequency = -np.log(np.arange(1, WORDS + 1, dtype=np.float32))
    parts = []
    for begin in range(0, n, 1000):  # the best of so many random keys are a draw without replacement
        uniform = generator.random((min(1000, n - begin), WORDS), dtype=np.float32)
        keys = log_frequency - np.log(-np.log(np.maximum(uniform, 1e-30)))
        parts.append(np.argpartition(-keys, PER_ROW, axis=1)[:, :PER_ROW].astype(np.int32))
    columns = np.concatenate(parts)
    X = sparse.csr_array((np.ones(columns.size), columns.ravel(), np.arange(n + 1) * PER_ROW), shape=(n, WORDS))
    score = X @ generator.normal(size=WORDS) + generator.logistic(size=n)
    return X, np.where(score > np.median(score), 1, -1)


def measure(X: Any, y: np.ndarray, loss: Any) -> tuple[float, float]:
    """Seconds of a sweep and of the first one with its compilation."""
    model, method = bd.Model(loss, weight_prior=bd.Normal(0.5)), bd.Gibbs(joint_moves=0)
    data = as_dataset(X, y)
    kernel, operands = method.bind(model, data, model.bind(data.feature_names), 0)
    step = jax.jit(kernel.step)
    clock = time.perf_counter()
    state = jax.jit(kernel.init, static_argnums=2)(operands, jax.random.key(0), CHAINS)
    state, _ = jax.block_until_ready(step(operands, state))
    first = time.perf_counter() - clock
    times = []
    for _ in range(3):
        clock = time.perf_counter()
        state, _ = jax.block_until_ready(step(operands, state))
        times.append(time.perf_counter() - clock)
    assert bool(jnp.all(jnp.isfinite(state.score)))
    return min(times), first


def main() -> None:
    """Print the table, or one line of it."""
    if len(sys.argv) > 2:
        X, y = words(int(sys.argv[2]))
        seconds, first = measure(X, y, bd.Logistic() if sys.argv[1] == "logistic" else bd.Hinge())
        print(X.nnz, seconds, first, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    print("| loss | rows | entries | s per sweep | ns per entry and chain | first sweep, s | peak memory, MB |")
    print("|---|---|---|---|---|---|---|")
    for loss in ("logistic", "hinge"):
        found = []
        for n in ROWS:  # a process each, so that the peak of memory is its own
            command = [sys.executable, "-m", "benchmarks.masks", loss, str(n)]
            line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            entries, seconds, first, memory = (float(word) for word in line)
            found.append((entries, seconds))
            cost = 1e9 * seconds / entries / CHAINS
            print(
                f"| {loss} | {n} | {entries:.0f} | {seconds:.2f} | {cost:.0f} | {first:.0f} | {memory:.0f} |",
                flush=True,
            )
        slope = np.polyfit(*np.log(np.array(found).T), 1)[0]
        last = np.diff(np.log(np.array(found)[-2:]), axis=0)[0]
        print(f"| {loss} | slope {slope:.2f}, of the last two {last[1] / last[0]:.2f} | | | | | |")


if __name__ == "__main__":
    main()
