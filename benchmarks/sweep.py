"""What a sweep of the mask sampler costs against the number of non-zeros: ``python -m benchmarks.sweep``.

Rates per feature, 4 chains, float32, joint moves included; 20 non-zeros a row among 200 features of unequal frequency
(sparse), or 10 dense features. The exponent is the slope of log time on log non-zeros from 10³ to 10⁵ rows.
"""

from __future__ import annotations

import time

import jax.numpy as jnp
import numpy as np
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data import prepare
from bayesdrop.inference.runner import _chunk, _init, as_key

ROWS = (1_000, 3_000, 10_000, 30_000, 100_000)


def sparse_data(n: int) -> tuple[sparse.csr_array, np.ndarray]:
    generator = np.random.default_rng(0)
    chance = 1 / np.arange(1, 201) ** 0.7
    columns = generator.choice(200, size=(n, 20), p=chance / chance.sum())
    X = sparse.csr_array((np.ones(n * 20), (np.repeat(np.arange(n), 20), columns.reshape(-1))), shape=(n, 200))
    X.data[:] = 1.0
    y = np.where(X @ generator.normal(size=200) + generator.normal(size=n) > 0, 1, -1)
    return X, y


def dense_data(n: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 10))
    return X, np.where(X @ generator.normal(size=10) + generator.normal(size=n) > 0, 1, -1)


def seconds(X, y, model: bd.Model) -> float:
    """Wall seconds of a sweep, least of three."""
    data = prepare(X, y)
    kernel, operands = bd.Gibbs().bind(model, data, model.bind(data.feature_names), 10_000)
    state = _init(kernel, 4, operands, as_key(0))
    state, _ = _chunk(kernel, operands, state, jnp.int32(2))
    count = int(np.clip(200_000 / len(y), 3, 50))
    found = []
    for _ in range(3):
        start = time.perf_counter()
        state, record = _chunk(kernel, operands, state, jnp.int32(count))
        np.asarray(record["lp"])
        found.append((time.perf_counter() - start) / count)
    return min(found)


def main() -> None:
    print("| data | loss | non-zeros | seconds a sweep | nanoseconds per non-zero and chain |")
    print("|---|---|---|---|---|")
    for name, make in (("sparse", sparse_data), ("dense", dense_data)):
        for loss in (bd.Logistic(), bd.Hinge()):
            sizes, times = [], []
            for n in ROWS:
                X, y = make(n)
                entries = X.nnz if name == "sparse" else X.size
                each = seconds(X, y, bd.Model(loss))
                sizes.append(entries)
                times.append(each)
                print(
                    f"| {name} | {type(loss).__name__} | {entries:,} | {each:.4f} | {each / entries / 4 * 1e9:.0f} |",
                    flush=True,
                )
            slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
            print(f"| {name} | {type(loss).__name__} | exponent | {slope:.2f} | |", flush=True)


if __name__ == "__main__":
    main()
