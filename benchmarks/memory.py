"""Peak memory of a sparse fit, as a multiple of the matrix: ``python -m benchmarks.memory``.

The peak is of what is allocated during ``fit`` (NumPy reports its buffers to tracemalloc), the caller's matrix on top.

``posterior`` samples 50,000 weights of 1,000 sparse rows, all draws kept and not (``variables``), each in a process of
its own: the peak of its resident memory above what it was before ``bd.sample``, and the time of the call, which looks
at how the chains went.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

import bayesdrop as bd
from benchmarks.data import bag_of_words

__all__ = ["main"]

ROWS, COLUMNS, NONZEROS, CHAINS = 1_000, 50_000, 200, 4


def fits() -> None:
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


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def sample(kept: str, draws: int) -> None:
    """Sample and print what it took, as JSON: the part that runs in its own process."""
    X, y = bag_of_words(ROWS, COLUMNS, NONZEROS)
    model = bd.Model(rates=bd.Fixed(0.0))
    options = {"tune": 50, "chains": CHAINS, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # What the compilation takes is no matter of the draws.
        bd.sample(model, X, y, draws=1, variables=["intercept"], **options)
        before, clock = resident(), time.perf_counter()
        post = bd.sample(model, X, y, draws=draws, variables=None if kept == "all" else [kept], **options)
    seconds = time.perf_counter() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    held = sum(bd.groups.dataset(post, name).nbytes for name in bd.groups.group_names(post))
    found = bd.groups.dataset(post, "posterior" if kept == "all" else "posterior_summary")["weight"]
    mean = found.mean(("chain", "draw"), dtype=np.float64) if kept == "all" else found.sel(statistic="mean")
    print(json.dumps({"peak": peak - before, "held": held, "seconds": seconds, "mean": float(np.abs(mean).sum())}))


def posterior(draws: int) -> None:
    """Print the table of posteriors."""
    print("\n| kept | draws | draws of the weights alone | held | peak of the call | seconds | sum of mean weights |")
    print("|---|---|---|---|---|---|---|")
    for kept in ("intercept", "all"):
        command = [sys.executable, "-m", "benchmarks.memory", "posterior", "--kept", kept, "--draws", str(draws)]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        alone = CHAINS * draws * COLUMNS * 4
        print(
            f"| {kept} | {CHAINS} × {draws:,} | {alone / 1e6:.0f} MB | {found['held'] / 1e6:.0f} MB "
            f"| **{found['peak'] / 1e6:.0f} MB** | {found['seconds']:.0f} | {found['mean']:.6f} |",
            flush=True,
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("fits", "posterior"), default="fits")
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--kept", choices=("intercept", "all"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "fits":
        fits()
    elif options.kept is None:
        posterior(options.draws)
    else:
        sample(options.kept, options.draws)


if __name__ == "__main__":
    main()
