"""Peak memory of a sparse fit, as a multiple of the matrix: ``python -m benchmarks.memory``.

The peak is of what is allocated during ``fit`` (NumPy reports its buffers to tracemalloc), the caller's matrix on top.
"""

from __future__ import annotations

import tracemalloc

import bayesdrop as bd
from benchmarks.data import bag_of_words

__all__ = ["main"]


def main() -> None:
    """Print the table of fits."""
    X, y = bag_of_words(40_000, 50_000, 200)
    counts = X.copy()
    counts.data = 1.0 + (counts.indices % 3)
    print("\n| data | estimator | rates | matrix, MB | peak with the matrix | in matrices |\n|---|---|---|---|---|---|")
    for name, data in (("0/1", X), ("counts", counts)):
        size = data.data.nbytes + data.indices.nbytes + data.indptr.nbytes
        for kind in (bd.DropoutLogisticRegression, bd.DropoutSVC):
            for rates in (0.3, bd.PerFeature()):
                estimator = kind(rates, tol=1e-6)
                tracemalloc.start()
                estimator.fit(data, y)
                peak = tracemalloc.get_traced_memory()[1] + size
                tracemalloc.stop()
                label = "fixed" if rates == 0.3 else "learnt"
                print(
                    f"| {name} {data.shape[0]:,} × {data.shape[1]:,} | {kind.__name__} | {label} | {size / 1e6:.0f} "
                    f"| {peak / 1e6:.0f} MB | **{peak / size:.1f}** |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
