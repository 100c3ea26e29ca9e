"""Time and peak memory against the rows and against the classes; ``python -m benchmarks.scaling [rows | classes]``.

Rows: 50 non-zeros each, 10,000 columns. Classes: 4,000 rows of counts with planted topics, 50 words each of 10,000, or
of 50 normal columns about the centre of their class.
"""

from __future__ import annotations

import argparse
import pickle
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import bayesdrop as bd
from benchmarks.data import bag_of_words

__all__ = ["main"]

_CLASSES = (2, 5, 20, 60, 200)


def main() -> None:
    """Print the tables and the exponents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="rows", choices=("rows", "classes"))
    parser.add_argument("--only", default="", help="part of the label of the rows to print")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.what == "rows":
        of_rows()
    else:
        of_classes(arguments.only)


def of_rows() -> None:
    """Fits of a thousand rows to a million."""
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    print("| estimator | " + " | ".join(f"{n:,} rows, s" for n in sizes) + " | exponent | peak / data at the largest |")
    print("|---|" + "---|" * (len(sizes) + 2))
    data = {n: bag_of_words(n, 10_000, 50) for n in sizes}
    for kind, rates in (
        (bd.DropoutLogisticRegression, 0.3),
        (bd.DropoutLogisticRegression, bd.PerFeature()),
        (bd.DropoutSVC, 0.3),
        (bd.DropoutSVR, 0.3),
    ):
        # C falls with n: the same amount of regularisation for each row.
        models = {n: kind(rates, C=1000.0 / n, tol=1e-6) for n in sizes}
        models[sizes[0]].fit(*data[sizes[0]])
        times = []
        for n in sizes:
            start = time.perf_counter()
            models[n].fit(*data[n])
            times.append(time.perf_counter() - start)
        X, y = data[sizes[-1]]
        size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        tracemalloc.start()
        models[sizes[-1]].fit(X, y)
        peak = tracemalloc.get_traced_memory()[1] + size
        tracemalloc.stop()
        exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        label = f"{kind.__name__}, {'fixed' if rates == 0.3 else 'learnt'}"
        cells = " | ".join(f"{t:.3f}" for t in times)
        print(f"| {label} | {cells} | **{exponent:.2f}** | **{peak / size:.1f}** |", flush=True)


def topics(
    n_classes: int, n: int = 4_000, p: int = 10_000, length: int = 50, seed: int = 0
) -> tuple[sparse.csr_array, np.ndarray]:
    """Counts of words: three in ten are of the thirty words of the row's class, the others have Zipf frequencies."""
    generator = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    frequency = 1 / (np.arange(p) + 10.0)
    words = generator.choice(p, size=(n, length), p=frequency / frequency.sum())
    own = generator.choice(p, size=(n_classes, 30))
    few = 3 * length // 10
    words[:, :few] = own[y[:, None], generator.integers(30, size=(n, few))]
    X = sparse.csr_array((np.ones(n * length), (np.repeat(np.arange(n), length), words.ravel())), shape=(n, p))
    X.sum_duplicates()
    return X, y


def centres(n_classes: int, n: int = 4_000, p: int = 50, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns about the centre of each class."""
    generator = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return generator.normal(size=(n, p)) + 0.7 * generator.normal(size=(n_classes, p))[y], y


def of_classes(only: str) -> None:
    """Fits of two classes to 200, and what is asked of them after; CPU time."""
    print("| data | what | " + " | ".join(f"{K} classes, s" for K in _CLASSES) + " | exponent from 20 on ", end="")
    print("| peak at 20, 60, 200, MB | exponent |\n|---|---|" + "---|" * (len(_CLASSES) + 3))
    fits: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("logistic, one against the rest, rate 0.3", lambda: _logistic("one_vs_rest", 0.3)),
        ("logistic, one against the rest, learnt", lambda: _logistic("one_vs_rest", bd.PerFeature())),
        ("hinge, one against the rest, rate 0.3", lambda: bd.DropoutSVC(0.3, tol=1e-6)),
        ("softmax, rate 0.3", lambda: _logistic("softmax", 0.3)),
        ("softmax, learnt", lambda: _logistic("softmax", bd.PerFeature())),
    )
    for data, make in (("counts", topics), ("dense", centres)):
        sets: dict[int, Any] = {K: make(K) for K in _CLASSES}
        for label, model in fits:
            if only not in f"{data}, {label}":
                continue
            model().fit(*sets[2])
            fitted = {K: model().fit(*sets[K]) for K in _CLASSES}
            _row(data, label, lambda K, model=model, sets=sets: model().fit(*sets[K]))
            few = {K: sets[K][0][:500] for K in _CLASSES}
            _row("", "predict, 500 rows", lambda K, fitted=fitted, few=few: fitted[K].predict(few[K]))
            if hasattr(fitted[2], "predict_proba"):
                _row("", "predict_proba, 500 rows", lambda K, fitted=fitted, few=few: fitted[K].predict_proba(few[K]))
            _row("", "pickle", lambda K, fitted=fitted: pickle.loads(pickle.dumps(fitted[K])))


def _logistic(multiclass: str, rates: Any) -> Any:
    return bd.DropoutLogisticRegression(rates, multiclass=multiclass, tol=1e-6)


def _row(data: str, label: str, call: Callable[[int], Any]) -> None:
    """Print seconds and peak memory of a call for each number of classes, and the exponents."""
    seconds, peaks, last = [], [], np.log(_CLASSES[-3:])
    for K in _CLASSES:
        best, start = np.inf, time.process_time()
        for _ in range(5):
            before = time.process_time()
            call(K)
            best = min(best, time.process_time() - before)
            if time.process_time() - start > 2:
                break
        seconds.append(best)
        if K >= _CLASSES[-3]:
            tracemalloc.start()
            call(K)
            peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
            tracemalloc.stop()
    slopes = [np.polyfit(last, np.log(values[-3:]), 1)[0] for values in (seconds, peaks)]
    cells = " | ".join(f"{t:.4f}" for t in seconds)
    room = ", ".join(f"{peak:.1f}" for peak in peaks)
    print(f"| {data} | {label} | {cells} | **{slopes[0]:.2f}** | {room} | **{slopes[1]:.2f}** |", flush=True)


if __name__ == "__main__":
    main()
