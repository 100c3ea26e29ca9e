"""A shared rate among the candidates of a search, or not: ``python -m benchmarks.structures``.

Both are :class:`bayesdrop.DropoutLogisticRegressionCV`, on the splits of :mod:`benchmarks.peers`; time is that of the
processor.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.metrics import log_loss

import bayesdrop as bd
from benchmarks.peers.sets import SETS, split

__all__ = ["main"]

NAMES = ("breast-cancer", "wine", "digits-odd", "banknote", "pima", "sonar", "german", "books")


def main() -> None:
    """Print a row for each set."""
    shared = bd.Tuned(bd.Shared(), strengths=bd.Tuned().strengths[:-1])
    print("| data | log loss | with a shared rate listed | difference | time |\n|---|---|---|---|---|")
    for name in NAMES:
        losses, times = [], []
        for number in range(min(4, SETS[name].splits)):
            data = split(name, number)
            for rates in (None, [bd.Tuned(), shared]):
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = bd.DropoutLogisticRegressionCV(rates).fit(data.X, data.y)
                times.append(time.process_time() - start)
                losses.append(log_loss(data.y_test, model.predict_proba(data.X_test)[:, 1]))
        plain, listed = np.array(losses[::2]), np.array(losses[1::2])
        gap = listed - plain
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        cells = f"{plain.mean():.4f} | {listed.mean():.4f} | {gap.mean():+.4f} ± {error:.4f}"
        print(f"| {SETS[name].label} | {cells} | {sum(times[1::2]) / sum(times[::2]):.2f} × |", flush=True)


if __name__ == "__main__":
    main()
