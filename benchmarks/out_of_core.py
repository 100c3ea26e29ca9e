"""A fit or a posterior from disk: ``python -m benchmarks.out_of_core [sampling] [--rows N]``.

Ten million rows of fifty non-zeros in a hundred thousand columns by default, made by a seeded generator in a hundred
``.npz`` files (4 GB, in a temporary folder of ``bayesdrop-output``). The fit runs in a process of its own, whose peak
of resident memory is the figure, and its time is compared with that of loading the same files as often.

``sampling`` draws from the posterior of a logistic regression by split Hamiltonian Monte Carlo: ten million dense rows
of a hundred columns by default, in one ``.npy`` file of single precision (4 GB), 400 draws of four chains; with
``--classes`` above two of a softmax regression. The time of
the draws is compared with that of as many bare passes over ``bd.Blocks``, the check of each block included, and the
processor time of a pass with that of a bare one.
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
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["main"]

COLUMNS, NONZEROS, PARTS = 100_000, 50, 100
DENSE = 100


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
    """Fit from disk and print what it took, as JSON: the part that runs in its own process."""
    import bayesdrop as bd

    clock = time.perf_counter()
    X, y = bd.Blocks(sorted(folder.iterdir())), np.load(folder.parent / "labels.npy")
    result = bd.fit(bd.Model(rates=bd.Fixed(0.3), C=0.01), X, y, method=bd.Newton(tol=tol))
    seconds = time.perf_counter() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        json.dumps(
            {
                "passes": X.passes,
                "seconds": seconds,
                "peak": peak,
                "status": result.status.name,
                "steps": result.n_iter,
                "energy": float(result.objective_trace[-1]),
            }
        )
    )


def make_dense(folder: Path, rows: int, columns: int, classes: int) -> None:
    """Write the rows, correlated a little, and labels of planted weights."""
    rng, part = np.random.default_rng(0), 100_000
    weight = rng.normal(size=columns if classes == 2 else (columns, classes)) / np.sqrt(columns)
    X = np.lib.format.open_memmap(folder / "rows.npy", mode="w+", dtype=np.float32, shape=(rows, columns))
    labels = []
    for start in range(0, rows, part):
        block = rng.normal(size=(min(part, rows - start), columns)).astype(np.float32)
        block += 0.5 * block[:, :1]
        X[start : start + len(block)] = block
        if classes == 2:
            labels.append(block @ weight + rng.logistic(size=len(block)) > 0)
        else:
            labels.append(np.argmax(block @ weight + rng.gumbel(size=(len(block), classes)), axis=1))
    X.flush()
    np.save(folder.parent / "labels.npy", np.concatenate(labels))


def sample(folder: Path, draws: int, tune: int) -> None:
    """Sample and print what it took, as JSON: the part that runs in its own process."""
    import bayesdrop as bd
    from bayesdrop.hmc import streamed as streamed_kernel

    X, y = bd.Blocks(folder / "rows.npy"), np.load(folder.parent / "labels.npy")
    begun: list[float] = []
    ended: list[float] = []
    spent: list[float] = []
    before: list[int] = []

    def marked(*arguments: Any, one_pass: Any = streamed_kernel.one_pass) -> Any:
        before.append(X.passes)
        begun.append(time.perf_counter())
        busy = time.process_time()
        found = one_pass(*arguments)
        spent.append(time.process_time() - busy)
        ended.append(time.perf_counter())
        return found

    # The clock of the draws begins with their first pass and ends with the last.
    streamed_kernel.one_pass = marked
    clock = time.perf_counter()
    loss = bd.Logistic() if len(np.unique(y)) == 2 else bd.Softmax()
    post = bd.sample(bd.Model(loss, rates=bd.Fixed(0.0)), X, y, draws=draws, tune=tune, chains=4, progress=False)
    seconds, passes = ended[-1] - begun[0], len(begun)
    bare = []
    for _ in range(9):
        start, busy = time.perf_counter(), time.process_time()
        for _ in X.parts():
            pass
        bare.append((time.perf_counter() - start, time.process_time() - busy))
    stats, found = bd.groups.dataset(post, "sample_stats"), bd.diagnose(post)
    print(
        json.dumps(
            {
                "before": begun[0] - clock,
                "before_passes": before[0],
                "seconds": seconds,
                "passes": passes,
                "bare": float(np.median([wall for wall, _ in bare])),
                "busy": float(np.median(spent)) / float(np.median([busy for _, busy in bare])),
                "n_leapfrog_steps": float(stats["n_steps"].mean()),
                "acceptance": float(stats["acceptance_rate"].mean()),
                "r_hat": found.r_hat.value,
                "ess": found.ess_bulk.value,
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


def sampling(rows: int, columns: int, classes: int, draws: int, tune: int) -> None:
    """Make the file, sample in another process, and print the table."""
    out = Path("bayesdrop-output")
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as temporary:
        folder = Path(temporary) / "parts"
        folder.mkdir()
        make_dense(folder, rows, columns, classes)
        command = [sys.executable, "-m", "benchmarks.out_of_core", "sampling", "--folder", str(folder)]
        command += ["--draws", str(draws), "--tune", str(tune)]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    ratio = found["seconds"] / (found["passes"] * found["bare"])
    size = f"{rows:,} × {columns}" + (f", {classes} classes" if classes > 2 else "")
    print(
        "| rows × columns | draws | leapfrog steps, accepted | passes | a bare pass | a pass / bare | of CPU time | "
        "fit | peak |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    print(
        f"| {size} | {tune} + {draws} of 4 chains in {found['seconds']:.0f} s, R-hat {found['r_hat']:.3f}, "
        f"ESS {found['ess']:.0f} "
        f"| {found['n_leapfrog_steps']:.1f}, {found['acceptance']:.2f} | {found['passes']} | {found['bare']:.3f} s "
        f"| **{ratio:.2f}** | {found['busy']:.2f} | {found['before']:.0f} s, {found['before_passes']} passes "
        f"| {found['peak'] / 2**30:.2f} GB |"
    )


def main() -> None:
    """Make the files, time loading them and the fit, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("fit", "sampling"), default="fit")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=DENSE)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--tune", type=int, default=100)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "sampling":
        if options.folder is not None:
            sample(options.folder, options.draws, options.tune)
        else:
            sampling(options.rows, options.columns, options.classes, options.draws, options.tune)
        return
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
