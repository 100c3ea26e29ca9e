"""A fit from disk under a cap on memory: ``python -m benchmarks.out_of_core [--rows N]``.

Ten million rows of fifty non-zeros in a hundred thousand columns by default, made by a seeded generator in a hundred
``.npz`` files (4 GB, in a temporary folder of ``bayesdrop-output``). The fit runs in a process of its own, whose peak
of resident memory is the figure, and its time is compared with that of loading the same files as often.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

__all__ = ["main"]

COLUMNS, NONZEROS, PARTS = 100_000, 50, 100
CAP = "4GB"


def make(folder: Path, rows: int) -> None:
    """Write the parts and the labels: a planted weight on columns whose frequencies fall as in text."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=COLUMNS) * (rng.random(COLUMNS) < 0.02)
    labels = []
    size = rows // PARTS
    for number in range(PARTS):
        # Distinct columns in each row: one from each of fifty ranges, the first ones the narrowest.
        ends = np.unique(np.geomspace(10, COLUMNS, NONZEROS + 1).astype(np.int32))
        starts = np.concatenate([[0], ends[1:-1]])[:NONZEROS]
        indices = (starts + rng.random((size, len(starts))) * (ends[1 : len(starts) + 1] - starts)).astype(np.int32)
        data = rng.exponential(size=indices.size).astype(np.float32)
        indptr = np.arange(0, indices.size + 1, indices.shape[1], dtype=np.int32)
        part = sparse.csr_array((data, indices.ravel(), indptr), shape=(size, COLUMNS))
        sparse.save_npz(folder / f"{number:03d}.npz", part, compressed=False)
        labels.append(part @ weight + rng.logistic(size=size) > 0)
    np.save(folder.parent / "labels.npy", np.concatenate(labels).astype(np.int8))


def load(folder: Path) -> float:
    """Seconds to load every part once."""
    clock = time.perf_counter()
    for path in sorted(folder.iterdir()):
        sparse.load_npz(path)
    return time.perf_counter() - clock


def fit(folder: Path, tol: float) -> None:
    """Fit under the cap and print what it took, as JSON: the part that runs in its own process."""
    import bayesdrop as bd
    from bayesdrop.data.files import parse_memory, read_large

    clock = time.perf_counter()
    data = read_large(folder, None, folder.parent / "labels.npy", [], parse_memory(CAP), standardize=False)
    result = bd.fit(bd.Model(rates=bd.Fixed(0.3), C=0.01), data.X, data.y, method=bd.Newton(tol=tol))
    seconds = time.perf_counter() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        json.dumps(
            {
                "passes": data.X.passes,
                "seconds": seconds,
                "peak": peak,
                "status": result.status.name,
                "steps": result.n_iter,
                "energy": float(result.objective_trace[-1]),
            }
        )
    )


def main() -> None:
    """Make the files, time loading them and the fit, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is not None:
        fit(options.folder, options.tol)
        return
    out = Path("bayesdrop-output")
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as temporary:
        folder = Path(temporary) / "parts"
        folder.mkdir()
        make(folder, options.rows)
        size = sum(path.stat().st_size for path in folder.iterdir())
        before = load(folder)
        command = [sys.executable, "-m", "benchmarks.out_of_core", "--folder", str(folder), "--tol", str(options.tol)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        once = (before + load(folder)) / 2
    ratio = found["seconds"] / (found["passes"] * once)
    print("| rows × columns, GB on disk | one load | passes | fit | fit / loads | peak | status |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {options.rows:,} × {COLUMNS:,}, {size / 1e9:.2f} | {once:.1f} s | {found['passes']} in {found['steps']} "
        f"steps | {found['seconds']:.0f} s | **{ratio:.2f}** | {found['peak'] / 2**30:.2f} GB | {found['status']} |"
    )


if __name__ == "__main__":
    main()
