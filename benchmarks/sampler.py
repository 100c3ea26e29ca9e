"""How well the sampler mixes and what it costs, on breast cancer (569 × 30, standardised), defaults of ``bd.sample``.

``python -m benchmarks.sampler [float32 | float64] [WARM-UP]``
"""

from __future__ import annotations

import sys
import time
import warnings

import arviz as az
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import bayesdrop as bd
from bayesdrop.posterior.arviz_groups.groups import dataset

NAMES = ("weight", "rate", "intercept")


def values(result, name: str) -> np.ndarray:
    table = result.to_dataset() if hasattr(result, "to_dataset") else result
    return np.asarray(table[name].values, dtype=float)


def row(loss, rates, dtype: str, tune: int | None) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model, method = bd.Model(loss, rates=rates), bd.Gibbs(dtype=dtype)
    wall = []
    for seed in (0, 1):
        start, cpu = time.perf_counter(), time.process_time()
        post = bd.sample(model, X, y, tune=tune, seed=seed, method=method, progress=False)
        wall.append((time.perf_counter() - start, time.process_time() - cpu))
    posterior = dataset(post, "posterior")
    rhat = az.rhat(posterior)
    bulk, tail = az.ess(posterior, method="bulk"), az.ess(posterior, method="tail")
    worst = max(values(rhat, name).max() for name in NAMES)
    cells = [f"{values(bulk, name).min():.0f} / {values(tail, name).min():.0f}" for name in NAMES]
    least = min(values(bulk, name).min() for name in NAMES)
    print(
        f"| {type(loss).__name__} | {type(rates).__name__} | {dtype} | {wall[0][0]:.1f} ({wall[0][1]:.1f}) "
        f"| {wall[1][0]:.1f} ({wall[1][1]:.1f}) | {worst:.4f} | {' | '.join(cells)} | {least / wall[1][0]:.1f} |",
        flush=True,
    )


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)  # the table says what the warning would
    dtype = sys.argv[1] if len(sys.argv) > 1 else "float32"
    tune = int(sys.argv[2]) if len(sys.argv) > 2 else None
    print(
        "| loss | rates | dtype | first call, s (CPU) | second, s (CPU) | max R-hat | weight bulk / tail "
        "| rate bulk / tail | intercept bulk / tail | min bulk ESS/s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for loss in (bd.Hinge(), bd.Logistic()):
        for rates in (bd.PerFeature(bd.Beta(1, 1)), bd.PerGroup([d % 10 for d in range(30)]), bd.Shared()):
            row(loss, rates, dtype, tune)


if __name__ == "__main__":
    main()
