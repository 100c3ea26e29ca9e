"""Fits of a few milliseconds beside scikit-learn's plain ones, as they come.

``python -m benchmarks.small [NAME]``, NAME a part of a data set's name. Ours at ``C = 1`` and ``tol=1e-6``, theirs at
their default tolerances, in turn in one process; least CPU milliseconds of several. Run it on one thread
(``OMP_NUM_THREADS=1``): BLAS counts the time that its threads wait.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

import bayesdrop as bd
from benchmarks.data import amazon
from benchmarks.linear import narrow

__all__ = ["main"]

RATES = (0.0, 0.1, 0.3, 0.9)
_TURNS = 5


def milliseconds(jobs: list[Callable[[], object]]) -> list[float]:
    """Least CPU time of each job, in turns of three runs."""
    least = [np.inf] * len(jobs)
    for _ in range(_TURNS):
        for k, job in enumerate(jobs):
            for _ in range(3):
                start = time.process_time()
                job()
                least[k] = min(least[k], 1e3 * (time.process_time() - start))
    return least


def main() -> None:
    """Print the table."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC, LinearSVR

    warnings.simplefilter("ignore")
    sets = {"books 2,000 × 5,000": amazon("books", "train")}
    for n, p in ((1000, 20), (5000, 50), (20_000, 100)):
        generator = np.random.default_rng(0)
        X = generator.normal(size=(n, p))
        score = X @ generator.normal(size=p) + 3 * generator.normal(size=n)
        sets[f"dense {n:,} × {p}"] = X, np.where(score > 0, 1.0, -1.0)
    pairs = [
        (bd.DropoutLogisticRegression, LogisticRegression()),
        (bd.DropoutSVC, LinearSVC(loss="hinge")),
        (bd.DropoutSVR, LinearSVR()),
        (bd.DropoutRidge, Ridge()),
    ]
    print(
        "| data | beside | theirs, ms | " + " | ".join(f"rate {rate:g}" for rate in RATES) + " |\n" + "|---" * 7 + "|"
    )
    for name, (X, y) in sets.items():
        if not all(word in name for word in sys.argv[1:]):
            continue
        for kind, plain in pairs:
            jobs: list[Callable[[], object]] = [lambda: plain.fit(narrow(X), y)]  # noqa: B023
            jobs += [lambda rate=rate: kind(rate, tol=1e-6).fit(X, y) for rate in RATES]  # noqa: B023
            for job in jobs:
                job()  # compiled
            theirs, *ours = milliseconds(jobs)
            cells = [f"{one:.2f} ({one / theirs:.2f})" for one in ours]
            print("| " + " | ".join([name, type(plain).__name__, f"{theirs:.2f}", *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
