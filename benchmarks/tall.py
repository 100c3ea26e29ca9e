"""The hinge on sparse rows that are many more than columns, without noise, with hardly any, and with some.

``python -m benchmarks.tall [NAME]``, NAME a part of a data set's name. Ours at ``tol=1e-8``, LinearSVC at its default
tolerance; wall seconds, the least of three in turn, of one on MNIST, where 3 is against the rest.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy import sparse

import bayesdrop as bd
from benchmarks.data import mnist
from benchmarks.linear import narrow

__all__ = ["main"]

RATES = (0.0, 1e-6, 1e-3, 0.1)
SHAPES = ((2_000, 100, 0.1), (5_000, 100, 0.1), (5_000, 800, 0.1), (20_000, 300, 0.2), (60_000, 200, 0.1))


def least(jobs: list[Callable[[], object]], turns: int = 3) -> list[float]:
    """Least wall seconds of each job, in turns."""
    times = np.full((turns, len(jobs)), np.inf)
    for turn in range(turns):
        for k, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            times[turn, k] = time.perf_counter() - start
    return [float(one) for one in times.min(axis=0)]


def planted(n: int, p: int, share: float):
    """Normal entries at some places, and signs of a noised score."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < share)
    return sparse.csr_array(X), np.sign(X @ rng.normal(size=p) * 0.3 + rng.normal(size=n))


def main() -> None:
    """Print the table."""
    from sklearn.svm import LinearSVC

    warnings.simplefilter("ignore")
    sets = {f"{n:,} × {p}, {share:.0%} stored": planted(n, p, share) for n, p, share in SHAPES}
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")]
    if all(word in "MNIST" for word in wanted):
        X, digit = mnist()
        sets["MNIST 60,000 × 784"] = X, np.where(digit == 3, 1, -1)
    print("| data | C | LinearSVC, s | " + " | ".join(f"rate {rate:g}, s" for rate in RATES) + " |")
    print("|---" * (3 + len(RATES)) + "|")
    for name, (X, y) in sets.items():
        if not all(word in name for word in wanted):
            continue
        for C in (0.1, 1.0):
            plain = LinearSVC(C=C, loss="hinge")
            jobs: list[Callable[[], object]] = [lambda: plain.fit(narrow(X), y)]  # noqa: B023
            jobs += [lambda rate=rate: bd.DropoutSVC(rate, C=C, tol=1e-8).fit(X, y) for rate in RATES]  # noqa: B023
            for rate in RATES:
                bd.DropoutSVC(rate, C=C).fit(X[:1000], y[:1000])  # compiled
            theirs, *ours = least(jobs, 1 if "MNIST" in name else 3)
            cells = [f"{one:.3f} ({one / theirs:.2f})" for one in ours]
            print("| " + " | ".join([name, f"{C:g}", f"{theirs:.3f}", *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
