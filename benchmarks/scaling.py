"""Time and peak memory against the rows, 50 non-zeros each, 10,000 columns; ``python -m benchmarks.scaling``."""

from __future__ import annotations

import time
import tracemalloc
import warnings

import numpy as np

import bayesdrop as bd
from benchmarks.data import bag_of_words

__all__ = ["main"]


def main() -> None:
    """Print the table and the exponents."""
    warnings.simplefilter("ignore")
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


if __name__ == "__main__":
    main()
